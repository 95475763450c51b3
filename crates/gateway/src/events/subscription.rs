//! One subscriber: what it wants, where it stands, what it is told. What may not live here: when.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use engine::RunId;

use super::hub::Whose;
use super::{Cursor, Line};
use crate::connection::{Caller, Chunk, Slow};
use protocol::limits::BUFFERED_BYTES;

/// What stands between the cursor of a line and the numbers of its subscriber.
const NUMBERS: char = '#';

/// What a subscriber wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The whole home.
    Home,
    /// A session, by its key.
    Session(String),
    /// A run of a session.
    Run(String, RunId),
}

/// A line as bytes: all of it but the numbers that are the subscriber's own.
#[derive(Debug, Clone)]
pub(crate) struct Encoded(Arc<[u8]>);

/// A subscriber.
pub(crate) struct Subscription {
    pub(crate) caller: Whose,
    number: u64,
    target: Target,
    /// What happens while it catches up.
    kept: Option<Kept>,
    /// The number of its last line of each run, and of those without a run.
    numbers: BTreeMap<Option<RunId>, u64>,
    /// The cursor of its last line.
    cursor: String,
}

#[derive(Default)]
struct Kept {
    lines: Vec<(Arc<Line>, Encoded)>,
    bytes: usize,
}

impl Encoded {
    /// `"session":…}}` and the end of the line: what follows the cursor.
    pub(crate) fn of(line: &Line) -> Self {
        let mut event = line.event.clone();
        event.cursor = String::new();
        let bytes = serde_json::to_vec(&event).expect("a line is plain data");
        let shared = bytes.strip_prefix(br#"{"cursor":"","#).expect("the cursor is the first of a line");
        Self([shared, b"}\n"].concat().into())
    }
}

impl Subscription {
    pub(crate) fn new(caller: Whose, number: u64, target: Target, numbers: &str) -> Self {
        let numbers = read_numbers(numbers);
        Self { caller, number, target, kept: Some(Kept::default()), numbers, cursor: String::new() }
    }

    /// Whether it is told of this line.
    pub(crate) fn wants(&self, line: &Line) -> bool {
        match &self.target {
            Target::Home => true,
            Target::Session(key) => *key == line.event.session,
            Target::Run(key, run) => *key == line.event.session && line.event.run == Some(*run),
        }
    }

    /// Where it stands.
    pub(crate) fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Something happened: it is told, or that is kept until it has caught up.
    pub(crate) fn hear(&mut self, caller: &Caller, line: &Arc<Line>, encoded: &Encoded) -> Result<(), Slow> {
        let Some(kept) = &mut self.kept else { return self.send(caller, line, encoded) };
        kept.bytes += encoded.0.len();
        if kept.bytes > BUFFERED_BYTES {
            return Err(Slow);
        }
        kept.lines.push((Arc::clone(line), encoded.clone()));
        Ok(())
    }

    /// It has caught up to this cursor: what was kept and is behind it follows.
    pub(crate) fn go_live(&mut self, caller: &Caller, caught_up: &Cursor) -> Result<(), Slow> {
        let kept = self.kept.take().unwrap_or_default();
        for (line, encoded) in kept.lines {
            if !caught_up.has_seen(&line.place) {
                self.send(caller, &line, &encoded)?;
            }
        }
        Ok(())
    }

    /// Sends a line under its next number, if it is wanted.
    pub(crate) fn send(&mut self, caller: &Caller, line: &Line, encoded: &Encoded) -> Result<(), Slow> {
        if !self.wants(line) {
            return Ok(());
        }
        let run = line.event.run;
        let seq = self.numbers.get(&run).copied().unwrap_or_default() + 1;
        let before = self.numbers.insert(run, seq);
        let ends = line.event.run_end().is_some();
        if ends {
            self.numbers.remove(&run);
        }
        let cursor = self.numbered(&line.event.cursor);
        let head = format!(
            r#"{{"type":"event","event":"agent","seq":{seq},"subscription":{},"payload":{{"cursor":"{cursor}","#,
            self.number
        );
        let sent = caller.outbox.offer([Chunk::Own(head.into_bytes()), Chunk::Shared(Arc::clone(&encoded.0))]);
        if sent.is_err() {
            // It was not told of this one.
            match before {
                Some(before) => self.numbers.insert(run, before),
                None => self.numbers.remove(&run),
            };
            return sent;
        }
        self.cursor = cursor;
        Ok(())
    }

    /// A cursor with which the numbers go on.
    pub(crate) fn numbered(&self, cursor: &str) -> String {
        let mut text = format!("{cursor}{NUMBERS}");
        for (at, (run, seq)) in self.numbers.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let run = run.map(|run| run.to_string()).unwrap_or_default();
            let _ = write!(text, "{comma}{run}={seq}");
        }
        text
    }
}

/// A subscriber's cursor: that of its last line, and its numbers.
pub(crate) fn split(cursor: &str) -> (&str, &str) {
    cursor.split_once(NUMBERS).unwrap_or((cursor, ""))
}

/// What does not read counts from 1 again.
fn read_numbers(text: &str) -> BTreeMap<Option<RunId>, u64> {
    let number = |part: &str| {
        let (run, seq) = part.split_once('=')?;
        let run = if run.is_empty() { None } else { Some(run.parse().ok()?) };
        Some((run, seq.parse().ok()?))
    };
    text.split(',').filter_map(number).collect()
}
