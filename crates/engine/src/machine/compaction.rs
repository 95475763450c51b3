//! Compaction: when it happens, which step is taken, and its result. The old history stays until one event replaces it.

use super::commands::{no_session, state_refusal};
use super::queue::Offered;
use super::{Machine, model_notices};
use crate::body::Content;
use crate::event::{
    Compacted, CompactionAsked, CompactionBegun, CompactionCause, CompactionFailed, Failed, Note, Outcome, Overrides,
    QueueMode, ResultsTruncated, TruncatedResult, Uncompacted, Usage,
};
use crate::failure::{Failure, FailureClass};
use crate::ids::{CallId, EffectId, EffectKind, MessageId, Moment, Seq};
use crate::input::{Acknowledgement, CompactionResult, Refusal, SenderOptions};
use crate::mutant;
use crate::queue::QueueSettings;
use crate::settings::Candidate;
use crate::state::{Compacting, Flush, History, Item, ItemAt, Lifecycle, Phase, Run, Session, Transcript, WrapUp};
use crate::tables::budget::Spent;
use crate::tables::compaction::{CompactionStep, Window};
use crate::tables::limits::{FLUSH_TOKENS, MESSAGE_TOKENS};

/// The compaction to start: its step, and how many items a summary stands for.
type Plan = (CompactionStep, usize);

impl Machine {
    /// The estimated tokens of the next request to this candidate.
    pub(super) fn request_tokens(&self, candidate: u32) -> u64 {
        let (Some(session), Some(settings)) = (&self.session, &self.settings) else { return 0 };
        session.request_tokens(settings, candidate)
    }

    pub(super) fn window(&self, candidate: u32) -> Option<Window> {
        let settings = self.settings.as_ref()?;
        Some(Window::of(settings.candidate(candidate)?, &settings.compaction))
    }

    /// The window of the candidate in use.
    pub(super) fn window_in_use(&self) -> Option<Window> {
        self.window(self.session.as_ref()?.run()?.counts.candidates.candidate)
    }

