//! The file of a backup: a tar archive, compressed with zstd, whose first entry says what it is.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

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
/// How much of a file is copied between two looks at the signals.
const PIECE: usize = 1 << 20;

/// What a backup is.
#[derive(Debug, Clone, Serialize, Deserialize)]
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

    /// Adds a file or folder under this name. A file that grows is cut, one that shrinks is filled with zeros, one that is gone is
    /// missing: those are files that are written at this moment.
    pub(super) fn add(&mut self, found: &Found, watch: Watch<'_>) -> io::Result<()> {
        let mode = found.meta.mode() & 0o777;
        if found.meta.is_dir() {
            let mut header = self.header(EntryType::Directory, mode, found.meta.mtime());
            return self.tar.append_data(&mut header, &found.name, io::empty());
        }
        let file = match File::open(&found.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let mut header = self.header(EntryType::Regular, mode, found.meta.mtime());
        header.set_size(found.meta.len());
        let whole = file.chain(io::repeat(0)).take(found.meta.len());
        self.tar.append_data(&mut header, &found.name, Watched { whole, watch })
    }

    /// Adds an empty folder.
    pub(super) fn add_folder(&mut self, name: &Path, at: i64) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, OWN_BITS, at / 1000);
        self.tar.append_data(&mut header, name, io::empty())
    }

    /// Completes the file and syncs it.
    pub(super) fn finish(self) -> io::Result<File> {
        let file = self.tar.into_inner()?.finish()?;
        file.sync_all()?;
        Ok(file)
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
    let mut entries = archive.entries().map_err(ArchiveError::Damaged)?;
    let manifest = match entries.next() {
        Some(Ok(first)) => manifest(first),
        Some(Err(_)) | None => Err(ArchiveError::Foreign),
    };
    let manifest = match manifest {
        // It may be one of ours that was cut or changed: its end would show that.
        Err(ArchiveError::Foreign) => {
            return Err(read_to_end(archive).err().unwrap_or(ArchiveError::Foreign));
        }
        manifest => manifest?,
    };
    let mut files = 0;
    let mut folders = BTreeSet::from([into.to_owned()]);
    for entry in entries {
        let mut entry = entry.map_err(ArchiveError::Damaged)?;
        let name = safe_name(&entry.path_bytes(), entry.header().entry_type())?;
        let path = into.join(name);
        let mode = entry.header().mode().map_err(ArchiveError::Damaged)?;
        let write = |error| ArchiveError::Write { path: path.clone(), error };
        if entry.header().entry_type() == EntryType::Directory {
            DirBuilder::new().mode(OWN_BITS).create(&path).map_err(write)?;
            folders.insert(path);
            continue;
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode((mode & OWN_BITS) | 0o600);
        let mut written = options.open(&path).map_err(write)?;
        let mut bytes = vec![0; PIECE];
        loop {
            let read = entry.read(&mut bytes).map_err(ArchiveError::Damaged)?;
            if read == 0 {
                break;
            }
            written.write_all(&bytes[..read]).map_err(write)?;
            watch(read as u64)?;
        }
        let modified = entry.header().mtime().map_err(ArchiveError::Damaged)?;
        written.set_modified(UNIX_EPOCH + Duration::from_secs(modified)).map_err(write)?;
        written.sync_all().map_err(write)?;
        files += 1;
    }
    read_to_end(archive)?;
    for folder in folders {
        let synced = File::open(&folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| ArchiveError::Write { path: folder, error })?;
    }
    Ok((manifest, files))
}

/// Reads what follows the last entry, which shows that nothing is missing: it has the checksum of the whole.
fn read_to_end(archive: Archive<impl Read>) -> Result<(), ArchiveError> {
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(|_| ()).map_err(ArchiveError::Damaged)
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
