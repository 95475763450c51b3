//! `limulus doctor --repair`: runs one repair after asking, if the check found the damage that it is for.

use config::Globals;
use journal::check::{CheckReport, Checkpoint, Repair, What};
use journal::repair::{Did, Repairs};
use journal::{Read as _, Reader, Sqlite};
use runtime::repair::HeldSession;

use super::quarantine::keep_texts;
use super::{DoctorArgs, check_home, far, rest};
use crate::error::{CliError, Exit};
use crate::output::say;
use crate::progress_line::ProgressLine;
use crate::prompt;
use crate::show::doctor::promise;
use crate::show::human::{Page, printable};

const UNKNOWN: &str = "the journal was repaired; this run's work after its last entry is unknown";

/// Asks and repairs. Returns what was done, one line each.
pub(super) fn run(wanted: &Repair, args: &DoctorArgs, globals: &Globals) -> Result<Did, CliError> {
    let report = check_home(globals)?;
    // Views can be rebuilt and unused content removed at any time.
    let is_needed = report.findings.iter().any(|finding| is_for(wanted, finding.repair.as_ref()));
    if !is_needed && !matches!(wanted, Repair::Views | Repair::Collect) {
        return Err(CliError::Refused {
            exit: Exit::Refused,
            what: format!("nothing here needs the repair `{wanted}`; nothing was changed"),
            hint: "`limulus doctor` lists the damage and its repairs".to_owned(),
        });
    }
    ask(wanted, args)?;
    match wanted {
        Repair::Wal => Ok(Repairs::take(&globals.home)?.wal()?),
        Repair::Loss => {
            let mut did = Repairs::take(&globals.home)?.loss()?;
            did.extend(hold(globals)?);
            did.extend(rebuild_lists(globals)?);
            Ok(did)
        }
        Repair::Export => {
            let mut did = export(globals)?;
            did.extend(rebuild_lists(globals)?);
            Ok(did)
        }
        Repair::Views => {
            let repairs = Repairs::take(&globals.home)?;
            let mut did = vec![repairs.keep_copy()?];
            did.extend(repairs.tables()?);
            drop(repairs);
            did.extend(rebuild_lists(globals)?);
            Ok(did)
        }
        Repair::Dictionaries => {
            let repairs = Repairs::take(&globals.home)?;
            let mut did = vec![repairs.keep_copy()?];
            did.extend(repairs.dictionaries()?);
            Ok(did)
        }
        Repair::Snapshots(key) => {
            let corrupt = snapshots(&report, key.as_deref());
            Ok(Repairs::take(&globals.home)?.snapshots(&corrupt)?)
        }
        Repair::Session(key) => {
            let mut did = vec![Repairs::take(&globals.home)?.keep_copy()?];
            did.extend(match salvage(key, globals)? {
                Some(salvaged) => salvaged,
                None => quarantine(key, globals)?,
            });
            did.extend(rebuild_lists(globals)?);
            Ok(did)
        }
        Repair::Ledger => {
            let mut did = vec![Repairs::take(&globals.home)?.keep_copy()?];
            did.extend(salvage_ledger(globals)?);
            Ok(did)
        }
        Repair::Collect => rest::collect(&report, globals),
    }
}

/// Whether this repair is the one that a finding needs. `snapshots` is for those of every session.
fn is_for(wanted: &Repair, needed: Option<&Repair>) -> bool {
    match (wanted, needed) {
        (Repair::Snapshots(None), Some(Repair::Snapshots(_))) => true,
        (wanted, needed) => Some(wanted) == needed,
    }
}

/// Asks the user for a confirmation, unless `--yes` was given. An error means that nothing may be changed.
fn ask(wanted: &Repair, args: &DoctorArgs) -> Result<(), CliError> {
    if args.yes {
        return Ok(());
    }
    let refused =
        |what: String, hint: &str| Err(CliError::Refused { exit: Exit::Refused, what, hint: hint.to_owned() });
    if !prompt::is_possible() {
        return refused(
            format!("the repair `{wanted}` needs a confirmation, and there is no terminal to ask on"),
            "add --yes",
        );
    }
    for line in promise(wanted) {
        say!("  {line}");
    }
    if prompt::ask(&format!("? repair `{wanted}`"), " [y/N] ").is_some_and(|line| prompt::is_yes(&line)) {
        return Ok(());
    }
    refused("nothing was changed".to_owned(), "")
}

fn export(globals: &Globals) -> Result<Did, CliError> {
    let mut line = ProgressLine::new();
    let repairs = Repairs::take(&globals.home)?;
    let mut did = repairs.export(&mut |progress| line.show(|| far(progress)))?;
    line.clear();
    drop(repairs);
    did.extend(hold(globals)?);
    for finding in check_home(globals)?.findings {
        match finding.repair {
            // A session without an intact entry stays a finding: its user decides whether it is quarantined.
            Some(Repair::Session(key)) => did.extend(salvage(&key, globals)?.into_iter().flatten()),
            Some(Repair::Ledger) => did.extend(salvage_ledger(globals)?),
            _ => {}
        }
    }
    Ok(did)
}

