//! The folder of a supervised call, `calls/ID`: the only thing that a runtime and a supervisor share.
//!
//! ```text
//! calls/ID                  a file: void. The call never started and never will
//! calls/ID/control          a FIFO; the supervisor alone reads it, so it has a reader exactly while the supervisor lives;
//!                           a byte in it asks for the end of the command
//! calls/ID/output           what the command wrote, to both its outputs, in order: the first 4 MiB, then a ring of 4 MiB
//! calls/ID/exit.json        how it ended; whole and synced, or not there
//! calls/.ID.PID.new         a folder that is being prepared
//! ```
//!
//! The folder is prepared under another name and renamed into place, which fails if the place is taken: so there is one
//! supervisor at most for a call, none after a void, and nobody ever sees half a folder. Only the supervisor writes into it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use engine::EffectId;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::limits::{KEPT_HEAD_BYTES, KEPT_TAIL_BYTES};

/// Who ended a command before it ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndedBy {
    /// A runtime asked for it.
    Request,
    /// It ran past its limit.
    Limit,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    /// Its exit status; none if a signal ended it, or if it could not begin.
    pub(crate) status: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Who ended it.
    pub(crate) ended_by: Option<EndedBy>,
    /// Why it could not begin, or what could not be kept of its output.
    pub(crate) trouble: Option<String>,
    /// Bytes that it wrote.
    pub(crate) bytes: u64,
    /// Processes that it left and that could not be ended.
    pub(crate) survivors: Vec<i32>,
    /// When it began, milliseconds since 1970.
    pub(crate) started_at: i64,
    /// When it ended, milliseconds since 1970.
    pub(crate) ended_at: i64,
}

/// What the folder says of its call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallState {
    /// No supervisor has begun.
    Absent,
    /// None ever will.
    Void,
    /// One is at it.
    Running,
    /// It ended, and is recorded.
    Ended(ExitRecord),
    /// The supervisor died without a record: nobody can know.
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

    /// The last part of its path, by which the processes of the command are marked.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Makes the folder of all calls, for its owner alone: outputs are kept in it as they came, not masked.
    pub(crate) fn make_parent(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.parent())
    }

    /// What became of the call.
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
        // It may have ended between these two looks.
        Ok(self.record()?.map_or(CallState::Dead, CallState::Ended))
    }

    /// Takes the place of a call that has not started, so that it never will. False if the place is taken.
    pub(crate) fn claim_void(&self) -> io::Result<bool> {
        self.make_parent()?;
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks the supervisor to end its command. False if there is none any more.
    pub(crate) fn ask_to_end(&self) -> io::Result<bool> {
        let Some(mut control) = self.control()? else { return Ok(false) };
        match control.write_all(b"e") {
            // A full FIFO was asked often enough.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(true),
        }
    }

    /// The writing end of the control FIFO, if the supervisor lives.
    pub(crate) fn control(&self) -> io::Result<Option<File>> {
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        match OpenOptions::new().write(true).custom_flags(nonblocking).open(self.path.join("control")) {
            Ok(file) => Ok(file.metadata()?.file_type().is_fifo().then_some(file)),
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn record(&self) -> io::Result<Option<ExitRecord>> {
        match fs::read(self.path.join("exit.json")) {
            // One that cannot be read is none: then nobody can know how the command ended.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the command has written, for reading.
    pub(crate) fn open_output(&self) -> io::Result<File> {
        File::open(self.path.join("output"))
    }

    /// What was kept of `bytes` bytes of output.
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

    /// Removes all of it. Only after its call was settled, and never a void: a supervisor that is still on its way must find
    /// the place taken.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
            result => result,
        }
    }
}

/// Output that may lack its middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptOutput {
    pub(crate) head: Vec<u8>,
    /// Bytes between head and tail that were not kept.
    pub(crate) left_out: u64,
    pub(crate) tail: Vec<u8>,
}

/// The supervisor's side: the folder is its own from here on.
#[derive(Debug)]
pub(crate) struct ClaimedFolder {
    folder: CallFolder,
    /// Both ends of the control FIFO: as long as it is open, the supervisor is seen to live.
    pub(crate) control: File,
    pub(crate) output: File,
}

impl ClaimedFolder {
    /// Makes the folder and takes its place. None if it is taken.
    pub(crate) fn claim(folder: CallFolder) -> io::Result<Option<Self>> {
        let fresh = folder.parent().join(format!(".{}.{}.new", folder.name(), std::process::id()));
        let claimed = Self::prepare(&fresh, folder);
        match &claimed {
            Ok(Some(_)) => {}
            // The first error is the one to tell.
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
        // Before the command: else it could begin, the power fail, and no trace of it be left.
        File::open(folder.parent())?.sync_all()?;
        Ok(Some(Self { folder, control, output }))
    }

    /// Records how the command ended: synced, and at once or not at all.
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
