//! The disk under one folder, as a test and the VFS use it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::fault::{Fault, FileKind, Operation, OperationKind, Past, Planned, Verdict, What};
use crate::image::{Change, Image, Pending};
use crate::power_loss::Cut;
use crate::vfs;

static DISKS: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());

/// The faulty disk under a folder, until this value is dropped.
///
/// Install it before the first database below the folder is opened: the content of a file at that moment counts as
/// synced.
#[derive(Debug)]
pub struct Disk(Arc<Shared>);

/// The state that the handle and the open files share.
#[derive(Debug)]
pub(crate) struct Shared {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_gone: bool,
    is_crashed: bool,
    is_suspended: bool,
    /// Whether a file may grow now; `None` means always.
    may_grow: Option<fn(&Path) -> bool>,
    planned: Vec<Planned>,
    log: Vec<Operation>,
    first_failure: Option<Operation>,
    images: BTreeMap<PathBuf, Image>,
    /// Files that SQLite does not write, with every content that the disk has seen in them.
    watched: BTreeMap<PathBuf, Watched>,
    /// Files that were renamed without SQLite, from and to, with no sync of their folder since.
    renamed: Vec<(PathBuf, PathBuf)>,
    /// The operation on a file that the process was doing when it died.
    dying: Option<(PathBuf, Change)>,
    changes: u64,
}

/// A file that SQLite does not write.
#[derive(Debug, Default)]
struct Watched {
    /// The open file and its inode: it stays open, since it is read so often.
    file: Option<(u64, File)>,
    contents: Vec<Option<Vec<u8>>>,
}

impl Watched {
    fn look(&mut self, path: &Path) {
        let content = self.content(path);
        if self.contents.last() != Some(&content) {
            self.contents.push(content);
        }
    }

    fn content(&mut self, path: &Path) -> Option<Vec<u8>> {
        let meta = fs::metadata(path).ok()?;
        if self.file.as_ref().is_none_or(|(number, _)| *number != meta.ino()) {
            self.file = Some((meta.ino(), File::open(path).ok()?));
        }
        let mut content = vec![0; meta.len() as usize];
        self.file.as_ref()?.1.read_exact_at(&mut content, 0).ok()?;
        Some(content)
    }
}

