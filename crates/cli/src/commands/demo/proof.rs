//! The checks of a demo: read from the journal, as anyone could, and from the file that the command wrote.

use std::collections::BTreeMap;

use engine::{CallId, CallOutcome, Epoch, Event, Outcome, RunId, Seq};
use journal::{Entry, Read, Reader};
use serde::Serialize;

use super::failed;
use super::scene::{LINES, Seen, Stage};
use crate::error::CliError;

/// A check and its result.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) holds: bool,
    pub(super) found: String,
}

impl Check {
    fn new(what: &'static str, holds: bool, found: impl Into<String>) -> Self {
        Self { what, holds, found: found.into() }
    }
}

/// All checks of both scenes. Reading a branch checks its hashes and its chain.
pub(super) fn checks(stage: &Stage, tool: &Seen, answer: &Seen) -> Result<Vec<Check>, CliError> {
    let reader = stage.reader()?;
    let tool_entries = entries(&reader, tool.run()?)?;
    let answer_entries = entries(&reader, answer.run()?)?;
    let unfinished = reader.unfinished()?.len();
    let mut checks = vec![
        ledger(stage, tool),
        started_once(&tool_entries),
        looked_up(&tool_entries),
        settled_done(&tool_entries),
        text_kept(&reader, &answer_entries, answer)?,
        text_whole(&reader, &answer_entries)?,
    ];
    for (what, entries) in [("the first run ended once", &tool_entries), ("the second run ended once", &answer_entries)]
    {
        checks.push(ended_once(what, entries));
    }
    checks.push(crashes(&tool_entries, &answer_entries));
    checks.push(Check::new("nothing is unfinished", unfinished == 0, format!("{unfinished} sessions")));
    let all = tool_entries.len() + answer_entries.len();
    checks.push(Check::new("the chain of hashes is intact", true, format!("{all} entries checked")));
    Ok(checks)
}

fn entries(reader: &Reader, run: RunId) -> Result<Vec<Entry>, CliError> {
    let row = reader.run(run)?.ok_or_else(|| failed(format!("run {run} is not in the journal")))?;
    Ok(reader.read(row.branch, Seq(1))?)
}

fn ledger(stage: &Stage, seen: &Seen) -> Check {
    let text = std::fs::read_to_string(stage.ledger()).unwrap_or_default();
    let expected: Vec<String> = (1..=LINES).map(|line| format!("line {line}")).collect();
    let found = format!("{} lines when it was killed, {} of {LINES} at the end", seen.lines_at_kill, stage.lines());
    Check::new("the command did its work once, to the end", text.lines().eq(expected), found)
}

fn started_once(entries: &[Entry]) -> Check {
    let mut efforts: BTreeMap<CallId, Vec<u32>> = BTreeMap::new();
    for entry in entries {
        if let Event::CallStarted(e) = &entry.event {
            efforts.entry(e.call).or_default().push(e.effect.try_no);
        }
    }
    let once = !efforts.is_empty() && efforts.values().flatten().all(|try_no| *try_no == 1);
    Check::new("no call was started a second time", once, format!("{} call, always try 1", efforts.len()))
}

/// A call that another owner started is looked up before it is resumed.
fn looked_up(entries: &[Entry]) -> Check {
    let mut owner: BTreeMap<CallId, Epoch> = BTreeMap::new();
    let mut found = vec![];
    let (mut resumed, mut blindly) = (0, 0);
    for entry in entries {
        match &entry.event {
            Event::CallFound(e) => found.push(e.call),
            Event::CallStarted(e) if owner.insert(e.call, e.epoch).is_some_and(|before| before != e.epoch) => {
                resumed += 1;
                blindly += usize::from(!found.contains(&e.call));
            }
            _ => {}
        }
    }
    let looked = !found.is_empty() && blindly == 0;
    let says = format!("{} looked up, {resumed} resumed, {blindly} of them blindly", found.len());
    Check::new("the interrupted call was looked up, not run again", looked, says)
}

fn settled_done(entries: &[Entry]) -> Check {
    let outcomes: Vec<CallOutcome> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::CallSettled(e) => Some(e.outcome),
            _ => None,
        })
        .collect();
    Check::new("the call has one result: done", outcomes == [CallOutcome::Done], format!("{outcomes:?}"))
}

/// What a client received of the interrupted answer is in the journal, byte for byte.
fn text_kept(reader: &Reader, entries: &[Entry], seen: &Seen) -> Result<Check, CliError> {
    let interrupted = entries.iter().find_map(|entry| match &entry.event {
        Event::StreamInterrupted(e) => e.text,
        _ => None,
    });
    let bytes = interrupted.map(|body| reader.body(&body.hash)).transpose()?.flatten();
    let kept = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let holds = !seen.text.is_empty() && kept.starts_with(&seen.text);
    let found = format!("{} bytes seen, {} bytes kept", seen.text.len(), kept.len());
    Ok(Check::new("the text that was shown before the kill is kept", holds, found))
}

fn text_whole(reader: &Reader, entries: &[Entry]) -> Result<Check, CliError> {
    let text = entries.iter().find_map(|entry| match &entry.event {
        Event::RunEnded(e) => Some(e.text.clone()),
        _ => None,
    });
    let mut whole = String::new();
    for body in text.unwrap_or_default() {
        if let Some(bytes) = reader.body(&body.hash)? {
            whole.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    let found = format!("{} bytes", whole.len());
    Ok(Check::new("the answer is complete", !whole.trim().is_empty(), found))
}

fn ended_once(what: &'static str, entries: &[Entry]) -> Check {
    let ends: Vec<Outcome> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::RunEnded(e) => Some(e.outcome),
            _ => None,
        })
        .collect();
    Check::new(what, ends == [Outcome::Completed], format!("{ends:?}"))
}

fn crashes(tool: &[Entry], answer: &[Entry]) -> Check {
    let owners = |entries: &[Entry]| {
        let opened = entries.iter().filter_map(|entry| match &entry.event {
            Event::Opened(e) => Some(e.epoch.to_string()),
            _ => None,
        });
        opened.collect::<Vec<_>>()
    };
    let (tool, answer) = (owners(tool), owners(answer));
    let found = format!("epochs {} and {}", tool.join(" → "), answer.join(" → "));
    Check::new("each run had two owners", tool.len() == 2 && answer.len() == 2, found)
}
