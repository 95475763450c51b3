//! The files of memory: which there are in the workspace and in the user's own folder, and the text of each. They are opened as
//! the other tools open files: no pipe, no link out of the folder, nothing that belongs to limulus itself or that a rule denies. What
//! cannot be used is left out, with the reason, and the others are used. Files that git ignores count too: memory is often private.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, fstat};

use super::index::IndexedFile;
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::At;
use crate::guard::Protected;
use crate::limits::{COARSE_CLOCK_NS, MEMORY_DEPTH, MEMORY_ENTRIES, MEMORY_FILE_BYTES, MEMORY_FILES};
use crate::paths::{ResolvedPath, Workspace};
use crate::{kinds, openat};

/// The names of the file that is in the system prompt too; the first one that is there counts.
const MAIN: [&str; 2] = ["MEMORY.md", "memory.md"];
/// The folder of the others.
const FOLDER: &str = "memory";
const ENDING: &str = "md";

/// Whether there is memory in this folder: `MEMORY.md` or `memory.md`, or a folder `memory`. Nothing is read, and no link followed.
pub fn has_memory(folder: &Path) -> bool {
    let may_be_folder = |found: Metadata| found.is_dir() || found.is_symlink();
    main_name(folder).is_some() || folder.join(FOLDER).symlink_metadata().is_ok_and(may_be_folder)
}

fn main_name(folder: &Path) -> Option<&'static str> {
    let is_there =
        |name: &&str| folder.join(name).symlink_metadata().is_ok_and(|found| !found.is_file() || found.len() > 0);
    MAIN.into_iter().find(is_there)
}

/// A file of memory.
#[derive(Debug)]
pub(super) struct MemoryFile {
    /// Its path as the model names it: relative in the workspace, absolute if the file is the user's own.
    pub(super) shown: String,
    pub(super) path: ResolvedPath,
    pub(super) indexed: IndexedFile,
    /// Only its first MiB is used.
    pub(super) is_cut: bool,
}

/// What is left out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) path: String,
    pub(super) why: String,
}

/// The files of memory that there are.
#[derive(Debug, Default)]
pub(super) struct MemoryFiles {
    pub(super) folders: Vec<String>,
    pub(super) files: Vec<MemoryFile>,
    pub(super) left_out: Vec<LeftOut>,
    /// There are more than are looked at.
    pub(super) is_cut: bool,
    /// Names that were looked at.
    seen: usize,
}

/// Where files are looked for.
struct Root<'a> {
    workspace: &'a Workspace,
    /// The folder that the files are listed under.
    folder: String,
    /// What comes before the path of a file when it is shown; empty in the workspace.
    prefix: String,
}

impl Root<'_> {
    fn shown(&self, relative: &str) -> String {
        format!("{}{relative}", self.prefix)
    }
}

/// Lists them: those of the workspace, then the user's own.
pub(super) fn list(at: &At<'_>, cancel: &Cancel) -> Result<MemoryFiles, ToolError> {
    let mut listed = MemoryFiles::default();
    let workspace = at.workspace()?;
    let folder = workspace.root.display().to_string();
    listed.folders.push(folder.clone());
    let root = Root { workspace: &workspace, folder, prefix: String::new() };
    if let Some(name) = main_name(&workspace.root) {
        listed.named(&root, name, name);
    }
    if workspace.root.join(FOLDER).symlink_metadata().is_ok() {
        listed.folder(&root, (FOLDER, FOLDER), cancel)?;
    }
    if let Some(own) = &at.context.memory.own {
        listed.own(at, own, cancel)?;
    }
    Ok(listed)
}

