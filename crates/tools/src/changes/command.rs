//! What a command changes in its workspace: the workspace is listed before the command starts and after it has ended, and
//! what differs is what it changed. The listing before is a file beside the folder of the call (`calls/ID.before`), so
//! that whoever finds the call after a crash can complete the comparison. It is durable once the folder of the call is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use engine::{Attribution, ChangedFile, EffectId, Modes, NotKept};

use super::listing::{Entry, EntryKind, Known, Listing};
use super::others::{self, Window};
use super::scan::{Deadline, look, now_ns};
use super::snapshot::{self, Snapshot};
use super::store::FileStore;
use crate::cancel::Cancel;
use crate::folder::{CallFolder, CallState};
use crate::guard::Protected;
use crate::limits::{COARSE_CLOCK_NS, RECORDED_CHANGES};
use crate::paths::Workspace;

/// What the changes of commands are found and kept with.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    pub(crate) calls: PathBuf,
    pub(crate) files: FileStore,
    pub(crate) protected: Protected,
    /// The workspace of the call; none if it is not known any more.
    pub(crate) workspace: Option<PathBuf>,
}

/// When a command ran, nanoseconds since 1970; none if that is not known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ran {
    pub(crate) from_ns: Option<i64>,
    pub(crate) to_ns: Option<i64>,
}

impl Recorder {
    /// Lists the workspace before a command may change it. Whatever fails, the command can start: then it is recorded that
    /// its changes are not. May block.
    pub(crate) fn begin(&self, id: EffectId, cancel: &Cancel) {
        let folder = CallFolder::of(&self.calls, id);
        let before = folder.before();
        // If it cannot be made, the command does not start either.
        let _ = folder.make_parent();
        let workspace = self.workspace.as_deref().ok_or(NotKept::NotRecorded);
        let listed = workspace.and_then(|workspace| self.list(workspace, cancel)).and_then(|(root, snapshot)| {
            place(&snapshot.file, &before).map_err(|_| NotKept::NotRecorded)?;
            Ok(root)
        });
        match listed {
            Ok(root) => others::started(id, root),
            Err(why) => drop(write_reason(&before, why)),
        }
    }

    /// Lists a workspace if what commands change in it is recorded. May block.
    fn list(&self, workspace: &Path, cancel: &Cancel) -> Result<(PathBuf, Snapshot), NotKept> {
        if self.files.limits.workspace.is_none() {
            return Err(NotKept::SwitchedOff);
        }
        super::looks::note(workspace);
        let workspace = Workspace::open(workspace, &self.protected).map_err(|_| NotKept::NotRecorded)?;
        if is_home(&workspace.root) {
            return Err(NotKept::HomeFolder);
        }
        given_up::recently(&workspace.root).map_or(Ok(()), Err)?;
        let listed = snapshot::refresh(&self.files, &workspace, &Deadline::new(cancel));
        if let Some(why) = listed.as_ref().err().filter(|_| !cancel.is_set()) {
            given_up::note(&workspace.root, *why);
        }
        Ok((workspace.root, listed?))
    }

    /// An earlier owner started this command, and it still runs. May block.
    pub(crate) fn attach(&self, id: EffectId) {
        let before = snapshot::head(&CallFolder::of(&self.calls, id).before());
        if let Some(root) = before.and_then(|bytes| Listing::root_of(&bytes)) {
            others::started(id, root);
        }
    }

    /// Has the workspace listed before a command asks for it. May block.
    pub(crate) fn prepare(&self, when: Prepare) {
        let Some(workspace) = self.workspace.as_deref() else { return };
        let is_known =
            || Workspace::open(workspace, &self.protected).is_ok_and(|at| snapshot::is_known(&self.files, &at.root));
        if when == Prepare::Always || is_known() {
            // A call that needs it finds out by itself what fails.
            let _ = self.list(workspace, &Cancel::default());
        }
    }

    /// What a command has changed so far. `is_over`: it will change nothing more. May block.
    pub(crate) fn changes(&self, id: EffectId, ran: Ran, is_over: bool) -> Vec<ChangedFile> {
        let before = CallFolder::of(&self.calls, id).before();
        let found = snapshot::bytes(&before).ok_or(NotKept::NotRecorded).and_then(|bytes| match reason(&bytes) {
            Some(why) => Err(why),
            // A command can write here too: it must not have another folder listed.
            None => Listing::from_bytes(&bytes).filter(|before| self.is_of(before)).ok_or(NotKept::NotRecorded),
        });
        let compared = found.and_then(|before| {
            let (_, after) = self.list(&before.root, &Cancel::default())?;
            let workspace = Workspace::open(&before.root, &self.protected).map_err(|_| NotKept::NotRecorded)?;
            let root = workspace.open_root().map_err(|_| NotKept::NotRecorded)?;
            let window = others::window(id, &before.root, &self.others(id, &before, ran));
            let comparison = Comparison { before: &before, after: &after.listing, ran, window: &window, root };
            let mut differing = comparison.differing();
            linked(&before, &mut differing);
            if differing.len() > RECORDED_CHANGES { Err(NotKept::TooManyChanges) } else { Ok((differing, before.root)) }
        });
        let changes = match compared {
            Ok((changes, root)) => {
                others::made(id, &root, &changes);
                changes
            }
            Err(why) => vec![ChangedFile { path: ".".to_owned(), not_kept: Some(why), ..ChangedFile::default() }],
        };
        if is_over {
            others::ended(id);
        }
        changes
    }

