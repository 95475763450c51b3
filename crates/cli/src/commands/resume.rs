//! `limulus resume`: takes up what was not finished, and waits until each run has ended or waits for a human.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use engine::tables::lifecycle::LifecycleKind;
use engine::{Command, Outcome, SessionRow};
use gateway::SessionKey;
use journal::Read as _;
use protocol::Event;
use protocol::event::{StateLine, Stream};

use super::writer::{Happening, Writer};
use crate::args::WriterArgs;
use crate::config::{Config, Globals};
use crate::error::{CliError, Exit};

/// Take up what was not finished: one session, or all.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The session; without it all that have unfinished work
    key: Option<String>,
    /// Mend a session that needs a human, and take its held run up again
    #[arg(long, requires = "key")]
    force: bool,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) async fn run(args: ResumeArgs, globals: &Globals) -> Result<(), CliError> {
    let key = args.key.as_deref().map(|key| SessionKey::parse(Some(key))).transpose()?;
    let config = Arc::new(Config::load(&globals.home, &globals.environment, args.writer.flags())?);
    // Nothing to take up is no reason to make a home.
    let unfinished = journal::Reader::open(&globals.home)?.unfinished()?.len();
    let sessions = if key.is_some() { 1 } else { unfinished };
    let mut writer = Writer::open(globals, config, &args.writer, sessions).await?;
    let journal = Arc::clone(writer.runtime.journal());
    let rows = if let Some(key) = &key {
        vec![session(journal.as_ref(), key)?]
    } else {
        // By their index: what is parked is not looked at.
        journal.unfinished()?.into_iter().chain(journal.held()?).collect()
    };
    let open: Vec<String> = rows.into_iter().filter(is_open).map(|row| row.key).collect();
    let followed = follow(&mut writer, &open, args.force).await;
    let closed = writer.close().await;
    followed.and(closed)
}

fn session(read: &dyn journal::Journal, key: &SessionKey) -> Result<SessionRow, CliError> {
    read.session(&key.to_string())?
        .ok_or_else(|| CliError::not_found(format!("there is no session {key}"), "`limulus sessions list` shows them"))
}

async fn follow(writer: &mut Writer, open: &[String], force: bool) -> Result<(), CliError> {
    if open.is_empty() {
        writer.screen.say("nothing is unfinished");
        return Ok(());
    }
    for key in open {
        let first = if force { vec![Command::Recover { force }] } else { vec![] };
        writer.session(&SessionKey::parse(Some(key))?, first).await?;
    }
    let mut busy: BTreeMap<&str, Busy> = open.iter().map(|key| (key.as_str(), Busy::default())).collect();
    let (mut outcomes, mut interrupts, mut held) = (vec![], 0, None);
    while !busy.is_empty() {
        match writer.next().await? {
            Happening::Told(event) => {
                if let Some(end) = event.run_end() {
                    outcomes.push(end.outcome);
                    if let (Some(failure), Some(run)) = (&end.error, event.run) {
                        writer.screen.say(&format!("✗ run {run} of {}: {failure}", event.session));
                    }
                }
                let Some(lifecycle) = busy.get_mut(event.session.as_str()).and_then(|busy| busy.see(&event)) else {
                    continue;
                };
                if is_unfinished(writer, &event.session)? {
                    continue;
                }
                busy.remove(event.session.as_str());
                if lifecycle == LifecycleKind::Error {
                    held = Some(event.session);
                }
            }
            Happening::Interrupt => {
                interrupts += 1;
                if interrupts > 1 {
                    super::agent::quit();
                }
                writer.abort_all();
            }
        }
    }
    ended(&outcomes, held)
}

/// Whether there is something to take up, or to tell a human.
fn is_open(row: &SessionRow) -> bool {
    row.unfinished || row.lifecycle == LifecycleKind::Error
}

/// Whether a session that has no run to follow ends processes still. It is looked at again whenever something is told of it.
fn is_unfinished(writer: &Writer, key: &str) -> Result<bool, CliError> {
    Ok(writer.runtime.journal().session(key)?.is_some_and(|row| row.unfinished))
}

/// A session that is followed until it goes on by itself no more.
#[derive(Debug, Default)]
struct Busy {
    /// A run of it was seen, and its end was not.
    has_run: bool,
    rests: Option<LifecycleKind>,
}

impl Busy {
    /// What its lifecycle is when there is nothing more to follow: the end of a run is told last.
    fn see(&mut self, event: &Event) -> Option<LifecycleKind> {
        self.has_run = event.run_end().is_none() && (self.has_run || event.run.is_some());
        if let Stream::State(StateLine::Changed { .. }) = event.what {
            self.rests = rests(event);
        }
        let is_over = |lifecycle: &LifecycleKind| !self.has_run || !matches!(lifecycle, LifecycleKind::Idle);
        self.rests.filter(is_over)
    }
}

/// The lifecycle of a session that goes on by itself no more.
fn rests(event: &Event) -> Option<LifecycleKind> {
    let Stream::State(StateLine::Changed { lifecycle, flags, .. }) = &event.what else { return None };
    let rests = match lifecycle {
        LifecycleKind::Ready | LifecycleKind::Idle => !flags.is_waiting,
        LifecycleKind::Suspended | LifecycleKind::Error | LifecycleKind::Terminated => true,
        LifecycleKind::Initializing | LifecycleKind::Active | LifecycleKind::Recovering => false,
    };
    rests.then_some(*lifecycle)
}

fn ended(outcomes: &[Outcome], held: Option<String>) -> Result<(), CliError> {
    if let Some(key) = held {
        let what = format!("session {key} needs a human");
        return Err(CliError::Refused {
            exit: Exit::Refused,
            what,
            hint: format!("`limulus resume {key} --force` takes it up again"),
        });
    }
    let failed = outcomes.iter().filter(|outcome| **outcome != Outcome::Completed).count();
    if failed == 0 {
        return Ok(());
    }
    let exit = match outcomes {
        [Outcome::Aborted] => Exit::Aborted,
        [Outcome::TimedOut] => Exit::TimedOut,
        _ => Exit::RunFailed,
    };
    let what = format!("{failed} of {} runs did not complete", outcomes.len());
    Err(CliError::Failed {
        exit,
        what,
        hint: "`limulus runs list` shows them, `limulus runs trace RUN` tells why".into(),
    })
}
