//! 64 sessions at once through the whole runtime (actors, pump, journal on disk, HTTP to a model server in another
//! process on the same cores): durable events a second, syncs, and how long an acknowledgement takes.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use engine::{Command as Asked, Event};

use super::Problem;
use super::once::{Done, Once};
use super::table::{Line, Row, Samples, Target};
use super::warm::{Counts, Server, Warm, cpu_seconds, message, tokio};

/// Sessions, all at once.
const SESSIONS: usize = 64;
/// The message to each: tool rounds, each with a little streamed text, and an answer.
const WORK: &str = "rounds=10 tool=ls preamble=5 tokens=50";
/// Measurements; the first only warms the process.
const TIMES: usize = 6;
/// Acknowledgements that each session waits for, one after the other.
const ACKNOWLEDGEMENTS: usize = 100;

/// The result of one measurement; times are in seconds.
#[derive(Debug, Clone, Copy)]
struct Span {
    counts: Counts,
    wall: f64,
    cpu: f64,
}

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(folder: &Path) -> Result<Vec<Line>, Problem> {
    let server = Server::start()?;
    let spans = tokio()?.block_on(spans(&folder.join("events"), &server.base_url, TIMES))?;
    let spans = &spans[1..];
    let each = |of: &dyn Fn(&Span) -> f64| spans.iter().map(of).collect::<Vec<_>>();
    let rate = each(&|span| span.counts.events() as f64 / span.wall);
    let micros = each(&|span| span.cpu * 1e6 / span.counts.events() as f64);
    let waits = tokio()?.block_on(waits(&folder.join("acknowledged"), &server.base_url))?;
    Ok(vec![
        Row {
            what: "end to end: durable events, 64 sessions × 10 tool rounds with text",
            target: Target::AtLeast(20_000.0),
            measured: Samples::new("events/s", rate),
        }
        .into(),
        Row { what: "end to end: CPU an event", target: Target::None, measured: Samples::new("µs", micros) }.into(),
        syncs(folder, &server.base_url)?,
        Row {
            what: "acknowledgement of a message, 64 producers, p50",
            target: Target::AtMost(2.0),
            measured: Samples::new("ms", waits.clone()),
        }
        .into(),
        Row {
            what: "acknowledgement of a message, 64 producers, p99",
            target: Target::AtMost(10.0),
            measured: Samples::new("ms", waits).p99(),
        }
        .into(),
    ])
}

async fn spans(folder: &Path, base_url: &str, times: usize) -> Result<Vec<Span>, Problem> {
    let mut warm = Warm::new(folder, base_url, SESSIONS)?;
    let mut spans = vec![];
    for _ in 0..times {
        let (started, before) = (Instant::now(), cpu_seconds());
        let counts = warm.run(SESSIONS, WORK).await?;
        spans.push(Span { counts, wall: started.elapsed().as_secs_f64(), cpu: cpu_seconds() - before });
    }
    warm.runtime.shutdown().await?;
    Ok(spans)
}

/// Counts the sync calls to the system in a separate process: this includes opening and closing.
fn syncs(folder: &Path, base_url: &str) -> Result<Line, Problem> {
    let counted = folder.join("syncs");
    let mut strace = Command::new("strace");
    strace.args(["-f", "--seccomp-bpf", "-c", "-e", "trace=fsync,fdatasync", "-o"]).arg(&counted);
    let once =
        Once { folder: folder.join("traced"), base_url: base_url.to_owned(), sessions: SESSIONS, lane: SESSIONS };
    strace.arg(std::env::current_exe()?).args(once.arguments(WORK));
    let what = "end to end: syncs, counted by strace in a separate run";
    let found = match strace.output() {
        Err(error) => format!("not counted: strace: {error}"),
        Ok(output) if !output.status.success() => {
            format!("not counted: {}", String::from_utf8_lossy(&output.stderr).trim())
        }
        Ok(output) => syncs_line(
            &Done::parse(&String::from_utf8_lossy(&output.stdout))?,
            calls(&std::fs::read_to_string(&counted)?),
        ),
    };
    Ok(Line::Words { what, asked: "", found, is_met: true })
}

fn syncs_line(Done { batches, entries, progress, .. }: &Done, syncs: u64) -> String {
    let each = (entries + progress) as f64 / syncs.max(1) as f64;
    format!(
        "{syncs} syncs for {batches} batches of {entries} entries and {progress} pieces of progress: {each:.1} events a sync"
    )
}

/// The number of calls in the summary of strace.
fn calls(summary: &str) -> u64 {
    let lines = summary.lines().filter(|line| line.ends_with("sync"));
    lines.filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok()).sum()
}

/// Milliseconds from a message to its acknowledgement. Each session has a run in progress whose model never answers, so
/// that messages queue behind it; each producer cancels its message before the next, and the cancellation is
/// acknowledged too.
async fn waits(folder: &Path, base_url: &str) -> Result<Vec<f64>, Problem> {
    let mut warm = Warm::new(folder, base_url, SESSIONS)?;
    let mut handles = vec![];
    for _ in 0..SESSIONS {
        let key = warm.next_key();
        handles.push(warm.runtime.open(&key, "main", vec![message("hang=1000000")]).await?.0);
    }
    let mut sent = 0;
    while sent < SESSIONS {
        let published = warm.published.recv().await.ok_or("the runtime has stopped")?;
        sent += published.batch.records.iter().filter(|record| matches!(record.event, Event::RequestSent(_))).count();
    }
    let producers = handles.into_iter().map(|handle| tokio::spawn(async move { produce(&handle).await }));
    let mut waits = vec![];
    for producer in producers.collect::<Vec<_>>() {
        waits.extend(producer.await??);
    }
    warm.runtime.shutdown().await?;
    Ok(waits)
}

async fn produce(handle: &runtime::Handle) -> Result<Vec<f64>, engine::Refusal> {
    let mut waits = vec![];
    for _ in 0..ACKNOWLEDGEMENTS {
        let asked = message("a message that waits");
        let taken_back = match &asked {
            Asked::Message { message, .. } => Some(Asked::Cancel { message: *message, leg: None }),
            _ => None,
        };
        let started = Instant::now();
        handle.command(asked).await?;
        waits.push(started.elapsed().as_secs_f64() * 1e3);
        if let Some(cancel) = taken_back {
            handle.command(cancel).await?;
        }
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_summary_are_added_up() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       ------ ----------- ----------- --------- --------- ----------------\n \
                       99.00    0.010000         100       100           fdatasync\n  \
                       1.00    0.000100         100         7         1 fsync\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       100.00    0.010100         101       107         1 total\n";
        assert_eq!(calls(summary), 107);
    }

    #[test]
    fn syncs_are_printed_beside_what_they_made_durable() {
        let done = Done { batches: 30, entries: 80, progress: 20, peak_mib: 1.0 };
        let line = syncs_line(&done, 10);
        assert!(line.ends_with("10.0 events a sync"), "{line}");
    }
}
