//! The built-in offline model: no AI, no network, no key. It parses the last request, makes one call a step, and
//! answers with a short text built from the results. The same conversation always gives the same answer.

mod answer;
mod clause;
mod grammar;
mod lexer;
mod lexicon;
mod plan;
mod turn;

#[cfg(test)]
mod tests;

use std::time::Duration;

use engine::{Part, Usage, estimate_tokens};
use futures_util::{StreamExt, stream};

use crate::model::{Message, Model, ModelEvent, Request, ResponseStream};
use plan::Next;
use turn::Turn;

/// The built-in model, which works without a network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline {
    pace: Duration,
}

impl Offline {
    /// A model that streams as fast as it is read.
    pub fn new() -> Self {
        Self::default()
    }

    /// A model that waits this long before each piece of an answer, to simulate thinking.
    pub fn with_pace(pace: Duration) -> Self {
        Self { pace }
    }
}

impl Model for Offline {
    fn stream(&self, request: Request) -> ResponseStream {
        let pace = self.pace;
        let events = answer(&request);
        stream::iter(events)
            .then(move |event| async move {
                // Yield between two pieces so that other tasks can run.
                if pace.is_zero() {
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(pace).await;
                }
                Ok(event)
            })
            .boxed()
    }
}

fn answer(request: &Request) -> Vec<ModelEvent> {
    let mut events = vec![ModelEvent::Opened];
    let output = match plan::next(&Turn::of(&request.messages)) {
        Next::Call { tool, arguments } => {
            let calls = request.messages.iter().filter(|message| is_result(message)).count();
            let arguments = arguments.to_string();
            let bytes = tool.len() + arguments.len();
            let provider_id = Some(format!("offline_{}", calls + 1));
            events.push(ModelEvent::Part(Part::Call { index: 0, provider_id, name: Some(tool.to_owned()), arguments }));
            bytes
        }
        Next::Answer(text) => {
            events.extend(pieces(&text).map(|piece| ModelEvent::Part(Part::Text(piece.to_owned()))));
            text.len()
        }
    };
    let tools = request.tools.iter().map(|tool| tool.description.len() + tool.schema.to_string().len()).sum::<usize>();
    let messages = request.messages.iter().map(|message| message.bytes()).sum::<usize>();
    let input = request.system.len() + tools + messages;
    let [input, output] = [input, output].map(|bytes| estimate_tokens(bytes as u64));
    let usage = Usage { input, output, ..Usage::default() };
    events.push(ModelEvent::Ended { usage, is_counted: false, stop_reason: None });
    events
}

fn is_result(message: &Message) -> bool {
    matches!(message, Message::Result { .. })
}

/// A few words each: a piece ends after a blank, or anywhere in Chinese text, once it has sixteen bytes.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let ends = |(at, c): &(usize, char)| at + c.len_utf8() >= 16 && (c.is_whitespace() || !c.is_ascii());
        let end = rest.char_indices().find(ends).map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
