//! Approval requests and questions of models on the terminal, one at a time. A terminal asks for the sessions that it follows, and for no other.
//! One key answers where the terminal gives keys; elsewhere a line does.

mod keys;

use std::collections::{BTreeMap, VecDeque};

use engine::{AnswerForm, CallId, WaitFor};
use protocol::event::{StateLine, Stream, ToolLine};
use protocol::method::{
    AlwaysParams, AlwaysScope, AnswerParams, ApprovalParams, ApprovalShown, ApprovalsShow, GrantPatterns,
    QuestionAnswerParams, QuestionParams, QuestionShown, QuestionsShow,
};
use protocol::notice::{Answered, Asked};
use protocol::{Client, Event};
use serde_json::Value;
use tokio::sync::mpsc;
use views::{approvals, excerpt};

use self::keys::{ChoiceReply, KeyReply, Pressed, ScopeReply, pressed};
use super::answer::{given, takes};
use super::approvals::allows;
use crate::keyboard;
use crate::prompt::{self, Answer};
use crate::render::{Asks, Screen};

/// Characters of a question in the line that says how it is answered.
const QUESTION: usize = 200;

/// What may be answered.
const HELP: &str = "y lets it run, n does not, `n TEXT` says why not to the model, a lets all such calls of this session run \
                    (the pattern is shown first)";

/// The same where one key answers.
const KEY_HELP: &str = "y lets it run, n does not, r says why not to the model, a lets all such calls run (the pattern is shown first), e changes \
                        the arguments in your editor";

/// What may be answered to the patterns of an approval for good.
const SCOPE_HELP: &str = "s lets all such calls of this session run, a those of this agent, h those of this home; e changes the pattern first, n leaves it";

/// What a question takes where one key answers it.
const CHOICE_KEYS: &str = "the number of a choice; s lets the model decide";

/// What is said where no pattern is offered.
const ONCE_ONLY: &str = "no pattern is offered for such calls; `limulus approvals approve ID --always session --pattern PATTERN` takes yours";

/// What may be answered to a question of a model.
const SKIP_HELP: &str = "`skip` lets the model decide";

/// The same where one key answers.
const CHOICE_HELP: &str = "press the number of a choice; s lets the model decide";

/// What is said of an approval for good that is not given.
const ALONE: &str = "then it is asked about alone";

/// The word that skips a question.
const SKIP: &str = "skip";

/// The approval requests and questions of this terminal.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    open: VecDeque<Open>,
    /// Questions that are not shown until the owner has said what they take.
    awaited: Vec<CallId>,
    answer: Answer,
    /// What is asked about the first request.
    stage: AskStage,
    /// The request that is not asked about until the owner has said more about it, and what for.
    looking: Option<(CallId, LookFor)>,
    /// Whether one key answers what is shown.
    by_key: bool,
    /// The key that has answered, which the terminal has not shown.
    key: Option<char>,
}

/// What is asked about a request.
#[derive(Debug, Default)]
enum AskStage {
    /// Whether it may run.
    #[default]
    Request,
    /// Why it may not run.
    Reason,
    /// Whether all such calls may run.
    Always(GrantPatterns),
    /// A pattern of them, typed anew: how many are done.
    Pattern(GrantPatterns, usize),
}

