//! The result of an ended command: its output, truncated in the middle, and a last line on how it ended.

use engine::{BodyKind, CallOutcome, Content, ToolResult};

use crate::folder::{CallFolder, EndedBy, ExitRecord, KeptOutput};
use crate::limits::{KEPT_HEAD_BYTES, KEPT_TAIL_BYTES, PREVIEW_HEAD_BYTES, PREVIEW_TAIL_BYTES};
use crate::masking::Secrets;
use crate::{kinds, output, tool_result};

/// The last line of a command whose supervisor was killed.
const INTERRUPTED: &str = "[interrupted: the process that supervises the command was killed, so its outcome is unknown. What \
                           it left running was ended. Look at what it has done before you run it again.]\n";

/// The result of a recorded command, with a last line on its limit. Reads up to 8 MiB, so it may block.
pub(crate) fn ended(folder: &CallFolder, record: &ExitRecord, secrets: &Secrets, limit: &str) -> ToolResult {
    let status = secrets.mask(&status_line(record));
    result(folder, record.bytes, secrets, (outcome(record), &(status + limit)))
}

/// The result of a command whose supervisor was killed, with its output so far. It may block.
pub(crate) fn interrupted(folder: &CallFolder, secrets: &Secrets) -> ToolResult {
    let written = folder.written().unwrap_or_default();
    // Where a longer output ends in its ring, only the supervisor knew.
    let shown = if written < KEPT_HEAD_BYTES + KEPT_TAIL_BYTES { written } else { KEPT_HEAD_BYTES };
    result(folder, shown, secrets, (CallOutcome::Interrupted, INTERRUPTED))
}

/// The result of a command that wrote `bytes` bytes; `how` is its outcome and its last line.
fn result(folder: &CallFolder, bytes: u64, secrets: &Secrets, how: (CallOutcome, &str)) -> ToolResult {
    let kept = folder.kept_output(bytes).unwrap_or_else(|error| {
        let head = format!("[the output cannot be read: {error}]").into_bytes();
        KeptOutput { head, left_out: 0, tail: Vec::new() }
    });
    let preview = match kinds::file_type(&kept.head) {
        Some(kind) => OutputPreview { output: not_shown(bytes, kind), whole: None },
        None => truncated(&text(&bounded(kept), secrets), bytes),
    };
    let (outcome, status) = how;
    let end = if preview.output.is_empty() || preview.output.ends_with('\n') { "" } else { "\n" };
    let output = preview.output + end + status;
    ToolResult { whole: preview.whole, ..tool_result::text(outcome, &output) }
}

/// The shown part of an output, and the whole output if that is longer.
struct OutputPreview {
    output: String,
    whole: Option<Content>,
}

/// Escaped bytes take up to four times their space: of an output that is mostly such bytes, less is kept, so that its
/// text is no longer than that of any other.
fn bounded(kept: KeptOutput) -> KeptOutput {
    const MOST_BYTES: usize = (KEPT_HEAD_BYTES + KEPT_TAIL_BYTES) as usize;
    const END_BYTES: usize = MOST_BYTES / kinds::ESCAPE_BYTES / 2;
    let KeptOutput { mut head, left_out, tail } = kept;
    if kinds::escaped_len(&head) + kinds::escaped_len(&tail) <= MOST_BYTES {
        return KeptOutput { head, left_out, tail };
    }
    let more = (head.len() + tail.len()).saturating_sub(2 * END_BYTES) as u64;
    let end = if left_out == 0 { &head } else { &tail };
    let end = end[end.len().saturating_sub(END_BYTES)..].to_vec();
    head.truncate(END_BYTES);
    KeptOutput { head, left_out: left_out + more, tail: end }
}

