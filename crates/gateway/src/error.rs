//! The errors of methods and their single mapping to the wire. A command that fails in its own process uses the same
//! mapping, so it prints the same message and exits with the same code.

use engine::tables::lifecycle::LifecycleKind;
use engine::{RecoverError, Refusal};
use journal::Kind;
use protocol::limits::FRAME_BYTES;
use protocol::{Details, ErrorCode, ErrorShape, Scope};

use views::printable_line;

/// The hint for a bug in this program.
pub const REPORT: &str = "this is a bug in limulus: please report it with the output of `limulus status --json`";

/// Why a method failed. `what` has no full stop; `hint` says what to do.
#[allow(missing_docs, reason = "the variants' fields say it themselves")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The home or a session cannot be opened.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    /// The engine refuses it in the current state.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// The entries that were read do not fold.
    #[error("the journal is inconsistent: {0}")]
    Fold(#[from] RecoverError),
    /// The text is not a session key.
    #[error("`{key}` is not a session key")]
    SessionKey { key: String },
    /// The request is invalid.
    #[error("{what}")]
    Invalid { what: String, hint: String },
    /// No such session, run, message or entry exists.
    #[error("{what}")]
    NotFound {
        /// What does not exist.
        what: String,
        /// The command that lists what exists.
        hint: String,
    },
    /// The response does not fit into a frame.
    #[error("the response is larger than a frame ({} MiB)", FRAME_BYTES >> 20)]
    TooLarge,
    /// It is refused in the current state; nothing was changed.
    #[error("{what}")]
    State { what: String, hint: String },
    /// The client lacks a scope.
    #[error("`{method}` needs the scope `{scope}`, which this client has not")]
    Forbidden { method: &'static str, scope: Scope },
    /// It cannot be done at the moment; a retry may succeed.
    #[error("{what}")]
    Unavailable { what: String, hint: String },
    /// The configuration is invalid.
    #[error("{what}")]
    Config {
        /// What is wrong, and in which key.
        what: String,
        hint: String,
    },
    /// The journal is damaged.
    #[error("{what}")]
    Damaged {
        /// Which entry or file is damaged.
        what: String,
        hint: String,
    },
    /// A conversation is deleted, and what was said in it could not be erased.
    #[error("the conversation of {key} is deleted, and what was said in it is not erased: {why}")]
    NotErased { key: String, why: String },
    /// A bug in this program.
    #[error("{what}")]
    Bug {
        /// The condition that should never occur.
        what: String,
    },
}

/// The exit codes of the command line that errors of methods map to.
mod exit {
    pub(super) const USAGE: u8 = 2;
    pub(super) const REFUSED: u8 = 3;
    pub(super) const NOT_FOUND: u8 = 4;
    pub(super) const DAMAGED: u8 = 65;
    pub(super) const BUG: u8 = 70;
    pub(super) const STORE: u8 = 74;
    pub(super) const OWNED: u8 = 75;
    pub(super) const CONFIG: u8 = 78;
}

impl Error {
    /// A shorthand for [`Error::NotFound`].
    pub fn not_found(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::NotFound { what: what.into(), hint: hint.into() }
    }

    /// A shorthand for [`Error::Bug`].
    pub fn bug(what: impl Into<String>) -> Self {
        Self::Bug { what: what.into() }
    }

    /// A shorthand for [`Error::Invalid`].
    pub fn invalid(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), hint: hint.into() }
    }

    /// Maps the error to its shape on the wire.
    pub fn shape(&self) -> ErrorShape {
        let mut what = self.to_string();
        if let Self::SessionKey { .. } | Self::Invalid { .. } | Self::NotFound { .. } = self {
            // It repeats what a caller sent, which must not look like another line of the report.
            what = printable_line(&what).into_owned();
        }
        match self {
            Self::Journal(error) | Self::Runtime(runtime::Error::Journal(error)) => of_journal(error),
            Self::Refusal(refusal) | Self::Runtime(runtime::Error::Refused(refusal)) => of_refusal(refusal),
            Self::Runtime(runtime::Error::Damaged { .. }) => {
                let (what, hint) = advice(&what);
                shape(ErrorCode::Damaged, exit::DAMAGED, what, hint)
            }
            Self::Runtime(runtime::Error::Leaving) => {
                let (what, hint) = advice(&what);
                later(shape(ErrorCode::Unavailable, exit::OWNED, what, hint))
            }
            Self::Fold(_) => {
                let hint = "nothing was changed; `limulus doctor` shows what can be repaired";
                shape(ErrorCode::Damaged, exit::DAMAGED, &what, hint)
            }
            Self::SessionKey { .. } => {
                let hint = "write NAME (for agent:main:NAME) or agent:AGENT:NAME";
                shape(ErrorCode::InvalidRequest, exit::USAGE, &what, hint)
            }
            Self::Invalid { hint, .. } => shape(ErrorCode::InvalidRequest, exit::USAGE, &what, hint),
            Self::NotFound { hint, .. } => shape(ErrorCode::NotFound, exit::NOT_FOUND, &what, hint),
            Self::TooLarge => {
                let hint =
                    "request less, with `limit` or one run of the session; the command line reads the journal itself";
                shape(ErrorCode::TooLarge, exit::REFUSED, &what, hint)
            }
            Self::Forbidden { .. } => shape(
                ErrorCode::Forbidden,
                exit::REFUSED,
                &what,
                "a token with that scope can do it: `limulus gateway token create`",
            ),
            Self::State { hint, .. } => shape(ErrorCode::Refused, exit::REFUSED, &what, hint),
            Self::Unavailable { hint, .. } => later(shape(ErrorCode::Unavailable, exit::OWNED, &what, hint)),
            Self::Config { hint, .. } => shape(ErrorCode::Config, exit::CONFIG, &what, hint),
            Self::Damaged { hint, .. } => shape(ErrorCode::Damaged, exit::DAMAGED, &what, hint),
            Self::NotErased { .. } => {
                let hint =
                    "free some space if the disk is full, then delete it again; the next owner tries again as well";
                shape(ErrorCode::Store, exit::STORE, &what, hint)
            }
            Self::Bug { .. } => bug(&what),
        }
    }
}

