//! `sessions.audit` and `sessions.state`: the audit log of a session, its verification, and its state at any entry.
//! They use a reader that trusts no view.

use engine::{Body, BranchId, Hash, Seq, Session};
use journal::Reader;
use journal::check::{BranchSpan, Checkpoint, Replay, Verified};
use protocol::method::{AuditParams, Audited, SessionsAudit, SessionsState, StateParams};
use protocol::show::{AuditLine, StateAt, Verification};
use views::audit::Auditor;
use views::{Source, lookup, settings_of, texts};

use super::Reads;
use crate::error::Error;

impl Reads for SessionsAudit {
    fn read(source: &Source<'_>, params: AuditParams) -> Result<Audited, Error> {
        let reader = Reader::open(source.home)?;
        let (session_key, line) = line(&reader, params.session_key.as_deref(), params.branch.as_deref())?;
        let verified = params.verify.then(|| reader.verify(&line));
        let mut lines = lines(&reader, &line, params.from.map(Seq))?;
        let damaged = lines.iter().find(|line| !line.damage.is_empty());
        let damaged = damaged.map(|line| Checkpoint { branch: line.branch, seq: line.seq });
        let found = verified.iter().flat_map(|verified| &verified.faults).map(|fault| fault.place.checkpoint);
        let damaged_from = damaged.or(found.into_iter().next()).map(|at| at.to_string());
        lines.truncate(params.limit.unwrap_or(usize::MAX));
        let verified = verified.map(|verified| summarise(&verified, &session_key, line.len()));
        Ok(Audited { session_key, lines, verified, damaged_from })
    }
}

impl Reads for SessionsState {
    fn read(source: &Source<'_>, params: StateParams) -> Result<StateAt, Error> {
        let reader = Reader::open(source.home)?;
        let (_, line) = line(&reader, params.session_key.as_deref(), params.branch.as_deref())?;
        state(&reader, &line, &params.at)
    }
}

/// The branches that a session went through, with its key.
fn line(reader: &Reader, key: Option<&str>, branch: Option<&str>) -> Result<(String, Vec<BranchSpan>), Error> {
    let branch = branch.map(str::parse::<BranchId>).transpose();
    let branch = branch.map_err(|error| Error::invalid(error.to_string(), "`limulus audit` shows the branches"))?;
    let (key, branch) = match (lookup::session(reader, key), branch) {
        (Ok(row), branch) => (row.key, branch.unwrap_or(row.branch)),
        // Quarantined branches belong to no session any more.
        (Err(_), Some(branch)) => ("no session".to_owned(), branch),
        (Err(error), None) => return Err(error.into()),
    };
    Ok((key, reader.lineage(branch)?))
}

/// The lines from this entry of the current branch on, or all lines.
fn lines(reader: &Reader, line: &[BranchSpan], from: Option<Seq>) -> Result<Vec<AuditLine>, Error> {
    let texts = texts(reader);
    // A damaged body does not hide the entry that names it; verification reports it.
    let texts = |body: &Body| Ok(texts(body).unwrap_or_else(|_| format!("[the body {} is damaged]", body.hash)));
    let settings_of = settings_of(reader);
    let current = line.last().map(|segment| segment.branch);
    let mut lines = vec![];
    Auditor::new(&texts, &settings_of).walk(reader, line, |line, _| {
        if from.is_none_or(|from| Some(line.branch) == current && line.seq >= from) {
            lines.push(line);
        }
    })?;
    Ok(lines)
}

/// The state after an entry: the fold of the entries up to it. A snapshot is used only if earlier entries were removed.
fn state(reader: &Reader, line: &[BranchSpan], at: &str) -> Result<StateAt, Error> {
    let (branch, seq) = at.rsplit_once('@').map_or((None, at), |(branch, seq)| (Some(branch), seq));
    let seq = seq.parse().map(Seq).map_err(|_| {
        let hint = "give its number, or BRANCH@NUMBER, as `limulus audit` shows them";
        Error::invalid(format!("`{at}` is not an entry"), hint)
    })?;
    let current = line.last().map(|segment| segment.branch);
    let nothing = |_: &Body| Ok(String::new());
    let no_settings = |_: Hash| None;
    let (mut found, mut first) = (None, None);
    Auditor::new(&nothing, &no_settings).walk(reader, line, |line, replay| {
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

fn state_at(here: Checkpoint, replay: &Replay) -> Result<StateAt, Error> {
    let not_known = format!("the state after {here} is not known");
    match (replay.session(), replay.removed()) {
        (Some(session), _) => {
            Ok(StateAt { checkpoint: here.to_string(), state_hash: state_hash(session), session: session.clone() })
        }
        (None, Some(removed)) => Err(Error::not_found(
            format!("{not_known}: {removed} was removed, and no snapshot up to there replaces it"),
            "a later entry may have a snapshot: `limulus audit` shows it",
        )),
        (None, None) => Err(Error::Damaged {
            what: format!("{not_known}: an entry up to there is damaged"),
            hint: "`limulus audit` shows which".to_owned(),
        }),
    }
}

/// The error for an entry that is not in the branch; `first` is the first one that is.
fn no_entry(at: &str, seq: Seq, first: Option<Checkpoint>) -> Error {
    match first.filter(|first| (Seq(1)..first.seq).contains(&seq)) {
        Some(first) => Error::not_found(
            format!("the state after {at} is lost: the entries before {first} were removed"),
            "the first state left is the one after that entry: a snapshot replaces all entries before it",
        ),
        None => Error::not_found(format!("this session has no entry {at}"), "`limulus audit` shows the entries"),
    }
}

/// The hash of the bytes of a state: the same entries give the same hash.
fn state_hash(session: &Session) -> Hash {
    Hash::of(&session.to_snapshot())
}

fn summarise(verified: &Verified, key: &str, branches: usize) -> Verification {
    let head = verified.head.as_ref();
    let faults = verified.faults.iter().map(|fault| format!("{}: {}", fault.place.checkpoint, fault.defect));
    Verification {
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
