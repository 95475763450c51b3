//! What a command can end with other than its answer: five kinds, each with a hint and an exit code. What may not live
//! here: text about any one command.

use std::process::ExitCode;

use journal::Kind;

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

const REPORT: &str = "this is a bug in limulus: please report it with the output of `limulus status --json`";

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
            Self::Bug { .. } => REPORT,
        }
    }

    /// Says it on stderr.
    pub(crate) fn print(&self) {
        eprint!("{}", self.report());
    }

    /// Two lines for stderr. Where what happened has more than one line, the others say what to do.
    fn report(&self) -> String {
        let text = self.to_string();
        let (what, advice) = text.split_once('\n').unwrap_or((&text, ""));
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

/// The journal writes its errors as `what happened: what to do`.
fn advice(text: &str) -> (String, String) {
    let (what, hint) = text.rsplit_once(": ").unwrap_or((text, ""));
    (what.to_owned(), hint.to_owned())
}

impl From<journal::Error> for CliError {
    fn from(error: journal::Error) -> Self {
        let text = error.to_string();
        let (what, hint) = advice(&text);
        match error.kind() {
            Kind::NotFound => Self::not_found(what, hint),
            Kind::Owned if matches!(error, journal::Error::Owned { .. }) => {
                Self::Refused { exit: Exit::Owned, what, hint }
            }
            Kind::Owned => {
                let hint = "another limulus took the home over: ask again, it answers from there".to_owned();
                Self::Refused { exit: Exit::Owned, what: text, hint }
            }
            Kind::Newer => {
                let hint = "use the newer limulus that wrote it; other sessions of this home still work".to_owned();
                Self::Failed { exit: Exit::Damaged, what: text, hint }
            }
            Kind::Older => Self::Refused { exit: Exit::Refused, what, hint },
            Kind::Damaged if matches!(error, journal::Error::Unreadable { .. }) => {
                let hint = "`limulus doctor` says what can be done; other sessions of it still work".to_owned();
                Self::Failed { exit: Exit::Damaged, what: text, hint }
            }
            Kind::Damaged => Self::Failed { exit: Exit::Damaged, what, hint },
            Kind::Store => Self::Failed { exit: Exit::Store, what, hint },
            Kind::Refused => Self::Bug { what: text },
        }
    }
}

impl From<runtime::Error> for CliError {
    fn from(error: runtime::Error) -> Self {
        match error {
            runtime::Error::Journal(error) => error.into(),
            runtime::Error::Refused(refusal) => refusal.into(),
            runtime::Error::Damaged { .. } => {
                let (what, hint) = advice(&error.to_string());
                Self::Failed { exit: Exit::Damaged, what, hint }
            }
        }
    }
}

impl From<engine::Refusal> for CliError {
    fn from(refusal: engine::Refusal) -> Self {
        use engine::Refusal;
        let what = refusal.to_string();
        let refused = |hint: &str| Self::Refused { exit: Exit::Refused, what: what.clone(), hint: hint.to_owned() };
        match &refusal {
            Refusal::NotFound { .. } => Self::not_found(what, "`limulus runs list` shows what there is"),
            Refusal::Conflict { .. } => refused("send the new message under a new key"),
            Refusal::State { .. } => refused("`limulus status` shows the session and what it waits for"),
            Refusal::Stale => refused("answer the question that is open now, if there is one"),
            Refusal::Unsupported { .. } => refused("`limulus help` lists what this version can do"),
            Refusal::Unavailable { .. } => Self::Failed {
                exit: Exit::Store,
                what,
                hint: "nothing acknowledged is lost: mend that, then `limulus resume`".to_owned(),
            },
        }
    }
}

impl From<engine::RecoverError> for CliError {
    fn from(error: engine::RecoverError) -> Self {
        Self::Failed {
            exit: Exit::Damaged,
            what: format!("the journal does not add up: {error}"),
            hint: "nothing was changed; `limulus doctor` says what can be done".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn every_journal_error_has_its_exit_code_and_a_hint() {
        let home = PathBuf::from("/h");
        let branch = engine::BranchId(uuid::Uuid::nil());
        let check = |error: journal::Error, exit: Exit, what: &str, hint: &str| {
            let shown = CliError::from(error);
            assert_eq!((shown.exit(), shown.to_string().as_str()), (exit, what));
            assert!(shown.hint().contains(hint), "{}: {}", what, shown.hint());
        };
        let owned = |pid| journal::Error::Owned { home: home.clone(), pid, since: Some("2026-11-21T03:00:00Z".into()) };
        check(owned(Some(7)), Exit::Owned, "/h is owned by pid 7, since 2026-11-21T03:00:00Z", "--wait");
        let missing = journal::Error::NotFound { home: home.clone() };
        check(missing, Exit::NotFound, "no journal at /h", "limulus agent -m TEXT");
        let full = journal::Error::Full { path: home.clone() };
        check(full, Exit::Store, "no space left for /h", "free some");
        let detail = "open: permission denied".to_owned();
        let unwritable = journal::Error::Unwritable { path: home.clone(), detail };
        check(unwritable, Exit::Store, "cannot write to /h (open: permission denied)", "make it writable");
        let damaged = journal::Error::Damaged { path: home, detail: "torn".to_owned() };
        check(damaged, Exit::Damaged, "the journal /h is damaged (torn)", "limulus doctor");
        let error = engine::Event::decode("dreamt", 1, b"{}").unwrap_err();
        let newer = journal::Error::Unreadable { branch, seq: engine::Seq(3), error };
        let what = "entry 00000000-0000-0000-0000-000000000000@3: unknown event kind `dreamt`: this home was written by \
                    a newer limulus";
        check(newer, Exit::Damaged, what, "newer limulus");
        check(
            journal::Error::UnknownBranch { branch },
            Exit::Bug,
            "branch 00000000-0000-0000-0000-000000000000 does not exist",
            "report",
        );
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
