//! What a home holds that nothing needs: told as notes, removed by `--repair collect`. What may not live here: what is damaged.

use std::collections::BTreeSet;

use engine::{EffectId, RunId};
use gateway::show::fold_branch;
use journal::check::CheckReport;
use journal::repair::Did;
use journal::{Collected, Read, Reader, Sqlite};
use tools::Orphans;

use crate::config::Globals;
use crate::error::{CliError, Exit};
use crate::show::doctor::size;
use crate::show::human::count;

const REPAIR: &str = "`limulus doctor --repair collect`";

/// Adds to a report what nothing needs. Where anything is wrong, nobody knows.
pub(super) fn note(report: &mut CheckReport, globals: &Globals) {
    if !report.findings.is_empty() {
        return;
    }
    if report.collectable != Collected::default() {
        report.notes.push(format!("{} that nothing needs; {REPAIR} removes them", told(&report.collectable)));
    }
    let found = Reader::open(&globals.home).map_err(CliError::from).and_then(|reader| orphans(&reader, globals));
    let Ok(Orphans { calls, foreign }) = found else {
        return report.notes.push("what is left in calls/ could not be looked at".to_owned());
    };
    if !calls.is_empty() {
        report
            .notes
            .push(format!("{} in calls/ of calls that nobody waits for; {REPAIR} removes them", folders(&calls)));
    }
    for name in foreign {
        report.notes.push(format!("calls/{name} is nothing that limulus made: it stays"));
    }
}

/// Removes it.
pub(super) fn collect(report: &CheckReport, globals: &Globals) -> Result<Did, CliError> {
    if !report.findings.is_empty() {
        return Err(CliError::Refused {
            exit: Exit::Refused,
            what: "nothing is collected in a home that something is wrong with: what it needs is not known".to_owned(),
            hint: "`limulus doctor` says what is to be mended first".to_owned(),
        });
    }
    let journal = Sqlite::own(&globals.home)?;
    let collected = journal.collect()?;
    let orphans = orphans(&journal, globals)?;
    orphans.remove().map_err(|error| unreadable(&error))?;
    Ok(vec![format!("{} that nothing needs are removed, and {} in calls/", told(&collected), folders(&orphans.calls))])
}

/// A run is under way as long as its session's row says so, and a process is held as long as its state lists it; the rows are what the entries give, or it is a finding.
fn orphans(read: &dyn Read, globals: &Globals) -> Result<Orphans, CliError> {
    let calls = globals.home.join("calls");
    // Listed first, for whoever owns the home may begin a run meanwhile.
    let listed = tools::orphans(&calls, &|_| false).map_err(|error| unreadable(&error))?;
    if listed == Orphans::default() {
        return Ok(listed);
    }
    let rows = read.sessions()?;
    let under_way: BTreeSet<RunId> = rows.iter().filter_map(|row| row.run).collect();
    let mut held = BTreeSet::new();
    for row in &rows {
        held.extend(fold_branch(read, row)?.processes.into_iter().map(|process| process.effect));
    }
    let is_open = |call: EffectId| under_way.contains(&call.run) || held.contains(&call);
    let mut still = tools::orphans(&calls, &is_open).map_err(|error| unreadable(&error))?;
    still.calls.retain(|path| listed.calls.contains(path));
    Ok(still)
}

fn unreadable(error: &std::io::Error) -> CliError {
    CliError::Failed {
        exit: Exit::Store,
        what: format!("what is in calls/ could not be looked at or removed ({error})"),
        hint: "look at the folder calls/ of the home".to_owned(),
    }
}

fn told(collected: &Collected) -> String {
    let Collected { bodies, bytes, progress } = *collected;
    let bodies = if bodies == 1 { "1 body".to_owned() } else { format!("{bodies} bodies") };
    format!("{bodies} ({}) and {} of output", size(bytes), count(progress as usize, "piece"))
}

fn folders(calls: &[std::path::PathBuf]) -> String {
    count(calls.len(), "folder")
}
