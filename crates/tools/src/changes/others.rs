//! Who else works in a folder while a command runs there: other commands, and the tools for files. What they have recorded
//! as their own is not recorded again, and what cannot be told apart is marked.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::{Attribution, ChangedFile, EffectId, FileContent, RunId};

use crate::limits::REMEMBERED_CHANGES;

/// What this process knows of calls that change files, while a command runs.
struct Known {
    /// Counts what happens.
    now: u64,
    commands: BTreeMap<EffectId, Command>,
    /// Changes that are recorded, oldest first.
    made: VecDeque<Made>,
}

#[derive(Debug, Clone)]
struct Command {
    since: u64,
    /// None while it runs.
    until: Option<u64>,
    root: PathBuf,
}

#[derive(Debug, Clone)]
struct Made {
    at: u64,
    by: EffectId,
    path: PathBuf,
    after: Option<FileContent>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { now: 0, commands: BTreeMap::new(), made: VecDeque::new() });

impl Known {
    fn runs(&self) -> bool {
        self.commands.values().any(|command| command.until.is_none())
    }
}

fn known() -> MutexGuard<'static, Known> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.now += 1;
    known
}

/// A command is about to start in this workspace.
pub(super) fn started(id: EffectId, root: PathBuf) {
    let mut known = known();
    let since = known.now;
    known.commands.insert(id, Command { since, until: None, root });
    if known.commands.len() > REMEMBERED_CHANGES {
        let oldest = known.commands.iter().find(|(_, command)| command.until.is_some()).map(|(id, _)| *id);
        oldest.map(|oldest| known.commands.remove(&oldest));
    }
}

/// A command has ended.
pub(super) fn ended(id: EffectId) {
    let mut known = known();
    let now = known.now;
    if let Some(command) = known.commands.get_mut(&id) {
        command.until.get_or_insert(now);
    }
    if !known.runs() {
        known.commands.clear();
        known.made.clear();
    }
}

/// A call records these changes, with paths relative to the workspace or absolute.
pub(crate) fn made(by: EffectId, root: &Path, changes: &[ChangedFile]) {
    let mut known = known();
    if !known.runs() {
        return;
    }
    let at = known.now;
    for change in changes {
        known.made.push_back(Made { at, by, path: root.join(&change.path), after: change.after });
    }
    let over = known.made.len().saturating_sub(REMEMBERED_CHANGES);
    known.made.drain(..over);
}

/// Whether one folder is in the other.
pub(super) fn overlap(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// What others did while a command ran.
#[derive(Debug)]
pub(super) struct Window {
    run: RunId,
    /// Whether a command of another run worked in the same folder meanwhile.
    is_shared: bool,
    /// The last change of each path that another call has recorded.
    made: BTreeMap<PathBuf, (RunId, Option<FileContent>)>,
}

/// What others did since this command started. `unsettled` are commands of other runs in the same folder.
pub(super) fn window(id: EffectId, root: &Path, unsettled: &[EffectId]) -> Window {
    let known = known();
    // Of a command of an earlier owner nobody knows when it started: before all that is known here.
    let since = known.commands.get(&id).map_or(0, |command| command.since);
    let overlaps = |(other, command): (&EffectId, &Command)| {
        other.run != id.run && command.until.is_none_or(|until| until > since) && overlap(&command.root, root)
    };
    let is_shared = !unsettled.is_empty() || known.commands.iter().any(overlaps);
    let others = known.made.iter().filter(|made| made.at > since && made.by != id);
    let made = others.map(|made| (made.path.clone(), (made.by.run, made.after))).collect();
    Window { run: id.run, is_shared, made }
}

impl Window {
    /// Who made a change; none if another call has recorded it.
    pub(super) fn attribute(&self, root: &Path, change: &ChangedFile) -> Option<Attribution> {
        match self.made.get(&root.join(&change.path)) {
            Some((_, after)) if *after == change.after => None,
            Some((run, _)) if *run != self.run => Some(Attribution::AnotherRun),
            _ if self.is_shared => Some(Attribution::AnotherRun),
            _ => Some(Attribution::Call),
        }
    }
}
