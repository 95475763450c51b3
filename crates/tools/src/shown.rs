//! What the model is told of a command that ended: its output, shortened in the middle, and a last line on how it ended.

use engine::{BodyKind, CallOutcome, Content};

use crate::call::Ended;
use crate::folder::{CallFolder, EndedBy, ExitRecord, KeptOutput};
use crate::limits::{SHOWN_HEAD_BYTES, SHOWN_TAIL_BYTES};
use crate::masking::Secrets;

/// The result of a recorded command. Reads up to 8 MiB, so it may block.
pub(crate) fn ended(folder: &CallFolder, record: &ExitRecord, secrets: &Secrets) -> Ended {
    let kept = folder.kept_output(record.bytes).unwrap_or_else(|error| {
        let head = format!("[the output cannot be read: {error}]").into_bytes();
        KeptOutput { head, left_out: 0, tail: Vec::new() }
    });
    let mut whole = text(secrets, &kept.head);
    if kept.left_out > 0 {
        whole.push_str(&left_out(kept.left_out));
        whole.push_str(&text(secrets, &kept.tail));
    }
    let status = secrets.mask(&status_line(record));
    Ended {
        outcome: outcome(record),
        output: Content::text(BodyKind::Output, &shorten(&whole, &status, record)),
        whole: (whole.len() > SHOWN_HEAD_BYTES + SHOWN_TAIL_BYTES).then(|| Content::text(BodyKind::Output, &whole)),
    }
}

fn text(secrets: &Secrets, bytes: &[u8]) -> String {
    String::from_utf8_lossy(&secrets.mask_bytes(bytes)).into_owned()
}

fn outcome(record: &ExitRecord) -> CallOutcome {
    match record {
        ExitRecord { survivors, .. } if !survivors.is_empty() => CallOutcome::Unended,
        ExitRecord { ended_by: Some(EndedBy::Limit), .. } => CallOutcome::TimedOut,
        ExitRecord { ended_by: None, status: Some(0), .. } => CallOutcome::Done,
        _ => CallOutcome::Failed,
    }
}

fn shorten(whole: &str, status: &str, record: &ExitRecord) -> String {
    let mut shown = if whole.len() <= SHOWN_HEAD_BYTES + SHOWN_TAIL_BYTES {
        whole.to_owned()
    } else {
        let head = &whole[..whole.floor_char_boundary(SHOWN_HEAD_BYTES)];
        let tail = &whole[whole.ceil_char_boundary(whole.len() - SHOWN_TAIL_BYTES)..];
        let missing = record.bytes.saturating_sub((head.len() + tail.len()) as u64);
        format!("{head}{}{tail}", left_out(missing))
    };
    if !shown.is_empty() && !shown.ends_with('\n') {
        shown.push('\n');
    }
    shown + status
}

fn left_out(bytes: u64) -> String {
    format!("\n… {bytes} bytes left out …\n")
}

fn status_line(record: &ExitRecord) -> String {
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
    format!("[{line}{trouble}{survivors}]\n")
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
    fn a_long_output_loses_its_middle_and_says_so() {
        let whole = "ü".repeat(20_000) + "the end";
        let record = ExitRecord { status: Some(3), bytes: whole.len() as u64, ..ExitRecord::default() };
        let shown = shorten(&whole, &status_line(&record), &record);
        assert!(shown.len() < SHOWN_HEAD_BYTES + SHOWN_TAIL_BYTES + 100);
        assert!(shown.ends_with("the end\n[exit status 3]\n"), "{shown}");
        let missing = whole.len() - SHOWN_HEAD_BYTES - SHOWN_TAIL_BYTES;
        assert!(
            shown.contains(&format!("\n… {missing} bytes left out …\n")) || shown.contains(&format!("{}", missing + 1))
        );
    }

    #[test]
    fn each_end_has_its_outcome_and_its_words() {
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
