//! The format of a workload: what the users send and do, what the scripted model says, which tools there are. One is
//! checked in, others are drawn from a seed. Data only.

use engine::{BlockMode, Budget, FailureClass, Limits, ResumeMode, Thinking, ToolClass};
use serde::Deserialize;

const WORKLOAD: &str = include_str!("../workload.json");

/// The workload file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The seeds, each with its differences.
    pub seeds: Vec<Seed>,
    /// Time limits that differ from the engine's defaults.
    #[serde(default)]
    pub limits: Limits,
    /// The budget; empty if nothing is limited.
    #[serde(default)]
    pub budget: Budget,
    /// Whether a model names conversations.
    #[serde(default)]
    pub titles: bool,
    /// Where the replies go; none = nowhere.
    #[serde(default)]
    pub route: Option<Route>,
    /// What the messages ask of their runs.
    #[serde(default)]
    pub task: Task,
    /// The candidates, in order.
    #[serde(default = "two_keys")]
    pub candidates: Vec<Asked>,
    /// The tools of every run.
    pub tools: Vec<Tool>,
    /// The runs, in the order in which their messages are sent.
    pub runs: Vec<Script>,
}

/// What the messages ask of their runs beside their text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Task {
    /// The groups of tools before whose first call a run stops, each once.
    pub stop_before: Vec<Vec<String>>,
    /// Whether a run may only read.
    pub plan: bool,
    /// Whether an answer is to fit a schema.
    pub schema: bool,
}

/// A route for replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Whether what arrives twice under the same key counts once there.
    pub has_keys: bool,
    /// Whether text goes out in blocks.
    pub blocks: BlockMode,
}

/// A model with a key, and how its provider treats them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Asked {
    pub model: String,
    /// The name of the key.
    pub profile: String,
    /// The thinking level that is configured for it.
    #[serde(default)]
    pub thinking: Option<Thinking>,
    /// The highest thinking level that it accepts; `None` = any.
    #[serde(default)]
    pub accepts: Option<Thinking>,
    /// Whether a refused key can be refreshed.
    #[serde(default)]
    pub can_refresh: bool,
    /// How its first requests fail, whatever they ask; `None` = they do not.
    #[serde(default)]
    pub flaw: Option<Defect>,
}

impl Asked {
    /// A working key of a model.
    pub fn new(model: &str, profile: &str) -> Self {
        Self { model: model.to_owned(), profile: profile.to_owned(), ..Self::default() }
    }
}

/// What is wrong with a key or a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Defect {
    /// The failure that its provider reports.
    pub class: FailureClass,
    pub times: u32,
}

/// One model with two keys: if one fails, the other is asked.
fn two_keys() -> Vec<Asked> {
    vec![Asked::new("script", "first"), Asked::new("script", "second")]
}

/// One order of events, drawn from its number, and the choices that belong to it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// The number from which everything random is derived.
    pub seed: u64,
    /// What happens to an interrupted stream.
    pub resume: ResumeMode,
    /// How the terminal answers approval requests.
    pub leave: Leave,
    /// When the last run is aborted; `None` = never.
    pub abort: Option<When>,
    /// What happens to an approval request that nobody has answered for a while.
    #[serde(default)]
    pub expiry: Expiry,
}

/// What happens to an approval request that nobody has answered for a while.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expiry {
    /// It waits for ever.
    #[default]
    Never,
    /// Its call is denied.
    Denies,
    /// It stays open.
    Keeps,
}

/// How the terminal answers an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leave {
    /// It approves.
    Given,
    /// It denies.
    Denied,
    /// It approves with other arguments.
    Edited,
    /// First with the fingerprint of another call, then yes.
    Mistaken,
    /// Not at all: nobody is there.
    Never,
}

/// The state of a run at which a user does something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// It has started.
    Begun,
    /// It streams.
    Streaming,
    /// One of its calls is settled.
    Settled,
    /// One of its approval requests is open.
    Asked,
    /// The start of a call of class `Once` was published.
    Call,
    /// It streams text after its first two results.
    Text,
}

/// A pause of a run, and what happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it is paused.
    pub when: When,
    /// What happens to it.
    pub then: Then,
}

/// What happens to a paused run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// It is resumed.
    Resumed,
    /// It is ended.
    Dropped,
    /// It stays paused.
    Stays,
}

/// What a sender that was acknowledged sends again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// The same message.
    Same,
    /// The same text with the same key, as another message.
    Key,
    /// Another text with the same key.
    Conflict,
}

/// What a sender waits for before it sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// The previous message was accepted.
    #[default]
    Accepted,
    /// The previous run has ended.
    Ended,
}

/// A tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Tool {
    pub name: String,
    /// Whether its calls may be repeated.
    pub class: ToolClass,
    /// Where its calls run.
    pub life: Life,
}

