//! The invariants after a kill. The reference is the script and the child's reports on the pipe, never the journal
//! itself: chains are computed again here.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use engine::{Epoch, Event, Hash, Position, Record, Seq};
use journal::{Entry, Error, Read as _, Reader};

use super::expected::{Expected, Known};
use super::report_line::ReportLine;
use super::script::{self, Script};
use super::writer::IN_FLIGHT;

/// A violation of the journal's guarantees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Violation {
    /// Something acknowledged is missing.
    Lost(String),
    /// Something is missing between two existing items.
    Gap(String),
    /// Anything else that is not as it was appended.
    Wrong(String),
}

/// What is known about a home: a check only reads what is new since the previous one.
#[derive(Debug)]
pub(super) struct Truth {
    scripts: Arc<[Script]>,
    known: Vec<Known>,
    head: Position,
    epoch: Epoch,
}

/// The result of a check.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) violations: Vec<Violation>,
    /// Acknowledgements that were reported since the last check, all looked up.
    pub(super) acknowledged: u64,
    /// Stored batches that were not acknowledged: the kill came in between.
    pub(super) unacknowledged: u64,
    /// New entries, each compared with its script and its chain computed again.
    pub(super) entries: u64,
}

/// What one child reported.
#[derive(Debug)]
struct Observed {
    epoch: Option<Epoch>,
    /// For each session, how many of its steps are acknowledged.
    done: Vec<u64>,
    /// The position of each step that has entries.
    positions: Vec<(usize, u64, Position)>,
    /// The last position that was acknowledged as synced.
    synced: Position,
    count: u64,
}

impl Truth {
    pub(super) fn new(scripts: Arc<[Script]>) -> Self {
        let known = Known { done: 0, chain: Hash([0; 32]), epochs: vec![] };
        let known = scripts.iter().map(|_| known.clone()).collect();
        Self { scripts, known, head: Position(0), epoch: Epoch(0) }
    }

    /// How many steps of each session are stored.
    pub(super) fn done(&self) -> Vec<u64> {
        self.known.iter().map(|known| known.done).collect()
    }

    /// Checks everything that is new, after the child that reported this is dead; then counts it as known.
    pub(super) fn check(&mut self, home: &Path, reported: impl Iterator<Item = ReportLine>) -> Findings {
        let mut findings = Findings::default();
        let observed = self.observe(reported, &mut findings.violations);
        findings.acknowledged = observed.count;
        if let Some(epoch) = observed.epoch {
            self.epoch = epoch;
            for known in &mut self.known {
                known.epochs.push((known.done, epoch));
            }
        }
        match Reader::open(home) {
            Ok(reader) => self.compare(home, &reader, &observed, &mut findings),
            // The kill came before there was a journal.
            Err(Error::NotFound { .. }) if observed.epoch.is_none() && self.epoch == Epoch(0) => {}
            Err(error) => findings.violations.push(Violation::Wrong(format!("it does not open: {error}"))),
        }
        findings
    }

    /// Checks everything from the first entry on.
    pub(super) fn check_all(&self, home: &Path) -> Findings {
        let mut anew = Self::new(Arc::clone(&self.scripts));
        for (known, before) in anew.known.iter_mut().zip(&self.known) {
            known.epochs.clone_from(&before.epochs);
        }
        let mut findings = Findings::default();
        let synced = Position(0);
        let observed = Observed { epoch: None, done: self.done(), positions: vec![], synced, count: 0 };
        match Reader::open(home) {
            Ok(reader) => anew.compare(home, &reader, &observed, &mut findings),
            Err(Error::NotFound { .. }) if self.epoch == Epoch(0) => {}
            Err(error) => findings.violations.push(Violation::Wrong(format!("it does not open: {error}"))),
        }
        let ends = |truth: &Self| truth.known.iter().map(|k| (k.done, k.chain)).collect::<Vec<_>>();
        if findings.violations.is_empty() && ends(&anew) != ends(self) {
            findings.violations.push(Violation::Wrong("the whole does not end where its parts ended".to_owned()));
        }
        findings
    }

