//! `limulus backup` and `limulus restore`: a home in one file, made beside its owner, and a home made of such a file.

mod archive;
mod contents;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use config::{Globals, size};
use journal::check::{self, Progress};
use journal::{HomeLock, JournalCopy, RESTORING, Read as _, Reader, copy_journal};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use tempfile::TempDir;
use tools::call_folder_name;

use super::doctor::far;
use crate::error::{CliError, Exit};
use crate::progress_line::ProgressLine;
use crate::show::human::{Page, Zone, count, now, printable_line};
use crate::show::{json, print};
use archive::{AddError, ArchiveError, Manifest, Writer};
use contents::{CALLS, FILES};

/// The beginning of the name of the folder beside a backup in which it is made.
const WORKING: &str = ".limulus-backup-";
/// How often a backup is made anew of a home from which files are erased meanwhile.
const TRIES: u32 = 3;
const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// Copy everything of a home into one file, beside its owner.
#[derive(Debug, Args)]
#[command(
    after_help = "The journal is copied as it is at one moment; whoever owns the home works on meanwhile. The file holds keys \
                        and tokens of the home, so only you may read it. What agents work in is not in it: that is no part of \
                        the home."
)]
pub(crate) struct BackupArgs {
    /// The file to make; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Make a home of a backup.
#[derive(Debug, Args)]
#[command(
    after_help = "The home, $LIMULUS_HOME or ~/.local/share/limulus, must be empty or absent. The backup is checked as `limulus doctor` \
                        checks a home before anything of it is there. A command that ran when the backup was made is never run \
                        again: its outcome is unknown, and its run decides what to do."
)]
pub(crate) struct RestoreArgs {
    /// The file that `limulus backup` made
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was made or read, as JSON.
#[derive(Debug, Serialize)]
struct Done<'a> {
    home: String,
    file: String,
    /// When the backup was made, milliseconds since 1970.
    made_at: i64,
    /// The version of the program that made it.
    version: &'a str,
    /// The last position of the journal in it.
    head: u64,
    files: usize,
    /// The size of the file in bytes.
    bytes: u64,
    /// The sessions in it that have unfinished work.
    unfinished: Vec<String>,
}

pub(crate) fn run(args: &BackupArgs, globals: &Globals) -> Result<(), CliError> {
    let (home, signals, mut line) = (&globals.home, Signals::watch()?, ProgressLine::new());
    let folder = folder_of(&args.file);
    refuse_bad_place(&args.file, &folder, home)?;
    let working = Working::begin(&folder)?;
    let mut made = Made::default();
    for attempt in 1.. {
        made = make(home, working.0.path(), &signals, &mut line)
            .map_err(|error| signals.refuse().err().unwrap_or(error))?;
        if made.erased == 0 {
            break;
        }
        if attempt == TRIES {
            return Err(CliError::Failed {
                exit: Exit::RunFailed,
                what: "files of the home were erased each time that it was copied; nothing of it is left".to_owned(),
                hint: "try again when `limulus sessions cleanup` has ended".to_owned(),
            });
        }
    }
    line.clear();
    signals.refuse()?;
    let file = working.0.path().join(COMPLETE);
    let bytes = fs::metadata(&file).map_err(|error| unreadable(&file, &error))?.len();
    name(&file, &args.file).map_err(|error| taken_or(&args.file, &error))?;
    sync_folder(&folder)?;
    let Made { manifest: Manifest { made_at, version, head, .. }, files, unfinished, .. } = made;
    let (home, file) = (home.display().to_string(), args.file.display().to_string());
    if args.json {
        let version = &version;
        return print(&json(&Done { home, file, made_at, version, head, files, bytes, unfinished }));
    }
    let mut page = Page::default();
    page.line(format!(
        "{} holds {} as it was at position {head}: {}, {}",
        printable_line(&file),
        printable_line(&home),
        count(files, "file"),
        size(bytes)
    ));
    page.line("it holds keys and tokens of the home; `limulus restore` makes a home of it");
    print(&page.text())
}

/// The name of an archive that is complete, in the folder in which it is made.
const COMPLETE: &str = "archive";

/// A backup that was made.
#[derive(Debug, Default)]
struct Made {
    manifest: Manifest,
    files: usize,
    unfinished: Vec<String>,
    /// Files that were there before the journal was copied, and not when they were to be copied: the copied journal may need them.
    erased: usize,
}

