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
//! calls/ID/claim            the hash of a nonce that only the supervisor and the runtime that started it know
//! calls/ID/trace.json       by what the processes of the command are found if the supervisor was killed
//! calls/ID/network.json     for a command with a proxy: which hosts it reached and was refused
//! calls/ID/exit.json        the exit record, with the nonce; complete and synced, or absent
//! calls/ID.before           the listing of the workspace before the command; the runtime alone writes it
//! calls/.ID.PID.new         a folder that is being prepared
//! ```
//!
//! The supervisor prepares the folder under another name and renames it, which fails if `calls/ID` exists. So a call
//! has at most one supervisor and none after a void, and nobody ever sees an incomplete folder. Only the supervisor
//! writes into it.
//!
//! The command is a process of the same user, so it can write here too. Therefore nothing here is trusted: only regular
//! files are read, no link is followed, nothing blocks, everything has a bound, and a record counts only if it contains
//! the nonce. If this process has started the supervisor, it compares with the nonce in its own memory and knows whether
//! the supervisor lives (`supervisors.rs`); of the supervisor of an earlier owner it knows only what is in the folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use engine::EffectId;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, mkfifoat, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::cgroup::Exceeded;
use crate::limits::{KEPT_HEAD_BYTES, KEPT_TAIL_BYTES, RECORD_BYTES};
use crate::supervise::trace::Trace;
use crate::{cgroup, supervisors};

/// Written to the control FIFO: end the command.
pub(crate) const END: u8 = b'e';
/// Written to the control FIFO: close the command's input.
pub(crate) const CLOSE_INPUT: u8 = b'c';
/// Written to the control FIFO: stop every process of the command.
pub(crate) const FREEZE: u8 = b's';
/// Written to the control FIFO: continue the stopped processes.
pub(crate) const THAW: u8 = b'g';

/// The file of a call's folder by which processes of this machine are found, and killed if their supervisor is dead.
pub const TRACE: &str = "trace.json";

/// The end of the name of [`CallFolder::before`].
const BEFORE: &str = ".before";

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
    /// The nonce of the supervisor, which proves that it wrote the record.
    #[serde(default)]
    pub(crate) nonce: String,
    /// The limit of its sandbox that it ran into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exceeded: Option<Exceeded>,
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

/// What has the name of a call.
enum Entry {
    Absent,
    /// Anything but a folder.
    Void,
    Folder(OwnedFd),
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

    /// The file with what was in the workspace before the command. It is beside the folder, which does not exist yet when
    /// the file is made; it is durable with the folder.
    pub(crate) fn before(&self) -> PathBuf {
        self.parent().join(format!("{}{BEFORE}", self.name()))
    }

    /// The call of a file of this name, if it is one that [`CallFolder::before`] names.
    pub(crate) fn call_before(name: &str) -> Option<EffectId> {
        name.strip_suffix(BEFORE)?.replace('.', "/").parse().ok()
    }

