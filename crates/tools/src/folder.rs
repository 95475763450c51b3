//! The folder of a supervised call, `calls/ID`. It is all that a runtime and a supervisor share.
//!
//! ```text
//! calls/ID                  a file: void. The call never started and never will
//! calls/ID/control          a FIFO; only the supervisor reads it, so it has a reader exactly while the supervisor lives;
//!                           `e` asks it to end the command, `c` to close the command's input, `s` to freeze all
//!                           processes of the command, `g` to continue them
//! calls/ID/input            for a command that may go into the background: a FIFO, its standard input
//! calls/ID/written          for such a command: how many bytes it wrote (8 bytes, little-endian), once not all are kept
//! calls/ID/output           what the command wrote, to both its outputs, in order: the first 4 MiB, then a ring of 4 MiB
//! calls/ID/exit.json        the exit record; complete and synced, or absent
//! calls/.ID.PID.new         a folder that is being prepared
//! ```
//!
//! The supervisor prepares the folder under another name and renames it, which fails if `calls/ID` exists. So a call
//! has at most one supervisor and none after a void, and nobody ever sees an incomplete folder. Only the supervisor
//! writes into it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use engine::EffectId;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::limits::{KEPT_HEAD_BYTES, KEPT_TAIL_BYTES};

/// Written to the control FIFO: end the command.
pub(crate) const END: u8 = b'e';
/// Written to the control FIFO: close the command's input.
pub(crate) const CLOSE_INPUT: u8 = b'c';
/// Written to the control FIFO: stop every process of the command.
pub(crate) const FREEZE: u8 = b's';
/// Written to the control FIFO: continue the stopped processes.
pub(crate) const THAW: u8 = b'g';

/// Who ended a command before it ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndedBy {
    /// A runtime asked the supervisor to end it.
    Request,
    /// It ran past its limit.
    Limit,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    /// The exit status; none if a signal ended it, or if it could not start.
    pub(crate) status: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Who ended it; none if it ended by itself or could not start.
    pub(crate) ended_by: Option<EndedBy>,
    /// Why it could not start, or which output could not be kept.
    pub(crate) trouble: Option<String>,
    /// Bytes of output that it wrote.
    pub(crate) bytes: u64,
    /// Its remaining processes, which could not be ended.
    pub(crate) survivors: Vec<i32>,
    /// When it began, milliseconds since 1970.
    pub(crate) started_at: i64,
    /// When it ended, milliseconds since 1970.
    pub(crate) ended_at: i64,
}

/// The state of a call, as its folder shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallState {
    /// No supervisor has begun.
    Absent,
    /// No supervisor can begin any more.
    Void,
    /// A supervisor runs the command.
    Running,
    /// The command ended and has an exit record.
    Ended(ExitRecord),
    /// The supervisor died without an exit record: the outcome is unknown.
    Dead,
}

/// The folder of one call.
#[derive(Debug, Clone)]
pub(crate) struct CallFolder {
    path: PathBuf,
}

impl CallFolder {
    /// The folder of the call that this effect started.
    pub(crate) fn of(calls: &Path, id: EffectId) -> Self {
        Self { path: calls.join(id.to_string().replace('/', ".")) }
    }

