//! `limulus doctor --repair`: runs one repair after asking, if the check found the damage that it is for.

use std::io::{IsTerminal as _, Write as _};

use journal::check::{CheckReport, Checkpoint, Repair, What};
use journal::repair::{Did, Repairs};
use journal::{Read as _, Reader, Sqlite};
use runtime::repair::HeldSession;

use super::quarantine::keep_texts;
use super::{DoctorArgs, Line, look, rest};
use crate::config::Globals;
use crate::error::{CliError, Exit};
use crate::show::doctor::promise;
use crate::show::human::{Page, printable};

const UNKNOWN: &str = "the journal was mended, and what this run did after the last entry that is there is not known";

/// Mends; gives what was done, a line each.
pub(super) fn run(wanted: &Repair, args: &DoctorArgs, globals: &Globals) -> Result<Did, CliError> {
    let report = look(globals)?;
    // Views can be made anew, and what nothing needs be removed, at will.
    let is_needed = report.findings.iter().any(|finding| is_for(wanted, finding.repair.as_ref()));
    if !is_needed && !matches!(wanted, Repair::Views | Repair::Collect) {
        return Err(CliError::Refused {
            exit: Exit::Refused,
            what: format!("nothing here needs the repair `{wanted}`; nothing was changed"),
            hint: "`limulus doctor` says what is wrong, and which repair is for it".to_owned(),
        });
    }
    ask(wanted, args)?;
    match wanted {
        Repair::Wal => Ok(Repairs::take(&globals.home)?.wal()?),
        Repair::Loss => {
            let mut did = Repairs::take(&globals.home)?.loss()?;
            did.extend(hold(globals)?);
            did.extend(make_lists(globals)?);
            Ok(did)
        }
        Repair::Export => {
            let mut did = export(globals)?;
            did.extend(make_lists(globals)?);
            Ok(did)
        }
        Repair::Views => {
            let mender = Repairs::take(&globals.home)?;
            let mut did = vec![mender.keep_copy()?];
            did.extend(mender.tables()?);
            drop(mender);
            did.extend(make_lists(globals)?);
            Ok(did)
        }
        Repair::Snapshots(key) => {
            let bad = snapshots(&report, key.as_deref());
            Ok(Repairs::take(&globals.home)?.snapshots(&bad)?)
        }
        Repair::Session(key) => {
            let mut did = vec![Repairs::take(&globals.home)?.keep_copy()?];
            did.extend(match salvage(key, globals)? {
                Some(salvaged) => salvaged,
                None => put_aside(key, globals)?,
            });
            did.extend(make_lists(globals)?);
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

/// Whether what was asked for is what a finding needs; all snapshots are those of every session.
fn is_for(wanted: &Repair, needed: Option<&Repair>) -> bool {
    match (wanted, needed) {
        (Repair::Snapshots(None), Some(Repair::Snapshots(_))) => true,
        (wanted, needed) => Some(wanted) == needed,
    }
}

/// Nothing is changed that nobody has said yes to.
fn ask(wanted: &Repair, args: &DoctorArgs) -> Result<(), CliError> {
    if args.yes {
        return Ok(());
    }
    let refused =
        |what: String, hint: &str| Err(CliError::Refused { exit: Exit::Refused, what, hint: hint.to_owned() });
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return refused(format!("the repair `{wanted}` needs a yes, and there is no terminal to ask on"), "add --yes");
    }
    for line in promise(wanted) {
        eprintln!("  {line}");
    }
    eprint!("? repair `{wanted}` [y/N] ");
    // Whoever closed stderr is not asked, and has not said yes.
    let _ = std::io::stderr().flush();
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).is_ok();
    if read && matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "是" | "好") {
        return Ok(());
    }
    refused("nothing was changed".to_owned(), "")
}

fn export(globals: &Globals) -> Result<Did, CliError> {
    let mut line = Line::new();
    let mender = Repairs::take(&globals.home)?;
    let mut did = mender.export(&mut |progress| line.show(progress))?;
    line.clear();
    drop(mender);
    did.extend(hold(globals)?);
    for finding in look(globals)?.findings {
        match finding.repair {
            // One that has no good entry stays a finding: whether it is put aside is for its user to say.
            Some(Repair::Session(key)) => did.extend(salvage(&key, globals)?.into_iter().flatten()),
            Some(Repair::Ledger) => did.extend(salvage_ledger(globals)?),
            _ => {}
        }
    }
    Ok(did)
}

