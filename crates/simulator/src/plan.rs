//! A prepared workload: the settings of every run, and the calls of the script.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::tables::failover::{AtEnd, First, rule_of};
use engine::tables::limits::{BACKOFF_MOST_MS, PROCESS_MS};
use engine::{
    Approvals, BlockBreak, BlockSettings, BodyKind, BranchId, CallOutcome, Candidate, Compaction, Content, Hash,
    Limits, MessageId, OnExpiry, Policy, ReplyRoute, ReplySettings, ResumeMode, RunId, SessionId, Settings, ToolClass,
    ToolResult, ToolSpec,
};
use uuid::Uuid;

use crate::workload::{CallOf, Ends, Expiry, Life, Odd, Route, Seed, Then, Turn, TurnFailure, Workload};

/// How long an approval request waits if it expires.
const EXPIRES_MS: u64 = 400;

/// A call of the script, found by its arguments: they are different for each.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Planned {
    pub tool: String,
    /// Whether it may be repeated.
    pub class: ToolClass,
    pub life: Life,
    /// Whether it needs approval.
    pub asks: bool,
    /// Its arguments, as JSON.
    pub arguments: String,
    /// Its output, in the pieces in which a command writes it.
    pub output: Vec<String>,
    pub ends: Ends,
    /// Whether its command continues in the background.
    pub background: bool,
    /// What it is beside a call of its tool.
    pub of: CallOf,
}

impl Planned {
    /// The hash that an approval binds to; every try of the call carries it as its key.
    pub fn fingerprint(&self) -> Hash {
        Hash::of(format!("{} {}", self.tool, self.arguments).as_bytes())
    }

    /// Whether it ends by itself.
    pub fn comes_to_an_end(&self) -> bool {
        matches!(self.ends, Ends::Done | Ends::Failed)
    }

    /// Its outcome if nothing interrupts it.
    pub fn outcome(&self) -> CallOutcome {
        match self.ends {
            Ends::Done => CallOutcome::Done,
            Ends::Failed | Ends::Hangs | Ends::Stubborn => CallOutcome::Failed,
        }
    }

    /// The result of a command that continues in the background; `None` for other calls.
    pub fn background_result(&self, pieces: usize) -> Option<ToolResult> {
        let output = || Content::text(BodyKind::Output, &self.output[..pieces].concat());
        let given = || ToolResult { in_background: true, ..ToolResult::new(CallOutcome::Done, output()) };
        (self.background && pieces > 0).then(given)
    }

    /// Its complete output.
    pub fn result(&self) -> Content {
        Content::text(BodyKind::Output, &self.output.concat())
    }
}

/// A workload, prepared for one seed.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Plan {
    pub workload: Workload,
    pub seed: Seed,
    /// The settings of every run.
    pub settings: Arc<Settings>,
    pub settings_hash: Hash,
    /// The calls by the hash of their arguments.
    calls: BTreeMap<Hash, Planned>,
    /// The run and turn of each wrong call, by the hash of its arguments.
    wrong: BTreeMap<Hash, (usize, usize)>,
}

impl Plan {
    /// The seeds of the workload.
    pub fn seeds() -> Vec<Seed> {
        Workload::checked_in().seeds
    }

    /// The checked-in workload with this seed; `None` if the file does not have the seed.
    pub fn new(seed: u64) -> Option<Self> {
        let mut workload = Workload::checked_in();
        let seed = workload.seeds.iter().find(|known| known.seed == seed).copied()?;
        if let Some(last) = workload.runs.last_mut() {
            last.abort = seed.abort;
        }
        Some(Self::of(workload, seed))
    }

    /// Any workload with this seed.
    pub fn of(workload: Workload, seed: Seed) -> Self {
        let settings = Arc::new(settings(&workload, seed));
        let settings_hash = settings.content().body.hash;
        let (calls, wrong) = (calls(&workload), wrong_calls(&workload));
        Self { workload, seed, settings, settings_hash, calls, wrong }
    }

    /// The limits of every run.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// The planned call with these arguments.
    pub fn call(&self, arguments: &Hash) -> Option<&Planned> {
        self.calls.get(arguments)
    }

