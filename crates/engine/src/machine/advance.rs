//! The steps that follow from the state alone. Called after every input until nothing more follows.

use super::failover::{Pick, Strategy, cooling_until, given_up, recover};
use super::{Machine, model_notices};
use crate::body::{BodyKind, Content};
use crate::event::{
    CandidateCooldownLifted, CandidateCooldownSet, Note, Noted, Outcome, RetryScheduled, StepBegun, Usage, WaitBegan,
    WaitEnded, WaitFor,
};
use crate::failure::{Failure, FailureClass};
use crate::ids::{EffectId, Moment, Timestamp};
use crate::input::RepairPolicy;
use crate::ledger::{CooldownLifted, CooldownSet};
use crate::mutant;
use crate::settings::{Candidate, Limits, ResumeMode, Thinking};
use crate::state::{History, Lifecycle, Phase, PrepareStage, Repeat, Session};
use crate::tables::chain::{BEFORE_REQUEST, ChainLink};
use crate::tables::compaction::CompactionStep;
use crate::tables::failover::{AtEnd, Cools, rule_of};
use crate::tables::limits::{TITLE_MS, WINDOW_LEAST};
use crate::tables::timers::Timer;

impl Machine {
    /// Takes every step that the state allows. Each step changes the phase or is the last one, so this terminates.
    pub(super) fn advance(&mut self, moment: Moment) {
        while self.fault.is_none() && self.step_once(moment) {}
    }

    /// Takes one step. Returns whether another may follow.
    fn step_once(&mut self, moment: Moment) -> bool {
        let Some(session) = self.session.as_ref().filter(|session| !session.account.closed) else { return false };
        if session.is_recovering() {
            return self.advance_recovery(moment);
        }
        let Lifecycle::Active(run) = &session.conversation.lifecycle else {
            self.advance_queue(moment);
            return false;
        };
        if let Some(ending) = run.ending {
            return self.advance_ending(ending.outcome, moment);
        }
        if self.stop_in_state(moment) {
            return false;
        }
        if self.make_way(moment) {
            return true;
        }
        let Some(phase) = self.phase() else { return false };
        match phase {
            Phase::Preparing { stage: PrepareStage::Gathering } => self.advance_preparing(moment),
            Phase::ToolExec | Phase::Awaiting { on: WaitFor::Approval | WaitFor::Answer, .. } => {
                let waited = matches!(phase, Phase::Awaiting { .. });
                self.advance_calls(moment);
                match self.phase() {
                    // Its calls have no time left: they are all settled.
                    Some(Phase::Preparing { .. }) => true,
                    // A wait is a state to stop in as well.
                    Some(Phase::Awaiting { .. }) => !waited,
                    Some(
                        Phase::ToolExec
                        | Phase::Streaming(_)
                        | Phase::Compacting(_)
                        | Phase::Error { .. }
                        | Phase::Retry { .. },
                    )
                    | None => false,
                }
            }
            Phase::Awaiting { on: WaitFor::Budget, .. } => {
                !mutant!(BudgetRaiseForgotten) && self.advance_budget(moment)
            }
            Phase::Error { failure } => {
                let failure = failure.clone();
                self.advance_error(&failure, moment)
            }
            Phase::Compacting(None) => {
                self.advance_overflow(moment);
                true
            }
            Phase::Preparing { .. }
            | Phase::Streaming(_)
            | Phase::Compacting(Some(_))
            | Phase::Awaiting { .. }
            | Phase::Retry { .. } => false,
        }
    }

    /// Takes the next step of the run, or its first once the prompt is there: what the chain decides.
    fn advance_preparing(&mut self, moment: Moment) -> bool {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        if run.prompt.is_none() && !run.counts.candidates.compaction.alone {
            return false;
        }
        let candidate = match self.pick(moment) {
            Pick::Ask(candidate) => Some(candidate),
            Pick::Wait(_) => None,
        };
        let mut moves = BEFORE_REQUEST.iter().map(|row| self.decide_link(row.link, candidate, moment));
        moves.find(|move_of| *move_of != Move::Next) == Some(Move::Again)
    }

