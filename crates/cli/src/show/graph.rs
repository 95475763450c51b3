//! A drawing of the transition table as data: for the formats, for other programs, and with the path of one run. Its
//! boxes are the states of a run, or the nodes of the loop (`nodes`); the formats draw either.

use std::collections::BTreeMap;

use engine::tables::failover::FailureCategory;
use engine::tables::transitions::{LIVE, RunState, To, Trigger, drawn};
use engine::{RunId, Seq, Timestamp};
use protocol::show::{Node, TraceLine};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::nodes;

/// The graph of the loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Graph {
    pub(crate) kind: Kind,
    pub(crate) states: Vec<StateNode>,
    pub(crate) edges: Vec<TableEdge>,
    /// With `--run`: the run and its path.
    pub(crate) run: Option<RunPath>,
}

/// What the boxes of a drawing are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    States,
    /// The nodes of the loop (R06).
    Nodes,
}

/// A state of a run, or a node of the loop.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct StateNode {
    pub(crate) name: &'static str,
    /// Whether an unfinished run can be in it.
    pub(crate) live: bool,
    #[serde(flatten)]
    pub(crate) other: Other,
}

/// What a box is called in the other drawing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Other {
    /// The nodes that the state represents.
    Nodes(Vec<&'static str>),
    /// The states in which a run is in the node.
    States(Vec<&'static str>),
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct TableEdge {
    pub(crate) from: Vec<&'static str>,
    pub(crate) trigger: &'static str,
    pub(crate) leads: Leads,
    /// The targets; for `same` and `inside` all possible ones.
    pub(crate) to: Vec<&'static str>,
    /// The node of the graph (R06) that the edge enters, if the state has several.
    pub(crate) node: Option<&'static str>,
    pub(crate) note: &'static str,
}

/// The kind of the target of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Leads {
    /// To one of the boxes in `to`.
    States,
    /// The box stays the same.
    Same,
    /// To the phase that was paused.
    Inside,
}

/// Whether a run is, or was, in a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Here,
    Seen,
    None,
}

/// The state and the path of a run.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct RunPath {
    pub(crate) run: RunId,
    pub(crate) state: RunState,
    /// The node that it is in; in a drawing of the nodes also if it waits there.
    pub(crate) node: Option<Node>,
    pub(crate) path: Vec<PathStep>,
    /// The box that it is in; none before its start in a drawing of the nodes.
    #[serde(skip)]
    pub(crate) here: Option<&'static str>,
}

/// An edge that a run took.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct PathStep {
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
    pub(crate) from: &'static str,
    pub(crate) trigger: String,
    pub(crate) to: &'static str,
    pub(crate) node: Option<Node>,
    /// What is known of the failure that the entry records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) category: Option<FailureCategory>,
}

impl Kind {
    /// What the boxes are called together.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::States => "states",
            Self::Nodes => "nodes",
        }
    }

    /// The boxes in which a run begins and ends.
    pub(crate) fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::States => ("idle", "completed"),
            Self::Nodes => ("prepare", "end"),
        }
    }

    /// The label of the box for every live one.
    pub(crate) fn any_label(self) -> &'static str {
        match self {
            Self::States => "any of these but idle, paused and completed",
            Self::Nodes => "any of these but end",
        }
    }

    /// The same for a narrow box.
    pub(crate) fn any_short_label(self) -> &'static str {
        match self {
            Self::States => "not idle, paused, completed",
            Self::Nodes => "not end",
        }
    }
}

impl Other {
    pub(crate) fn names(&self) -> &[&'static str] {
        match self {
            Self::Nodes(names) | Self::States(names) => names,
        }
    }
}

impl Graph {
    /// The states, and the table without its reserved edges.
    pub(crate) fn of_table() -> Self {
        let state = |state: &RunState| StateNode {
            name: state.name(),
            live: LIVE.contains(state),
            other: Other::Nodes(nodes::of(*state).to_vec()),
        };
        let edges = drawn().map(|edge| {
            let from = names(edge.from);
            let (leads, to) = match edge.to {
                To::States(states) => (Leads::States, names(states)),
                To::Same => (Leads::Same, from.clone()),
                To::Inside => (Leads::Inside, names(&inside())),
            };
            TableEdge { from, trigger: edge.trigger.name(), leads, to, node: edge.node, note: edge.note }
        });
        let states = RunState::ALL.iter().map(state).collect();
        Self { kind: Kind::States, states, edges: edges.collect(), run: None }
    }

    /// The boxes in which an unfinished run can be.
    pub(crate) fn live(&self) -> Vec<&'static str> {
        self.states.iter().filter(|state| state.live).map(|state| state.name).collect()
    }

    /// Every trigger of an edge, in the order of the table's triggers.
    pub(crate) fn triggers(&self) -> Vec<&'static str> {
        let mut triggers: Vec<&str> = Trigger::ALL.iter().map(|trigger| trigger.name()).collect();
        for edge in &self.edges {
            if !triggers.contains(&edge.trigger) {
                triggers.push(edge.trigger);
            }
        }
        triggers
    }

    /// The mark of a box.
    pub(crate) fn mark(&self, name: &str) -> Mark {
        match &self.run {
            Some(run) if run.here == Some(name) => Mark::Here,
            Some(run) if run.path.iter().any(|step| step.from == name || step.to == name) => Mark::Seen,
            _ => Mark::None,
        }
    }

    /// The graph with the path of a run.
    pub(crate) fn with_run(mut self, run: RunId, lines: &[TraceLine]) -> Self {
        let last = lines.iter().rev().find(|line| line.event != "lifecycle_changed");
        let (state, node) = last.map_or((RunState::Idle, None), |line| (line.to, line.node));
        self.run = Some(match self.kind {
            Kind::States => RunPath { run, state, node, path: path(lines), here: Some(state.name()) },
            Kind::Nodes => {
                let (node, path) = nodes::path(lines);
                RunPath { run, state, node, path, here: node.map(Node::name) }
            }
        });
        self
    }
}

/// The boxes have their own name in each drawing.
impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.kind.plural(), &self.states)?;
        map.serialize_entry("edges", &self.edges)?;
        if let Some(run) = &self.run {
            map.serialize_entry("run", run)?;
        }
        map.end()
    }
}

impl RunPath {
    /// How often each edge was taken.
    pub(crate) fn taken(&self) -> BTreeMap<(&str, &str, &str), usize> {
        let mut taken = BTreeMap::new();
        for step in &self.path {
            *taken.entry((step.from, step.trigger.as_str(), step.to)).or_default() += 1;
        }
        taken
    }
}

/// The edge that an entry took, unless it says nothing: the state stays the same, and no crash lies before it.
pub(super) fn edge_of(line: &TraceLine) -> Option<&'static str> {
    line.trigger.filter(|_| line.from != line.to || line.crash).map(Trigger::name)
}

/// The path of a run through the states.
fn path(lines: &[TraceLine]) -> Vec<PathStep> {
    let step = |line: &TraceLine| {
        let TraceLine { seq, at, from, to, node, category, .. } = *line;
        let (from, to, trigger) = (from.name(), to.name(), edge_of(line)?.to_owned());
        Some(PathStep { seq, at, from, trigger, to, node, category })
    };
    lines.iter().filter_map(step).collect()
}

fn names(states: &[RunState]) -> Vec<&'static str> {
    states.iter().map(|state| state.name()).collect()
}

/// The phases that can be paused. Streaming cannot: a stream is interrupted before a pause.
pub(super) fn inside() -> Vec<RunState> {
    LIVE.iter().copied().filter(|state| *state != RunState::Streaming).collect()
}