    /// The folder at this path.
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The last part of the path. It marks the processes of the command.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Creates the folder of all calls, with access for its owner only: it holds outputs unmasked.
    pub(crate) fn make_parent(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.parent())
    }

    /// Reads the state of the call.
    pub(crate) fn state(&self) -> io::Result<CallState> {
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CallState::Absent),
            Err(error) => return Err(error),
            Ok(found) if !found.is_dir() => return Ok(CallState::Void),
            Ok(_) => {}
        }
        if let Some(record) = self.record()? {
            return Ok(CallState::Ended(record));
        }
        if self.control()?.is_some() {
            return Ok(CallState::Running);
        }
        // The command may have ended between the two reads.
        Ok(self.record()?.map_or(CallState::Dead, CallState::Ended))
    }

    /// Creates the void file of a call that has not started, so that it can never start. Returns false if the call has
    /// started or is void already.
    pub(crate) fn claim_void(&self) -> io::Result<bool> {
        self.make_parent()?;
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks the supervisor to end its command. Returns false if no supervisor runs any more.
    pub(crate) fn ask_to_end(&self) -> io::Result<bool> {
        self.ask(END)
    }

    /// Asks the supervisor to close the input of its command. Returns false if no supervisor runs any more.
    pub(crate) fn ask_to_close_input(&self) -> io::Result<bool> {
        self.ask(CLOSE_INPUT)
    }

    /// Asks the supervisor to freeze its command. Returns false if no supervisor runs any more.
    pub(crate) fn ask_to_freeze(&self) -> io::Result<bool> {
        self.ask(FREEZE)
    }

    /// Asks the supervisor to continue its command. Returns false if no supervisor runs any more.
    pub(crate) fn ask_to_thaw(&self) -> io::Result<bool> {
        self.ask(THAW)
    }

    fn ask(&self, for_what: u8) -> io::Result<bool> {
        // A supervisor still runs for a moment after it has recorded the end.
        if self.record()?.is_some() {
            return Ok(false);
        }
        let Some(mut control) = self.control()? else { return Ok(false) };
        match control.write_all(&[for_what]) {
            // A full FIFO already holds enough requests.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(true),
        }
    }

    /// Opens the control FIFO for writing; none if the supervisor does not run.
    pub(crate) fn control(&self) -> io::Result<Option<File>> {
        self.writing_end("control")
    }

    /// Opens the command's input for writing; none if no process reads it.
    pub(crate) fn input(&self) -> io::Result<Option<File>> {
        self.writing_end("input")
    }

    fn writing_end(&self, name: &str) -> io::Result<Option<File>> {
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        match OpenOptions::new().write(true).custom_flags(nonblocking).open(self.path.join(name)) {
            Ok(file) => Ok(file.metadata()?.file_type().is_fifo().then_some(file)),
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn record(&self) -> io::Result<Option<ExitRecord>> {
        match fs::read(self.path.join("exit.json")) {
            // A record that cannot be parsed counts as none: the outcome is then unknown.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the kept output for reading.
    pub(crate) fn open_output(&self) -> io::Result<File> {
        File::open(self.path.join("output"))
    }

    /// Bytes that the command has written so far. Beyond the kept bytes, only commands that may go into the background
    /// record the number.
    pub(crate) fn written(&self) -> io::Result<u64> {
        let length = self.open_output()?.metadata()?.len();
        if length < KEPT_HEAD_BYTES + KEPT_TAIL_BYTES {
            return Ok(length);
        }
        let mut written = [0; 8];
        let read = File::open(self.path.join("written")).and_then(|mut file| file.read_exact(&mut written));
        Ok(read.map_or(length, |()| u64::from_le_bytes(written).max(length)))
    }

    /// Reads the output from byte `from`, at most to byte `to`. Both must lie in the kept head or both in the kept
    /// tail.
    pub(crate) fn read_output(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let file = self.open_output()?;
        let mut bytes = vec![0; to.saturating_sub(from) as usize];
        let mut read = 0;
        while read < bytes.len() {
            let (place, space) = place(from + read as u64);
            let most = bytes.len().min(read.saturating_add(space as usize));
            match file.read_at(&mut bytes[read..most], place)? {
                0 => break,
                count => read += count,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads the kept part of an output of `bytes` bytes.
    pub(crate) fn kept_output(&self, bytes: u64) -> io::Result<KeptOutput> {
        let mut file = self.open_output()?;
        if bytes <= KEPT_HEAD_BYTES + KEPT_TAIL_BYTES {
            let mut head = Vec::with_capacity(bytes as usize);
            file.take(bytes).read_to_end(&mut head)?;
            return Ok(KeptOutput { head, left_out: 0, tail: Vec::new() });
        }
        let mut head = vec![0; KEPT_HEAD_BYTES as usize];
        file.read_exact(&mut head)?;
        let oldest = (bytes - KEPT_HEAD_BYTES) % KEPT_TAIL_BYTES;
        let mut tail = Vec::with_capacity(KEPT_TAIL_BYTES as usize);
        file.seek(SeekFrom::Start(KEPT_HEAD_BYTES + oldest))?;
        (&file).take(KEPT_TAIL_BYTES - oldest).read_to_end(&mut tail)?;
        file.seek(SeekFrom::Start(KEPT_HEAD_BYTES))?;
        file.take(oldest).read_to_end(&mut tail)?;
        Ok(KeptOutput { head, left_out: bytes - KEPT_HEAD_BYTES - KEPT_TAIL_BYTES, tail })
    }

    /// Removes the folder. The call must be settled. A void file must stay, because a supervisor that is still starting
    /// must not be able to create the folder.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
            result => result,
        }
    }
}

/// The position of this byte of the output in the file, and how many bytes follow it there without a wrap.
pub(crate) fn place(number: u64) -> (u64, u64) {
    match number.checked_sub(KEPT_HEAD_BYTES) {
        None => (number, KEPT_HEAD_BYTES - number),
        Some(past) => (KEPT_HEAD_BYTES + past % KEPT_TAIL_BYTES, KEPT_TAIL_BYTES - past % KEPT_TAIL_BYTES),
    }
}

/// Output that may lack its middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptOutput {
    pub(crate) head: Vec<u8>,
    /// The number of bytes between head and tail that were not kept.
    pub(crate) left_out: u64,
    pub(crate) tail: Vec<u8>,
}

/// The supervisor's side: it has created the folder and alone writes into it.
#[derive(Debug)]
pub(crate) struct ClaimedFolder {
    folder: CallFolder,
    /// Both ends of the control FIFO. While it is open, others can see that the supervisor lives.
    pub(crate) control: File,
    pub(crate) output: File,
}

impl ClaimedFolder {
    /// Creates the folder. Returns none if it exists already.
    pub(crate) fn claim(folder: CallFolder) -> io::Result<Option<Self>> {
        let fresh = folder.parent().join(format!(".{}.{}.new", folder.name(), std::process::id()));
        let claimed = Self::prepare(&fresh, folder);
        match &claimed {
            Ok(Some(_)) => {}
            // The first error is the one to report.
            Ok(None) | Err(_) => drop(fs::remove_dir_all(&fresh)),
        }
        claimed
    }

    fn prepare(fresh: &Path, folder: CallFolder) -> io::Result<Option<Self>> {
        fs::DirBuilder::new().mode(0o700).create(fresh)?;
        let control = fresh.join("control");
        mkfifoat(CWD, &control, Mode::RUSR | Mode::WUSR)?;
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let control = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(control)?;
        let output = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh.join("output"))?;
        match fs::rename(fresh, &folder.path) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        // Sync before the command starts: otherwise a power loss could remove every trace of a command that has begun.
        File::open(folder.parent())?.sync_all()?;
        Ok(Some(Self { folder, control, output }))
    }

    /// Creates the FIFO of the command's input. Returns the end that the command reads, and the end that keeps it open.
    pub(crate) fn make_input(&self) -> io::Result<(File, File)> {
        let path = self.folder.path.join("input");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR)?;
        // While a handle for both directions is open, opening either end does not block.
        let both = OpenOptions::new().read(true).write(true).open(&path)?;
        let (reader, writer) = (File::open(&path)?, OpenOptions::new().write(true).open(&path)?);
        drop(both);
        Ok((reader, writer))
    }

    /// Records how many bytes were written, once some of them are not kept.
    pub(crate) fn note_written(&self, bytes: u64) -> io::Result<()> {
        if bytes <= KEPT_HEAD_BYTES + KEPT_TAIL_BYTES {
            return Ok(());
        }
        let path = self.folder.path.join("written");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.write_all_at(&bytes.to_le_bytes(), 0)
    }

    /// Writes the exit record, synced and atomically.
    pub(crate) fn record(&self, record: &ExitRecord) -> io::Result<()> {
        let fresh = self.folder.path.join("exit.json.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        serde_json::to_writer(&file, record)?;
        file.flush()?;
        if record.bytes > 0 {
            self.output.sync_data()?;
        }
        file.sync_all()?;
        fs::rename(&fresh, self.folder.path.join("exit.json"))?;
        File::open(&self.folder.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R16: an ended command is neither frozen nor thawed, even if its supervisor still runs.
    #[test]
    fn r16_a_command_whose_end_is_recorded_is_asked_for_nothing() {
        let calls = tempfile::tempdir().unwrap();
        let folder = CallFolder::at(calls.path().join("call"));
        let claimed = ClaimedFolder::claim(folder.clone()).unwrap().unwrap();
        assert!(folder.ask_to_freeze().unwrap() && folder.ask_to_thaw().unwrap());
        claimed.record(&ExitRecord::default()).unwrap();
        assert!(folder.control().unwrap().is_some(), "the supervisor lives");
        assert!(!folder.ask_to_freeze().unwrap() && !folder.ask_to_thaw().unwrap());
        assert!(!folder.ask_to_end().unwrap());
    }
}
