//! What a watcher has read, line by line. It reports wrong lines at once: a missing or repeated number, a misplaced
//! byte, a repeated end.

use std::collections::{BTreeMap, BTreeSet};

use engine::RunId;
use protocol::Event;
use protocol::event::{AssistantLine, StateLine, Stream};

/// Everything that one watcher has read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The text of each request, in the order in which it came.
    pub(super) texts: BTreeMap<String, String>,
    /// Requests whose text is no part of an answer.
    pub(super) retracted: BTreeSet<String>,
    /// The text with which each run ended.
    pub(super) ends: BTreeMap<RunId, String>,
    pub(super) lines: u64,
    pub(super) violations: Vec<String>,
    /// The last number of each unfinished run, and of lines without a run, by subscription.
    numbers: BTreeMap<(String, Option<RunId>), u64>,
}

impl Seen {
    /// Adds a line, with its subscription and its number.
    pub(super) fn take(&mut self, (subscription, seq): (&str, u64), event: &Event) {
        self.lines += 1;
        self.count(subscription, seq, event);
        match &event.what {
            Stream::Assistant(AssistantLine::Delta(delta)) => {
                let received = self.texts.entry(delta.effect.to_string()).or_default();
                if delta.offset != received.len() as u64 {
                    let had = received.len();
                    self.violations
                        .push(format!("{}: {had} bytes were received, then came {}", delta.effect, delta.offset));
                }
                received.push_str(&delta.text);
            }
            Stream::Assistant(AssistantLine::Struck { effect }) => {
                self.retracted.insert(effect.to_string());
            }
            Stream::State(StateLine::Rewound { to }) => {
                self.violations.push(format!("a kill took nothing, and it was rewound to {to}"));
            }
            _ => {}
        }
        if let (Some(end), Some(run)) = (event.run_end(), event.run)
            && self.ends.insert(run, end.text.clone()).is_some()
        {
            self.violations.push(format!("the end of run {run} was published twice"));
        }
    }

    /// Numbers continue across connections: within a run they are 1, 2, 3 …
    fn count(&mut self, subscription: &str, seq: u64, event: &Event) {
        let of = (subscription.to_owned(), event.run);
        let last = self.numbers.get(&of).copied().unwrap_or_default();
        if seq != last + 1 {
            self.violations.push(format!("number {seq} came after {last}: {event:?}"));
        }
        self.numbers.insert(of.clone(), seq);
        if event.run_end().is_some() {
            self.numbers.remove(&of);
        }
    }
}