/// Makes every row of the views anew: they also told what is not there any more.
fn make_lists(globals: &Globals) -> Result<Did, CliError> {
    let unreadable = Sqlite::own(&globals.home)?.rebuild_views()?;
    let none = unreadable.iter().map(|(session, error)| format!("session {session} has no row in the views: {error}"));
    Ok(std::iter::once("the rows of every list are made anew from the entries".to_owned()).chain(none).collect())
}

/// Puts a session aside of which nothing can be folded, with what can be read of it.
fn put_aside(key: &str, globals: &Globals) -> Result<Did, CliError> {
    let reader = Reader::open(&globals.home)?;
    let texts = keep_texts(&globals.home, &reader, key)?;
    let branches = reader.branches_of(key)?;
    drop(reader);
    let mut did = Repairs::take(&globals.home)?.quarantine(key)?;
    did.extend(texts.map(|name| format!("what can be read of it is kept as {name}")));
    let shown = branches.iter().map(|branch| format!("its entries stay: `limulus audit --branch {branch}` shows them"));
    did.extend(shown);
    Ok(did)
}

/// Begins a new branch at the last good entry of a session; none where there is no such entry.
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
        format!("{key} goes on in the new branch {new}, from {at}; what came after is not in it"),
        format!("the damaged branch stays as it is: `limulus audit {key} --branch {branch}` shows it"),
    ];
    did.extend(told_of(&salvaged.held));
    Ok(Some(did))
}

/// Begins a new branch of the ledger at its last good entry.
fn salvage_ledger(globals: &Globals) -> Result<Did, CliError> {
    let reader = Reader::open(&globals.home)?;
    let (damaged, good) = (reader.ledger()?, reader.verify_ledger().last_good);
    drop(reader);
    let journal = Sqlite::own(&globals.home)?;
    let from = good.as_ref().map(|good| ((good.checkpoint.branch, good.checkpoint.seq), good.chain));
    let new = runtime::repair::salvage_ledger(&journal, from)?;
    let begins = match good {
        Some(good) => format!("from {}; what it learned after that is not in it", good.checkpoint),
        None => "with nothing: no entry of it was good".to_owned(),
    };
    let shown =
        damaged.map(|branch| format!("the damaged branch stays as it is: `limulus audit --branch {branch}` shows it"));
    let known =
        "`limulus profiles list` shows what is left alone now; `limulus profiles use` puts a profile first again";
    Ok([format!("the ledger goes on in the new branch {new}, {begins}")]
        .into_iter()
        .chain(shown)
        .chain([known.to_owned()])
        .collect())
}

/// What waits for a human, and what must be sent again.
fn told_of(held: &HeldSession) -> Did {
    let HeldSession { key, run, cancelled } = held;
    let run = run.map(|_| format!("{key} waits for you: `limulus resume {key} --force` takes its run up again"));
    let cancelled =
        (*cancelled > 0).then(|| format!("{key}: {cancelled} waiting messages were cancelled; send them again"));
    run.into_iter().chain(cancelled).collect()
}

/// Holds every run that was under way: what it did last may be in what is gone.
fn hold(globals: &Globals) -> Result<Did, CliError> {
    let journal = Sqlite::own(&globals.home)?;
    let mut did = vec![];
    for row in journal.sessions()? {
        // One that does not fold is refused anyway, and a finding of its own.
        if !row.unfinished && !runtime::repair::is_behind(&journal, &row).unwrap_or(false) {
            continue;
        }
        match runtime::repair::hold(&journal, &row.key, row.branch, UNKNOWN) {
            Ok(held) => did.extend(told_of(&held)),
            // It is refused, and a finding of its own.
            Err(error) => did.push(format!("{} could not be held: {error}", row.key)),
        }
    }
    Ok(did)
}

/// The snapshots that were found to be bad: of this session, or all.
fn snapshots(report: &CheckReport, key: Option<&str>) -> Vec<Checkpoint> {
    let bad = report.findings.iter().filter(|finding| finding.what == What::Snapshot);
    let of = bad.filter(|finding| key.is_none_or(|key| finding.place.session.as_deref() == Some(key)));
    of.filter_map(|finding| finding.place.snapshot).collect()
}

/// What was done, for people.
pub(super) fn told(did: &Did) -> String {
    let mut page = Page::default();
    for line in did {
        page.line(format!("→ {}", printable(line)));
    }
    if !did.is_empty() {
        page.line("");
    }
    page.text()
}
