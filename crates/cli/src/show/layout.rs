//! Computes where the boxes and arrows of a drawing go: one state a layer, from the top down. An arrow that leads down
//! runs at the right of the boxes, one that leads up at the left, each in a track of its own. Its label is above its
//! own line, between its box and the tracks, so that no label meets another label or line.

use super::arrows::{ANY_LIVE, Arrow};

/// Height and width of a letter of a label: a monospaced face of 11 pixels.
pub(super) const LETTER: (f64, f64) = (13.0, 6.7);
/// Triggers in one line of a label.
const TRIGGERS_PER_LINE: usize = 2;
const BOX_WIDTH: f64 = 190.0;
const BOX_LEAST_HEIGHT: f64 = 46.0;
const BOX_GAP: f64 = 18.0;
const TRACK_GAP: f64 = 11.0;
const MARGIN: f64 = 16.0;
/// Distance between two rows.
const ROW_GAP: f64 = 5.0;

/// A rectangle, from its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A box of a state.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed {
    pub(super) name: &'static str,
    pub(super) rect: Rect,
}

/// An arrow: from a box's side out to its track, along it, and in to the other box.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    pub(super) arrow: Arrow,
    pub(super) side: Side,
    pub(super) from_y: f64,
    pub(super) to_y: f64,
    pub(super) track_x: f64,
    pub(super) lines: Vec<String>,
}

/// At which side of the boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The drawing, with a position for every box and arrow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) boxes: Vec<Placed>,
    pub(super) routes: Vec<Route>,
}

/// One end of an arrow at a box.
#[derive(Debug, Clone, Copy)]
struct Port {
    route: usize,
    is_source: bool,
    height: f64,
}

