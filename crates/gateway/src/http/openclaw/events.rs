//! What happens in sessions, as events that its clients know: the state of runs, the answer so far at most every 150 ms, calls of tools,
//! approval requests.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::{CallId, CallOutcome, EffectId, Outcome, RunId};
use protocol::chat::{Chat, ChatState};
use protocol::event::{AGENT_EVENT, AssistantLine, CompactionLine, Delta, LifecycleLine, QueueLine, Stream, ToolLine};
use protocol::method::{RunParams, RunsShow};
use protocol::notice::{Answered, Asked, Dropped, Notice, Shutdown, Tick};
use protocol::{Event, EventFrame, Events};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use views::events::Chats;

use super::approvals;
use super::{Operator, server, sessions};

/// How long the first event of a run waits for the response to its message.
const ANSWERED: Duration = Duration::from_secs(1);
/// Ticks between two reports of how the service is.
const TICKS: u32 = 2;

/// What a client was shown.
#[derive(Default)]
struct Shown {
    chats: Chats,
    runs: HashMap<RunId, ShownRun>,
    /// The calls that wait for a person, as far as it knows.
    asked: BTreeSet<CallId>,
    ticks: u32,
}

/// What it was shown of a run.
#[derive(Default)]
struct ShownRun {
    /// The number of the last event of the run.
    last: u64,
    /// The text of the answer so far.
    text: String,
    /// The request whose text is known from its beginning.
    request: Option<EffectId>,
}

/// Shows the client what happens until the service has no more to say. Returns why.
pub(super) async fn pass_on(operator: &Operator, mut events: Events) -> (CloseCode, &'static str) {
    let mut shown = Shown::default();
    while let Some(frame) = events.recv().await {
        let EventFrame { event, payload, subscription, .. } = frame;
        if event == AGENT_EVENT {
            if subscription == Some(operator.home) {
                if let Some(line) = Event::of_payload(&payload) {
                    shown.line(operator, &line).await;
                }
            } else {
                operator.event("events.line", json!({ "subscription": subscription, "line": payload })).await;
            }
        } else if event == Asked::NAME
            && let Ok(asked) = Asked::deserialize(&payload)
        {
            shown.asked.insert(asked.call);
            approvals::asked(operator, &asked).await;
        } else if event == Answered::NAME
            && let Ok(answered) = Answered::deserialize(&payload)
        {
            shown.answered(operator, answered).await;
        } else if event == Tick::NAME {
            operator.event("tick", json!({ "ts": operator.now() })).await;
            shown.ticks += 1;
            if shown.ticks.is_multiple_of(TICKS) {
                operator.event("health", server::health(&operator.app)).await;
            }
        } else if event == Shutdown::NAME {
            operator.event("shutdown", json!({ "reason": payload["reason"], "restartExpectedMs": null })).await;
        } else if event == Dropped::NAME {
            return (CloseCode::Policy, "slow consumer");
        }
    }
    (CloseCode::Restart, "the service is shutting down")
}

impl Shown {
    /// A request is closed, or all of a run that has ended.
    async fn answered(&mut self, operator: &Operator, answered: Answered) {
        let is_closed = |call: &CallId| answered.call == Some(*call) || answered.run == Some(call.run);
        for call in self.asked.extract_if(.., |call| is_closed(call)).collect::<Vec<_>>() {
            approvals::answered(operator, call, &answered).await;
        }
    }

    async fn line(&mut self, operator: &Operator, line: &Event) {
        let Some(run) = line.run else { return };
        if let Stream::Queue(QueueLine::Accepted { key: Some(key), message, .. }) = &line.what
            && RunId::from(*message) == run
        {
            operator.runs.learn(run, key);
            // One that takes too long is not waited for: the others are shown meanwhile.
            let _ = tokio::time::timeout(ANSWERED, operator.unanswered.answered(key)).await;
        }
        if let Stream::Assistant(AssistantLine::Delta(delta)) = &line.what {
            self.catch_up(operator, line, run, delta).await;
        }
        if let Stream::Queue(QueueLine::Settled { message, taken_by: Some(_), .. }) = &line.what {
            self.taken(operator, line, RunId::from(*message)).await;
        }
        let chat = self.chats.observe(line);
        let data = data(line);
        if chat.is_none() && data.is_none() {
            return;
        }
        let name = operator.runs.of(&operator.client, run).await;
        let is_over = chat.as_ref().is_some_and(|chat| chat.state != ChatState::Delta);
        if let Some((stream, data)) = data
            && (stream != "tool" || operator.of.shows_tools)
        {
            self.agent(operator, (line, &name), (stream, data)).await;
        }
        if let Some(chat) = chat {
            self.chat(operator, (line, run, &name), chat).await;
        }
        self.sessions(operator, line, &name).await;
        if is_over {
            self.runs.remove(&run);
        }
    }

    /// A run that waits for its message has taken another one: the run of that will never begin, and its client is shown its end.
    async fn taken(&mut self, operator: &Operator, line: &Event, run: RunId) {
        let name = operator.runs.of(&operator.client, run).await;
        let payload = json!({
            "runId": name, "sessionKey": line.session, "agentId": sessions::agent_of(&line.session), "seq": 0,
            "state": ChatState::Final,
        });
        operator.event("chat", payload).await;
    }

