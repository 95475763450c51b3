//! W1 and W2: whole runs through the runtime, its journal on disk, the model server in another process. Wall is from
//! the message to the end of its run in a warm process; CPU is user and system of this process for that span.

use std::path::Path;
use std::time::Instant;

use super::Problem;
use super::floor;
use super::once::Once;
use super::table::{Line, Row, Samples, Target};
use super::warm::{Server, Warm, cpu_seconds, tokio};

/// Warm-up and measured repetitions of W1.
const SINGLE: (usize, usize) = (3, 21);
/// The same for W2.
const MANY: (usize, usize) = (1, 5);
/// Sessions of W2, how many of them run at once, and the rounds of each.
const SESSIONS: usize = 200;
const AT_ONCE: usize = 50;
const ROUNDS: usize = 5;

async fn repeat(
    warm: &mut Warm,
    (warm_up, counted): (usize, usize),
    sessions: usize,
    text: &str,
) -> Result<Spans, Problem> {
    let mut spans = Spans::default();
    for at in 0..warm_up + counted {
        let (started, before) = (Instant::now(), cpu_seconds());
        warm.run(sessions, text).await?;
        let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - before);
        if at >= warm_up {
            spans.wall.push(wall);
            spans.cpu.push(cpu);
        }
    }
    Ok(spans)
}

/// Wall and CPU of each measurement, seconds.
#[derive(Default)]
struct Spans {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

/// The message of W1.
const SINGLE_WORK: &str = "rounds=20 tool=ls tokens=50";

/// W1, and its floor: each in turn, so that both see the same machine.
async fn beside_the_floor(warm: &mut Warm, folder: &Path, base_url: &str) -> Result<(Spans, Spans), Problem> {
    let (mut own, mut floor) = (Spans::default(), Spans::default());
    let naive = folder.join("floor");
    std::fs::create_dir_all(&naive)?;
    for at in 0..SINGLE.0 + SINGLE.1 {
        let once = repeat(warm, (0, 1), 1, SINGLE_WORK).await?;
        let (started, before) = (Instant::now(), cpu_seconds());
        floor::run(&naive, base_url, SINGLE_WORK)?;
        if at >= SINGLE.0 {
            floor.wall.push(started.elapsed().as_secs_f64());
            floor.cpu.push(cpu_seconds() - before);
            own.wall.extend(once.wall);
            own.cpu.extend(once.cpu);
        }
    }
    Ok((own, floor))
}

/// Measures; it creates a home in this folder, which must be on a disk.
pub(super) fn measure(folder: &Path) -> Result<Vec<Line>, Problem> {
    let server = Server::start()?;
    let tokio = tokio()?;
    tokio.block_on(async {
        let mut warm = Warm::new(folder, &server.base_url, AT_ONCE)?;
        let work = format!("rounds={ROUNDS} tool=ls tokens=1");
        let (single, floor) = beside_the_floor(&mut warm, folder, &server.base_url).await?;
        let many = repeat(&mut warm, MANY, SESSIONS, &work).await?;
        warm.runtime.shutdown().await?;
        let apart =
            Once { folder: folder.join("peak"), base_url: server.base_url.clone(), sessions: SESSIONS, lane: AT_ONCE };
        let peak = apart.apart(&work)?.peak_mib;
        Ok(rows(single, floor, many, peak))
    })
}

fn rows(single: Spans, floor: Spans, many: Spans, peak: f64) -> Vec<Line> {
    let rounds = (SESSIONS * ROUNDS) as f64;
    let ms = |seconds: Vec<f64>| Samples::new("ms", seconds.into_iter().map(|s| s * 1e3).collect());
    let rate = Samples::new("rounds/s", many.wall.into_iter().map(|s| rounds / s).collect());
    let each = ms(many.cpu.into_iter().map(|s| s / rounds).collect());
    let times = Samples::new("×", single.wall.iter().zip(&floor.wall).map(|(own, floor)| own / floor).collect());
    let rows = [
        Row { what: "W1 by a naive loop with one sync a round: wall", target: Target::None, measured: ms(floor.wall) },
        Row { what: "the same: CPU", target: Target::None, measured: ms(floor.cpu) },
        Row { what: "W1 to the naive loop: wall", target: Target::AtMost(1.5), measured: times },
        Row {
            what: "W1: 1 session, 20 tool rounds, 50 tokens, durable: wall",
            target: Target::AtMost(100.0),
            measured: ms(single.wall),
        },
        Row { what: "W1: the same: CPU", target: Target::AtMost(20.0), measured: ms(single.cpu) },
        Row {
            what: "W2: 200 sessions × 5 tool rounds, 50 at once, durable",
            target: Target::AtLeast(4_000.0),
            measured: rate,
        },
        Row { what: "W2: the same: CPU a round", target: Target::AtMost(0.25), measured: each },
        Row {
            what: "W2: peak memory, in a process of its own",
            target: Target::AtMost(30.0),
            measured: Samples::new("MiB", vec![peak]),
        },
    ];
    rows.map(Line::from).into()
}
