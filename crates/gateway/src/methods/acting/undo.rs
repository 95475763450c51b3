//! `runs.undo`: takes back what a run changed in files, or makes it once more. The response comes when it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{BodyKind, Command, Content, Event, FileKind, LeftFile, RunId, SessionRow};
use journal::{Journal, Read};
use protocol::method::{FileAct, FilesUndone, RunParams, UndoParams, UndoneFile};
use tools::{FileStore, FileVersion, PlannedFile, Protected, StoreLimits, UndoPlan};
use views::files::{FileHistory, Links, NetChange, RunFiles, Wanted, is_among, why_not_kept, workspace};
use views::{background, fold_branch, lookup, overlap};

use super::copies;
use super::end::reading;
use crate::connection::Caller;
use crate::error::Error;
use crate::methods::reading::Contents;
use crate::service::Service;

/// Paths that a refusal names.
const NAMED: usize = 5;
/// Files up to which a diff is made of those that are asked about.
const DIFFED: usize = 50;
/// Names of a file that its other names are linked to, of those that are restored and of the others.
const LINKED: usize = 2;

pub(in crate::methods) async fn undo(caller: &Arc<Caller>, params: UndoParams) -> Result<FilesUndone, Error> {
    let service = &caller.service;
    let asked = params.clone();
    let (row, run) = reading(service, move |journal| find(journal, &asked)).await?;
    // What an earlier owner began is completed first, whatever is asked now.
    if ended(service, &row).await?.is_none() {
        service.runtime.open(&row.key, &row.agent, vec![]).await?;
        until_done(service, &row).await?;
    }
    super::record(service).await?;
    let (asked, of_home) = (params.clone(), Arc::clone(service));
    let of = row.clone();
    let planned = reading(service, move |journal| plan(&of_home, journal, (&of, run), &asked)).await?;
    let Planned { undone, plan } = planned;
    if params.dry_run {
        return Ok(undone);
    }
    may_begin(&undone, &plan, &params)?;
    let content = serde_json::to_vec(&plan).map_err(|error| Error::bug(format!("a plan is not JSON: {error}")))?;
    let plan = Content::text(BodyKind::Arguments, &String::from_utf8_lossy(&content));
    super::ask(service, &row, Command::Undo { run: undone.run_id, redo: params.redo, copy: params.copy, plan }).await?;
    let left = until_done(service, &row).await?;
    let files = undone.files.into_iter().map(|file| with_left(file, &left)).collect();
    Ok(FilesUndone { done: true, files, ..undone })
}

fn with_left(file: UndoneFile, left: &[LeftFile]) -> UndoneFile {
    let why = left.iter().find(|left| left.path == file.path || left.path == ".").map(|left| left.why.clone());
    UndoneFile { left: why.or(file.left), ..file }
}

/// The session, and the run if one is named.
fn find(journal: &dyn Journal, params: &UndoParams) -> Result<(SessionRow, Option<RunId>), Error> {
    if let Some(run) = &params.run_id {
        let choice = RunParams { run: Some(run.clone()), ..RunParams::default() };
        let found = lookup::run(journal, &choice)?;
        return Ok((found.session, Some(found.run)));
    }
    Ok((lookup::session(journal, params.session_key.as_deref())?, None))
}

pub(super) struct Planned {
    pub(super) undone: FilesUndone,
    pub(super) plan: UndoPlan,
}

/// Looks at the files and decides what happens to each. May block. With `skip`, a run of which nothing can be done is
/// passed over.
fn plan(
    service: &Service,
    read: &dyn Read,
    (row, run): (&SessionRow, Option<RunId>),
    params: &UndoParams,
) -> Result<Planned, Error> {
    let history = FileHistory::read(read, row.branch)?;
    if let Some(act) = params.copy {
        return copies::plan((service, read), (row, &history), (run, act), params);
    }
    let known = history.runs.iter().map(|known| known.run);
    let before = params.before.as_deref().and_then(|before| before.parse::<RunId>().ok());
    let mut skipped: BTreeSet<RunId> = known.skip_while(|run| before != Some(*run)).collect();
    loop {
        let wanted = if params.redo { history.to_redo(read, run)? } else { history.to_undo(read, run, &skipped)? };
        let Some(wanted) = wanted else { return Err(nothing(row, &history, run, params.redo)) };
        let of = wanted.run;
        let planned = plan_of((service, read), (row, &history), wanted, params)?;
        if params.redo || !params.skip || run.is_some() || !planned.plan.files.is_empty() {
            return Ok(planned);
        }
        skipped.insert(of);
    }
}

