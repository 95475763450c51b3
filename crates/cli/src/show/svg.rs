//! The graph as an SVG drawing without scripts, links or external fonts; `layout` computes the positions.

use std::fmt::Write as _;

use super::arrows::{ANY_LIVE, arrows};
use super::graph::{Graph, Mark};
use super::layout::{LETTER, Layout, Placed, Rect, Route, Side, order};

const STYLE: &str = "\
text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:11px;fill:#24292f}\
.name{font-weight:bold;font-size:14px;text-anchor:middle}.nodes{text-anchor:middle;fill:#57606a}\
rect.box{fill:#f6f8fa;stroke:#57606a}rect.any{stroke-dasharray:5 3}rect.seen{fill:#cde7f0}\
rect.here{fill:#f4c95d;stroke:#000;stroke-width:3}\
path{fill:none;stroke:#8c959f}path.taken{stroke:#0b6e99;stroke-width:2.5}text.taken{fill:#0b6e99;font-weight:bold}";

/// Draws the graph; a run is marked as in the other formats.
pub(crate) fn draw(graph: &Graph) -> String {
    let names = order(graph.states.iter().map(|state| (state.name, state.live)));
    let layout = Layout::of(&names, &arrows(graph));
    let Layout { width, height, boxes, routes } = &layout;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>The {} of a run</title>\n<style>{STYLE}</style>\n\
         <defs>{}{}</defs>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#fff\"/>\n",
        graph.kind.plural(),
        head("head", "#8c959f"),
        head("head-taken", "#0b6e99"),
    );
    // Draw taken edges over the others.
    for is_taken in [false, true] {
        for route in routes.iter().filter(|route| route.arrow.is_taken() == is_taken) {
            text.push_str(&line(&layout, route));
        }
    }
    text.extend(boxes.iter().map(|placed| state(graph, placed)));
    text.extend(routes.iter().map(|route| label(&layout, route)));
    text.push_str("</svg>\n");
    text
}

fn head(id: &str, color: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" style=\"fill:{color};stroke:none\"/></marker>"
    )
}

fn line(layout: &Layout, route: &Route) -> String {
    let (source, target) = (layout.rect(route.arrow.from), layout.rect(route.arrow.to));
    let edge = |rect: Rect| if route.side == Side::Right { rect.x + rect.width } else { rect.x };
    let (class, head) = if route.arrow.is_taken() { ("taken", "head-taken") } else { ("", "head") };
    format!(
        "<path class=\"{class}\" d=\"M{:.1} {:.1}H{:.1}V{:.1}H{:.1}\" marker-end=\"url(#{head})\"/>\n",
        edge(source),
        route.from_y,
        route.track_x,
        route.to_y,
        edge(target),
    )
}

fn state(graph: &Graph, placed: &Placed) -> String {
    let Rect { x, y, width, height } = placed.rect;
    let node = graph.states.iter().find(|state| state.name == placed.name);
    let mark = match node.map_or(Mark::None, |node| graph.mark(node.name)) {
        Mark::Here => " here",
        Mark::Seen => " seen",
        Mark::None => "",
    };
    let any = if placed.name == ANY_LIVE { " any" } else { "" };
    let below = match node {
        Some(node) => node.other.names().join(", "),
        None => graph.kind.any_short_label().to_owned(),
    };
    let (middle, line) = (x + width / 2.0, y + height / 2.0);
    let (name_y, below_y) = if below.is_empty() { (line + 5.0, line) } else { (line - 2.0, line + 14.0) };
    let mut text = format!(
        "<rect class=\"box{any}{mark}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\"/>\n"
    );
    // Writing to a String cannot fail.
    let _ = writeln!(text, "<text class=\"name\" x=\"{middle:.1}\" y=\"{name_y:.1}\">{}</text>", placed.name);
    if !below.is_empty() {
        let _ = writeln!(text, "<text class=\"nodes\" x=\"{middle:.1}\" y=\"{below_y:.1}\">{below}</text>");
    }
    text
}

/// Names of triggers come from the table and need no escaping.
fn label(layout: &Layout, route: &Route) -> String {
    let rect = layout.label(route);
    let class = if route.arrow.is_taken() { " class=\"taken\"" } else { "" };
    let lines = (0_u8..).zip(&route.lines).map(|(number, line)| {
        let y = rect.y + LETTER.0 * (f64::from(number) + 1.0) - 3.0;
        format!("<text{class} x=\"{:.1}\" y=\"{y:.1}\" textLength=\"{:.1}\">{line}</text>\n", rect.x, length(line))
    });
    lines.collect()
}

/// The width of a label, in every font.
fn length(line: &str) -> f64 {
    LETTER.1 * line.chars().count() as f64
}
