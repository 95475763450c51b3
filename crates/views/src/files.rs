//! What the runs of a session changed in files, and which of it was taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use engine::{
    Attribution, BranchId, CallId, CopyAct, EffectId, Event, FileContent, FilesChanged, Hash, NotKept, RunId,
    SealedCall, Settings, Timestamp, UndoStarted, WorkspaceCopy,
};
use journal::Read;
use tools::{FileVersion, PlannedFile, UndoPlan};

use crate::error::Error;

/// The tool that runs commands.
const COMMANDS: &str = "exec";
/// Characters that are shown of a command.
const COMMAND_CHARS: usize = 200;

/// A path before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetChange {
    /// What it was.
    pub before: Option<FileVersion>,
    /// What it is.
    pub after: Option<FileVersion>,
    /// Why it cannot be taken back; none = it can.
    pub not_kept: Option<NotKept>,
    /// Why it may be a change of somebody else; none = it is not.
    pub doubt: Option<Doubt>,
}

/// Why a change may be one of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Somebody changed the file between two calls of the run.
    Between,
    /// Another run worked in the folder at the same time.
    AnotherRun,
    /// No command of the run was running at that time.
    Outside,
}

impl Doubt {
    fn of(attribution: Attribution) -> Option<Self> {
        match attribution {
            Attribution::Call => None,
            Attribution::AnotherRun => Some(Self::AnotherRun),
            Attribution::Outside => Some(Self::Outside),
        }
    }

    /// The reason, for a person.
    pub fn why(self) -> &'static str {
        match self {
            Self::Between => "somebody else changed it between two calls of the run",
            Self::AnotherRun => "another run worked in the folder at the same time, so it may be its change",
            Self::Outside => "it was changed while no command of the run was running",
        }
    }
}

/// Why a change cannot be taken back, for a person.
pub fn why_not_kept(why: NotKept) -> &'static str {
    match why {
        NotKept::TooLarge => "it is larger than what is kept (undo.file_mb)",
        NotKept::Ignored => "rules such as .gitignore leave it out",
        NotKept::PastLimits => "the folder has more than what is kept of one (undo.workspace_mb, undo.workspace_files)",
        NotKept::Special => "it is a pipe, a socket or a device",
        NotKept::Unreadable => "it could not be read",
        NotKept::Unstable => "it changed while it was read",
        NotKept::Name => "its name is not UTF-8",
        NotKept::HomeFolder => "it is your home folder, or one above it",
        NotKept::TooManyFiles => "it has over 200000 files and folders",
        NotKept::TooSlow => "reading it takes too long",
        NotKept::TooManyChanges => "a command changed over 50,000 files",
        NotKept::SwitchedOff => "that is switched off (undo.commands)",
        NotKept::NotRecorded => "it could not be read, or what was in it could not be kept",
    }
}

/// What the runs of a line changed.
#[derive(Debug, Default)]
pub struct FileHistory {
    /// The runs that started, oldest first.
    pub runs: Vec<RunFiles>,
    /// The undos that ended, oldest first.
    undos: Vec<EndedUndo>,
}

/// What a run changed.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct RunFiles {
    pub run: RunId,
    /// How many runs had begun, with it.
    number: usize,
    settings: Hash,
    pub changes: Vec<FilesChanged>,
    /// Why changes of commands are not recorded.
    pub unrecorded: BTreeSet<NotKept>,
    /// The commands that it started, by the bodies of their arguments.
    commands: Vec<(CallId, Hash)>,
}

#[derive(Debug)]
struct EndedUndo {
    started: UndoStarted,
    left: BTreeSet<String>,
    at: Timestamp,
    /// How many runs had begun.
    runs: usize,
}

/// The copy in which a run worked.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct RunCopy {
    pub run: RunId,
    pub copy: WorkspaceCopy,
    pub state: CopyState,
}

/// What was taken over from a copy: into which folder, and per path what is there now and what was there before.
type Applied = (String, BTreeMap<String, NetChange>);