/// Makes the archive of a home in a folder.
fn make(home: &Path, working: &Path, signals: &Signals, line: &mut ProgressLine) -> Result<Made, CliError> {
    // What a call has is only there for good once the journal says so: those that begin after this look are for the next backup.
    let calls = contents::names_of_calls(home)?;
    let held = contents::names_of_files(home)?;
    let copy = copy_journal(
        home,
        working,
        &mut |Progress { done, of, .. }| line.show(|| format!("copying the journal: {done} of {of} pages …")),
        &|| signals.has_come(),
    );
    let copy = copy.map_err(|error| match error {
        // It is the disk of the backup.
        journal::Error::Full { .. } => unwritable(working, &io::ErrorKind::StorageFull.into()),
        error => error.into(),
    })?;
    signals.refuse()?;
    let JournalCopy { head, .. } =
        copy.ok_or_else(|| CliError::from(journal::Error::NotFound { home: home.to_owned() }))?;
    let manifest = Manifest::new(now().0, head.0);
    let (started, unfinished) = of_copy(working, home)?;
    let mut found = contents::of_journal(working)?;
    found.extend(contents::of(home, &calls)?);
    let unfound = started.iter().map(|name| Path::new(CALLS).join(name));
    let unfound = unfound.filter(|name| !found.iter().any(|found| found.name == *name)).collect::<Vec<_>>();
    let path = working.join(COMPLETE);
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(&path);
    let file = file.map_err(|error| unwritable(&path, &error))?;
    let (of, mut done) = (archive::size(&found), 0);
    let mut watch = |bytes| {
        done += bytes;
        line.show(|| format!("writing the backup: {} of {} …", size(done), size(of)));
        if signals.has_come() { Err(ArchiveError::Stopped) } else { Ok(()) }
    };
    let added = write(file, &manifest, &found, &unfound, &mut watch).map_err(|error| match error {
        AddError::Read { path, error } => unreadable(&path, &error),
        AddError::Write(error) => unwritable(&path, &error),
    })?;
    let erased = held.iter().filter(|name| !added.contains(&Path::new(FILES).join(name))).count();
    let files = found.iter().filter(|found| found.meta.is_file() && added.contains(&found.name)).count();
    Ok(Made { manifest, files, unfinished, erased })
}

/// Returns the names of what was added.
fn write(
    file: File,
    manifest: &Manifest,
    found: &[contents::Found],
    unfound: &[PathBuf],
    watch: archive::Watch<'_>,
) -> Result<BTreeSet<PathBuf>, AddError> {
    let mut writer = Writer::new(file, manifest).map_err(AddError::Write)?;
    let mut added = BTreeSet::new();
    for found in found {
        if writer.add(found, watch)? {
            added.insert(found.name.clone());
        }
    }
    let calls = (!unfound.is_empty() && !added.contains(Path::new(CALLS))).then(|| PathBuf::from(CALLS));
    for name in calls.iter().chain(unfound) {
        writer.add_folder(name, manifest.made_at).map_err(AddError::Write)?;
    }
    writer.finish().map_err(AddError::Write)?;
    Ok(added)
}

