//! The disk under one folder, as a test holds it, and as the VFS asks it. What may not live here: C.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::cut::Cut;
use crate::fault::{Fault, FileKind, Operation, OperationKind, Past, Planned, Verdict, What};
use crate::image::{Change, Image, Pending};
use crate::vfs;

static DISKS: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());

/// The disk under a folder, until this value is dropped.
///
/// Install it before the first database below the folder is opened: what a file holds then counts as synced.
#[derive(Debug)]
pub struct Disk(Arc<Shared>);

/// What the handle and the open files share.
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
    /// Whether a file may become longer now; none is always.
    may_grow: Option<fn(&Path) -> bool>,
    planned: Vec<Planned>,
    log: Vec<Operation>,
    struck: Option<Operation>,
    images: BTreeMap<PathBuf, Image>,
    /// Files that SQLite does not write, with every content that they were seen to have.
    watched: BTreeMap<PathBuf, Watched>,
    /// Files that got another name past SQLite, from and to, with no sync of their folder since.
    renamed: Vec<(PathBuf, PathBuf)>,
    /// What was being done to a file when the process died.
    dying: Option<(PathBuf, Change)>,
    changes: u64,
}

/// A file that SQLite does not write.
#[derive(Debug, Default)]
struct Watched {
    /// Kept open with its number, since it is looked at so often.
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
    /// Puts a disk under a folder, which must be there.
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

    /// Watches a file of the folder that is written past SQLite, and never synced: after a loss of power it has any of the
    /// contents that it was seen to have since now, which is looked at before every operation.
    pub fn watch(&self, name: &str) {
        let path = self.0.folder.join(name);
        let mut state = lock(&self.0.state);
        state.watched.insert(path, Watched::default());
        state.look();
    }

    /// Adds a fault; it counts operations from now on.
    pub fn plan(&self, fault: Fault) {
        lock(&self.0.state).planned.push(Planned::new(fault));
    }

    /// A new process, or the fault is mended: no faults are planned any more, and files are as they are.
    pub fn heal(&self) {
        let mut state = lock(&self.0.state);
        state.planned.clear();
        (state.is_crashed, state.dying, state.struck) = (false, None, None);
    }

    /// The next process: what has struck is over, what has not struck yet still will. Files are as they are.
    pub fn next_process(&self) {
        let mut state = lock(&self.0.state);
        state.planned.retain(|planned| !planned.has_struck());
        (state.is_crashed, state.dying, state.struck) = (false, None, None);
    }

    /// The process is dead from here on, as at [`crate::What::Crash`], between two operations.
    pub fn kill(&self) {
        lock(&self.0.state).is_crashed = true;
    }

    /// Operations are not counted from here on, no fault strikes and watched files are not looked at, until [`Disk::resume`]:
    /// for a look at what is there.
    pub fn suspend(&self) {
        lock(&self.0.state).is_suspended = true;
    }

    /// Operations are counted again, and faults strike.
    pub fn resume(&self) {
        lock(&self.0.state).is_suspended = false;
    }

    /// Asked, with the folder, whenever a write would make a file longer: if it may not, there is no space.
    pub fn limit(&self, may_grow: fn(&Path) -> bool) {
        lock(&self.0.state).may_grow = Some(may_grow);
    }

    /// How many faults are planned and have not struck yet.
    pub fn waiting(&self) -> usize {
        lock(&self.0.state).planned.iter().filter(|planned| !planned.has_struck()).count()
    }

    /// How many operations were counted so far.
    pub fn counted(&self) -> u64 {
        lock(&self.0.state).log.len() as u64
    }

