//! `limulus audit`: the audit log of a session, its verification, and its state at any point.

use std::fmt::Write as _;

use clap::Args;
use engine::{Body, BranchId, Hash, Seq, Session, Settings};
use journal::check::{Checkpoint, Replay, Segment, Verified};
use journal::{Read as _, Reader};
use serde::Serialize;
use uuid::Uuid;

use crate::config::Globals;
use crate::error::{CliError, Exit};
use crate::show::audit::{AuditLine, Auditor, heading, lay_out};
use crate::show::human::{Page, Zone};
use crate::show::{json, json_line, lookup, open, print, texts};

/// The audit log of a session: every transition with its time and cause.
#[derive(Debug, Args)]
#[command(after_help = "A damaged entry is shown in its place, and the exit code is 65 then.")]
pub(crate) struct AuditArgs {
    /// NAME, or agent:AGENT:NAME [default: agent:main:main]
    key: Option<String>,
    /// Recompute payload hashes, chains and bodies, replay the fold, and compare
    #[arg(long)]
    verify: bool,
    /// Print one JSON object for each entry
    #[arg(long)]
    json: bool,
    /// Begin with this entry of the current branch
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// A branch that the session has left, or that no session goes on in, instead of the current one
    #[arg(long, value_name = "BRANCH")]
    branch: Option<Uuid>,
    /// Print the state after this entry as JSON, and nothing else
    #[arg(long, value_name = "[BRANCH@]SEQ", conflicts_with_all = ["verify", "from"])]
    state: Option<String>,
}

/// What was recomputed.
#[derive(Debug, Serialize)]
struct Summary {
    key: String,
    entries: u64,
    branches: usize,
    bodies: u64,
    /// The last entry, `BRANCH@SEQ`.
    head: Option<String>,
    /// The chain with it.
    chain: Option<Hash>,
    /// BLAKE3 of the state as `--state` has it.
    state_hash: Option<Hash>,
    faults: Vec<String>,
}

/// A state with its place, as `--state` prints it.
#[derive(Debug, Serialize)]
struct StateAt<'a> {
    checkpoint: String,
    state_hash: Hash,
    session: &'a Session,
}

/// Prints what was asked.
pub(crate) fn run(args: &AuditArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = open(globals)?;
    let (key, branch) = match (lookup::session(&reader, args.key.as_deref()), args.branch) {
        (Ok(row), branch) => (row.key, branch.map_or(row.branch, BranchId)),
        // What was put aside is of no session any more.
        (Err(_), Some(branch)) => ("no session".to_owned(), BranchId(branch)),
        (Err(error), None) => return Err(error),
    };
    let line = reader.lineage(branch)?;
    if let Some(at) = &args.state {
        return print(&state(&reader, &line, at)?);
    }
    let verified = if args.verify { Some(reader.verify(&line)) } else { None };
    let lines = lines(&reader, &line, args.from.map(Seq))?;
    let summary = verified.as_ref().map(|verified| summarise(verified, &key, line.len()));
    print(&if args.json {
        let summary = summary.iter().map(|summary| json_line(&serde_json::json!({ "verified": summary })));
        lines.iter().map(json_line).chain(summary).collect()
    } else {
        page(&key, &lines, summary.as_ref(), &Zone::local())
    })?;
    let mut faults = damaged(&lines);
    let found = verified.iter().flat_map(|verified| &verified.faults).map(|fault| fault.place.checkpoint);
    faults.extend(found);
    ended(&key, &faults)
}

/// The lines from this entry of the current branch on, or all.
fn lines(reader: &Reader, line: &[Segment], from: Option<Seq>) -> Result<Vec<AuditLine>, CliError> {
    let texts = texts(reader);
    // A body that is damaged takes nothing from the entry that names it; `--verify` tells of it.
    let texts = |body: &Body| Ok(texts(body).unwrap_or_else(|_| format!("[the body {} is damaged]", body.hash)));
    let models = |settings: Hash| models(reader, settings);
    let current = line.last().map(|segment| segment.branch);
    let mut lines = vec![];
    Auditor::new(&texts, &models).walk(reader, line, |line, _| {
        if from.is_none_or(|from| Some(line.branch) == current && line.seq >= from) {
            lines.push(line);
        }
    })?;
    Ok(lines)
}

fn models(reader: &Reader, settings: Hash) -> Vec<String> {
    let settings = reader.body(&settings).ok().flatten().and_then(|bytes| Settings::from_bytes(&bytes).ok());
    let candidates = settings.map(|settings| settings.candidates).unwrap_or_default();
    candidates.iter().map(|candidate| format!("{}/{}", candidate.provider, candidate.model)).collect()
}

