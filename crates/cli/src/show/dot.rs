//! The graph in the DOT language of Graphviz.

use std::fmt::Write as _;

use super::arrows::{ANY_LIVE, Arrow, arrows, id};
use super::graph::{Graph, Mark, StateNode};

/// Maximum triggers in a line; with more the drawing is too wide to read.
const TRIGGERS_PER_LINE: usize = 3;

const HEAD: &str = "\
digraph limulus {
    rankdir=TB
    node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", fontname=\"sans-serif\"]
    edge [fontname=\"sans-serif\", fontsize=10]
    begin [shape=point, label=\"\"]
    end [shape=doublecircle, label=\"\", width=0.12, style=filled, fillcolor=\"#000000\"]
";

/// Draws the graph; a run is marked as in the other formats.
pub(crate) fn draw(graph: &Graph) -> String {
    let mut text = String::from(HEAD);
    // Writing to a String cannot fail.
    for state in &graph.states {
        let _ = writeln!(text, "    {} [label=\"{}\"{}]", id(state.name), label(state), mark(graph.mark(state.name)));
    }
    let _ = writeln!(text, "    {ANY_LIVE} [label=\"{}\", style=\"rounded,dashed\"]", graph.kind.any_label());
    let (first, last) = graph.kind.ends();
    let _ = writeln!(text, "    begin -> {}", id(first));
    for arrow in arrows(graph) {
        let lines = arrow.lines(TRIGGERS_PER_LINE).join("\\n");
        let _ = writeln!(text, "    {} -> {} [label=\"{lines}\"{}]", id(arrow.from), id(arrow.to), taken(&arrow));
    }
    let _ = writeln!(text, "    {} -> end\n}}", id(last));
    text
}

fn label(state: &StateNode) -> String {
    match state.other.names() {
        [] => state.name.to_owned(),
        others => format!("{}\\n({})", state.name, others.join(", ")),
    }
}

fn mark(mark: Mark) -> &'static str {
    match mark {
        Mark::Here => ", fillcolor=\"#f4c95d\", penwidth=3",
        Mark::Seen => ", fillcolor=\"#cde7f0\"",
        Mark::None => "",
    }
}

fn taken(arrow: &Arrow) -> &'static str {
    if arrow.is_taken() { ", color=\"#0b6e99\", penwidth=2" } else { "" }
}
