//! Checks the files of a home: which exist, who may read them, what the mark contains.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use engine::{Hash, Position};

use super::finding::{Consequence, Finding, Repair, What, Where};
use super::{Check, DATABASE};
use crate::Error;
use crate::sqlite::schema;

/// What was acknowledged last: position and chain value; `None` if that is not known.
pub(super) type Mark = Option<(Position, Hash)>;

/// The size of a mark, bytes.
const MARK_BYTES: usize = 40;

impl Check {
    /// Checks the files and returns the mark.
    pub(super) fn files(&mut self) -> Result<Mark, Error> {
        let mark = self.mark()?;
        let database = self.database();
        let wal = self.home.join("journal.db-wal");
        let size = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
        self.report.counts.database_bytes = size(&database);
        self.report.counts.wal_bytes = size(&wal);
        self.report.counts.mark = mark.map_or(0, |(position, _)| position.0);
        if let Ok(space) = rustix::fs::statvfs(&self.home) {
            self.report.counts.free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        }
        self.modes();
        if schema::is_missing(&database) {
            self.missing(mark)?;
        }
        Ok(mark)
    }

    fn mark(&mut self) -> Result<Mark, Error> {
        let path = self.home.join("journal.mark");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Failed { path, detail: error.to_string() }),
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        let Ok(bytes) = <[u8; MARK_BYTES]>::try_from(bytes.as_slice()) else {
            self.find(Finding {
                what: What::Mark,
                place: Where::file("journal.mark"),
                detail: format!(
                    "it has {} bytes, not {MARK_BYTES}: what was acknowledged last is not known",
                    bytes.len()
                ),
                effect: Consequence::ReadOnly,
                repair: Some(Repair::Loss),
            });
            return Ok(None);
        };
        let (position, chain) = bytes.split_at(8);
        let position = u64::from_le_bytes(position.try_into().expect("split at 8"));
        let chain = Hash(chain.try_into().expect("40 less 8 are 32"));
        Ok((position > 0).then_some((Position(position), chain)))
    }

    /// The journal does not exist. That is no defect where there never was one.
    fn missing(&mut self, mark: Mark) -> Result<(), Error> {
        let has_wal = self.report.counts.wal_bytes > 0;
        let detail = match (mark, has_wal) {
            (None, false) if self.report.findings.is_empty() => {
                return Err(Error::NotFound { home: self.home.clone() });
            }
            (Some((mark, _)), false) => format!("{DATABASE} is missing or empty, but position {mark} was acknowledged"),
            (Some((mark, _)), true) => {
                format!(
                    "{DATABASE} is missing or empty, but position {mark} was acknowledged, and its journal.db-wal exists"
                )
            }
            (None, _) => format!("{DATABASE} is missing or empty, but its journal.db-wal or journal.mark exists"),
        };
        self.find(Finding {
            what: What::Gone,
            place: Where::file("journal.db"),
            detail,
            effect: Consequence::Closed,
            repair: None,
        });
        Ok(())
    }

    fn modes(&mut self) {
        for name in ["", DATABASE, "journal.db-wal", "journal.mark", "journal.reserve", "owner.lock"] {
            let path = if name.is_empty() { self.home.clone() } else { self.home.join(name) };
            let Ok(meta) = fs::metadata(&path) else { continue };
            let mode = meta.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                let name = if name.is_empty() { "the folder" } else { name };
                self.note(format!(
                    "{name} has mode {mode:o}: others on this machine may read it; the next owner closes it"
                ));
            }
        }
    }
}