    /// The last part of the path. It marks the processes of the command.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Creates the folder of all calls, with access for its owner only: it holds outputs unmasked.
    pub(crate) fn make_parent(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.parent())?;
        open_calls(self.parent()).map(drop)
    }

    /// Reads the state of the call.
    pub(crate) fn state(&self) -> io::Result<CallState> {
        // Ask first: what a supervisor wrote is complete once it has exited.
        let Some(known) = supervisors::of(&self.path) else { return self.seen(None) };
        if known.over && !known.began {
            // Another supervisor may have claimed the folder.
            return self.seen(None);
        }
        // This process knows whether its own supervisor lives, whatever a command has done to the folder.
        match self.seen(Some(&known.claim)) {
            Ok(CallState::Ended(record)) => Ok(CallState::Ended(record)),
            _ if known.over => Ok(CallState::Dead),
            Ok(CallState::Dead) => Ok(CallState::Running),
            seen if !known.began => seen,
            _ => Ok(CallState::Running),
        }
    }

    /// The state as the folder shows it. `claim` is the hash of the nonce, if this process knows it.
    fn seen(&self, claim: Option<&str>) -> io::Result<CallState> {
        let folder = match self.entry()? {
            Entry::Absent => return Ok(CallState::Absent),
            Entry::Void => return Ok(CallState::Void),
            Entry::Folder(folder) => folder,
        };
        if let Some(record) = record(&folder, claim)? {
            return Ok(CallState::Ended(record));
        }
        if writing_end(&folder, "control")?.is_some() {
            return Ok(CallState::Running);
        }
        // The command may have ended between the two reads.
        Ok(record(&folder, claim)?.map_or(CallState::Dead, CallState::Ended))
    }

    /// Opens what has the name of the call.
    fn entry(&self) -> io::Result<Entry> {
        let calls = match open_calls(self.parent()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Entry::Absent),
            calls => calls?,
        };
        match openat(&calls, self.name(), FOLDER, Mode::empty()) {
            Ok(folder) => Ok(Entry::Folder(folder)),
            Err(Errno::NOENT) => Ok(Entry::Absent),
            Err(Errno::NOTDIR | Errno::LOOP) => Ok(Entry::Void),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the folder; an error if there is none.
    fn folder(&self) -> io::Result<OwnedFd> {
        match self.entry()? {
            Entry::Folder(folder) => Ok(folder),
            Entry::Absent | Entry::Void => Err(io::ErrorKind::NotFound.into()),
        }
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
        if matches!(self.state()?, CallState::Ended(_)) {
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
        match self.entry()? {
            Entry::Folder(folder) => writing_end(&folder, name),
            Entry::Absent | Entry::Void => Ok(None),
        }
    }

    /// Opens the kept output for reading.
    pub(crate) fn open_output(&self) -> io::Result<File> {
        regular(&self.folder()?, "output")
    }

    /// Bytes that the command has written so far. Beyond the kept bytes, only commands that may go into the background
    /// record the number.
    pub(crate) fn written(&self) -> io::Result<u64> {
        let length = self.open_output()?.metadata()?.len();
        if length < KEPT_HEAD_BYTES + KEPT_TAIL_BYTES {
            return Ok(length);
        }
        let mut written = [0; 8];
        let file = self.folder().and_then(|folder| regular(&folder, "written"));
        let read = file.and_then(|mut file| file.read_exact(&mut written));
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

    /// What is known of the processes of the command; none if nothing can be read.
    pub(crate) fn trace(&self) -> Option<Trace> {
        serde_json::from_str(&self.small_file(TRACE, RECORD_BYTES)?).ok()
    }

    /// The text of a small file that the supervisor wrote; none if there is none, or one that is too long.
    pub(crate) fn small_file(&self, name: &str, most: u64) -> Option<String> {
        short_text(&self.folder().ok()?, name, most).ok()?
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
        supervisors::forget(&self.path);
        match open_calls(self.parent()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            calls => drop(calls?),
        }
        // Usually its supervisor has removed it.
        if cgroup::exists(self) {
            let (call, recorded) = (self.clone(), self.trace().and_then(|trace| trace.cgroup));
            std::thread::spawn(move || supervisors::repeat(|| cgroup::end_of(&call, recorded.as_deref())));
        }
        match fs::remove_dir_all(&self.path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
            result => result,
        }
    }
}

/// How a folder is opened: only itself, never what a link with its name leads to.
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the folder of all calls. It must be a folder of this user and no link, because what is in it is removed, and
/// commands are looked up there.
pub(crate) fn open_calls(calls: &Path) -> io::Result<OwnedFd> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", calls.display()));
    let folder = match rustix::fs::open(calls, FOLDER, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(refused("is a link or no folder; move it away")),
        folder => folder?,
    };
    let user = rustix::process::geteuid().as_raw();
    if fstat(&folder)?.st_uid != user {
        return Err(refused("belongs to another user; move it away"));
    }
    Ok(folder)
}

/// Opens a regular file of the folder for reading. Never follows a link and never blocks.
fn regular(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("`{name}` is not a regular file")));
    }
    Ok(file.into())
}

