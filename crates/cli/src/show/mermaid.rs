//! The graph as a Mermaid `stateDiagram-v2`.

use std::fmt::Write as _;

use super::arrows::{ANY_LIVE, ANY_LIVE_LABEL, arrows};
use super::graph::{Graph, RunPath, StateNode};

/// Maximum triggers in a line; with more the label hides the arrows beside it.
const TRIGGERS_PER_LINE: usize = 3;

/// Draws the graph. With a run, its past states are filled, its current state is framed, and each edge shows how often the
/// run took it.
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
