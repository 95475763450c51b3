//! What runs may spend: a second implementation, from the entries alone.

use std::collections::BTreeSet;

use engine::tables::lifecycle::LifecycleKind;
use engine::{
    Allowance, CallId, Event, Failure, FailureClass, Next, Note, RequestSent, Resource, Scope, Session, Spent, Usage,
    WaitFor,
};
use journal::Entry;

use super::Evidence;
use crate::invariant::{Invariant, Violation};

/// Tokens that Limulus itself adds to a request after estimating it.
const NOTE_TOKENS: u64 = 200;

/// An upper bound on the tokens by which a scripted request is larger than the largest before it: no run waits while
/// there is enough for such a request.
const MOST_TOKENS: u64 = 6_000;

/// The reserved part of a limit is one in this many: a twentieth. It is for recovery.
const KEPT_BACK: u64 = 20;

/// The spending of a session.
#[derive(Default)]
struct Account {
    /// The limits of the run and of the session, as configured or as changed by a user.
    limits: [Allowance; 2],
    said: [Allowance; 2],
    /// Tokens and calls of the run in progress, and of the runs before it.
    run: [u64; 2],
    before: [u64; 2],
    /// The tokens reserved for the open request, and whether the provider has responded to it.
    out: Option<(u64, bool)>,
    /// The tokens reserved for the summary in progress.
    summary: Option<u64>,
    /// The tokens reserved for the title that a model is asked for.
    title: u64,
    /// The tokens of the largest request so far: the history of a session grows without end.
    largest: u64,
    is_active: bool,
    started: BTreeSet<CallId>,
    closing: Closing,
}

/// How far the run in progress is with its closing report.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Closing {
    #[default]
    No,
    Asked,
    Said,
}

/// No request is sent and no call starts without enough budget, and no run waits or ends while there is enough.
pub(super) fn is_within_its_limits(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let budget = &evidence.outside.plan.settings.budget;
    let mut account = Account { limits: [budget.run, budget.session], ..Account::default() };
    evidence.events().try_for_each(|event| {
        account.may(event)?;
        account.add(event);
        Ok(())
    })
}

/// The spending in the state matches the entries.
pub fn is_as_the_state_says(session: &Session, entries: &[Entry]) -> Result<(), Violation> {
    let mut account = Account::default();
    for entry in entries {
        account.add(&entry.event);
    }
    let of_run = session.run().map_or_else(Spent::default, |run| run.budget.spent);
    let says = [session.account.spent.tokens + of_run.tokens, session.account.spent.calls + of_run.calls];
    let are = [0, 1].map(|at| account.before[at] + account.run[at]);
    Invariant::Budget
        .holds(says == are, || format!("the state says that {says:?} tokens and calls were spent, not {are:?}"))
}

impl Account {
    /// Each limit with the amount spent.
    fn limited(&self, of: Resource) -> impl Iterator<Item = (u64, u64)> {
        let at = usize::from(of == Resource::Calls);
        let spent = [self.run[at], self.before[at] + self.run[at]];
        let limits = [0, 1].map(|whose| self.said[whose].or(self.limits[whose]).of(of));
        limits.into_iter().zip(spent).filter_map(|(limit, spent)| Some((limit?, spent)))
    }

    fn is_limited(&self) -> bool {
        self.limited(Resource::Tokens).chain(self.limited(Resource::Calls)).next().is_some()
    }

    /// Whether this many tokens are left above the reserve.
    fn is_free(&self, tokens: u64) -> bool {
        let fits = |(limit, spent): (u64, u64)| spent + tokens <= limit - limit / KEPT_BACK + NOTE_TOKENS;
        self.limited(Resource::Tokens).all(fits) && self.limited(Resource::Calls).all(|(limit, spent)| spent < limit)
    }

