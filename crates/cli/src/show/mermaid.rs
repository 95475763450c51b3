//! The graph as a Mermaid `stateDiagram-v2`. Edges that leave every live state are drawn once, from a box that stands for
//! all of them; triggers that share their ends share an arrow. What may not live here: any edge that is not in the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use engine::tables::transitions::{LIVE, RunState, Trigger};

use super::graph::{Graph, Leads, RunPath, StateNode, TableEdge};

/// The box for every live state.
const ANY_LIVE: &str = "live";

/// More in a line and the label hides the arrows beside it.
const TRIGGERS_PER_LINE: usize = 3;

/// The drawing. With a run, the states that it was in are filled, the one that it is in is framed, and each edge says how
/// often it was taken.
pub(crate) fn draw(graph: &Graph) -> String {
    let mut text = String::from("stateDiagram-v2\n");
    for state in &graph.states {
        let _ = writeln!(text, "    {}", label(state));
    }
    let _ = writeln!(text, "    state \"any of these but idle, paused and completed\" as {ANY_LIVE}");
    text.push_str("    [*] --> idle\n");
    for ((from, to), triggers) in arrows(&graph.edges, graph.run.as_ref()) {
        let lines: Vec<String> = triggers.chunks(TRIGGERS_PER_LINE).map(|line| line.join(", ")).collect();
        let _ = writeln!(text, "    {from} --> {to}: {}", lines.join("<br/>"));
    }
    text.push_str("    completed --> [*]\n");
    if let Some(run) = &graph.run {
        text.push_str(&marks(run));
    }
    text
}

fn label(state: &StateNode) -> String {
    let nodes = match state.nodes {
        [] => String::new(),
        nodes => format!(" ({})", nodes.join(", ")),
    };
    format!("state \"{}{nodes}\" as {}", state.name, state.name)
}

type Arrows = Vec<((&'static str, &'static str), Vec<String>)>;

/// The arrows in the order of the table, each with all of its triggers.
fn arrows(edges: &[TableEdge], run: Option<&RunPath>) -> Arrows {
    let taken = run.map(RunPath::taken).unwrap_or_default();
    let mut arrows: Arrows = vec![];
    let mut add = |from: &'static str, to: &'static str, trigger: Trigger, times: usize| {
        let text = if times > 0 { format!("{trigger} ×{times}") } else { trigger.to_string() };
        match arrows.iter_mut().find(|(ends, _)| *ends == (from, to)) {
            Some((_, triggers)) if triggers.contains(&text) => {}
            Some((_, triggers)) => triggers.push(text),
            None => arrows.push(((from, to), vec![text])),
        }
    };
    for edge in edges {
        for (from, sources) in sources(edge.from) {
            for (to, targets) in targets(edge, from) {
                let times = times(&taken, (&sources, edge.trigger, &targets));
                add(from, to, edge.trigger, times);
            }
        }
    }
    arrows
}

/// The boxes that an edge leaves, each with the states that it stands for.
fn sources(from: &'static [RunState]) -> Vec<(&'static str, Vec<RunState>)> {
    if from == LIVE {
        return vec![(ANY_LIVE, LIVE.to_vec())];
    }
    from.iter().map(|state| (state.name(), vec![*state])).collect()
}

/// The boxes that an edge enters, each with the states that it stands for.
fn targets(edge: &TableEdge, from: &'static str) -> Vec<(&'static str, Vec<RunState>)> {
    match edge.leads {
        Leads::States => edge.to.iter().map(|state| (state.name(), vec![*state])).collect(),
        Leads::Same => vec![(from, edge.to.clone())],
        Leads::Inside => vec![(ANY_LIVE, edge.to.clone())],
    }
}

type Taken = BTreeMap<(RunState, Trigger, RunState), usize>;

fn times(taken: &Taken, (sources, trigger, targets): (&[RunState], Trigger, &[RunState])) -> usize {
    let fits = |(from, by, to): &(RunState, Trigger, RunState)| {
        sources.contains(from) && *by == trigger && targets.contains(to)
    };
    taken.iter().filter(|(edge, _)| fits(edge)).map(|(_, times)| times).sum()
}

fn marks(run: &RunPath) -> String {
    let mut seen: Vec<RunState> = run.path.iter().flat_map(|step| [step.from, step.to]).collect();
    seen.sort();
    seen.dedup();
    let mut text =
        String::from("    classDef seen fill:#cde7f0\n    classDef here fill:#f4c95d,stroke:#000,stroke-width:3px\n");
    for state in seen.into_iter().filter(|state| *state != run.state) {
        let _ = writeln!(text, "    class {state} seen");
    }
    let _ = writeln!(text, "    class {} here", run.state);
    text
}
