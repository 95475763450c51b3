//! Approval requests and questions of models on the terminal, one at a time. A terminal asks for the sessions that it follows, and for no other.

use std::collections::{BTreeMap, VecDeque};

use engine::{AnswerForm, CallId, WaitFor};
use protocol::event::{StateLine, Stream, ToolLine};
use protocol::method::{
    AlwaysParams, AlwaysScope, AnswerParams, ApprovalParams, ApprovalShown, ApprovalsShow, GrantPatterns,
    QuestionAnswerParams, QuestionParams, QuestionShown, QuestionsShow,
};
use protocol::notice::{Answered, Asked};
use protocol::{Client, Event};
use tokio::sync::mpsc;
use views::{approvals, excerpt};

use super::answer::{given, takes};
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

/// What may be answered to a question of a model.
const SKIP_HELP: &str = "`skip` lets the model decide";

/// The word that skips a question.
const SKIP: &str = "skip";

/// The approval requests and questions of this terminal.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    open: VecDeque<Open>,
    /// Questions that are not shown until the owner has said what they take.
    awaited: Vec<CallId>,
    answer: Answer,
    /// What would be remembered of the first request, if that is asked about.
    always: Option<GrantPatterns>,
    /// The request that is not asked about until the owner has said what would be remembered.
    looking: Option<CallId>,
}

/// An open request.
#[derive(Debug)]
struct Open {
    asked: Asked,
    /// The question that it is, with what it takes; none = it needs approval.
    question: Option<Box<QuestionShown>>,
}

/// What the owner says about a request; none if it says nothing.
#[derive(Debug)]
pub(crate) enum LookedUp {
    /// What an approval of all such calls would remember.
    Approval(CallId, Option<Box<ApprovalShown>>),
    /// What a question takes.
    Question(Asked, Option<Box<QuestionShown>>),
}

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
    /// It answers or skips this question.
    Answer(Box<QuestionAnswerParams>),
    /// What would be remembered is to be shown first.
    Look(Asked),
    /// Something is to be said, and the request asked once more.
    Say(String),
}

impl Asking {
    /// Queues a request. What a question takes is looked up first.
    pub(crate) fn put(&mut self, asked: Asked, client: &Client, shown: &mpsc::Sender<LookedUp>) {
        let is_known = |call: &CallId| *call == asked.call;
        if self.open.iter().any(|open| is_known(&open.asked.call)) || self.awaited.iter().any(is_known) {
            return;
        }
        if asked.takes.is_none() {
            return self.open.push_back(Open { asked, question: None });
        }
        self.awaited.push(asked.call);
        let (client, shown, id) = (client.clone(), shown.clone(), asked.call.to_string());
        tokio::spawn(async move {
            let found = client.call::<QuestionsShow>(QuestionParams { id }).await.ok().map(Box::new);
            let _ = shown.send(LookedUp::Question(asked, found)).await;
        });
    }

