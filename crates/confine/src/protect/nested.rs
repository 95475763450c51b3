//! Looks at the folders of a workspace for names that other programs run, before a command and after it: what is there is held,
//! what has come is reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::executed::{self, Hold};

/// How deep below the workspace is looked.
const DEPTH: usize = 4;
/// How many files and folders are looked at: some twenty milliseconds if the kernel has them in memory.
const ENTRIES: usize = 20_000;
/// How long a look takes at most, also if the kernel has to read them from a slow disk.
const LONGEST: Duration = Duration::from_millis(if cfg!(test) { 60_000 } else { 200 });
/// How many names are held: each costs a mount.
const HELD: usize = 200;
/// Nanoseconds within which a folder may change twice and show one time of change.
const SAME_TIME_NS: i128 = 50_000_000;
/// Folders in which programs put what they have downloaded or built, thousands of files, and which they replace as a whole: nothing
/// in them is held, and they are looked at last.
const REPLACED: [&str; 4] = ["node_modules", "target", ".venv", "__pycache__"];

/// What a look has found. All paths are relative to the workspace.
#[derive(Debug, Default)]
pub(super) struct Look {
    folders: BTreeMap<PathBuf, Listed>,
    /// The names, with the number by which the file system knows what has them.
    names: BTreeMap<PathBuf, u64>,
    /// What of them is to be held.
    held: BTreeSet<PathBuf>,
    /// The folders that have a `.git` in them.
    pub(super) repositories: Vec<PathBuf>,
    /// Why it did not look at everything.
    pub(super) cut: Option<String>,
}

/// A folder that was listed.
#[derive(Debug, Clone, Copy)]
struct Listed {
    place: Place,
    /// When it was changed last; none if it may change again within this time.
    changed_ns: Option<i128>,
}

/// Where a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    depth: usize,
    is_replaced: bool,
}

impl Look {
    /// The names to hold, the least deep first, and how many there are besides.
    pub(super) fn to_hold(&self, top: &BTreeSet<OsString>) -> (Vec<PathBuf>, usize) {
        let mut held: Vec<PathBuf> = self.held.iter().filter(|path| !is_one_of(top, path)).cloned().collect();
        held.sort_by_key(|path| path.iter().count());
        let more = held.len().saturating_sub(HELD);
        held.truncate(HELD);
        (held, more)
    }

    /// Looks at a workspace. What is not listed any more when the time is over, or when there is too much, is left out.
    pub(super) fn at(workspace: &Path) -> Self {
        Self::up_to(ENTRIES, workspace)
    }

    fn up_to(most: usize, workspace: &Path) -> Self {
        let mut walk = Walk { most, ..Walk::new(workspace) };
        walk.ahead(PathBuf::new(), Place { depth: 0, is_replaced: false });
        walk.until_done(|_, _| false)
    }

    /// The names that have come since this look, or that are another file now.
    /// `top` are those at the top that are held whether they exist or not.
    pub(super) fn new_names(&self, workspace: &Path, top: &BTreeSet<OsString>) -> (Vec<PathBuf>, Option<String>) {
        let mut walk = Walk::new(workspace);
        for (path, listed) in &self.folders {
            walk.ahead(path.clone(), listed.place);
        }
        // A folder that has not changed has the same entries, and those below it are in the list themselves.
        let is_same = |path: &Path, found: &Metadata| {
            self.folders.get(path).is_some_and(|listed| listed.changed_ns == Some(changed_ns(found)))
        };
        let now = walk.until_done(is_same);
        let is_new = |(path, id): &(PathBuf, u64)| self.names.get(path) != Some(id) && !is_one_of(top, path);
        let mut names: Vec<_> = now.names.into_iter().filter(is_new).map(|(path, _)| path).collect();
        // What somebody enters comes first.
        names.sort_by_key(|path| path.iter().any(is_replaced_name));
        (names, now.cut)
    }
}

/// Whether a path is one of these names at the top.
fn is_one_of(top: &BTreeSet<OsString>, path: &Path) -> bool {
    top.contains(path.as_os_str())
}

fn is_replaced_name(name: &OsStr) -> bool {
    REPLACED.iter().any(|replaced| name == *replaced)
}

fn changed_ns(found: &Metadata) -> i128 {
    i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec())
}

/// A walk, the least deep folders first.
struct Walk<'a> {
    workspace: &'a Path,
    ahead: VecDeque<(PathBuf, Place)>,
    /// Those that are replaced as a whole.
    last: VecDeque<(PathBuf, Place)>,
    seen: BTreeSet<PathBuf>,
    found: Look,
    looked_at: usize,
    most: usize,
    began: Instant,
}

impl<'a> Walk<'a> {
    fn new(workspace: &'a Path) -> Self {
        Self {
            workspace,
            ahead: VecDeque::new(),
            last: VecDeque::new(),
            seen: BTreeSet::new(),
            found: Look::default(),
            looked_at: 0,
            most: ENTRIES,
            began: Instant::now(),
        }
    }

    fn ahead(&mut self, path: PathBuf, place: Place) {
        if self.seen.insert(path.clone()) {
            let queue = if place.is_replaced { &mut self.last } else { &mut self.ahead };
            queue.push_back((path, place));
        }
    }

