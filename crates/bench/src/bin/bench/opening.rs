//! The cost of opening a home that was killed with 10,000 live events in one session, from the start of the real
//! `limulus resume` until its first request reaches the model server: alone, beside 100,000 idle sessions, and in
//! process. Each time on a fresh copy whose pages are not in memory.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Batch, BranchId, Created, Event, Position, Record, Seq, SessionId, SessionRow, Timestamp, Views};
use journal::{Append, Journal as _, Read as _, Reader, Sqlite};
use model_server::ModelServer;
use rustix::fs::{Advice, fadvise};
use uuid::Uuid;

use super::Problem;
use super::real::{KillHome, Resumed, resume, until};
use super::table::{Line, Row, Samples, Target};
use super::warm::{Warm, tokio};

/// Live events, at least.
const LIVE: u64 = 10_000;
/// Idle sessions beside it.
const IDLE_SESSIONS: u64 = 100_000;
/// The number of measurements of each kind.
const TIMES: usize = 21;
/// The key of the measured session.
const KEY: &str = "agent:main:long";

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    let server = ModelServer::start()?;
    let kill_home = KillHome::new(folder.join("killed"), binary, &server, "restart")?;
    let entries = live_home(&kill_home)?;
    let snapshots = folds_all(&kill_home)?;
    let mut dropped = vec![];
    let alone = openings(&kill_home, &server, &mut dropped)?;
    let inside = openings_inside(&kill_home, &server)?;
    add_idle_sessions(&kill_home.home(), IDLE_SESSIONS)?;
    let beside = openings(&kill_home, &server, &mut dropped)?;
    let row = |what, target, values| Line::from(Row { what, target, measured: Samples::new("ms", values) });
    let most = Target::AtMost(100.0);
    Ok(vec![
        row("opening: 10,000 live events, from exec to the first request at the server", most, alone.wall),
        row("opening: the same, CPU of the process until then", Target::None, alone.cpu),
        row("opening: the same, with 100,000 idle sessions", most, beside.wall),
        row("opening: beside them, CPU of the process until then", Target::None, beside.cpu),
        row("opening: the same without them, in process, to the first request sent", most, inside),
        Line::Words {
            what: "opening: what was there",
            asked: "",
            found: format!(
                "{entries} entries, {snapshots} snapshots removed; {}",
                dropped.first().cloned().unwrap_or_default()
            ),
            is_met: dropped.windows(2).all(|two| two[0] == two[1]),
        },
    ])
}

/// One run with tool rounds, killed when it has enough entries. Returns their number.
fn live_home(kill_home: &KillHome<'_>) -> Result<u64, Problem> {
    let mut agent =
        kill_home.start(&["agent", "--json", "--yes", "--session", "long", "-m", "rounds=3000 tool=ls tokens=1"])?;
    // The pipe must not fill up, so a thread drains it.
    let stdout = agent.stdout.take().ok_or("no stdout")?;
    let drain = std::thread::spawn(move || std::io::copy(&mut { stdout }, &mut std::io::sink()));
    let mut head = 0;
    let grown = until("10,000 live events", || {
        head = Reader::open(&kill_home.home()).and_then(|reader| reader.head()).map_or(0, |head| head.0);
        std::thread::sleep(std::time::Duration::from_millis(20));
        head >= LIVE
    });
    agent.kill()?;
    agent.wait()?;
    grown?;
    drain.join().map_err(|_| "the pipe was not drained")??;
    Ok(Reader::open(&kill_home.home())?.head()?.0)
}