    /// Removes a request that was resolved, here or elsewhere.
    pub(crate) fn close(&mut self, answered: &Answered, screen: &mut Screen) {
        let closes = |call: CallId| answered.call == Some(call) || answered.run == Some(call.run);
        self.awaited.retain(|call| !closes(*call));
        let first = self.open.front().filter(|open| closes(open.asked.call)).map(|open| open.question.is_some());
        self.open.retain(|open| !closes(open.asked.call));
        let Some(is_question) = first else { return };
        (self.always, self.looking) = (None, None);
        if screen.is_asking() {
            screen.say(&words(answered, is_question));
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
        let Some(Open { asked, question }) = self.open.front() else { return };
        match (question, &self.always) {
            (Some(question), _) => screen.ask_user(question, takes(question), || self.answer.discard()),
            (None, Some(patterns)) => {
                let question = format!("all calls like it in this session: {}", allows(patterns));
                screen.ask_yes(&asked.session, &question, || self.answer.discard());
            }
            (None, None) => screen.ask(&asked.session, &asked.question, || self.answer.discard()),
        }
    }

    /// Queues a question, or shows what would be remembered of the first request, if anything can be.
    pub(crate) fn take_looked_up(&mut self, found: LookedUp, screen: &mut Screen) {
        match found {
            LookedUp::Question(asked, question) => {
                let is_awaited = self.awaited.iter().position(|call| *call == asked.call);
                let Some(at) = is_awaited else { return };
                self.awaited.remove(at);
                // An owner that says nothing is gone; the next one asks again.
                if let Some(question) = question.filter(|question| question.answered.is_none()) {
                    self.open.push_back(Open { asked, question: Some(question) });
                }
            }
            LookedUp::Approval(call, shown) if self.looking == Some(call) => {
                self.looking = None;
                match shown.and_then(|shown| shown.always) {
                    Some(patterns) => self.always = Some(patterns),
                    None => screen.say(ONCE_ONLY),
                }
            }
            LookedUp::Approval(..) => {}
        }
    }

    /// Asks the owner what would be remembered of a request.
    /// `shown` receives that; none if the owner does not say it.
    pub(crate) fn look_up(&mut self, request: &Asked, client: &Client, shown: &mpsc::Sender<LookedUp>) {
        self.looking = Some(request.call);
        let (client, shown, call, id) = (client.clone(), shown.clone(), request.call, approvals::id(request.call));
        tokio::spawn(async move {
            let found = client.call::<ApprovalsShow>(ApprovalParams { id }).await.ok().map(Box::new);
            // A terminal that is gone asks nothing.
            let _ = shown.send(LookedUp::Approval(call, found)).await;
        });
    }

    /// The reaction to the answer to the request that is shown. Cancel-safe.
    pub(crate) async fn answer(&mut self, is_shown: bool) -> Reaction {
        if !is_shown || self.open.is_empty() {
            return std::future::pending().await;
        }
        // The end of the input counts as no.
        let line = self.answer.line().await;
        let Some(Open { asked, question }) = self.open.front() else { return std::future::pending().await };
        let asked = asked.clone();
        if let Some(question) = question {
            let reaction = answer_to(question, line.as_deref());
            if matches!(reaction, Reaction::Answer(_)) {
                self.open.pop_front();
            }
            return reaction;
        }
        let Asked { call, fingerprint, .. } = asked;
        let resolve = |params| Reaction::Resolve(Box::new(params));
        if let Some(patterns) = self.always.take() {
            if !line.is_some_and(|line| prompt::is_yes(&line)) {
                return Reaction::Say("then it is asked about alone".to_owned());
            }
            self.open.pop_front();
            let patterns = patterns.patterns().map(str::to_owned).collect();
            let always = Some(AlwaysParams { scope: AlwaysScope::Session, patterns });
            return resolve(AnswerParams { always, ..AnswerParams::once(call, fingerprint, true) });
        }
        let reply = line.map_or(Reply::Deny { reason: None }, |line| reply(&line));
        match reply {
            Reply::Help => return Reaction::Say(HELP.to_owned()),
            Reply::Always => return Reaction::Look(asked),
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
    open: BTreeMap<CallId, (String, Option<AnswerForm>)>,
}

impl Unasked {
    /// Takes in an event. If its run waits for approval now: what for, and the commands that answer it.
    pub(crate) fn ways_to_answer(&mut self, event: &Event) -> Vec<String> {
        match &event.what {
            Stream::Tool(ToolLine::Asked { call, question, takes, .. }) => {
                drop(self.open.insert(*call, (question.clone(), *takes)));
            }
            Stream::Tool(
                ToolLine::Answered { call, .. } | ToolLine::End { call, .. } | ToolLine::Expired { call, kept: false },
            ) => drop(self.open.remove(call)),
            Stream::State(StateLine::Waiting { on: WaitFor::Approval | WaitFor::Answer, .. }) => {
                let of_run = self.open.iter().filter(|(call, _)| event.run == Some(call.run));
                let ways = of_run.flat_map(|(call, (question, takes))| {
                    let (id, what) = (approvals::id(*call), excerpt(question, QUESTION));
                    if takes.is_some() {
                        let way = format!("  `limulus answer {id}` shows what it takes and answers it");
                        return [format!("… asks: {what}"), way];
                    }
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

/// What a line answers to a question of a model; the end of the input skips it.
fn answer_to(question: &QuestionShown, line: Option<&str>) -> Reaction {
    let Some(fingerprint) = question.fingerprint else { return Reaction::Say(SKIP_HELP.to_owned()) };
    let line = line.map(str::trim);
    let given = match line {
        None | Some(SKIP) => {
            Ok(QuestionAnswerParams { skip: true, ..QuestionAnswerParams::of(question.call, fingerprint) })
        }
        Some("") => Err(SKIP_HELP.to_owned()),
        Some(line) => given(question, line).map_err(|why| format!("{why}; `skip` lets the model decide")),
    };
    given.map_or_else(Reaction::Say, |params| Reaction::Answer(Box::new(params)))
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

/// The line for a resolved request.
fn words(answered: &Answered, is_question: bool) -> String {
    match (answered.allow, &answered.by) {
        (Some(true), Some(by)) if is_question => format!("… it was answered by {by}"),
        (Some(false), Some(by)) if is_question => format!("… it was skipped by {by}"),
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
