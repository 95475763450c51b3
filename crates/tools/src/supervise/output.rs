//! Stores the output of a command within a bound: the beginning, and a ring buffer with the end. If the disk is full,
//! the command does not wait: the supervisor counts the bytes and reports the loss.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::folder::place;

/// The file `output` while it is written.
#[derive(Debug, Default)]
pub(crate) struct OutputLog {
    /// Bytes that the command wrote.
    pub(crate) bytes: u64,
    /// Why some bytes could not be stored; none if all were.
    pub(crate) trouble: Option<String>,
}

impl OutputLog {
    pub(crate) fn append(&mut self, file: &File, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (place, space) = place(self.bytes);
            let (now, later) = bytes.split_at(bytes.len().min(space as usize));
            if let Err(error) = file.write_all_at(now, place) {
                self.note(&error);
            }
            self.bytes += now.len() as u64;
            bytes = later;
        }
    }

    fn note(&mut self, error: &io::Error) {
        self.trouble.get_or_insert_with(|| format!("a part of the output could not be kept: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::CallFolder;
    use crate::limits::{KEPT_HEAD_BYTES, KEPT_TAIL_BYTES};

    /// Writes `total` bytes, four bytes for each number, in pieces of uneven size, and reads the kept output.
    fn kept(total: u64) -> (crate::folder::KeptOutput, Vec<u8>) {
        let home = tempfile::tempdir().unwrap();
        let file = File::create(home.path().join("output")).unwrap();
        let all: Vec<u8> = (0..total as u32 / 4).flat_map(u32::to_le_bytes).collect();
        let mut log = OutputLog::default();
        for piece in all.chunks(65_537) {
            log.append(&file, piece);
        }
        assert_eq!((log.bytes, log.trouble), (total, None));
        (CallFolder::at(home.path()).kept_output(total).unwrap(), all)
    }

    #[test]
    fn what_fits_is_kept_whole() {
        for total in [0, 4, KEPT_HEAD_BYTES, KEPT_HEAD_BYTES + 8, KEPT_HEAD_BYTES + KEPT_TAIL_BYTES] {
            let (kept, all) = kept(total);
            assert_eq!(kept.left_out, 0);
            assert!(kept.head == all && kept.tail.is_empty(), "{total}");
        }
    }

    #[test]
    fn of_a_long_output_the_beginning_and_the_end_are_kept() {
        let most = KEPT_HEAD_BYTES + KEPT_TAIL_BYTES;
        for over in [4, 65_536, KEPT_TAIL_BYTES - 4, KEPT_TAIL_BYTES, KEPT_TAIL_BYTES + 12] {
            let (kept, all) = kept(most + over);
            assert_eq!(kept.left_out, over);
            assert!(kept.head == all[..KEPT_HEAD_BYTES as usize], "{over}");
            assert!(kept.tail == all[all.len() - KEPT_TAIL_BYTES as usize..], "{over}");
        }
    }
}