    fn observe(&self, reported: impl Iterator<Item = ReportLine>, violations: &mut Vec<Violation>) -> Observed {
        let (epoch, positions, synced) = (None, vec![], Position(0));
        let mut observed = Observed { epoch, done: self.done(), positions, synced, count: 0 };
        for word in reported {
            match word {
                ReportLine::Owned(epoch) if epoch > self.epoch => observed.epoch = Some(epoch),
                ReportLine::Owned(epoch) => {
                    violations.push(Violation::Wrong(format!("owner {epoch} came after owner {}", self.epoch)));
                }
                ReportLine::Done { session, step, position } => {
                    observed.count += 1;
                    let done = &mut observed.done[session];
                    if step != *done {
                        let what = format!("session {session}: step {step} was acknowledged after {done} steps");
                        violations.push(Violation::Wrong(what));
                    }
                    *done = step + 1;
                    if script::has_entries(step) {
                        observed.positions.push((session, step, position));
                    }
                    if script::is_synced(step) {
                        observed.synced = observed.synced.max(position);
                    }
                }
            }
        }
        observed
    }

    fn compare(&mut self, home: &Path, reader: &Reader, observed: &Observed, findings: &mut Findings) {
        let mut positions = BTreeSet::new();
        let before: Vec<u64> = self.done();
        let mut added = vec![];
        for session in 0..self.known.len() {
            match self.session(session, reader, observed.done[session], findings) {
                Ok(entries) => added.push(entries),
                Err(violation) => {
                    findings.violations.push(violation);
                    added.push(vec![]);
                }
            }
        }
        for entry in added.iter().flatten() {
            if !positions.insert(entry.position) {
                let what = format!("position {} exists twice", entry.position);
                findings.violations.push(Violation::Wrong(what));
            }
        }
        for (session, step, position) in &observed.positions {
            let last = script::entries_after(step + 1) - script::entries_after(before[*session]);
            let entry = added[*session].get(last.wrapping_sub(1) as usize);
            if entry.is_some_and(|entry| entry.position != *position) {
                let what = format!("session {session}: step {step} was acknowledged at {position}, and is elsewhere");
                findings.violations.push(Violation::Wrong(what));
            }
        }
        findings.entries += positions.len() as u64;
        findings.violations.extend(self.positions(reader, &positions));
        findings.violations.extend(mark(home, observed.synced, self.head));
    }

    /// New entries must follow the known ones without a gap, up to the head.
    fn positions(&mut self, reader: &Reader, new: &BTreeSet<Position>) -> Option<Violation> {
        let expected = (self.head.0 + 1..).map(Position);
        let gap = new.iter().zip(expected).find(|(found, expected)| *found != expected);
        self.head = new.last().copied().unwrap_or(self.head);
        if let Some((found, expected)) = gap {
            return Some(Violation::Gap(format!("position {found} follows where {expected} was expected")));
        }
        match reader.head() {
            Ok(head) if head == self.head => None,
            Ok(head) => Some(Violation::Wrong(format!("the head is {head}, the last entry {}", self.head))),
            Err(error) => Some(Violation::Wrong(error.to_string())),
        }
    }