impl Disk {
    /// Installs a disk under an existing folder.
    pub fn install(folder: &Path) -> io::Result<Self> {
        vfs::register();
        let folder = folder.canonicalize()?;
        let shared = Arc::new(Shared { folder, state: Mutex::default() });
        let mut disks = lock(&DISKS);
        if disks.iter().any(|disk| disk.folder == shared.folder) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a disk under this folder already"));
        }
        disks.push(Arc::clone(&shared));
        Ok(Self(shared))
    }

    /// Watches a file of the folder that is written without SQLite and never synced: a loss of power may leave any of
    /// the contents that the disk has seen since now. It looks before every operation.
    pub fn watch(&self, name: &str) {
        let path = self.0.folder.join(name);
        let mut state = lock(&self.0.state);
        state.watched.insert(path, Watched::default());
        state.look();
    }

    /// Adds a fault, which counts operations from now on.
    pub fn plan(&self, fault: Fault) {
        lock(&self.0.state).planned.push(Planned::new(fault));
    }

    /// Removes all planned faults, as for a new process or a repaired disk; files stay as they are.
    pub fn heal(&self) {
        let mut state = lock(&self.0.state);
        state.planned.clear();
        (state.is_crashed, state.dying, state.first_failure) = (false, None, None);
    }

    /// Starts the next process: faults that have happened end, faults that have not happened yet stay planned. Files
    /// stay as they are.
    pub fn next_process(&self) {
        let mut state = lock(&self.0.state);
        state.planned.retain(|planned| !planned.has_happened());
        (state.is_crashed, state.dying, state.first_failure) = (false, None, None);
    }

    /// Kills the process, as [`crate::What::Crash`] does, between two operations.
    pub fn kill(&self) {
        lock(&self.0.state).is_crashed = true;
    }

    /// Stops counting operations, injecting faults and looking at watched files until [`Disk::resume`], so that a test
    /// can inspect files.
    pub fn suspend(&self) {
        lock(&self.0.state).is_suspended = true;
    }

    /// Counts operations and injects faults again.
    pub fn resume(&self) {
        lock(&self.0.state).is_suspended = false;
    }

    /// Installs a function that is called with the folder whenever a write would make a file longer; if it returns
    /// false, there is no space.
    pub fn limit(&self, may_grow: fn(&Path) -> bool) {
        lock(&self.0.state).may_grow = Some(may_grow);
    }

    /// How many planned faults have not happened yet.
    pub fn waiting(&self) -> usize {
        lock(&self.0.state).planned.iter().filter(|planned| !planned.has_happened()).count()
    }

    /// How many operations were counted so far.
    pub fn counted(&self) -> u64 {
        lock(&self.0.state).log.len() as u64
    }

    /// Moves the disk to another folder, with the faults that have not happened yet.
    pub fn move_to(&self, folder: &Path) -> io::Result<Self> {
        let disk = Self::install(folder)?;
        let mut state = lock(&self.0.state);
        let planned = state.planned.drain(..).filter(|planned| !planned.has_happened()).collect();
        let may_grow = state.may_grow;
        drop(state);
        let mut next = lock(&disk.0.state);
        (next.planned, next.may_grow) = (planned, may_grow);
        drop(next);
        Ok(disk)
    }

    /// Every operation so far, in order.
    pub fn operations(&self) -> Vec<Operation> {
        lock(&self.0.state).log.clone()
    }

    /// The first operation that failed because of a fault since the last [`Disk::heal`].
    pub fn first_failure(&self) -> Option<Operation> {
        lock(&self.0.state).first_failure
    }

    /// Whether a planned crash has happened.
    pub fn is_crashed(&self) -> bool {
        lock(&self.0.state).is_crashed
    }

    /// Bytes written to this kind of file without a later sync.
    pub fn unsynced_bytes(&self, file: FileKind) -> usize {
        let bytes = |image: &Image| image.pending.iter().map(|pending| pending.change.bytes()).sum::<usize>();
        let state = lock(&self.0.state);
        state.images.iter().filter(|(path, _)| kind_of(path) == file).map(|(_, image)| bytes(image)).sum()
    }

    /// Writes into another folder what a loss of power would leave of this one now. Files whose writes the disk has not
    /// seen are copied as they are; the index of a WAL never survives.
    pub fn power_cut(&self, cut: Cut, into: &Path) -> io::Result<()> {
        fs::create_dir_all(into)?;
        let mut state = lock(&self.0.state);
        state.look();
        let mut rng = cut.rng();
        // Renamed without SQLite: it has another name now.
        let is_there = |path: &Path, image: &Image| path.exists() || image.content().is_none();
        let (paths, images): (Vec<_>, Vec<_>) =
            state.dying_images().into_iter().filter(|(path, image)| is_there(path, image)).unzip();
        for (path, content) in paths.iter().zip(cut.remains(&images, &mut rng)) {
            put(&self.0.folder, path, content.as_deref(), into)?;
        }
        for (path, Watched { contents, .. }) in &state.watched {
            let at = match cut {
                Cut::Nothing => 0,
                Cut::Everything => contents.len() - 1,
                Cut::Prefix { .. } | Cut::Torn { .. } => rng.below(contents.len()),
            };
            put(&self.0.folder, path, contents[at].as_deref(), into)?;
        }
        for entry in fs::read_dir(&self.0.folder)? {
            let path = entry?.path();
            let is_known = state.images.contains_key(&path) || state.watched.contains_key(&path);
            if path.is_file() && !is_known && kind_of(&path) != FileKind::Shm {
                fs::copy(&path, into.join(path.file_name().unwrap_or_default()))?;
            }
        }
        state.renamed.iter().rev().filter(|_| cut.loses_name(&mut rng)).try_for_each(|(from, to)| {
            let inside = |path: &Path| into.join(path.file_name().unwrap_or_default());
            fs::rename(inside(to), inside(from))
        })
    }
}

