//! The errors of commands: five kinds, each with a hint and an exit code. Texts about a single command belong to that
//! command.

use std::process::ExitCode;

use config::ConfigError;
use protocol::{ClientError, ErrorCode, ErrorShape};
use serde::Serialize;

use crate::language;
use crate::output;
use crate::show::human::printable_line;
use crate::show::json_line;

/// The exit codes of all commands, except 0 for success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The run failed.
    RunFailed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The state does not allow it.
    Refused = 3,
    /// Nothing has that name.
    NotFound = 4,
    /// The run completed, but its answer is incomplete.
    Incomplete = 5,
    /// The run is paused, and waits.
    Paused = 6,
    /// The run completed, but its answer does not fit the schema that was asked for.
    SchemaMismatch = 7,
    /// A budget is used up and nobody is there to raise it; the run waits (`EX_UNAVAILABLE`).
    Budget = 69,
    /// The journal is corrupt (`EX_DATAERR`).
    Damaged = 65,
    /// A bug in limulus (`EX_SOFTWARE`).
    Bug = 70,
    /// The journal cannot be read or written (`EX_IOERR`).
    Store = 74,
    /// Another process owns the home (`EX_TEMPFAIL`).
    Owned = 75,
    /// The configuration is invalid (`EX_CONFIG`).
    Config = 78,
    /// A time limit was reached (the code of `timeout`).
    TimedOut = 124,
    /// The user ended the run (the code of a shell for SIGINT).
    Aborted = 130,
    /// SIGTERM stopped the process; the run is unfinished (the code of a shell for SIGTERM).
    Stopped = 143,
}

impl Exit {
    const ALL: [Self; 16] = [
        Self::RunFailed,
        Self::Usage,
        Self::Refused,
        Self::NotFound,
        Self::Incomplete,
        Self::Paused,
        Self::SchemaMismatch,
        Self::Budget,
        Self::Damaged,
        Self::Bug,
        Self::Store,
        Self::Owned,
        Self::Config,
        Self::TimedOut,
        Self::Aborted,
        Self::Stopped,
    ];

    /// Its name in the page about exit codes, and when a command ends with it.
    #[cfg(test)]
    fn contract(self) -> (&'static str, &'static str) {
        match self {
            Self::RunFailed => ("failed", "the run failed, or what a command tried did not work"),
            Self::Usage => (
                "usage",
                "the command line is wrong: an unknown command or flag, no message, a context that is too long; nothing was sent",
            ),
            Self::Refused => (
                "refused",
                "the state does not allow it, and nothing was changed; or a run of `agent` has completed, but something of it was denied because there was no terminal to ask on",
            ),
            Self::NotFound => ("not found", "no session, run, message or model has that name"),
            Self::Incomplete => ("incomplete", "the run completed, but its answer was cut at its limit or by a filter"),
            Self::Paused => (
                "paused",
                "the run stopped at a breakpoint (`--stop-before`, `runs break`), or somebody paused it; it waits until `limulus runs resume` resumes it",
            ),
            Self::SchemaMismatch => (
                "schema_mismatch",
                "the run completed, but its answer does not fit the schema of `--output-schema`, also at the second try",
            ),
            Self::Budget => ("budget", "a budget is used up and nobody is there to raise it; the run waits"),
            Self::Damaged => ("damaged", "the journal is corrupt"),
            Self::Bug => ("bug", "a bug in Limulus"),
            Self::Store => ("store", "the journal, or the file that was asked for, cannot be read or written"),
            Self::Owned => ("owned", "another process owns the home and does not answer; try again, or use `--wait`"),
            Self::Config => {
                ("config", "the configuration, a model or a folder that it names cannot be used; nothing was sent")
            }
            Self::TimedOut => ("timed out", "a time limit was reached, or the run made no progress for too long"),
            Self::Aborted => ("aborted", "you ended the run (Ctrl-C, `runs abort`), or another message took its place"),
            Self::Stopped => {
                ("stopped", "SIGTERM stopped the process; the run is unfinished, and `limulus resume` resumes it")
            }
        }
    }