    /// Puts a disk under another folder; faults that have not struck here yet go over to it.
    pub fn move_to(&self, folder: &Path) -> io::Result<Self> {
        let disk = Self::install(folder)?;
        let mut state = lock(&self.0.state);
        let planned = state.planned.drain(..).filter(|planned| !planned.has_struck()).collect();
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

    /// The first operation that a fault has struck since the last [`Disk::heal`].
    pub fn struck(&self) -> Option<Operation> {
        lock(&self.0.state).struck
    }

    /// Whether a planned crash has come.
    pub fn is_crashed(&self) -> bool {
        lock(&self.0.state).is_crashed
    }

    /// Bytes of this kind of file that were written and that no sync has followed.
    pub fn unsynced_bytes(&self, file: FileKind) -> usize {
        let bytes = |image: &Image| image.pending.iter().map(|pending| pending.change.bytes()).sum::<usize>();
        let state = lock(&self.0.state);
        state.images.iter().filter(|(path, _)| kind_of(path) == file).map(|(_, image)| bytes(image)).sum()
    }

    /// Writes into another folder what a loss of power at this moment would leave of this one. Files whose writing was
    /// not seen are copied as they are; the index of a WAL never survives.
    pub fn power_cut(&self, cut: Cut, into: &Path) -> io::Result<()> {
        fs::create_dir_all(into)?;
        let mut state = lock(&self.0.state);
        state.look();
        let mut rng = cut.rng();
        // Renamed past SQLite: it has another name now.
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

/// A step that is about to be done past SQLite, to a file or folder; for whoever is asked before each. An error is what the
/// system is to have answered. `renamed_to` is the name that the file is to get.
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
    /// Counts an operation that is about to be done, and says what becomes of it. `change` is what it would do.
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
        // Each counts it, whichever strikes.
        let strikes: Vec<What> = state.planned.iter_mut().filter_map(|planned| planned.count(kind)).collect();
        let Some(what) = strikes.first() else {
            let is_full = kind == OperationKind::Write && self.is_full(&state, path, change);
            return if is_full { What::Enospc.verdict(kind) } else { Verdict::Go };
        };
        state.struck.get_or_insert(operation);
        if strikes.contains(&What::Crash) {
            state.is_crashed = true;
            state.dying = change().map(|change| (path.to_owned(), change));
            return Verdict::Fail(kind.io_error());
        }
        what.verdict(kind)
    }

    /// Whether this change would make a file longer, and it may not be.
    fn is_full(&self, state: &State, path: &Path, change: impl FnOnce() -> Option<Change>) -> bool {
        let limited = state.may_grow.is_some_and(|may_grow| !may_grow(&self.folder));
        let length = || fs::metadata(path).map_or(0, |meta| meta.len() as usize);
        limited
            && kind_of(path) != FileKind::Shm
            && matches!(change(), Some(Change::Write { offset, bytes }) if offset + bytes.len() > length())
    }

    /// Whether the process is dead: what is given up then is given up by the system, and leaves files as they are.
    pub(crate) fn is_dead(&self) -> bool {
        lock(&self.state).is_crashed
    }

    /// A file was opened; `content` is what it holds if it was there before.
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

    /// Something was done to a file.
    pub(crate) fn changed(&self, path: &Path, change: Change) {
        lock(&self.state).change(path, change);
    }

    /// A file was synced. With a new one that is no database SQLite syncs the folder as well.
    pub(crate) fn synced(&self, path: &Path) {
        let mut state = lock(&self.state);
        let Some(image) = state.images.get_mut(path) else { return };
        let is_new = image.is_new();
        image.sync();
        if is_new && kind_of(path) != FileKind::Database {
            state.images.values_mut().for_each(Image::sync_name);
        }
    }

    /// The folder was synced.
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

    /// Looks at the watched files.
    fn look(&mut self) {
        self.watched.iter_mut().for_each(|(path, watched)| watched.look(path));
    }

    /// The files, with what was being done when the process died.
    fn dying_images(&self) -> BTreeMap<PathBuf, Image> {
        let mut images = self.images.clone();
        if let Some((path, change)) = &self.dying {
            let pending = Pending { number: self.changes + 1, change: change.clone() };
            images.entry(path.clone()).or_default().pending.push(pending);
        }
        images
    }
}