    /// What a link of the chain decides before a request to this candidate; none if all of them are cooling down.
    fn decide_link(&mut self, link: ChainLink, candidate: Option<u32>, moment: Moment) -> Move {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return Move::Waits };
        let (alone, answered) = (run.counts.candidates.compaction.alone, run.step.answered);
        let asked = candidate.filter(|_| !alone);
        let stops = match link {
            ChainLink::LoopGuard => answered && !self.check_repeats(moment),
            ChainLink::Facts => {
                if let Some(candidate) = asked {
                    self.remind_of_facts(candidate, moment);
                }
                false
            }
            ChainLink::Plan => {
                if let Some(candidate) = asked {
                    self.remind_of_plan(candidate, moment);
                }
                false
            }
            ChainLink::Budget => {
                asked.is_some_and(|candidate| !mutant!(BudgetNotAsked) && !self.check_budget(candidate, moment))
            }
            ChainLink::CompactionGuard => candidate.is_some_and(|candidate| self.compact_first(candidate, moment)),
            ChainLink::Grant if !alone && self.request_grant(moment) => return Move::Waits,
            ChainLink::Grant => false,
            ChainLink::SteerIn if self.begin_request(moment) => true,
            ChainLink::SteerIn => return Move::Waits,
        };
        if stops { Move::Again } else { Move::Next }
    }

    /// Sends the next request, the first of another step if the last was answered. Returns whether something follows at
    /// once.
    pub(super) fn begin_request(&mut self, moment: Moment) -> bool {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        let step = run.step.no + 1;
        if let Some(prompt) = run.prompt.filter(|_| run.step.answered) {
            self.emit(StepBegun { step, prompt }, moment.now);
        }
        self.send_request(moment);
        // A request that was refused here is decided on like any failure, and a wait is a state to stop in.
        matches!(self.phase(), Some(Phase::Error { .. } | Phase::Awaiting { .. }))
    }

    /// Warns the model of a loop, or stops the run. Returns whether the run continues.
    fn check_repeats(&mut self, moment: Moment) -> bool {
        let Limits { loop_warn_after, loop_stop_after, .. } = self.limits();
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        let Some(Repeat { tool, times, .. }) = run.repeats.most() else { return true };
        let (tool, times, was_warned) = (tool.clone(), *times, run.repeats.warned);
        // One answer may contain all of the calls at once: a run is only stopped after a warning.
        let may_stop = was_warned || loop_warn_after == 0 || loop_warn_after >= loop_stop_after;
        if loop_stop_after > 0 && times >= loop_stop_after && may_stop {
            let message = format!(
                "the same call of `{tool}` came with the same result {times} times, so the run was stopped \
                 (`runs.loop_stop_after`); say what it should do instead, or raise the limit"
            );
            self.end_run(Outcome::Failed, Some(Failure::new(FailureClass::Loop, message)), moment);
            return false;
        }
        if loop_warn_after > 0 && times >= loop_warn_after && !was_warned {
            let body =
                self.keep(Content::text(BodyKind::Message, &model_notices::repeated(&tool, times, loop_stop_after)));
            self.emit(Noted { note: Note::Repeats, body }, moment.now);
        }
        true
    }

    fn advance_error(&mut self, failure: &Failure, moment: Moment) -> bool {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        let counters = run.counts.candidates.clone();
        let chain = self.settings.as_ref().map_or(&[][..], |settings| &settings.candidates);
        let given_up = given_up(failure, &counters, chain);
        let request = run.failed_request();
        let class = failure.class;
        match recover(failure, &counters, (chain, self.window_in_use()), &self.limits(), moment) {
            Strategy::Fail => {
                let gone = given_up.iter().map(|at| (*at, class, cooling_until(failure, &counters, moment)));
                let cooling = counters.cooling.iter().filter_map(|of| Some((of.candidate, of.class?, of.until)));
                let skipped: Vec<_> = gone.chain(cooling).collect();
                let all = all_failed(failure, &run.trace, (&skipped, chain), moment.now);
                // The ledger receives the report although the run ends.
                if rule_of(class).cools != Cools::Nothing && !counters.compaction.broke {
                    let until = cooling_until(failure, &counters, moment);
                    self.give_up(&given_up, until, (class, request), moment);
                }
                self.settle_kept(ResumeMode::Continue, moment);
                let too_long = counters.compaction.broke && counters.compaction.history == History::TooLong;
                let failure = if too_long { self.too_long() } else { all };
                self.fail_run(failure, moment);
            }
            Strategy::Hold => {
                // A human who resumes it tries again.
                self.try_again(0, TryWith::Same, moment);
                self.escalate(failure.clone(), RepairPolicy::AsConfigured, moment);
            }
            Strategy::Retry { delay_ms } => self.try_again(delay_ms, TryWith::Same, moment),
            Strategy::LowerThinking { level } => self.try_again(0, TryWith::Thinking(level), moment),
            Strategy::Compact { delay_ms, compaction_step, as_it_is } => {
                self.try_again(delay_ms, TryWith::History { compaction_step, as_it_is }, moment);
            }
            Strategy::Rotate { candidate, cooling } => {
                self.give_up(&given_up, cooling, (class, request), moment);
                self.try_again(0, TryWith::Candidate(candidate), moment);
            }
            Strategy::Wait { until, cooling } => {
                self.settle_kept(self.resume_mode(), moment);
                self.give_up(&given_up, cooling, (class, request), moment);
                self.emit(WaitBegan { on: WaitFor::Quota, until: Some(until), limit: None }, moment.now);
            }
        }
        true
    }

    fn give_up(
        &mut self,
        candidates: &[u32],
        until: Option<Timestamp>,
        (class, request): (FailureClass, Option<EffectId>),
        moment: Moment,
    ) {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let counters = run.counts.candidates.clone();
        let shared = rule_of(class).cools != Cools::Nothing;
        for candidate in candidates {
            let model = self.name_of(*candidate);
            let request = request.filter(|_| shared && *candidate == counters.candidate);
            let until = counters.cooldown_until(*candidate, until, moment.now);
            self.emit(
                CandidateCooldownSet { candidate: *candidate, model, until, class: Some(class), request },
                moment.now,
            );
        }
    }

    /// Records the cooldowns that the ledger reports, except for those that the run knows already.
    pub(super) fn learn_cooldowns(&mut self, cooling: &[CooldownSet], moment: Moment) {
        let run = self.session.as_ref().filter(|session| !session.account.closed).and_then(Session::run);
        let Some(run) = run.filter(|run| run.ending.is_none()) else { return };
        let counters = &run.counts.candidates;
        let unknown: Vec<CooldownSet> = cooling.iter().filter(|cooled| !counters.knows(cooled)).copied().collect();
        for CooldownSet { candidate, until, class } in unknown {
            let (until, class) = (Some(until), Some(class));
            let model = self.name_of(candidate);
            self.emit(CandidateCooldownSet { candidate, model, until, class, request: None }, moment.now);
        }
    }

    /// Clears the cooldowns of these candidates, and ends a wait for any of them. Later failures stay.
    pub(super) fn lift_cooldowns(&mut self, cleared: &[CooldownLifted], moment: Moment) {
        let run = self.session.as_ref().filter(|session| !session.account.closed).and_then(Session::run);
        let Some(run) = run.filter(|run| run.ending.is_none()) else { return };
        let counters = &run.counts.candidates;
        let gone: Vec<u32> =
            cleared.iter().filter(|cleared| counters.is_older_than(cleared)).map(|cleared| cleared.candidate).collect();
        for candidate in gone {
            self.emit(CandidateCooldownLifted { candidate, model: self.name_of(candidate) }, moment.now);
        }
        self.expire(moment);
    }

    fn name_of(&self, candidate: u32) -> String {
        let of = self.settings.as_ref().and_then(|settings| settings.candidate(candidate));
        of.map(ToString::to_string).unwrap_or_default()
    }

    fn try_again(&mut self, delay_ms: u64, with: TryWith, moment: Moment) {
        self.settle_kept(self.resume_mode(), moment);
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let (until, try_no) = (moment.now.plus(delay_ms), run.counts.attempt + 1);
        let again = RetryScheduled { until, try_no, ..RetryScheduled::default() };
        let again = match with {
            TryWith::Same => again,
            TryWith::Thinking(level) => RetryScheduled { thinking: Some(level), ..again },
            TryWith::History { compaction_step, as_it_is } => {
                RetryScheduled { compaction_step: Some(compaction_step), as_it_is, ..again }
            }
            TryWith::Candidate(candidate) => {
                let model = Some(self.name_of(candidate));
                RetryScheduled { candidate: Some(candidate), model, ..again }
            }
        };
        self.emit(again, moment.now);
        if delay_ms == 0 {
            self.emit(WaitEnded { on: WaitFor::Retry }, moment.now);
        }
    }

    /// Every timer that is due, soonest first.
    pub(super) fn expire(&mut self, moment: Moment) {
        while self.fault.is_none() {
            let Some(session) = self.session.as_ref().filter(|session| !session.account.closed) else { return };
            let due = self.timers(session).into_iter().filter(|(at, _)| *at <= moment.now).min();
            let Some((_, timer)) = due else { return };
            self.expire_one(timer, moment);
            self.advance(moment);
        }
    }

    fn expire_one(&mut self, timer: Timer, moment: Moment) {
        use crate::event::{EndingCause, InterruptCause, ProcessCause};
        let limits = self.limits();
        match timer {
            Timer::RunDeadline => self.begin_ending(Outcome::TimedOut, InterruptCause::Deadline, moment),
            Timer::Stall => self.begin_ending(Outcome::Stalled, InterruptCause::Deadline, moment),
            Timer::FirstByte => {
                let message = format!(
                    "no answer within {} s (`requests.first_byte_timeout_s`)",
                    limits.first_byte_timeout_ms / 1000
                );
                self.request_expired(Failure::new(FailureClass::Timeout, message), moment);
            }
            Timer::Silent => {
                let message =
                    format!("the answer stopped for {} s (`requests.idle_timeout_s`)", limits.idle_timeout_ms / 1000);
                self.request_expired(Failure::new(FailureClass::Stalled, message), moment);
            }
            Timer::CallLimit(call) => self.end_call(call, EndingCause::Limit, moment),
            Timer::ApprovalExpired(call) => self.approval_expired(call, moment),
            Timer::Compaction => {
                let message = format!("no summary within {} s (`compaction.limit_s`)", limits.compact_ms / 1000);
                let failure = Failure::new(FailureClass::Timeout, message);
                self.compaction_failed(failure, Usage::default(), moment);
            }
            Timer::Title => self.give_up_title(&format!("no title within {} s", TITLE_MS / 1_000), moment),
            Timer::RetryDue => self.emit(WaitEnded { on: WaitFor::Retry }, moment.now),
            Timer::QuotaReset => self.emit(WaitEnded { on: WaitFor::Quota }, moment.now),
            Timer::EndGrace => self.give_up_calls(moment),
            // The group at the head is completed by a step that follows from the state.
            Timer::GroupDue => {}
            Timer::DeliveryDue(_) => self.start_deliveries(moment),
            Timer::RecoveryDue => self.recover_by_itself(moment),
            Timer::ProcessLimit(process) => self.end_process(process, ProcessCause::Limit, moment),
        }
    }

    fn request_expired(&mut self, failure: Failure, moment: Moment) {
        let request = self.session.as_ref().and_then(|s| s.run()).and_then(|run| run.sent()).map(|sent| sent.request);
        if let Some(request) = request {
            self.request_failed(request, failure, moment);
        }
    }
}