    /// Whether a listing is one of the workspace of the call.
    fn is_of(&self, before: &Listing) -> bool {
        let root =
            |workspace: &PathBuf| Workspace::open(workspace, &self.protected).is_ok_and(|it| it.root == before.root);
        self.workspace.as_ref().is_none_or(root)
    }

    /// The commands of other runs in this folder, above it or below it, whose results are not recorded yet and that ran at the
    /// same time. An earlier owner may have started them.
    fn others(&self, id: EffectId, before: &Listing, ran: Ran) -> Vec<EffectId> {
        let from_ns = ran.from_ns.unwrap_or(before.taken_ns);
        let ran_since = |call: EffectId| match CallFolder::of(&self.calls, call).state() {
            Ok(CallState::Running) => true,
            Ok(CallState::Ended(record)) => record.ended_at.saturating_mul(1_000_000) >= from_ns,
            Ok(CallState::Absent | CallState::Void | CallState::Dead) | Err(_) => false,
        };
        let listed = fs::read_dir(&self.calls).into_iter().flatten().flatten();
        let other = |entry: fs::DirEntry| {
            let call = CallFolder::call_before(&entry.file_name().to_string_lossy())?;
            let bytes = (call.run != id.run).then(|| snapshot::head(&entry.path())).flatten()?;
            let is_near = Listing::root_of(&bytes).is_some_and(|other| others::overlap(&other, &before.root));
            (is_near && ran_since(call)).then_some(call)
        };
        listed.filter_map(other).collect()
    }
}

/// Which workspaces are listed ahead of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prepare {
    /// Every one: a command is about to start.
    Always,
    /// One that was listed before: commands are used there.
    Known,
}

/// Whether a folder is the home folder of the user, or one above it.
fn is_home(root: &Path) -> bool {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.and_then(|home| fs::canonicalize(home).ok());
    root.parent().is_none() || home.is_some_and(|home| home.starts_with(root))
}

/// Gives the listing its second name, beside the folder of the call.
fn place(listing: &Path, before: &Path) -> io::Result<()> {
    File::open(listing)?.sync_all()?;
    let _ = fs::remove_file(before);
    fs::hard_link(listing, before).or_else(|_| {
        fs::copy(listing, before)?;
        File::open(before)?.sync_all()
    })
}

/// The first bytes of a file that says why there is no listing.
const REASON: &[u8] = b"not recorded: ";

fn write_reason(before: &Path, why: NotKept) -> io::Result<()> {
    let _ = fs::remove_file(before);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(before)?;
    file.write_all(REASON)?;
    file.write_all(&serde_json::to_vec(&why)?)
}

fn reason(bytes: &[u8]) -> Option<NotKept> {
    let why = bytes.strip_prefix(REASON)?;
    Some(serde_json::from_slice(why).ok().filter(|why: &NotKept| why.is_of_workspace()).unwrap_or(NotKept::NotRecorded))
}

/// Two states of a workspace.
struct Comparison<'a> {
    before: &'a Listing,
    after: &'a Listing,
    ran: Ran,
    window: &'a Window,
    root: std::os::fd::OwnedFd,
}

