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
    pub(crate) fn put(&mut self, request: Asked, own: bool, screen: &mut Screen) {
        if self.open.iter().any(|open| open.call == request.call) {
            return;
        }
        let session = if own { String::new() } else { format!("[{}] ", request.session) };
        let request = Asked { question: format!("{session}{}", request.question), ..request };
        self.open.push_back(request);
        if self.open.len() == 1 {
            self.ask(screen);
        }
    }

    /// Removes a request that was resolved, here or elsewhere.
    pub(crate) fn close(&mut self, answered: &Answered, screen: &mut Screen) {
        let is_first = self.open.front().is_some_and(|request| closes(answered, request));
        self.open.retain(|request| !closes(answered, request));
        if is_first {
            screen.answered();
            // End the line of the request.
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
            if let Some(request) = self.open.pop_front() {
                let allow = matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "是" | "好");
                return (request, allow);
            }
        }
    }

    /// Shows the first request.
    pub(crate) fn ask(&mut self, screen: &mut Screen) {
        let Some(request) = self.open.front() else { return };
        screen.ask(&format!("? allow: {} [y/N]", request.question));
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
fn closes(answered: &Answered, request: &Asked) -> bool {
    answered.call == Some(request.call) || answered.run == Some(request.call.run)
}

/// The line for a resolved request.
fn words(answered: &Answered) -> String {
    match (answered.allow, &answered.by) {
        (Some(true), Some(by)) => format!("… it was allowed by {by}"),
        (Some(false), Some(by)) => format!("… it was not allowed: {by}"),
        _ => "… the request is no longer open".to_owned(),
    }
}
