//! W4: one session, 500 turns without tools. It measures the time of early and late turns, and the size on disk at the
//! end beside the raw text (all approver and answers in UTF-8).
//!
//! A turn is a question and its streamed answer: of prose (600 bytes and 3,000 bytes), or short (60 and 300). The prose
//! packs like pages do, see `model_server::prose`.

use std::path::Path;
use std::time::Instant;

use model_server::prose::Prose;
use rusqlite::Connection;

use super::Problem;
use super::bare::Bare;
use super::table::{Line, Row, Samples, Target};
use super::warm::{Server, Warm, cpu_seconds, message, tokio};

const TURNS: usize = 500;
/// The number of sessions of each kind, each in a separate home.
const TIMES: usize = 3;
/// Turns, from 0, around the 10th and at the end; the median of each counts.
const EARLY: std::ops::Range<usize> = 4..15;
const LATE: std::ops::Range<usize> = 489..500;

/// The sizes of a turn, with the names of its rows.
struct Kind {
    name: &'static str,
    question: usize,
    answer: usize,
    ratio: &'static str,
    bare: &'static str,
    own: &'static str,
    early: &'static str,
    cpu: &'static str,
    disk: &'static str,
    /// The most bytes on disk for each byte of text.
    disk_at_most: f64,
    bytes: &'static str,
    open: &'static str,
    whereabouts: &'static str,
}

const PROSE: Kind = Kind {
    name: "prose",
    question: 600,
    answer: 3_000,
    ratio: "W4: prose turns (600 B + 3,000 B), turn 500 to turn 10: wall",
    bare: "W4: prose, the request of turn 500 to that of turn 10, sent by a client that does nothing else: wall",
    own: "W4: prose, turn 500 to turn 10: wall without that request",
    early: "W4: prose, turn 10: wall, server included",
    cpu: "W4: prose, turn 500 to turn 10: CPU of this process, rendering and HTTP included",
    disk: "W4: prose, disk after 500 turns to raw text, closed",
    disk_at_most: 2.0,
    bytes: "W4: prose, bytes on disk a turn, closed",
    open: "W4: prose, disk to raw text before it is closed, WAL included",
    whereabouts: "W4: prose, where the bytes are",
};

const SHORT: Kind = Kind {
    name: "short",
    question: 60,
    answer: 300,
    ratio: "W4: short turns (60 B + 300 B), turn 500 to turn 10: wall",
    bare: "W4: short, the request of turn 500 to that of turn 10, sent by a client that does nothing else: wall",
    own: "W4: short, turn 500 to turn 10: wall without that request",
    early: "W4: short, turn 10: wall, server included",
    cpu: "W4: short, turn 500 to turn 10: CPU of this process, rendering and HTTP included",
    disk: "W4: short, disk after 500 turns to raw text, closed",
    disk_at_most: 6.0,
    bytes: "W4: short, bytes on disk a turn, closed",
    open: "W4: short, disk to raw text before it is closed, WAL included",
    whereabouts: "W4: short, where the bytes are",
};

/// The result of a session of 500 turns.
struct Session {
    /// Wall and CPU of each turn, ms.
    turns: Vec<(f64, f64)>,
    /// The time of the requests of the 10th and of the last turn by themselves, ms.
    bare: (f64, f64),
    raw: u64,
    open: u64,
    closed: u64,
    whereabouts: String,
}

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(folder: &Path) -> Result<Vec<Line>, Problem> {
    let server = Server::start()?;
    let mut lines = vec![];
    for kind in [&PROSE, &SHORT] {
        let mut sessions = vec![];
        for time in 0..TIMES {
            let folder = folder.join(format!("{}-{time}", kind.name));
            let mut session = tokio()?.block_on(converse(&folder, &server.base_url, kind))?;
            (session.closed, session.whereabouts) = (on_disk(&folder)?, whereabouts(&folder)?);
            let mut client = Bare::connect(&server.base_url)?;
            let mut bare = |turn| client.request(turn, kind.question, kind.answer);
            session.bare = (bare(10)?, bare(TURNS)?);
            sessions.push(session);
        }
        lines.extend(lines_of(kind, &sessions));
    }
    Ok(lines)
}