/// The folder in which a backup is made: private, removed when this is dropped, and by the next backup if this process is killed.
struct Working(TempDir, #[allow(dead_code, reason = "its lock is held")] File);

impl Working {
    fn begin(folder: &Path) -> Result<Self, CliError> {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_one = entry.file_name().to_string_lossy().starts_with(WORKING);
            // Whoever makes a backup there holds the lock.
            if is_one && lock(&entry.path()).is_some() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let failed = |error: io::Error| unwritable(folder, &error);
        let mode = Permissions::from_mode(PRIVATE_FOLDER);
        let working = tempfile::Builder::new().prefix(WORKING).permissions(mode).tempdir_in(folder).map_err(failed)?;
        let held = lock(working.path()).ok_or_else(|| failed(io::ErrorKind::ResourceBusy.into()))?;
        Ok(Self(working, held))
    }
}

/// The lock of a folder; none if another process has it.
fn lock(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

/// The names of the folders of calls that have begun and have no result, and the sessions with unfinished work, in the copy of a
/// journal.
fn of_copy(copy: &Path, home: &Path) -> Result<(Vec<String>, Vec<String>), CliError> {
    let reader = Reader::open(copy)?;
    let running = tools::running_calls(&home.join(CALLS)).unwrap_or_default();
    let started = views::started_calls(&reader, &running)?.into_iter().map(call_folder_name).collect();
    Ok((started, unfinished(&reader)?))
}

/// The sessions with unfinished work.
fn unfinished(reader: &Reader) -> Result<Vec<String>, CliError> {
    Ok(reader.unfinished()?.into_iter().chain(reader.held()?).map(|row| row.key).collect())
}

pub(crate) fn restore(args: &RestoreArgs, globals: &Globals) -> Result<(), CliError> {
    let (home, signals, mut line) = (&globals.home, Signals::watch()?, ProgressLine::new());
    let file = archive::regular(&real(&args.file)?).map_err(|error| unreadable(&args.file, &error))?;
    let file = file.ok_or_else(|| refused(&args.file, ArchiveError::Foreign))?;
    let bytes = file.metadata().map_err(|error| unreadable(&args.file, &error))?.len();
    let target = Target::take(home)?;
    let mut done = 0;
    let mut watch = |bytes| {
        done += bytes;
        line.show(|| format!("unpacking the backup: {} so far …", size(done)));
        if signals.has_come() { Err(ArchiveError::Stopped) } else { Ok(()) }
    };
    let result = archive::unpack(file, &target.folder, &mut watch).map_err(|error| refused(&args.file, error));
    let result = result.and_then(|unpacked| {
        let unfinished = checked(&target.folder, &args.file, &unpacked.0, &mut line)?;
        Ok((unpacked, unfinished))
    });
    line.clear();
    // What came of a signal is no error of the backup.
    let result = signals.refuse().and(result);
    let ((manifest, files), unfinished) = result.inspect_err(|_| target.leave())?;
    target.move_in()?;
    let (home, file) = (home.display().to_string(), args.file.display().to_string());
    let Manifest { made_at, version, head, .. } = &manifest;
    if args.json {
        let (made_at, head) = (*made_at, *head);
        return print(&json(&Done { home, file, made_at, version, head, files, bytes, unfinished }));
    }
    let mut page = Page::default();
    let at = Zone::local().time(engine::Timestamp(*made_at));
    page.line(format!("{} is {} of {at}, at position {head}", printable_line(&home), printable_line(&file)));
    if !unfinished.is_empty() {
        let keys = unfinished.iter().map(|key| printable_line(key)).collect::<Vec<_>>().join(", ");
        page.line(format!(
            "unfinished: {keys}; `limulus resume` resumes them, unless the home that was copied still works on them"
        ));
    }
    print(&page.text())
}

/// Checks what was unpacked. Returns the sessions with unfinished work.
fn checked(folder: &Path, file: &Path, manifest: &Manifest, line: &mut ProgressLine) -> Result<Vec<String>, CliError> {
    let reader = match Reader::open(folder) {
        // The next owner checks and migrates it.
        Err(journal::Error::Older { .. }) => return Ok(vec![]),
        Err(journal::Error::Newer { .. }) => return Err(refused(file, ArchiveError::Newer(manifest.version.clone()))),
        Err(error) => return Err(unsound(file, &error.to_string())),
        Ok(reader) => reader,
    };
    let report = check::check(folder, &mut |progress| line.show(|| far(progress)))?;
    if let Some(finding) = report.findings.first() {
        return Err(unsound(file, &finding.detail));
    }
    if reader.head()?.0 != manifest.head {
        return Err(unsound(file, "it ends at another position than the backup says"));
    }
    unfinished(&reader)
}

/// The home that is being made: nobody else owns it meanwhile.
struct Target {
    home: PathBuf,
    /// Where the backup is unpacked.
    folder: PathBuf,
    is_new: bool,
    /// Whether a restore before this one was cut off, and may have left a part of a home.
    is_cut_off: bool,
    _lock: HomeLock,
}

impl Target {
    /// Locks the home, which must be empty but for what a restore has left that was cut off.
    fn take(home: &Path) -> Result<Self, CliError> {
        let is_new = !home.exists();
        // An empty folder gets a lock, one with anything in it is left alone.
        let before = names(home)?;
        let is_cut_off = before.iter().any(|name| is_unpacked(name));
        if !is_cut_off && before.iter().any(|name| !HomeLock::is_its_file(name)) {
            return Err(filled(home));
        }
        let lock = HomeLock::take(home)?;
        let now = names(home)?;
        if !is_cut_off && now.iter().any(|name| !HomeLock::is_its_file(name)) {
            return Err(filled(home));
        }
        for name in now.iter().filter(|name| is_unpacked(name)) {
            let path = home.join(name);
            fs::remove_dir_all(&path).map_err(|error| unwritable(&path, &error))?;
        }
        let folder = home.join(format!("{RESTORING}{}", uuid::Uuid::now_v7()));
        let made = DirBuilder::new().mode(PRIVATE_FOLDER).create(&folder);
        made.map_err(|error| unwritable(&folder, &error))?;
        Ok(Self { home: home.to_owned(), folder, is_new, is_cut_off, _lock: lock })
    }

    /// Moves all into the home, the journal last: without it a folder is no home yet. What a restore has left that was cut off is
    /// replaced. If it is cut off itself, nobody owns the home until the next restore.
    fn move_in(&self) -> Result<(), CliError> {
        let mut names = names(&self.folder)?;
        names.sort_by_key(|name| (name == "journal.db", name == "journal.mark", name.clone()));
        for name in names {
            let (from, to) = (self.folder.join(&name), self.home.join(&name));
            let moved = replace(&from, &to);
            moved.map_err(|error| unwritable(&to, &error))?;
        }
        fs::remove_dir(&self.folder).map_err(|error| unwritable(&self.folder, &error))?;
        sync_folder(&self.home)
    }

    /// Leaves what was there before.
    fn leave(&self) {
        let _ = fs::remove_dir_all(&self.folder);
        if self.is_cut_off {
            let _ = fs::create_dir(&self.folder);
        } else if self.is_new {
            let _ = fs::remove_file(self.home.join("owner.lock"));
            // Only if nobody has put something into it.
            let _ = fs::remove_dir(&self.home);
        }
    }
}

/// Renames a file or folder, in place of what has its name.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    match to.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(to)?,
        Ok(_) => fs::remove_file(to)?,
        Err(_) => {}
    }
    fs::rename(from, to)
}

