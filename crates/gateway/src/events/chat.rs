//! Lines as chat (R48): the whole answer so far at most every 150 ms, and the last word at the end of its run. By the times that
//! stand in the lines, so that it needs no clock. What may not live here: who is told.

use std::collections::BTreeMap;

use engine::{EffectId, EffectKind, Event, Outcome, RunId, Seq, SessionRow, Timestamp};
use journal::{Error, Read};
use protocol::chat::{CHAT_DELTA_MS, Chat, ChatMessage, ChatState};
use protocol::event::{AssistantLine, QueueLine, RunEnd, StateLine, Stream};

use super::place::BatchPosition;
use super::position::StreamPosition;
use super::resume::text_of;
use super::telling::{Projection, Source};

/// The answers that are under way, as one subscriber has been told of them.
#[derive(Debug, Default)]
pub(crate) struct Chats {
    runs: BTreeMap<RunId, ChatReply>,
}

#[derive(Debug, Default)]
struct ChatReply {
    /// The text of each request, in order; what was struck is not there.
    pieces: Vec<(EffectId, String)>,
    /// When it was told last.
    told: Option<Timestamp>,
    /// The request that was cut last: what is kept of it is a message, and the step goes on.
    cut: Option<EffectId>,
    /// A step has its answer: the answer of the run is that of its last step, so what follows begins anew.
    is_answered: bool,
}

impl ChatReply {
    fn piece(&mut self, effect: EffectId) -> &mut String {
        if self.is_answered && !self.pieces.iter().any(|(of, _)| *of == effect) {
            self.pieces.clear();
            self.is_answered = false;
        }
        let at = self.pieces.iter().position(|(of, _)| *of == effect).unwrap_or_else(|| {
            self.pieces.push((effect, String::new()));
            self.pieces.len() - 1
        });
        &mut self.pieces[at].1
    }

    /// A message of this request is finished.
    fn finish(&mut self, effect: EffectId, text: Option<String>) {
        if let Some(text) = text {
            *self.piece(effect) = text;
        }
        self.is_answered = self.cut != Some(effect);
    }

    fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }
}

impl Chats {
    /// For whoever has seen all up to this cursor: what had been said of the run that was under way there.
    pub(crate) fn behind(store: &dyn Read, session: &SessionRow, cursor: &StreamPosition) -> Result<Self, Error> {
        let mut chats = Self::default();
        let batch = BatchPosition::nowhere(session.branch);
        let source = Source { key: &session.key, batch, bodies: &[], store };
        let mut projection = Projection::standing_at(cursor.clone());
        projection.find_run(source)?;
        let Some(run) = projection.run else { return Ok(chats) };
        let answer = chats.runs.entry(run).or_default();
        let first = store.run(run)?.map_or(Seq(1), |row| row.first_seq);
        for entry in store.range(session.branch, first, cursor.seq())? {
            match &entry.event {
                Event::TextStruck(e) => answer.pieces.retain(|(of, _)| *of != e.request),
                Event::MessageSealed(e) => answer.finish(e.request, e.text.map(|body| source.text(&body.hash))),
                Event::StreamCut(_) | Event::Failed(_) => {
                    answer.cut = entry.event.seals();
                    if let (Some(effect), Some(body)) = (answer.cut, text_of(&entry.event)) {
                        *answer.piece(effect) = source.text(&body.hash);
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
            seen.clone_into(answer.piece(effect));
        }
        Ok(chats)
    }

    /// What is told of a line, if anything.
    pub(crate) fn observe(&mut self, line: &protocol::Event) -> Option<Chat> {
        let run = line.run?;
        match &line.what {
            Stream::Assistant(AssistantLine::Delta(delta)) => {
                let answer = self.runs.entry(run).or_default();
                answer.piece(delta.effect).push_str(&delta.text);
                if answer.told.is_some_and(|told| line.at.since(told) < CHAT_DELTA_MS) {
                    return None;
                }
                answer.told = Some(line.at);
                Some(chat(line, run, ChatState::Delta, answer.text()))
            }
            Stream::Assistant(AssistantLine::Struck { effect }) => {
                self.runs.entry(run).or_default().pieces.retain(|(of, _)| of != effect);
                None
            }
            Stream::Assistant(AssistantLine::Cut { effect, .. }) => {
                self.runs.entry(run).or_default().cut = Some(*effect);
                None
            }
            Stream::Assistant(AssistantLine::Message { effect, text, .. }) => {
                self.runs.entry(run).or_default().finish(*effect, text.clone());
                None
            }
            Stream::State(StateLine::Rewound { .. }) => {
                // What is kept of an open answer is told again from its beginning.
                self.runs.clear();
                None
            }
            Stream::Queue(QueueLine::Settled { .. }) => {
                let state = line.never_began(run)?;
                let error_message = crate::show::never_began(state);
                Some(Chat { error_message, ..chat(line, run, ChatState::Aborted, String::new()) })
            }
            _ => {
                let end = line.run_end()?;
                self.runs.remove(&run);
                Some(last(line, run, end))
            }
        }
    }
}

fn last(line: &protocol::Event, run: RunId, end: &RunEnd) -> Chat {
    let state = match end.outcome {
        Outcome::Completed => ChatState::Final,
        Outcome::Aborted | Outcome::Interrupted => ChatState::Aborted,
        Outcome::Failed | Outcome::TimedOut => ChatState::Error,
    };
    let error_message = end.error.clone().filter(|_| state == ChatState::Error);
    Chat { error_message, usage: Some(end.usage), ..chat(line, run, state, end.text.clone()) }
}

fn chat(line: &protocol::Event, run_id: RunId, state: ChatState, text: String) -> Chat {
    let message = (!text.is_empty()).then(|| ChatMessage::said(text, line.at));
    // Its cursor is the subscriber's own.
    let (cursor, session_key) = (String::new(), line.session.clone());
    Chat { cursor, run_id, session_key, state, message, error_message: None, usage: None }
}
