//! The arrows of a drawing. Edges that leave every live state are drawn once, from a box for all of them; triggers with
//! the same ends share an arrow.

use std::collections::BTreeMap;

use engine::tables::transitions::{LIVE, RunState, Trigger};

use super::graph::{Graph, Leads, RunPath, TableEdge};

/// The box for every live state.
pub(crate) const ANY_LIVE: &str = "live";

/// The label of [`ANY_LIVE`].
pub(crate) const ANY_LIVE_LABEL: &str = "any of these but idle, paused and completed";

/// An arrow with all of its triggers, in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrow {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) triggers: Vec<Taken>,
}

/// A trigger, and how often a run took it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) trigger: Trigger,
    pub(crate) times: usize,
}

impl Arrow {
    /// Whether the run took it.
    pub(crate) fn is_taken(&self) -> bool {
        self.triggers.iter().any(|taken| taken.times > 0)
    }

    /// The label, with at most so many triggers a line.
    pub(crate) fn lines(&self, most: usize) -> Vec<String> {
        let word = |taken: &Taken| match taken.times {
            0 => taken.trigger.to_string(),
            times => format!("{} ×{times}", taken.trigger),
        };
        let line = |line: &[Taken]| line.iter().map(word).collect::<Vec<_>>().join(", ");
        self.triggers.chunks(most).map(line).collect()
    }
}

/// The arrows in the order of the table.
pub(crate) fn arrows(graph: &Graph) -> Vec<Arrow> {
    let taken = graph.run.as_ref().map(RunPath::taken).unwrap_or_default();
    let mut arrows: Vec<Arrow> = vec![];
    for edge in &graph.edges {
        for (from, sources) in sources(edge.from) {
            for (to, targets) in targets(edge, from) {
                let times = times(&taken, (&sources, edge.trigger, &targets));
                let taken = Taken { trigger: edge.trigger, times };
                match arrows.iter_mut().find(|arrow| (arrow.from, arrow.to) == (from, to)) {
                    Some(arrow) if arrow.triggers.contains(&taken) => {}
                    Some(arrow) => arrow.triggers.push(taken),
                    None => arrows.push(Arrow { from, to, triggers: vec![taken] }),
                }
            }
        }
    }
    arrows
}

/// The boxes at the start of an edge, each with the states that it represents.
fn sources(from: &'static [RunState]) -> Vec<(&'static str, Vec<RunState>)> {
    if from == LIVE {
        return vec![(ANY_LIVE, LIVE.to_vec())];
    }
    from.iter().map(|state| (state.name(), vec![*state])).collect()
}

/// The boxes at the end of an edge, each with the states that it represents.
fn targets(edge: &TableEdge, from: &'static str) -> Vec<(&'static str, Vec<RunState>)> {
    match edge.leads {
        Leads::States => edge.to.iter().map(|state| (state.name(), vec![*state])).collect(),
        Leads::Same => vec![(from, edge.to.clone())],
        Leads::Inside => vec![(ANY_LIVE, edge.to.clone())],
    }
}

type Edges = BTreeMap<(RunState, Trigger, RunState), usize>;

fn times(taken: &Edges, (sources, trigger, targets): (&[RunState], Trigger, &[RunState])) -> usize {
    let fits = |(from, by, to): &(RunState, Trigger, RunState)| {
        sources.contains(from) && *by == trigger && targets.contains(to)
    };
    taken.iter().filter(|(edge, _)| fits(edge)).map(|(_, times)| times).sum()
}