/// The state after an entry: the fold of the entries up to it, from a snapshot only where some were removed.
fn state(reader: &Reader, line: &[Segment], at: &str) -> Result<String, CliError> {
    let (branch, seq) = at.rsplit_once('@').map_or((None, at), |(branch, seq)| (Some(branch), seq));
    let seq: u64 = seq.parse().map_err(|_| CliError::Usage {
        what: format!("`{at}` is no entry"),
        hint: "write its number, or BRANCH@NUMBER, as `limulus audit` shows them".to_owned(),
    })?;
    let seq = Seq(seq);
    let current = line.last().map(|segment| segment.branch);
    let nothing = |_: &Body| Ok(String::new());
    let no_models = |_: Hash| vec![];
    let (mut found, mut first) = (None, None);
    Auditor::new(&nothing, &no_models).walk(reader, line, |line, replay| {
        let is_there =
            branch.map_or(Some(line.branch) == current, |branch| line.branch.to_string().starts_with(branch));
        let here = Checkpoint { branch: line.branch, seq: line.seq };
        if is_there {
            first.get_or_insert(here);
        }
        if is_there && line.seq == seq {
            found = Some(state_at(here, replay));
        }
    })?;
    found.unwrap_or_else(|| Err(no_entry(at, seq, first)))
}

fn state_at(here: Checkpoint, replay: &Replay) -> Result<String, CliError> {
    let not_known = format!("the state after {here} is not known");
    match (replay.session(), replay.removed()) {
        (Some(session), _) => {
            Ok(json(&StateAt { checkpoint: here.to_string(), state_hash: state_hash(session), session }))
        }
        (None, Some(removed)) => Err(CliError::not_found(
            format!("{not_known}: {removed} was removed, and no snapshot up to there stands for it"),
            "a later entry may have a snapshot: `limulus audit` shows it",
        )),
        (None, None) => Err(CliError::Failed {
            exit: Exit::Damaged,
            what: format!("{not_known}: an entry up to there is damaged"),
            hint: "`limulus audit` shows which".to_owned(),
        }),
    }
}

/// An entry that is not in the branch; `first` is the first one that is.
fn no_entry(at: &str, seq: Seq, first: Option<Checkpoint>) -> CliError {
    match first.filter(|first| (Seq(1)..first.seq).contains(&seq)) {
        Some(first) => CliError::not_found(
            format!("the state after {at} is not there any more: the entries before {first} were removed"),
            "the state after that one is the first: a snapshot stands for all before it",
        ),
        None => CliError::not_found(
            format!("there is no entry {at} in this session"),
            "`limulus audit` shows those that there are",
        ),
    }
}

/// The hash of the bytes that a state is: the same entries give the same ones.
fn state_hash(session: &Session) -> Hash {
    Hash::of(&session.to_snapshot())
}

fn summarise(verified: &Verified, key: &str, branches: usize) -> Summary {
    let head = verified.head.as_ref();
    let faults = verified.faults.iter().map(|fault| format!("{}: {}", fault.place.checkpoint, fault.flaw));
    Summary {
        key: key.to_owned(),
        entries: verified.entries,
        branches,
        bodies: verified.bodies,
        head: head.map(|head| head.checkpoint.to_string()),
        chain: head.map(|head| head.chain),
        state_hash: verified.session().map(state_hash),
        faults: faults.chain(verified.unread.clone()).collect(),
    }
}

fn page(key: &str, lines: &[AuditLine], summary: Option<&Summary>, zone: &Zone) -> String {
    let mut page = Page::default();
    let mut branch = None;
    for line in lines {
        if branch != Some(line.branch) {
            let forked = if branch.is_some() { "goes on in" } else { "is" };
            page.line(format!("{key} {forked} branch {}", line.branch));
            branch = Some(line.branch);
        }
    }
    let mut branch = lines.first().map(|line| line.branch);
    let mut text = page.text() + &heading();
    for line in lines {
        if branch != Some(line.branch) {
            let _ = writeln!(text, "      ─── branch {} ───", line.branch);
            branch = Some(line.branch);
        }
        text += &lay_out(line, zone);
    }
    text + &summary.map(verdict).unwrap_or_default()
}

fn verdict(summary: &Summary) -> String {
    let mut page = Page::default();
    let mark = if summary.faults.is_empty() { '✓' } else { '✗' };
    page.line(format!(
        "\n{mark} payload hashes and chain of all entries ({}), bodies that they name ({}), the state replayed from them",
        summary.entries, summary.bodies
    ));
    if let (Some(head), Some(chain)) = (&summary.head, summary.chain) {
        page.line(format!("  chain  {chain} at {head}"));
    }
    if let Some(state) = summary.state_hash {
        page.line(format!("  state  {state}"));
    }
    for fault in &summary.faults {
        page.line(format!("  ✗ {fault}"));
    }
    page.text()
}

fn damaged(lines: &[AuditLine]) -> Vec<Checkpoint> {
    let damaged = lines.iter().filter(|line| !line.damage.is_empty());
    damaged.map(|line| Checkpoint { branch: line.branch, seq: line.seq }).collect()
}

fn ended(key: &str, faults: &[Checkpoint]) -> Result<(), CliError> {
    let Some(first) = faults.first() else { return Ok(()) };
    Err(CliError::Failed {
        exit: Exit::Damaged,
        what: format!("{key} is damaged from {first} on"),
        hint: "`limulus doctor` says what can be done".to_owned(),
    })
}