    /// The exit code for an error of the protocol: the one in its details, if known, else one by its error code.
    fn of(shape: &ErrorShape) -> Self {
        let named =
            shape.details.as_ref().and_then(|details| Self::ALL.into_iter().find(|exit| *exit as u8 == details.exit));
        named.unwrap_or(match shape.code {
            ErrorCode::InvalidRequest => Self::Usage,
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::Conflict | ErrorCode::Refused | ErrorCode::Forbidden | ErrorCode::TooLarge => Self::Refused,
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

/// Why a command failed. `what` is one or two lines without a full stop, `hint` says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line is invalid.
    #[error("{what}")]
    Usage { what: String, hint: String },
    /// The configuration is invalid.
    #[error("{what}")]
    Config { what: String, hint: String },
    /// The current state does not allow it; nothing was changed.
    #[error("{what}")]
    Refused {
        /// Refused, NotFound or Owned.
        exit: Exit,
        what: String,
        hint: String,
    },
    /// The command was carried out and failed.
    #[error("{what}")]
    Failed {
        /// RunFailed, Incomplete, Paused, SchemaMismatch, Budget, Damaged, Store, TimedOut, Aborted or Stopped.
        exit: Exit,
        what: String,
        hint: String,
    },
    /// A bug in this program.
    #[error("{what}")]
    Bug { what: String },
}

/// How an error is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorStyle {
    /// Two lines for a person.
    Text,
    /// One line of JSON.
    Json,
}

/// An error for a program.
#[derive(Debug, Serialize)]
struct ErrorLine<'a> {
    kind: &'static str,
    /// The exit code.
    code: u8,
    message: &'a str,
    hint: &'a str,
}

impl CliError {
    /// An error for a name that does not exist.
    pub(crate) fn not_found(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { exit: Exit::NotFound, what: what.into(), hint: hint.into() }
    }

    /// A bug in this program.
    pub(crate) fn bug(what: &str) -> Self {
        Self::Bug { what: what.to_owned() }
    }

    /// The exit code of the process.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. } => Exit::Usage,
            Self::Config { .. } => Exit::Config,
            Self::Refused { exit, .. } | Self::Failed { exit, .. } => *exit,
            Self::Bug { .. } => Exit::Bug,
        }
    }

    pub(crate) fn hint(&self) -> &str {
        match self {
            Self::Usage { hint, .. }
            | Self::Config { hint, .. }
            | Self::Refused { hint, .. }
            | Self::Failed { hint, .. } => hint,
            Self::Bug { .. } => gateway::REPORT,
        }
    }

    /// Prints the error on stderr.
    pub(crate) fn print(&self, style: ErrorStyle) {
        match style {
            ErrorStyle::Text => output::say_lines(&self.report()),
            ErrorStyle::Json => output::say_text(&self.json()),
        }
    }

    /// The error as one line of JSON.
    fn json(&self) -> String {
        let kind = match self {
            Self::Usage { .. } => "usage",
            Self::Config { .. } => "config",
            Self::Refused { .. } => "refused",
            Self::Failed { .. } => "failed",
            Self::Bug { .. } => "bug",
        };
        json_line(&ErrorLine { kind, code: self.exit() as u8, message: &self.to_string(), hint: self.hint() })
    }

    /// The error and its hint, a line each. If `what` has two lines, the second one becomes part of the hint.
    fn report(&self) -> String {
        let mut text = self.to_string();
        if let Self::Usage { .. } | Self::Refused { exit: Exit::NotFound, .. } = self {
            // It repeats an argument, which must not look like another line of the report.
            text = printable_line(&text).into_owned();
        }
        // With more than two lines, `what` is a list.
        let two = text.split_once('\n').filter(|(_, rest)| !rest.contains('\n'));
        let (what, advice) = two.unwrap_or((&text, ""));
        let what = what.replace('\n', "\n  ");
        let hint: Vec<&str> =
            advice.lines().chain([self.hint()]).map(str::trim).filter(|line| !line.is_empty()).collect();
        match &hint[..] {
            [] => format!("limulus: {what}\n"),
            hint => {
                let hint: Vec<_> = hint.iter().map(|hint| language::text(hint)).collect();
                format!("limulus: {what}\n  hint: {}\n", hint.join(" "))
            }
        }
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::Config { what: error.to_string(), hint: error.hint() }
    }
}

