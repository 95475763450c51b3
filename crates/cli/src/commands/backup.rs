//! `limulus backup` and `limulus restore`: a home in one file, made beside its owner, and a home made of such a file.

mod archive;
mod contents;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use config::{Globals, size};
use journal::check::{self, Progress};
use journal::{JournalCopy, Read as _, Reader, copy_journal};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tools::call_folder_name;

use super::doctor::far;
use crate::error::{CliError, Exit};
use crate::progress_line::ProgressLine;
use crate::show::human::{Page, Zone, count, now, printable_line};
use crate::show::{json, print};
use archive::{ArchiveError, Manifest, Writer};
use contents::CALLS;

/// The beginning of the name of a folder in which a home is being restored.
const UNFINISHED: &str = ".restoring-";
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
    after_help = "The home, $LIMULUS_HOME or ~/.limulus, must be empty or absent. The backup is checked as `limulus doctor` \
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
    // What a call has is only there for good once the journal says so: those that begin after this look are for the next backup.
    let calls = contents::names_of_calls(home)?;
    let copied = tempfile::Builder::new().prefix(".limulus-backup-").tempdir_in(&folder);
    let copied = copied.map_err(|error| unwritable(&folder, &error))?;
    let copy = copy_journal(
        home,
        copied.path(),
        &mut |Progress { done, of, .. }| line.show(|| format!("copying the journal: {done} of {of} pages …")),
        &|| signals.has_come(),
    )?;
    signals.refuse()?;
    let JournalCopy { head, .. } =
        copy.ok_or_else(|| CliError::from(journal::Error::NotFound { home: home.to_owned() }))?;
    let manifest = Manifest::new(now().0, head.0);
    let (started, unfinished) = of_copy(copied.path(), home)?;
    let mut found = contents::of_journal(copied.path())?;
    found.extend(contents::of(home, &calls)?);
    let unfound = started.iter().map(|name| Path::new(CALLS).join(name));
    let unfound = unfound.filter(|name| !found.iter().any(|found| found.name == *name)).collect::<Vec<_>>();

    let unnamed = folder.join(format!(".{}.{}", name_of(&args.file), uuid::Uuid::now_v7()));
    let made = New(unnamed.clone());
    let file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(&unnamed);
    let file = file.map_err(|error| unwritable(&unnamed, &error))?;
    let of = archive::size(&found);
    let mut done = 0;
    let mut watch = |bytes| {
        done += bytes;
        line.show(|| format!("writing the backup: {} of {} …", size(done), size(of)));
        if signals.has_come() { Err(ArchiveError::Stopped) } else { Ok(()) }
    };
    let written = write(file, &manifest, &found, &unfound, &mut watch);
    line.clear();
    signals.refuse()?;
    let bytes = written.and_then(|file| file.metadata()).map_err(|error| unwritable(&args.file, &error))?.len();
    name(&unnamed, &args.file).map_err(|error| taken_or(&args.file, &error))?;
    drop(made);
    sync_folder(&folder)?;
    let files = found.iter().filter(|found| found.meta.is_file()).count();
    let (home, file) = (home.display().to_string(), args.file.display().to_string());
    let Manifest { made_at, version, head, .. } = &manifest;
    if args.json {
        let (made_at, head) = (*made_at, *head);
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

fn write(
    file: File,
    manifest: &Manifest,
    found: &[contents::Found],
    unfound: &[PathBuf],
    watch: archive::Watch<'_>,
) -> io::Result<File> {
    let mut writer = Writer::new(file, manifest)?;
    for found in found {
        writer.add(found, watch)?;
    }
    if !unfound.is_empty() && !found.iter().any(|found| found.name == Path::new(CALLS)) {
        writer.add_folder(Path::new(CALLS), manifest.made_at)?;
    }
    for name in unfound {
        writer.add_folder(name, manifest.made_at)?;
    }
    writer.finish()
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
    let file = File::open(&args.file).map_err(|error| unreadable(&args.file, &error))?;
    let bytes = file.metadata().map_err(|error| unreadable(&args.file, &error))?.len();
    refuse_filled(home)?;
    let is_new = !home.exists();
    let folder = home.join(format!("{UNFINISHED}{}", uuid::Uuid::now_v7()));
    let made = DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(&folder);
    made.map_err(|error| unwritable(&folder, &error))?;
    let made = New(folder.clone());
    let mut done = 0;
    let mut watch = |bytes| {
        done += bytes;
        line.show(|| format!("unpacking the backup: {} so far …", size(done)));
        if signals.has_come() { Err(ArchiveError::Stopped) } else { Ok(()) }
    };
    let result = archive::unpack(file, &folder, &mut watch).map_err(|error| refused(&args.file, error));
    let result = result.and_then(|unpacked| {
        let report = check::check(&folder, &mut |progress| line.show(|| far(progress)))?;
        let sound = report.findings.first().map_or(Ok(()), |finding| Err(unsound(&args.file, &finding.detail)));
        sound.and_then(|()| signals.refuse()).map(|()| unpacked)
    });
    line.clear();
    let (manifest, files) = result.inspect_err(|_| undo(&made, home, is_new))?;
    move_in(&folder, home)?;
    drop(made);
    sync_folder(home)?;
    let unfinished = unfinished(&Reader::open(home)?)?;
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

/// Moves all into the home, the journal last: without it a folder is no home yet.
fn move_in(from: &Path, home: &Path) -> Result<(), CliError> {
    let listed = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = listed.map_err(|error| unreadable(from, &error))?;
    entries.sort_by_key(|entry| entry.file_name().to_string_lossy().starts_with("journal."));
    for entry in entries {
        let to = home.join(entry.file_name());
        name(&entry.path(), &to).map_err(|error| taken_or(&to, &error))?;
    }
    Ok(())
}

/// Leaves what was there before.
fn undo(made: &New, home: &Path, is_new: bool) {
    made.remove();
    if is_new {
        // Only if nobody has put something into it.
        let _ = fs::remove_dir(home);
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

fn refuse_filled(home: &Path) -> Result<(), CliError> {
    match fs::read_dir(home).and_then(|mut entries| entries.next().transpose()) {
        Ok(Some(_)) => Err(CliError::Refused {
            exit: Exit::Refused,
            what: format!("{} is not empty; nothing was changed", home.display()),
            hint: "move it away first, or set LIMULUS_HOME to another folder".to_owned(),
        }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unreadable(home, &error)),
        Ok(None) | Err(_) => Ok(()),
    }
}

/// What is removed if it gets no name.
struct New(PathBuf);

impl New {
    fn remove(&self) {
        // It is a file or a folder, or has its name already.
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for New {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The last signal to stop that has come.
struct Signals(Arc<AtomicUsize>);

impl Signals {
    fn watch() -> Result<Self, CliError> {
        let last = Arc::new(AtomicUsize::new(0));
        let failed = |error: io::Error| CliError::bug(&format!("no signals: {error}"));
        for signal in [SIGINT, SIGTERM] {
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
            Ok(SIGTERM) => Exit::Stopped,
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

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