impl MemoryFiles {
    /// Adds the user's own. Many keep such files elsewhere and have a link here; only they can write in this folder, which is that of
    /// limulus itself. What a link leads to is the folder out of which no further link may lead.
    fn own(&mut self, at: &At<'_>, own: &Path, cancel: &Cancel) -> Result<(), ToolError> {
        let folder = own.display().to_string();
        self.folders.push(folder.clone());
        let prefix = format!("{folder}/");
        if let Some(name) = main_name(own)
            && let Some(target) = self.target(&own.join(name))
            && let (Some(above), Some(file)) = (target.parent(), target.file_name().and_then(OsStr::to_str))
            && let Some(workspace) = self.opened(at, above)
        {
            self.named(&Root { workspace: &workspace, folder: folder.clone(), prefix: prefix.clone() }, file, name);
        }
        if own.join(FOLDER).symlink_metadata().is_ok()
            && let Some(target) = self.target(&own.join(FOLDER))
            && let Some(workspace) = self.opened(at, &target)
        {
            self.folder(&Root { workspace: &workspace, folder, prefix }, (".", FOLDER), cancel)?;
        }
        Ok(())
    }

    /// Where a path of the user's own folder leads.
    fn target(&mut self, path: &Path) -> Option<PathBuf> {
        let target = path.canonicalize();
        target.map_err(|error| self.leave_out(path.display().to_string(), &error)).ok()
    }

    /// A folder of the user. It is in the home, so it is not judged by what that is protected from.
    fn opened(&mut self, at: &At<'_>, folder: &Path) -> Option<Workspace> {
        let opened = Workspace::open(folder, &Protected::default());
        let opened = opened.map_err(|error| self.leave_out(folder.display().to_string(), &error)).ok()?;
        Some(opened.judging(&at.context.rules, at.tool))
    }

    fn leave_out(&mut self, path: String, why: &(impl ToString + ?Sized)) {
        self.left_out.push(LeftOut { path, why: why.to_string() });
    }

    /// Adds the file that a path leads to.
    fn named(&mut self, root: &Root<'_>, given: &str, name: &str) {
        let shown = root.shown(name);
        match root.workspace.resolve(given) {
            Ok(path) if path.inside => self.file(root, path, shown),
            Ok(_) => self.leave_out(shown, "it is a link that leads out"),
            Err(error) => self.leave_out(shown, &error),
        }
    }

    /// Adds the files of the folder that a path leads to.
    fn folder(&mut self, root: &Root<'_>, (given, name): (&str, &str), cancel: &Cancel) -> Result<(), ToolError> {
        match root.workspace.resolve(given) {
            Ok(path) if !path.inside => self.leave_out(root.shown(name), "it is a link that leads out"),
            // A file of this name is no memory.
            Ok(path) if path.look().is_ok_and(|seen| seen.kind == FileType::RegularFile) => {}
            Ok(path) => self.walk(root, &path, name, cancel)?,
            Err(error) => self.leave_out(root.shown(name), &error),
        }
        Ok(())
    }