/// What became of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyState {
    /// Nothing yet: it waits for a decision.
    Open,
    /// Its changes were taken over, then.
    Applied(Timestamp),
    /// It was discarded, then.
    Discarded(Timestamp),
    /// Somebody removed it otherwise.
    Gone,
}

/// What was taken back of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undone {
    /// When that last happened.
    pub at: Timestamp,
    /// How many files.
    pub files: usize,
    /// How many files the run changed.
    pub of: usize,
}

/// What can be done with the files of a run, and from where each path comes.
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Wanted {
    pub run: RunId,
    /// The folder of the files; none = that in which the run worked.
    pub workspace: Option<String>,
    /// Per path what the undo expects to find, and what is to be there.
    pub files: BTreeMap<String, NetChange>,
    /// The paths that are to be names of one file again.
    pub links: Links,
}

/// Paths that are names of one file, in groups.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Links {
    groups: Vec<BTreeSet<String>>,
    of: BTreeMap<String, usize>,
}

impl Links {
    /// Takes two paths, with all that they are names of one file with, as names of one file.
    pub fn join(&mut self, one: &str, other: &str) {
        let (one, other) = (self.group(one), self.group(other));
        if one == other {
            return;
        }
        // The smaller group moves, so that no path moves often.
        let (small, large) =
            if self.groups[one].len() < self.groups[other].len() { (one, other) } else { (other, one) };
        for path in std::mem::take(&mut self.groups[small]) {
            self.of.insert(path.clone(), large);
            self.groups[large].insert(path);
        }
    }

    fn group(&mut self, path: &str) -> usize {
        if let Some(group) = self.of.get(path) {
            return *group;
        }
        self.of.insert(path.to_owned(), self.groups.len());
        self.groups.push(BTreeSet::from([path.to_owned()]));
        self.groups.len() - 1
    }

    /// The names of each file.
    pub fn groups(&self) -> impl Iterator<Item = &BTreeSet<String>> {
        self.groups.iter()
    }
}

impl FileHistory {
    /// Reads the line of a branch.
    pub fn read(read: &dyn Read, branch: BranchId) -> Result<Self, Error> {
        let line = read.history(branch)?;
        let mut history = Self::default();
        let mut open: BTreeMap<EffectId, UndoStarted> = BTreeMap::new();
        let mut calls: BTreeMap<CallId, SealedCall> = BTreeMap::new();
        for (_, entry) in line.entries() {
            match &entry.event {
                Event::RunStarted(e) => {
                    let (changes, commands, unrecorded) = (vec![], vec![], BTreeSet::new());
                    let number = history.runs.len() + 1;
                    let of_run = RunFiles { run: e.run, number, settings: e.settings, changes, commands, unrecorded };
                    history.runs.push(of_run);
                }
                Event::MessageSealed(e) => calls.extend(e.calls.iter().map(|call| (call.id, call.clone()))),
                Event::CallStarted(e) => {
                    let command = calls.get(&e.call).filter(|call| call.tool == COMMANDS);
                    if let Some((run, call)) = history.run_mut(e.call.run).zip(command) {
                        run.commands.push((call.id, call.arguments.hash));
                    }
                }
                Event::FilesChanged(e) => {
                    let Some(run) = history.run_mut(e.call.run) else { continue };
                    match e.not_kept.filter(|why| why.is_of_workspace()) {
                        Some(why) => drop(run.unrecorded.insert(why)),
                        None => run.changes.push(e.clone()),
                    }
                }
                Event::UndoStarted(e) => drop(open.insert(e.undo, e.clone())),
                Event::UndoEnded(e) => {
                    if let Some(started) = open.remove(&e.undo) {
                        let left = e.left.iter().map(|left| left.path.clone()).collect();
                        history.undos.push(EndedUndo { started, left, at: entry.at, runs: history.runs.len() });
                    }
                }
                _ => {}
            }
        }
        Ok(history)
    }