    /// `is_same` says of which folder the entries are known.
    fn until_done(mut self, is_same: impl Fn(&Path, &Metadata) -> bool) -> Look {
        while let Some((path, place)) = self.ahead.pop_front().or_else(|| self.last.pop_front()) {
            if self.looked_at > self.most || self.began.elapsed() > LONGEST {
                if !place.is_replaced {
                    let reason = format!(
                        "names below it were not all looked at: it has more than {} files, or its disk is slow",
                        self.most
                    );
                    self.found.cut = Some(reason);
                }
                break;
            }
            let folder = self.workspace.join(&path);
            // Before it is listed: what comes meanwhile makes it new. It may be gone, or be something else by now.
            let Ok(found) = folder.symlink_metadata() else { continue };
            if found.is_dir() && !is_same(&path, &found) {
                self.list(path, place, &found);
            }
        }
        self.found
    }

    fn list(&mut self, path: PathBuf, place: Place, found: &Metadata) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos().cast_signed());
        let changed_ns = Some(changed_ns(found)).filter(|changed| now - changed > SAME_TIME_NS);
        let around = path.file_name().unwrap_or_default().to_owned();
        for entry in fs::read_dir(self.workspace.join(&path)).into_iter().flatten().flatten() {
            self.looked_at += 1;
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            let hold = executed::hold(&around, &name).filter(|hold| match hold {
                Hold::Unseen => false,
                // Only a folder and the file that names one are git's.
                Hold::Repository if kind.is_symlink() => false,
                Hold::Existing | Hold::Reported | Hold::Repository => true,
            });
            match hold {
                // Nothing runs what an installed package has of these.
                Some(Hold::Repository | Hold::Reported) if place.is_replaced => {}
                Some(hold) => {
                    let below = path.join(name);
                    if hold == Hold::Repository {
                        self.found.repositories.push(path.clone());
                    }
                    if hold == Hold::Existing && !place.is_replaced {
                        self.found.held.insert(below.clone());
                    }
                    self.found.names.insert(below, entry.ino());
                }
                None if kind.is_dir() && place.depth < DEPTH => {
                    let is_replaced = place.is_replaced || is_replaced_name(&name);
                    self.ahead(path.join(name), Place { depth: place.depth + 1, is_replaced });
                }
                None => {}
            }
        }
        self.found.folders.insert(path, Listed { place, changed_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(files: &[&str]) -> tempfile::TempDir {
        let workspace = tempfile::tempdir().unwrap();
        for file in files {
            write(workspace.path(), file);
        }
        workspace
    }

    fn write(workspace: &Path, file: &str) {
        let path = workspace.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    fn paths(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn r67_names_are_found_four_levels_deep_and_held_where_nobody_replaces_them() {
        let workspace = workspace(&[
            ".envrc",
            "a/b/c/d/.envrc",
            "a/b/c/d/e/.envrc",
            "a/.husky/pre-commit",
            "a/.github/workflows/ci.yml",
            "a/.git/HEAD",
            "node_modules/x/.vscode/tasks.json",
            "src/main.rs",
        ]);
        std::os::unix::fs::symlink("/", workspace.path().join("a/link")).unwrap();
        let look = Look::at(workspace.path());
        let held: Vec<PathBuf> = look.held.iter().cloned().collect();
        assert_eq!(paths(&held), [".envrc", "a/.husky", "a/b/c/d/.envrc"]);
        assert_eq!(paths(&look.repositories), ["a"]);
        assert_eq!(look.cut, None);
        let top = [OsString::from(".envrc")].into();
        assert_eq!(paths(&look.to_hold(&top).0), ["a/.husky", "a/b/c/d/.envrc"]);
    }

    #[test]
    fn r67_names_that_have_come_are_seen_the_ones_to_enter_first() {
        let workspace = workspace(&["a/.envrc", "a/b/file", "c/.envrc"]);
        let at = workspace.path();
        let look = Look::at(at);
        assert_eq!(look.new_names(at, &BTreeSet::new()), (vec![], None));
        for file in ["a/b/.envrc", "node_modules/x/.vscode/x", "node_modules/x/.npmrc", "new/deep/.husky/x", "a/file"] {
            write(at, file);
        }
        // The same name, another file: it was moved into place.
        write(at, "c/other");
        fs::rename(at.join("c/other"), at.join("c/.envrc")).unwrap();
        let (names, cut) = look.new_names(at, &BTreeSet::new());
        assert_eq!(paths(&names), ["a/b/.envrc", "c/.envrc", "new/deep/.husky", "node_modules/x/.vscode"]);
        assert_eq!(cut, None);
    }

    #[test]
    fn r67_a_look_at_too_much_says_so_unless_it_is_in_what_was_downloaded() {
        let workspace = workspace(&[]);
        let at = workspace.path();
        for folder in ["node_modules/x", "z/y"] {
            fs::create_dir_all(at.join(folder)).unwrap();
        }
        let fill = |folder: &str| {
            for number in 0..30 {
                fs::write(at.join(folder).join(number.to_string()), "").unwrap();
            }
        };
        fill("node_modules");
        write(at, "z/y/.envrc");
        let look = Look::up_to(20, at);
        assert!(look.cut.is_none() && look.held.contains(Path::new("z/y/.envrc")), "{:?}", look.cut);
        fill("z");
        assert!(Look::up_to(20, at).cut.unwrap().contains("20 files"));
    }
}