impl Comparison<'_> {
    /// Every path that differs, without those whose change another call has recorded.
    fn differing(&self) -> Vec<ChangedFile> {
        let mut changes = vec![];
        let (mut old, mut new) = (self.before.entries.iter().peekable(), self.after.entries.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return changes,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(old), Some(new)) => old.path.cmp(&new.path),
            };
            let (before, after) = match order {
                std::cmp::Ordering::Less => (old.next(), None),
                std::cmp::Ordering::Equal => (old.next(), new.next()),
                std::cmp::Ordering::Greater => (None, new.next()),
            };
            changes.extend(self.change(before, after));
            if changes.len() > RECORDED_CHANGES {
                return changes;
            }
        }
    }

    fn change(&self, before: Option<&Entry>, after: Option<&Entry>) -> Option<ChangedFile> {
        let path = &before.or(after)?.path;
        // Rules that left something out may have changed with the command: then it was there all the time.
        let (unlisted_before, unlisted_after) =
            (before.is_none() && self.before.is_left_out(path), after.is_none() && self.after.is_left_out(path));
        if unlisted_before {
            return None;
        }
        let found = if unlisted_after { look(&self.root, path) } else { None };
        let after = after.or(found.as_ref());
        if before.zip(after).is_some_and(|(before, after)| before.is_same(after)) {
            return None;
        }
        let not_kept = |entry: Option<&Entry>| match entry?.known {
            Known::Not(why) => Some(why),
            Known::Nothing | Known::Kept(_) => None,
        };
        let mode = Modes { before: before.and_then(Entry::bits), after: after.and_then(Entry::bits) };
        let change = ChangedFile {
            path: String::from_utf8_lossy(path).into_owned(),
            before: before.map(Entry::content),
            after: after.map(Entry::content),
            mode,
            not_kept: not_kept(before).or_else(|| not_kept(after)),
            attribution: Attribution::Call,
            diff: None,
            linked: None,
        };
        let attribution = self.window.attribute(&self.before.root, &change)?;
        let attribution = if self.is_outside(path, after) { Attribution::Outside } else { attribution };
        Some(ChangedFile { attribution, ..change })
    }

    /// Whether a change was made while the command did not run. What was moved with its folder has the time of the folder,
    /// and what was removed that of the folder that it was in.
    fn is_outside(&self, path: &[u8], after: Option<&Entry>) -> bool {
        let ends = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        let above = ends.map(|(end, _)| self.after.find(&path[..end]));
        let at = match after {
            Some(entry) => above
                .flatten()
                .filter(|folder| self.is_new(folder))
                .fold(entry.stamp.changed_ns, |at, folder| at.max(folder.stamp.changed_ns)),
            None => above.flatten().next().map_or(self.after.root_changed_ns, |folder| folder.stamp.changed_ns),
        };
        // A folder changes with what is in it.
        let is_exact = after.is_some_and(|entry| entry.kind != EntryKind::Folder);
        let is_early = self.ran.from_ns.is_some_and(|from| at < from - COARSE_CLOCK_NS);
        let is_late = self.ran.to_ns.is_some_and(|to| at > to + COARSE_CLOCK_NS && at <= now_ns());
        is_early || is_late && is_exact
    }

    fn is_new(&self, folder: &Entry) -> bool {
        self.before.find(&folder.path).is_none_or(|before| before.stamp.inode != folder.stamp.inode)
    }
}

/// Says of each change of a file which other name the file had before.
fn linked(before: &Listing, changes: &mut [ChangedFile]) {
    let file = |path: &str| before.find(path.as_bytes()).filter(|entry| entry.kind == EntryKind::File);
    let key = |entry: &Entry| (entry.stamp.inode, entry.stamp.changed_ns, entry.stamp.size);
    let mut names: BTreeMap<_, Vec<&str>> =
        changes.iter().filter_map(|change| file(&change.path)).map(|entry| (key(entry), vec![])).collect();
    if names.is_empty() {
        return;
    }
    for entry in before.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        if let (Some(names), Ok(path)) = (names.get_mut(&key(entry)), std::str::from_utf8(&entry.path)) {
            names.push(path);
        }
    }
    let differing: BTreeSet<String> = changes.iter().map(|change| change.path.clone()).collect();
    for change in changes {
        let names = file(&change.path).and_then(|entry| names.get(&key(entry)));
        let others: Vec<&str> = names.into_iter().flatten().copied().filter(|name| *name != change.path).collect();
        // One that the command has left alone can be had again from its other name.
        let other = others.iter().find(|name| !differing.contains(**name)).or(others.first());
        change.linked = other.map(|name| (*name).to_owned());
    }
}

/// Removes the listing before a command whose result is recorded.
pub(crate) fn forget(calls: &Path, id: EffectId) {
    others::ended(id);
    // A listing that cannot be removed is a file too many, which `limulus doctor --repair` removes.
    let _ = fs::remove_file(CallFolder::of(calls, id).before());
}

/// Workspaces that could not be listed: the next commands do not try in vain for as long.
mod given_up {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, PoisonError};
    use std::time::{Duration, Instant};

    use engine::NotKept;

    use crate::limits::GIVEN_UP_MS;

    static GIVEN_UP: Mutex<BTreeMap<PathBuf, (Instant, NotKept)>> = Mutex::new(BTreeMap::new());

    /// Why this one could not be listed a short time ago.
    pub(super) fn recently(root: &Path) -> Option<NotKept> {
        let mut given_up = GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner);
        given_up.retain(|_, (at, _)| at.elapsed() < Duration::from_millis(GIVEN_UP_MS));
        given_up.get(root).map(|(_, why)| *why)
    }

    pub(super) fn note(root: &Path, why: NotKept) {
        if matches!(why, NotKept::TooManyFiles | NotKept::TooSlow) {
            let mut given_up = GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner);
            given_up.insert(root.to_owned(), (Instant::now(), why));
        }
    }
}