/// The plan for what is wanted of one run.
fn plan_of(
    (service, read): (&Service, &dyn Read),
    (row, history): (&SessionRow, &FileHistory),
    Wanted { run, workspace, files, links }: Wanted,
    params: &UndoParams,
) -> Result<Planned, Error> {
    let known = history.run(run);
    let of_run = || Ok::<_, Error>(known.map(|run| run.workspace(read)).transpose()?.flatten());
    let workspace = workspace.map_or_else(of_run, |workspace| Ok(Some(workspace)))?;
    let workspace = workspace.ok_or_else(|| Error::State {
        what: format!("the settings of run {run} are gone, so its workspace is not known"),
        hint: "restore the files by hand".to_owned(),
    })?;
    works_elsewhere(read, &workspace)?;
    let roots = [PathBuf::from(&workspace), std::fs::canonicalize(&workspace).unwrap_or_default()];
    must_be_changed((run, known), (&files, &roots), params)?;
    let files: Vec<_> = files.into_iter().filter(|(path, _)| is_among(&roots, path, &params.paths)).collect();
    let (mut planned, shown) = judged(service, &workspace, files, params);
    link_up(&mut planned, &links);
    let commands = known.map(|run| run.commands(read)).transpose()?.unwrap_or_default();
    let unrecorded = known.map(RunFiles::unrecorded).unwrap_or_default();
    let (session_key, redo) = (row.key.clone(), params.redo);
    let passed = shown.iter().filter(|file| file.left.is_some()).map(|file| file.path.clone()).collect();
    let plan = UndoPlan { workspace: workspace.clone(), files: planned, passed, copy: None };
    let background = background(service.home(), read, &views::texts(read), Some(&workspace))?;
    let undone = FilesUndone {
        session_key,
        run_id: run,
        redo,
        copy: None,
        done: false,
        workspace,
        files: shown,
        commands,
        unrecorded,
        background,
    };
    Ok(Planned { undone, plan })
}

/// What happens to each of these files of a workspace: the plan, and what is shown of it. May block.
pub(super) fn judged(
    service: &Service,
    workspace: &str,
    files: Vec<(String, NetChange)>,
    params: &UndoParams,
) -> (Vec<PlannedFile>, Vec<UndoneFile>) {
    let paths: Vec<String> = files.iter().map(|(path, _)| path.clone()).collect();
    let (store, protected) = (store(service), protected(service));
    let versions = tools::versions(Path::new(workspace), &protected, &paths);
    let shared = tools::shared_names(Path::new(workspace), &protected, &paths);
    let contents = params.diffs.then(|| Contents::new(service.home(), workspace));
    let (mut planned, mut shown) = (vec![], vec![]);
    for (((path, change), now), linked_now) in files.into_iter().zip(versions).zip(shared) {
        let (choice, to) = (Choice::of(&path, params), change.after);
        let Some((mut file, plan)) = judge(path, change, now.clone(), (&store, choice)) else { continue };
        if let Some((contents, now)) =
            contents.as_ref().zip(now.ok()).filter(|_| file.is_asked() && shown.len() < DIFFED)
        {
            let change = NetChange { before: now, after: to, not_kept: None, doubt: None };
            let compared = contents.compare(&file.path, change);
            file.diff = compared.diff.or(compared.note);
        }
        planned.extend(plan.map(|plan| PlannedFile { linked_now, ..plan }));
        shown.push(file);
    }
    (planned, shown)
}

/// The kept contents of files.
pub(super) fn store(service: &Service) -> FileStore {
    FileStore::new(service.home().join("files"), StoreLimits::NONE)
}

/// What no tool opens.
pub(super) fn protected(service: &Service) -> Protected {
    service.runtime.resolver().redaction().protected.and(&Protected::folder(service.home().to_path_buf()))
}

/// Says of each file which others it becomes one file with: the first of its names that are restored, and names that may be as they
/// are to be already. A few are enough, however many names a file has: the others follow them.
fn link_up(planned: &mut [PlannedFile], links: &Links) {
    let places: BTreeMap<String, usize> =
        planned.iter().enumerate().map(|(place, file)| (file.path.clone(), place)).collect();
    for group in links.groups() {
        let (mut restored, others): (Vec<&String>, Vec<&String>) =
            group.iter().partition(|name| places.contains_key(*name));
        // The order in which they are restored.
        restored.sort_by(|one, other| Path::new(one).cmp(Path::new(other)));
        let first: Vec<&String> = restored.iter().take(LINKED).chain(others.iter().take(LINKED)).copied().collect();
        for name in &restored {
            let to = first.iter().filter(|other| *other != name).map(|other| (*other).clone());
            planned[places[*name]].linked_to = to.collect();
        }
    }
}

