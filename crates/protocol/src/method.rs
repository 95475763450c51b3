//! The table of methods: what can be asked for, what each takes and gives. What each does is in the gateway.

mod acting;

pub use acting::*;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A method: its name, what it takes, what it gives.
pub trait Method {
    /// Its name on the wire.
    const NAME: &'static str;
    /// What it takes.
    type Params: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
    /// What it gives.
    type Result: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct MethodSpec {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The schema of what it takes.
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of what it gives.
    pub result: fn(&mut SchemaGenerator) -> Schema,
}

/// Makes the type of each method and the one list of all.
macro_rules! methods {
    ($($(#[doc = $about:literal])+ $method:ident $name:literal: $params:ty => $result:ty;)+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone, Copy)]
            pub struct $method;

            impl Method for $method {
                const NAME: &'static str = $name;
                type Params = $params;
                type Result = $result;
            }
        )+

        /// Every method.
        pub const METHODS: &[MethodSpec] = &[$(MethodSpec {
            name: $name,
            about: concat!($($about),+),
            params: |generator| generator.subschema_for::<$params>(),
            result: |generator| generator.subschema_for::<$result>(),
        }),+];
    };
}

methods! {
    /// The handshake: the first frame of every connection.
    Connect "connect": ConnectParams => HelloOk;
    /// Whether the owner works.
    HealthGet "health": NoParams => Health;
    /// Sends a message. Answered twice: accepted, and ended.
    Agent "agent": AgentParams => AgentAnswer;
    /// Waits for a run's end; the run goes on whatever becomes of the waiting.
    AgentWait "agent.wait": WaitParams => Waited;
    /// Ends a run.
    RunsAbort "runs.abort": AbortParams => Aborted;
    /// Takes up what is not finished: a session, or all.
    SessionsResume "sessions.resume": ResumeParams => Resumed;
    /// Answers a question.
    AsksAnswer "asks.answer": AnswerParams => NoResult;
    /// Tells what happens, from a place on.
    EventsSubscribe "events.subscribe": SubscribeParams => Subscribed;
    /// Tells no more of it.
    EventsUnsubscribe "events.unsubscribe": UnsubscribeParams => NoResult;
}