    fn run_mut(&mut self, run: RunId) -> Option<&mut RunFiles> {
        self.runs.iter_mut().rev().find(|known| known.run == run)
    }

    /// What this run changed, if it started.
    pub fn run(&self, run: RunId) -> Option<&RunFiles> {
        self.runs.iter().find(|known| known.run == run)
    }

    /// The run, or the last one if none is named, that worked in a copy: with it, and what became of it.
    pub fn copy(&self, read: &dyn Read, run: Option<RunId>) -> Result<Option<RunCopy>, Error> {
        for known in self.runs.iter().rev().filter(|known| run.is_none_or(|run| run == known.run)) {
            if let Some(copy) = settings(read, known.settings)?.and_then(|settings| settings.sandbox.copy) {
                return Ok(Some(RunCopy { run: known.run, state: self.copy_state(read, known, &copy)?, copy }));
            }
        }
        Ok(None)
    }

    /// What became of the copy of a run. What was decided before the run began was about another one.
    fn copy_state(&self, read: &dyn Read, run: &RunFiles, copy: &WorkspaceCopy) -> Result<CopyState, Error> {
        for undo in self.undos.iter().filter(|undo| undo.runs >= run.number && undo.left.is_empty()) {
            let Some(act) = undo.started.copy else { continue };
            let planned = plan(read, &undo.started.plan.hash)?.and_then(|plan| plan.copy);
            if planned.is_none_or(|planned| planned.removes) {
                return Ok(match act {
                    CopyAct::Apply => CopyState::Applied(undo.at),
                    CopyAct::Discard => CopyState::Discarded(undo.at),
                });
            }
        }
        Ok(if tools::has_copy(copy) { CopyState::Open } else { CopyState::Gone })
    }

    /// What was taken over from the copy of a run: the folder, and per path what is there now and what was there before.
    fn applied(&self, read: &dyn Read, run: RunId) -> Result<Option<Applied>, Error> {
        let mut applied = None;
        let acts = self.undos.iter().filter(|undo| undo.started.run == run);
        for undo in acts.filter(|undo| undo.started.copy == Some(CopyAct::Apply)) {
            let Some(plan) = plan(read, &undo.started.plan.hash)? else { continue };
            let (_, files) = applied.get_or_insert_with(|| (plan.workspace, BTreeMap::new()));
            for file in plan.files.into_iter().filter(|file| !undo.left.contains(&file.path)) {
                files.insert(file.path, NetChange { before: file.to, after: file.now, not_kept: None, doubt: None });
            }
        }
        Ok(applied.filter(|(_, files)| !files.is_empty()))
    }

    /// The last runs that changed files, oldest first.
    pub fn last(&self, number: usize) -> Vec<&RunFiles> {
        let changed = self.runs.iter().filter(|run| !run.net().is_empty() || !run.unrecorded.is_empty());
        let mut last: Vec<_> = changed.rev().take(number).collect();
        last.reverse();
        last
    }

    /// What an undo of this run would restore; if none is named, of the last run with anything to undo that is not
    /// `skipped`, without what an earlier undo had to leave as it was.
    pub fn to_undo(
        &self,
        read: &dyn Read,
        run: Option<RunId>,
        skipped: &BTreeSet<RunId>,
    ) -> Result<Option<Wanted>, Error> {
        let is_wanted = |known: &&RunFiles| run.map_or(!skipped.contains(&known.run), |run| run == known.run);
        for known in self.runs.iter().rev().filter(is_wanted) {
            let undone = self.undone(read, known.run)?;
            let passed = if run.is_none() { self.passed(read, known.run)? } else { BTreeSet::new() };
            let (workspace, mut files) = match self.applied(read, known.run)? {
                Some((workspace, files)) => (Some(workspace), files),
                // What was never in the workspace cannot be taken back there.
                None if self.copy(read, Some(known.run))?.is_some_and(|copy| copy.state != CopyState::Open) => continue,
                None => (None, known.net().into_iter().map(|(path, net)| (path, net.back())).collect()),
            };
            files.retain(|path, _| !undone.contains_key(path) && !passed.contains(path));
            if !files.is_empty() {
                return Ok(Some(Wanted { run: known.run, workspace, files, links: known.links() }));
            }
        }
        Ok(None)
    }