/// Refuses paths that the run has not changed, or that are as they are to be already.
fn must_be_changed(
    (run, known): (RunId, Option<&RunFiles>),
    (files, roots): (&BTreeMap<String, NetChange>, &[PathBuf]),
    params: &UndoParams,
) -> Result<(), Error> {
    let names = |changed: &BTreeMap<String, NetChange>, chosen: &String| {
        changed.keys().any(|path| is_among(roots, path, std::slice::from_ref(chosen)))
    };
    let Some(chosen) = params.paths.iter().find(|chosen| !names(files, chosen)) else { return Ok(()) };
    let was_changed = known.is_some_and(|run| names(&run.net(), chosen));
    let what = match (was_changed, params.redo) {
        (false, _) => format!("run {run} did not change {chosen}"),
        (true, false) => format!("the change of {chosen} by run {run} is taken back already"),
        (true, true) => format!("the change of {chosen} by run {run} was not taken back"),
    };
    Err(Error::State { what, hint: format!("`limulus diff {run}` shows what it changed") })
}

/// What the user says of a file that was changed since, or that somebody else may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Unknown,
    Overwrite,
    Keep,
    /// It stays, for the reason for which it is asked about.
    Skip,
}

impl Choice {
    fn of(path: &str, params: &UndoParams) -> Self {
        let named = |paths: &[String]| paths.iter().any(|named| named == path);
        match () {
            () if named(&params.keep) => Self::Keep,
            () if params.force || named(&params.overwrite) => Self::Overwrite,
            () if params.skip => Self::Skip,
            () => Self::Unknown,
        }
    }
}

/// What happens to a path; none if it is as it is to be. `change` is what is expected there, and what is to be there.
fn judge(
    path: String,
    change: NetChange,
    now: Result<Option<FileVersion>, String>,
    (store, choice): (&FileStore, Choice),
) -> Option<(UndoneFile, Option<PlannedFile>)> {
    let (expected, to) = (change.before, change.after);
    let kind = to.or(expected).map_or(FileKind::File, |version| version.content.kind);
    let act = match (&now, to) {
        (_, None) => FileAct::Removed,
        (Ok(None), Some(_)) => FileAct::Created,
        (_, Some(_)) => FileAct::Changed,
    };
    let mut file =
        UndoneFile { path: path.clone(), kind, act, left: None, changed_since: false, maybe_others: None, diff: None };
    let now = match (now, change.not_kept) {
        (Ok(now), _) if now == to && change.not_kept.is_none() => return None,
        (Ok(None), _) if to.is_none() => return None,
        (_, Some(why)) => return Some((UndoneFile { left: Some(why_not_kept(why).to_owned()), ..file }, None)),
        (Ok(now), None) => now,
        (Err(why), None) => return Some((UndoneFile { left: Some(why), ..file }, None)),
    };
    let is_there = now.map(|now| now.content) == to.map(|to| to.content);
    let lacks = to.and_then(|to| to.content.hash).is_some_and(|hash| !is_there && !store.has(&hash));
    file.changed_since = now != expected && !lacks;
    file.maybe_others = change.doubt.filter(|_| !lacks).map(|doubt| doubt.why().to_owned());
    let is_in_question = file.changed_since || file.maybe_others.is_some();
    file.left = match choice {
        _ if lacks => Some(tools::NOT_KEPT.to_owned()),
        Choice::Keep if is_in_question => {
            file.changed_since = false;
            Some("you keep it".to_owned())
        }
        Choice::Unknown | Choice::Skip if file.changed_since => {
            file.changed_since = choice == Choice::Unknown;
            Some("it was changed since, by somebody else or by a later run".to_owned())
        }
        Choice::Unknown | Choice::Skip => file.maybe_others.clone(),
        Choice::Keep | Choice::Overwrite => None,
    };
    let plan = file.left.is_none().then_some(PlannedFile { path, now, to, linked_now: None, linked_to: vec![] });
    Some((file, plan))
}

