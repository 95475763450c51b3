//! `limulus runs watch`: draws a run that some process is doing, from its beginning on. It owns nothing, and ends nothing.

use std::time::Duration;

use clap::Args;
use engine::{ReceiptRow, RunId};
use gateway::show::lookup::{self, FoundRun};
use journal::{Read as _, Reader};
use protocol::Event;
use protocol::event::RunEnd;

use super::agent::never_began;
use super::follower::{can_ask, quit_on_signals};
use super::stream::{Followed, StreamReader, StreamTarget};
use crate::config::Globals;
use crate::error::CliError;
use crate::owner_client::{OwnerClient, failed, look};
use crate::render::{Screen, Style};
use crate::show::choice::RunChoice;

/// How often an owner is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Watch a run: its answer as it comes, its tool calls, what it waits for. Ends with it, and with its exit code
#[derive(Debug, Args)]
#[command(
    after_help = "Ctrl-C leaves the run alone: `limulus runs abort` ends it. On a terminal its questions are put here too. \
                  A run that has not begun ends with its message: taken back or pushed out of the queue, exit 130; taken \
                  along by another run, that one is watched on."
)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    choice: RunChoice,
    /// Go on behind this line of an earlier watch [default: from the run's beginning]
    #[arg(long, value_name = "CURSOR")]
    from: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: WatchArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    let FoundRun { run, session, .. } = lookup::run(&reader, &args.choice.into())?;
    quit_on_signals()?;
    let screen = Screen::new(Style::of_stdout(args.json, 1), 1);
    let lines = StreamReader::new(StreamTarget::Run(session.key, run), reader, true, args.from, screen);
    let mut watch = Watch { globals, run, lines, told: false, settled: false };
    let ended = watch.until_ended().await?;
    super::agent::outcome(watch.run, &ended)
}

struct Watch<'a> {
    globals: &'a Globals,
    run: RunId,
    lines: StreamReader,
    /// That there is no owner was said.
    told: bool,
    /// That its message waits no more was drawn.
    settled: bool,
}

/// What a line of the run says.
enum Seen {
    /// The run has ended.
    Ended(RunEnd),
    /// Its message waits no more: what became of it is in its receipt.
    Settled,
}

impl Watch<'_> {
    async fn until_ended(&mut self) -> Result<RunEnd, CliError> {
        loop {
            if let Some(ended) = self.became()? {
                return Ok(ended);
            }
            let greeted = look(&self.globals.home, can_ask()).await;
            let seen = match greeted {
                Some(Ok(owner_client)) => self.follow(owner_client).await?,
                // One that does not greet leaves the journal to be read.
                Some(Err(_)) | None => self.read()?.map(Seen::Ended),
            };
            match seen {
                Some(Seen::Ended(ended)) => return Ok(ended),
                Some(Seen::Settled) => {}
                None => self.wait().await,
            }
        }
    }

    /// What became of the message that was to begin the run: its end where it never will, else the run that took it, which is
    /// watched from here on.
    fn became(&mut self) -> Result<Option<RunEnd>, CliError> {
        let Some(receipt) = self.receipt()? else { return Ok(None) };
        if receipt.run != self.run {
            let screen = self.lines.screen();
            screen.say(&format!("… the message is a part of run {}, which is watched instead", receipt.run));
            self.run = receipt.run;
            if let StreamTarget::Run(_, run) = &mut self.lines.target {
                *run = receipt.run;
            }
        }
        let ended = never_began(receipt.state);
        if ended.is_some() && !self.settled {
            // It came to that before anybody listened: the line is in the journal.
            self.read()?;
        }
        Ok(ended)
    }

    fn receipt(&self) -> Result<Option<ReceiptRow>, CliError> {
        Ok(self.lines.reader.receipt(self.run.into())?)
    }

    /// Draws what an owner tells, until the run has ended or the owner is gone.
    async fn follow(&mut self, owner_client: OwnerClient) -> Result<Option<Seen>, CliError> {
        if std::mem::take(&mut self.told) {
            self.lines.screen().say("… the home has an owner again");
        }
        let (run, settled) = (self.run, &mut self.settled);
        let see = |event: &Event| {
            let ended = end(run, event).map(Seen::Ended);
            *settled |= ended.is_none() && event.settles(run);
            ended.or_else(|| event.settles(run).then_some(Seen::Settled))
        };
        match self.lines.follow(owner_client, see).await? {
            Followed::Enough(seen) => Ok(Some(seen)),
            Followed::Gone => Ok(None),
            // Its message was settled between the look at it and this.
            Followed::Refused(_) if self.receipt()?.is_some_and(|receipt| is_settled(&receipt)) => {
                Ok(Some(Seen::Settled))
            }
            Followed::Refused(error) => Err(failed(error)),
        }
    }

    /// Draws what the journal has.
    fn read(&mut self) -> Result<Option<RunEnd>, CliError> {
        let (run, settled) = (self.run, &mut self.settled);
        // Without an owner the state is what it was left in.
        let of_run = |event: &Event| (event.run == Some(run) || event.settles(run)) && !event.is_state();
        let ended = self.lines.read(of_run, |event| {
            *settled |= event.settles(run);
            end(run, event)
        })?;
        if ended.is_some() {
            self.lines.screen().hide_status();
        }
        Ok(ended)
    }

    /// Until the next look.
    async fn wait(&mut self) {
        if !std::mem::replace(&mut self.told, true) {
            let key = self.lines.target.key().to_owned();
            self.lines.screen().say(&format!(
                "… no process that answers owns this home: `limulus resume {key}` continues the run; waiting for an owner"
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether a message waits no more and began no run of its own.
fn is_settled(receipt: &ReceiptRow) -> bool {
    never_began(receipt.state).is_some() || receipt.run != receipt.message.into()
}

/// How this run ended, if the line tells it.
fn end(run: RunId, event: &Event) -> Option<RunEnd> {
    event.run_end().filter(|_| event.run == Some(run)).cloned()
}
