//! The space of a journal: no new run starts at the configured limit, and near it a warning is given.

use std::path::Path;

use engine::{Failure, FailureClass};
use journal::Reader;

/// Percent of the size limit of the journal at which a warning is given.
const WARN_PERCENT: u64 = 80;

/// The space of a journal, compared with its limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Capacity {
    /// Enough space is left.
    Enough,
    /// Little space is left; the text warns the user.
    Little(String),
    /// No space is left; the text says why no run starts.
    None(String),
}

/// Whether the journal has space for a new run below this many bytes.
pub(super) fn capacity(home: &Path, most: Option<u64>) -> Capacity {
    let Some(most) = most else { return Capacity::Enough };
    // An unreadable journal is reported where it is opened.
    let used = Reader::open(home).and_then(|reader| reader.used_bytes()).unwrap_or_default();
    capacity_of(used + bytes_of(&home.join("calls")), most)
}

/// Bytes of all files in a folder, recursively. A file that disappears meanwhile counts as 0.
fn bytes_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    };
    entries.map(of).sum()
}

fn capacity_of(used: u64, most: u64) -> Capacity {
    let usage =
        format!("the journal uses {} of the {} that it may use (`retention.journal_mb`)", size(used), size(most));
    if used >= most {
        return Capacity::None(format!(
            "{usage}, so no new run starts: raise it, or erase old content with `limulus sessions cleanup --days N \
             --enforce`"
        ));
    }
    if used >= most / 100 * WARN_PERCENT {
        return Capacity::Little(format!(
            "{usage}: raise it, or erase old content with `limulus sessions cleanup --days N --enforce`; at the limit no new run starts"
        ));
    }
    Capacity::Enough
}

/// The failure of a run for which no space is left.
pub(super) fn no_space(why: String) -> Failure {
    Failure { code: Some(runtime::NO_SPACE.into()), ..Failure::new(FailureClass::Refused, why) }
}

/// A size in bytes with a unit of powers of 1024.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes.div_ceil(1_048_576)),
        _ => format!("{} GiB", bytes / 1_073_741_824),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r21_outputs_of_calls_count_towards_the_size_of_the_journal() {
        let home = tempfile::tempdir().unwrap();
        let call = home.path().join("calls").join("one");
        std::fs::create_dir_all(&call).unwrap();
        std::fs::write(call.join("output"), vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(capacity(home.path(), Some(2 << 20)), Capacity::Enough);
        assert!(matches!(capacity(home.path(), Some(1 << 20)), Capacity::None(_)));
    }

    #[test]
    fn r21_near_the_limit_of_the_journal_is_a_warning_and_at_it_no_run_starts() {
        let most = 100 << 20;
        assert_eq!(capacity_of(79 << 20, most), Capacity::Enough);
        assert!(matches!(capacity_of(80 << 20, most), Capacity::Little(_)));
        assert!(matches!(capacity_of(most - 1, most), Capacity::Little(_)));
        let Capacity::None(why) = capacity_of(most, most) else { panic!("it is full") };
        assert!(why.contains("100 MiB of the 100 MiB") && why.contains("sessions cleanup"), "{why}");
    }
}
