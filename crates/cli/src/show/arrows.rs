//! The arrows of a drawing. Edges that leave every live box are drawn once, from a box for all of them; triggers with
//! the same ends share an arrow.

use std::collections::BTreeMap;

use super::graph::{Graph, Leads, RunPath, TableEdge};

/// The box for every live one.
pub(crate) const ANY_LIVE: &str = "live";

/// The identifier of a box in a language in which `end` means something else.
pub(crate) fn id(name: &'static str) -> &'static str {
    if name == "end" { "end_node" } else { name }
}

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
    pub(crate) trigger: &'static str,
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
            0 => taken.trigger.to_owned(),
            times => format!("{} ×{times}", taken.trigger),
        };
        let line = |line: &[Taken]| line.iter().map(word).collect::<Vec<_>>().join(", ");
        self.triggers.chunks(most).map(line).collect()
    }
}

/// The arrows in the order of the table.
pub(crate) fn arrows(graph: &Graph) -> Vec<Arrow> {
    let taken = graph.run.as_ref().map(RunPath::taken).unwrap_or_default();
    let live = graph.live();
    let mut arrows: Vec<Arrow> = vec![];
    for edge in &graph.edges {
        for (from, sources) in sources(&edge.from, &live) {
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

/// An end of an arrow, with the boxes that it represents.
type End = (&'static str, Vec<&'static str>);

/// The starts of an edge.
fn sources(from: &[&'static str], live: &[&'static str]) -> Vec<End> {
    if from == live {
        return vec![(ANY_LIVE, live.to_vec())];
    }
    from.iter().map(|name| (*name, vec![*name])).collect()
}

/// The targets of an edge.
fn targets(edge: &TableEdge, from: &'static str) -> Vec<End> {
    match edge.leads {
        Leads::States => edge.to.iter().map(|name| (*name, vec![*name])).collect(),
        Leads::Same => vec![(from, edge.to.clone())],
        Leads::Inside => vec![(ANY_LIVE, edge.to.clone())],
    }
}

type Edges<'a> = BTreeMap<(&'a str, &'a str, &'a str), usize>;

fn times(taken: &Edges<'_>, (sources, trigger, targets): (&[&str], &str, &[&str])) -> usize {
    let fits = |(from, by, to): &(&str, &str, &str)| sources.contains(from) && *by == trigger && targets.contains(to);
    taken.iter().filter(|(edge, _)| fits(edge)).map(|(_, times)| times).sum()
}
