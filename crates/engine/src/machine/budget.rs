//! Checks budgets before each request and each call, never while a call runs.

use super::commands::{no_session, state_refusal};
use super::failover::Pick;
use super::{Machine, model_notices};
use crate::body::{BodyKind, Content};
use crate::event::{BudgetAsked, BudgetSet, Note, Noted, WaitBegan, WaitEnded, WaitFor};
use crate::failure::{Failure, FailureClass};
use crate::ids::{EffectKind, Moment, Timestamp};
use crate::input::{Acknowledgement, Refusal};
use crate::settings::Candidate;
use crate::state::{Phase, Run, Session, WrapUp};
use crate::tables::budget::{
    Allowance, AtLimit, Limit, Resource, Scope, ScopeBudget, Spent, Standing, can_close, may_recover, standing,
};

impl Machine {
    /// Checks the budget for the next request to this candidate. Returns whether it is sent.
    pub(super) fn check_budget(&mut self, candidate: u32, moment: Moment) -> bool {
        let Some((budgets, candidate, tokens, progress)) = self.budgets_of_run(candidate, moment) else { return true };
        let (wrap_up, at_limit) = self
            .settings
            .as_ref()
            .map_or((0, AtLimit::Wait), |settings| (settings.budget.wrap_up, settings.budget.at_limit));
        let standing = standing(&budgets, &Spent::expected(&candidate, tokens), wrap_up);
        // The limit was raised while the run made its report, so it did not wait, and nothing has notified it.
        if progress == WrapUp::Closed && !matches!(standing, Standing::Reached(_)) && !self.is_shared() {
            self.note(Note::Raised, model_notices::RAISED, moment);
            return true;
        }
        match standing {
            Standing::Free => true,
            Standing::Near(limit) => {
                // A note behind a piece of an answer would take the place of its rest.
                if progress == WrapUp::Not && !self.has_part() {
                    self.note(Note::WrapUp, &model_notices::wrap_up(&limit), moment);
                }
                true
            }
            // The reserve is for recovery, and so for a request that is sent once more.
            Standing::Reached(_)
                if self.is_sent_again()
                    // With a steer it is another request.
                    && !self.steer_waits()
                    && !self.has_answered()
                    && may_recover(&budgets, &Spent::expected(&candidate, tokens)) =>
            {
                true
            }
            Standing::Reached(limit) if at_limit == AtLimit::End => {
                self.fail_run(Failure::new(FailureClass::Budget, model_notices::used_up(&limit)), moment);
                false
            }
            Standing::Reached(limit) => {
                let can_close = can_close(&budgets, &Spent::closing(&candidate, tokens));
                match progress {
                    // A run that has done nothing yet has nothing to report, and a report would take the place of the
                    // rest of an answer.
                    WrapUp::Not | WrapUp::Asked if can_close && self.has_worked() && !self.has_part() => {
                        self.note(Note::Closing, &model_notices::closing(&limit), moment);
                        true
                    }
                    WrapUp::Closing if can_close => true,
                    WrapUp::Not | WrapUp::Asked | WrapUp::Closing | WrapUp::Closed => {
                        self.emit(WaitBegan { on: WaitFor::Budget, until: None, limit: Some(limit) }, moment.now);
                        false
                    }
                }
            }
        }
    }

    /// The run waits for more, and the budget may have grown. Returns whether it continues.
    pub(super) fn advance_budget(&mut self, moment: Moment) -> bool {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        if run.budget.asked.is_some() {
            return false;
        }
        let waits = self.budgets_of_run(run.counts.candidates.candidate, moment).is_some_and(
            |(budgets, candidate, tokens, _)| {
                matches!(standing(&budgets, &Spent::expected(&candidate, tokens), 0), Standing::Reached(_))
            },
        );
        if waits {
            return false;
        }
        self.end_wait(moment);
        true
    }

