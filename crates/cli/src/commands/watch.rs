//! `limulus runs watch`: draws a run of another process from its beginning. It never owns the home and never ends a
//! run.

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

/// Poll interval while waiting for an owner.
const LOOK: Duration = Duration::from_millis(200);

/// Watch a run: its answer, its tool calls, what it waits for; end with it, and with its exit code
#[derive(Debug, Args)]
#[command(
    after_help = "Ctrl-C does not end the run; `limulus runs abort` does. A terminal shows its approval requests too. \
                  If the message of a run that has not started is cancelled or dropped from the queue, the exit code \
                  is 130; if another run takes the message over, that run is watched."
)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    choice: RunChoice,
    /// Start after this line of an earlier watch [default: at the run's beginning]
    #[arg(long, value_name = "CURSOR")]
    from: Option<String>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: WatchArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    let FoundRun { run, session, .. } = lookup::run(&reader, &args.choice.into())?;
    quit_on_signals()?;
    let screen = Screen::new(Style::of_stdout(args.json, 1), 1);
    let (key, screen) = (session.key, Some(screen));
    let mut watch =
        Watch { globals, reader, run, key, seen: args.from, screen, no_owner_reported: false, settled: false };
    let ended = watch.until_ended().await?;
    super::agent::outcome(watch.run, &ended)
}

struct Watch<'a> {
    globals: &'a Globals,
    reader: Reader,
    run: RunId,
    key: String,
    /// The cursor of the last drawn line.
    seen: Option<String>,
    /// The follower has it while an owner is followed.
    screen: Option<Screen>,
    /// Whether the lack of an owner was reported.
    no_owner_reported: bool,
    /// Whether the end of the wait of its message was drawn.
    settled: bool,
}

/// Why following a run stopped.
enum Followed {
    /// The run has ended.
    Ended(RunEnd),
    /// Its message no longer waits; the receipt says what became of it.
    Settled,
    /// The owner went away.
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
                // If the handshake fails, read the journal.
                Some(Err(_)) | None => self.read()?.map_or(Followed::Alone, Followed::Ended),
            };
            match came_to {
                Followed::Ended(ended) => return Ok(ended),
                Followed::Settled => {}
                Followed::Alone => self.wait().await,
            }
        }
    }

    /// What became of the message that was to start the run: its end if the run never starts, else the run that took the
    /// message over, which is watched instead.
    fn became(&mut self) -> Result<Option<RunEnd>, CliError> {
        let Some(receipt) = self.reader.receipt(self.run.into())? else { return Ok(None) };
        if receipt.run != self.run {
            let screen = self.screen.as_mut().expect("it is here while no owner is followed");
            screen.say(&format!("… the message is a part of run {}, which is watched instead", receipt.run));
            self.run = receipt.run;
        }
        let ended = never_began(receipt.state);
        if ended.is_some() && !self.settled {
            // That happened before this command followed the run: the line is in the journal.
            self.read()?;
        }
        Ok(ended)
    }

    /// Draws the lines of an owner until the run has ended or the owner is gone.
    async fn follow(&mut self, follower: &mut Follower<'_>) -> Result<Followed, CliError> {
        if std::mem::take(&mut self.no_owner_reported) {
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
            // Its message was settled since the last check.
            Err(error) if self.reader.receipt(self.run.into())?.is_some_and(|receipt| is_settled(&receipt)) => {
                drop(error);
                return Ok(Followed::Settled);
            }
            Err(error) => return Err(failed(error)),
        }
        loop {
            match follower.next().await? {
                Happening::Recorded(event) => {
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

    /// Waits until the next check.
    async fn wait(&mut self) {
        if let Some(screen) = self.screen.as_mut().filter(|_| !std::mem::replace(&mut self.no_owner_reported, true)) {
            screen.say(&format!(
                "… no process that answers owns this home: `limulus resume {}` continues the run; waiting for an owner",
                self.key
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether a message no longer waits and started no run of its own.
fn is_settled(receipt: &ReceiptRow) -> bool {
    never_began(receipt.state).is_some() || receipt.run != receipt.message.into()
}

/// How this run ended, if the line is its end.
fn end(run: RunId, event: &Event) -> Option<RunEnd> {
    event.run_end().filter(|_| event.run == Some(run)).cloned()
}

/// The lines of a run in the journal after this cursor.
fn missed(read: &dyn Read, row: &SessionRow, run: RunId, seen: Option<&str>) -> Result<Vec<Event>, CliError> {
    let from: Cursor = match seen {
        Some(seen) => cursor(seen)?,
        None => before_run(read, row, run)?,
    };
    let missed = catch_up(read, row, &from)?;
    // Without an owner the recorded state is the current one.
    let of_run = |event: &Event| (event.run == Some(run) || event.settles(run)) && !event.is_state();
    Ok(missed.lines.into_iter().map(|line| line.event).filter(of_run).collect())
}

/// Parses a received cursor; the numbers after it belong to the subscription.
pub(crate) fn cursor<C: FromStr>(text: &str) -> Result<C, CliError> {
    let of_journal = text.split('#').next().unwrap_or_default();
    of_journal.parse().map_err(|_| CliError::Usage {
        what: format!("`{text}` is not a cursor of this session or home"),
        hint: "copy one from a line of the same session or of the whole home, or give none to start at the beginning"
            .into(),
    })
}
