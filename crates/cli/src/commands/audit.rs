//! `limulus audit`: the audit log of a session, its verification, and its state at any point.

use std::fmt::Write as _;

use clap::Args;
use engine::{Body, BranchId, Hash, Seq, Session, Settings};
use journal::check::{Checkpoint, Segment, Verified};
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
    /// A branch that the session has left, instead of the current one
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
    let row = lookup::session(&reader, args.key.as_deref())?;
    let line = reader.lineage(args.branch.map_or(row.branch, BranchId))?;
    if let Some(at) = &args.state {
        return print(&state(&reader, &line, at)?);
    }
    let verified = if args.verify { Some(reader.verify(&line)) } else { None };
    let lines = lines(&reader, &line, args.from.map(Seq))?;
    let summary = verified.as_ref().map(|verified| summarise(verified, &row.key, line.len()));
    print(&if args.json {
        let summary = summary.iter().map(|summary| json_line(&serde_json::json!({ "verified": summary })));
        lines.iter().map(json_line).chain(summary).collect()
    } else {
        page(&row.key, &lines, summary.as_ref(), &Zone::local())
    })?;
    let mut faults = damaged(&lines);
    let found = verified.iter().flat_map(|verified| &verified.faults).map(|fault| fault.place.checkpoint);
    faults.extend(found);
    ended(&row.key, &faults)
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

/// The state after an entry, from the entries alone.
fn state(reader: &Reader, line: &[Segment], at: &str) -> Result<String, CliError> {
    let (branch, seq) = at.rsplit_once('@').map_or((None, at), |(branch, seq)| (Some(branch), seq));
    let seq: u64 = seq.parse().map_err(|_| CliError::Usage {
        what: format!("`{at}` is no entry"),
        hint: "write its number, or BRANCH@NUMBER, as `limulus audit` shows them".to_owned(),
    })?;
    let current = line.last().map(|segment| segment.branch);
    let (mut found, mut place) = (None, None);
    let nothing = |_: &Body| Ok(String::new());
    let no_models = |_: Hash| vec![];
    Auditor::new(&nothing, &no_models).walk(reader, line, |line, session| {
        let is_it = branch.map_or(Some(line.branch) == current, |branch| line.branch.to_string().starts_with(branch));
        if is_it && line.seq == Seq(seq) {
            let checkpoint = Checkpoint { branch: line.branch, seq: line.seq };
            place = Some(checkpoint);
            found = session.map(|session| {
                json(&StateAt { checkpoint: checkpoint.to_string(), state_hash: state_hash(session), session })
            });
        }
    })?;
    match (found, place) {
        (Some(state), _) => Ok(state),
        (None, Some(checkpoint)) => Err(CliError::Failed {
            exit: Exit::Damaged,
            what: format!("the state after {checkpoint} is not known: an entry up to there is damaged or was removed"),
            hint: "`limulus audit` shows which".to_owned(),
        }),
        (None, None) => {
            let hint = "`limulus audit` shows those that there are";
            Err(CliError::not_found(format!("there is no entry {at} in this session"), hint))
        }
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
        state_hash: verified.session.as_ref().filter(|_| verified.is_whole()).map(state_hash),
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
