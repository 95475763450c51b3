//! A paused run in words: where it stands, and the commands that go on with it.

use engine::tables::lifecycle::LifecycleKind;
use engine::{PauseCause, Run, RunId, SessionRow};
use journal::{Read as _, Reader};
use serde::Serialize;
use views::fold_branch;

use crate::error::{CliError, Exit};
use crate::output;
use crate::render::call_in_words;
use crate::show::json_line;

/// The run of a session that is paused or needs a human.
#[derive(Debug, Clone)]
pub(super) struct PausedRun {
    pub(super) run: RunId,
    /// The key of its session.
    pub(super) key: String,
    stands: Stands,
}

/// Why a run does not go on.
#[derive(Debug, Clone)]
enum Stands {
    /// It is paused.
    Paused {
        cause: PauseCause,
        /// Where it stands, without a full stop.
        place: String,
    },
    /// It needs a human.
    Held,
}

/// What a program receives of a message that waits behind a paused run.
#[derive(Debug, Serialize)]
pub(crate) struct WaitLine<'a> {
    kind: &'static str,
    /// The key of the session.
    session: &'a str,
    /// The run that is paused.
    run: RunId,
    message: String,
    hint: String,
}

impl PausedRun {
    /// The paused run of this session; none if it has none.
    pub(super) fn of(reader: &Reader, row: &SessionRow) -> Result<Option<Self>, CliError> {
        if row.lifecycle != LifecycleKind::Suspended {
            return Ok(None);
        }
        let session = fold_branch(reader, row)?;
        let Some((run, pause)) = session.run().and_then(|run| Some((run, run.pause?))) else { return Ok(None) };
        let call = pause.call.and_then(|call| run.call(call));
        let place = match (call, pause.state, pause.cause) {
            (Some(call), _, _) => {
                let arguments = reader.body(&call.arguments.hash)?.unwrap_or_default();
                let wanted = call_in_words(&call.tool, &String::from_utf8_lossy(&arguments));
                format!("stopped before `{}`, at a breakpoint; the agent wants: {wanted}", call.tool)
            }
            (None, Some(state), _) => format!("stopped in `{}`, at a breakpoint", state.name()),
            (None, None, PauseCause::Interrupt) => "paused for a message that interrupts it".to_owned(),
            (None, None, PauseCause::User | PauseCause::Breakpoint) => paused_by_hand(run),
        };
        Ok(Some(Self { run: run.id, key: row.key.clone(), stands: Stands::Paused { cause: pause.cause, place } }))
    }

    /// The paused run of the session of this key.
    pub(super) fn of_key(reader: &Reader, key: &str) -> Result<Option<Self>, CliError> {
        reader.session(key)?.map_or(Ok(None), |row| Self::of(reader, &row))
    }

    /// This run, if it needs a human.
    pub(super) fn held(reader: &Reader, key: &str, run: RunId) -> Result<Option<Self>, CliError> {
        let row = reader.session(key)?.filter(|row| row.lifecycle == LifecycleKind::Error && row.run == Some(run));
        Ok(row.map(|row| Self { run, key: row.key, stands: Stands::Held }))
    }

    /// The error with exit code 124 of a command that does not wait for it any longer.
    pub(super) fn timed_out(&self) -> CliError {
        let what = format!("the time is over; {}", self.sentence());
        CliError::Failed { exit: Exit::TimedOut, what, hint: self.ways() }
    }

    /// Whether a breakpoint has stopped it.
    pub(super) fn is_at_breakpoint(&self) -> bool {
        matches!(self.stands, Stands::Paused { cause: PauseCause::Breakpoint, .. })
    }

    /// The error with exit code 6 of a command that followed the run: nobody here resumes it.
    pub(super) fn stopped(&self) -> CliError {
        let what = match &self.stands {
            Stands::Paused { place, .. } => place.clone(),
            Stands::Held => self.sentence(),
        };
        CliError::Failed { exit: Exit::Paused, what, hint: self.ways() }
    }

    /// The error of a command that could only resume it if it were not paused.
    pub(super) fn rests(&self) -> CliError {
        CliError::Failed { exit: Exit::Paused, what: self.sentence(), hint: self.ways() }
    }

    /// The same in one line.
    pub(super) fn note(&self) -> String {
        format!("{}: {}", self.sentence(), self.ways())
    }

    /// What is said to who waits for the session.
    pub(super) fn wait_line(&self) -> WaitLine<'_> {
        WaitLine { kind: "waits", session: &self.key, run: self.run, message: self.sentence(), hint: self.ways() }
    }

    /// Says on stderr that the command waits for it.
    pub(super) fn say(&self, as_json: bool) {
        if as_json {
            output::say_text(&json_line(&self.wait_line()));
        } else {
            output::say_lines(&format!("… {}", self.note()));
        }
    }

    fn sentence(&self) -> String {
        let Self { run, key, .. } = self;
        match &self.stands {
            Stands::Paused { place, .. } => format!("run {run} of {key} is paused ({place})"),
            Stands::Held => format!("run {run} of {key} needs a human"),
        }
    }

    fn ways(&self) -> String {
        let Self { run, key, .. } = self;
        match self.stands {
            Stands::Paused { .. } => {
                format!("`limulus runs resume {run}` goes on with it, `limulus runs abort {run}` ends the run")
            }
            Stands::Held => {
                format!("`limulus resume {key} --force` repairs and resumes it, `limulus runs abort {run}` ends it")
            }
        }
    }
}

/// The pauses of a session that a command waits for: each is named once.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    key: String,
    /// The paused run that was named.
    named: Option<RunId>,
}

impl Pauses {
    pub(super) fn of(key: String) -> Self {
        Self { key, named: None }
    }

    /// The run of the session that is paused or needs a human, if it was not named since then.
    pub(super) fn news(&mut self, reader: &Reader) -> Result<Option<PausedRun>, CliError> {
        use LifecycleKind::{Error, Suspended};
        let row = reader.session(&self.key)?.filter(|row| matches!(row.lifecycle, Suspended | Error));
        let Some((run, row)) = row.and_then(|row| Some((row.run?, row))) else {
            self.named = None;
            return Ok(None);
        };
        if self.named.replace(run) == Some(run) {
            return Ok(None);
        }
        if row.lifecycle == Error {
            return Ok(Some(PausedRun { run, key: row.key, stands: Stands::Held }));
        }
        PausedRun::of(reader, &row)
    }

    /// Whether the run that is paused now was named.
    pub(super) fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// The session is not paused any more.
    pub(super) fn over(&mut self) {
        self.named = None;
    }
}

fn paused_by_hand(run: &Run) -> String {
    format!("somebody paused it in `{}`", run.state().name())
}