fn is_unpacked(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with(RESTORING)
}

/// The names in a folder; none if there is no folder.
fn names(folder: &Path) -> Result<Vec<OsString>, CliError> {
    match fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        names => names.map_err(|error| unreadable(folder, &error)),
    }
}

/// What a path leads to.
fn real(path: &Path) -> Result<PathBuf, CliError> {
    path.canonicalize().map_err(|error| unreadable(path, &error))
}

fn filled(home: &Path) -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: format!("{} is not empty; nothing was changed", home.display()),
        hint: "move it away first, or set LIMULUS_HOME to another folder".to_owned(),
    }
}

/// Gives a file or folder a name that nothing has.
fn name(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems cannot do both at once.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !exists(to) => fs::rename(from, to),
        named => Ok(named?),
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn refuse_bad_place(file: &Path, folder: &Path, home: &Path) -> Result<(), CliError> {
    if exists(file) {
        return Err(taken(file));
    }
    let real = |path: &Path| path.canonicalize().map_err(|error| unwritable(path, &error));
    if exists(home) && real(folder)?.starts_with(real(home)?) {
        return Err(CliError::Refused {
            exit: Exit::Usage,
            what: format!("{} is in the home that it would copy", file.display()),
            hint: "name a file outside of it, best on another disk".to_owned(),
        });
    }
    Ok(())
}

/// The last signal to stop that has come.
struct Signals(Arc<AtomicUsize>);

impl Signals {
    fn watch() -> Result<Self, CliError> {
        let last = Arc::new(AtomicUsize::new(0));
        let failed = |error: io::Error| CliError::bug(&format!("no signals: {error}"));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).unwrap_or_default();
            flag::register_usize(signal, Arc::clone(&last), number).map_err(failed)?;
        }
        Ok(Self(last))
    }

    fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn refuse(&self) -> Result<(), CliError> {
        let exit = match i32::try_from(self.0.load(Ordering::Relaxed)) {
            Ok(0) => return Ok(()),
            Ok(SIGTERM | SIGHUP) => Exit::Stopped,
            _ => Exit::Aborted,
        };
        Err(CliError::Failed { exit, what: "it was stopped; nothing of it is left".to_owned(), hint: String::new() })
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn sync_folder(folder: &Path) -> Result<(), CliError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unwritable(folder, &error))
}

fn taken(file: &Path) -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: format!("{} exists; nothing was changed", file.display()),
        hint: "give it another name, or remove it first".to_owned(),
    }
}

fn taken_or(path: &Path, error: &io::Error) -> CliError {
    if error.kind() == io::ErrorKind::AlreadyExists { taken(path) } else { unwritable(path, error) }
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::Failed {
        exit: Exit::Store,
        what: format!("{} cannot be written: {error}", path.display()),
        hint: "check that its folder exists, that you may write there, and that the disk has space".to_owned(),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> CliError {
    CliError::Failed {
        exit: if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Store },
        what: format!("{} cannot be read: {error}", path.display()),
        hint: "check the path and its permissions".to_owned(),
    }
}

fn refused(file: &Path, error: ArchiveError) -> CliError {
    let what = format!("{} is not restored: {error}", file.display());
    let (exit, hint) = match error {
        ArchiveError::Foreign | ArchiveError::Unsafe(_) => {
            (Exit::Refused, "`limulus backup` makes the files that can be restored")
        }
        ArchiveError::Newer(_) => (Exit::Refused, "restore it with that version or a newer one"),
        ArchiveError::Damaged(_) => (Exit::Damaged, "take another backup"),
        ArchiveError::Write { path, error } => return unwritable(&path, &error),
        ArchiveError::Stopped => (Exit::Aborted, ""),
    };
    CliError::Failed { exit, what, hint: hint.to_owned() }
}

fn unsound(file: &Path, detail: &str) -> CliError {
    let what = format!("{} is not restored: its journal is damaged: {}", file.display(), printable_line(detail));
    CliError::Failed { exit: Exit::Damaged, what, hint: "take another backup".to_owned() }
}
