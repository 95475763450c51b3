//! How much a home takes on its disk.

use std::fs;
use std::path::{Path, PathBuf};

use config::size;
use serde::Serialize;

/// Files and folders that are counted: a look at a home takes no longer than a moment.
const MOST: usize = 50_000;

/// The bytes of the files in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct HomeSize {
    pub(crate) bytes: u64,
    /// Whether all files are counted, so that it is not only a part.
    pub(crate) is_whole: bool,
}

impl HomeSize {
    /// Counts the files in a folder, in those below it too. It follows no link.
    pub(crate) fn of(folder: &Path) -> Self {
        let (mut bytes, mut seen) = (0, 0);
        let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                seen += 1;
                if seen > MOST {
                    return Self { bytes, is_whole: false };
                }
                match entry.metadata() {
                    Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                    Ok(meta) if meta.is_file() => bytes += meta.len(),
                    // It disappeared meanwhile, or takes no space.
                    _ => {}
                }
            }
        }
        Self { bytes, is_whole: true }
    }

    /// The size for people.
    pub(crate) fn shown(self) -> String {
        let more = if self.is_whole { "" } else { " or more" };
        format!("{}{more}", size(self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r18_the_size_of_a_home_is_that_of_all_its_files() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("calls/one")).unwrap();
        fs::write(home.path().join("calls/one/output"), vec![b'x'; 3_000]).unwrap();
        fs::write(home.path().join("journal.db"), vec![b'x'; 2_000]).unwrap();
        std::os::unix::fs::symlink("/", home.path().join("link")).unwrap();
        assert_eq!(HomeSize::of(home.path()), HomeSize { bytes: 5_000, is_whole: true });
        assert_eq!(HomeSize::of(&home.path().join("absent")).bytes, 0);
    }
}
