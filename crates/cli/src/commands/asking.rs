//! Questions put to whoever sits at the terminal, one at a time. What may not live here: what an answer leads to.

use std::collections::VecDeque;

use protocol::notice::{Answered, Asked};
use tokio::sync::mpsc;

use crate::render::Screen;

/// What is asked here.
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

    /// Asks, or puts it behind what is asked already.
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

    /// Whoever answered it, it is not open any more.
    pub(crate) fn close(&mut self, answered: &Answered, screen: &mut Screen) {
        let is_first = self.open.front().is_some_and(|question| closes(answered, question));
        self.open.retain(|question| !closes(answered, question));
        if is_first {
            screen.answered();
            // Behind the question, on a line of its own.
            screen.say("");
            screen.say(&words(answered));
            self.ask(screen);
        }
    }

    /// The next answer. One that is dropped loses nothing.
    pub(crate) async fn answer(&mut self) -> (Asked, bool) {
        loop {
            // This end is held here, so the channel never ends.
            let Some(line) = self.lines.1.recv().await else { return std::future::pending().await };
            // What was typed while nothing was asked is no answer.
            if let Some(question) = self.open.pop_front() {
                let allow = matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "是" | "好");
                return (question, allow);
            }
        }
    }

    /// Asks what is first, once what was asked before it is answered.
    pub(crate) fn ask(&mut self, screen: &mut Screen) {
        let Some(question) = self.open.front() else { return };
        screen.ask(&format!("? allow: {} [y/N]", question.question));
        if !std::mem::replace(&mut self.reads, true) {
            let lines = self.lines.0.clone();
            // On a thread of its own: a terminal cannot be read without waiting.
            std::thread::spawn(move || {
                loop {
                    let mut line = String::new();
                    // The end of the input is an answer too: no.
                    let is_end = !matches!(std::io::stdin().read_line(&mut line), Ok(1..));
                    if lines.send(line).is_err() || is_end {
                        return;
                    }
                }
            });
        }
    }
}

/// Whether a question is open no more.
fn closes(answered: &Answered, question: &Asked) -> bool {
    answered.call == Some(question.call) || answered.run == Some(question.call.run)
}

/// What became of a question.
fn words(answered: &Answered) -> String {
    match (answered.allow, &answered.by) {
        (Some(true), Some(by)) => format!("… it was allowed by {by}"),
        (Some(false), Some(by)) => format!("… it was not allowed: {by}"),
        _ => "… it is not asked any more".to_owned(),
    }
}
