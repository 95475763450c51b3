//! The checked-in workload: what the users send, what the scripted model says, which tools there are. Data only.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{
    BodyKind, BranchId, Candidate, Content, FailureClass, Hash, Limits, MessageId, Policy, ResumeMode, RunId,
    SessionId, Settings, ToolClass, ToolSpec,
};
use serde::Deserialize;
use uuid::Uuid;

const WORKLOAD: &str = include_str!("../workload.json");

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The seeds, each with what it does differently.
    pub seeds: Vec<Seed>,
    /// The tools of every run.
    pub tools: Vec<Tool>,
    /// The runs, in the order in which their messages are sent.
    pub runs: Vec<Script>,
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
    pub leave: bool,
    /// When the last run is aborted.
    pub abort: AbortAt,
}

/// When the last run is aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortAt {
    /// Once its command was told to have started.
    Call,
    /// Once it streams text after its first results.
    Text,
}

/// A tool.
#[derive(Debug, Deserialize)]
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
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What the user sends.
    pub message: String,
    /// What the model says, request by request.
    pub turns: Vec<Turn>,
}

/// One message of the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Its text, in the pieces in which it streams.
    pub chunks: Vec<String>,
    /// The calls that it asks for.
    pub calls: Vec<TurnCall>,
    /// How its first request fails.
    pub failure: Option<TurnFailure>,
}

/// A call as the script has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnCall {
    /// The tool.
    pub tool: String,
    /// Whether leave is asked for it.
    #[serde(default)]
    pub asks: bool,
}

/// A request that fails once.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnFailure {
    /// How.
    pub class: FailureClass,
    /// After how many pieces; 0 = before the first byte.
    pub after: usize,
}

impl Turn {
    /// Its whole text.
    pub fn text(&self) -> String {
        self.chunks.concat()
    }
}

/// A call of the script, found by its arguments: they are different for each.
#[derive(Debug)]
pub struct Planned {
    /// The tool.
    pub tool: String,
    /// How it may be repeated.
    pub class: ToolClass,
    /// Where it lives.
    pub life: Life,
    /// Whether leave is asked for it.
    pub asks: bool,
    /// Its arguments, JSON.
    pub arguments: String,
    /// What it gives back, in the pieces in which a command writes it.
    pub output: Vec<String>,
}

impl Planned {
    /// What an approval binds to, and the key that every try of it carries.
    pub fn fingerprint(&self) -> Hash {
        Hash::of(format!("{} {}", self.tool, self.arguments).as_bytes())
    }

    /// All that it gives back.
    pub fn result(&self) -> Content {
        Content::text(BodyKind::Output, &self.output.concat())
    }
}

/// A workload made ready for one seed.
#[derive(Debug)]
pub struct Plan {
    /// The file.
    pub workload: Workload,
    /// The seed.
    pub seed: Seed,
    /// What every run is decided by.
    pub settings: Arc<Settings>,
    /// Its hash.
    pub settings_hash: Hash,
    /// The calls by the hash of their arguments.
    calls: BTreeMap<Hash, Planned>,
}

impl Plan {
    /// The seeds of the workload.
    pub fn seeds() -> Vec<Seed> {
        read().seeds
    }

    /// The workload under this seed; none if the file does not have it.
    pub fn new(seed: u64) -> Option<Self> {
        let workload = read();
        let seed = workload.seeds.iter().find(|known| known.seed == seed).copied()?;
        let settings = Arc::new(settings(&workload, seed));
        let settings_hash = settings.content().body.hash;
        let calls = calls(&workload);
        Some(Self { workload, seed, settings, settings_hash, calls })
    }

    /// The planned call with these arguments.
    pub fn call(&self, arguments: &Hash) -> Option<&Planned> {
        self.calls.get(arguments)
    }

    /// The arguments of a call of the script.
    pub fn arguments(run: usize, turn: usize, call: usize) -> String {
        format!(r#"{{"call":"{}.{}.{}"}}"#, run + 1, turn + 1, call + 1)
    }

    /// The number of the script that a run follows.
    pub fn script_of(&self, run: RunId) -> Option<usize> {
        (0..self.workload.runs.len()).find(|index| RunId::from(message_id(*index)) == run)
    }

    /// The answer of a run that nothing ends before its time.
    pub fn answer(&self, run: usize) -> String {
        self.workload.runs[run].turns.last().map(Turn::text).unwrap_or_default()
    }
}

/// The session.
pub fn session_id() -> SessionId {
    SessionId(Uuid::from_u128(0x10))
}

/// Its branch.
pub fn branch_id() -> BranchId {
    BranchId(Uuid::from_u128(0x20))
}

/// Its key.
pub const SESSION_KEY: &str = "agent:main:main";

/// The message of a script, from 0.
pub fn message_id(index: usize) -> MessageId {
    MessageId(Uuid::from_u128(0x100 + index as u128))
}

/// The key that its sender gives a message.
pub fn message_key(index: usize) -> String {
    format!("message-{}", index + 1)
}

fn read() -> Workload {
    serde_json::from_str(WORKLOAD).expect("the checked-in workload is valid: a test reads it")
}

fn calls(workload: &Workload) -> BTreeMap<Hash, Planned> {
    let mut calls = BTreeMap::new();
    for (run, script) in workload.runs.iter().enumerate() {
        for (turn, said) in script.turns.iter().enumerate() {
            for (at, call) in said.calls.iter().enumerate() {
                let arguments = Plan::arguments(run, turn, at);
                let tool = workload.tools.iter().find(|tool| tool.name == call.tool);
                let tool = tool.expect("the workload calls only tools that it has: a test reads it");
                let output = vec![format!("begin {arguments}\n"), format!("end {arguments}\n")];
                let (tool, class, life) = (tool.name.clone(), tool.class, tool.life);
                let hash = Hash::of(arguments.as_bytes());
                calls.insert(hash, Planned { tool, class, life, asks: call.asks, arguments, output });
            }
        }
    }
    calls
}

fn settings(workload: &Workload, seed: Seed) -> Settings {
    let tools = workload.tools.iter().map(|tool| ToolSpec {
        name: tool.name.clone(),
        class: tool.class,
        description: format!("The {} of the simulated world.", tool.name),
        schema: serde_json::json!({ "type": "object" }),
    });
    Settings {
        agent: "main".into(),
        workspace: "/simulated".into(),
        date: "2026-01-01".into(),
        candidates: vec![Candidate {
            provider: "scripted".into(),
            model: "script".into(),
            profile: None,
            context_window: 100_000,
            max_output: 1_000,
        }],
        limits: Limits::default(),
        resume: seed.resume,
        exec: Policy::Ask,
        outside: Policy::Deny,
        tools: tools.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_is_three_runs_of_three_calls_and_twenty_four_chunks() {
        let workload = read();
        for (run, script) in workload.runs.iter().enumerate() {
            let chunks: usize = script.turns.iter().map(|turn| turn.chunks.len()).sum();
            let calls: usize = script.turns.iter().map(|turn| turn.calls.len()).sum();
            assert_eq!((chunks, calls), (24, 3), "run {run}");
        }
        assert_eq!(workload.runs.len(), 3);
        assert_eq!(calls(&workload).len(), 9);
        let asked = workload.runs.iter().flat_map(|run| &run.turns).flat_map(|turn| &turn.calls);
        assert_eq!(asked.filter(|call| call.asks).count(), 1);
        for class in [ToolClass::ReadOnly, ToolClass::Idempotent, ToolClass::Once] {
            assert!(workload.tools.iter().any(|tool| tool.class == class), "{class:?}");
        }
    }
}
