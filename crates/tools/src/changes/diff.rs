//! What changed in the lines of a file, as a unified diff.

use std::io::Read as _;
use std::time::Duration;

use engine::{BodyKind, ChangedLines, Content};
use similar::{ChangeTag, TextDiff};

use super::store::FileStore;
use crate::evidence::FileChange;
use crate::limits::{COMPARED_BYTES, DIFF_BYTES, DIFF_LINE_BYTES, DIFF_LINES};
use crate::masking::Secrets;
use crate::paths::ResolvedPath;

/// How long one file is compared before the diff becomes coarser.
const PATIENCE: Duration = Duration::from_millis(500);
/// Bytes at the beginning of a content that tell a text from something else.
const LOOKED_AT: usize = 8000;

/// What changed in the lines of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnifiedDiff {
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
    /// The diff, with its two lines of names.
    pub text: String,
}

impl UnifiedDiff {
    /// Compares two texts of a file; none = there is no file.
    pub fn of(path: &str, before: Option<&str>, after: Option<&str>) -> Self {
        let name = |side: &str, text: Option<&str>| text.map_or("/dev/null".to_owned(), |_| format!("{side}/{path}"));
        let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
        let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        let text = diff.unified_diff().header(&name("a", before), &name("b", after)).to_string();
        Self { added: count(ChangeTag::Insert), removed: count(ChangeTag::Delete), text }
    }
}

/// Whether a content is compared line by line.
pub fn is_text(content: &[u8]) -> bool {
    !content[..content.len().min(LOOKED_AT)].contains(&0)
}

/// What the diffs of a call are made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Diffs<'a> {
    /// Where the contents before are kept.
    pub(crate) store: &'a FileStore,
    /// What no diff shows.
    pub(crate) secrets: &'a Secrets,
}

/// What a call that has changed a file has changed in its lines; none if a content is not there, too large or no text.
pub(super) fn of_change(diffs: Diffs<'_>, path: &ResolvedPath, name: &str, change: FileChange) -> Option<ChangedLines> {
    let before =
        change.before.map(|hash| diffs.store.content_within(&hash, COMPARED_BYTES).ok_or(())).transpose().ok()?;
    let after = change.after.map(|_| now(path).ok_or(())).transpose().ok()?;
    if !before.iter().chain(&after).all(|content| is_text(content)) {
        return None;
    }
    let text = |content: &Option<Vec<u8>>| content.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (before, after) = (text(&before), text(&after));
    let diff = UnifiedDiff::of(name, before.as_deref(), after.as_deref());
    let text = Content::text(BodyKind::Output, &beginning(&diffs.secrets.mask(&diff.text)));
    Some(ChangedLines { added: diff.added as u64, removed: diff.removed as u64, text })
}

fn now(path: &ResolvedPath) -> Option<Vec<u8>> {
    let (file, bytes) = path.open_file("read").ok()?;
    let mut content = vec![];
    (bytes <= COMPARED_BYTES).then(|| file.take(COMPARED_BYTES).read_to_end(&mut content))?.ok()?;
    Some(content)
}

/// The first lines of a diff, each up to a length, without the two lines of names if nothing differs.
fn beginning(diff: &str) -> String {
    let mut text = String::new();
    for line in diff.lines().take(DIFF_LINES) {
        let end = line.floor_char_boundary(DIFF_LINE_BYTES);
        if text.len() + end > DIFF_BYTES {
            break;
        }
        text.push_str(&line[..end]);
        text.push_str(if end < line.len() { "…\n" } else { "\n" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r49_a_diff_counts_its_lines_and_its_beginning_is_bounded() {
        let diff = UnifiedDiff::of("a", Some("1\n2\n"), Some("1\n3\n4\n"));
        assert_eq!((diff.added, diff.removed), (2, 1));
        assert_eq!(diff.text, "--- a/a\n+++ b/a\n@@ -1,2 +1,3 @@\n 1\n-2\n+3\n+4\n");
        assert!(UnifiedDiff::of("a", None, Some("1\n")).text.starts_with("--- /dev/null\n+++ b/a\n"));
        let long = UnifiedDiff::of("a", None, Some(&"ü".repeat(1 << 20)));
        let shown = beginning(&long.text);
        assert!(
            shown.len() < DIFF_LINE_BYTES + 200 && shown.lines().any(|line| line.ends_with("ü…")),
            "{}",
            shown.len()
        );
        let many = UnifiedDiff::of("a", None, Some(&"x\n".repeat(10_000)));
        assert_eq!((many.added, beginning(&many.text).lines().count()), (10_000, DIFF_LINES));
        assert!(
            beginning(&UnifiedDiff::of("a", None, Some(&format!("{}\n", "x".repeat(400)).repeat(99))).text).len()
                <= DIFF_BYTES
        );
    }
}
