//! Reads a part of a command's output while it grows: from any byte on, with secrets masked, never ending within a
//! character.

use std::io;

use crate::folder::CallFolder;
use crate::kinds;
use crate::limits::{KEPT_HEAD_BYTES, KEPT_TAIL_BYTES, POLLED_BYTES, POLLED_TAIL_BYTES, SNIFF_BYTES};
use crate::masking::Secrets;

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    /// The part as text.
    pub(crate) text: String,
    /// Where the next part begins.
    pub(crate) next: u64,
    /// Bytes that the command has written so far.
    pub(crate) written: u64,
}

/// Reads the output from byte `from` on; without `from`, the last bytes. `is_over` says that the command writes no
/// more.
pub(crate) fn read(folder: &CallFolder, secrets: &Secrets, from: Option<u64>, is_over: bool) -> io::Result<Window> {
    let written = folder.written()?;
    let wanted = from.unwrap_or(written.saturating_sub(POLLED_TAIL_BYTES)).min(written);
    let kept = kept(wanted, written);
    let from = wanted.max(kept.start);
    let to = kept.end.min(from + POLLED_BYTES);
    // A secret may begin before the part or end after it.
    let margin = secrets.longest() as u64;
    let (first, last) = (kept.start.max(from.saturating_sub(margin)), kept.end.min(to + margin));
    let bytes = folder.read_output(first, last)?;
    let part = ((from - first) as usize).min(bytes.len())..((to - first) as usize).min(bytes.len());
    // Escaped bytes take more space: such a part ends earlier.
    let part = part.start..part.start + kinds::fitting(&bytes[part], POLLED_BYTES as usize);
    let (mut masked, mut end) = secrets.mask_part(&bytes, part, is_over);
    let partial = kinds::partial_at_end(&masked);
    if partial > 0 && !(is_over && first + end as u64 >= written) {
        masked.truncate(masked.len() - partial);
        end -= partial;
    }
    let next = first + end as u64;
    let kind = match kinds::not_text(&masked) {
        Some(_) => kinds::file_type(&folder.read_output(0, written.min(SNIFF_BYTES as u64))?),
        None => None,
    };
    Ok(Window { text: text(&masked, from - wanted, kind), next, written })
}

/// The kept range that contains this byte, or the next kept range after it.
fn kept(number: u64, written: u64) -> std::ops::Range<u64> {
    let tail = written.saturating_sub(KEPT_TAIL_BYTES);
    if tail <= KEPT_HEAD_BYTES {
        0..written
    } else if number < KEPT_HEAD_BYTES {
        0..KEPT_HEAD_BYTES
    } else {
        tail..written
    }
}

/// The part as text. `kind` is the type of the file that the output is, if it is one.
fn text(masked: &[u8], left_out: u64, kind: Option<&str>) -> String {
    let note = if left_out == 0 { String::new() } else { format!("… {left_out} bytes were not kept …\n") };
    if let Some(kind) = kind {
        return format!("{note}[{} bytes that are not text: {kind}]\n", masked.len());
    }
    note + &kinds::escaped(masked).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::output::OutputLog;

    /// Reads an output that grows in these steps, part by part from the beginning.
    fn parts(bytes: &[u8], steps: &[usize]) -> String {
        let home = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(home.path().join("output")).unwrap();
        let (folder, secrets) = (CallFolder::at(home.path()), Secrets::new(["sk-abcdef"]));
        let (mut log, mut text, mut next, mut written) = (OutputLog::default(), String::new(), 0, 0);
        for (at, step) in steps.iter().enumerate() {
            log.append(&file, &bytes[written..*step]);
            written = *step;
            loop {
                let window = read(&folder, &secrets, Some(next), at + 1 == steps.len()).unwrap();
                text.push_str(&window.text);
                if window.next == next {
                    break;
                }
                next = window.next;
            }
        }
        assert_eq!(next, bytes.len() as u64);
        text
    }

    #[test]
    fn r45_the_parts_of_a_growing_output_make_up_the_whole() {
        let bytes = "a sk-abcdef ü🦀 x sk-abcdef".as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(parts(bytes, &[cut, bytes.len()]), "a [secret] ü🦀 x [secret]", "cut at {cut}");
        }
        let long = "ü sk-abcdef\n".repeat(10_000);
        assert_eq!(parts(long.as_bytes(), &[long.len()]), long.replace("sk-abcdef", "[secret]"));
    }

    #[test]
    fn r45_zero_bytes_and_invalid_bytes_are_shown_escaped_and_bounded() {
        assert_eq!(parts(b"a\0b \xe4\xf6\xfc\n\0", &[9]), "a\\x00b \\xe4\\xf6\\xfc\n\\x00");
        let zeros = vec![0; 20_000];
        assert_eq!(parts(&zeros, &[20_000]), "\\x00".repeat(20_000));
        let home = tempfile::tempdir().unwrap();
        let (folder, secrets) = (CallFolder::at(home.path()), Secrets::default());
        std::fs::write(home.path().join("output"), &zeros).unwrap();
        let window = read(&folder, &secrets, Some(0), true).unwrap();
        assert_eq!((window.text.len() as u64, window.next), (POLLED_BYTES, POLLED_BYTES / 4));
        // A file is named, wherever the part begins.
        std::fs::write(home.path().join("output"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
        for from in [0, 8] {
            let window = read(&folder, &secrets, Some(from), true).unwrap();
            assert_eq!(window.text, format!("[{} bytes that are not text: a PNG image]\n", 16 - from));
        }
    }

    #[test]
    fn r45_an_output_that_is_not_kept_whole_gives_its_kept_parts() {
        let home = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(home.path().join("output")).unwrap();
        let (folder, secrets) = (CallFolder::at(home.path()), Secrets::default());
        let lines: Vec<String> = (0..1_500_000).map(|n| format!("{n:06}\n")).collect();
        let lines = lines.concat();
        OutputLog::default().append(&file, lines.as_bytes());
        std::fs::write(home.path().join("written"), (lines.len() as u64).to_le_bytes()).unwrap();
        let (written, tail) = (lines.len() as u64, lines.len() - KEPT_TAIL_BYTES as usize);
        let window = read(&folder, &secrets, Some(KEPT_HEAD_BYTES), false).unwrap();
        let left_out = tail as u64 - KEPT_HEAD_BYTES;
        assert!(window.text.starts_with(&format!("… {left_out} bytes were not kept …\n{}", &lines[tail..tail + 100])));
        assert_eq!((window.next, window.written), ((tail as u64) + POLLED_BYTES, written));
        let end = read(&folder, &secrets, None, false).unwrap();
        assert_eq!(end.text, lines[lines.len() - POLLED_TAIL_BYTES as usize..]);
        assert_eq!((end.next, read(&folder, &secrets, Some(u64::MAX), false).unwrap().text), (written, String::new()));
    }
}