/// Refuses to overwrite what was changed since, and to do nothing.
fn may_begin(undone: &FilesUndone, plan: &UndoPlan, params: &UndoParams) -> Result<(), Error> {
    let is_conflict = |file: &&UndoneFile| file.changed_since && file.left.is_some();
    let changed: Vec<&str> = undone.files.iter().filter(is_conflict).map(|file| file.path.as_str()).collect();
    if !changed.is_empty() && !params.force {
        let more = if changed.len() > NAMED { ", …" } else { "" };
        let named = changed.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        return Err(Error::State {
            what: format!("changed since, by somebody else or by a later run: {named}{more}; nothing was changed"),
            hint: "--files PATH takes others alone, --skip leaves them, --force overwrites them (and can be undone)"
                .to_owned(),
        });
    }
    if plan.files.is_empty() && !plan.copy.as_ref().is_some_and(|copy| copy.removes) {
        let why = undone.files.iter().find_map(|file| Some(format!("{}: {}", file.path, file.left.as_deref()?)));
        let unrecorded =
            || undone.unrecorded.first().map(|why| format!("what commands changed is not recorded: {why}"));
        let why = why.or_else(unrecorded).unwrap_or_else(|| "every file is as it is to be already".to_owned());
        return Err(Error::State {
            what: format!("there is nothing to do: {why}"),
            hint: if params.redo || params.run_id.is_some() || undone.files.is_empty() {
                "`limulus diff` shows what the run changed".to_owned()
            } else {
                format!(
                    "--skip goes one run further back; `limulus diff {}` shows what this one changed",
                    undone.run_id
                )
            },
        });
    }
    Ok(())
}

fn nothing(row: &SessionRow, history: &FileHistory, run: Option<RunId>, redo: bool) -> Error {
    let of = run.map_or_else(|| format!("in {}", row.key), |run| format!("of run {run}"));
    let hint = "`limulus diff` shows what was changed, and what is not recorded".to_owned();
    if redo {
        return Error::State { what: format!("there is no undo {of} that can be made undone"), hint };
    }
    let last = run.map_or_else(|| history.runs.last(), |run| history.run(run));
    let unrecorded = last.and_then(|run| run.unrecorded().into_iter().next());
    let why = unrecorded.map(|why| format!("; what commands changed is not recorded: {why}")).unwrap_or_default();
    Error::State { what: format!("there are no changes of files {of} that can be undone{why}"), hint }
}

/// Refuses while a run of any session works in this folder.
pub(super) fn works_elsewhere(read: &dyn Read, folder: &str) -> Result<(), Error> {
    for row in read.sessions()? {
        let Some(run) = row.run.map(|run| read.run(run)).transpose()?.flatten() else { continue };
        let Some(other) = workspace(read, run.settings)? else { continue };
        if overlap(Path::new(folder), Path::new(&other)) {
            return Err(Error::State {
                what: format!("run {} of {} is unfinished and works in {other}", run.run, row.key),
                hint: "wait for its end, or end it with `limulus runs abort`".to_owned(),
            });
        }
    }
    Ok(())
}

/// Waits until no undo of the session is under way. Returns the files that the last one left as they were.
async fn until_done(service: &Service, row: &SessionRow) -> Result<Vec<LeftFile>, Error> {
    let (mut observed, mut broken, mut leaving) = (service.hub.observed(), service.runtime.broken(), service.leaving());
    loop {
        // An end that is recorded after this read is notified.
        if let Some(left) = ended(service, row).await? {
            return Ok(left);
        }
        tokio::select! {
            Ok(()) = observed.changed() => {}
            Ok(error) = broken.wait_for(Option::is_some) => return Err(error.clone().expect("waited for").into()),
            Ok(_) = leaving.wait_for(|leaving| *leaving) => return Err(runtime::Error::Leaving.into()),
        }
    }
}

/// The files that the last undo of a session left as they were; none while it is under way.
async fn ended(service: &Service, row: &SessionRow) -> Result<Option<Vec<LeftFile>>, Error> {
    let row = row.clone();
    let look = move |journal: &dyn Journal| {
        if fold_branch(journal, &row)?.account.undo.is_some() {
            return Ok(None);
        }
        let line = journal.history(row.branch)?;
        let ends = line.entries().filter_map(|(_, entry)| match &entry.event {
            Event::UndoEnded(e) => Some(e.left.clone()),
            _ => None,
        });
        Ok(Some(ends.last().unwrap_or_default()))
    };
    reading(service, look).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r17_a_file_of_many_names_makes_a_small_plan() {
        let names: Vec<String> = (0..4_000).map(|number| format!("n{number:04}")).collect();
        let mut links = Links::default();
        for name in &names {
            links.join(name, "a");
        }
        links.join("other", "one");
        let plan = |path: &String| PlannedFile {
            path: path.clone(),
            now: None,
            to: None,
            linked_now: None,
            linked_to: vec![],
        };
        let mut planned: Vec<PlannedFile> = names.iter().rev().map(plan).chain([plan(&"other".to_owned())]).collect();
        link_up(&mut planned, &links);
        let of = |path: &str| planned.iter().find(|file| file.path == path).unwrap().linked_to.join(" ");
        assert_eq!([of("n0000"), of("n0001"), of("n3999")], ["n0001 a", "n0000 a", "n0000 n0001 a"]);
        assert_eq!(of("other"), "one");
        assert!(planned.iter().all(|file| file.linked_to.len() <= 2 * LINKED));
    }
}
