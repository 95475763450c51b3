//! Unified diffs for a person: in colours where they are on, and bounded below the line of a call.

use protocol::method::FileDiff;

use super::rows;
use crate::output::{Control, Part};

/// Lines of a diff below the line of a call.
const CALL_LINES: usize = 40;
/// What stands before each of them.
const INDENT: &str = "  ";

/// The lines of a diff in colours. Text and colours are told apart where they are written.
pub(crate) fn coloured(text: &str) -> Vec<Part<'_>> {
    let mut parts = vec![];
    for line in text.split_inclusive('\n') {
        let (end, rest) = (Control::Plain, line.strip_suffix('\n').unwrap_or(line));
        match colour(line) {
            Some(colour) => {
                parts.extend([Part::Control(colour), Part::Text(rest), Part::Control(end), Part::Text("\n")]);
            }
            None => parts.push(Part::Text(line)),
        }
    }
    parts
}

fn colour(line: &str) -> Option<Control> {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'@', b'@', ..] => Some(Control::Dim),
        [b'+', ..] => Some(Control::Added),
        [b'-', ..] => Some(Control::Removed),
        _ => None,
    }
}

/// `+1 −2`; none if no file has a known change of its lines.
pub(super) fn counts(changes: &[FileDiff]) -> Option<String> {
    let (added, removed) = changes.iter().fold((0, 0), |sum, file| (sum.0 + file.added, sum.1 + file.removed));
    (added + removed > 0).then(|| format!("+{added} −{removed}"))
}

/// A row below the line of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiffRow {
    pub(super) colour: Option<Control>,
    pub(super) text: String,
}

/// The rows below the line of a call that changed files. Each is indented, so none looks like a line of this program.
pub(super) fn below(changes: &[FileDiff], width: usize) -> Vec<DiffRow> {
    let is_one = changes.len() == 1;
    // The line of the call names a file that is alone.
    let lines =
        changes.iter().flat_map(|file| file.diff.iter().flat_map(|diff| diff.lines()).skip(if is_one { 2 } else { 0 }));
    let lines: Vec<&str> = lines.take(CALL_LINES).collect();
    let rows_of = |line: &&str| {
        let colour = colour(line);
        rows::rows(INDENT, &rows::untabbed(line), width).into_iter().map(move |text| DiffRow { colour, text })
    };
    let mut below: Vec<DiffRow> = lines.iter().flat_map(rows_of).collect();
    let is_change = |line: &&&str| matches!(colour(line), Some(Control::Added | Control::Removed));
    let shown = lines.iter().filter(is_change).count();
    let all: usize = changes.iter().map(|file| file.added + file.removed).sum();
    if all > shown {
        let more = format!("  … {} more: limulus diff", crate::show::human::count(all - shown, "changed line"));
        below.push(DiffRow { colour: Some(Control::Dim), text: more });
    }
    below
}

#[cfg(test)]
mod tests {
    use engine::FileKind;
    use protocol::method::FileAct;

    use super::*;

    #[test]
    fn a_diff_has_colours_that_its_text_cannot_set() {
        let parts = coloured("--- a/x\n@@ -1 +1 @@\n-\u{1b}[31mred\n+new\n same\n");
        let controls: Vec<Control> = parts
            .iter()
            .filter_map(|part| if let Part::Control(control) = part { Some(*control) } else { None })
            .filter(|control| *control != Control::Plain)
            .collect();
        assert_eq!(controls, [Control::Dim, Control::Dim, Control::Removed, Control::Added]);
    }

    fn file(path: &str, added: usize, diff: &str) -> FileDiff {
        let diff = Some(format!("--- a/{path}\n+++ b/{path}\n{diff}"));
        let (path, kind, act) = (path.to_owned(), FileKind::File, FileAct::Changed);
        FileDiff { path, kind, act, mode: None, added, removed: 1, diff, note: None }
    }

    #[test]
    fn r09_the_diff_of_a_call_is_rows_of_its_own_and_bounded() {
        let texts = |changes: &[FileDiff], width| -> Vec<String> {
            below(changes, width).into_iter().map(|row| row.text).collect()
        };
        let one = [file("a", 1, "@@ -1 +1 @@\n-\told\n+好好好好 \u{1b}[2J\n")];
        assert_eq!(counts(&one).as_deref(), Some("+1 −1"));
        assert_eq!(texts(&one, 80), ["  @@ -1 +1 @@", "  -    old", r"  +好好好好 \u001b[2J"]);
        let narrow = ["  @@ -1 +1 @@", "  -    old", "  +好好好好", r"  │ \u001b[2J"];
        assert_eq!(texts(&one, 19), narrow, "by cells, not by characters");
        let two = [one[0].clone(), file("b", 1, "@@ -1 +1 @@\n-x\n+y\n")];
        assert!(texts(&two, 80).contains(&"  --- a/b".to_owned()), "names tell several apart");
        let long = file("a", 99, &format!("@@ -1 +1 @@\n-x\n{}", "+y\n".repeat(70)));
        let rows = texts(&[long], 80);
        assert_eq!((rows.len(), &*rows[40]), (41, "  … 61 changed lines more: limulus diff"));
        assert!(counts(&[]).is_none());
    }
}
