//! `limulus runs watch`: draws a run that some process is doing, from its beginning on. It owns nothing, and ends nothing.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use engine::{ReceiptRow, RunId, SessionRow};
use gateway::events::{Cursor, before_run, catch_up};
use gateway::show::lookup::{self, FoundRun};
use journal::{Read, Reader};
use protocol::Event;
use protocol::event::RunEnd;
use protocol::method::SubscribeParams;

use super::agent::never_began;
use super::follower::{Follower, Happening, can_ask, quit_on_signals};
use crate::config::Globals;
use crate::error::CliError;
use crate::owner_client::{failed, is_gone, look};
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
    let (key, screen) = (session.key, Some(screen));
    let mut watch = Watch { globals, reader, run, key, seen: args.from, screen, told: false, settled: false };
    let ended = watch.until_ended().await?;
    super::agent::outcome(watch.run, &ended)
}

struct Watch<'a> {
    globals: &'a Globals,
    reader: Reader,
    run: RunId,
    key: String,
    /// The cursor of the last line that was drawn.
    seen: Option<String>,
    /// With a follower while an owner is followed.
    screen: Option<Screen>,
    /// That there is no owner was said.
    told: bool,
    /// That its message waits no more was drawn.
    settled: bool,
}

/// What following a run came to.
enum Followed {
    /// The run has ended.
    Ended(RunEnd),
    /// Its message waits no more: what became of it is in its receipt.
    Settled,
    /// No owner is there that tells more.
    Alone,
}

impl Watch<'_> {
    async fn until_ended(&mut self) -> Result<RunEnd, CliError> {
        loop {
            if let Some(ended) = self.became()? {
                return Ok(ended);
            }
            let greeted = look(&self.globals.home, can_ask()).await;
            let came_to = match greeted {
                Some(Ok(owner_client)) => {
                    let screen = self.screen.take().unwrap_or_else(|| Screen::new(Style::Plain, 1));
                    let mut follower = Follower::watch(owner_client, screen)?;
                    let came_to = self.follow(&mut follower).await;
                    let mut screen = follower.into_screen();
                    screen.hide_status();
                    self.screen = Some(screen);
                    came_to?
                }
                // One that does not greet leaves the journal to be read.
                Some(Err(_)) | None => self.read()?.map_or(Followed::Alone, Followed::Ended),
            };
            match came_to {
                Followed::Ended(ended) => return Ok(ended),
                Followed::Settled => {}
                Followed::Alone => self.wait().await,
            }
        }
    }

    /// What became of the message that was to begin the run: its end where it never will, else the run that took it, which is
    /// watched from here on.
    fn became(&mut self) -> Result<Option<RunEnd>, CliError> {
        let Some(receipt) = self.reader.receipt(self.run.into())? else { return Ok(None) };
        if receipt.run != self.run {
            let screen = self.screen.as_mut().expect("it is here while no owner is followed");
            screen.say(&format!("… the message is a part of run {}, which is watched from here on", receipt.run));
            self.run = receipt.run;
        }
        let ended = never_began(receipt.state);
        if ended.is_some() && !self.settled {
            // It came to that before anybody listened: the line is in the journal.
            self.read()?;
        }
        Ok(ended)
    }

    /// Draws what an owner tells, until the run has ended or the owner is gone.
    async fn follow(&mut self, follower: &mut Follower<'_>) -> Result<Followed, CliError> {
        if std::mem::take(&mut self.told) {
            follower.screen.say("… the home has an owner again");
        }
        let params = SubscribeParams {
            session: None,
            run: Some(self.run.to_string()),
            whole: self.seen.is_none(),
            from: self.seen.clone(),
            chat: false,
        };
        match follower.follow_from(&self.key, params).await {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Ok(Followed::Alone),
            // Its message was settled between the look at it and this.
            Err(error) if self.reader.receipt(self.run.into())?.is_some_and(|receipt| is_settled(&receipt)) => {
                drop(error);
                return Ok(Followed::Settled);
            }
            Err(error) => return Err(failed(error)),
        }
        loop {
            match follower.next().await? {
                Happening::Told(event) => {
                    self.seen = Some(event.cursor.clone());
                    if let Some(ended) = end(self.run, &event) {
                        return Ok(Followed::Ended(ended));
                    }
                    if event.settles(self.run) {
                        self.settled = true;
                        return Ok(Followed::Settled);
                    }
                }
                // Watching ends, the run does not.
                Happening::Interrupt => super::agent::quit(),
                Happening::Gone => return Ok(Followed::Alone),
            }
        }
    }

    /// Draws what the journal has.
    fn read(&mut self) -> Result<Option<RunEnd>, CliError> {
        let Some(row) = self.reader.session(&self.key)? else { return Ok(None) };
        for event in missed(&self.reader, &row, self.run, self.seen.as_deref())? {
            let screen = self.screen.as_mut().expect("it is here while no owner is followed");
            screen.draw(&event);
            self.seen = Some(event.cursor.clone());
            self.settled |= event.settles(self.run);
            if let Some(ended) = end(self.run, &event) {
                screen.hide_status();
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// Until the next look.
    async fn wait(&mut self) {
        if let Some(screen) = self.screen.as_mut().filter(|_| !std::mem::replace(&mut self.told, true)) {
            screen.say(&format!(
                "… no process that answers owns this home: `limulus resume {}` goes on with the run; waiting for an owner",
                self.key
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

/// The lines of a run that are in the journal behind this cursor.
fn missed(read: &dyn Read, row: &SessionRow, run: RunId, seen: Option<&str>) -> Result<Vec<Event>, CliError> {
    let from: Cursor = match seen {
        Some(seen) => cursor(seen)?,
        None => before_run(read, row, run)?,
    };
    let missed = catch_up(read, row, &from)?;
    // Without an owner the state is what it was left in.
    let of_run = |event: &Event| (event.run == Some(run) || event.settles(run)) && !event.is_state();
    Ok(missed.lines.into_iter().map(|line| line.event).filter(of_run).collect())
}

/// A cursor as it was received; the numbers behind it are the subscription's.
pub(crate) fn cursor<C: FromStr>(text: &str) -> Result<C, CliError> {
    let of_journal = text.split('#').next().unwrap_or_default();
    of_journal.parse().map_err(|_| CliError::Usage {
        what: format!("`{text}` is no cursor of this"),
        hint: "give one as a line had it, of the same session or of the whole home, or none to begin at the beginning"
            .into(),
    })
}