/// The error of a request that another owner would refuse too.
pub(crate) fn failed(error: ClientError) -> CliError {
    client::Error::from(error).into()
}

impl From<client::Error> for CliError {
    fn from(error: client::Error) -> Self {
        let what = error.to_string();
        match error {
            client::Error::Refused(shape) => shape.into(),
            client::Error::Own(error) => error.into(),
            client::Error::TooLarge { .. } => Self::Refused {
                exit: Exit::Refused,
                what,
                hint: "send fewer files at once, or put them into the workspace and name them".into(),
            },
            client::Error::NothingNew { .. } => Self::Failed {
                exit: Exit::Store,
                what,
                hint: "the run continues there: `limulus runs show` has its answer when it has ended, and the output of the owner says what is wrong".into(),
            },
            client::Error::Cursor { .. } => Self::Usage {
                what,
                hint: "copy one from a line of the same session or of the whole home, or give none to start at the beginning".into(),
            },
            client::Error::Bug { what } => Self::Bug { what },
        }
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
            Exit::RunFailed
            | Exit::Incomplete
            | Exit::Paused
            | Exit::SchemaMismatch
            | Exit::Budget
            | Exit::Damaged
            | Exit::Store
            | Exit::TimedOut
            | Exit::Aborted
            | Exit::Stopped => Self::Failed { exit, what, hint },
        }
    }
}

/// Converts as for the wire, so that an error reads the same with and without an owner.
macro_rules! said_as_over_the_wire {
    ($($error:ty),+) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                gateway::Error::from(error).shape().into()
            }
        })+
    };
}

said_as_over_the_wire!(
    gateway::Error,
    views::Error,
    journal::Error,
    runtime::Error,
    engine::Refusal,
    engine::RecoverError
);

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
        let error = CliError::not_found("no run `x\nAll is well`", "`limulus runs list` shows them");
        assert!(error.report().starts_with("limulus: no run `x\\nAll is well`\n"), "r22: {}", error.report());
        let (what, hint) = ("acme does not answer\nIs it running?".to_owned(), "`limulus runs trace`".to_owned());
        let failed = CliError::Failed { exit: Exit::RunFailed, what, hint };
        assert_eq!(failed.report(), "limulus: acme does not answer\n  hint: Is it running? `limulus runs trace`\n");
        let refused = CliError::from(engine::Refusal::Unavailable { reason: "disk".to_owned() });
        assert_eq!(refused.exit(), Exit::Store);
    }

    /// `UPDATE=1` writes it.
    #[test]
    fn r24_the_page_about_exit_codes_has_the_table() {
        let mut exits = Exit::ALL.to_vec();
        exits.sort_by_key(|exit| *exit as u8);
        let rows = exits.into_iter().map(|exit| {
            let (name, when) = exit.contract();
            format!("| {} | {name} | {when} |\n", exit as u8)
        });
        let first = "| code | name | when |\n|---|---|---|\n| 0 | done | the command did what it was asked to do |\n";
        let table = first.to_owned() + &rows.collect::<String>();
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
        let page = std::fs::read_to_string(&file).unwrap();
        let from = page.find("| code |").unwrap();
        let to = page[from..].find("\n\n").map_or(page.len(), |length| from + length + 1);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, [&page[..from], &table, &page[to..]].concat()).unwrap();
            return;
        }
        assert_eq!(page[from..to], table, "UPDATE=1 writes it");
    }
}
