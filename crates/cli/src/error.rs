//! What a command can end with other than its answer: five kinds, each with a hint and an exit code. What may not live
//! here: text about any one command.

use std::process::ExitCode;

use protocol::{ErrorCode, ErrorShape};

use crate::config::ConfigError;

/// The exit codes of every command, but 0: done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The run failed.
    RunFailed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The state does not allow it.
    Refused = 3,
    /// There is nothing of that name.
    NotFound = 4,
    /// The journal is not what it should be (`EX_DATAERR`).
    Damaged = 65,
    /// A bug in limulus (`EX_SOFTWARE`).
    Bug = 70,
    /// The journal cannot be read or written (`EX_IOERR`).
    Store = 74,
    /// Another process owns the home (`EX_TEMPFAIL`).
    Owned = 75,
    /// The configuration (`EX_CONFIG`).
    Config = 78,
    /// The run's own limit (as `timeout` has it).
    TimedOut = 124,
    /// The user ended the run (as a shell has it for SIGINT).
    Aborted = 130,
    /// A SIGTERM stopped the process and left the run as it was (as a shell has it for SIGTERM).
    Stopped = 143,
}

impl Exit {
    const ALL: [Self; 12] = [
        Self::RunFailed,
        Self::Usage,
        Self::Refused,
        Self::NotFound,
        Self::Damaged,
        Self::Bug,
        Self::Store,
        Self::Owned,
        Self::Config,
        Self::TimedOut,
        Self::Aborted,
        Self::Stopped,
    ];

    /// What an error of the wire ends a command with: the code that it names, if that is one of ours.
    fn of(shape: &ErrorShape) -> Self {
        let named =
            shape.details.as_ref().and_then(|details| Self::ALL.into_iter().find(|exit| *exit as u8 == details.exit));
        named.unwrap_or(match shape.code {
            ErrorCode::InvalidRequest => Self::Usage,
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::Conflict | ErrorCode::Refused | ErrorCode::TooLarge => Self::Refused,
            ErrorCode::Unavailable => Self::Owned,
            ErrorCode::Config => Self::Config,
            ErrorCode::Damaged => Self::Damaged,
            ErrorCode::Store => Self::Store,
            ErrorCode::Bug => Self::Bug,
        })
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what was asked. `what` is one or two lines without a full stop, `hint` says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line makes no sense.
    #[error("{what}")]
    Usage {
        /// What is wrong with it.
        what: String,
        /// What to type instead.
        hint: String,
    },
    /// The configuration makes no sense.
    #[error("{what}")]
    Config {
        /// What is wrong, and where.
        what: String,
        /// What to write instead.
        hint: String,
    },
    /// It cannot be done as things stand; nothing was changed.
    #[error("{what}")]
    Refused {
        /// Refused, NotFound or Owned.
        exit: Exit,
        /// What stands in the way.
        what: String,
        /// The way out.
        hint: String,
    },
    /// It was tried and failed.
    #[error("{what}")]
    Failed {
        /// RunFailed, Damaged, Store, TimedOut, Aborted or Stopped.
        exit: Exit,
        /// What happened.
        what: String,
        /// What to do now.
        hint: String,
    },
    /// A fault of this program.
    #[error("{what}")]
    Bug {
        /// What should never be.
        what: String,
    },
}

impl CliError {
    /// There is nothing of that name.
    pub(crate) fn not_found(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { exit: Exit::NotFound, what: what.into(), hint: hint.into() }
    }