    /// Checks one session; returns its new entries.
    fn session(
        &mut self,
        session: usize,
        reader: &Reader,
        acknowledged: u64,
        findings: &mut Findings,
    ) -> Result<Vec<Entry>, Violation> {
        let (script, known) = (&self.scripts[session], &mut self.known[session]);
        let of_session = |what: String| format!("session {session} after {} verified steps: {what}", known.done);
        let wrong = |what: String| Violation::Wrong(of_session(what));
        let from = script::entries_after(known.done);
        let tail = reader.tail(script.branch, Seq(from + 1)).map_err(|error| wrong(error.to_string()))?;
        let entries = from + tail.entries.len() as u64;
        if let Some((at, entry)) = (from + 1..).zip(&tail.entries).find(|(at, entry)| entry.seq.0 != *at) {
            return Err(Violation::Gap(of_session(format!("seq {} where {at} was expected", entry.seq))));
        }
        let open: u64 = tail.progress.iter().map(progress_bytes).sum();
        let steps = script.steps_done(entries, open).ok_or_else(|| {
            wrong(format!("{entries} entries and {open} bytes of progress: no number of complete batches gives that"))
        })?;
        if steps < acknowledged {
            let what = format!("{acknowledged} steps were acknowledged, {steps} are stored");
            return Err(Violation::Lost(of_session(what)));
        }
        if steps > acknowledged + IN_FLIGHT {
            return Err(wrong(format!("{steps} steps are stored, {acknowledged} and {IN_FLIGHT} were attempted")));
        }
        findings.unacknowledged += steps - acknowledged;
        let mut expected = Expected { script, known, entries: tail.entries.iter(), progress: tail.progress.iter() };
        expected.all(steps, reader).map_err(|what| wrong_at(session, &what))?;
        Ok(tail.entries)
    }
}

fn wrong_at(session: usize, what: &str) -> Violation {
    Violation::Wrong(format!("session {session}: {what}"))
}

fn progress_bytes(record: &Record) -> u64 {
    match &record.event {
        Event::TextAdded(added) => added.text.len() as u64,
        // The script has no other progress, so no number of steps fits.
        _ => u64::MAX / 2,
    }
}

/// The mark may lag behind the journal, but never behind what was acknowledged as synced.
fn mark(home: &Path, synced: Position, head: Position) -> Option<Violation> {
    let mark = std::fs::read(home.join("journal.mark")).unwrap_or_default();
    let mark = mark.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let what = format!("the mark is at {mark}, {synced} was acknowledged, the journal ends at {head}");
    (mark < synced.0 || mark > head.0).then_some(Violation::Wrong(what))
}

#[cfg(test)]
mod tests {
    use journal::{Append, Journal, Sqlite};

    use super::*;

    /// A home in which each of two sessions has this many steps, and what its owner reported.
    fn home(steps: u64) -> (tempfile::TempDir, Arc<[Script]>, Vec<ReportLine>) {
        let folder = tempfile::tempdir().unwrap();
        let scripts = script::sessions(5, 2);
        let journal = Sqlite::own(&folder.path().join("home")).unwrap();
        let mut reported = vec![ReportLine::Owned(journal.epoch())];
        for step in 0..steps {
            for (session, script) in scripts.iter().enumerate() {
                let (done, answer) = std::sync::mpsc::channel();
                let append = Append { batch: Arc::new(script.batch(step)), epoch: journal.epoch() };
                journal.append(append, Box::new(move |answer| done.send(answer).unwrap()));
                let position = answer.recv().unwrap().unwrap();
                reported.push(ReportLine::Done { session, step, position });
                if let Some(snapshot) = script.snapshot_after(step) {
                    journal.keep_snapshot(snapshot);
                }
            }
        }
        (folder, scripts, reported)
    }

    fn check(folder: &tempfile::TempDir, scripts: Arc<[Script]>, reported: &[ReportLine]) -> Findings {
        Truth::new(scripts).check(&folder.path().join("home"), reported.iter().copied())
    }

    fn tamper(folder: &tempfile::TempDir, sql: &str) {
        let connection = rusqlite::Connection::open(folder.path().join("home/journal.db")).unwrap();
        assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
    }

    #[test]
    fn an_undamaged_home_is_good_also_piece_by_piece() {
        let (folder, scripts, reported) = home(26);
        let home = folder.path().join("home");
        let mut truth = Truth::new(scripts);
        let findings = truth.check(&home, reported.iter().copied());
        assert_eq!(findings.violations, []);
        assert_eq!((findings.acknowledged, findings.unacknowledged), (52, 0));
        assert_eq!(findings.entries, 2 * script::entries_after(26));
        assert_eq!(truth.check(&home, std::iter::empty()).violations, []);
        assert_eq!(truth.check_all(&home).violations, []);
    }