    /// Whether the call of this fingerprint is a question of the model.
    pub fn is_question(&self, fingerprint: &Hash) -> bool {
        self.calls.values().any(|call| call.fingerprint() == *fingerprint && call.of == CallOf::Question)
    }

    /// What somebody gives the call of this fingerprint instead of its own arguments.
    pub fn edited(&self, fingerprint: &Hash) -> Option<String> {
        let call = self.calls.values().find(|call| call.fingerprint() == *fingerprint)?;
        Some(edited(&call.arguments))
    }

    /// The arguments of a call of the script.
    pub fn arguments(run: usize, turn: usize, call: usize) -> String {
        format!(r#"{{"call":"{}.{}.{}"}}"#, run + 1, turn + 1, call + 1)
    }

    /// The arguments of a truncated call.
    pub fn broken_arguments(run: usize, turn: usize) -> String {
        format!(r#"{{"odd":"{}.{}"#, run + 1, turn + 1)
    }

    /// The arguments of a call to an unknown tool.
    pub fn unknown_arguments(run: usize, turn: usize) -> String {
        format!(r#"{{"odd":"{}.{}"}}"#, run + 1, turn + 1)
    }

    /// The run and turn whose answer makes this wrong call, by its arguments.
    pub fn wrong_call(&self, arguments: &Hash) -> Option<(usize, usize)> {
        self.wrong.get(arguments).copied()
    }

    /// The index of the script that a run follows.
    pub fn script_of(&self, run: RunId) -> Option<usize> {
        (0..self.workload.runs.len()).find(|index| RunId::from(message_id(*index)) == run)
    }

    /// Whether the policy of the runs lets this call run, with approval if it needs that. A plan only reads.
    pub fn may_run(&self, planned: &Planned) -> bool {
        !self.workload.task.plan || planned.class == ToolClass::ReadOnly
    }

    /// Why an answer does not fit the schema of its run; `None` if it does, or if there is none.
    pub fn misfit(&self, text: &str) -> Option<String> {
        let fits = !self.workload.task.schema || Hash::of(text.as_bytes()).0[0].is_multiple_of(3);
        (!fits).then(|| "it is not what was asked for".to_owned())
    }

    /// How many requests of a run can fail by its script before it succeeds; `None` = the run may end with a failure.
    pub fn failures(&self, run: usize) -> Option<u32> {
        let failures = self.workload.runs[run].turns.iter().filter_map(|turn| turn.failure);
        let fails = |failure: &TurnFailure| {
            let is_tried_again = matches!(rule_of(failure.class).first, First::Retry | First::RetryOnce);
            let is_waited_for = failure.retry_after_ms.is_none_or(|ms| ms <= BACKOFF_MOST_MS);
            !is_tried_again || !is_waited_for
        };
        // The rest of an interrupted piece may be blank, which is no answer.
        let goes_on = self.seed.resume == ResumeMode::Continue;
        let blanks = |failure: &TurnFailure| u32::from(goes_on && failure.cut > 0);
        let by_turn: Option<u32> =
            failures.map(|failure| (!fails(&failure)).then(|| failure.times + blanks(&failure))).sum();
        let odd = self.workload.runs[run].turns.iter().filter(|turn| turn.odd.is_some_and(Odd::is_failure));
        let is_flawed = self.workload.candidates.iter().any(|asked| asked.flaw.is_some());
        by_turn.filter(|_| !is_flawed).map(|failures| failures + odd.count() as u32)
    }

    /// How long the runs can wait in total for candidates in cooldown, milliseconds. During such a wait a permanent
    /// failure of another candidate leaves none to ask.
    pub fn waits_ms(&self) -> u64 {
        let turns = self.workload.runs.iter().flat_map(|run| &run.turns);
        let failures: Vec<TurnFailure> = turns.filter_map(|turn| turn.failure).collect();
        let is_waited_for =
            |failure: &TurnFailure| failure.retry_after_ms.is_some() || rule_of(failure.class).at_end == AtEnd::Wait;
        let flaws = self.workload.candidates.iter().filter_map(|asked| asked.flaw);
        let limited = flaws.filter(|flaw| rule_of(flaw.class).at_end == AtEnd::Wait).count();
        let waits = if failures.iter().any(is_waited_for) { failures.len() + limited } else { limited };
        waits as u64 * self.limits().max_wait_ms
    }

    /// How long silence and hanging calls can delay a run, milliseconds; `None` = without end.
    pub fn held_up_ms(&self, run: usize) -> Option<u64> {
        let limits = self.limits();
        let turns = &self.workload.runs[run].turns;
        let silent = turns.iter().filter_map(|turn| turn.failure).filter(|failure| failure.is_silence());
        let silence: u64 = silent
            .map(|failure| u64::from(failure.times) * limits.first_byte_timeout_ms.max(limits.idle_timeout_ms))
            .sum();
        let calls: Option<u64> = turns
            .iter()
            .flat_map(|turn| &turn.calls)
            .map(|call| match call.ends {
                _ if call.background => Some(0),
                Ends::Done | Ends::Failed => Some(0),
                Ends::Hangs => Some(limits.tool_timeout_ms),
                // It cannot be stopped: only the end of the run abandons it.
                Ends::Stubborn => None,
            })
            .sum();
        calls.map(|calls| calls + silence)
    }

    /// The number of calls that only a limit ends.
    pub fn hanging_calls(&self) -> u64 {
        let calls = self.workload.runs.iter().flat_map(|run| &run.turns).flat_map(|turn| &turn.calls);
        calls.filter(|call| matches!(call.ends, Ends::Hangs | Ends::Stubborn)).count() as u64
    }

    /// How long commands in the background can run, milliseconds: hanging ones run to their limit.
    pub fn background_ms(&self) -> u64 {
        let calls = self.workload.runs.iter().flat_map(|run| &run.turns).flat_map(|turn| &turn.calls);
        let hangs = calls.into_iter().any(|call| call.background && call.ends == Ends::Hangs);
        if hangs { PROCESS_MS } else { 0 }
    }

    /// Whether a paused run is never resumed.
    pub fn stays_held(&self, run: usize) -> bool {
        self.workload.runs[run].pause.is_some_and(|pause| pause.then == Then::Stays)
    }

    /// The answer of a run that nothing interrupts.
    pub fn answer(&self, run: usize) -> String {
        self.workload.runs[run].turns.last().map(Turn::text).unwrap_or_default()
    }
}

/// The id of the session.
pub fn session_id() -> SessionId {
    SessionId(Uuid::from_u128(0x10))
}

/// The id of its branch.
pub fn branch_id() -> BranchId {
    BranchId(Uuid::from_u128(0x20))
}

/// The key of the session.
pub const SESSION_KEY: &str = "agent:main:main";

/// The message of a script, from 0.
pub fn message_id(index: usize) -> MessageId {
    MessageId(Uuid::from_u128(0x100 + index as u128))
}

/// The idempotency key that the sender gives a message.
pub fn message_key(index: usize) -> String {
    format!("message-{}", index + 1)
}

fn calls(workload: &Workload) -> BTreeMap<Hash, Planned> {
    let mut calls = BTreeMap::new();
    for (run, script) in workload.runs.iter().enumerate() {
        for (turn, said) in script.turns.iter().enumerate() {
            for (at, call) in said.calls.iter().enumerate() {
                let arguments = Plan::arguments(run, turn, at);
                let tool = workload.tools.iter().find(|tool| tool.name == call.tool);
                let tool = tool.expect("the workload calls only tools that it has: a test reads it");
                for arguments in [edited(&arguments), arguments] {
                    let output = vec![format!("begin {arguments}\n"), format!("end {arguments}\n")];
                    let (tool, class, life) = (tool.name.clone(), tool.class, tool.life);
                    let hash = Hash::of(arguments.as_bytes());
                    let (asks, ends, background, of) = (call.asks, call.ends, call.background, call.of);
                    calls.insert(hash, Planned { tool, class, life, asks, arguments, output, ends, background, of });
                }
            }
        }
    }
    calls
}

/// The arguments of a call after somebody has changed them.
fn edited(arguments: &str) -> String {
    format!(r#"{},"edited":true}}"#, arguments.trim_end_matches('}'))
}

fn wrong_calls(workload: &Workload) -> BTreeMap<Hash, (usize, usize)> {
    let mut wrong = BTreeMap::new();
    for (run, script) in workload.runs.iter().enumerate() {
        let odd = script.turns.iter().enumerate().filter(|(_, turn)| turn.odd == Some(Odd::WrongCalls));
        for (turn, _) in odd {
            for arguments in [Plan::broken_arguments(run, turn), Plan::unknown_arguments(run, turn)] {
                wrong.insert(Hash::of(arguments.as_bytes()), (run, turn));
            }
        }
    }
    wrong
}

fn settings(workload: &Workload, seed: Seed) -> Settings {
    let tools = workload.tools.iter().map(|tool| ToolSpec {
        name: tool.name.clone(),
        class: tool.class,
        description: format!("The {} of the simulated world.", tool.name),
        schema: serde_json::json!({ "type": "object" }),
    });
    let candidates = workload.candidates.iter().map(|asked| Candidate {
        provider: "scripted".into(),
        model: asked.model.clone(),
        profile: Some(asked.profile.clone()),
        context_window: 100_000,
        max_output: 1_000,
        thinking: asked.thinking,
        images: true,
        structured_output: false,
        sampling: engine::Sampling::default(),
        token_rate: 1_000,
        can_refresh: asked.can_refresh,
        levels: vec![],
        price: None,
    });
    Settings {
        policy: [].into(),
        agent: "main".into(),
        workspace: "/simulated".into(),
        date: "2026-01-01".into(),
        facts: String::new(),
        prompt: engine::PromptSettings::default(),
        candidates: candidates.collect(),
        limits: workload.limits,
        resume: seed.resume,
        approvals: approvals(seed.expiry),
        sandbox: engine::Sandbox::default(),
        exec: Policy::Ask,
        outside: Policy::Deny,
        // The script's conversations are short, so only little of them is kept.
        compaction: Compaction { keep: 60, flush_lead: Some(4_000), ..Compaction::default() },
        titles: workload.titles.then(engine::Titles::default),
        history_turns: None,
        instructions: false,
        addresses: vec![],
        recover: engine::Recover::Ask,
        executed_files: Policy::Allow,
        web_fetch: Policy::Deny,
        web_search: None,
        stop_before: workload.task.stop_before.clone(),
        plan: workload.task.plan,
        output_schema: workload.task.schema.then(|| serde_json::json!({ "type": "object" })),
        reply: ReplySettings { routes: workload.route.into_iter().map(route).collect(), ..ReplySettings::default() },
        tools: tools.collect(),
        budget: workload.budget.clone(),
        derived: engine::Derived::default(),
    }
}

/// The name of the route for replies.
pub const ROUTE: &str = "out";

/// Its blocks are short, so that the texts of the script make several.
fn route(Route { has_keys, blocks }: Route) -> ReplyRoute {
    let blocks = BlockSettings { mode: blocks, min_chars: 12, max_chars: 40, break_at: BlockBreak::Sentence };
    ReplyRoute { name: ROUTE.to_owned(), has_keys, blocks, policy: None }
}

/// Requests that expire do so while ordinary work goes on: an answer, an abort or a crash may come first.
fn approvals(expiry: Expiry) -> Approvals {
    let on_expiry = if expiry == Expiry::Keeps { OnExpiry::Keep } else { OnExpiry::Deny };
    let expires_ms = (expiry != Expiry::Never).then_some(EXPIRES_MS);
    Approvals { expires_ms, on_expiry, ..Approvals::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_of_the_script_is_known_by_its_arguments() {
        let plan = Plan::new(1).unwrap();
        assert_eq!(plan.calls.len(), 2 * 9, "each also with arguments that somebody has changed");
        assert_eq!(plan.failures(0), Some(1));
        assert_eq!(plan.failures(2), Some(0));
        let planned = plan.call(&Hash::of(Plan::arguments(0, 0, 1).as_bytes())).unwrap();
        assert_eq!((planned.tool.as_str(), planned.outcome()), ("put", CallOutcome::Done));
    }
}
