//! Whether a kill came in the middle of a commit: the WAL then ends with pages that no commit follows. It reads the
//! file format itself (<https://sqlite.org/fileformat2.html#walformat>), before anyone opens the journal again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// How many complete pages follow the last commit of this WAL.
pub(super) fn pages_without_commit(wal: &Path) -> io::Result<u64> {
    let file = match File::open(wal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    let mut header = [0; HEADER_BYTES as usize];
    if file.metadata()?.len() < HEADER_BYTES {
        return Ok(0);
    }
    file.read_exact_at(&mut header, 0)?;
    let page_bytes = u64::from(number(&header, 2));
    let sums = Sums { big_endian: number(&header, 0) & 1 == 1, values: [number(&header, 6), number(&header, 7)] };
    walk(&file, page_bytes, &header[16..24], sums)
}

/// After the last commit, only frames whose checksums continue from it count: others are left over from before the WAL
/// was reused.
fn walk(file: &File, page_bytes: u64, salts: &[u8], mut sums: Sums) -> io::Result<u64> {
    let frame_bytes = FRAME_HEADER_BYTES as u64 + page_bytes;
    let frames = (file.metadata()?.len() - HEADER_BYTES) / frame_bytes;
    let head = |at: u64| {
        let mut head = [0; FRAME_HEADER_BYTES];
        file.read_exact_at(&mut head, HEADER_BYTES + at * frame_bytes).map(|()| head)
    };
    let mut behind = 0;
    for at in 0..frames {
        let head = head(at)?;
        if head[8..16] != *salts {
            break;
        }
        if number(&head, 1) > 0 {
            (behind, sums.values) = (at + 1, [number(&head, 4), number(&head, 5)]);
        }
    }
    let mut page = vec![0; page_bytes as usize];
    for at in behind..frames {
        let head = head(at)?;
        file.read_exact_at(&mut page, HEADER_BYTES + at * frame_bytes + FRAME_HEADER_BYTES as u64)?;
        sums.add(&head[..8]);
        sums.add(&page);
        if head[8..16] != *salts || sums.values != [number(&head, 4), number(&head, 5)] {
            return Ok(at - behind);
        }
    }
    Ok(frames - behind)
}

/// The `at`th four bytes, big-endian.
fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[4 * at..4 * at + 4].try_into().expect("four bytes"))
}

/// The running checksums of a WAL.
struct Sums {
    big_endian: bool,
    values: [u32; 2],
}

impl Sums {
    fn add(&mut self, bytes: &[u8]) {
        let word = |four: &[u8]| {
            let four = four.try_into().expect("four bytes");
            if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
        };
        let [mut one, mut two] = self.values;
        for pair in bytes.chunks_exact(8) {
            one = one.wrapping_add(word(&pair[..4])).wrapping_add(two);
            two = two.wrapping_add(word(&pair[4..])).wrapping_add(one);
        }
        self.values = [one, two];
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn only_pages_without_their_commit_count() {
        let folder = tempfile::tempdir().unwrap();
        let (database, wal) = (folder.path().join("a.db"), folder.path().join("a.db-wal"));
        assert_eq!(pages_without_commit(&wal).unwrap(), 0);
        let connection = Connection::open(&database).unwrap();
        let sql = "PRAGMA journal_mode = WAL; PRAGMA cache_size = 1; CREATE TABLE t(x); INSERT INTO t VALUES (1)";
        connection.execute_batch(sql).unwrap();
        assert_eq!(pages_without_commit(&wal).unwrap(), 0);
        // More than the cache holds: pages go to the WAL before their commit does.
        let many = "BEGIN; WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500) \
                    INSERT INTO t SELECT randomblob(1000) FROM n";
        connection.execute_batch(many).unwrap();
        assert!(pages_without_commit(&wal).unwrap() > 10);
        connection.execute_batch("COMMIT").unwrap();
        assert_eq!(pages_without_commit(&wal).unwrap(), 0);
    }
}