    /// A fault of this program.
    pub(crate) fn bug(what: &str) -> Self {
        Self::Bug { what: what.to_owned() }
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. } => Exit::Usage,
            Self::Config { .. } => Exit::Config,
            Self::Refused { exit, .. } | Self::Failed { exit, .. } => *exit,
            Self::Bug { .. } => Exit::Bug,
        }
    }

    /// What to do.
    pub(crate) fn hint(&self) -> &str {
        match self {
            Self::Usage { hint, .. }
            | Self::Config { hint, .. }
            | Self::Refused { hint, .. }
            | Self::Failed { hint, .. } => hint,
            Self::Bug { .. } => gateway::REPORT,
        }
    }

    /// Says it on stderr.
    pub(crate) fn print(&self) {
        eprint!("{}", self.report());
    }

    /// Two lines for stderr. Where what happened has more than one line, the others say what to do.
    fn report(&self) -> String {
        let text = self.to_string();
        // More than two lines are a list.
        let two = text.split_once('\n').filter(|(_, rest)| !rest.contains('\n'));
        let (what, advice) = two.unwrap_or((&text, ""));
        let what = what.replace('\n', "\n  ");
        let hint: Vec<&str> =
            advice.lines().chain([self.hint()]).map(str::trim).filter(|line| !line.is_empty()).collect();
        match &hint[..] {
            [] => format!("limulus: {what}\n"),
            hint => format!("limulus: {what}\n  hint: {}\n", hint.join(" ")),
        }
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::Config { what: error.to_string(), hint: error.hint() }
    }
}

impl From<ErrorShape> for CliError {
    fn from(shape: ErrorShape) -> Self {
        let exit = Exit::of(&shape);
        let (what, hint) = (shape.message, shape.details.map(|details| details.hint).unwrap_or_default());
        match exit {
            Exit::Usage => Self::Usage { what, hint },
            Exit::Config => Self::Config { what, hint },
            Exit::Bug => Self::Bug { what },
            Exit::Refused | Exit::NotFound | Exit::Owned => Self::Refused { exit, what, hint },
            Exit::RunFailed | Exit::Damaged | Exit::Store | Exit::TimedOut | Exit::Aborted | Exit::Stopped => {
                Self::Failed { exit, what, hint }
            }
        }
    }
}

/// What a method may fail of is said in this process as it is said over the wire.
macro_rules! said_as_over_the_wire {
    ($($error:ty),+) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                gateway::Error::from(error).shape().into()
            }
        })+
    };
}

said_as_over_the_wire!(gateway::Error, journal::Error, runtime::Error, engine::Refusal, engine::RecoverError);

#[cfg(test)]
mod tests {
    use protocol::Details;

    use super::*;

    #[test]
    fn r61_what_an_owner_says_is_shown_as_if_it_had_happened_here() {
        let check = |code: ErrorCode, named: Option<u8>, exit: Exit| {
            let details = named.map(|exit| Details { hint: "do that".to_owned(), exit });
            let shape = ErrorShape { code, message: "this".into(), details, retryable: None, retry_after_ms: None };
            let error = CliError::from(shape);
            assert_eq!((error.exit(), error.to_string().as_str()), (exit, "this"));
            assert!(named.is_none() || exit == Exit::Bug || error.hint() == "do that");
        };
        for exit in Exit::ALL {
            check(ErrorCode::Bug, Some(exit as u8), exit);
        }
        // A program that sends no exit code, or one of another version.
        check(ErrorCode::InvalidRequest, None, Exit::Usage);
        check(ErrorCode::Conflict, None, Exit::Refused);
        check(ErrorCode::Unavailable, Some(99), Exit::Owned);
        let missing = journal::Error::NotFound { home: "/h".into() };
        let said = "limulus: no journal at /h\n  hint: run `limulus agent -m TEXT` first, or set LIMULUS_HOME\n";
        assert_eq!(CliError::from(missing).report(), said);
    }

    #[test]
    fn a_report_says_what_happened_and_what_to_do() {
        let error = CliError::not_found("no run `x`", "`limulus runs list` shows them");
        assert_eq!(error.report(), "limulus: no run `x`\n  hint: `limulus runs list` shows them\n");
        assert_eq!(error.exit() as u8, 4);
        let (what, hint) = ("acme does not answer\nIs it running?".to_owned(), "`limulus runs trace`".to_owned());
        let failed = CliError::Failed { exit: Exit::RunFailed, what, hint };
        assert_eq!(failed.report(), "limulus: acme does not answer\n  hint: Is it running? `limulus runs trace`\n");
        let refused = CliError::from(engine::Refusal::Unavailable { reason: "disk".to_owned() });
        assert_eq!(refused.exit(), Exit::Store);
    }
}
