//! Projects lines as chat (R48): the whole answer so far at most every 150 ms, and the final text at the end of the
//! run. It uses the times in the lines, so it needs no clock.

use std::collections::BTreeMap;

use engine::{EffectId, EffectKind, Event, Outcome, RunId, Seq, SessionRow, Timestamp};
use journal::{Error, Read};
use protocol::chat::{CHAT_DELTA_MS, Chat, ChatMessage, ChatState};
use protocol::event::{AssistantLine, QueueLine, RunEnd, StateLine, Stream};

use super::batch_position::BatchPosition;
use super::position::StreamPosition;
use super::projection::{Projection, Source};
use super::resume::text_of;

/// Bytes of an answer up to which its text so far is repeated; a longer one is sent when it is complete. Each subscription
/// has the text in memory.
const CHAT_TEXT_BYTES: usize = 256 << 10;

/// The answers in progress, as one subscriber has received them.
#[derive(Debug, Default)]
pub struct Chats {
    runs: BTreeMap<RunId, ChatReply>,
}

#[derive(Debug, Default)]
struct ChatReply {
    /// The text of each request, in order, without retracted texts.
    pieces: Vec<(EffectId, String)>,
    /// When the last delta was sent.
    sent_at: Option<Timestamp>,
    /// The request that was interrupted last: its kept text is a message, and the step continues.
    interrupted: Option<EffectId>,
    /// Set when the text of a step is too long to be repeated; it is not kept.
    is_long: bool,
    /// Set when a step has its answer. The answer of a run is that of its last step, so later text starts anew.
    is_answered: bool,
}

impl ChatReply {
    fn piece(&mut self, effect: EffectId) -> &mut String {
        if self.is_answered && !self.pieces.iter().any(|(of, _)| *of == effect) {
            self.pieces.clear();
            (self.is_answered, self.is_long) = (false, false);
        }
        let at = self.pieces.iter().position(|(of, _)| *of == effect).unwrap_or_else(|| {
            self.pieces.push((effect, String::new()));
            self.pieces.len() - 1
        });
        &mut self.pieces[at].1
    }

    /// Adds to the text of this request.
    fn add(&mut self, effect: EffectId, text: &str) {
        self.piece(effect).push_str(text);
        self.bound();
    }

    /// Replaces the text of this request.
    fn set(&mut self, effect: EffectId, text: String) {
        *self.piece(effect) = text;
        self.bound();
    }

    fn bound(&mut self) {
        self.is_long |= self.pieces.iter().map(|(_, text)| text.len()).sum::<usize>() > CHAT_TEXT_BYTES;
        if self.is_long {
            self.pieces.iter_mut().for_each(|(_, text)| *text = String::new());
        }
    }

    /// A message of this request is finished.
    fn finish(&mut self, effect: EffectId, text: Option<String>) {
        if let Some(text) = text {
            self.set(effect, text);
        }
        self.is_answered = self.interrupted != Some(effect);
    }

    fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }
}

impl Chats {
    /// The chat state of a reader at this cursor: the text of the run that was active there.
    pub fn behind(store: &dyn Read, session: &SessionRow, cursor: &StreamPosition) -> Result<Self, Error> {
        let mut chats = Self::default();
        let batch = BatchPosition::nowhere(session.branch);
        let source = Source { key: &session.key, batch, bodies: &[], store };
        let mut projection = Projection::at_position(cursor.clone());
        projection.find_run(source)?;
        let Some(run) = projection.run else { return Ok(chats) };
        let reply = chats.runs.entry(run).or_default();
        let first = store.run(run)?.map_or(Seq(1), |row| row.first_seq);
        for entry in store.range(session.branch, first, cursor.seq())? {
            match &entry.event {
                Event::TextRetracted(e) => reply.pieces.retain(|(of, _)| *of != e.request),
                Event::MessageSealed(e) => reply.finish(e.request, e.text.map(|body| source.text(&body.hash))),
                Event::StreamInterrupted(_) | Event::Failed(_) => {
                    reply.interrupted = entry.event.seals();
                    if let (Some(effect), Some(body)) = (reply.interrupted, text_of(&entry.event)) {
                        reply.set(effect, source.text(&body.hash));
                    }
                }
                _ => {}
            }
        }
        let tail = store.tail(session.branch, Seq(cursor.seq().0.max(1)))?;
        for (&effect, reached) in cursor.effects().iter().filter(|(effect, _)| effect.kind == EffectKind::Request) {
            let sealed = tail.entries.iter().find(|entry| entry.event.seals() == Some(effect));
            let sealed = sealed.and_then(|entry| text_of(&entry.event)).map(|body| source.text(&body.hash));
            let text = sealed.unwrap_or_else(|| {
                let added = |event: &Event| match event {
                    Event::TextAdded(e) if e.effect == effect => Some(e.text.clone()),
                    _ => None,
                };
                tail.progress.iter().filter_map(|record| added(&record.event)).collect()
            });
            let seen = usize::try_from(reached.text).ok().and_then(|bytes| text.get(..bytes)).unwrap_or(&text);
            reply.set(effect, seen.to_owned());
        }
        Ok(chats)
    }