/// What cannot be shown is the same error for a caller as what cannot be done.
impl From<views::Error> for Error {
    fn from(error: views::Error) -> Self {
        match error {
            views::Error::Journal(error) => Self::Journal(error),
            views::Error::Fold(error) => Self::Fold(error),
            views::Error::SessionKey { key } => Self::SessionKey { key },
            views::Error::Invalid { what, hint } => Self::Invalid { what, hint },
            views::Error::NotFound { what, hint } => Self::NotFound { what, hint },
            views::Error::TooLarge => Self::TooLarge,
            views::Error::Bug { what } => Self::Bug { what },
        }
    }
}

impl From<Error> for ErrorShape {
    fn from(error: Error) -> Self {
        error.shape()
    }
}

fn shape(code: ErrorCode, exit: u8, what: &str, hint: &str) -> ErrorShape {
    let details = Some(Details { hint: hint.to_owned(), exit });
    ErrorShape { code, message: what.to_owned(), details, retryable: None, retry_after_ms: None }
}

/// Whether the same request may succeed later.
fn later(shape: ErrorShape) -> ErrorShape {
    ErrorShape { retryable: Some(true), ..shape }
}

fn bug(what: &str) -> ErrorShape {
    shape(ErrorCode::Bug, exit::BUG, what, REPORT)
}

/// Splits an error of the journal, which reads `what happened: what to do`.
fn advice(text: &str) -> (&str, &str) {
    text.rsplit_once(": ").unwrap_or((text, ""))
}

fn of_journal(error: &journal::Error) -> ErrorShape {
    let text = error.to_string();
    let (what, hint) = advice(&text);
    match error.kind() {
        Kind::NotFound => shape(ErrorCode::NotFound, exit::NOT_FOUND, what, hint),
        Kind::Owned if matches!(error, journal::Error::Owned { .. }) => {
            later(shape(ErrorCode::Unavailable, exit::OWNED, what, hint))
        }
        Kind::Owned => {
            let hint = "another process took over the home: send the request again";
            later(shape(ErrorCode::Unavailable, exit::OWNED, &text, hint))
        }
        Kind::Newer if matches!(error, journal::Error::Newer { .. }) => {
            shape(ErrorCode::Damaged, exit::DAMAGED, what, hint)
        }
        Kind::Newer => {
            let hint = "use the newer limulus that wrote it; other sessions still work";
            shape(ErrorCode::Damaged, exit::DAMAGED, &text, hint)
        }
        Kind::Older => shape(ErrorCode::Refused, exit::REFUSED, what, hint),
        Kind::Damaged if matches!(error, journal::Error::Unreadable { .. }) => {
            let hint = "`limulus doctor` shows what can be repaired; other sessions still work";
            shape(ErrorCode::Damaged, exit::DAMAGED, &text, hint)
        }
        Kind::Damaged => shape(ErrorCode::Damaged, exit::DAMAGED, what, hint),
        Kind::Store => shape(ErrorCode::Store, exit::STORE, what, hint),
        Kind::Refused => bug(&text),
    }
}

