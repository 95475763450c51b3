//! How many inputs per second the engine handles, through the pump, without a store.

use std::time::Instant;

use super::table::{Line, Row, Samples, Target};
use super::world::World;

/// Items in the history of the session.
const ITEMS: usize = 500;
/// Pieces of text in one measurement: 4 MB, within the limit of one stream.
const DELTAS: u64 = 200_000;
/// Rounds of all inputs in one measurement; few, so that the history stays near its size.
const ROUNDS: u32 = 5;

/// Measures, and returns the lines of the table.
pub(super) fn measure() -> Vec<Line> {
    let rows = [
        Row {
            what: "engine: 20-byte deltas, one a batch, 500 items, 3 subscribers",
            target: Target::AtLeast(1_000_000.0),
            measured: Samples::new("inputs/s", (0..9).map(|_| deltas(1)).collect()),
        },
        Row {
            what: "engine: the same, 16 a batch (as while an append is in flight)",
            target: Target::AtLeast(1_000_000.0),
            measured: Samples::new("inputs/s", (0..9).map(|_| deltas(16)).collect()),
        },
        Row {
            what: "engine: a mix of all inputs, one a batch",
            target: Target::AtLeast(200_000.0),
            measured: Samples::new("inputs/s", (0..99).map(|_| mix()).collect()),
        },
    ];
    rows.map(Line::from).into()
}

fn deltas(together: u64) -> f64 {
    let mut world = World::with_items(ITEMS);
    let request = world.begin_stream();
    let started = Instant::now();
    world.deltas(request, DELTAS, together);
    let seconds = started.elapsed().as_secs_f64();
    let rate = world.inputs as f64 / seconds;
    world.end_stream(request);
    rate
}

fn mix() -> f64 {
    let mut world = World::with_items(ITEMS);
    let started = Instant::now();
    for _ in 0..ROUNDS {
        world.mix();
    }
    world.inputs as f64 / started.elapsed().as_secs_f64()
}