/// The kept output with secrets masked, without the characters that the gap in the middle splits.
fn text(kept: &KeptOutput, secrets: &Secrets) -> String {
    let (head, tail) = if kept.left_out == 0 { (&kept.head[..], &kept.tail[..]) } else { at_characters(kept) };
    let ((mut text, mut broken), (tail, more)) = (escaped(head, secrets), escaped(tail, secrets));
    if kept.left_out > 0 {
        let left_out = kept.left_out.to_string();
        text.extend(["\n… ", &left_out, " bytes were not kept …\n", &tail]);
        broken += more;
    }
    if broken > 0 {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        text.extend([end, "[not all of it is text: ", &broken.to_string(), " bytes stand as \\xNN]\n"]);
    }
    text
}

fn escaped(bytes: &[u8], secrets: &Secrets) -> (String, usize) {
    kinds::escaped(&secrets.mask_bytes(bytes))
}

/// The head without the beginning of a character at its end, the tail without the rest of one at its beginning.
fn at_characters(kept: &KeptOutput) -> (&[u8], &[u8]) {
    let partial = kinds::partial_at_end(&kept.head);
    let rest = kept.tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    (&kept.head[..kept.head.len() - partial], &kept.tail[rest..])
}

fn not_shown(bytes: u64, kind: &str) -> String {
    format!(
        "[the output is not text, so it is not shown: {bytes} bytes, {kind}; write it to a file, or turn it into text]\n"
    )
}

/// Head and tail of an output, with the name under which `read` returns the whole.
fn truncated(whole: &str, bytes: u64) -> OutputPreview {
    if whole.len() <= PREVIEW_HEAD_BYTES + PREVIEW_TAIL_BYTES {
        return OutputPreview { output: whole.to_owned(), whole: None };
    }
    let content = Content::text(BodyKind::Output, whole);
    let head = &whole[..whole.floor_char_boundary(PREVIEW_HEAD_BYTES)];
    let tail = &whole[whole.ceil_char_boundary(whole.len() - PREVIEW_TAIL_BYTES)..];
    // An escaped text is longer than the output.
    let missing = bytes.max(whole.len() as u64) - (head.len() + tail.len()) as u64;
    let name = output::name(content.body.hash);
    let note = format!("\n… {missing} bytes left out; to see them: read path={name}, offset=LINE …\n");
    OutputPreview { output: format!("{head}{note}{tail}"), whole: Some(content) }
}

pub(crate) fn outcome(record: &ExitRecord) -> CallOutcome {
    match record {
        ExitRecord { survivors, .. } if !survivors.is_empty() => CallOutcome::Unended,
        ExitRecord { ended_by: Some(EndedBy::Limit), .. } => CallOutcome::TimedOut,
        ExitRecord { ended_by: None, status: Some(0), .. } => CallOutcome::Done,
        _ => CallOutcome::Failed,
    }
}

fn status_line(record: &ExitRecord) -> String {
    format!("[{}]\n", how(record))
}

