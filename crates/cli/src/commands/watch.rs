//! `limulus runs watch`: draws a run that some process executes, from its beginning. It acquires no lock. If the
//! command ends, the run continues.

use clap::Args;
use client::{OwnerClient, StreamTarget, look};
use config::Globals;
use engine::tables::lifecycle::LifecycleKind;
use engine::{ReceiptRow, RunId};
use journal::{Read as _, Reader};
use protocol::Event;
use protocol::event::{RunEnd, StateLine, Stream};
use views::lookup::{self, FoundRun};

use super::agent::never_began;
use super::follower::{can_approve, quit_on_signals};
use super::paused::Pauses;
use super::stream::{DrawnStream, Followed};
use super::task::must_fit;
use super::unanswered::{LOOK, Unanswered};
use crate::args::AnswerArgs;
use crate::error::{CliError, failed};
use crate::render::{Screen, Style, set_markdown};
use crate::show::choice::RunChoice;

/// Watch a run: its answer, its tool calls and what it waits for; exit with the run's exit code
#[derive(Debug, Args)]
#[command(after_help = "Ctrl-C stops watching; `limulus runs abort` ends the run. Approval requests appear here too. \
                  If another run takes the message, that run is watched; if the message is cancelled or dropped, \
                  exit code 130.")]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(super) choice: RunChoice,
    /// Continue after this cursor of an earlier watch [default: from the run's beginning]
    #[arg(long, value_name = "CURSOR")]
    from: Option<String>,
    /// Show the output of every call
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    answers: AnswerArgs,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: WatchArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    let FoundRun { run, session, .. } = lookup::run(&reader, &args.choice.into())?;
    quit_on_signals()?;
    set_markdown(args.answers.markdown);
    let mut screen = Screen::new(Style::of_stdout(args.json, 1), 1);
    screen.read_outputs_of(&globals.home);
    if args.verbose {
        screen.show_detail();
    }
    let pauses = Pauses::of(session.key.clone());
    let stream = DrawnStream::new(StreamTarget::Run(session.key, run), reader, true, args.from, screen);
    let mut watch = Watch { globals, run, stream, pauses, unanswered: Unanswered::default(), settled: false };
    let ended = watch.until_ended().await?;
    super::agent::outcome(watch.run, &ended)?;
    must_fit(&watch.stream.lines.reader, watch.run, &ended.text).await
}

struct Watch<'a> {
    globals: &'a Globals,
    run: RunId,
    stream: DrawnStream,
    /// The pauses of its session.
    pauses: Pauses,
    unanswered: Unanswered,
    /// Whether the line was drawn that settled the message before its run started.
    settled: bool,
}

/// A line that ends this pass of the watch.
enum Seen {
    /// The run has ended.
    Ended(RunEnd),
    /// The message was settled before its run started; its receipt says how.
    Settled,
    /// The run has paused.
    Paused,
}

