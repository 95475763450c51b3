//! Ids, times and hashes. They come in from outside: nothing here generates one.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A text that is not a valid id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct InvalidId {
    pub text: String,
    /// What was expected, with its article.
    pub what: &'static str,
}

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident, $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Uuid::parse_str(text).map(Self).map_err(|_| InvalidId { text: text.to_owned(), what: $what })
            }
        }
    )*};
}

uuid_id! {
    /// One conversation (UUIDv7, made by the runtime).
    SessionId, "a session id (a UUID)";
    /// One journal of a session: a session begins with one, rewind and fork make more (UUIDv7).
    BranchId, "a branch id (a UUID)";
    /// One accepted message (UUIDv7).
    MessageId, "a message id (a UUID)";
    /// One run: it has the id of its first message, so it is known at acceptance.
    RunId, "a run id (a UUID)";
}

impl From<MessageId> for RunId {
    fn from(message: MessageId) -> Self {
        Self(message.0)
    }
}

impl From<RunId> for MessageId {
    fn from(run: RunId) -> Self {
        Self(run.0)
    }
}

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

number! {
    /// The number of an owner of the home, one higher at each opening: a fencing token.
    Epoch(u64);
    /// The place of an entry in its branch: gapless, from 1.
    Seq(u64);
    /// The commit order of an entry in the home, from 1.
    Position(u64);
    /// Milliseconds since 1970 UTC.
    Timestamp(i64);
}

impl Timestamp {
    /// This time plus milliseconds, saturating.
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to this time; 0 if the clock went backwards.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

/// The engine's view of now: the time, and a random number for jitter. Both are inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Moment {
    pub now: Timestamp,
    /// A uniformly distributed random number; backoff takes its jitter from it.
    pub random: u64,
}

/// A tool call, written `RUN/STEP/INDEX`. The provider's own id is kept beside it, for that provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The run that makes it.
    pub run: RunId,
    /// The step of the run, from 1.
    pub step: u32,
    /// Its index in the answer of the model, from 0.
    pub index: u32,
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.run, self.step, self.index)
    }
}

impl FromStr for CallId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId { text: text.to_owned(), what: "a call id (RUN/STEP/INDEX)" };
        let mut parts = text.split('/');
        let (Some(run), Some(step), Some(index), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        Ok(Self {
            run: run.parse().map_err(|_| wrong())?,
            step: step.parse().map_err(|_| wrong())?,
            index: index.parse().map_err(|_| wrong())?,
        })
    }
}

/// The kinds of effect; the name is a part of every [`EffectId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Make the workspace and the system prompt of a run.
    Prepare,
    /// Get a slot of the global lane for the head of the queue.
    Lane,
    /// Reserve budget for a request.
    Reserve,
    /// Send a request to a model and report what streams in.
    Request,
    /// Compact the history.
    Compact,
    /// Check a call against its schema and the policy.
    CheckCall,
    /// Run a call.
    RunCall,
    /// Find out the outcome of a call that a crash interrupted.
    FindCall,
    /// End a running call.
    EndCall,
    /// Send something to its route.
    Deliver,
    /// Run an observing hook. Reserved for R64.
    Observe,
    /// Report a failure to the ledger.
    Report,
    /// Run a child. Reserved for R67.
    Child,
    /// Follow a command that was put into the background.
    HoldProcess,
    /// End a command in the background.
    EndProcess,
    /// Freeze the commands of a call.
    FreezeCall,
    /// Take back what a run changed in files, or make it once more.
    Undo,
    /// Erase what a deleted conversation said. Its id names the session in place of a run.
    Erase,
    /// Ask a model for the title of a conversation.
    Title,
}

