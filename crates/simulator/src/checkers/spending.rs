//! What runs may spend: a second account of it, from the entries alone.

use std::collections::BTreeSet;

use engine::tables::lifecycle::LifecycleKind;
use engine::{
    Allowance, CallId, Event, Failure, FailureClass, Next, Note, RequestSent, Resource, Scope, Session, Spent, Usage,
    WaitFor,
};
use journal::Entry;

use super::Evidence;
use crate::invariant::{Invariant, Violation};

/// Tokens of what limulus itself adds to a request after it was weighed.
const NOTE_TOKENS: u64 = 200;

/// A request of the script is taken to have fewer tokens: a run does not wait while so many are left.
const MOST_TOKENS: u64 = 6_000;

/// The part of a limit that is for the request that says what was done: a twentieth.
const KEPT_BACK: u64 = 20;

/// The account of a session.
#[derive(Default)]
struct Account {
    /// What is configured, and what was said in its place: of the run, and of the session.
    limits: [Allowance; 2],
    said: [Allowance; 2],
    /// Tokens and calls: of the run under way, and of those before it.
    run: [u64; 2],
    before: [u64; 2],
    /// What was set aside for the request that is out, and whether it was heard of.
    out: Option<(u64, bool)>,
    /// And for the summary that is being made.
    summary: Option<u64>,
    is_active: bool,
    started: BTreeSet<CallId>,
    closing: Closing,
}

/// How far the run under way is with saying what was done.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Closing {
    #[default]
    No,
    Asked,
    Said,
}

/// No request goes out and no call starts that too little is left for, and no run waits or ends where there is enough.
pub(super) fn is_within_its_limits(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let budget = &evidence.outside.plan.settings.budget;
    let mut account = Account { limits: [budget.run, budget.session], ..Account::default() };
    evidence.events().try_for_each(|event| {
        account.may(event)?;
        account.add(event);
        Ok(())
    })
}

/// What the state says was spent is what the entries give.
pub fn is_as_the_state_says(session: &Session, entries: &[Entry]) -> Result<(), Violation> {
    let mut account = Account::default();
    for entry in entries {
        account.add(&entry.event);
    }
    let of_run = session.run().map_or_else(Spent::default, |run| run.spent);
    let says = [session.spent.tokens + of_run.tokens, session.spent.calls + of_run.calls];
    let are = [0, 1].map(|at| account.before[at] + account.run[at]);
    Invariant::Budget
        .holds(says == are, || format!("the state says that {says:?} tokens and calls were spent, not {are:?}"))
}

impl Account {
    /// Each limit with what was spent of it.
    fn limited(&self, of: Resource) -> impl Iterator<Item = (u64, u64)> {
        let at = usize::from(of == Resource::Calls);
        let spent = [self.run[at], self.before[at] + self.run[at]];
        let limits = [0, 1].map(|whose| self.said[whose].or(self.limits[whose]).of(of));
        limits.into_iter().zip(spent).filter_map(|(limit, spent)| Some((limit?, spent)))
    }

    fn is_limited(&self) -> bool {
        self.limited(Resource::Tokens).chain(self.limited(Resource::Calls)).next().is_some()
    }

    /// Whether so much more is left, but for what is kept back.
    fn is_free(&self, tokens: u64) -> bool {
        let fits = |(limit, spent): (u64, u64)| spent + tokens <= limit - limit / KEPT_BACK + NOTE_TOKENS;
        self.limited(Resource::Tokens).all(fits) && self.limited(Resource::Calls).all(|(limit, spent)| spent < limit)
    }