    /// If a shared budget is limited, requests a grant for the next request first. Returns whether it did.
    pub(super) fn request_grant(&mut self, moment: Moment) -> bool {
        let Pick::Ask(candidate) = self.pick(moment) else { return false };
        let tokens = self.request_tokens(candidate);
        let Some(settings) = self.settings.as_ref().filter(|_| self.is_shared()) else { return false };
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        let Some(candidate) = settings.candidate(candidate) else { return false };
        let closing = run.budget.wrap_up == WrapUp::Closing;
        // The pool takes this for all that the run has in flight.
        let expected = expected(run.budget.wrap_up, candidate, tokens).and(&run.title_out());
        let reserve = run.effect(EffectKind::Reserve, run.budget.asks + 1, 1);
        self.emit(BudgetAsked { reserve, expected, closing }, moment.now);
        true
    }

    /// The request is granted.
    pub(super) fn reserved_by_all(&mut self, near: Option<Limit>, moment: Moment) {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let (waited, progress) = (matches!(run.phase, Phase::Awaiting { .. }), run.budget.wrap_up);
        if waited {
            // The next request may be a different one by now: then a new grant is requested.
            return self.end_wait(moment);
        }
        if let Some(near) = near.filter(|_| progress == WrapUp::Not && !self.has_part()) {
            self.note(Note::WrapUp, &model_notices::wrap_up(&near), moment);
        }
        self.begin_request(moment);
    }

    /// The request is denied. It is repeated, so that a waiting run continues by itself.
    pub(super) fn denied_by_all(&mut self, limit: &Limit, until: Option<Timestamp>, moment: Moment) {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        if !matches!(run.phase, Phase::Preparing { .. }) {
            return;
        }
        // Memory is freed as soon as others have ended, so no budget is used up.
        let is_passing = limit.of == Resource::Memory;
        let may_report = !is_passing && matches!(run.budget.wrap_up, WrapUp::Not | WrapUp::Asked);
        let says_more = may_report && self.has_worked() && !self.has_part();
        if !is_passing && self.settings.as_ref().is_some_and(|settings| settings.budget.at_limit == AtLimit::End) {
            self.fail_run(Failure::new(FailureClass::Budget, model_notices::used_up(limit)), moment);
        } else if says_more {
            self.note(Note::Closing, &model_notices::closing(limit), moment);
            self.request_grant(moment);
        } else {
            self.emit(WaitBegan { on: WaitFor::Budget, until, limit: Some(*limit) }, moment.now);
        }
    }

    /// The run no longer waits for its budget.
    fn end_wait(&mut self, moment: Moment) {
        let said = self.session.as_ref().and_then(Session::run).is_some_and(|run| run.budget.wrap_up == WrapUp::Closed);
        self.emit(WaitEnded { on: WaitFor::Budget }, moment.now);
        if said {
            self.note(Note::Raised, model_notices::RAISED, moment);
        }
    }

    /// The reservation for a request of this many tokens, if anything is limited.
    pub(super) fn reserved(&self, candidate: u32, tokens: u64, moment: Moment) -> Option<Spent> {
        let settings = self.settings.as_ref()?;
        let run = self.session.as_ref()?.run()?;
        let asked = settings.candidate(candidate)?;
        self.is_limited(candidate, moment).then(|| expected(run.budget.wrap_up, asked, tokens))
    }

    /// Whether the next request costs more than its grant: a steer was delivered meanwhile, or the candidate is another.
    pub(super) fn outgrew_grant(&self, candidate: u32, tokens: u64) -> bool {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        let Some(candidate) = self.settings.as_ref().and_then(|settings| settings.candidate(candidate)) else {
            return false;
        };
        let needed = expected(run.budget.wrap_up, candidate, tokens);
        run.budget.asked.is_some_and(|asked| {
            Resource::ALL.iter().any(|&resource| needed.of(resource) > asked.expected.of(resource))
        })
    }

    /// Whether the run has a limit that other runs share.
    fn is_shared(&self) -> bool {
        self.budget_shared || self.settings.as_ref().is_some_and(|settings| settings.budget.is_shared())
    }

    /// Whether anything that the run spends is limited.
    pub(super) fn is_limited(&self, candidate: u32, moment: Moment) -> bool {
        self.is_shared() || self.budgets_of_run(candidate, moment).is_some()
    }