impl Watch<'_> {
    async fn until_ended(&mut self) -> Result<RunEnd, CliError> {
        loop {
            if let Some(ended) = self.check_receipt()? {
                return Ok(ended);
            }
            self.name_pause()?;
            let greeted = look(&self.globals.home, can_approve()).await;
            let seen = match greeted {
                Some(Ok(owner_client)) => self.follow(owner_client).await?,
                // An owner that does not complete the handshake: the journal is read instead.
                Some(Err(_)) | None => self.read()?.map(Seen::Ended),
            };
            match seen {
                Some(Seen::Ended(ended)) => return Ok(ended),
                Some(Seen::Settled | Seen::Paused) => {}
                None => self.wait().await?,
            }
        }
    }

    /// Says how the run goes on if it is paused or needs a human, once.
    fn name_pause(&mut self) -> Result<(), CliError> {
        if let Some(paused) = self.pauses.news(&self.stream.lines.reader)? {
            self.stream.screen().waits(&paused.note(), &paused.wait_line());
        }
        Ok(())
    }

    /// Checks the receipt of the message that starts the run. Returns the end if the run will never start. If another
    /// run took the message, that run is watched from here on.
    fn check_receipt(&mut self) -> Result<Option<RunEnd>, CliError> {
        let Some(receipt) = self.receipt()? else { return Ok(None) };
        if receipt.run != self.run {
            let screen = self.stream.screen();
            screen.say(&format!("… the message is a part of run {}, which is watched instead", receipt.run));
            self.run = receipt.run;
            if let StreamTarget::Run(_, run) = &mut self.stream.lines.target {
                *run = receipt.run;
            }
        }
        let ended = never_began(receipt.state);
        if ended.is_some() && !self.settled {
            // It was settled before the subscription: the line is in the journal.
            self.read()?;
        }
        Ok(ended)
    }

    fn receipt(&self) -> Result<Option<ReceiptRow>, CliError> {
        Ok(self.stream.lines.reader.receipt(self.run.into())?)
    }

    /// Draws the lines of an owner until the run has ended or the owner is gone.
    async fn follow(&mut self, owner_client: OwnerClient) -> Result<Option<Seen>, CliError> {
        if self.unanswered.reset() {
            self.stream.screen().say("… the home has an owner again");
        }
        let (run, settled, pauses) = (self.run, &mut self.settled, &mut self.pauses);
        let see = |event: &Event| {
            let ended = end(run, event).map(Seen::Ended);
            *settled |= ended.is_none() && event.settles(run);
            let has_paused = match &event.what {
                Stream::State(StateLine::Changed {
                    lifecycle: LifecycleKind::Suspended | LifecycleKind::Error,
                    ..
                }) => !pauses.is_named(),
                Stream::State(StateLine::Changed { .. }) => {
                    pauses.over();
                    false
                }
                _ => false,
            };
            let settles = event.settles(run).then_some(Seen::Settled);
            ended.or(settles).or_else(|| has_paused.then_some(Seen::Paused))
        };
        match self.stream.follow(owner_client, see).await? {
            Followed::Enough(seen) => Ok(Some(seen)),
            Followed::Gone => Ok(None),
            // Its message was settled after the receipt was read.
            Followed::Refused(_) if self.receipt()?.is_some_and(|receipt| is_settled(&receipt)) => {
                Ok(Some(Seen::Settled))
            }
            Followed::Refused(error) => Err(failed(error)),
        }
    }

    /// Draws the new lines of the journal.
    fn read(&mut self) -> Result<Option<RunEnd>, CliError> {
        let (run, settled) = (self.run, &mut self.settled);
        // Without an owner the state is the one of the last owner: not drawn.
        let of_run = |event: &Event| (event.run == Some(run) || event.settles(run)) && !event.is_state();
        let ended = self.stream.read(of_run, |event| {
            *settled |= event.settles(run);
            end(run, event)
        })?;
        if ended.is_some() {
            self.stream.screen().hide_status();
        }
        Ok(ended)
    }

    /// Waits until the next poll.
    async fn wait(&mut self) -> Result<(), CliError> {
        // It may have stopped since it was looked at. What is paused is not continued by an owner either, and is named.
        self.name_pause()?;
        if self.pauses.is_named() {
            self.unanswered.reset();
        } else if self.unanswered.is_news(&self.globals.home) {
            let key = self.stream.lines.target.key().to_owned();
            self.stream.screen().say(&format!(
                "… no process that answers owns this home: `limulus resume {key}` continues the run; waiting for an owner"
            ));
        }
        tokio::time::sleep(LOOK).await;
        Ok(())
    }
}

/// Whether a message no longer waits and started no run of its own.
fn is_settled(receipt: &ReceiptRow) -> bool {
    never_began(receipt.state).is_some() || receipt.run != receipt.message.into()
}

/// How this run ended, if this is its last line.
fn end(run: RunId, event: &Event) -> Option<RunEnd> {
    event.run_end().filter(|_| event.run == Some(run)).cloned()
}