/// Rebuilds every row of the views: they still listed what is lost.
fn rebuild_lists(globals: &Globals) -> Result<Did, CliError> {
    let unreadable = Sqlite::own(&globals.home)?.rebuild_views()?;
    let none = unreadable.iter().map(|(session, error)| format!("session {session} has no row in the views: {error}"));
    Ok(std::iter::once("the rows of every list are rebuilt from the entries".to_owned()).chain(none).collect())
}

/// Quarantines a session without an intact entry, and saves its readable text.
fn quarantine(key: &str, globals: &Globals) -> Result<Did, CliError> {
    let reader = Reader::open(&globals.home)?;
    let texts = keep_texts(&globals.home, &reader, key)?;
    let branches = reader.branches_of(key)?;
    drop(reader);
    let mut did = Repairs::take(&globals.home)?.quarantine(key)?;
    did.extend(texts.map(|name| format!("its readable text is saved as {name}")));
    let entries =
        branches.iter().map(|branch| format!("its entries stay: `limulus audit --branch {branch}` shows them"));
    did.extend(entries);
    Ok(did)
}

/// Starts a new branch at the last intact entry of a session. None if no entry is intact.
fn salvage(key: &str, globals: &Globals) -> Result<Option<Did>, CliError> {
    let reader = Reader::open(&globals.home)?;
    let Some(branch) = reader.current_branch(key)? else { return Ok(None) };
    let Some(good) = reader.verify(&reader.lineage(branch)?).last_good else { return Ok(None) };
    drop(reader);
    let journal = Sqlite::own(&globals.home)?;
    let Checkpoint { branch: parent, seq } = good.checkpoint;
    let salvaged = runtime::repair::salvage(&journal, key, (parent, seq), good.chain, UNKNOWN)?;
    let (at, new) = (good.checkpoint, salvaged.branch);
    let mut did = vec![
        format!("{key} continues in branch {new} after {at}; later entries are only in the old branch"),
        format!("the old branch stays as it is: `limulus audit {key} --branch {branch}` shows it"),
    ];
    did.extend(report_held(&salvaged.held));
    Ok(Some(did))
}

/// Starts a new branch of the ledger at its last intact entry.
fn salvage_ledger(globals: &Globals) -> Result<Did, CliError> {
    let reader = Reader::open(&globals.home)?;
    let (damaged, good) = (reader.ledger()?, reader.verify_ledger().last_good);
    drop(reader);
    let journal = Sqlite::own(&globals.home)?;
    let from = good.as_ref().map(|good| ((good.checkpoint.branch, good.checkpoint.seq), good.chain));
    let new = runtime::repair::salvage_ledger(&journal, from)?;
    let continues = match good {
        Some(good) => format!("branch {new} after {}; later entries are only in the old branch", good.checkpoint),
        None => format!("the empty branch {new}: none of its entries is intact"),
    };
    let old =
        damaged.map(|branch| format!("the old branch stays as it is: `limulus audit --branch {branch}` shows it"));
    let hint =
        "`limulus profiles list` shows the remaining cooldowns; `limulus profiles use` sets a preferred profile again";
    Ok([format!("the ledger continues in {continues}")].into_iter().chain(old).chain([hint.to_owned()]).collect())
}

/// Reports the run that needs a human and the messages that must be sent again.
fn report_held(held: &HeldSession) -> Did {
    let HeldSession { key, run, cancelled } = held;
    let run = run.map(|_| format!("{key} needs a human: `limulus resume {key} --force` resumes its run"));
    let cancelled =
        (*cancelled > 0).then(|| format!("{key}: {cancelled} waiting messages were cancelled; send them again"));
    run.into_iter().chain(cancelled).collect()
}

/// Stops every unfinished run until a human resumes it: its last work may be in the lost entries.
fn hold(globals: &Globals) -> Result<Did, CliError> {
    let journal = Sqlite::own(&globals.home)?;
    let mut did = vec![];
    for row in journal.sessions()? {
        // A session that cannot be folded is a finding of its own.
        if !row.unfinished && !runtime::repair::is_behind(&journal, &row).unwrap_or(false) {
            continue;
        }
        match runtime::repair::hold(&journal, &row.key, row.branch, UNKNOWN) {
            Ok(held) => did.extend(report_held(&held)),
            // The session is a finding of its own.
            Err(error) => did.push(format!("the run of {} could not be stopped: {error}", row.key)),
        }
    }
    Ok(did)
}

/// The corrupt snapshots of the report: of this session, or all.
fn snapshots(report: &CheckReport, key: Option<&str>) -> Vec<Checkpoint> {
    let corrupt = report.findings.iter().filter(|finding| finding.what == What::Snapshot);
    let of = corrupt.filter(|finding| key.is_none_or(|key| finding.place.session.as_deref() == Some(key)));
    of.filter_map(|finding| finding.place.snapshot).collect()
}

/// Lays out what a repair did.
pub(super) fn lay_out(did: &Did) -> String {
    let mut page = Page::default();
    for line in did {
        page.line(format!("→ {}", printable(line)));
    }
    if !did.is_empty() {
        page.line("");
    }
    page.text()
}