/// Reports an operation on a file or folder that bypasses SQLite, before it happens. An error is to be returned as if
/// it came from the system. `renamed_to` is the new name of a rename.
pub fn past_sqlite(past: Past, path: &Path, renamed_to: Option<&Path>) -> io::Result<()> {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    let Some(disk) = disk_of(path) else { return Ok(()) };
    match disk.begin(OperationKind::Past(past), path, || None) {
        Verdict::Fail(ffi::SQLITE_FULL) => Err(io::Error::from_raw_os_error(ENOSPC)),
        Verdict::Fail(_) | Verdict::Short => Err(io::Error::from_raw_os_error(EIO)),
        Verdict::Slow(time) => {
            std::thread::sleep(time);
            Ok(())
        }
        Verdict::Go => {
            let mut state = lock(&disk.state);
            match (past, renamed_to) {
                (Past::Rename, Some(to)) => state.renamed.push((path.to_owned(), to.to_owned())),
                (Past::Sync, _) if path == disk.folder => state.renamed.clear(),
                _ => {}
            }
            Ok(())
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        lock(&DISKS).retain(|disk| !Arc::ptr_eq(disk, &self.0));
        lock(&self.0.state).is_gone = true;
    }
}

impl Change {
    fn bytes(&self) -> usize {
        match self {
            Self::Write { bytes, .. } => bytes.len(),
            Self::Create | Self::Truncate(_) | Self::Delete => 0,
        }
    }
}

fn put(folder: &Path, path: &Path, content: Option<&[u8]>, into: &Path) -> io::Result<()> {
    let Some(content) = content else { return Ok(()) };
    let path = into.join(path.strip_prefix(folder).expect("only files below the folder are kept"));
    fs::create_dir_all(path.parent().unwrap_or(into))?;
    fs::write(path, content)
}

fn kind_of(path: &Path) -> FileKind {
    let name = path.to_string_lossy();
    let kinds = [("-wal", FileKind::Wal), ("-shm", FileKind::Shm), ("-journal", FileKind::Other)];
    kinds.into_iter().find(|(ending, _)| name.ends_with(ending)).map_or(FileKind::Database, |(_, kind)| kind)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The disk that this file is on, if one is installed there.
pub(crate) fn disk_of(path: &Path) -> Option<Arc<Shared>> {
    lock(&DISKS).iter().find(|disk| path.starts_with(&disk.folder)).cloned()
}

impl Shared {
    /// Counts an operation that is about to happen, and decides its result. `change` is what it would do.
    pub(crate) fn begin(&self, kind: OperationKind, path: &Path, change: impl FnOnce() -> Option<Change>) -> Verdict {
        let mut state = lock(&self.state);
        if state.is_gone {
            return Verdict::Go;
        }
        if state.is_crashed {
            return Verdict::Fail(kind.io_error());
        }
        if state.is_suspended {
            return Verdict::Go;
        }
        state.look();
        let file = match kind {
            OperationKind::ShmMap | OperationKind::ShmLock => FileKind::Shm,
            OperationKind::Past(_) => FileKind::Other,
            _ => kind_of(path),
        };
        let operation = Operation { number: state.log.len() as u64 + 1, kind, file };
        state.log.push(operation);
        // Every fault counts the operation, whichever of them applies.
        let hits: Vec<What> = state.planned.iter_mut().filter_map(|planned| planned.count(kind)).collect();
        let Some(what) = hits.first() else {
            let is_full = kind == OperationKind::Write && self.is_full(&state, path, change);
            return if is_full { What::Enospc.verdict(kind) } else { Verdict::Go };
        };
        state.first_failure.get_or_insert(operation);
        if hits.contains(&What::Crash) {
            state.is_crashed = true;
            state.dying = change().map(|change| (path.to_owned(), change));
            return Verdict::Fail(kind.io_error());
        }
        what.verdict(kind)
    }

    /// Whether this change would make a file longer although it may not grow.
    fn is_full(&self, state: &State, path: &Path, change: impl FnOnce() -> Option<Change>) -> bool {
        let limited = state.may_grow.is_some_and(|may_grow| !may_grow(&self.folder));
        let length = || fs::metadata(path).map_or(0, |meta| meta.len() as usize);
        limited
            && kind_of(path) != FileKind::Shm
            && matches!(change(), Some(Change::Write { offset, bytes }) if offset + bytes.len() > length())
    }

    /// Whether the process is dead: then the system releases its locks and files, and leaves their content as it is.
    pub(crate) fn is_dead(&self) -> bool {
        lock(&self.state).is_crashed
    }

    /// Records that a file was opened; `content` is what it held if it existed before.
    pub(crate) fn opened(&self, path: &Path, content: Option<Vec<u8>>) {
        let mut state = lock(&self.state);
        let image = state.images.entry(path.to_owned()).or_default();
        image.open += 1;
        match content {
            Some(content) if image.open == 1 && image.content().as_ref() != Some(&content) => image.renew(content),
            Some(_) => {}
            None => state.change(path, Change::Create),
        }
    }

    pub(crate) fn closed(&self, path: &Path) {
        if let Some(image) = lock(&self.state).images.get_mut(path) {
            image.open = image.open.saturating_sub(1);
        }
    }

    /// Records a change of a file.
    pub(crate) fn changed(&self, path: &Path, change: Change) {
        lock(&self.state).change(path, change);
    }

    /// Records a sync of a file. SQLite syncs the folder with the first sync of a new file that is no database.
    pub(crate) fn synced(&self, path: &Path) {
        let mut state = lock(&self.state);
        let Some(image) = state.images.get_mut(path) else { return };
        let is_new = image.is_new();
        image.sync();
        if is_new && kind_of(path) != FileKind::Database {
            state.images.values_mut().for_each(Image::sync_name);
        }
    }

    /// Records a sync of the folder.
    pub(crate) fn folder_synced(&self) {
        lock(&self.state).images.values_mut().for_each(Image::sync_name);
    }
}

impl State {
    fn change(&mut self, path: &Path, change: Change) {
        self.changes += 1;
        let number = self.changes;
        self.images.entry(path.to_owned()).or_default().pending.push(Pending { number, change });
    }

    /// Reads the watched files.
    fn look(&mut self) {
        self.watched.iter_mut().for_each(|(path, watched)| watched.look(path));
    }

    /// The files, including the operation during which the process died.
    fn dying_images(&self) -> BTreeMap<PathBuf, Image> {
        let mut images = self.images.clone();
        if let Some((path, change)) = &self.dying {
            let pending = Pending { number: self.changes + 1, change: change.clone() };
            images.entry(path.clone()).or_default().pending.push(pending);
        }
        images
    }
}
