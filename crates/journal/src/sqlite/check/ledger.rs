//! Checks the ledger of a home: every entry of its line up to the first corrupt one. A corrupt ledger closes no
//! session.

use engine::{BranchId, Seq};
use rusqlite::Row;

use super::Check;
use super::finding::Finding;
use super::session::{EntryAnchor, Fault};
use super::view::View;
use super::walk::Audited;
use crate::sqlite::reader::Reader;
use crate::{Error, Read as _};

/// The result of checking the ledger.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct VerifiedLedger {
    /// The number of entries that were read.
    pub entries: u64,
    /// The last entry before the first fault.
    pub last_good: Option<EntryAnchor>,
    pub fault: Option<Fault>,
    /// Why the rest could not be read; `None` if it could.
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
    /// Verifies the entries of the ledger and folds them up to the first corrupt one.
    pub fn verify_ledger(&self) -> VerifiedLedger {
        let mut verified = VerifiedLedger::default();
        verified.unread = self.walk_ledger(&mut verified).err().map(|error| error.cause());
        verified
    }

    fn walk_ledger(&self, verified: &mut VerifiedLedger) -> Result<(), Error> {
        let Some(branch) = self.ledger()? else { return Ok(()) };
        self.lineage(branch)?.iter().try_for_each(|segment| self.walk(segment, |audited| verified.take(audited)))
    }

    /// The branches that the ledger no longer uses, oldest first.
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
        // If they cannot be listed, the check of pages reports that.
        let _ = self.left_ledgers(&view.reader);
    }

    /// Reports defects of abandoned branches as notes: nothing depends on these branches.
    fn left_ledgers(&mut self, reader: &Reader) -> Result<(), Error> {
        let Some(current) = reader.ledger()? else { return Ok(()) };
        let line = reader.lineage(current)?;
        for branch in reader.left_ledgers()? {
            let seam = line.iter().find(|segment| segment.branch == branch).and_then(|segment| segment.to);
            if let Some((at, defect)) = self.first_fault(reader, branch, seam.unwrap_or(Seq(0)))? {
                self.note(format!(
                    "{at}, on an abandoned branch of the ledger, is corrupt: {defect}; `limulus audit --branch {branch}` shows it"
                ));
            }
        }
        Ok(())
    }
}
