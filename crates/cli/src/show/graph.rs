//! The transition table as data: for drawings, for other programs, and with the path of one run.

use std::collections::BTreeMap;

use engine::tables::transitions::{LIVE, RunState, To, Trigger, drawn};
use engine::{RunId, Seq, Timestamp};
use protocol::show::{Node, TraceLine};
use serde::Serialize;

/// The graph of the loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Graph {
    pub(crate) states: Vec<StateNode>,
    pub(crate) edges: Vec<TableEdge>,
    /// With `--run`: the run and its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<RunPath>,
}

/// A state of a run, as a node of the drawing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StateNode {
    pub(crate) name: RunState,
    /// Whether an unfinished run can be in it.
    pub(crate) live: bool,
    /// The nodes of the graph (R06) that it represents.
    pub(crate) nodes: &'static [&'static str],
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TableEdge {
    pub(crate) from: &'static [RunState],
    pub(crate) trigger: Trigger,
    pub(crate) leads: Leads,
    /// The target states; for `same` and `inside` all possible ones.
    pub(crate) to: Vec<RunState>,
    /// The node of the graph (R06) that the edge enters, if the state has several.
    pub(crate) node: Option<&'static str>,
    pub(crate) note: &'static str,
}

/// The kind of the target of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Leads {
    /// To one of the states in `to`.
    States,
    /// The state stays the same.
    Same,
    /// To the phase that was paused.
    Inside,
}

/// Whether a run is, or was, in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Here,
    Seen,
    None,
}

/// The state and the path of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RunPath {
    pub(crate) run: RunId,
    pub(crate) state: RunState,
    pub(crate) node: Option<Node>,
    pub(crate) path: Vec<PathStep>,
}

/// An edge that a run took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PathStep {
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
    pub(crate) from: RunState,
    pub(crate) trigger: Trigger,
    pub(crate) to: RunState,
    pub(crate) node: Option<Node>,
}

impl Graph {
    /// The table without its reserved edges.
    pub(crate) fn of_table() -> Self {
        let state = |name: &RunState| StateNode { name: *name, live: LIVE.contains(name), nodes: nodes(*name) };
        let edges = drawn().map(|edge| {
            let (leads, to) = match edge.to {
                To::States(states) => (Leads::States, states.to_vec()),
                To::Same => (Leads::Same, edge.from.to_vec()),
                To::Inside => (Leads::Inside, inside()),
            };
            TableEdge { from: edge.from, trigger: edge.trigger, leads, to, node: edge.node, note: edge.note }
        });
        Self { states: RunState::ALL.iter().map(state).collect(), edges: edges.collect(), run: None }
    }

    /// The mark of a state.
    pub(crate) fn mark(&self, state: RunState) -> Mark {
        match &self.run {
            Some(run) if run.state == state => Mark::Here,
            Some(run) if run.seen().contains(&state) => Mark::Seen,
            _ => Mark::None,
        }
    }

    /// The graph with the path of a run.
    pub(crate) fn with_run(mut self, run: RunId, lines: &[TraceLine]) -> Self {
        let path = lines.iter().filter_map(|line| {
            let trigger = line.trigger.filter(|_| line.from != line.to || line.crash)?;
            let TraceLine { seq, at, from, to, node, .. } = *line;
            Some(PathStep { seq, at, from, trigger, to, node })
        });
        let last = lines.iter().rev().find(|line| line.event != "lifecycle_changed");
        let (state, node) = last.map_or((RunState::Idle, None), |line| (line.to, line.node));
        self.run = Some(RunPath { run, state, node, path: path.collect() });
        self
    }
}

impl RunPath {
    /// The past states, without the current one.
    pub(crate) fn seen(&self) -> Vec<RunState> {
        let mut seen: Vec<RunState> = self.path.iter().flat_map(|step| [step.from, step.to]).collect();
        seen.sort();
        seen.dedup();
        seen.retain(|state| *state != self.state);
        seen
    }

    /// How often each edge was taken.
    pub(crate) fn taken(&self) -> BTreeMap<(RunState, Trigger, RunState), usize> {
        let mut taken = BTreeMap::new();
        for step in &self.path {
            *taken.entry((step.from, step.trigger, step.to)).or_default() += 1;
        }
        taken
    }
}

/// The phases that can be paused. Streaming cannot: a stream is interrupted before a pause.
pub(crate) fn inside() -> Vec<RunState> {
    LIVE.iter().copied().filter(|state| *state != RunState::Streaming).collect()
}

/// The nodes (R06) that a state represents.
pub(crate) fn nodes(state: RunState) -> &'static [&'static str] {
    match state {
        RunState::Preparing => &["prepare", "call_model"],
        RunState::Streaming => &["process_stream"],
        RunState::ToolExec => &["execute_tools"],
        RunState::Compacting => &["compact"],
        RunState::Error => &["error"],
        RunState::Completed => &["end"],
        RunState::Idle | RunState::Retry | RunState::Awaiting | RunState::Paused => &[],
    }
}