/// Where a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// In the runtime's process: it dies with it.
    Process,
    /// Under its own supervisor, which keeps a record: it dies with the machine.
    Supervised,
}

/// The script of one message.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What the user sends.
    pub message: String,
    /// The responses of the model, one per request.
    pub turns: Vec<Turn>,
    /// What its sender waits for.
    #[serde(default)]
    pub after: After,
    /// What is sent again; `None` = nothing.
    #[serde(default)]
    pub again: Option<Again>,
    /// Whether it is cancelled while it waits.
    #[serde(default)]
    pub cancel: bool,
    /// When its run is paused; `None` = never.
    #[serde(default)]
    pub pause: Option<Pause>,
    /// When its run is aborted; `None` = never.
    #[serde(default)]
    pub abort: Option<When>,
}

/// One message of the model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Turn {
    /// Its text, in the pieces in which it streams.
    pub chunks: Vec<String>,
    pub calls: Vec<TurnCall>,
    /// How its first requests fail; `None` = they do not.
    #[serde(default)]
    pub failure: Option<TurnFailure>,
    /// What is odd about its first answer; `None` = nothing.
    #[serde(default)]
    pub odd: Option<Odd>,
}

/// An answer with its end mark that is not well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Odd {
    /// It is empty.
    Empty,
    /// It has more calls than the limit.
    TooManyCalls,
    /// It has a call with truncated arguments, and one to an unknown tool.
    WrongCalls,
    /// Its calls have the same id.
    SameIds,
    /// Its calls have no ids.
    NoIds,
    /// The pieces of its calls alternate, the last call first.
    Interleaved,
    /// Its text is cut at the output limit, once.
    Length,
}

impl Odd {
    /// All odd answers.
    pub const ALL: [Self; 7] = [
        Self::Empty,
        Self::TooManyCalls,
        Self::WrongCalls,
        Self::SameIds,
        Self::NoIds,
        Self::Interleaved,
        Self::Length,
    ];

    /// Whether it counts as a failure, after which the request is repeated.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Empty | Self::TooManyCalls)
    }
}

/// A call in the script.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct TurnCall {
    pub tool: String,
    /// Whether it needs approval.
    #[serde(default)]
    pub asks: bool,
    #[serde(default)]
    pub ends: Ends,
    /// Whether its command continues in the background.
    #[serde(default)]
    pub background: bool,
    /// What it is beside a call of its tool.
    #[serde(default)]
    pub of: CallOf,
}

/// What a call is beside a call of its tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOf {
    /// Nothing else.
    #[default]
    Tool,
    /// A question of the model, which a user answers instead of the tool.
    Question,
    /// It sets the plan of the conversation.
    Plan,
}

/// How a call ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// It succeeds.
    #[default]
    Done,
    /// It fails.
    Failed,
    /// It does not end by itself.
    Hangs,
    /// It cannot be stopped either.
    Stubborn,
}

/// A failing request.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct TurnFailure {
    /// The class of the failure. `timeout` and `stalled` mean silence: nothing more comes, no error either.
    pub class: FailureClass,
    /// The number of pieces before it; 0 = before the first byte.
    pub after: usize,
    /// How many bytes of the next piece come as well; unless this is 0, at least one byte and never the whole piece.
    #[serde(default)]
    pub cut: usize,
    /// How long the provider asks to wait, milliseconds; `None` = not given.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
    #[serde(default = "once")]
    pub times: u32,
}

impl TurnFailure {
    /// Whether it fails by silence.
    pub fn is_silence(self) -> bool {
        matches!(self.class, FailureClass::Timeout | FailureClass::Stalled)
    }
}

const fn once() -> u32 {
    1
}

impl Workload {
    /// The workload that is checked in.
    pub fn checked_in() -> Self {
        serde_json::from_str(WORKLOAD).expect("the checked-in workload is valid: a test reads it")
    }
}

impl Turn {
    /// The pieces of its text, joined.
    pub fn text(&self) -> String {
        self.chunks.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_is_three_runs_of_three_calls_and_twenty_four_chunks() {
        let workload = Workload::checked_in();
        for (run, script) in workload.runs.iter().enumerate() {
            let chunks: usize = script.turns.iter().map(|turn| turn.chunks.len()).sum();
            let calls: usize = script.turns.iter().map(|turn| turn.calls.len()).sum();
            assert_eq!((chunks, calls), (24, 3), "run {run}");
        }
        assert_eq!(workload.runs.len(), 3);
        let asked = workload.runs.iter().flat_map(|run| &run.turns).flat_map(|turn| &turn.calls);
        assert_eq!(asked.filter(|call| call.asks).count(), 1);
        for class in [ToolClass::ReadOnly, ToolClass::Idempotent, ToolClass::Once] {
            assert!(workload.tools.iter().any(|tool| tool.class == class), "{class:?}");
        }
    }
}