impl Layout {
    /// Places these boxes, in this order, and the arrows between them.
    pub(super) fn of(names: &[&'static str], arrows: &[Arrow]) -> Self {
        let layer = |name: &str| names.iter().position(|known| *known == name).unwrap_or(names.len());
        let mut routes: Vec<Route> = arrows
            .iter()
            .map(|arrow| {
                let side = if layer(arrow.to) < layer(arrow.from) { Side::Left } else { Side::Right };
                let lines = arrow.lines(TRIGGERS_PER_LINE);
                Route { arrow: arrow.clone(), side, from_y: 0.0, to_y: 0.0, track_x: 0.0, lines }
            })
            .collect();
        let zone = |side: Side| label_zone(&routes, side);
        let (left_zone, right_zone) = (zone(Side::Left), zone(Side::Right));
        let mut boxes = vec![];
        let mut y = MARGIN;
        for name in names {
            let height = place_ports(&mut routes, name, y);
            boxes.push(Placed { name, rect: Rect { x: 0.0, y, width: BOX_WIDTH, height } });
            y += height + BOX_GAP;
        }
        let left_tracks = place_tracks(&mut routes, Side::Left, -left_zone);
        let right_tracks = place_tracks(&mut routes, Side::Right, BOX_WIDTH + right_zone);
        let left = left_zone + TRACK_GAP * left_tracks as f64 + MARGIN;
        let width = left + BOX_WIDTH + right_zone + TRACK_GAP * right_tracks as f64 + MARGIN;
        for placed in &mut boxes {
            placed.rect.x += left;
        }
        for route in &mut routes {
            route.track_x += left;
        }
        Self { width, height: y - BOX_GAP + MARGIN, boxes, routes }
    }

    /// The rectangle of this box.
    pub(super) fn rect(&self, name: &str) -> Rect {
        self.boxes.iter().find(|placed| placed.name == name).expect("every arrow is between boxes").rect
    }

    /// The rectangle of the label of an arrow.
    pub(super) fn label(&self, route: &Route) -> Rect {
        let source = self.rect(route.arrow.from);
        let (width, height) = label_size(&route.lines);
        let x = match route.side {
            Side::Left => source.x - LABEL_GAP - width,
            Side::Right => source.x + source.width + LABEL_GAP,
        };
        Rect { x, y: route.from_y - height - 2.0, width, height }
    }
}

/// Distance between a box and a label.
const LABEL_GAP: f64 = 8.0;

fn label_size(lines: &[String]) -> (f64, f64) {
    let letters = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    (LETTER.1 * letters as f64, LETTER.0 * lines.len() as f64)
}

/// The space between the boxes and the tracks.
fn label_zone(routes: &[Route], side: Side) -> f64 {
    let widths = routes.iter().filter(|route| route.side == side).map(|route| label_size(&route.lines).0);
    widths.fold(0.0, f64::max) + LABEL_GAP * 2.0
}

/// Gives each end of an arrow at this box a row of its own; gives the height of the box.
fn place_ports(routes: &mut [Route], name: &str, top: f64) -> f64 {
    let sides = [Side::Left, Side::Right].map(|side| (side, ports(routes, name, side)));
    let heights = sides.iter().map(|(_, ports)| ports.iter().map(|port| port.height).sum::<f64>() + ROW_GAP * 2.0);
    let height = heights.fold(BOX_LEAST_HEIGHT, f64::max);
    for (_, ports) in sides {
        let rows: f64 = ports.iter().map(|port| port.height).sum();
        let mut y = top + (height - rows) / 2.0;
        for port in ports {
            y += port.height;
            let route = &mut routes[port.route];
            *(if port.is_source { &mut route.from_y } else { &mut route.to_y }) = y - ROW_GAP;
        }
    }
    height
}

/// The ends of arrows at one side of a box, from the top down. On the right incoming arrows precede outgoing ones,
/// because both lead down; on the left it is the reverse. The label of an arrow is above the row where the arrow
/// starts.
fn ports(routes: &[Route], name: &str, side: Side) -> Vec<Port> {
    let mut ports = vec![];
    for (number, route) in routes.iter().enumerate().filter(|(_, route)| route.side == side) {
        if route.arrow.from == name {
            ports.push(Port { route: number, is_source: true, height: label_size(&route.lines).1 + ROW_GAP + 2.0 });
        }
        if route.arrow.to == name {
            ports.push(Port { route: number, is_source: false, height: LETTER.0 });
        }
    }
    ports.sort_by_key(|port| match side {
        Side::Right => port.is_source,
        Side::Left => !port.is_source,
    });
    ports
}

/// Gives each arrow of a side a track that no other uses at the same height, the shortest next to the boxes; gives how
/// many tracks there are.
fn place_tracks(routes: &mut [Route], side: Side, first_x: f64) -> usize {
    let span = |route: &Route| (route.from_y.min(route.to_y), route.from_y.max(route.to_y));
    let mut order: Vec<usize> = (0..routes.len()).filter(|number| routes[*number].side == side).collect();
    order.sort_by(|a, b| {
        let length = |number: &usize| span(&routes[*number]).1 - span(&routes[*number]).0;
        length(a).total_cmp(&length(b)).then(a.cmp(b))
    });
    let mut tracks: Vec<Vec<(f64, f64)>> = vec![];
    for number in order {
        let (top, bottom) = span(&routes[number]);
        let is_free = |track: &Vec<(f64, f64)>| track.iter().all(|(from, to)| bottom + 4.0 < *from || to + 4.0 < top);
        let track = tracks.iter().position(is_free).unwrap_or_else(|| {
            tracks.push(vec![]);
            tracks.len() - 1
        });
        tracks[track].push((top, bottom));
        let away = TRACK_GAP * track as f64;
        routes[number].track_x = if side == Side::Right { first_x + away } else { first_x - away };
    }
    tracks.len()
}

/// The boxes from the top down: in the order of the table, with the box for every live one after the last live one.
pub(super) fn order(states: impl Iterator<Item = (&'static str, bool)>) -> Vec<&'static str> {
    let states: Vec<(&str, bool)> = states.collect();
    let last_live = states.iter().rposition(|(_, live)| *live).map_or(0, |at| at + 1);
    let mut names: Vec<&str> = states.into_iter().map(|(name, _)| name).collect();
    names.insert(last_live, ANY_LIVE);
    names
}

#[cfg(test)]
mod tests {
    use super::super::arrows::arrows;
    use super::super::graph::Graph;
    use super::*;

    fn meet(a: Rect, b: Rect) -> bool {
        a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
    }

    #[test]
    fn r03_no_label_meets_another_a_box_or_the_line_of_another_arrow() {
        check(&Graph::of_table());
        check(&Graph::of_nodes());
    }

    fn check(graph: &Graph) {
        let names = order(graph.states.iter().map(|state| (state.name, state.live)));
        let layout = Layout::of(&names, &arrows(graph));
        let labels: Vec<(&Route, Rect)> = layout.routes.iter().map(|route| (route, layout.label(route))).collect();
        for (number, (route, label)) in labels.iter().enumerate() {
            let whole = Rect { x: 0.0, y: 0.0, width: layout.width, height: layout.height };
            assert!(label.x > 0.0 && label.x + label.width < whole.width, "{label:?} is cut off");
            for (other, other_label) in &labels[number + 1..] {
                assert!(!meet(*label, *other_label), "{:?} and {:?}", route.lines, other.lines);
            }
            for placed in &layout.boxes {
                assert!(!meet(*label, placed.rect), "{:?} and {}", route.lines, placed.name);
            }
            for other in &layout.routes {
                let (top, bottom) = (other.from_y.min(other.to_y), other.from_y.max(other.to_y));
                let track = Rect { x: other.track_x, y: top, width: 0.5, height: bottom - top };
                assert!(!meet(*label, track), "{:?} and the track of {:?}", route.lines, other.lines);
                for (y, name) in [(other.from_y, other.arrow.from), (other.to_y, other.arrow.to)] {
                    let edge = layout.rect(name).x + if other.side == Side::Right { BOX_WIDTH } else { 0.0 };
                    let (x, width) = (edge.min(other.track_x), (edge - other.track_x).abs());
                    assert!(
                        !meet(*label, Rect { x, y, width, height: 0.5 }),
                        "{:?} and {:?}",
                        route.lines,
                        other.lines
                    );
                }
            }
        }
        for (number, a) in layout.routes.iter().enumerate() {
            for b in layout.routes[number + 1..].iter().filter(|b| (b.track_x - a.track_x).abs() < 1.0) {
                let apart = a.from_y.max(a.to_y) < b.from_y.min(b.to_y) || b.from_y.max(b.to_y) < a.from_y.min(a.to_y);
                assert!(apart, "{:?} and {:?} share a track", a.lines, b.lines);
            }
        }
    }
}