fn lines_of(kind: &Kind, sessions: &[Session]) -> Vec<Line> {
    let row = |what, target, unit, of: &dyn Fn(&Session) -> f64| {
        Line::from(Row { what, target, measured: Samples::new(unit, sessions.iter().map(of).collect()) })
    };
    let early = |session: &Session| medians(&session.turns[EARLY]);
    let late = |session: &Session| medians(&session.turns[LATE]);
    let to_raw = |bytes: u64, session: &Session| bytes as f64 / session.raw as f64;
    vec![
        row(kind.ratio, Target::AtMost(1.5), "×", &|s| late(s).0 / early(s).0),
        row(kind.bare, Target::None, "×", &|s| s.bare.1 / s.bare.0),
        row(kind.own, Target::None, "×", &|s| (late(s).0 - s.bare.1) / (early(s).0 - s.bare.0)),
        row(kind.early, Target::None, "ms", &|s| early(s).0),
        row(kind.cpu, Target::None, "×", &|s| late(s).1 / early(s).1),
        row(kind.disk, Target::AtMost(kind.disk_at_most), "×", &|s| to_raw(s.closed, s)),
        row(kind.bytes, Target::None, "B", &|s| s.closed as f64 / TURNS as f64),
        row(kind.open, Target::None, "×", &|s| to_raw(s.open, s)),
        Line::Words {
            what: kind.whereabouts,
            asked: "",
            found: format!("raw text {} KB; {}", sessions[0].raw / 1_000, sessions[0].whereabouts),
            is_met: true,
        },
    ]
}

fn medians(turns: &[(f64, f64)]) -> (f64, f64) {
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = turns.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    (median(|turn| turn.0), median(|turn| turn.1))
}

async fn converse(folder: &Path, base_url: &str, kind: &Kind) -> Result<Session, Problem> {
    let mut warm = Warm::new(folder, base_url, 1)?;
    let (key, mut prose) = (warm.next_key(), Prose::new(11));
    let handle = warm.runtime.open(&key, "main", vec![]).await?.0;
    let mut session =
        Session { turns: vec![], bare: (0.0, 0.0), raw: 0, open: 0, closed: 0, whereabouts: String::new() };
    for _ in 0..TURNS {
        let directive = format!(" prose={}", kind.answer);
        let question = prose.text(kind.question - directive.len()) + &directive;
        session.raw += (kind.question + kind.answer) as u64;
        let (started, cpu) = (Instant::now(), cpu_seconds());
        handle.command(message(&question)).await?;
        warm.until_ended(1).await?;
        session.turns.push((started.elapsed().as_secs_f64() * 1e3, (cpu_seconds() - cpu) * 1e3));
    }
    session.open = on_disk(folder)?;
    warm.runtime.shutdown().await?;
    Ok(session)
}

/// Bytes of the home's files, except the index of the WAL, which is memory, and the reserve, which each home has once.
pub(super) fn on_disk(folder: &Path) -> Result<u64, Problem> {
    let mut bytes = 0;
    for file in std::fs::read_dir(folder.join("home"))? {
        let file = file?;
        let name = file.file_name();
        if file.file_type()?.is_file() && name != "journal.db-shm" && name != "journal.reserve" {
            bytes += file.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// Kilobytes of each table and index, and of free pages.
pub(super) fn whereabouts(folder: &Path) -> Result<String, Problem> {
    let connection = Connection::open(folder.join("home/journal.db"))?;
    let sql = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 12";
    let mut statement = connection.prepare(sql)?;
    let kilobytes = |name: &str, bytes: i64| format!("{name} {} KB", bytes / 1_000);
    let rows = statement.query_map([], |row| Ok(kilobytes(&row.get::<_, String>(0)?, row.get(1)?)))?;
    let mut parts: Vec<String> = rows.collect::<Result<_, _>>()?;
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    parts.push(kilobytes("free", pragma("freelist_count")? * pragma("page_size")?));
    Ok(parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_the_wal_and_the_reserve_do_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("home");
        std::fs::create_dir(&home).expect("a home");
        for (name, bytes) in
            [("journal.db", 5), ("journal.db-wal", 7), ("journal.db-shm", 100), ("journal.reserve", 100)]
        {
            std::fs::write(home.join(name), vec![0; bytes]).expect("a file");
        }
        assert_eq!(on_disk(folder.path()).expect("it is read"), 12);
    }
}
