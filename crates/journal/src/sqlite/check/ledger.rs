//! The ledger of a home: every entry of its line judged, up to the first that cannot be believed. It closes no session. What
//! may not live here: what it says.

use engine::{BranchId, Seq};
use rusqlite::Row;

use super::Check;
use super::finding::Finding;
use super::session::{EntryAnchor, Fault};
use super::view::View;
use super::walk::Audited;
use crate::sqlite::reader::Reader;
use crate::{Error, Read as _};

/// What became of looking through the ledger.
#[derive(Debug, Clone, Default)]
pub struct VerifiedLedger {
    /// Entries that were read.
    pub entries: u64,
    /// The last entry before the first fault.
    pub last_good: Option<EntryAnchor>,
    /// The first fault.
    pub fault: Option<Fault>,
    /// Why it could not be read any further, if it could not.
    pub unread: Option<String>,
}

impl VerifiedLedger {
    fn take(&mut self, audited: &Audited) {
        self.entries += 1;
        let place = EntryAnchor::of(audited);
        match audited.defects.first() {
            _ if self.fault.is_some() => {}
            Some(defect) => self.fault = Some(Fault { place, defect: defect.clone() }),
            None => self.last_good = Some(place),
        }
    }
}

impl Reader {
    /// Looks through the ledger.
    pub fn verify_ledger(&self) -> VerifiedLedger {
        let mut verified = VerifiedLedger::default();
        verified.unread = self.walk_ledger(&mut verified).err().map(|error| error.said());
        verified
    }

    fn walk_ledger(&self, verified: &mut VerifiedLedger) -> Result<(), Error> {
        let Some(branch) = self.ledger()? else { return Ok(()) };
        self.lineage(branch)?.iter().try_for_each(|segment| self.walk(segment, |audited| verified.take(audited)))
    }

    /// The branches that the ledger has left, oldest first.
    fn left_ledgers(&self) -> Result<Vec<BranchId>, Error> {
        let sql = "SELECT uuid FROM branches WHERE kind = 'ledger' ORDER BY id";
        let id = |row: &Row<'_>| Ok(BranchId(uuid::Uuid::from_bytes(row.get(0)?)));
        let mut all: Vec<BranchId> = self.query(|c| c.prepare_cached(sql)?.query_map([], id)?.collect())?;
        all.pop();
        Ok(all)
    }
}

impl Check {
    pub(super) fn ledger(&mut self, view: &View) {
        let verified = view.reader.verify_ledger();
        self.report.counts.entries += verified.entries;
        let last_good = verified.last_good.map(|place| place.checkpoint);
        match (&verified.fault, &verified.unread) {
            (Some(fault), _) => self.find(Finding::of_ledger(Ok(fault), last_good)),
            (None, Some(unread)) => self.find(Finding::of_ledger(Err(unread), last_good)),
            (None, None) => {}
        }
        // Where they cannot be listed, the pages say so.
        let _ = self.left_ledgers(&view.reader);
    }

    /// What was left is told as what it is: nothing goes on in it.
    fn left_ledgers(&mut self, reader: &Reader) -> Result<(), Error> {
        let Some(current) = reader.ledger()? else { return Ok(()) };
        let line = reader.lineage(current)?;
        for branch in reader.left_ledgers()? {
            let seam = line.iter().find(|segment| segment.branch == branch).and_then(|segment| segment.to);
            if let Some((at, defect)) = self.first_fault(reader, branch, seam.unwrap_or(Seq(0)))? {
                self.note(format!(
                    "{at}, which the ledger has left, cannot be believed: {defect}; `limulus audit --branch {branch}` shows it"
                ));
            }
        }
        Ok(())
    }
}
