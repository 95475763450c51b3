//! The format of a workload: what the users send and do, what the scripted model says, which tools there are. One is
//! checked in, others are drawn from a seed. Data only.

use engine::{Budget, FailureClass, Limits, ResumeMode, Thinking, ToolClass};
use serde::Deserialize;

const WORKLOAD: &str = include_str!("../workload.json");

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The seeds, each with what it does differently.
    pub seeds: Vec<Seed>,
    /// How long things may take, where that is not the engine's own choice.
    #[serde(default)]
    pub limits: Limits,
    /// What may be spent, where anything is limited.
    #[serde(default)]
    pub budget: Budget,
    /// Who is asked, in order.
    #[serde(default = "two_keys")]
    pub candidates: Vec<Asked>,
    /// The tools of every run.
    pub tools: Vec<Tool>,
    /// The runs, in the order in which their messages are sent.
    pub runs: Vec<Script>,
}

/// A model with a key, and what its provider makes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The model.
    pub model: String,
    /// The key.
    pub profile: String,
    /// How much it is to think.
    #[serde(default)]
    pub thinking: Option<Thinking>,
    /// More thinking than this is refused; none = it takes any.
    #[serde(default)]
    pub accepts: Option<Thinking>,
    /// Whether a key that is refused can be made anew.
    #[serde(default)]
    pub can_refresh: bool,
    /// How its first requests fail, whatever they ask.
    #[serde(default)]
    pub flaw: Option<Defect>,
}

impl Asked {
    /// A key of a model, in order.
    pub fn new(model: &str, profile: &str) -> Self {
        Self { model: model.to_owned(), profile: profile.to_owned(), ..Self::default() }
    }
}

/// What is wrong with a key or a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defect {
    /// What its provider says.
    pub class: FailureClass,
    /// How often.
    pub times: u32,
}

/// The same model with two keys: what one has failed of, the other is asked.
fn two_keys() -> Vec<Asked> {
    vec![Asked::new("script", "first"), Asked::new("script", "second")]
}

/// One order of events, drawn from its number, and the choices that go with it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// The number that every draw comes from.
    pub seed: u64,
    /// What becomes of a cut stream.
    pub resume: ResumeMode,
    /// How the terminal answers.
    pub leave: Leave,
    /// When the last run is aborted.
    pub abort: Option<When>,
}

/// How the terminal answers a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leave {
    /// Yes.
    Given,
    /// No.
    Denied,
    /// First with the fingerprint of another call, then yes.
    Mistaken,
    /// Not at all: nobody is there.
    Never,
}

/// The sign of a run after which a user does something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// It has started.
    Begun,
    /// It streams.
    Streaming,
    /// A call of it is settled.
    Settled,
    /// A question of it is open.
    Asked,
    /// A call of class `Once` was told to have started.
    Call,
    /// It streams text after its first two results.
    Text,
}

/// A run that is held, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// The sign after which it is held.
    pub when: When,
    /// What becomes of it.
    pub then: Then,
}

/// What becomes of a run that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// It goes on.
    GoesOn,
    /// It is ended.
    Dropped,
    /// It stays so.
    Stays,
}

/// How a sender who was told sends once more.
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
    /// The message before was accepted.
    #[default]
    Accepted,
    /// The run before has ended.
    Ended,
}

/// A tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// How its calls may be repeated.
    pub class: ToolClass,
    /// Where its calls live.
    pub life: Life,
}

/// Where a call lives while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// In the runtime's process: it dies with it.
    Process,
    /// Under a supervisor of its own, which keeps a record: it dies with the machine.
    Supervised,
}

/// What one message leads to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What the user sends.
    pub message: String,
    /// What the model says, request by request.
    pub turns: Vec<Turn>,
    /// What its sender waits for.
    #[serde(default)]
    pub after: After,
    /// How it is sent once more.
    #[serde(default)]
    pub again: Option<Again>,
    /// Whether it is taken back while it waits.
    #[serde(default)]
    pub cancel: bool,
    /// When its run is held.
    #[serde(default)]
    pub pause: Option<Pause>,
    /// When its run is aborted.
    #[serde(default)]
    pub abort: Option<When>,
}

/// One message of the model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Its text, in the pieces in which it streams.
    pub chunks: Vec<String>,
    /// The calls that it asks for.
    pub calls: Vec<TurnCall>,
    /// How its first requests fail.
    #[serde(default)]
    pub failure: Option<TurnFailure>,
    /// What is odd about its first answer.
    #[serde(default)]
    pub odd: Option<Odd>,
}

/// An answer with its end mark that is none in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Odd {
    /// It says nothing.
    Empty,
    /// It asks for more calls than are taken.
    TooManyCalls,
    /// It asks for a call whose arguments end in the middle, and for a tool that there is not.
    WrongCalls,
    /// Its calls have one id.
    SameIds,
    /// Its calls have none.
    NoIds,
    /// The pieces of its calls come in turn, the last call first.
    Interleaved,
}

impl Odd {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Empty, Self::TooManyCalls, Self::WrongCalls, Self::SameIds, Self::NoIds, Self::Interleaved];

    /// Whether it is a failure, after which the same is asked again.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Empty | Self::TooManyCalls)
    }
}

/// A call as the script has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnCall {
    /// The tool.
    pub tool: String,
    /// Whether leave is asked for it.
    #[serde(default)]
    pub asks: bool,
    /// How it ends.
    #[serde(default)]
    pub ends: Ends,
    /// Whether its command goes on in the background.
    #[serde(default)]
    pub background: bool,
}

/// How a call ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// It does what it says.
    #[default]
    Done,
    /// It fails.
    Failed,
    /// It does not end by itself.
    Hangs,
    /// It cannot be ended either.
    Stubborn,
}

/// A request that fails.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnFailure {
    /// How. `timeout` and `stalled` are what silence leads to: then nothing more comes, no word of it either.
    pub class: FailureClass,
    /// After how many pieces; 0 = before the first byte.
    pub after: usize,
    /// How many bytes of the piece after these come as well; at least one, and never all of it, if it is not 0.
    #[serde(default)]
    pub cut: usize,
    /// How long the provider asks to wait.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
    /// How often.
    #[serde(default = "once")]
    pub times: u32,
}

impl TurnFailure {
    /// Whether it fails by saying nothing more.
    pub fn is_silence(self) -> bool {
        matches!(self.class, FailureClass::Timeout | FailureClass::Stalled)
    }
}

const fn once() -> u32 {
    1
}

impl Workload {
    /// The one that is checked in.
    pub fn checked_in() -> Self {
        serde_json::from_str(WORKLOAD).expect("the checked-in workload is valid: a test reads it")
    }
}

impl Turn {
    /// Its whole text.
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