/// Wall and CPU, ms, of each opening.
#[derive(Debug, Default)]
struct Openings {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

/// Removes the snapshots, so that all entries are live. Returns how many there were.
fn folds_all(kill_home: &KillHome<'_>) -> Result<usize, Problem> {
    let connection = rusqlite::Connection::open(kill_home.home().join("journal.db"))?;
    Ok(connection.execute("DELETE FROM snapshots", [])?)
}

fn openings(kill_home: &KillHome<'_>, server: &ModelServer, dropped: &mut Vec<String>) -> Result<Openings, Problem> {
    let mut openings = Openings::default();
    for _ in 0..TIMES {
        let copy = kill_home.with_home_of(kill_home.folder.with_file_name("copy"))?;
        dropped.push(drop_cache(&copy)?);
        let Resumed { mut owner, wall_ms, cpu_ms } = resume(&copy, server)?;
        owner.kill()?;
        owner.wait()?;
        openings.wall.push(wall_ms);
        openings.cpu.push(cpu_ms);
        std::fs::remove_dir_all(&copy.folder)?;
    }
    Ok(openings)
}

fn openings_inside(kill_home: &KillHome<'_>, server: &ModelServer) -> Result<Vec<f64>, Problem> {
    let mut times = vec![];
    for _ in 0..TIMES {
        let copy = kill_home.with_home_of(kill_home.folder.with_file_name("copy"))?;
        drop_cache(&copy)?;
        let ms = tokio()?.block_on(async {
            let started = Instant::now();
            let mut warm = Warm::new(&copy.folder, &server.base_url(), 1)?;
            warm.runtime.open(KEY, "main", vec![]).await?;
            loop {
                let published = warm.published.recv().await.ok_or("the runtime has stopped")?;
                if published.batch.records.iter().any(|record| matches!(record.event, Event::RequestSent(_))) {
                    let ms = started.elapsed().as_secs_f64() * 1e3;
                    warm.runtime.shutdown().await?;
                    return Ok::<f64, Problem>(ms);
                }
            }
        })?;
        times.push(ms);
        std::fs::remove_dir_all(&copy.folder)?;
    }
    Ok(times)
}

/// Asks the kernel to drop the journal's pages from memory, and returns how much is left there.
fn drop_cache(kill_home: &KillHome<'_>) -> Result<String, Problem> {
    let files = ["journal.db", "journal.db-wal"].map(|file| kill_home.home().join(file));
    for file in files.iter().filter(|file| file.exists()) {
        let file = File::open(file)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    let asked = Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).args(&files).output();
    let Ok(asked) = asked else { return Ok("the cache was to be dropped, nothing could confirm it".to_owned()) };
    let left: u64 =
        String::from_utf8_lossy(&asked.stdout).split_whitespace().filter_map(|n| n.parse::<u64>().ok()).sum();
    Ok(format!("the file cache was dropped: {left} bytes of the journal were in memory (fincore)"))
}

/// Adds sessions without work to a home.
pub(super) fn add_idle_sessions(home: &Path, sessions: u64) -> Result<(), Problem> {
    let journal = Sqlite::own(home)?;
    let (done, answers) = mpsc::channel();
    for at in 0..sessions {
        let done = done.clone();
        let append = Append { batch: Arc::new(idle(at)), epoch: journal.epoch() };
        let done = move |answer: Result<Position, journal::Error>| drop(done.send(answer));
        journal.append(append, Box::new(done));
    }
    for _ in 0..sessions {
        answers.recv()??;
    }
    Ok(())
}

fn idle(at: u64) -> Batch {
    let (session, branch) = (SessionId(Uuid::now_v7()), BranchId(Uuid::now_v7()));
    let (key, agent) = (format!("agent:main:idle-{at}"), "main".to_owned());
    let row = SessionRow {
        session,
        key: key.clone(),
        agent: agent.clone(),
        branch,
        created_at: Timestamp(1),
        last_activity: Timestamp(1),
        lifecycle: LifecycleKind::Idle,
        run_state: RunState::Idle,
        run: None,
        queued: 0,
        unfinished: false,
        trouble: None,
        totals: None,
        title: None,
        model_title: None,
        visibility: engine::Visibility::Listed,
        begun_at: None,
    };
    let created = Created { session, key, agent, branch }.into();
    let records = vec![Record { seq: Some(Seq(1)), at: Timestamp(1), event: created }];
    Batch { session, branch, records, bodies: vec![], views: Views { session: Some(row), ..Views::default() } }
}
