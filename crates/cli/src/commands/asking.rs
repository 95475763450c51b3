//! Approval requests on the terminal, one at a time.

use std::collections::VecDeque;

use protocol::notice::{Answered, Asked};
use tokio::sync::mpsc;

use crate::render::Screen;

/// The approval requests of this terminal.
#[derive(Debug)]
pub(crate) struct Asking {
    open: VecDeque<Asked>,
    lines: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
    reads: bool,
}

impl Asking {
    pub(crate) fn new() -> Self {
        Self { open: VecDeque::new(), lines: mpsc::unbounded_channel(), reads: false }
    }

    /// Shows a request, or queues it behind the one that is shown.
    pub(crate) fn put(&mut self, question: Asked, own: bool, screen: &mut Screen) {
        if self.open.iter().any(|open| open.call == question.call) {
            return;
        }
        let session = if own { String::new() } else { format!("[{}] ", question.session) };
        let question = Asked { question: format!("{session}{}", question.question), ..question };
        self.open.push_back(question);
        if self.open.len() == 1 {
            self.ask(screen);
        }
    }

    /// Removes a request that was resolved, here or elsewhere.
    pub(crate) fn close(&mut self, answered: &Answered, screen: &mut Screen) {
        let is_first = self.open.front().is_some_and(|question| closes(answered, question));
        self.open.retain(|question| !closes(answered, question));
        if is_first {
            screen.answered();
            // End the line of the question.
            screen.say("");
            screen.say(&words(answered));
            self.ask(screen);
        }
    }

    /// The next answer. Cancel-safe.
    pub(crate) async fn answer(&mut self) -> (Asked, bool) {
        loop {
            // `self` holds a sender, so the channel never closes.
            let Some(line) = self.lines.1.recv().await else { return std::future::pending().await };
            // Ignore what was typed while no request was open.
            if let Some(question) = self.open.pop_front() {
                let allow = matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "是" | "好");
                return (question, allow);
            }
        }
    }

    /// Shows the first request.
    pub(crate) fn ask(&mut self, screen: &mut Screen) {
        let Some(question) = self.open.front() else { return };
        screen.ask(&format!("? allow: {} [y/N]", question.question));
        if !std::mem::replace(&mut self.reads, true) {
            let lines = self.lines.0.clone();
            // Reading a terminal blocks, so it has a thread of its own.
            std::thread::spawn(move || {
                loop {
                    let mut line = String::new();
                    // The end of the input counts as no.
                    let is_end = !matches!(std::io::stdin().read_line(&mut line), Ok(1..));
                    if lines.send(line).is_err() || is_end {
                        return;
                    }
                }
            });
        }
    }
}

/// Whether a request is resolved.
fn closes(answered: &Answered, question: &Asked) -> bool {
    answered.call == Some(question.call) || answered.run == Some(question.call.run)
}

/// The line for a resolved request.
fn words(answered: &Answered) -> String {
    match (answered.allow, &answered.by) {
        (Some(true), Some(by)) => format!("… it was allowed by {by}"),
        (Some(false), Some(by)) => format!("… it was not allowed: {by}"),
        _ => "… it is not asked any more".to_owned(),
    }
}