    /// Starts a compaction before the next request, if one is due and a step is possible. Returns whether anything
    /// changed.
    pub(super) fn compact_first(&mut self, candidate: u32, moment: Moment) -> bool {
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return false };
        let by_request = run.compaction.summary.is_some().then(|| self.plan_of_request(candidate)).flatten();
        if let Some(plan) = by_request {
            self.begin_compaction(plan, CompactionCause::Command, candidate, moment);
            return true;
        }
        if run.counts.candidates.compaction.alone {
            let failure = Failure::new(FailureClass::Refused, NOTHING_TO_SUMMARISE);
            self.emit(Failed { request: None, failure, text: None }, moment.now);
            return true;
        }
        if !self.has_part() && self.flush_wanted(run, candidate) {
            self.note(Note::MemoryFlush, model_notices::MEMORY_FLUSH, moment);
            return true;
        }
        let wanted = self.compaction_wanted(run, candidate);
        let Some((cause, plan)) = wanted.and_then(|cause| Some((cause, self.plan(candidate)?))) else { return false };
        self.begin_compaction(plan, cause, candidate, moment);
        true
    }

    fn compaction_wanted(&self, run: &Run, candidate: u32) -> Option<CompactionCause> {
        let compaction = &run.counts.candidates.compaction;
        if compaction.history == History::TooLong {
            return Some(CompactionCause::Again);
        }
        let is_auto = self.settings.as_ref().is_some_and(|settings| settings.compaction.auto);
        let Window { threshold, most, .. } =
            self.window(candidate).filter(|_| is_auto && compaction.history != History::GoesOut)?;
        let cause = if compaction.compaction_step == CompactionStep::Summarise {
            CompactionCause::Threshold
        } else {
            CompactionCause::Again
        };
        // The request to write down what must not be lost is sent first, if there is space for it.
        let is_asked =
            self.session.as_ref().is_some_and(|session| session.conversation.transcript.flush() == Flush::Asked);
        (self.request_tokens(candidate) > if is_asked { most } else { threshold }).then_some(cause)
    }

    /// Whether the next request is to ask the model to write down what must not be lost: a summary is due soon or now,
    /// and there is space for the request.
    fn flush_wanted(&self, run: &Run, candidate: u32) -> bool {
        let (Some(session), Some(settings)) = (&self.session, &self.settings) else { return false };
        let Some(Window { flush: Some(from), most, .. }) = self.window(candidate) else { return false };
        let compaction = &run.counts.candidates.compaction;
        let is_first = session.conversation.transcript.flush() == Flush::Not
            && (compaction.compaction_step, compaction.history) == <_>::default();
        let tokens = self.request_tokens(candidate);
        let may_call = !matches!(run.budget.wrap_up, WrapUp::Closing | WrapUp::Closed);
        is_first
            && settings.compaction.auto
            && may_call
            && (from..=most.saturating_sub(FLUSH_TOKENS)).contains(&tokens)
            && matches!(self.plan(candidate), Some((CompactionStep::Summarise, _)))
    }

    /// The first step from here on that would free anything.
    fn plan(&self, candidate: u32) -> Option<Plan> {
        let session = self.session.as_ref()?;
        let run = session.run()?;
        let (compaction, transcript) = (&run.counts.candidates.compaction, &session.conversation.transcript);
        let keep = compaction.keep(self.window(candidate)?);
        let mut ways =
            CompactionStep::ALL.into_iter().filter(|compaction_step| *compaction_step >= compaction.compaction_step);
        ways.find_map(|compaction_step| {
            Some((compaction_step, items_before(compaction_step, transcript, keep, &run.inputs)?))
        })
    }

    /// A summary on the user's request: of at least two thirds.
    fn plan_of_request(&self, candidate: u32) -> Option<Plan> {
        let session = self.session.as_ref()?;
        let transcript = &session.conversation.transcript;
        let keep = self.window(candidate)?.keep.min(transcript.tokens() / 3);
        Some((
            CompactionStep::Summarise,
            items_before(CompactionStep::Summarise, transcript, keep, &session.run()?.inputs)?,
        ))
    }

    fn begin_compaction(&mut self, plan: Plan, cause: CompactionCause, candidate: u32, moment: Moment) {
        let (compaction_step, items) = plan;
        let tokens = self.request_tokens(candidate);
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let compaction = run.effect(EffectKind::Compact, run.compaction.begun + 1, 1);
        let failed = if compaction_step == run.counts.candidates.compaction.compaction_step {
            run.counts.candidates.compaction.failed
        } else {
            0
        };
        let focus = run.compaction.summary.and_then(|summary| summary.focus);
        let reserved = self.reserved_for_summary(compaction_step, candidate, tokens, moment);
        let (try_no, items) = (failed + 1, items as u32);
        self.emit(
            CompactionBegun { try_no, compaction, cause, compaction_step, items, tokens, focus, reserved },
            moment.now,
        );
        self.check_summary(moment);
    }

    /// The reservation for a summary, if a budget is limited. It reads about as much as the request would have.
    fn reserved_for_summary(
        &self,
        compaction_step: CompactionStep,
        candidate: u32,
        tokens: u64,
        moment: Moment,
    ) -> Option<Spent> {
        let asked = self.summariser().filter(|_| compaction_step == CompactionStep::Summarise)?;
        self.is_limited(candidate, moment).then(|| Spent::expected(asked, tokens))
    }

    /// A summary is not requested if the budget is too small: the run then proceeds as after a failed one.
    pub(super) fn check_summary(&mut self, moment: Moment) {
        let Some(Compacting { compaction_step, reserved: Some(_), .. }) = self.compacting() else { return };
        if let Some(limit) = self.limit_of_summary(moment) {
            let failure = Failure::new(FailureClass::Refused, model_notices::no_summary(&limit));
            self.fail_compaction(failure, compaction_step, moment);
        }
    }

    /// The provider reported that a request is too long: the history is compacted, or cannot be any more.
    pub(super) fn advance_overflow(&mut self, moment: Moment) {
        self.settle_kept(self.resume_mode(), moment);
        let Some(run) = self.session.as_ref().and_then(Session::run) else { return };
        let candidate = run.counts.candidates.candidate;
        match self.plan(candidate) {
            Some(plan) => self.begin_compaction(plan, CompactionCause::Overflow, candidate, moment),
            None => self.fail_compaction(self.too_long(), CompactionStep::Nothing, moment),
        }
    }

    /// The readable end of a run whose history cannot be compacted any more.
    pub(super) fn too_long(&self) -> Failure {
        let last = self.session.as_ref().and_then(|s| s.run()).and_then(|run| run.trace.last());
        // Its second line would be another hint.
        let said = last.and_then(|failure| failure.message.lines().next());
        let message = format!(
            "the conversation is longer than the model's window and cannot be compacted further ({}): start a new conversation with `/new`, or use a model with a larger window",
            said.unwrap_or_default()
        );
        Failure::new(FailureClass::ContextOverflow, message)
    }

    pub(super) fn fail_compaction(&mut self, failure: Failure, compaction_step: CompactionStep, moment: Moment) {
        self.fail_after(failure, compaction_step, Usage::default(), moment);
    }

    /// The same if some of its requests were answered.
    fn fail_after(&mut self, failure: Failure, compaction_step: CompactionStep, usage: Usage, moment: Moment) {
        let cost = self.summariser().map_or(0, |candidate| candidate.cost(&usage));
        self.emit(CompactionFailed { failure, compaction_step, usage, cost }, moment.now);
    }

    /// The candidate that is asked for a summary.
    fn summariser(&self) -> Option<&Candidate> {
        let settings = self.settings.as_ref()?;
        let run = self.session.as_ref().and_then(Session::run)?;
        settings.compaction.by.as_ref().or_else(|| settings.candidate(run.counts.candidates.candidate))
    }

    fn compacting(&self) -> Option<Compacting> {
        let Phase::Compacting(compacting) = self.phase()? else { return None };
        *compacting
    }

    /// The active compaction has failed, whatever the way.
    pub(super) fn compaction_failed(&mut self, failure: Failure, usage: Usage, moment: Moment) {
        if let Some(Compacting { compaction_step, .. }) = self.compacting() {
            if mutant!(CompactionEndsRun) {
                return self.end_run(Outcome::Completed, None, moment);
            }
            self.fail_after(failure, compaction_step, usage, moment);
        }
    }

    /// A compaction is complete: a result that is not shorter is not used.
    pub(super) fn compacted(&mut self, effect: EffectId, made: CompactionResult, moment: Moment) {
        let Some(Compacting { compaction_step, items, .. }) = self.compacting() else { return };
        match made {
            CompactionResult::Summary { text, by, usage } if compaction_step != CompactionStep::Truncate => {
                let is_blank = text.bytes.iter().all(u8::is_ascii_whitespace);
                let Some((kept_from, pinned, before, after)) = self.replaced(items as usize, &text) else { return };
                if let Some(failure) = no_gain(is_blank, before, after) {
                    return self.fail_after(failure, compaction_step, usage, moment);
                }
                let summary = self.keep(text);
                let run = self.session.as_ref().and_then(Session::run);
                let goes_on = run.is_some_and(|run| !run.counts.candidates.compaction.alone);
                let cost = by.as_deref().map_or(0, |by| self.cost_by(by, &usage));
                let compacted = Compacted {
                    compaction: effect,
                    summary,
                    kept_from,
                    pinned,
                    before,
                    after,
                    by,
                    usage,
                    cost,
                    goes_on,
                };
                self.emit(compacted, moment.now);
                if !goes_on {
                    self.end_run(Outcome::Completed, None, moment);
                }
            }
            CompactionResult::Results(results) if compaction_step == CompactionStep::Truncate => {
                self.results_truncated(effect, results, moment);
            }
            CompactionResult::Summary { .. } | CompactionResult::Results(_) => self.late += 1,
        }
    }

    /// The cost of a summary or a title by the model of this name, in micro-dollars.
    pub(super) fn cost_by(&self, by: &str, usage: &Usage) -> u64 {
        let Some(settings) = &self.settings else { return 0 };
        let is_it = |candidate: &&Candidate| by == format!("{}/{}", candidate.provider, candidate.model);
        let titles = settings.titles.iter().filter_map(|titles| titles.by.as_ref());
        let known = settings.compaction.by.iter().chain(titles).chain(&settings.candidates);
        known.filter(is_it).map(|candidate| candidate.cost(usage)).next().unwrap_or_default()
    }

    /// The effect of a summary: from where messages are kept, which earlier ones, and the tokens before and after.
    fn replaced(&self, cut: usize, summary: &Content) -> Option<(Seq, Vec<MessageId>, u64, u64)> {
        let session = self.session.as_ref()?;
        let transcript = &session.conversation.transcript;
        let pinned = transcript.pinned(cut, &session.run()?.inputs);
        let kept_from = transcript.kept_from(cut, Seq(session.account.head.0 + 1));
        let before = transcript.tokens();
        let after = before - transcript.dropped(cut, &pinned) + summary.body.tokens + MESSAGE_TOKENS;
        Some((kept_from, pinned, before, after))
    }

    fn results_truncated(&mut self, effect: EffectId, results: Vec<(CallId, Content)>, moment: Moment) {
        let Some(transcript) = self.session.as_ref().map(|session| &session.conversation.transcript) else { return };
        let long: Vec<_> = transcript.items().iter().filter_map(Item::long_result).collect();
        let gain = |(call, cut): &(CallId, Content)| {
            let (_, whole) = long.iter().find(|(of, _)| of == call)?;
            whole.tokens.checked_sub(cut.body.tokens).filter(|gain| *gain > 0)
        };
        let before = transcript.tokens();
        let gains: Vec<_> = results.into_iter().filter_map(|result| Some((gain(&result)?, result))).collect();
        let after = before - gains.iter().map(|(gain, _)| gain).sum::<u64>();
        if let Some(failure) = no_gain(false, before, after) {
            return self.fail_compaction(failure, CompactionStep::Truncate, moment);
        }
        let cut = |(_, (call, cut)): (u64, (_, Content))| TruncatedResult { call, output: self.keep(cut) };
        let results = gains.into_iter().map(cut).collect();
        self.emit(ResultsTruncated { compaction: effect, results, before, after }, moment.now);
    }

    /// The user asks for a compaction: by the active run at its next boundary, else by a run of its own.
    pub(super) fn compact(
        &mut self,
        message: MessageId,
        focus: Content,
        queue: QueueSettings,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        match &session.conversation.lifecycle {
            Lifecycle::Active(run) | Lifecycle::Suspended(run) if run.ending.is_none() => {
                let focus = (!focus.bytes.is_empty()).then(|| self.keep(focus));
                self.emit(CompactionAsked { focus }, moment.now);
                self.advance(moment);
                Ok(Acknowledgement::Done)
            }
            Lifecycle::Ready | Lifecycle::Idle
                if session.conversation.queue.is_empty() && !has_history(&session.conversation.transcript) =>
            {
                Err(state_refusal(session, NOTHING_TO_SUMMARISE))
            }
            Lifecycle::Active(_)
            | Lifecycle::Suspended(_)
            | Lifecycle::Ready
            | Lifecycle::Idle
            | Lifecycle::Initializing
            | Lifecycle::Recovering { .. }
            | Lifecycle::Error { .. }
            | Lifecycle::Terminated => {
                let overrides = Overrides { compact: true, ..Overrides::default() };
                let mode = Some(QueueMode::Followup);
                let (content, attachments, options) = (focus, vec![], SenderOptions::default());
                self.message(
                    Offered { message, content, mode, queue, key: None, overrides, attachments, options },
                    moment,
                )
            }
        }
    }

    /// Undoes the last compaction. What has come since stays.
    pub(super) fn uncompact(
        &mut self,
        compaction: EffectId,
        restored: Vec<ItemAt>,
        moment: Moment,
    ) -> Result<Acknowledgement, Refusal> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        if session.run().is_some() {
            return Err(state_refusal(session, "its run must have ended first; `limulus runs wait`"));
        }
        if session.conversation.transcript.compaction() != Some(compaction) || restored.is_empty() {
            return Err(state_refusal(session, "there is no compaction to undo"));
        }
        self.emit(Uncompacted { compaction, restored }, moment.now);
        Ok(Acknowledgement::Done)
    }
}