impl EffectKind {
    /// Every kind with its name, as it stands in an [`EffectId`].
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::Prepare, "prepare"),
        (Self::Lane, "lane"),
        (Self::Reserve, "reserve"),
        (Self::Request, "request"),
        (Self::Compact, "compact"),
        (Self::CheckCall, "check_call"),
        (Self::RunCall, "run_call"),
        (Self::FindCall, "find_call"),
        (Self::EndCall, "end_call"),
        (Self::Deliver, "deliver"),
        (Self::Observe, "observe"),
        (Self::Report, "report"),
        (Self::Child, "child"),
        (Self::HoldProcess, "hold_process"),
        (Self::EndProcess, "end_process"),
        (Self::FreezeCall, "freeze_call"),
        (Self::Undo, "undo"),
        (Self::Erase, "erase"),
        (Self::Title, "title"),
    ];

    /// The name, as it stands in an [`EffectId`].
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// An effect, written `RUN/KIND/ORDINAL/TRY`. A retry is a new id; a wait that is resumed after a restart has the same
/// id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct EffectId {
    /// The run that it belongs to (for `lane`: that will be).
    pub run: RunId,
    pub kind: EffectKind,
    /// Which one of its kind in the run: the request's number, the call's number.
    pub ordinal: u32,
    /// Which try of it, from 1.
    pub try_no: u32,
}

impl EffectId {
    /// Whether the other is this effect or an earlier try of it: an entry that seals the progress of this one seals
    /// that of the other.
    pub fn covers(self, other: Self) -> bool {
        Self { try_no: self.try_no, ..other } == self && other.try_no <= self.try_no
    }
}

impl EffectId {
    /// The name of the process that this effect starts: the last eight digits of the run, and the number of the call.
    pub fn process_name(self) -> String {
        format!("{:08x}-{}", self.run.0.as_u128() as u32, self.ordinal)
    }
}

impl EffectId {
    /// The name of the delivery that this effect is a try of: `RUN-ORDINAL`. It is its key at the other end.
    pub fn delivery_name(self) -> String {
        format!("{}-{}", self.run, self.ordinal)
    }

    /// The first try of the delivery of this name; none if it is no such name.
    pub fn of_delivery(name: &str) -> Option<Self> {
        let (run, ordinal) = name.rsplit_once('-')?;
        Some(Self { run: run.parse().ok()?, kind: EffectKind::Deliver, ordinal: ordinal.parse().ok()?, try_no: 1 })
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.run, self.kind.name(), self.ordinal, self.try_no)
    }
}

impl FromStr for EffectId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId { text: text.to_owned(), what: "an effect id (RUN/KIND/ORDINAL/TRY)" };
        let mut parts = text.split('/');
        let four = [parts.next(), parts.next(), parts.next(), parts.next()];
        let ([Some(run), Some(kind), Some(ordinal), Some(try_no)], None) = (four, parts.next()) else {
            return Err(wrong());
        };
        let kind = EffectKind::ALL.iter().find(|(_, name)| *name == kind).ok_or_else(wrong)?.0;
        Ok(Self {
            run: run.parse().map_err(|_| wrong())?,
            kind,
            ordinal: ordinal.parse().map_err(|_| wrong())?,
            try_no: try_no.parse().map_err(|_| wrong())?,
        })
    }
}

/// BLAKE3-256 of some content, written in hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        // In one write: every payload that names a body contains a hash.
        f.write_str(std::str::from_utf8(&text).expect("hex digits are ASCII"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId { text: text.to_owned(), what: "a hash (64 hex digits)" };
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| wrong())?;
        let mut bytes = [0; 32];
        for (byte, two) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [Some(high), Some(low)] = two.map(|digit| char::from(digit).to_digit(16)) else { return Err(wrong()) };
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(bytes))
    }
}

/// Reads an id that is written as text, without a copy of the text.
struct Written<T>(PhantomData<T>);

impl<T: FromStr<Err = InvalidId>> Visitor<'_> for Written<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id as text")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! as_text {
    ($($name:ident)*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Written(PhantomData))
            }
        }
    )*};
}

as_text! { CallId EffectId Hash }