/// What follows from the decision of a link of the chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Move {
    /// The next link decides.
    Next,
    /// Something else comes first; then the chain begins anew.
    Again,
    /// Nothing more follows from the state alone.
    Waits,
}

/// What changes when a run tries again.
#[derive(Clone, Copy)]
enum TryWith {
    Same,
    Candidate(u32),
    Thinking(Thinking),
    History { compaction_step: CompactionStep, as_it_is: bool },
}

/// Which candidate was not asked, why, and until when other sessions avoid it.
type Skipped = (u32, FailureClass, Option<Timestamp>);

/// The failure that a run ends with: with several candidates, one line for each.
fn all_failed(
    last: &Failure,
    trace: &[Failure],
    (skipped, chain): (&[Skipped], &[Candidate]),
    now: Timestamp,
) -> Failure {
    let who = |failure: &Failure| (failure.provider.clone(), failure.model.clone(), failure.profile.clone());
    let mut tried: Vec<&Failure> = vec![];
    for failure in trace {
        tried.retain(|before| who(before) != who(failure));
        tried.push(failure);
    }
    let lines = tried.iter().map(|failure| {
        let name = |part: &Option<String>| part.clone().unwrap_or_else(|| "?".to_owned());
        let profile = failure.profile.as_ref().map(|profile| format!(" ({profile})")).unwrap_or_default();
        // One line each: the hint stands where the failure happened.
        let first = failure.message.lines().next().unwrap_or_default().to_owned();
        let failure = Failure { message: first, ..(*failure).clone() };
        format!("\n{}/{}{profile}: {failure}", name(&failure.provider), name(&failure.model))
    });
    let is_tried = |of: &Candidate| {
        let named = (Some(of.provider.clone()), Some(of.model.clone()), of.profile.clone());
        tried.iter().any(|failure| who(failure) == named)
    };
    let not_asked = (0..).zip(chain).filter(|(_, candidate)| !is_tried(candidate)).filter_map(|(at, candidate)| {
        if candidate.context_window < WINDOW_LEAST {
            let sees = candidate.context_window;
            return Some(format!("\n{candidate}: not asked (it sees {sees} tokens, {WINDOW_LEAST} are needed)"));
        }
        let (_, class, until) = skipped.iter().find(|(skipped, ..)| *skipped == at)?;
        let minutes = until.map(|until| format!(", in cooldown for {} min", until.since(now).div_ceil(60_000)));
        Some(format!("\n{candidate}: not asked ({}{})", class.name(), minutes.unwrap_or_default()))
    });
    let lines: Vec<String> = lines.chain(not_asked).collect();
    if lines.len() < 2 || rule_of(last.class).at_end == AtEnd::End {
        return last.clone();
    }
    let message = format!("All models failed ({}):{}", lines.len(), lines.concat());
    Failure { message, ..last.clone() }
}