/// Opens a FIFO of the folder for writing; none if nobody reads it, or if it is no FIFO.
fn writing_end(folder: &OwnedFd, name: &str) -> io::Result<Option<File>> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(folder, name, flags, Mode::empty()) {
        Ok(file) if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Fifo => Ok(Some(file.into())),
        Ok(_) | Err(Errno::NXIO | Errno::NOENT | Errno::LOOP | Errno::ISDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads at most `most` bytes of a regular file; none if it is absent, of another type, or longer.
fn short_text(folder: &OwnedFd, name: &str, most: u64) -> io::Result<Option<String>> {
    let file = match regular(folder, name) {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
                || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut bytes = vec![];
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= most))
}

/// Reads the exit record. One that cannot be parsed, or that the supervisor did not write, counts as none: the outcome is
/// then unknown.
fn record(folder: &OwnedFd, claim: Option<&str>) -> io::Result<Option<ExitRecord>> {
    let Some(text) = short_text(folder, "exit.json", RECORD_BYTES)? else { return Ok(None) };
    let Ok(record) = serde_json::from_str::<ExitRecord>(&text) else { return Ok(None) };
    let claim = match claim {
        Some(claim) => Some(claim.to_owned()),
        None => short_text(folder, "claim", RECORD_BYTES)?,
    };
    Ok(claim.filter(|claim| *claim == supervisors::claim(&record.nonce)).map(|_| record))
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
    /// The folder itself, whatever becomes of its name.
    folder: OwnedFd,
    nonce: String,
    /// Both ends of the control FIFO. While it is open, others can see that the supervisor lives.
    pub(crate) control: File,
    pub(crate) output: File,
}

impl ClaimedFolder {
    /// Creates the folder. Returns none if it exists already. `nonce` is the proof of the exit record, `trace` what the
    /// command's processes will have.
    pub(crate) fn claim(folder: &CallFolder, nonce: &str, trace: Option<&Trace>) -> io::Result<Option<Self>> {
        let fresh = folder.parent().join(format!(".{}.{}.new", folder.name(), std::process::id()));
        let claimed = Self::prepare(&fresh, folder, nonce, trace);
        match &claimed {
            Ok(Some(_)) => {}
            // The first error is the one to report.
            Ok(None) | Err(_) => drop(fs::remove_dir_all(&fresh)),
        }
        claimed
    }

    fn prepare(fresh: &Path, folder: &CallFolder, nonce: &str, trace: Option<&Trace>) -> io::Result<Option<Self>> {
        fs::DirBuilder::new().mode(0o700).create(fresh)?;
        let control = fresh.join("control");
        mkfifoat(CWD, &control, Mode::RUSR | Mode::WUSR)?;
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let control = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(control)?;
        let create = |name: &str| OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh.join(name));
        let output = create("output")?;
        create("claim")?.write_all(supervisors::claim(nonce).as_bytes())?;
        if let Some(trace) = trace {
            create(TRACE)?.write_all(&serde_json::to_vec(trace)?)?;
        }
        let opened = rustix::fs::open(fresh, FOLDER, Mode::empty())?;
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
        Ok(Some(Self { folder: opened, nonce: nonce.to_owned(), control, output }))
    }

    /// Another handle of the folder.
    pub(crate) fn handle(&self) -> io::Result<OwnedFd> {
        self.folder.try_clone()
    }

    /// Creates the FIFO of the command's input. Returns the end that the command reads, and the end that keeps it open.
    pub(crate) fn make_input(&self) -> io::Result<(File, File)> {
        mkfifoat(&self.folder, "input", Mode::RUSR | Mode::WUSR)?;
        // While a handle for both directions is open, opening either end does not block.
        let open = |how| openat(&self.folder, "input", how | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let both = open(OFlags::RDWR)?;
        let (reader, writer) = (open(OFlags::RDONLY)?, open(OFlags::WRONLY)?);
        drop(both);
        Ok((reader.into(), writer.into()))
    }

    /// Records how many bytes were written, once some of them are not kept.
    pub(crate) fn note_written(&self, bytes: u64) -> io::Result<()> {
        if bytes <= KEPT_HEAD_BYTES + KEPT_TAIL_BYTES {
            return Ok(());
        }
        self.writable("written", OFlags::NONBLOCK)?.write_all_at(&bytes.to_le_bytes(), 0)
    }

    /// Opens a file for writing, which is created if it is absent. Never what a link leads to.
    fn writable(&self, name: &str, how: OFlags) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
        Ok(openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Writes the exit record, synced and atomically.
    pub(crate) fn record(&self, record: &ExitRecord) -> io::Result<()> {
        let record = ExitRecord { nonce: self.nonce.clone(), ..record.clone() };
        // No command can know this name.
        let fresh = format!("exit.{}.new", &supervisors::claim(&format!("file {}", self.nonce))[..16]);
        let mut file = self.writable(&fresh, OFlags::EXCL)?;
        serde_json::to_writer(&file, &record)?;
        file.flush()?;
        if record.bytes > 0 {
            self.output.sync_data()?;
        }
        file.sync_all()?;
        // The command may have replaced the proof, or put a folder in the place of the record.
        self.renew_claim()?;
        self.make_place("exit.json");
        renameat(&self.folder, &fresh, &self.folder, "exit.json")?;
        Ok(rustix::fs::fsync(&self.folder)?)
    }

    /// Writes the hash of the nonce again.
    fn renew_claim(&self) -> io::Result<()> {
        self.make_place("claim");
        let mut claim = self.writable("claim", OFlags::EXCL)?;
        claim.write_all(supervisors::claim(&self.nonce).as_bytes())?;
        claim.sync_all()
    }

    /// Removes what has this name, or moves it away if it is a folder. If neither succeeds, the write that follows fails.
    fn make_place(&self, name: &str) {
        if unlinkat(&self.folder, name, AtFlags::empty()).is_err() {
            let _ = renameat(&self.folder, name, &self.folder, format!("{name}.{}.foreign", &self.nonce[..8]));
        }
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
        let claimed = ClaimedFolder::claim(&folder, "nonce of a test", None).unwrap().unwrap();
        assert!(folder.ask_to_freeze().unwrap() && folder.ask_to_thaw().unwrap());
        claimed.record(&ExitRecord::default()).unwrap();
        assert!(folder.control().unwrap().is_some(), "the supervisor lives");
        assert!(!folder.ask_to_freeze().unwrap() && !folder.ask_to_thaw().unwrap());
        assert!(!folder.ask_to_end().unwrap());
    }
}
