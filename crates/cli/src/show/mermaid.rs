//! The graph as a Mermaid `stateDiagram-v2`.

use std::fmt::Write as _;

use super::arrows::{ANY_LIVE, arrows, id};
use super::graph::{Graph, Mark, StateNode};

/// Maximum triggers in a line; with more the label hides the arrows beside it.
const TRIGGERS_PER_LINE: usize = 3;

/// Draws the graph. With a run, its past boxes are filled, its current one is framed, and each edge shows how often the
/// run took it.
pub(crate) fn draw(graph: &Graph) -> String {
    let mut text = String::from("stateDiagram-v2\n");
    for state in &graph.states {
        let _ = writeln!(text, "    {}", label(state));
    }
    let _ = writeln!(text, "    state \"{}\" as {ANY_LIVE}", graph.kind.any_label());
    let (first, last) = graph.kind.ends();
    let _ = writeln!(text, "    [*] --> {}", id(first));
    for arrow in arrows(graph) {
        let lines = arrow.lines(TRIGGERS_PER_LINE).join("<br/>");
        let _ = writeln!(text, "    {} --> {}: {lines}", id(arrow.from), id(arrow.to));
    }
    let _ = writeln!(text, "    {} --> [*]", id(last));
    if graph.run.is_some() {
        text.push_str(&marks(graph));
    }
    text
}

fn label(state: &StateNode) -> String {
    let others = match state.other.names() {
        [] => String::new(),
        others => format!(" ({})", others.join(", ")),
    };
    format!("state \"{}{others}\" as {}", state.name, id(state.name))
}

fn marks(graph: &Graph) -> String {
    let mut text =
        String::from("    classDef seen fill:#cde7f0\n    classDef here fill:#f4c95d,stroke:#000,stroke-width:3px\n");
    let marked = |mark: Mark| graph.states.iter().map(|state| state.name).filter(move |name| graph.mark(name) == mark);
    for name in marked(Mark::Seen) {
        let _ = writeln!(text, "    class {} seen", id(name));
    }
    for name in marked(Mark::Here) {
        let _ = writeln!(text, "    class {} here", id(name));
    }
    text
}