    /// What a redo of this run would make once more; of the run that was undone last, if none is named.
    pub fn to_redo(&self, read: &dyn Read, run: Option<RunId>) -> Result<Option<Wanted>, Error> {
        let undone = self.undos.iter().rev().filter(|undo| undo.started.copy.is_none()).map(|undo| undo.started.run);
        for undone in undone.filter(|undone| run.is_none_or(|run| run == *undone)) {
            let files = self.undone(read, undone)?;
            if !files.is_empty() {
                let links = self.links_before_undo(read, undone)?;
                let last =
                    self.undos.iter().rev().find(|undo| undo.started.run == undone && undo.started.copy.is_none());
                let plan = last.map(|last| plan(read, &last.started.plan.hash)).transpose()?.flatten();
                let workspace = plan.map(|plan| plan.workspace);
                return Ok(Some(Wanted { run: undone, workspace, files, links }));
            }
        }
        Ok(None)
    }

    /// The undos and redos of a run, oldest first.
    fn undos_of(&self, run: RunId) -> impl Iterator<Item = &EndedUndo> {
        self.undos.iter().filter(move |undo| undo.started.run == run && undo.started.copy.is_none())
    }

    /// The names of one file that the undos of a run found.
    fn links_before_undo(&self, read: &dyn Read, run: RunId) -> Result<Links, Error> {
        let mut links = Links::default();
        for undo in self.undos_of(run).filter(|undo| !undo.started.redo) {
            let files = plan(read, &undo.started.plan.hash)?.into_iter().flat_map(|plan| plan.files);
            files.for_each(|file| file.linked_now.iter().for_each(|other| links.join(&file.path, other)));
        }
        Ok(links)
    }

    /// The paths of a run that its undos had to leave as they were, and that were not reported to be restored since.
    fn passed(&self, read: &dyn Read, run: RunId) -> Result<BTreeSet<String>, Error> {
        let mut passed = BTreeSet::new();
        for undo in self.undos_of(run) {
            if undo.started.redo {
                passed.clear();
                continue;
            }
            passed.extend(undo.left.iter().cloned());
            passed.extend(plan(read, &undo.started.plan.hash)?.into_iter().flat_map(|plan| plan.passed));
        }
        Ok(passed)
    }

    /// What was taken back of a run and not made once more; none if nothing was.
    pub fn undone_of(&self, read: &dyn Read, run: &RunFiles) -> Result<Option<Undone>, Error> {
        let (undone, net) = (self.undone(read, run.run)?, run.net());
        let files = net.keys().filter(|path| undone.contains_key(*path)).count();
        let last = self.undos_of(run.run).filter(|undo| !undo.started.redo).last();
        Ok(last.filter(|_| files > 0).map(|undo| Undone { at: undo.at, files, of: net.len() }))
    }

    /// The paths of a run that were undone and not made once more: what an undo left there, and what was there before it.
    fn undone(&self, read: &dyn Read, run: RunId) -> Result<BTreeMap<String, NetChange>, Error> {
        let mut undone = BTreeMap::new();
        for undo in self.undos_of(run) {
            let Some(plan) = plan(read, &undo.started.plan.hash)? else { continue };
            for PlannedFile { path, now, to, .. } in plan.files {
                if undo.left.contains(&path) {
                    continue;
                }
                if undo.started.redo {
                    undone.remove(&path);
                } else {
                    undone.insert(path, NetChange { before: to, after: now, not_kept: None, doubt: None });
                }
            }
        }
        Ok(undone)
    }
}

fn plan(read: &dyn Read, hash: &Hash) -> Result<Option<UndoPlan>, Error> {
    // An erased plan cannot be taken back.
    Ok(read.body(hash)?.and_then(|plan| serde_json::from_slice(&plan).ok()))
}

