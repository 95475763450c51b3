//! Content of a home that nothing refers to: reported as notes, removed by `--repair collect`.

use std::collections::BTreeSet;

use config::{Globals, size};
use engine::{EffectId, RunId};
use journal::check::CheckReport;
use journal::repair::Did;
use journal::{Collected, Read, Reader, Sqlite};
use tools::Orphans;
use views::fold_branch;

use crate::error::{CliError, Exit};
use crate::show::human::count;

const REPAIR: &str = "`limulus doctor --repair collect`";

/// Adds notes about unused content. In a damaged home nobody knows what is unused.
pub(super) fn note(report: &mut CheckReport, globals: &Globals) {
    if !report.findings.is_empty() {
        return;
    }
    if report.collectable != Collected::default() {
        report.notes.push(format!("{} that nothing refers to; {REPAIR} removes them", amount(&report.collectable)));
    }
    let reader = Reader::open(&globals.home).map_err(CliError::from);
    match reader.as_ref().map_err(|_| ()).and_then(|reader| owed(reader).map_err(|_| ())) {
        Ok(owed) => report.notes.extend(owed),
        Err(()) => report.notes.push("what is owed to deleted conversations could not be read".to_owned()),
    }
    let found = reader.and_then(|reader| orphans(&reader, globals));
    let Ok(Orphans { calls, foreign }) = found else {
        return report.notes.push("calls/ could not be checked for unused folders".to_owned());
    };
    if !calls.is_empty() {
        report
            .notes
            .push(format!("{} in calls/ of calls that no run waits for; {REPAIR} removes them", folders(&calls)));
    }
    for name in foreign {
        report.notes.push(format!("calls/{name} was not created by limulus: it stays"));
    }
}

/// The deleted conversations whose content is still there.
fn owed(read: &dyn Read) -> Result<Vec<String>, CliError> {
    let mut notes = vec![];
    for row in read.unfinished()? {
        let Some(erasure) = fold_branch(read, &row)?.account.erasure else { continue };
        let why = erasure.failed.map(|failed| format!(" ({})", failed.why)).unwrap_or_default();
        let key = &row.key;
        notes.push(format!("a conversation of {key} is deleted and not erased{why}; `limulus resume {key}` erases it"));
    }
    Ok(notes)
}

/// Removes unused content from the journal and from `calls/`.
pub(super) fn collect(report: &CheckReport, globals: &Globals) -> Result<Did, CliError> {
    if !report.findings.is_empty() {
        return Err(CliError::Refused {
            exit: Exit::Refused,
            what: "unused content is not removed while the home is damaged".to_owned(),
            hint: "run `limulus doctor` and repair that first".to_owned(),
        });
    }
    let journal = Sqlite::own(&globals.home)?;
    let collected = journal.collect()?;
    let orphans = orphans(&journal, globals)?;
    orphans.remove().map_err(|error| unreadable(&error))?;
    Ok(vec![format!(
        "{} that nothing refers to are removed, and {} in calls/",
        amount(&collected),
        folders(&orphans.calls)
    )])
}

/// Finds folders of calls that no run waits for. The row of a session names its unfinished run, and the state of the
/// session its processes; rows that contradict the entries are findings.
fn orphans(read: &dyn Read, globals: &Globals) -> Result<Orphans, CliError> {
    let calls = globals.home.join("calls");
    // Listed first: an owner may start a run in the meantime.
    let listed = tools::orphans(&calls, &|_| false).map_err(|error| unreadable(&error))?;
    if listed == Orphans::default() {
        return Ok(listed);
    }
    let rows = read.sessions()?;
    let unfinished: BTreeSet<RunId> = rows.iter().filter_map(|row| row.run).collect();
    let mut processes = BTreeSet::new();
    for row in &rows {
        processes.extend(fold_branch(read, row)?.account.processes.into_iter().map(|process| process.effect));
    }
    let is_open = |call: EffectId| unfinished.contains(&call.run) || processes.contains(&call);
    let mut still = tools::orphans(&calls, &is_open).map_err(|error| unreadable(&error))?;
    still.calls.retain(|path| listed.calls.contains(path));
    Ok(still)
}

fn unreadable(error: &std::io::Error) -> CliError {
    CliError::Failed {
        exit: Exit::Store,
        what: format!("the content of calls/ could not be read or removed ({error})"),
        hint: "check the permissions of the folder calls/ in the home".to_owned(),
    }
}

fn amount(collected: &Collected) -> String {
    let Collected { bodies, bytes, progress } = *collected;
    let bodies = if bodies == 1 { "1 body".to_owned() } else { format!("{bodies} bodies") };
    format!("{bodies} ({}) and {} of output", size(bytes), count(progress as usize, "piece"))
}

fn folders(calls: &[std::path::PathBuf]) -> String {
    count(calls.len(), "folder")
}
