//! One run of 1,000 steps with a model of 200,000 tokens: each step reads another file, and the history is compacted
//! each time that it outgrows the window. It compares the size on disk with the text that was read, and the cost of
//! late and early steps: whole steps, with the rendering of the request and HTTP, the model server in another process.

use std::path::Path;

use engine::{Event, Outcome};
use model_server::prose::Prose;
use rusqlite::Connection;

use super::Problem;
use super::table::{Line, Row, Samples, Target};
use super::turns::{on_disk, whereabouts};
use super::warm::{Server, Warm, cpu_seconds, message, tokio};

const STEPS: usize = 1_000;
/// Bytes of each file: prose.
const FILE_BYTES: usize = 4_000;
const WINDOW: u64 = 200_000;
/// The number of runs, each in a separate home.
const TIMES: usize = 3;

/// The result of a run.
struct Run {
    /// CPU of each step, ms.
    steps: Vec<f64>,
    /// The steps before which the history was compacted.
    compactions: Vec<usize>,
    /// Bytes of the home, closed.
    disk: u64,
    /// Bytes of its content, each text once, uncompressed.
    unique: u64,
    whereabouts: String,
}

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(folder: &Path) -> Result<Vec<Line>, Problem> {
    let server = Server::start()?;
    let mut runs = vec![];
    for time in 0..TIMES {
        let folder = folder.join(time.to_string());
        let (steps, compactions) = tokio()?.block_on(work(&folder, &server.base_url))?;
        runs.push(Run {
            steps,
            compactions,
            disk: on_disk(&folder)?,
            unique: unique(&folder)?,
            whereabouts: whereabouts(&folder)?,
        });
    }
    let read = (STEPS * FILE_BYTES) as f64;
    let row = |what, target, unit, of: &dyn Fn(&Run) -> f64| {
        Line::from(Row { what, target, measured: Samples::new(unit, runs.iter().map(of).collect()) })
    };
    Ok(vec![
        row(
            "1,000 steps of 4,000 B in a window of 200,000 tokens: disk to unique content",
            Target::AtMost(1.2),
            "×",
            &|run| run.disk as f64 / run.unique as f64,
        ),
        row("1,000 steps: disk to what was read alone", Target::None, "×", &|run| run.disk as f64 / read),
        row(
            "1,000 steps: CPU of a step between the last two summaries to one between the first two",
            Target::AtMost(1.2),
            "×",
            &|run| run.between(run.compactions.len() - 2) / run.between(0),
        ),
        row("1,000 steps: CPU of a step, rendering and HTTP included", Target::None, "ms", &|run| {
            run.steps.iter().sum::<f64>() / run.steps.len() as f64
        }),
        row("1,000 steps: how often the history was compacted", Target::None, "times", &|run| {
            run.compactions.len() as f64
        }),
        Line::Words {
            what: "1,000 steps: where the bytes are",
            asked: "",
            found: format!("read {} KB; {}", STEPS * FILE_BYTES / 1_000, runs[0].whereabouts),
            is_met: true,
        },
    ])
}

fn unique(folder: &Path) -> Result<u64, Problem> {
    let connection = Connection::open(folder.join("home/journal.db"))?;
    let bytes: i64 = connection.query_row("SELECT sum(size) FROM bodies", [], |row| row.get(0))?;
    Ok(u64::try_from(bytes)?)
}

impl Run {
    /// The mean CPU of a step between two summaries: there the history is equally long.
    fn between(&self, at: usize) -> f64 {
        let steps = &self.steps[self.compactions[at]..self.compactions[at + 1]];
        steps.iter().sum::<f64>() / steps.len() as f64
    }
}

/// The CPU of each step, and the steps before which the history was compacted.
async fn work(folder: &Path, base_url: &str) -> Result<(Vec<f64>, Vec<usize>), Problem> {
    let mut warm = Warm::with_window(folder, base_url, 1, WINDOW)?;
    let mut prose = Prose::new(13);
    for step in 1..=STEPS {
        std::fs::write(folder.join(format!("workspace/step-{step}.txt")), prose.text(FILE_BYTES))?;
    }
    let key = warm.next_key();
    warm.runtime.open(&key, "main", vec![message(&format!("reads={STEPS}"))]).await?;
    let (mut steps, mut compactions, mut before) = (vec![], vec![], cpu_seconds());
    loop {
        let published = warm.published.recv().await.ok_or("the runtime has stopped")?;
        for record in &published.batch.records {
            match &record.event {
                Event::CallSettled(_) => {
                    let now = cpu_seconds();
                    steps.push((now - before) * 1e3);
                    before = now;
                }
                Event::Compacted(_) => compactions.push(steps.len()),
                Event::RunEnded(ended) if ended.outcome == Outcome::Completed && compactions.len() > 3 => {
                    warm.runtime.shutdown().await?;
                    return Ok((steps, compactions));
                }
                Event::RunEnded(ended) => {
                    let (outcome, times) = (ended.outcome, compactions.len());
                    return Err(format!("it ended as {outcome:?} after {times} summaries: {:?}", ended.failure).into());
                }
                _ => {}
            }
        }
    }
}
