//! Appends to a file, one line of JSON for each delivery. A line has the key of its delivery, so that a try whose outcome is
//! unknown finds out by itself whether the line is there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use runtime::DeliveryTrouble;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::Deserialize;

use super::{refused, temporary};

/// How much of the end of the file is searched for a line that may be there.
const SEARCHED: u64 = 16 << 20;
/// How long it waits for a lock that another process has.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it asks for the lock meanwhile.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// Appends a line, unless it is there already.
pub(super) fn append(path: &Path, id: &str, line: &str, may_be_there: bool) -> Result<(), DeliveryTrouble> {
    let failed = |error: io::Error| trouble(path, &error);
    let mut file = open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(refused(format!("{} is no regular file", path.display())));
    }
    lock(&file, path)?;
    if may_be_there && has_line(&mut file, id).map_err(failed)? {
        return Ok(());
    }
    let length = file.metadata().map_err(failed)?.len();
    let lead = if is_torn(&mut file, length).map_err(failed)? { "\n" } else { "" };
    let written = file.write_all(format!("{lead}{line}\n").as_bytes()).and_then(|()| file.sync_data());
    written.map_err(|error| {
        // What was written of it is no line; if it cannot be removed, the next one begins a line of its own.
        let _ = file.set_len(length);
        failed(error)
    })
}

fn lock(file: &File, path: &Path) -> Result<(), DeliveryTrouble> {
    let since = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::AGAIN | Errno::INTR) if since.elapsed() < LOCK_TIMEOUT => thread::sleep(LOCK_INTERVAL),
            Err(Errno::AGAIN) => {
                return Err(temporary(format!("another process has locked {}", path.display())));
            }
            Err(error) => return Err(trouble(path, &error.into())),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // Without blocking: a FIFO would wait for a reader.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

/// Whether a crash left a line without its end.
fn is_torn(file: &mut File, length: u64) -> io::Result<bool> {
    if length == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[derive(Deserialize)]
struct Line {
    id: String,
}

/// Whether the file has the whole line of this delivery.
fn has_line(file: &mut File, id: &str) -> io::Result<bool> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SEARCHED)))?;
    let mut end = vec![];
    file.take(SEARCHED).read_to_end(&mut end)?;
    let whole = end.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    Ok(whole.filter_map(|line| serde_json::from_slice::<Line>(line).ok()).any(|line| line.id == id))
}

fn trouble(path: &Path, error: &io::Error) -> DeliveryTrouble {
    let why = format!("{} cannot be written: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::Interrupted => temporary(why),
        _ => refused(why),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine::DeliveryFault;

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn line(id: &str) -> String {
        serde_json::json!({ "id": id, "text": "hi" }).to_string()
    }

    #[test]
    fn r46_a_line_that_is_there_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        append(&path, "a", &line("a"), false).unwrap();
        append(&path, "a", &line("a"), true).unwrap();
        append(&path, "b", &line("b"), true).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written.lines().collect::<Vec<_>>(), [line("a"), line("b")]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "only its owner reads it");
    }

    #[test]
    fn r46_a_torn_line_is_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        fs::write(&path, format!("{}\n{}", line("a"), line("b"))).unwrap();
        append(&path, "b", &line("b"), true).unwrap();
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written.lines().collect::<Vec<_>>(), [line("a"), line("b"), line("b")], "its end may be missing");
    }

    #[test]
    fn r46_a_file_that_is_locked_is_tried_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.jsonl");
        let other = File::create(&path).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        let error = append(&path, "a", &line("a"), false).unwrap_err();
        assert_eq!(error.fault, DeliveryFault::Temporary { after_ms: None }, "{error:?}");
        drop(other);
        append(&path, "a", &line("a"), false).unwrap();
    }

    #[test]
    fn r46_what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        for path in [folder.path().to_owned(), fifo, folder.path().join("nowhere/out.jsonl")] {
            let error = append(&path, "a", &line("a"), false).unwrap_err();
            assert_eq!(error.fault, DeliveryFault::Refused, "{error:?}");
        }
    }
}