    /// The limit that the reservation for a summary exceeds. The first summary of a run may use the reserve.
    pub(super) fn limit_of_summary(&self, moment: Moment) -> Option<Limit> {
        let run = self.session.as_ref().and_then(Session::run)?;
        let (budgets, ..) = self.budgets_of_run(run.counts.candidates.candidate, moment)?;
        if run.compaction.begun <= 1 && may_recover(&budgets, &Spent::default()) {
            return None;
        }
        match standing(&budgets, &Spent::default(), 0) {
            Standing::Reached(limit) => Some(limit),
            Standing::Free | Standing::Near(_) => None,
        }
    }

    /// Whether the budgets of the run allow this beside its own requests: there is enough for two more of them behind it, so
    /// that none of them has to wait because of it.
    pub(super) fn is_ample(&self, expected: &Spent, candidate: u32, moment: Moment) -> bool {
        let Some((budgets, own, tokens, progress)) = self.budgets_of_run(candidate, moment) else { return true };
        let next = Spent::expected(&own, tokens);
        let all = expected.and(&next).and(&next);
        progress == WrapUp::Not && !matches!(standing(&budgets, &all, 0), Standing::Reached(_))
    }

    /// How many more calls the run may start.
    pub(super) fn calls_left(&self, moment: Moment) -> u64 {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return 0 };
        if matches!(run.budget.wrap_up, WrapUp::Closing | WrapUp::Closed) {
            return 0;
        }
        let Some((budgets, ..)) = self.budgets_of_run(run.counts.candidates.candidate, moment) else {
            return u64::MAX;
        };
        let left = |budget: &ScopeBudget| Some(budget.limit(Resource::Calls, &Spent::default())?.free());
        budgets.iter().filter_map(left).min().unwrap_or(u64::MAX)
    }

    /// Sets limits for the active run or for the session, for each named resource.
    pub(super) fn set_budget(
        &mut self,
        scope: Scope,
        change: Allowance,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let before = match (scope, session.run()) {
            (Scope::Run, Some(run)) => run.budget.allowance,
            (Scope::Run, None) => return Err(state_refusal(session, "there is no run under way")),
            (Scope::Session, _) => session.account.allowance,
            (Scope::Agent | Scope::Day | Scope::Home | Scope::Process, _) => {
                let reason = "budgets of an agent, a day or the home are set for the home, not for a session";
                return Err(state_refusal(session, reason));
            }
        };
        self.emit(BudgetSet { scope, allowance: change.or(before) }, moment.now);
        self.advance(moment);
        Ok(Acknowledgement::Done)
    }

    pub(super) fn note(&mut self, note: Note, text: &str, moment: Moment) {
        let body = self.keep(Content::text(BodyKind::Message, text));
        self.emit(Noted { note, body }, moment.now);
    }

    /// Whether the last request was answered, so that the next one is another.
    fn has_answered(&self) -> bool {
        self.session.as_ref().and_then(Session::run).is_some_and(|run| run.step.answered)
    }

    /// Whether the model has answered anything in this run.
    fn has_worked(&self) -> bool {
        let worked = |run: &Run| run.step.no > 1 || run.step.answered || run.step.continued > 0;
        self.session.as_ref().and_then(Session::run).is_some_and(worked)
    }

    /// What the run may spend and has spent, which candidate it asks next and for about how many tokens, and its state
    /// of wrapping up; none if nothing is limited.
    fn budgets_of_run(&self, candidate: u32, moment: Moment) -> Option<(Vec<ScopeBudget>, Candidate, u64, WrapUp)> {
        let (session, settings) = (self.session.as_ref()?, self.settings.as_ref()?);
        let run = session.run()?;
        let budgets = session.budgets(&settings.budget, moment.now);
        if budgets.iter().all(|budget| budget.allowance.is_unlimited()) {
            return None;
        }
        let asked = settings.candidate(candidate)?.clone();
        Some((budgets, asked, self.request_tokens(candidate), run.budget.wrap_up))
    }
}

/// The expected cost of the next request of a run: a report of what was done is short.
fn expected(wrap_up: WrapUp, candidate: &Candidate, tokens: u64) -> Spent {
    match wrap_up {
        WrapUp::Closing => Spent::closing(candidate, tokens),
        WrapUp::Not | WrapUp::Asked | WrapUp::Closed => Spent::expected(candidate, tokens),
    }
}