/// What more of a request is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookFor {
    /// All such calls are to run.
    Always,
    /// Its arguments are to be changed.
    Edit,
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
    /// The owner is to say more about it first.
    Look(Asked, LookFor),
    /// Something is to be said, and the request asked once more.
    Say(String),
    /// The next thing about the request is to be asked.
    Again,
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
        (self.stage, self.looking) = (AskStage::Request, None);
        self.leave_keys();
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
            if self.by_key && screen.is_asking() {
                // The terminal was another's meanwhile.
                keyboard::give_keys();
            }
            return;
        }
        let Some(Open { asked, question }) = self.open.front() else { return };
        let is_line = match question {
            Some(question) => !keys::has_keys(question),
            None => matches!(self.stage, AskStage::Reason | AskStage::Pattern(..)),
        };
        self.by_key = !is_line && screen.shows_input() && keyboard::give_keys();
        if !self.by_key {
            keyboard::give_back();
        }
        let (by_key, discard) = (self.by_key, || self.answer.discard());
        let session = &asked.session;
        match (question, &self.stage) {
            (Some(question), _) if by_key => screen.ask_user(question, CHOICE_KEYS, discard),
            (Some(question), _) => screen.ask_user(question, takes(question), discard),
            (None, AskStage::Request) => {
                screen.ask(if by_key { Asks::Key } else { Asks::Line }, session, &asked.question, discard);
            }
            (None, AskStage::Reason) => screen.ask_line("why not? the model receives it", discard),
            (None, AskStage::Always(patterns)) if by_key => {
                screen.ask(Asks::Scope, session, &format!("all calls like it: {}", allows(patterns)), discard);
            }
            (None, AskStage::Always(patterns)) => {
                let what = format!("all calls like it in this session: {}", allows(patterns));
                screen.ask(Asks::YesOrNo, session, &what, discard);
            }
            (None, AskStage::Pattern(patterns, done)) => {
                let pattern = patterns.patterns().nth(*done).unwrap_or_default();
                screen.ask_line(&format!("the pattern instead of `{pattern}` (Enter keeps it)"), discard);
            }
        }
    }

    /// Queues a question, or goes on with the first request. Returns what is to be edited.
    pub(crate) fn take_looked_up(&mut self, found: LookedUp, screen: &mut Screen) -> Option<Box<ApprovalShown>> {
        match found {
            LookedUp::Question(asked, question) => {
                let at = self.awaited.iter().position(|call| *call == asked.call)?;
                self.awaited.remove(at);
                // An owner that says nothing is gone; the next one asks again.
                if let Some(question) = question.filter(|question| question.answered.is_none()) {
                    self.open.push_back(Open { asked, question: Some(question) });
                }
                None
            }
            LookedUp::Approval(call, shown) => {
                let (_, wanted) = self.looking.take_if(|(looking, _)| *looking == call)?;
                if wanted == LookFor::Edit {
                    return shown;
                }
                match shown.and_then(|shown| shown.always) {
                    Some(patterns) => self.stage = AskStage::Always(patterns),
                    None => screen.say(ONCE_ONLY),
                }
                None
            }
        }
    }

    /// Asks the owner what would be remembered of a request, and what it is whole.
    /// `shown` receives that; none if the owner does not say it.
    pub(crate) fn look_up(
        &mut self,
        (request, wanted): (&Asked, LookFor),
        client: &Client,
        shown: &mpsc::Sender<LookedUp>,
    ) {
        self.looking = Some((request.call, wanted));
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
        if self.by_key
            && let Some(bytes) = self.answer.keys().await
        {
            let pressed = pressed(&bytes);
            self.key = if let Pressed::Key(key) = pressed { Some(key) } else { None };
            return self.by_pressed(pressed);
        }
        // The end of the input counts as no.
        let line = if self.by_key { None } else { self.answer.line().await };
        self.by_line(line.as_deref())
    }

    /// The key that has answered: the terminal has shown nothing of it. It is what it was until the next question.
    pub(crate) fn take_key(&mut self) -> Option<String> {
        let is_key = self.by_key;
        self.leave_keys();
        is_key.then(|| self.key.take().map_or_else(String::new, String::from))
    }

    fn leave_keys(&mut self) {
        if std::mem::take(&mut self.by_key) {
            keyboard::give_back();
        }
    }

    /// The first request is resolved.
    fn resolve(&mut self, with: impl FnOnce(AnswerParams) -> AnswerParams) -> Reaction {
        self.stage = AskStage::Request;
        let Some(Open { asked, .. }) = self.open.pop_front() else { return Reaction::Say(HELP.to_owned()) };
        Reaction::Resolve(Box::new(with(AnswerParams::once(asked.call, asked.fingerprint, true))))
    }

    fn grant(&mut self, patterns: &GrantPatterns, scope: AlwaysScope) -> Reaction {
        let patterns = patterns.patterns().map(str::to_owned).collect();
        self.resolve(|params| AnswerParams { always: Some(AlwaysParams { scope, patterns }), ..params })
    }

    /// Resolves a request with arguments that were changed, unless it is closed meanwhile.
    pub(crate) fn resolve_edited(&mut self, call: CallId, arguments: Value) -> Option<AnswerParams> {
        let at = self.open.iter().position(|open| open.asked.call == call)?;
        let Open { asked, .. } = self.open.remove(at)?;
        Some(AnswerParams { arguments: Some(arguments), ..AnswerParams::once(call, asked.fingerprint, true) })
    }

    fn by_pressed(&mut self, pressed: Pressed) -> Reaction {
        let say = |what: &str| Reaction::Say(what.to_owned());
        let Some(Open { asked, question }) = self.open.front() else { return say(KEY_HELP) };
        if let Some(question) = question {
            let line = match keys::choice(pressed, question) {
                ChoiceReply::Choice(digit) => digit.to_string(),
                ChoiceReply::Skip => SKIP.to_owned(),
                ChoiceReply::Help => return say(CHOICE_HELP),
            };
            return self.by_line(Some(&line));
        }
        if let AskStage::Always(patterns) = &self.stage {
            let patterns = patterns.clone();
            return match keys::scope(pressed) {
                ScopeReply::Grant(scope) => self.grant(&patterns, scope),
                ScopeReply::Edit if patterns.patterns().next().is_some() => {
                    self.stage = AskStage::Pattern(patterns, 0);
                    Reaction::Again
                }
                ScopeReply::Leave => {
                    self.stage = AskStage::Request;
                    say(ALONE)
                }
                ScopeReply::Edit | ScopeReply::Help => say(SCOPE_HELP),
            };
        }
        match keys::reply(pressed) {
            KeyReply::Once => self.resolve(|params| params),
            KeyReply::Deny => self.resolve(|params| AnswerParams { allow: false, ..params }),
            KeyReply::DenyWhy => {
                self.stage = AskStage::Reason;
                Reaction::Again
            }
            KeyReply::Always => Reaction::Look(asked.clone(), LookFor::Always),
            KeyReply::Edit => Reaction::Look(asked.clone(), LookFor::Edit),
            KeyReply::Help => say(KEY_HELP),
        }
    }

    fn by_line(&mut self, line: Option<&str>) -> Reaction {
        let Some(Open { asked, question }) = self.open.front() else { return Reaction::Say(HELP.to_owned()) };
        if let Some(question) = question {
            let reaction = answer_to(question, line);
            if matches!(reaction, Reaction::Answer(_)) {
                self.open.pop_front();
            }
            return reaction;
        }
        let given = line.map(str::trim).filter(|line| !line.is_empty());
        match (std::mem::take(&mut self.stage), line) {
            (AskStage::Reason, _) => {
                let reason = given.map(str::to_owned);
                self.resolve(|params| AnswerParams { allow: false, reason, ..params })
            }
            (AskStage::Always(patterns), Some(line)) if prompt::is_yes(line) => {
                self.grant(&patterns, AlwaysScope::Session)
            }
            (AskStage::Always(_), _) | (AskStage::Pattern(..), None) => Reaction::Say(ALONE.to_owned()),
            (AskStage::Pattern(mut patterns, done), Some(_)) => {
                if let Some((pattern, given)) = pattern_at(&mut patterns, done).zip(given) {
                    given.clone_into(pattern);
                }
                let is_last = done + 1 >= patterns.patterns().count();
                self.stage = if is_last { AskStage::Always(patterns) } else { AskStage::Pattern(patterns, done + 1) };
                Reaction::Again
            }
            (AskStage::Request, line) => match line.map_or(Reply::Deny { reason: None }, reply) {
                Reply::Help => Reaction::Say(HELP.to_owned()),
                Reply::Always => Reaction::Look(asked.clone(), LookFor::Always),
                Reply::Once => self.resolve(|params| params),
                Reply::Deny { reason } => self.resolve(|params| AnswerParams { allow: false, reason, ..params }),
            },
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.leave_keys();
    }
}

/// The pattern of this number.
fn pattern_at(patterns: &mut GrantPatterns, number: usize) -> Option<&mut String> {
    let GrantPatterns { commands, paths, hosts, .. } = patterns;
    commands.iter_mut().chain(paths).chain(hosts).nth(number)
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