    /// Reads the beginning of a text that was written before the client connected.
    async fn catch_up(&mut self, operator: &Operator, line: &Event, run: RunId, delta: &Delta) {
        let of = self.runs.entry(run).or_default();
        if of.request.replace(delta.effect) == Some(delta.effect) || delta.offset == 0 {
            return;
        }
        let params = RunParams { run: Some(run.to_string()), session: None };
        let Ok(story) = operator.client.call::<RunsShow>(params).await else { return };
        let before = usize::try_from(delta.offset).ok().and_then(|bytes| story.open_text.get(..bytes));
        if let Some(text) = before.filter(|_| story.open_request == Some(delta.effect)) {
            let before = Delta { effect: delta.effect, offset: 0, text: text.to_owned() };
            // Its time is none, so that the next piece is shown at once.
            let line = Event {
                what: Stream::Assistant(AssistantLine::Delta(before)),
                at: engine::Timestamp(0),
                ..line.clone()
            };
            self.chats.observe(&line);
        }
    }

    /// An event of a run.
    async fn agent(&mut self, operator: &Operator, (line, name): (&Event, &str), (stream, data): (&str, Value)) {
        let Some(run) = line.run else { return };
        let of = self.runs.entry(run).or_default();
        of.last += 1;
        let payload = json!({
            "runId": name, "sessionKey": line.session, "agentId": sessions::agent_of(&line.session),
            "stream": stream, "seq": of.last, "ts": line.at.0, "data": data,
        });
        operator.event("agent", payload).await;
    }

    /// The answer so far, or the whole answer: first as an event of the run, then as one of the chat.
    async fn chat(&mut self, operator: &Operator, (line, run, name): (&Event, RunId, &str), chat: Chat) {
        let text = chat.message.as_ref().map(protocol::chat::ChatMessage::text).unwrap_or_default();
        let of = self.runs.entry(run).or_default();
        let delta = text.strip_prefix(of.text.as_str()).unwrap_or(&text).to_owned();
        of.text.clone_from(&text);
        if chat.state == ChatState::Delta {
            self.agent(operator, (line, name), ("assistant", json!({ "text": text, "delta": delta }))).await;
        }
        let seq = self.runs.entry(run).or_default().last;
        let mut payload = json!({
            "runId": name, "sessionKey": line.session, "agentId": sessions::agent_of(&line.session), "seq": seq,
            "state": chat.state,
        });
        if let Some(message) = &chat.message {
            payload["message"] = json!(message);
        }
        if chat.state == ChatState::Delta {
            payload["deltaText"] = delta.into();
        }
        match chat.state {
            ChatState::Delta => {}
            ChatState::Final => payload["stopReason"] = "stop".into(),
            ChatState::Aborted => payload["stopReason"] = "rpc".into(),
            ChatState::Error => {
                payload["errorMessage"] = chat.error_message.unwrap_or_else(|| "the run failed".to_owned()).into();
            }
        }
        if let Some(usage) = &chat.usage {
            payload["usage"] = server::counts(usage);
        }
        operator.event("chat", payload).await;
    }

    /// The change of a session, for those who follow them.
    async fn sessions(&self, operator: &Operator, line: &Event, name: &str) {
        let phase = match &line.what {
            Stream::Lifecycle(LifecycleLine::Start) => "start",
            Stream::Lifecycle(LifecycleLine::End(_)) => "end",
            Stream::Lifecycle(LifecycleLine::Error(_)) => "error",
            _ => return,
        };
        if operator.follows_sessions.load(Ordering::Relaxed) {
            let payload = json!({
                "sessionKey": line.session, "agentId": sessions::agent_of(&line.session), "phase": phase,
                "runId": name, "ts": line.at.0,
            });
            operator.event("sessions.changed", payload).await;
        }
    }
}

/// A line as the data of a stream; none if it is nothing that its clients know.
fn data(line: &Event) -> Option<(&'static str, Value)> {
    let at = line.at.0;
    Some(match &line.what {
        Stream::Lifecycle(LifecycleLine::Start) => ("lifecycle", json!({ "phase": "start", "startedAt": at })),
        Stream::Lifecycle(LifecycleLine::End(_)) => {
            ("lifecycle", json!({ "phase": "end", "endedAt": at, "aborted": false, "executionSettled": true }))
        }
        Stream::Lifecycle(LifecycleLine::Error(end))
            if matches!(end.outcome, Outcome::Aborted | Outcome::Interrupted) =>
        {
            ("lifecycle", json!({ "phase": "end", "endedAt": at, "aborted": true, "executionSettled": true }))
        }
        Stream::Lifecycle(LifecycleLine::Error(end)) => {
            let error = end.error.clone().unwrap_or_else(|| format!("the run was {}", end.outcome.name()));
            ("lifecycle", json!({ "phase": "error", "endedAt": at, "error": error, "executionSettled": true }))
        }
        Stream::Tool(ToolLine::Start { call, tool, arguments, .. }) => {
            // What is cut is shown as a text.
            let args = serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.clone()));
            ("tool", json!({ "phase": "start", "toolCallId": call, "name": tool, "args": args }))
        }
        Stream::Tool(ToolLine::End { call, tool, outcome, output, .. }) => {
            let result = json!({ "content": [{ "type": "text", "text": output }] });
            let is_error = *outcome != CallOutcome::Done;
            let data = json!({
                "phase": "result", "toolCallId": call, "name": tool, "isError": is_error, "result": result,
            });
            ("tool", data)
        }
        Stream::Compaction(CompactionLine::Begun { .. }) => ("compaction", json!({ "phase": "start" })),
        Stream::Compaction(CompactionLine::Done { .. }) => {
            ("compaction", json!({ "phase": "end", "willRetry": false, "completed": true }))
        }
        Stream::Compaction(CompactionLine::Failed { .. }) => {
            ("compaction", json!({ "phase": "end", "willRetry": false, "completed": false }))
        }
        _ => return None,
    })
}
