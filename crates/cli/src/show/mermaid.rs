//! The graph as a Mermaid `stateDiagram-v2`. What may not live here: any edge that is not in the table.

use std::fmt::Write as _;

use super::arrows::{ANY_LIVE, ANY_LIVE_LABEL, arrows};
use super::graph::{Graph, RunPath, StateNode};

/// More in a line and the label hides the arrows beside it.
const TRIGGERS_PER_LINE: usize = 3;

/// The drawing. With a run, the states that it was in are filled, the one that it is in is framed, and each edge says how
/// often it was taken.
pub(crate) fn draw(graph: &Graph) -> String {
    let mut text = String::from("stateDiagram-v2\n");
    for state in &graph.states {
        let _ = writeln!(text, "    {}", label(state));
    }
    let _ = writeln!(text, "    state \"{ANY_LIVE_LABEL}\" as {ANY_LIVE}");
    text.push_str("    [*] --> idle\n");
    for arrow in arrows(graph) {
        let _ = writeln!(text, "    {} --> {}: {}", arrow.from, arrow.to, arrow.lines(TRIGGERS_PER_LINE).join("<br/>"));
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

fn marks(run: &RunPath) -> String {
    let mut text =
        String::from("    classDef seen fill:#cde7f0\n    classDef here fill:#f4c95d,stroke:#000,stroke-width:3px\n");
    for state in run.seen() {
        let _ = writeln!(text, "    class {state} seen");
    }
    let _ = writeln!(text, "    class {} here", run.state);
    text
}
