//! The file of a backup: a tar archive, compressed with zstd, whose first entry says what it is.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tar::{Archive, Builder, EntryType, Header};
use zstd::stream::{Decoder, Encoder};

use super::contents::Found;

/// The name of the first entry.
const MANIFEST: &str = "limulus-backup.json";
/// The form of backups that this program writes, and the newest that it reads.
const FORM: u32 = 1;
/// No first entry of ours is longer.
const MANIFEST_BYTES: u64 = 64 << 10;
/// What every file of zstd begins with.
const MAGIC: &[u8; 4] = b"\x28\xb5\x2f\xfd";
/// The level of compression: the one that costs little.
const LEVEL: i32 = 3;
/// The bits of a mode that a restored file or folder may have: nobody else reads a home.
const OWN_BITS: u32 = 0o700;
/// The longest name of an entry.
const NAME_BYTES: u64 = 16 << 10;
/// A later time is none: the year 10000.
const LATEST: u64 = 253_402_300_800;
/// How much of a file is copied between two looks at the signals.
const PIECE: usize = 1 << 20;

/// What a backup is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The form of the backup.
    pub(super) form: u32,
    /// The version of the program that made it.
    pub(super) version: String,
    /// When it was made, milliseconds since 1970.
    pub(super) made_at: i64,
    /// The last position of its journal; 0 without one.
    pub(super) head: u64,
}

impl Manifest {
    /// That of a backup which this program makes now.
    pub(super) fn new(made_at: i64, head: u64) -> Self {
        Self { form: FORM, version: env!("CARGO_PKG_VERSION").to_owned(), made_at, head }
    }
}

/// Why a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error("it is no backup of Limulus")]
    Foreign,
    #[error("it was made by Limulus {0}, whose backups this one does not know")]
    Newer(String),
    #[error("it is not complete, or was changed: {0}")]
    Damaged(io::Error),
    #[error("it holds `{0}`, which no backup of a home holds")]
    Unsafe(String),
    #[error("{}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
    #[error("it was stopped")]
    Stopped,
}

/// Why a file cannot be added.
#[derive(Debug)]
pub(super) enum AddError {
    /// It cannot be read.
    Read { path: PathBuf, error: io::Error },
    /// The archive cannot be written, or was stopped.
    Write(io::Error),
}

/// A file that is opened for reading, whatever takes its place meanwhile; none if it is no file.
pub(super) fn regular(path: &Path) -> io::Result<Option<File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = match opened {
        // A link, or a socket.
        Err(error) if [Some(LOOP), Some(NO_DEVICE)].contains(&error.raw_os_error()) => return Ok(None),
        file => file?,
    };
    Ok(file.metadata()?.is_file().then_some(file))
}

const LOOP: i32 = rustix::io::Errno::LOOP.raw_os_error();
const NO_DEVICE: i32 = rustix::io::Errno::NXIO.raw_os_error();

/// Called with each piece of the contents; an error ends it.
pub(super) type Watch<'a> = &'a mut dyn FnMut(u64) -> Result<(), ArchiveError>;

/// An archive that is being written.
pub(super) struct Writer {
    tar: Builder<Encoder<'static, File>>,
    uid: u64,
    gid: u64,
}

impl Writer {
    pub(super) fn new(file: File, manifest: &Manifest) -> io::Result<Self> {
        let meta = file.metadata()?;
        let mut encoder = Encoder::new(file, LEVEL)?;
        encoder.include_checksum(true)?;
        let mut this = Self { tar: Builder::new(encoder), uid: meta.uid().into(), gid: meta.gid().into() };
        let text = serde_json::to_vec_pretty(manifest)?;
        let mut header = this.header(EntryType::Regular, 0o600, manifest.made_at / 1000);
        header.set_size(text.len() as u64);
        this.tar.append_data(&mut header, MANIFEST, &text[..])?;
        Ok(this)
    }