impl NetChange {
    fn back(self) -> Self {
        Self { before: self.after, after: self.before, ..self }
    }
}

impl RunFiles {
    /// What it changed in all: each path once, without those that are as before.
    pub fn net(&self) -> BTreeMap<String, NetChange> {
        net([self])
    }

    /// The paths that were names of one file before it.
    fn links(&self) -> Links {
        let (mut links, mut seen) = (Links::default(), BTreeSet::new());
        for FilesChanged { path, linked, .. } in &self.changes {
            let is_first = seen.insert(path);
            if let Some(other) = linked.as_ref().filter(|_| is_first) {
                links.join(path, other);
            }
        }
        links
    }

    /// The folder in which it worked; none if its settings are gone.
    pub fn workspace(&self, read: &dyn Read) -> Result<Option<String>, Error> {
        workspace(read, self.settings)
    }

    /// Why not all of its changes are recorded, for a person.
    pub fn unrecorded(&self) -> Vec<String> {
        self.unrecorded.iter().map(|why| why_not_kept(*why).to_owned()).collect()
    }

    /// The commands that it started.
    pub fn commands(&self, read: &dyn Read) -> Result<Vec<String>, Error> {
        let mut commands = vec![];
        for (_, arguments) in &self.commands {
            let arguments = read.body(arguments)?.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let command =
                arguments.and_then(|arguments: serde_json::Value| arguments["command"].as_str().map(str::to_owned));
            commands.push(super::excerpt(&command.unwrap_or_else(|| "[erased]".to_owned()), COMMAND_CHARS));
        }
        Ok(commands)
    }
}

/// The workspace of the run with these settings.
pub fn workspace(read: &dyn Read, of: Hash) -> Result<Option<String>, Error> {
    Ok(settings(read, of)?.map(|settings| settings.workspace))
}

fn settings(read: &dyn Read, settings: Hash) -> Result<Option<Settings>, Error> {
    Ok(read.body(&settings)?.and_then(|bytes| Settings::from_bytes(&bytes).ok()))
}

/// What several runs changed together, in order.
pub fn net<'a>(runs: impl IntoIterator<Item = &'a RunFiles>) -> BTreeMap<String, NetChange> {
    let mut net: BTreeMap<String, (NetChange, Vec<Option<FileVersion>>)> = BTreeMap::new();
    for change in runs.into_iter().flat_map(|run| &run.changes) {
        let version = |content: Option<FileContent>, mode| content.map(|content| FileVersion { content, mode });
        let (before, after) = (version(change.before, change.mode.before), version(change.after, change.mode.after));
        let first = || (NetChange { before, after, not_kept: None, doubt: None }, vec![before]);
        let (whole, seen) = net.entry(change.path.clone()).or_insert_with(first);
        // A command in the background records once more from its start, so any state that was seen will do.
        let is_between = !seen.contains(&before) && change.not_kept.is_none();
        seen.push(after);
        whole.after = after;
        whole.not_kept = whole.not_kept.or(change.not_kept);
        whole.doubt = whole.doubt.max(Doubt::of(change.attribution)).max(is_between.then_some(Doubt::Between));
    }
    let is_change =
        |change: &NetChange| change.before != change.after || change.not_kept.is_some() && change.before.is_some();
    net.into_iter().map(|(path, (change, _))| (path, change)).filter(|(_, change)| is_change(change)).collect()
}

/// Whether a path is one of these, or in one of these folders. Paths are relative to the workspace, or absolute.
/// The workspace may be named by a link.
pub fn is_among(workspaces: &[PathBuf], path: &str, among: &[String]) -> bool {
    let is_in = |root: &PathBuf, chosen: &String| root.join(path).starts_with(root.join(chosen));
    among.is_empty() || among.iter().any(|chosen| workspaces.iter().any(|root| is_in(root, chosen)))
}