    fn may(&self, event: &Event) -> Result<(), Violation> {
        match event {
            Event::RequestSent(e) => self.may_send(e),
            Event::CallStarted(e) if !self.started.contains(&e.call) => {
                let left = self.limited(Resource::Calls).all(|(limit, spent)| spent < limit);
                Invariant::Budget.holds(left, || format!("{} starts, and no call is left", e.call))
            }
            Event::WaitBegan(e) if e.on == WaitFor::Budget => self.is_needed("waits for more"),
            Event::RunEnded(e) if e.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::Budget) => {
                self.is_needed("ends for want of more")
            }
            _ => Ok(()),
        }
    }

    fn may_send(&self, e: &RequestSent) -> Result<(), Violation> {
        let set_aside = e.reserved.map_or(0, |reserved| reserved.tokens);
        let is_kept = if self.is_limited() { set_aside > e.tokens } else { set_aside == 0 };
        Invariant::Budget
            .holds(is_kept, || format!("{} holds {} tokens, {set_aside} are set aside", e.request, e.tokens))?;
        let closes = |(limit, spent): (u64, u64)| spent + set_aside <= limit + NOTE_TOKENS;
        let closes = self.closing == Closing::Asked && self.limited(Resource::Tokens).all(closes);
        Invariant::Budget
            .holds(closes || self.is_free(set_aside), || format!("{} goes out, and too little is left", e.request))
    }

    fn is_needed(&self, does: &str) -> Result<(), Violation> {
        Invariant::Budget.holds(!self.is_free(MOST_TOKENS), || format!("a run {does}, and there is enough"))
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::RunStarted(_) => {
                self.summary = None;
                (self.run, self.said[0], self.closing) = ([0; 2], Allowance::default(), Closing::No);
            }
            Event::BudgetSet(e) => self.said[usize::from(e.scope == Scope::Session)] = e.allowance,
            Event::Noted(e) if e.note == Note::Closing => self.closing = Closing::Asked,
            Event::WaitEnded(e) if e.on == WaitFor::Budget => self.closing = Closing::No,
            Event::RequestSent(e) => {
                self.lose();
                self.out = e.reserved.map(|reserved| (reserved.tokens, false));
            }
            Event::RequestOpened(_) => self.out = self.out.map(|(tokens, _)| (tokens, true)),
            Event::MessageSealed(e) => {
                self.take(&e.usage);
                if e.next != Next::Cut {
                    self.out = None;
                    self.closing = if self.closing == Closing::No { Closing::No } else { Closing::Said };
                }
            }
            Event::CompactionBegun(e) => self.summary = e.reserved.map(|reserved| reserved.tokens),
            Event::Compacted(e) => {
                self.summary = None;
                self.take(&e.usage);
            }
            Event::CompactionFailed(e) => {
                let lost = self.summary.take().filter(|_| is_unknown(&e.failure)).unwrap_or_default();
                self.run[0] += lost.max(e.usage.prompt() + e.usage.output);
            }
            // What was begun is begun anew, and nobody knows what the first one has taken.
            Event::Resumed(_) => self.lose_summary(),
            Event::Opened(_) if self.is_active => self.lose_summary(),
            Event::LifecycleChanged(e) => {
                self.is_active = e.to == LifecycleKind::Active;
                if self.is_active && e.from == LifecycleKind::Ready {
                    self.lose_summary();
                }
            }
            Event::StreamCut(_) | Event::WaitBegan(_) => self.lose(),
            Event::Failed(e) => {
                self.out = self.out.filter(|(_, observed)| *observed || is_unknown(&e.failure));
                self.lose();
            }
            Event::CallStarted(e) => self.run[1] += u64::from(self.started.insert(e.call)),
            Event::RunEnded(_) => {
                self.lose();
                self.lose_summary();
                self.summary = None;
                self.before = [0, 1].map(|at| self.before[at] + self.run[at]);
                self.run = [0; 2];
            }
            _ => {}
        }
    }

    fn take(&mut self, usage: &Usage) {
        self.run[0] += usage.prompt() + usage.output;
    }

    fn lose_summary(&mut self) {
        self.run[0] += self.summary.unwrap_or_default();
    }

    /// Nobody will say what the request that is out has taken.
    fn lose(&mut self) {
        self.run[0] += self.out.take().map_or(0, |(tokens, _)| tokens);
    }
}

/// Whether the provider may have worked on a request that ended so before anything was heard of it.
fn is_unknown(failure: &Failure) -> bool {
    use FailureClass::{Malformed, Network, Stalled, Timeout, Unknown};
    [Malformed, Network, Stalled, Timeout, Unknown].contains(&failure.class)
}