    /// Returns the chat event of a line, if there is one.
    pub fn observe(&mut self, line: &protocol::Event) -> Option<Chat> {
        let run = line.run?;
        match &line.what {
            Stream::Assistant(AssistantLine::Delta(delta)) => {
                let reply = self.runs.entry(run).or_default();
                reply.add(delta.effect, &delta.text);
                if reply.is_long || reply.sent_at.is_some_and(|sent_at| line.at.since(sent_at) < CHAT_DELTA_MS) {
                    return None;
                }
                reply.sent_at = Some(line.at);
                Some(chat(line, run, ChatState::Delta, reply.text()))
            }
            Stream::Assistant(AssistantLine::Struck { effect }) => {
                self.runs.entry(run).or_default().pieces.retain(|(of, _)| of != effect);
                None
            }
            Stream::Assistant(AssistantLine::Cut { effect, .. }) => {
                self.runs.entry(run).or_default().interrupted = Some(*effect);
                None
            }
            Stream::Assistant(AssistantLine::Message { effect, text, .. }) => {
                self.runs.entry(run).or_default().finish(*effect, text.clone());
                None
            }
            Stream::State(StateLine::Rewound { .. }) => {
                // The text of an open response is sent again from its beginning.
                self.runs.clear();
                None
            }
            Stream::Queue(QueueLine::Settled { .. }) => {
                let state = line.never_began(run)?;
                let error_message = crate::never_began(state);
                Some(Chat { error_message, ..chat(line, run, ChatState::Aborted, String::new()) })
            }
            _ => self.end(line).map(|chat| chat()),
        }
    }

    /// The end of a run, if this line is one: how to make its chat event, which all subscribers share.
    pub fn end<'a>(&mut self, line: &'a protocol::Event) -> Option<impl Fn() -> Chat + 'a> {
        let (run, end) = (line.run?, line.run_end()?);
        self.runs.remove(&run);
        Some(move || last(line, run, end))
    }
}

fn last(line: &protocol::Event, run: RunId, end: &RunEnd) -> Chat {
    let state = match end.outcome {
        Outcome::Completed => ChatState::Final,
        Outcome::Aborted | Outcome::Interrupted => ChatState::Aborted,
        Outcome::Failed | Outcome::TimedOut | Outcome::Stalled => ChatState::Error,
    };
    let error_message = end.error.clone().filter(|_| state == ChatState::Error);
    Chat { error_message, usage: Some(end.usage), ..chat(line, run, state, end.text.clone()) }
}

fn chat(line: &protocol::Event, run_id: RunId, state: ChatState, text: String) -> Chat {
    let message = (!text.is_empty()).then(|| ChatMessage::said(text, line.at));
    // The cursor is the subscriber's own.
    let (cursor, session_key) = (String::new(), line.session.clone());
    Chat { cursor, run_id, session_key, state, message, error_message: None, usage: None }
}

#[cfg(test)]
mod tests {
    use engine::Usage;
    use protocol::event::Delta;

    use super::*;

    /// R48: each subscription has the text so far in memory, and sends it again and again.
    #[test]
    fn r48_a_text_that_is_too_long_is_neither_kept_nor_repeated() {
        let run = RunId(uuid::Uuid::from_u128(1));
        let effect = |ordinal| EffectId { run, kind: EffectKind::Request, ordinal, try_no: 1 };
        let line = |at, what| protocol::Event {
            cursor: String::new(),
            session: "agent:main:main".to_owned(),
            run: Some(run),
            at: Timestamp(at),
            what: Stream::Assistant(what),
            queue: vec![],
        };
        let delta = |ordinal, text: &str| {
            AssistantLine::Delta(Delta { effect: effect(ordinal), offset: 0, text: text.to_owned() })
        };
        let mut chats = Chats::default();
        let mut observe =
            |at, what| chats.observe(&line(at, what)).and_then(|chat| chat.message).map(|of| of.text().len());
        let half = "x".repeat(CHAT_TEXT_BYTES / 2);
        assert_eq!(observe(1_000, delta(1, &half)), Some(half.len()));
        assert_eq!(observe(2_000, delta(1, &half)), Some(2 * half.len()));
        assert_eq!(observe(3_000, delta(1, "more")), None);
        let (text, usage) = (Some(half.repeat(2) + "more"), Usage::default());
        let sealed =
            AssistantLine::Message { effect: effect(1), text, calls: 0, stop_reason: None, continues: false, usage };
        assert_eq!(observe(4_000, sealed), None);
        assert_eq!(observe(5_000, delta(2, "next step")), Some(9), "the next text is short");
        chats.observe(&line(6_000, delta(2, &half.repeat(3))));
        assert!(chats.runs[&run].text().is_empty(), "it is not kept");
    }
}
