//! Checks the length of files. Clippy checks the length of functions (`too-many-lines-threshold` in `clippy.toml`).

use super::Finding;
use crate::rust_source::{code_of, tests_begin};
use crate::tree::{TextFile, Tree};

/// Lines before a file's tests above which the file causes a warning.
const FILE_WARNS_LINES: usize = 500;
/// Lines before a file's tests above which the file must be split.
const FILE_FAILS_LINES: usize = 800;

/// No file is too long.
pub(super) fn sizes(tree: &Tree) -> Vec<Finding> {
    let tests = |file: &TextFile| tests_begin(&file.path, &code_of(&file.text));
    tree.with_ending(".rs").filter_map(|file| file_size(file, tests(file))).collect()
}

fn file_size(file: &TextFile, tests: usize) -> Option<Finding> {
    let lines = if tests == 1 { file.text.lines().count() } else { tests - 1 };
    let what = if tests == 1 { format!("{lines} lines") } else { format!("{lines} lines before its tests") };
    let repair = format!("split it by subject: {FILE_FAILS_LINES} lines at most, 100 to 250 are usual");
    match lines {
        lines if lines > FILE_FAILS_LINES && tests > 1 => Some(Finding::failure(&file.path, 1, what, repair)),
        lines if lines > FILE_WARNS_LINES => Some(Finding::warning(&file.path, 1, what, repair)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::sizes;
    use crate::tidy::{Weight, found};
    use crate::tree::made_up::Folder;

    fn filler(lines: usize) -> String {
        "//! Doc.\n".repeat(lines)
    }

    #[test]
    fn long_files_warn_and_longer_ones_fail() {
        let tests = "#[cfg(test)]\nmod tests {\n}\n";
        let file = |lines| filler(lines) + tests;
        assert_eq!(found(sizes, &[("a.rs", &file(500)), ("x/tests/b.rs", &filler(500))]), [""; 0]);
        assert_eq!(found(sizes, &[("a.rs", &file(801))]), ["a.rs:1 801 lines before its tests"]);
        let folder = Folder::new(&[("a.rs", &file(501)), ("b.rs", &file(801)), ("x/tests/c.rs", &filler(900))]);
        let weights: Vec<_> = sizes(&folder.tree()).into_iter().map(|finding| finding.weight).collect();
        assert_eq!(weights, [Weight::Warning, Weight::Failure, Weight::Warning]);
    }
}