const NOTHING_TO_SUMMARISE: &str = "there is nothing to summarise yet";

fn has_history(transcript: &Transcript) -> bool {
    transcript.cut(transcript.tokens() / 3).is_some()
}

/// How many items a step covers; none if it would free nothing.
fn items_before(
    compaction_step: CompactionStep,
    transcript: &Transcript,
    keep: u64,
    inputs: &[MessageId],
) -> Option<usize> {
    let all = transcript.items().len();
    let gains = |cut: &usize| {
        let pinned = transcript.pinned(*cut, inputs);
        transcript.dropped(*cut, &pinned) > transcript.tokens() / 10
    };
    match compaction_step {
        CompactionStep::Summarise => transcript.cut(keep).filter(gains),
        CompactionStep::Truncate => transcript.has_long_results().then_some(all),
        // The whole history, if need be: what the extract keeps of it is better than a run that cannot continue.
        CompactionStep::Tail => transcript.cut(keep / 4).filter(gains).or_else(|| Some(all).filter(gains)),
        CompactionStep::Nothing => None,
    }
}

/// Why a history is not replaced by another of this size.
fn no_gain(is_blank: bool, before: u64, after: u64) -> Option<Failure> {
    if mutant!(CompactionUnchecked) {
        return None;
    }
    let message = if is_blank {
        "the summary is empty".to_owned()
    } else if after + before / 20 > before {
        format!("the compaction would not reduce the history: {after} tokens instead of {before}")
    } else {
        return None;
    };
    Some(Failure::new(FailureClass::Refused, message))
}
