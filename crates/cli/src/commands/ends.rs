//! How the runs that a command followed have ended, and the exit code that follows from it.

use engine::{Outcome, RunId};
use journal::Reader;
use protocol::Event;

use super::paused::PausedRun;
use super::task;
use crate::error::{CliError, Exit};
use crate::render::Screen;

/// The ends of runs so far.
#[derive(Debug, Default)]
pub(super) struct Ends {
    outcomes: Vec<Outcome>,
    /// How many of their answers are incomplete.
    incomplete: usize,
    /// The runs with a whole answer, each with its text if that is to fit a schema.
    structured: Vec<(RunId, String)>,
    /// The runs that have paused.
    paused: Vec<PausedRun>,
}

impl Ends {
    /// Notes the end of a run, and says what is missing of its answer.
    pub(super) fn see(&mut self, event: &Event, reader: &Reader, screen: &mut Screen) -> Result<(), CliError> {
        let (Some(end), Some(run)) = (event.run_end(), event.run) else { return Ok(()) };
        self.outcomes.push(end.outcome);
        if let Some(reason) = end.stop_reason {
            self.incomplete += 1;
            let why = reason.in_words();
            screen.say(&format!("! the answer of run {run} of {} is incomplete: {why}", event.session));
        }
        if let Some(failure) = &end.error {
            screen.say(&format!("✗ run {run} of {}: {failure}", event.session));
        }
        let is_whole = end.outcome == Outcome::Completed && end.stop_reason.is_none();
        if is_whole && task::schema_of(reader, run)?.is_some() {
            self.structured.push((run, end.text.clone()));
        }
        Ok(())
    }

    /// Notes a run that has paused.
    pub(super) fn pause(&mut self, paused: PausedRun) {
        self.paused.push(paused);
    }

    /// The result of the command: the worst of them. The other paused runs are named in lines of their own.
    pub(super) async fn result(self, reader: &Reader, screen: &mut Screen) -> Result<(), CliError> {
        let Self { outcomes, incomplete, structured, paused } = self;
        let ended = ended(&outcomes, incomplete);
        let named = usize::from(ended.is_ok());
        for paused in paused.iter().skip(named) {
            screen.say(&paused.note());
        }
        ended?;
        let mut mismatches = vec![];
        for (run, text) in structured {
            mismatches.extend(task::must_fit(reader, run, &text).await.err());
        }
        match (mismatches.pop(), paused.first()) {
            (Some(mismatch), Some(paused)) => {
                screen.say(&paused.note());
                Err(mismatch)
            }
            (Some(mismatch), None) => Err(mismatch),
            (None, Some(paused)) => Err(paused.stopped()),
            (None, None) => Ok(()),
        }
    }
}

fn ended(outcomes: &[Outcome], incomplete: usize) -> Result<(), CliError> {
    let failed = outcomes.iter().filter(|outcome| **outcome != Outcome::Completed).count();
    if failed == 0 && incomplete > 0 {
        let what = format!("{incomplete} of {} answers are incomplete", outcomes.len());
        let hint = "send another message to continue".into();
        return Err(CliError::Failed { exit: Exit::Incomplete, what, hint });
    }
    if failed == 0 {
        return Ok(());
    }
    let exit = match outcomes {
        [Outcome::Aborted] => Exit::Aborted,
        [Outcome::TimedOut | Outcome::Stalled] => Exit::TimedOut,
        _ => Exit::RunFailed,
    };
    let what = format!("{failed} of {} runs did not complete", outcomes.len());
    Err(CliError::Failed {
        exit,
        what,
        hint: "`limulus runs list` shows them, `limulus runs trace RUN` shows why".into(),
    })
}
