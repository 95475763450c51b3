//! What a connection is told beside what happens in sessions, and the one list of all events.

use engine::{CallId, Hash, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::chat::Chat;
use crate::error::ErrorShape;
use crate::event::AGENT_EVENT;
#[cfg(feature = "schema")]
use crate::event::Event;

/// What a connection is told, under its name on the wire.
pub trait Notice: Serialize {
    /// The name of its event frame.
    const NAME: &'static str;
}

/// Gives each its name.
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
    Parked = "parked",
    Dropped = "dropped",
    Shutdown = "shutdown",
    // What came was no frame, or no handshake.
    ErrorShape = "closed",
}

/// A call asks for leave. Told to every client with the cap `asks`, also to one that comes later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Asked {
    /// The session's key.
    pub session: String,
    /// The call that asks; `approvals.resolve` takes it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// What the answer binds to; `approvals.resolve` takes it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub fingerprint: Hash,
    /// What is asked.
    pub question: String,
}

/// Questions are open no more: that of a call, or all of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Answered {
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub call: Option<CallId>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<RunId>,
    /// Whether it was allowed, if somebody has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<bool>,
    /// Who has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The client did not read as fast as things happen. It is the last that it is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Dropped {
    /// Where each of its subscriptions stands.
    #[serde(default)]
    pub subscriptions: Vec<Stand>,
}

/// Where a subscription stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Stand {
    /// As `events.subscribe` gave it.
    pub subscription: u64,
    /// What it goes on from.
    pub cursor: String,
}

/// The disk is full: these sessions wait for space, and go on by themselves. None: there is space again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Parked {
    /// Those that wait.
    pub sessions: Vec<ParkedSession>,
    /// The space with which they go on, bytes.
    pub needs_bytes: u64,
}

/// A session that waits for space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ParkedSession {
    /// Its key.
    pub session_key: String,
    /// What the journal says.
    pub error: String,
    /// Since when, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// When it is looked for space next.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub next_look: Timestamp,
}

/// The owner leaves in order. It is the last that is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Shutdown {
    /// Why.
    pub reason: String,
}

/// Nothing has happened, and the connection stands.
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
    /// When it comes, in a line.
    pub about: &'static str,
    /// The schema of its payload.
    #[cfg(feature = "schema")]
    pub payload: fn(&mut SchemaGenerator) -> Schema,
}

/// Every event.
pub const EVENTS: &[EventSpec] = &[
    EventSpec {
        name: AGENT_EVENT,
        about: "Something happened in a session that is subscribed to.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Event>(),
    },
    EventSpec {
        name: Chat::NAME,
        about: "What a run has answered so far, or in the end; told to subscriptions that ask for `chat`.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Chat>(),
    },
    EventSpec {
        name: Asked::NAME,
        about: "A call asks for leave; told to clients with the cap `asks`.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Asked>(),
    },
    EventSpec {
        name: Answered::NAME,
        about: "A question is open no more; told to clients with the cap `asks`.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Answered>(),
    },
    EventSpec {
        name: Tick::NAME,
        about: "The connection stands.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Tick>(),
    },
    EventSpec {
        name: Parked::NAME,
        about: "Sessions wait for space on the disk, or none does any more.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Parked>(),
    },
    EventSpec {
        name: Dropped::NAME,
        about: "The client did not read fast enough; the last that it is told.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Dropped>(),
    },
    EventSpec {
        name: Shutdown::NAME,
        about: "The owner leaves in order; the last that is told.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<Shutdown>(),
    },
    EventSpec {
        name: <ErrorShape as Notice>::NAME,
        about: "What came was no frame, or no handshake, or there is no room; the last that is told.",
        #[cfg(feature = "schema")]
        payload: |generator| generator.subschema_for::<ErrorShape>(),
    },
];