    fn walk(&mut self, root: &Root<'_>, folder: &ResolvedPath, name: &str, cancel: &Cancel) -> Result<(), ToolError> {
        let listed = folder.open_folder("search").and_then(|opened| {
            let names = openat::list(&opened).map_err(ToolError::file("search", root.shown(name)))?;
            Ok((opened, names))
        });
        let (opened, mut names) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                self.leave_out(root.shown(name), &error);
                return Ok(());
            }
        };
        names.sort();
        for entry in names {
            cancel.check()?;
            self.seen += 1;
            if self.seen > MEMORY_ENTRIES {
                self.is_cut = true;
                break;
            }
            if entry.starts_with(b".") {
                continue;
            }
            let relative = format!("{name}/{}", String::from_utf8_lossy(&entry));
            match folder.guard.entry_of_judged(opened.as_fd(), OsStr::from_bytes(&entry)) {
                Ok(None) => {}
                Ok(Some(seen)) => {
                    self.entry(root, (folder, OsStr::from_bytes(&entry)), (&relative, seen.kind), cancel)?;
                }
                Err(error) => self.leave_out(root.shown(&relative), &error),
            }
        }
        Ok(())
    }

    /// Adds an entry of a folder.
    fn entry(
        &mut self,
        root: &Root<'_>,
        (folder, name): (&ResolvedPath, &OsStr),
        (relative, kind): (&str, FileType),
        cancel: &Cancel,
    ) -> Result<(), ToolError> {
        let path = root.workspace.below(folder, &folder.real.join(name));
        let is_text = Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case(ENDING));
        match kind {
            FileType::Directory if relative.matches('/').count() < MEMORY_DEPTH => {
                self.walk(root, &path, relative, cancel)?;
            }
            FileType::Directory => self.leave_out(root.shown(relative), "it is too deep"),
            FileType::Symlink if path.real.is_dir() => {
                self.leave_out(root.shown(relative), "it is a link to a folder, which is not followed");
            }
            _ if !is_text => {}
            FileType::Symlink => match path.real.to_str() {
                Some(given) => self.named(root, given, relative),
                None => self.leave_out(root.shown(relative), "its name is not UTF-8"),
            },
            _ => self.file(root, path, root.shown(relative)),
        }
        Ok(())
    }

    fn file(&mut self, root: &Root<'_>, path: ResolvedPath, shown: String) {
        if self.files.len() >= MEMORY_FILES {
            self.is_cut = true;
            return;
        }
        if !root.workspace.may_come_to(&path) {
            return self.leave_out(shown, "a rule of the policy does not allow it");
        }
        let path = ResolvedPath { shown: shown.clone(), ..path };
        match path.open_file("read") {
            Ok((file, bytes)) => {
                let indexed = IndexedFile {
                    folder: root.folder.clone(),
                    path: path.real.display().to_string(),
                    stamp: stamp(&file),
                };
                // Two links may lead to the same file.
                if self.files.iter().all(|known| known.indexed.path != indexed.path) {
                    self.files.push(MemoryFile { shown, path, indexed, is_cut: bytes > MEMORY_FILE_BYTES });
                }
            }
            Err(error) => self.leave_out(shown, &error),
        }
    }
}

/// What changes with the content of a file. None if it was changed so short a time ago that the next change may leave it as it is.
fn stamp(file: &File) -> Option<String> {
    let stat = fstat(file).ok()?;
    let ns = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    let modified = ns(stat.st_mtime, stat.st_mtime_nsec as i64);
    let changed = ns(stat.st_ctime, stat.st_ctime_nsec as i64);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let is_settled = changed < now.saturating_sub(COARSE_CLOCK_NS);
    is_settled.then(|| format!("{}:{}:{modified}:{changed}", stat.st_ino, stat.st_size))
}

impl MemoryFile {
    /// Its text, of which only whole lines of the first MiB are used; or why it is left out.
    pub(super) fn text(&self) -> Result<String, LeftOut> {
        let left_out = |why: String| LeftOut { path: self.shown.clone(), why };
        let (file, bytes) = self.path.open_file("read").map_err(|error| left_out(error.to_string()))?;
        let mut content = Vec::new();
        file.take(MEMORY_FILE_BYTES)
            .read_to_end(&mut content)
            .map_err(|error| left_out(format!("it cannot be read: {error}")))?;
        if bytes > MEMORY_FILE_BYTES {
            let whole = content.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            content.truncate(whole.unwrap_or(content.len() - kinds::partial_at_end(&content)));
        }
        let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
        let text = text.ok_or_else(|| left_out("it is not text in UTF-8".to_owned()))?;
        Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }

    /// What its name says of its content: the path below the folder `memory`, without its ending. Daily notes have the day there.
    pub(super) fn title(&self) -> &str {
        let below = format!("{FOLDER}/");
        let within = self.shown.strip_prefix(&below).or_else(|| {
            let own = self.shown.strip_prefix(&self.indexed.folder)?;
            own.strip_prefix('/')?.strip_prefix(&below)
        });
        within.map_or("", |path| path.rsplit_once('.').map_or(path, |(title, _)| title))
    }
}