    #[test]
    fn what_was_acknowledged_and_is_missing_is_lost() {
        // Ends of each kind: an entry, a pair of entries, a piece of text, a seal.
        for steps in [1, 2, 3, 4, 5, 8, 10, 11, 17] {
            let (folder, scripts, mut reported) = home(steps);
            reported.push(ReportLine::Done { session: 1, step: steps, position: Position(99) });
            let violations = check(&folder, scripts, &reported).violations;
            assert!(violations.iter().any(|v| matches!(v, Violation::Lost(_))), "{steps}: {violations:?}");
        }
    }

    #[test]
    fn what_was_not_reported_counts_as_unacknowledged_up_to_what_was_in_flight() {
        let (folder, scripts, mut reported) = home(12);
        reported.truncate(reported.len() - 2);
        let findings = check(&folder, Arc::clone(&scripts), &reported);
        assert_eq!((findings.violations, findings.unacknowledged), (vec![], 2));
        reported.truncate(reported.len() - 2 * IN_FLIGHT as usize);
        assert!(!check(&folder, scripts, &reported).violations.is_empty());
    }

    #[test]
    fn every_tampering_is_found() {
        for sql in [
            "DELETE FROM entries WHERE branch = 1 AND seq = 5",
            "DELETE FROM entries WHERE position = (SELECT max(position) FROM entries)",
            "UPDATE entries SET at = at + 1 WHERE branch = 2 AND seq = 9",
            "UPDATE entries SET epoch = 7 WHERE branch = 2 AND seq = 9",
            "UPDATE entries SET position = 1000 WHERE branch = 2 AND seq = 9",
            "DELETE FROM progress WHERE branch = 1 AND offset = 0",
            "UPDATE progress SET bytes = CAST('x' || substr(bytes, 2) AS BLOB) WHERE branch = 1",
            "DELETE FROM bodies WHERE rowid = 3",
            "UPDATE bodies SET content = x'00' WHERE rowid = 3",
            "UPDATE snapshots SET seq = seq - 1",
            "UPDATE snapshots SET state_hash = zeroblob(32) WHERE branch = 2",
            "UPDATE view_sessions SET row = replace(row, '\"queued\":0', '\"queued\":1')",
        ] {
            let (folder, scripts, reported) = home(16);
            assert_eq!(check(&folder, Arc::clone(&scripts), &reported).violations, []);
            tamper(&folder, sql);
            assert!(!check(&folder, scripts, &reported).violations.is_empty(), "{sql}");
        }
    }

    #[test]
    fn a_gap_between_positions_is_a_gap() {
        let (folder, scripts, reported) = home(13);
        // The other branch is intact without it; only the order of commits shows it.
        tamper(
            &folder,
            "UPDATE entries SET position = position + 10 WHERE position = (SELECT max(position) FROM entries)",
        );
        let violations = check(&folder, scripts, &reported).violations;
        assert!(violations.iter().any(|v| matches!(v, Violation::Gap(_))), "{violations:?}");
    }

    #[test]
    fn an_owner_that_comes_after_a_later_one_is_wrong() {
        let (folder, scripts, reported) = home(2);
        let mut truth = Truth::new(scripts);
        let home = folder.path().join("home");
        assert_eq!(truth.check(&home, reported.into_iter()).violations, []);
        assert!(!truth.check(&home, [ReportLine::Owned(Epoch(1))].into_iter()).violations.is_empty());
    }

    #[test]
    fn a_mark_that_lags_behind_an_acknowledgement_is_wrong() {
        let (folder, scripts, reported) = home(3);
        let mark = folder.path().join("home/journal.mark");
        std::fs::write(&mark, [0; 40]).unwrap();
        assert!(!check(&folder, scripts, &reported).violations.is_empty());
    }
}
