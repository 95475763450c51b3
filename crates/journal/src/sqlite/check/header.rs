//! Reads the first bytes of the database file without SQLite: whether it is a journal, and whether it is complete.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::Check;
use super::finding::{Consequence, Finding, Repair, What, Where};
use crate::sqlite::schema::{APPLICATION_ID, USER_VERSION};

const HEADER_BYTES: usize = 100;

impl Check {
    /// Whether this file is a journal that can be checked further; if not, it adds a finding. If there is a WAL, it may
    /// hold a newer header, so this function leaves it to SQLite to judge the numbers.
    pub(super) fn header(&mut self) -> bool {
        let mut header = [0; HEADER_BYTES];
        let read = File::open(self.database()).and_then(|file| file.read_exact_at(&mut header, 0));
        if read.is_err() || &header[..16] != b"SQLite format 3\0" {
            self.foreign("it does not start as a database does");
            return false;
        }
        let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if self.report.counts.wal_bytes == 0 {
            if i64::from(number(68)) != APPLICATION_ID {
                self.foreign("it is a database of another program");
                return false;
            }
            if i64::from(number(60)) > USER_VERSION {
                let detail = format!("it has format {}, this limulus knows {USER_VERSION}", number(60));
                let place = Where::file("journal.db");
                self.find(Finding { what: What::Newer, place, detail, effect: Consequence::Closed, repair: None });
                return false;
            }
            self.length(u64::from(u16::from_be_bytes([header[16], header[17]])), u64::from(number(28)));
        }
        true
    }

    fn foreign(&mut self, detail: &str) {
        self.find(Finding {
            what: What::Foreign,
            place: Where::file("journal.db"),
            detail: detail.to_owned(),
            effect: Consequence::Closed,
            repair: None,
        });
    }

    fn length(&mut self, page_bytes: u64, pages: u64) {
        // SQLite stores 65,536 as 1.
        let page_bytes = if page_bytes == 1 { 65_536 } else { page_bytes };
        let (is, says) = (self.report.counts.database_bytes, page_bytes * pages);
        if is < says {
            self.find(Finding {
                what: What::Truncated,
                place: Where::file("journal.db"),
                detail: format!("it has {is} bytes, and should have {says}"),
                effect: Consequence::Closed,
                repair: Some(Repair::Export),
            });
        }
    }
}