fn of_refusal(refusal: &Refusal) -> ErrorShape {
    let what = refusal.to_string();
    let refused = |hint: &str| shape(ErrorCode::Refused, exit::REFUSED, &what, hint);
    match refusal {
        Refusal::NotFound { .. } => {
            shape(ErrorCode::NotFound, exit::NOT_FOUND, &what, "`limulus runs list` shows the runs")
        }
        Refusal::Conflict { .. } => {
            shape(ErrorCode::Conflict, exit::REFUSED, &what, "send the new message under a new key")
        }
        Refusal::State { state, .. } if state == LifecycleKind::Terminated.name() => {
            refused("`limulus sessions show` shows its conversation; `--session NAME` starts another one")
        }
        Refusal::State { .. } => refused("`limulus status` shows the session and what it waits for"),
        Refusal::NeedsHuman { key } => refused(&format!(
            "`limulus resume {key} --force` repairs and resumes its run, `limulus runs abort --session {key}` ends it; then send the \
             message again"
        )),
        Refusal::Stale => refused("answer the approval request that is open now, if there is one"),
        Refusal::Unsupported { .. } => refused("`limulus help` lists what this version can do"),
        Refusal::Unavailable { .. } => {
            let hint = "nothing acknowledged is lost: repair the disk or free space, then `limulus resume`";
            later(shape(ErrorCode::Unavailable, exit::STORE, &what, hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn check(error: impl Into<Error>, code: ErrorCode, exit: u8, what: &str, hint: &str) {
        let shape = error.into().shape();
        let details = shape.details.expect("details");
        assert_eq!((shape.code, details.exit, shape.message.as_str()), (code, exit, what));
        assert!(details.hint.contains(hint) && !hint.is_empty(), "{what}: {}", details.hint);
        assert_eq!(shape.retryable.is_some(), code == ErrorCode::Unavailable, "{what}");
    }

    #[test]
    fn r24_every_journal_error_has_its_code_and_a_hint() {
        let home = PathBuf::from("/h");
        let branch = engine::BranchId(uuid::Uuid::nil());
        let owned = |pid| journal::Error::Owned { home: home.clone(), pid, since: Some("2026-11-21T03:00:00Z".into()) };
        let what = "/h is owned by pid 7, since 2026-11-21T03:00:00Z";
        check(owned(Some(7)), ErrorCode::Unavailable, 75, what, "--wait");
        let fenced = journal::Error::Fenced { epoch: engine::Epoch(1), owner: engine::Epoch(2) };
        let what = "this process was owner 1 of the home, which now has owner 2: it must end";
        check(fenced, ErrorCode::Unavailable, 75, what, "send the request again");
        let missing = journal::Error::NotFound { home: home.clone() };
        check(missing, ErrorCode::NotFound, 4, "no journal at /h", "limulus agent -m TEXT");
        let full = journal::Error::Full { path: home.clone() };
        check(full, ErrorCode::Store, 74, "no space left for /h", "free some");
        let detail = "open: permission denied".to_owned();
        let unwritable = journal::Error::Unwritable { path: home.clone(), detail };
        check(unwritable, ErrorCode::Store, 74, "cannot write to /h (open: permission denied)", "make it writable");
        let older = journal::Error::Older { path: home.clone(), version: 1, known: 2 };
        check(older, ErrorCode::Refused, 3, "/h has format 1, this limulus reads 2", "limulus resume");
        let damaged = journal::Error::Damaged { path: home, detail: "torn".to_owned() };
        check(damaged, ErrorCode::Damaged, 65, "the journal /h is damaged (torn)", "limulus doctor");
        let error = engine::Event::decode("dreamt", 1, b"{}").unwrap_err();
        let newer = journal::Error::Unreadable { branch, seq: engine::Seq(3), error };
        let what = "entry 00000000-0000-0000-0000-000000000000@3: unknown event kind `dreamt`: this home was written by \
                    a newer limulus";
        check(newer, ErrorCode::Damaged, 65, what, "newer limulus");
        let what = "branch 00000000-0000-0000-0000-000000000000 does not exist";
        check(journal::Error::UnknownBranch { branch }, ErrorCode::Bug, 70, what, "report");
    }

    #[test]
    fn r24_every_refusal_has_its_code_and_a_hint() {
        let run = engine::MessageId(uuid::Uuid::nil()).into();
        let conflict = Refusal::Conflict { key: "k".to_owned(), run };
        let what = "key `k` was used for another message (run 00000000-0000-0000-0000-000000000000); use a new key";
        check(conflict, ErrorCode::Conflict, 3, what, "a new key");
        let state = Refusal::State { state: "error".to_owned(), reason: "a human is needed".to_owned() };
        check(state, ErrorCode::Refused, 3, "not while the session is error: a human is needed", "limulus status");
        let held = Refusal::NeedsHuman { key: "agent:main:main".to_owned() };
        let what = "agent:main:main needs a human, so the message was refused and not recorded";
        check(held, ErrorCode::Refused, 3, what, "limulus runs abort --session agent:main:main");
        let over = Refusal::State { state: "terminated".to_owned(), reason: "it was ended".to_owned() };
        check(over, ErrorCode::Refused, 3, "not while the session is terminated: it was ended", "--session NAME");
        let gone = Refusal::Unavailable { reason: "disk".to_owned() };
        let through = runtime::Error::from(gone.clone());
        check(through, ErrorCode::Unavailable, 74, "the journal could not be written: disk", "limulus resume");
        check(gone, ErrorCode::Unavailable, 74, "the journal could not be written: disk", "limulus resume");
        check(Refusal::Unsupported { what: "rewind" }, ErrorCode::Refused, 3, "rewind is not in this version", "help");
        check(Refusal::NotFound { what: "it is over".into() }, ErrorCode::NotFound, 4, "it is over", "runs list");
        let what = "that approval request is no longer open; `limulus runs show` shows the open ones";
        check(Refusal::Stale, ErrorCode::Refused, 3, what, "open now");
    }

    #[test]
    fn r24_every_error_of_the_gateway_has_its_code_and_a_hint() {
        let (what, hint) = ("this".to_owned(), "do that".to_owned());
        check(Error::not_found("this", "do that"), ErrorCode::NotFound, 4, "this", "do that");
        check(Error::invalid("this", "do that"), ErrorCode::InvalidRequest, 2, "this", "do that");
        let key = Error::SessionKey { key: "a b".to_owned() };
        check(key, ErrorCode::InvalidRequest, 2, "`a b` is not a session key", "agent:AGENT:NAME");
        let key = Error::SessionKey { key: "a\n\u{1b}[2J".to_owned() };
        let what_of_key = r"`a\n\u001b[2J` is not a session key";
        check(key, ErrorCode::InvalidRequest, 2, what_of_key, "agent:AGENT:NAME");
        let unavailable = Error::Unavailable { what: what.clone(), hint: hint.clone() };
        check(unavailable, ErrorCode::Unavailable, 75, "this", "do that");
        check(Error::Config { what: what.clone(), hint: hint.clone() }, ErrorCode::Config, 78, "this", "do that");
        check(Error::State { what: what.clone(), hint: hint.clone() }, ErrorCode::Refused, 3, "this", "do that");
        check(Error::Damaged { what: what.clone(), hint }, ErrorCode::Damaged, 65, "this", "do that");
        let too_large = "the response is larger than a frame (32 MiB)";
        check(Error::TooLarge, ErrorCode::TooLarge, 3, too_large, "`limit`");
        check(Error::Bug { what }, ErrorCode::Bug, 70, "this", "report");
        let gap = RecoverError::NoBeginning;
        check(
            Error::Fold(gap.clone()),
            ErrorCode::Damaged,
            65,
            &format!("the journal is inconsistent: {gap}"),
            "doctor",
        );
        let error = runtime::Error::Damaged { key: "agent:main:x".to_owned(), error: gap.clone() };
        let what = format!("session agent:main:x cannot be read ({gap}), nothing was changed");
        check(error, ErrorCode::Damaged, 65, &what, "limulus doctor");
        let what = "the process that owns this home is shutting down, nothing was changed";
        check(runtime::Error::Leaving, ErrorCode::Unavailable, 75, what, "try again");
    }
}
