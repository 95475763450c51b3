//! Approval requests on the terminal, one at a time. A terminal asks for the sessions that it follows, and for no other.

use std::collections::{BTreeMap, VecDeque};

use engine::{CallId, WaitFor};
use protocol::event::{StateLine, Stream, ToolLine};
use protocol::method::{
    AlwaysParams, AlwaysScope, AnswerParams, ApprovalParams, ApprovalShown, ApprovalsShow, GrantPatterns,
};
use protocol::notice::{Answered, Asked};
use protocol::{Client, Event};
use tokio::sync::mpsc;
use views::{approvals, excerpt};

use super::approvals::allows;
use crate::prompt::{self, Answer};
use crate::render::Screen;

/// Characters of a question in the line that says how it is answered.
const QUESTION: usize = 200;

/// What may be answered.
const HELP: &str = "y lets it run, n does not, `n TEXT` says why not to the model, a lets all such calls of this session run \
                    (the pattern is shown first)";

/// What is said where no pattern is offered.
const ONCE_ONLY: &str = "no pattern is offered for such calls; `limulus approvals approve ID --always session --pattern PATTERN` takes yours";

/// The approval requests of this terminal.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    open: VecDeque<Asked>,
    answer: Answer,
    /// What would be remembered of the first request, if that is asked about.
    always: Option<GrantPatterns>,
    /// The request that is not asked about until the owner has said what would be remembered.
    looking: Option<CallId>,
}

/// What the owner says about a request; none if it says nothing.
pub(crate) type LookedUp = (CallId, Option<ApprovalShown>);

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Once,
    Always,
    Deny { reason: Option<String> },
    Help,
}

/// What follows from an answer.
pub(crate) enum Reaction {
    /// It resolves this request.
    Resolve(Box<AnswerParams>),
    /// What would be remembered is to be shown first.
    Look(Asked),
    /// Something is to be said, and the request asked once more.
    Say(&'static str),
}

impl Asking {
    /// Queues a request.
    pub(crate) fn put(&mut self, request: Asked) {
        if !self.open.iter().any(|open| open.call == request.call) {
            self.open.push_back(request);
        }
    }

    /// Removes a request that was resolved, here or elsewhere.
    pub(crate) fn close(&mut self, answered: &Answered, screen: &mut Screen) {
        let is_first = self.open.front().is_some_and(|request| closes(answered, request));
        self.open.retain(|request| !closes(answered, request));
        if is_first {
            (self.always, self.looking) = (None, None);
        }
        if is_first && screen.is_asking() {
            screen.say(&words(answered));
        }
    }

    /// Whether a request is to be shown.
    pub(crate) fn is_due(&self, screen: &Screen) -> bool {
        !self.open.is_empty() && self.looking.is_none() && !screen.is_asking()
    }

    /// Shows the first request, unless it is the last thing on the screen.
    pub(crate) fn show(&mut self, screen: &mut Screen) {
        if !self.is_due(screen) {
            return;
        }
        let Some(request) = self.open.front() else { return };
        match &self.always {
            Some(patterns) => {
                let question = format!("all calls like it in this session: {}", allows(patterns));
                screen.ask_yes(&request.session, &question, || self.answer.discard());
            }
            None => screen.ask(&request.session, &request.question, || self.answer.discard()),
        }
    }

    /// Shows what would be remembered of the first request, if anything can be.
    pub(crate) fn take_looked_up(&mut self, (call, shown): LookedUp, screen: &mut Screen) {
        if self.looking != Some(call) {
            return;
        }
        self.looking = None;
        match shown.and_then(|shown| shown.always) {
            Some(patterns) => self.always = Some(patterns),
            None => screen.say(ONCE_ONLY),
        }
    }

    /// Asks the owner what would be remembered of a request.
    /// `shown` receives that; none if the owner does not say it.
    pub(crate) fn look_up(&mut self, request: &Asked, client: &Client, shown: &mpsc::Sender<LookedUp>) {
        self.looking = Some(request.call);
        let (client, shown, call, id) = (client.clone(), shown.clone(), request.call, approvals::id(request.call));
        tokio::spawn(async move {
            let found = client.call::<ApprovalsShow>(ApprovalParams { id }).await.ok();
            // A terminal that is gone asks nothing.
            let _ = shown.send((call, found)).await;
        });
    }