    /// Adds a file or folder under this name. A file that grows is cut, one that shrinks is filled with zeros, one that is gone, or is
    /// no file any more, is missing: those are files that are written at this moment. Returns whether it was added.
    pub(super) fn add(&mut self, found: &Found, watch: Watch<'_>) -> Result<bool, AddError> {
        let mode = found.meta.mode() & 0o777;
        if found.meta.is_dir() {
            let mut header = self.header(EntryType::Directory, mode, found.meta.mtime());
            return self.tar.append_data(&mut header, &found.name, io::empty()).map(|()| true).map_err(AddError::Write);
        }
        let unread = |error| AddError::Read { path: found.path.clone(), error };
        let file = match regular(&found.path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(false),
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                return Ok(false);
            }
            Err(error) => return Err(unread(error)),
        };
        let mut header = self.header(EntryType::Regular, mode, found.meta.mtime());
        header.set_size(found.meta.len());
        let whole = file.chain(io::repeat(0)).take(found.meta.len());
        let added = self.tar.append_data(&mut header, &found.name, Watched { whole, watch });
        added.map(|()| true).map_err(AddError::Write)
    }

    /// Adds an empty folder.
    pub(super) fn add_folder(&mut self, name: &Path, at: i64) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, OWN_BITS, at / 1000);
        self.tar.append_data(&mut header, name, io::empty())
    }

    /// Completes the file and syncs it.
    pub(super) fn finish(self) -> io::Result<()> {
        self.tar.into_inner()?.finish()?.sync_all()
    }

    fn header(&self, kind: EntryType, mode: u32, at: i64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(u64::try_from(at).unwrap_or_default());
        header.set_uid(self.uid);
        header.set_gid(self.gid);
        header.set_size(0);
        header
    }
}

/// A reader that says how much was read.
struct Watched<'a, R> {
    whole: R,
    watch: Watch<'a>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(PIECE);
        let read = self.whole.read(&mut bytes[..most])?;
        (self.watch)(read as u64).map_err(io::Error::other)?;
        Ok(read)
    }
}

/// Writes all that a backup holds into an empty folder, as private files and folders, and syncs it. Returns what it is, and the
/// number of files.
pub(super) fn unpack(file: File, into: &Path, watch: Watch<'_>) -> Result<(Manifest, usize), ArchiveError> {
    let mut magic = [0; MAGIC.len()];
    if (&file).read_exact(&mut magic).is_err() || magic != *MAGIC {
        return Err(ArchiveError::Foreign);
    }
    let decoder = Decoder::new(MAGIC.chain(file)).map_err(ArchiveError::Damaged)?;
    let mut archive = Archive::new(decoder);
    // Extensions are read here: what names a file has a bound.
    let mut entries = archive.entries().map_err(ArchiveError::Damaged)?.raw(true);
    let manifest = match entries.next() {
        Some(Ok(first)) => manifest(first),
        Some(Err(_)) | None => Err(ArchiveError::Foreign),
    };
    let manifest = match manifest {
        // It may be one of ours that was cut or changed: its end would show that.
        Err(ArchiveError::Foreign) => {
            return Err(read_to_end(archive, watch).err().unwrap_or(ArchiveError::Foreign));
        }
        manifest => manifest?,
    };
    let mut unpacked = Unpacked { into, files: 0, folders: BTreeSet::from([into.to_owned()]) };
    let mut long_name = None;
    for entry in entries {
        let mut entry = entry.map_err(ArchiveError::Damaged)?;
        if entry.header().entry_type() == EntryType::GNULongName {
            long_name = Some(long(&mut entry)?);
            continue;
        }
        let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        unpacked.add(&name, entry, watch)?;
    }
    let Unpacked { files, folders, .. } = unpacked;
    read_to_end(archive, watch)?;
    for folder in folders {
        let synced = File::open(&folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| ArchiveError::Write { path: folder, error })?;
    }
    Ok((manifest, files))
}

/// What has been unpacked.
struct Unpacked<'a> {
    into: &'a Path,
    files: usize,
    folders: BTreeSet<PathBuf>,
}