/// Describes how a command ended.
pub(crate) fn how(record: &ExitRecord) -> String {
    let line = match (record.ended_by, record.status, record.signal) {
        (Some(EndedBy::Request), _, _) => "ended before it was done, on request".to_owned(),
        (Some(EndedBy::Limit), _, _) => "ended because it ran past its limit".to_owned(),
        (None, Some(status), _) => format!("exit status {status}"),
        (None, None, Some(signal)) => format!("ended by signal {signal}{}", signal_name(signal)),
        (None, None, None) => "no exit status".to_owned(),
    };
    let trouble = record.trouble.as_ref().map(|trouble| format!("; {trouble}")).unwrap_or_default();
    let survivors = match &record.survivors[..] {
        [] => String::new(),
        pids => format!("; these of its processes could not be ended: {pids:?}"),
    };
    let exceeded = record.exceeded.map(|exceeded| format!("; {}", exceeded.sentence())).unwrap_or_default();
    format!("{line}{trouble}{survivors}{exceeded}")
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => " (SIGINT)",
        6 => " (SIGABRT)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r45_a_long_output_loses_its_middle_and_says_where_it_is() {
        let whole = "ü".repeat(20_000) + "the end";
        let preview = truncated(&whole, whole.len() as u64);
        let hash = preview.whole.unwrap().body.hash;
        let missing = whole.len() - PREVIEW_HEAD_BYTES - PREVIEW_TAIL_BYTES;
        let note =
            |missing| format!("\n… {missing} bytes left out; to see them: read path=output:{hash}, offset=LINE …\n");
        assert!(
            preview.output.contains(&note(missing)) || preview.output.contains(&note(missing + 1)),
            "{}",
            preview.output
        );
        assert!(
            preview.output.ends_with("the end") && preview.output.len() < PREVIEW_HEAD_BYTES + PREVIEW_TAIL_BYTES + 200
        );
    }

    #[test]
    fn r45_bytes_that_are_not_text_are_reported_as_such() {
        let kept =
            |head: &[u8], tail: &[u8]| KeptOutput { head: head.into(), left_out: tail.len() as u64, tail: tail.into() };
        let secrets = Secrets::default();
        assert_eq!(text(&kept(b"plain \xc3\xbc\n", b""), &secrets), "plain ü\n");
        assert_eq!(
            text(&kept(b"caf\xe9", b""), &secrets),
            "caf\\xe9\n[not all of it is text: 1 bytes stand as \\xNN]\n"
        );
        // A character that the gap splits does not count as invalid.
        assert_eq!(text(&kept(b"a\xc3", b"\xbcb\n"), &secrets), "a\n… 3 bytes were not kept …\nb\n");
        assert_eq!(text(&kept(b"a\0b\n", b""), &secrets), "a\\x00b\n[not all of it is text: 1 bytes stand as \\xNN]\n");
        assert!(not_shown(7, "a PNG image").contains("7 bytes, a PNG image"));
    }

    #[test]
    fn r45_an_escaped_output_is_no_longer_than_another() {
        let mib = 1 << 20;
        let zeros = |mib_head: usize, left_out, mib_tail: usize| {
            bounded(KeptOutput { head: vec![0; mib_head * mib], left_out, tail: vec![0; mib_tail * mib] })
        };
        let sizes = |kept: &KeptOutput| (kept.head.len() / mib, kept.left_out / mib as u64, kept.tail.len() / mib);
        assert_eq!(sizes(&zeros(2, 0, 0)), (2, 0, 0));
        assert_eq!(sizes(&zeros(8, 0, 0)), (1, 6, 1));
        assert_eq!(sizes(&zeros(4, 5 * mib as u64, 4)), (1, 11, 1));
        let letters = KeptOutput { head: vec![b'a'; 4 * mib], left_out: 7, tail: vec![b'z'; 4 * mib] };
        assert!(bounded(letters.clone()) == letters);
        assert!(text(&zeros(8, 0, 0), &Secrets::default()).len() < 8 * mib + 200);
    }

    #[test]
    fn each_end_has_its_outcome_and_its_status_line() {
        let record = ExitRecord::default();
        let cases = [
            (ExitRecord { status: Some(0), ..record.clone() }, CallOutcome::Done, "[exit status 0]\n"),
            (ExitRecord { signal: Some(9), ..record.clone() }, CallOutcome::Failed, "signal 9 (SIGKILL)"),
            (
                ExitRecord { status: Some(0), ended_by: Some(EndedBy::Request), ..record.clone() },
                CallOutcome::Failed,
                "on request",
            ),
            (ExitRecord { ended_by: Some(EndedBy::Limit), ..record.clone() }, CallOutcome::TimedOut, "limit"),
            (ExitRecord { survivors: vec![7], ..record.clone() }, CallOutcome::Unended, "[7]"),
            (
                ExitRecord { trouble: Some("no such folder".to_owned()), ..record },
                CallOutcome::Failed,
                "no such folder",
            ),
        ];
        for (record, expected, words) in cases {
            assert_eq!(outcome(&record), expected);
            assert!(status_line(&record).contains(words), "{}", status_line(&record));
        }
    }
}
