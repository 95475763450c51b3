//! What subscribers read: each committed batch as JSON objects, in the shapes of the wire (streams `lifecycle`,
//! `assistant`, `tool`, `reasoning`, `state`, `queue`, `usage`).

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::tables::transitions::RunState;
use engine::{Body, CallId, Event, Flags, Hash, Outcome, Record, RunId, SessionId, SessionRow, Timestamp};
use journal::Read;
use serde_json::{Map, Value, json};

use crate::cursor::Cursor;
use crate::runtime::Published;

/// Characters of a call's arguments or output that a line shows; the whole is in the journal.
const PREVIEW_CHARS: usize = 400;

/// Turns batches into lines. It keeps the last state of each session, to tell changes.
pub struct Lines {
    store: Arc<dyn Read>,
    states: BTreeMap<SessionId, (RunState, Flags)>,
    seen: BTreeMap<SessionId, Position>,
}

/// Where a subscriber of a session stands.
#[derive(Debug, Default, Clone)]
struct Position {
    run: Option<RunId>,
    /// What it comes back with.
    cursor: Cursor,
}

impl Lines {
    /// Lines whose longer texts are looked up in this store.
    pub fn new(store: Arc<dyn Read>) -> Self {
        Self { store, states: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// The lines of a batch, in order.
    pub fn of(&mut self, published: &Published) -> Vec<Value> {
        let mut position = self.seen.remove(&published.session).unwrap_or_default();
        let mut lines = vec![];
        for record in &published.batch.records {
            self.record(published, record, &mut position, &mut lines);
        }
        let now = (published.run_state, published.flags);
        if self.states.insert(published.session, now) != Some(now)
            && let Some(last) = published.batch.records.last()
        {
            let state = json!({
                "stream": "state", "type": "changed", "state": published.run_state,
                "lifecycle": published.lifecycle, "flags": published.flags,
            });
            lines.push(frame(published, last, &position, state));
        }
        // The end of a run is the last line of its batch: a client that waits for it has seen all that came with it.
        if let Some(at) = lines.iter().position(is_terminal) {
            let mut end = lines.remove(at);
            end["cursor"] = position.cursor.to_string().into();
            lines.push(end);
        }
        self.seen.insert(published.session, position);
        lines
    }

    fn record(&self, published: &Published, record: &Record, position: &mut Position, lines: &mut Vec<Value>) {
        position.cursor.see(record, published.epoch);
        position.run = run_of(&record.event).or(position.run);
        if let Some(line) = self.line(published, &record.event) {
            lines.push(frame(published, record, position, line));
        }
        if let Event::RunEnded(_) = record.event {
            position.run = None;
        }
    }

    fn line(&self, published: &Published, event: &Event) -> Option<Value> {
        let text = |body: &Body| self.text(published, &body.hash);
        Some(match event {
            Event::MessageAccepted(e) => json!({
                "stream": "queue", "type": "accepted", "message": e.message, "run": RunId::from(e.message), "key": e.key,
            }),
            Event::MessageSettled(e) => json!({
                "stream": "queue", "type": "settled", "message": e.message, "state": e.state,
            }),
            Event::Opened(e) => json!({ "stream": "lifecycle", "type": "opened", "epoch": e.epoch }),
            Event::RunStarted(_) => json!({ "stream": "lifecycle", "type": "start" }),
            Event::RunEnded(e) => json!({
                "stream": "lifecycle", "type": if e.outcome == Outcome::Completed { "end" } else { "error" },
                "outcome": e.outcome, "text": e.text.iter().map(text).collect::<String>(), "usage": e.usage,
                "error": e.failure.as_ref().map(ToString::to_string),
            }),
            Event::TextAdded(e) => json!({
                "stream": "assistant", "type": "delta", "effect": e.effect, "offset": e.offset, "text": e.text,
            }),
            Event::StreamCut(e) => json!({
                "stream": "assistant", "type": "cut", "effect": e.request, "cause": e.cause,
            }),
            Event::TextStruck(e) => json!({ "stream": "assistant", "type": "struck", "effect": e.request }),
            Event::MessageSealed(e) => json!({
                "stream": "assistant", "type": "message", "effect": e.request,
                "text": e.text.as_ref().map(text), "calls": e.calls.len(), "usage": e.usage,
            }),
            Event::ReasoningAdded(e) => json!({
                "stream": "reasoning", "type": "delta", "effect": e.effect, "offset": e.offset, "text": e.text,
            }),
            event => return self.tool_line(published, event).or_else(|| state_line(event)),
        })
    }

    fn tool_line(&self, published: &Published, event: &Event) -> Option<Value> {
        Some(match event {
            Event::CallStarted(e) => {
                json!({ "stream": "tool", "type": "start", "call": e.call, "effect": e.effect, "class": e.class })
            }
            Event::OutputAdded(e) => json!({
                "stream": "tool", "type": "update", "effect": e.effect, "offset": e.offset, "text": e.text,
            }),
            Event::CallSettled(e) => json!({
                "stream": "tool", "type": "end", "call": e.call, "outcome": e.outcome, "bytes": e.output.bytes,
                "output": preview(&self.text(published, &e.output.hash)),
            }),
            Event::CallAsked(e) => json!({
                "stream": "tool", "type": "asked", "call": e.call, "question": e.question, "fingerprint": e.fingerprint,
            }),
            Event::AskAnswered(e) => {
                json!({ "stream": "tool", "type": "answered", "call": e.call, "allow": e.allow, "by": e.by })
            }
            Event::CallLost(e) => json!({ "stream": "tool", "type": "lost", "call": e.call }),
            Event::CallFound(e) => json!({ "stream": "tool", "type": "found", "call": e.call, "found": e.found }),
            Event::CallEnding(e) => json!({ "stream": "tool", "type": "ending", "call": e.call, "why": e.why }),
            Event::ProcessAdopted(e) => json!({
                "stream": "tool", "type": "background", "process": e.process.process_name(), "call": e.call,
                "until": e.until,
            }),
            Event::ProcessEnded(e) => json!({
                "stream": "tool", "type": "background_ended", "process": e.process.process_name(), "outcome": e.outcome,
                "how": e.how,
            }),
            _ => return None,
        })
    }

    fn text(&self, published: &Published, hash: &Hash) -> String {
        let here = published.batch.bodies.iter().find(|content| content.body.hash == *hash);
        let bytes = here.map(|content| Arc::clone(&content.bytes)).or_else(|| self.store.body(hash).ok().flatten());
        bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

/// What a subscriber of this session is told that has seen what is not in the journal any more; `at` is when it is told.
/// It drops what it has beyond the line's cursor, and goes on from there.
pub fn rewound(session: &SessionRow, to: &Cursor, at: Timestamp) -> Value {
    let to = to.to_string();
    json!({
        "cursor": to, "session": session.key, "run": session.run, "at": at.0,
        "stream": "state", "type": "rewound", "to": to,
    })
}

/// Adds what every line has.
fn frame(published: &Published, record: &Record, position: &Position, line: Value) -> Value {
    let mut framed = Map::new();
    framed.insert("cursor".into(), position.cursor.to_string().into());
    framed.insert("session".into(), published.key.as_ref().into());
    framed.insert("run".into(), position.run.map_or(Value::Null, |run| run.to_string().into()));
    framed.insert("at".into(), record.at.0.into());
    if let Value::Object(line) = line {
        framed.extend(line);
    }
    Value::Object(framed)
}

fn state_line(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Failed(e) => json!({ "stream": "state", "type": "failed", "failure": e.failure }),
        Event::CompactionFailed(e) => json!({ "stream": "state", "type": "failed", "failure": e.failure }),
        Event::RetryScheduled(e) => {
            json!({ "stream": "state", "type": "retry", "until": e.until, "try": e.try_no })
        }
        Event::WaitBegan(e) => json!({ "stream": "state", "type": "waiting", "on": e.on, "until": e.until }),
        Event::EndingSet(e) => json!({ "stream": "state", "type": "ending", "outcome": e.outcome }),
        Event::LifecycleChanged(e) => json!({
            "stream": "state", "type": "lifecycle", "from": e.from, "to": e.to, "cause": e.cause,
            "reason": e.failure.as_ref().map(ToString::to_string), "remedy": e.remedy,
        }),
        _ => return None,
    })
}

/// The run that an event names: a subscriber of a run that another process began learns it from the first one.
fn run_of(event: &Event) -> Option<RunId> {
    match event {
        Event::RunStarted(e) => Some(e.run),
        Event::RunEnded(e) => Some(e.run),
        Event::RequestSent(e) => Some(e.request.run),
        Event::CallChecked(e) => Some(e.call.run),
        Event::CallAsked(e) => Some(e.call.run),
        Event::AskAnswered(e) => Some(e.call.run),
        Event::CallStarted(e) => Some(e.call.run),
        Event::CallEnding(e) => Some(e.call.run),
        Event::CallLost(e) => Some(e.call.run),
        Event::CallFound(e) => Some(e.call.run),
        Event::CallSettled(e) => Some(e.call.run),
        Event::ProcessAdopted(e) => Some(e.call.run),
        event => event.progress().map(|(effect, _)| effect.run).or(event.seals().map(|effect| effect.run)),
    }
}

fn is_terminal(line: &Value) -> bool {
    line["stream"] == "lifecycle" && matches!(line["type"].as_str(), Some("end" | "error"))
}

/// The beginning of a text, on one line as it stands.
fn preview(text: &str) -> String {
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The calls that a sealed message asks for, for whoever draws them: id, tool, arguments.
pub fn asked_calls(published: &Published) -> Vec<(CallId, String, String)> {
    let lookup = |hash: &Hash| {
        let found = published.batch.bodies.iter().find(|content| content.body.hash == *hash);
        found.map(|content| preview(&String::from_utf8_lossy(&content.bytes))).unwrap_or_default()
    };
    let sealed = published.batch.records.iter().filter_map(|record| match &record.event {
        Event::MessageSealed(e) => Some(&e.calls),
        _ => None,
    });
    sealed.flatten().map(|call| (call.id, call.tool.clone(), lookup(&call.arguments.hash))).collect()
}