    fn may(&self, event: &Event) -> Result<(), Violation> {
        match event {
            Event::RequestSent(e) => self.may_send(e),
            Event::TitleAsked(e) => {
                let reserved = e.reserved.map_or(0, |reserved| reserved.tokens);
                let free = (reserved > 0) == self.is_limited() && self.is_free(reserved);
                Invariant::Budget.holds(free, || format!("{} is asked without enough budget", e.title))
            }
            Event::CallStarted(e) if !self.started.contains(&e.call) => {
                let left = self.limited(Resource::Calls).all(|(limit, spent)| spent < limit);
                Invariant::Budget.holds(left, || format!("{} starts although no call is left", e.call))
            }
            Event::WaitBegan(e) if e.on == WaitFor::Budget => self.is_needed("waits for budget"),
            Event::RunEnded(e) if e.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::Budget) => {
                self.is_needed("ends for lack of budget")
            }
            _ => Ok(()),
        }
    }

    fn may_send(&self, e: &RequestSent) -> Result<(), Violation> {
        let reserved = e.reserved.map_or(0, |reserved| reserved.tokens);
        let is_kept = if self.is_limited() { reserved > e.tokens } else { reserved == 0 };
        Invariant::Budget
            .holds(is_kept, || format!("{} holds {} tokens, {reserved} are reserved", e.request, e.tokens))?;
        let closes = |(limit, spent): (u64, u64)| spent + reserved <= limit + NOTE_TOKENS;
        // The reserve is for recovery: the closing report, and a request that is sent once more.
        let recovers = self.closing == Closing::Asked || e.request.try_no > 1;
        let closes = recovers && self.limited(Resource::Tokens).all(closes);
        Invariant::Budget
            .holds(closes || self.is_free(reserved), || format!("{} is sent without enough budget", e.request))
    }

    fn is_needed(&self, does: &str) -> Result<(), Violation> {
        Invariant::Budget
            .holds(!self.is_free(self.largest + MOST_TOKENS), || format!("a run {does}, and there is enough"))
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::RunStarted(_) => {
                self.summary = None;
                (self.run, self.said[0], self.closing) = ([0; 2], Allowance::default(), Closing::No);
            }
            Event::BudgetSet(e) => self.said[usize::from(e.scope == Scope::Session)] = e.allowance,
            Event::Noted(e) if e.note == Note::Closing => self.closing = Closing::Asked,
            Event::Noted(e) if e.note == Note::Raised => self.closing = Closing::No,
            Event::WaitEnded(e) if e.on == WaitFor::Budget => self.closing = Closing::No,
            Event::RequestSent(e) => {
                self.lose();
                self.largest = self.largest.max(e.tokens);
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
            Event::TitleAsked(e) => self.title = e.reserved.map_or(0, |reserved| reserved.tokens),
            Event::TitleEnded(e) => {
                let lost = if e.failure.as_ref().is_some_and(is_unknown) { std::mem::take(&mut self.title) } else { 0 };
                self.run[0] += lost.max(e.usage.prompt() + e.usage.output);
            }
            // A compaction in progress starts again, and the tokens of its first attempt are unknown.
            Event::Resumed(_) => self.lose_summary(),
            Event::Opened(_) if self.is_active => self.lose_summary(),
            Event::LifecycleChanged(e) => {
                self.is_active = e.to == LifecycleKind::Active;
                if self.is_active && e.from == LifecycleKind::Ready {
                    self.lose_summary();
                }
            }
            Event::StreamInterrupted(_) | Event::WaitBegan(_) => self.lose(),
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

    /// The outcome of the open request will never be known.
    fn lose(&mut self) {
        self.run[0] += self.out.take().map_or(0, |(tokens, _)| tokens);
    }
}

/// Whether the provider may have processed a request that failed like this before any response came.
fn is_unknown(failure: &Failure) -> bool {
    use FailureClass::{Malformed, Network, Stalled, Timeout, Unknown};
    [Malformed, Network, Stalled, Timeout, Unknown].contains(&failure.class)
}
