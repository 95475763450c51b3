//! Whether round 1,000 of a run costs as much as round 10: bytes for the journal, and CPU of engine and store. It runs
//! through the pump into a journal on disk, without rendering requests and without HTTP, whose costs grow with the
//! history.

use std::path::Path;

use journal::Sqlite;

use super::Problem;
use super::table::{Line, Row, Samples, Target};
use super::warm::cpu_seconds;
use super::world::{Store, World};
use model_server::prose::Prose;

/// Rounds around the 10th and the 1,000th. The result for bytes is their mean; that for CPU is the median of the same
/// rounds in all runs, because the WAL is checkpointed about every hundred rounds, but never in the early ones; another
/// row reports that.
const EARLY: std::ops::RangeInclusive<usize> = 5..=15;
const LATE: std::ops::RangeInclusive<usize> = 990..=1_000;
/// Runs that are measured.
const TIMES: usize = 9;
/// Bytes of each call's result.
const OUTPUT_BYTES: usize = 2_000;

/// The cost of one round.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_ms: f64,
    /// Bytes of the batches before compression.
    bytes: f64,
    /// Bytes that the process wrote: WAL, checkpoints, mark.
    written: f64,
}

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(folder: &Path) -> Result<Vec<Line>, Problem> {
    let mut runs = vec![];
    for time in 0..TIMES {
        runs.push(costs(&folder.join(time.to_string()))?);
    }
    let early = |of: fn(&Cost) -> f64| runs.iter().map(|run| mean(&run[EARLY], of)).collect::<Vec<_>>();
    let ratio = |of: fn(&Cost) -> f64| {
        let ratios = runs.iter().map(|run| mean(&run[LATE], of) / mean(&run[EARLY], of));
        Samples::new("×", ratios.collect())
    };
    let row = |what, target, measured| Line::from(Row { what, target, measured });
    let most = Target::AtMost(1.2);
    Ok(vec![
        row("round 1,000 to round 10: journal bytes (payloads, bodies, rows)", most, ratio(|cost| cost.bytes)),
        row("round 1,000 to round 10: engine + store CPU, no HTTP", most, ratio_of_medians(&runs)),
        row(
            "round 1,000 to round 10: the same, with checkpoints and snapshots as they fall",
            most,
            ratio(|cost| cost.cpu_ms),
        ),
        row("round 10: journal bytes", Target::None, Samples::new("B", early(|cost| cost.bytes))),
        row(
            "round 10: bytes written to files (WAL, mark)",
            Target::None,
            Samples::new("B", early(|cost| cost.written)),
        ),
        row(
            "round 1,000 to round 10: bytes written to files, checkpoints as they fall",
            Target::None,
            ratio(|cost| cost.written),
        ),
        row("round 10: engine + store CPU, no HTTP", Target::None, Samples::new("ms", early(|cost| cost.cpu_ms))),
    ])
}

/// The CPU of a late round divided by that of an early one, run by run.
fn ratio_of_medians(runs: &[Vec<Cost>]) -> Samples {
    let median = |costs: &[Cost]| {
        let mut values: Vec<f64> = costs.iter().map(|cost| cost.cpu_ms).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Samples::new("×", runs.iter().map(|run| median(&run[LATE]) / median(&run[EARLY])).collect())
}

fn mean(costs: &[Cost], of: fn(&Cost) -> f64) -> f64 {
    costs.iter().map(of).sum::<f64>() / costs.len() as f64
}

/// The costs of each round of one run; the first has the costs before round 1.
fn costs(home: &Path) -> Result<Vec<Cost>, Problem> {
    let mut world = World::new(Store::Home(Box::new(Sqlite::own(home)?)));
    let mut prose = Prose::new(7);
    let mut request = world.begin_rounds();
    let mut costs = vec![Cost { cpu_ms: 0.0, bytes: 0.0, written: 0.0 }];
    for _ in 0..*LATE.end() {
        let output = prose.text(OUTPUT_BYTES);
        let (cpu, bytes, written) = (cpu_seconds(), world.bytes, written()?);
        request = world.round(request, &output);
        costs.push(Cost {
            cpu_ms: (cpu_seconds() - cpu) * 1e3,
            bytes: (world.bytes - bytes) as f64,
            written: (self::written()? - written) as f64,
        });
    }
    Ok(costs)
}

/// Bytes that this process has passed to the system for writing so far.
fn written() -> Result<u64, Problem> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("/proc/self/io has no wchar")?;
    Ok(line.trim().parse()?)
}