    /// The reaction to the answer to the request that is shown. Cancel-safe.
    pub(crate) async fn answer(&mut self, is_shown: bool) -> Reaction {
        if !is_shown || self.open.is_empty() {
            return std::future::pending().await;
        }
        // The end of the input counts as no.
        let line = self.answer.line().await;
        let Some(Asked { call, fingerprint, .. }) = self.open.front().cloned() else {
            return std::future::pending().await;
        };
        let resolve = |params| Reaction::Resolve(Box::new(params));
        if let Some(patterns) = self.always.take() {
            if !line.is_some_and(|line| prompt::is_yes(&line)) {
                return Reaction::Say("then it is asked about alone");
            }
            self.open.pop_front();
            let patterns = patterns.patterns().map(str::to_owned).collect();
            let always = Some(AlwaysParams { scope: AlwaysScope::Session, patterns });
            return resolve(AnswerParams { always, ..AnswerParams::once(call, fingerprint, true) });
        }
        let reply = line.map_or(Reply::Deny { reason: None }, |line| reply(&line));
        match reply {
            Reply::Help => return Reaction::Say(HELP),
            Reply::Always => return self.open.front().cloned().map_or(Reaction::Say(HELP), Reaction::Look),
            Reply::Once | Reply::Deny { .. } => {}
        }
        self.open.pop_front();
        match reply {
            Reply::Deny { reason } => resolve(AnswerParams { reason, ..AnswerParams::once(call, fingerprint, false) }),
            _ => resolve(AnswerParams::once(call, fingerprint, true)),
        }
    }
}

/// The open questions where there is no terminal to ask on.
#[derive(Debug, Default)]
pub(crate) struct Unasked {
    open: BTreeMap<CallId, String>,
}

impl Unasked {
    /// Takes in an event. If its run waits for approval now: what for, and the commands that answer it.
    pub(crate) fn ways_to_answer(&mut self, event: &Event) -> Vec<String> {
        match &event.what {
            Stream::Tool(ToolLine::Asked { call, question, .. }) => drop(self.open.insert(*call, question.clone())),
            Stream::Tool(
                ToolLine::Answered { call, .. } | ToolLine::End { call, .. } | ToolLine::Expired { call, kept: false },
            ) => drop(self.open.remove(call)),
            Stream::State(StateLine::Waiting { on: WaitFor::Approval, .. }) => {
                let of_run = self.open.iter().filter(|(call, _)| event.run == Some(call.run));
                let ways = of_run.flat_map(|(call, question)| {
                    let (id, what) = (approvals::id(*call), excerpt(question, QUESTION));
                    let way = format!("  `limulus approvals approve {id}` or `limulus approvals deny {id}` answers it");
                    [format!("… waits for approval to {what}"), way]
                });
                return ways.collect();
            }
            _ => {}
        }
        vec![]
    }
}

/// What a line answers. What is neither a yes nor a no allows nothing.
fn reply(line: &str) -> Reply {
    let line = line.trim();
    if prompt::is_yes(line) {
        return Reply::Once;
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word.to_lowercase().as_str() {
        "" | "n" | "no" | "否" | "不" => {
            Reply::Deny { reason: Some(rest.trim().to_owned()).filter(|reason| !reason.is_empty()) }
        }
        "a" | "always" if rest.is_empty() => Reply::Always,
        _ => Reply::Help,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r60_what_is_not_clearly_a_yes_allows_nothing() {
        let deny = |reason: Option<&str>| Reply::Deny { reason: reason.map(str::to_owned) };
        for (line, expected) in [
            ("y", Reply::Once),
            (" YES ", Reply::Once),
            ("是", Reply::Once),
            ("", deny(None)),
            ("n", deny(None)),
            ("no", deny(None)),
            ("n  use cargo instead ", deny(Some("use cargo instead"))),
            ("a", Reply::Always),
            ("a b", Reply::Help),
            ("yes please", Reply::Help),
            ("?", Reply::Help),
            ("\u{1b}[A", Reply::Help),
        ] {
            assert_eq!(reply(line), expected, "{line:?}");
        }
    }
}