impl Unpacked<'_> {
    fn add(&mut self, name: &[u8], mut entry: tar::Entry<'_, impl Read>, watch: Watch<'_>) -> Result<(), ArchiveError> {
        let path = self.into.join(safe_name(name, entry.header().entry_type())?);
        let failed = |error: io::Error| match error.kind() {
            // It names something twice, or what is in no folder.
            io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidFilename => ArchiveError::Unsafe(String::from_utf8_lossy(name).into_owned()),
            _ => ArchiveError::Write { path: path.clone(), error },
        };
        if entry.header().entry_type() == EntryType::Directory {
            DirBuilder::new().mode(OWN_BITS).create(&path).map_err(failed)?;
            self.folders.insert(path);
            return Ok(());
        }
        let mode = entry.header().mode().map_err(ArchiveError::Damaged)?;
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode((mode & OWN_BITS) | 0o600);
        let mut written = options.open(&path).map_err(failed)?;
        let write = |error| ArchiveError::Write { path: path.clone(), error };
        let mut bytes = vec![0; PIECE];
        loop {
            let read = entry.read(&mut bytes).map_err(ArchiveError::Damaged)?;
            if read == 0 {
                break;
            }
            written.write_all(&bytes[..read]).map_err(write)?;
            watch(read as u64)?;
        }
        let modified = entry.header().mtime().ok().filter(|seconds| *seconds <= LATEST);
        if let Some(seconds) = modified {
            written.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).map_err(write)?;
        }
        written.sync_all().map_err(write)?;
        self.files += 1;
        Ok(())
    }
}

/// The name of the entry that follows, which is too long for its header.
fn long(entry: &mut tar::Entry<'_, impl Read>) -> Result<Vec<u8>, ArchiveError> {
    if entry.size() > NAME_BYTES {
        return Err(ArchiveError::Unsafe("a name that is too long".to_owned()));
    }
    let mut name = vec![];
    entry.read_to_end(&mut name).map_err(ArchiveError::Damaged)?;
    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
    Ok(name)
}

/// Reads what follows the last entry, which shows that nothing is missing: it has the checksum of the whole.
fn read_to_end(archive: Archive<impl Read>, watch: Watch<'_>) -> Result<(), ArchiveError> {
    let (mut rest, mut bytes) = (archive.into_inner(), vec![0; PIECE]);
    while rest.read(&mut bytes).map_err(ArchiveError::Damaged)? > 0 {
        watch(0)?;
    }
    Ok(())
}

fn manifest(mut first: tar::Entry<'_, impl Read>) -> Result<Manifest, ArchiveError> {
    if &*first.path_bytes() != MANIFEST.as_bytes() || first.size() > MANIFEST_BYTES {
        return Err(ArchiveError::Foreign);
    }
    let mut text = String::new();
    first.read_to_string(&mut text).map_err(|_| ArchiveError::Foreign)?;
    let form = serde_json::from_str::<serde_json::Value>(&text).map_err(|_| ArchiveError::Foreign)?;
    if form["form"].as_u64().is_some_and(|form| form > FORM.into()) {
        let version = form["version"].as_str().unwrap_or_default();
        return Err(ArchiveError::Newer(version.chars().filter(|c| !c.is_control()).take(40).collect()));
    }
    serde_json::from_value(form).map_err(|_| ArchiveError::Foreign)
}

/// The name of an entry, if it is a file or folder that stays in the home.
fn safe_name(name: &[u8], kind: EntryType) -> Result<PathBuf, ArchiveError> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let path = PathBuf::from(OsStr::from_bytes(name));
    let is_plain = path.components().count() > 0 && path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_of_home = matches!(kind, EntryType::Regular | EntryType::Directory);
    if is_plain && is_of_home { Ok(path) } else { Err(ArchiveError::Unsafe(path.display().to_string())) }
}

/// The size of a folder's files, so that progress has an end.
pub(super) fn size(found: &[Found]) -> u64 {
    found.iter().filter(|found| found.meta.is_file()).map(|found| found.meta.len()).sum()
}
