//! The store alone: synced events a second over many sessions, each with one append in flight.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use engine::{Batch, BranchId, Created, Event, OverrideSet, Position, Record, Seq, SessionId, Timestamp, Views};
use journal::{Append, Journal, Sqlite};
use uuid::Uuid;

use super::Problem;
use super::table::{Line, Row, Samples, Target};

/// Sessions that append side by side.
const SESSIONS: usize = 64;
/// Events of one measurement.
const EVENTS: usize = 50_000;
/// The number of measurements.
const TIMES: usize = 5;

/// One session: how far its branch goes.
struct Producer {
    session: SessionId,
    branch: BranchId,
    head: u64,
}

type Answer = (usize, Result<Position, journal::Error>);

/// Measures; it creates a home in this folder, which must be on a disk.
pub(super) fn measure(folder: &Path) -> Result<Vec<Line>, Problem> {
    let rates = (0..TIMES).map(|at| rate(&folder.join(format!("store-{at}"))));
    Ok(vec![
        Row {
            what: "store: synced events, 64 sessions, one each in flight",
            target: Target::AtLeast(20_000.0),
            measured: Samples::new("events/s", rates.collect::<Result<_, _>>()?),
        }
        .into(),
    ])
}

fn rate(home: &Path) -> Result<f64, Problem> {
    let store = Sqlite::own(home)?;
    let (done, answers) = mpsc::channel();
    let mut branches: Vec<Producer> = (0..SESSIONS).map(|_| Producer::new()).collect();
    for (at, branch) in branches.iter_mut().enumerate() {
        let created = branch.created(at);
        append(&store, at, branch.batch(created), &done);
    }
    for _ in 0..SESSIONS {
        answers.recv()?.1?;
    }
    let started = Instant::now();
    for (at, branch) in branches.iter_mut().enumerate() {
        append(&store, at, branch.next(), &done);
    }
    for answered in 1..=EVENTS {
        let (at, answer) = answers.recv()?;
        answer?;
        if answered + SESSIONS <= EVENTS {
            append(&store, at, branches[at].next(), &done);
        }
    }
    Ok(EVENTS as f64 / started.elapsed().as_secs_f64())
}

fn append(store: &Sqlite, at: usize, batch: Batch, done: &mpsc::Sender<Answer>) {
    let done = done.clone();
    let append = Append { batch: Arc::new(batch), epoch: store.epoch() };
    store.append(append, Box::new(move |answer| drop(done.send((at, answer)))));
}

impl Producer {
    fn new() -> Self {
        Self { session: SessionId(Uuid::now_v7()), branch: BranchId(Uuid::now_v7()), head: 0 }
    }

    fn created(&self, at: usize) -> Event {
        let key = format!("agent:main:bench-{at}");
        Created { session: self.session, key, agent: "main".into(), branch: self.branch }.into()
    }

    /// A synced event of about 300 bytes.
    fn next(&mut self) -> Batch {
        self.batch(
            OverrideSet {
                model: Some("x".repeat(280)),
                thinking: None,
                verbose: None,
                queue_mode: None,
                interrupt: None,
            }
            .into(),
        )
    }

    fn batch(&mut self, event: Event) -> Batch {
        self.head += 1;
        let record = Record { seq: Some(Seq(self.head)), at: Timestamp(1), event };
        let (session, branch) = (self.session, self.branch);
        Batch { session, branch, records: vec![record], bodies: vec![], views: Views::default() }
    }
}
