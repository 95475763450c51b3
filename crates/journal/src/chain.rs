//! The hash chain over the entries of a branch, and the rules that each new record of a branch must satisfy.
//!
//! Both journals use it, so their rules cannot differ. This module does no I/O.

use engine::{Batch, BranchId, Epoch, Event, Hash, Ledger, Position, Record, Seq, Timestamp, VERSION};

use crate::{Entry, Error};

/// The end of a branch: its last seq and the chain value there. The default is an empty branch, whose chain is 32 zero
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) seq: Seq,
    pub(crate) chain: Hash,
}

/// The fields of an entry that are hashed into the chain.
pub(crate) struct Link<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) at: Timestamp,
    pub(crate) kind: &'a str,
    pub(crate) version: u16,
    pub(crate) payload_hash: Hash,
}

impl Default for Head {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Head {
    /// An empty branch; its chain starts with 32 zero bytes.
    pub(crate) const EMPTY: Self = Self { seq: Seq(0), chain: Hash([0; 32]) };

    /// The head of a branch that forks off an entry with this chain value.
    pub(crate) fn forked(chain: Hash) -> Self {
        Self { seq: Seq(0), chain }
    }

    /// The head after one more entry:
    /// `chain = H(previous ‖ branch ‖ seq, epoch, at as 8 bytes LE ‖ kind ‖ 0 ‖ version as 2 bytes LE ‖ payload hash)`.
    pub(crate) fn next(self, branch: BranchId, link: &Link<'_>) -> Self {
        let seq = Seq(self.seq.0 + 1);
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(&self.chain.0)
            .update(branch.0.as_bytes())
            .update(&seq.0.to_le_bytes())
            .update(&link.epoch.0.to_le_bytes())
            .update(&link.at.0.to_le_bytes())
            .update(link.kind.as_bytes())
            .update(&[0])
            .update(&link.version.to_le_bytes())
            .update(&link.payload_hash.0);
        Self { seq, chain: Hash(*hasher.finalize().as_bytes()) }
    }

    /// Builds the entry that this record becomes after this head.
    pub(crate) fn entry(self, branch: BranchId, epoch: Epoch, position: Position, record: &Record) -> Entry {
        let event = record.event.clone();
        let payload_hash = Hash::of(&event.payload());
        let link = Link { epoch, at: record.at, kind: event.kind(), version: VERSION, payload_hash };
        let Self { seq, chain } = self.next(branch, &link);
        Entry { seq, position, epoch, at: record.at, event, payload_hash, chain }
    }
}

/// Checks whether this record may come next in the batch's branch, which ends at `head` (`None`: the branch does not
/// exist yet).
pub(crate) fn admit(batch: &Batch, head: Option<Head>, record: &Record) -> Result<(), Error> {
    let branch = batch.branch;
    let begins = match &record.event {
        Event::Created(e) if e.branch != branch || e.session != batch.session => {
            return Err(Error::BranchTaken { branch });
        }
        Event::LedgerBegun(e) if e.branch != branch || batch.session != Ledger::SESSION => {
            return Err(Error::BranchTaken { branch });
        }
        Event::Created(_) | Event::Forked(_) | Event::LedgerBegun(_) => true,
        _ => false,
    };
    match (begins, head) {
        (true, Some(_)) => return Err(Error::BranchTaken { branch }),
        (false, None) => return Err(Error::UnknownBranch { branch }),
        (true, None) | (false, Some(_)) => {}
    }
    if record.event.progress().is_some() {
        return Ok(());
    }
    let expected = Seq(head.map_or(0, |head| head.seq.0) + 1);
    if record.seq == Some(expected) { Ok(()) } else { Err(Error::Gap { branch, expected, found: record.seq }) }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use engine::{Created, Forked, Opened, SessionId};

    use super::*;

    const PAGE: &str = include_str!("../../../docs/internals/format.md");
    const AT: Timestamp = Timestamp(1_767_225_600_000);

    /// Appends an entry to `page` in the page's format and returns the head after it.
    fn shown(page: &mut String, branch: BranchId, head: Head, event: Event) -> Head {
        let payload = String::from_utf8(event.payload()).unwrap();
        let record = Record { seq: None, at: AT.plus(head.seq.0), event };
        let entry = head.entry(branch, Epoch(1), Position(0), &record);
        let Entry { seq, epoch, at, payload_hash, chain, .. } = entry;
        writeln!(page, "branch {branch}, seq {seq}, epoch {epoch}, at {at}, {} 1", record.event.kind()).unwrap();
        writeln!(page, "  payload       {payload}\n  payload_hash  {payload_hash}").unwrap();
        writeln!(page, "  before        {}", head.chain).unwrap();
        let numbers = [seq.0.to_le_bytes(), epoch.0.to_le_bytes(), at.0.to_le_bytes()].concat();
        let kind = [record.event.kind().as_bytes(), &[0, 1, 0]].concat();
        let hashed = [&head.chain.0[..], branch.0.as_bytes(), &numbers, &kind, &payload_hash.0].concat();
        page.push_str("  hashed        ");
        for byte in &hashed {
            write!(page, "{byte:02x}").unwrap();
        }
        writeln!(page, "\n  chain         {}", Hash::of(&hashed)).unwrap();
        Head { seq, chain }
    }

    /// R18: a reader who computes the chain as the page describes gets the stored value.
    #[test]
    fn r18_the_example_of_the_page_is_computed_as_entries_are() {
        let id = |text: &str| text.parse::<BranchId>().unwrap();
        let (branch, fork) = (id("019b7699-6800-7000-8000-000000000002"), id("019b7699-6800-7000-8000-000000000003"));
        let session = SessionId("019b7699-6800-7000-8000-000000000001".parse().unwrap());
        let created = Created { session, key: "agent:main:main".into(), agent: "main".into(), branch };
        let mut example = String::from("```text\n");
        let head = shown(&mut example, branch, Head::EMPTY, created.into());
        let head = shown(&mut example, branch, head, Opened { epoch: Epoch(1), last_activity: AT }.into());
        let forked = Forked { parent: branch, at: head.seq, hash: head.chain };
        shown(&mut example, fork, Head::forked(head.chain), forked.into());
        example.push_str("```\n");
        assert!(PAGE.contains(&example), "put this into the page:\n{example}");
    }
}
