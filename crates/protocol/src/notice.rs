//! The notices to a connection that are not session events, and the list of all events.

use engine::{AnswerForm, CallId, Hash, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::chat::Chat;
use crate::error::ErrorShape;
use crate::event::AGENT_EVENT;
#[cfg(feature = "schema")]
use crate::event::Event;

/// A notice to a connection, with its name on the wire.
pub trait Notice: Serialize {
    /// The name of its event frame.
    const NAME: &'static str;
}

/// Gives each notice its name on the wire.
macro_rules! notices {
    ($($notice:ty = $name:literal),+ $(,)?) => {
        $(impl Notice for $notice {
            const NAME: &'static str = $name;
        })+
    };
}

notices! {
    Asked = "ask",
    Answered = "answered",
    Tick = "tick",
    DiskFull = "parked",
    Dropped = "dropped",
    Shutdown = "shutdown",
    Part = "part",
    // The client sent no valid frame or no handshake.
    ErrorShape = "closed",
}

/// A call needs approval, or is a question to the user. Sent to clients with the cap `asks`: to one that follows sessions for these only, behind their
/// lines; to one that follows none for all. Also sent to one that connects or begins to follow later, so it may come twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Asked {
    /// The key of the session, agent:AGENT:NAME.
    pub session: String,
    /// The id of the call, for `approvals.resolve`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// The fingerprint of the call, for `approvals.resolve`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub fingerprint: Hash,
    /// The question for the user.
    pub question: String,
    /// What it takes as the answer, for `questions.answer`: `text`, `choice` or `json`; none = it needs approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub takes: Option<AnswerForm>,
}

/// Approval requests are closed: the one of a call, or all of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Answered {
    /// The id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub call: Option<CallId>,
    /// The id of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<RunId>,
    /// Whether the call was allowed, if somebody answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<bool>,
    /// Who answered, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The client did not read events fast enough. This is the last event of the connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Dropped {
    /// The position of each of its subscriptions.
    #[serde(default)]
    pub subscriptions: Vec<Stand>,
}

/// The position of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Stand {
    /// The id that `events.subscribe` returned.
    pub subscription: u64,
    /// The cursor to resume from.
    pub cursor: String,
}

/// The disk is full: these sessions wait for space and resume by themselves. If the list is empty, there is space
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DiskFull {
    /// The sessions that wait.
    pub sessions: Vec<DiskFullSession>,
    /// The free space that they need to resume, bytes.
    pub needs_bytes: u64,
}

/// A session that waits for disk space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DiskFullSession {
    /// The key of the session.
    pub session_key: String,
    /// The error of the journal.
    pub error: String,
    /// Since when it waits, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// When the owner checks for space next, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub next_look: Timestamp,
}

/// The owner shuts down in order. This is the last event of the connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Shutdown {
    /// Why the owner shuts down.
    pub reason: String,
}

/// A piece of a text of the next frame of this connection that is no part: with it the frame would be longer than it may
/// be. That frame has a mark in place of the text, for which a client puts the texts of the parts, joined in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Part {
    /// The place of the text in the payload of that frame, as a JSON pointer.
    pub at: String,
    /// The piece.
    pub text: String,
}

/// A sign of life: the connection works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Tick {
    /// The owner's time, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub ts: Timestamp,
}

/// A row of the list of events.
#[derive(Debug, Clone, Copy)]
pub struct EventSpec {
    /// Its name on the wire.
    pub name: &'static str,
    /// When it is sent, in one line.
    pub about: &'static str,
    /// The schema of its payload.
    #[cfg(feature = "schema")]
    pub payload: fn(&mut SchemaGenerator) -> Schema,
}

/// All events, in the order of docs/protocol.md.
pub const EVENTS: &[EventSpec] = &[
    EventSpec {
        name: AGENT_EVENT,
        about: "Something happened in a subscribed session.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Event>(),
    },
    EventSpec {
        name: Chat::NAME,
        about: "The answer of a run so far or at its end; sent to subscriptions with `chat`.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Chat>(),
    },
    EventSpec {
        name: Asked::NAME,
        about: "A call needs approval; sent to clients with the cap `asks`.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Asked>(),
    },
    EventSpec {
        name: Answered::NAME,
        about: "An approval request is closed; sent to clients with the cap `asks`.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Answered>(),
    },
    EventSpec {
        name: Part::NAME,
        about: "A piece of a text of the next frame, which would be too long with it.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Part>(),
    },
    EventSpec {
        name: Tick::NAME,
        about: "The connection works; sent at a fixed interval.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Tick>(),
    },
    EventSpec {
        name: DiskFull::NAME,
        about: "Sessions wait for disk space, or none waits any more.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<DiskFull>(),
    },
    EventSpec {
        name: Dropped::NAME,
        about: "The client did not read fast enough; the last event of the connection.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Dropped>(),
    },
    EventSpec {
        name: Shutdown::NAME,
        about: "The owner shuts down in order; the last event of the connection.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Shutdown>(),
    },
    EventSpec {
        name: <ErrorShape as Notice>::NAME,
        about: "The client sent no valid frame or no handshake, or there are too many connections; the last event of the connection.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<ErrorShape>(),
    },
];
