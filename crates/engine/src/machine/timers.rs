//! The timers of a session.

use crate::approval::Approvals;
use crate::event::WaitFor;
use crate::ids::Timestamp;
use crate::settings::Limits;
use crate::state::{Call, DeliveryState, Lifecycle, Phase, PrepareStage, ProcessState, Run, Session, Stage};
use crate::tables::limits::{END_GRACE_MS, TITLE_MS};
use crate::tables::timers::Timer;

/// The armed times of a session, in no order; `ending_from` is when a decided end was recorded, if that is known.
pub fn armed(
    session: &Session,
    (limits, approvals): (&Limits, &Approvals),
    ending_from: Option<Timestamp>,
) -> Vec<(Timestamp, Timer)> {
    let gathered = session.gathering_until().map(|at| (at, Timer::GroupDue));
    let of_title = session.run().and_then(title_time);
    let of_account = process_times(session).chain(delivery_times(session));
    let mut armed: Vec<_> = of_account.chain(gathered).chain(of_title).collect();
    match &session.conversation.lifecycle {
        Lifecycle::Active(run) => {
            let own = run_time(run, limits, ending_from).into_iter().chain(stall_time(session, run, limits));
            let phase = own.chain(phase_times(run, limits));
            armed.extend(phase.chain(call_times(run, limits)).chain(question_times(run, approvals)));
        }
        // A frozen call has no limit.
        Lifecycle::Suspended(run) if run.pause.is_some_and(|pause| pause.freeze) => {}
        Lifecycle::Suspended(run) => armed.extend(call_times(run, limits).chain(question_times(run, approvals))),
        Lifecycle::Recovering { run: Some(run) } => armed.extend(call_times(run, limits)),
        // A run that needs a human has no limit.
        Lifecycle::Error { next, .. } => armed.extend(next.map(|next| (next.at, Timer::RecoveryDue))),
        Lifecycle::Initializing
        | Lifecycle::Ready
        | Lifecycle::Idle
        | Lifecycle::Recovering { run: None }
        | Lifecycle::Terminated => {}
    }
    armed
}

fn process_times(session: &Session) -> impl Iterator<Item = (Timestamp, Timer)> + '_ {
    let running = session.account.processes.iter().filter(|process| process.state == ProcessState::Running);
    running.map(|process| (process.until, Timer::ProcessLimit(process.effect)))
}

fn delivery_times(session: &Session) -> impl Iterator<Item = (Timestamp, Timer)> + '_ {
    session.account.outbox.heads().filter_map(|delivery| match delivery.state {
        DeliveryState::Waiting { until } => Some((until, Timer::DeliveryDue(delivery.effect))),
        DeliveryState::Wanted | DeliveryState::Started { .. } | DeliveryState::Undelivered { .. } => None,
    })
}

fn run_time(run: &Run, limits: &Limits, ending_from: Option<Timestamp>) -> Option<(Timestamp, Timer)> {
    match (&run.ending, run.clock.since) {
        (Some(ending), _) => {
            let since = ending_from.map_or(ending.since, |from| from.max(ending.since));
            Some((since.plus(END_GRACE_MS), Timer::EndGrace))
        }
        (None, Some(since)) => {
            Some((since.plus(limits.deadline_ms?.saturating_sub(run.clock.spent_ms)), Timer::RunDeadline))
        }
        (None, None) => None,
    }
}

/// Whatever is recorded of the session is progress: text, output of a call, a result, an answer of a person. While the run
/// waits, its clock stands still.
fn stall_time(session: &Session, run: &Run, limits: &Limits) -> Option<(Timestamp, Timer)> {
    let (since, stall_ms) = run.clock.since.filter(|_| run.ending.is_none()).zip(limits.stall_ms)?;
    let quiet = since.max(session.account.last_activity).plus(stall_ms);
    // A call that asked for more time has it, even if it says nothing.
    let asked = started(run).filter(|call| call.timeout_ms.is_some()).filter_map(|call| call.limit_at(limits));
    Some((asked.fold(quiet, Timestamp::max), Timer::Stall))
}

/// A title has no more time while its run is paused or held.
fn title_time(run: &Run) -> Option<(Timestamp, Timer)> {
    run.title.map(|asked| (asked.since.plus(TITLE_MS), Timer::Title))
}

fn phase_times(run: &Run, limits: &Limits) -> Option<(Timestamp, Timer)> {
    match &run.phase {
        Phase::Preparing { stage: PrepareStage::Sent(sent) } => {
            Some((sent.at.plus(limits.first_byte_timeout_ms), Timer::FirstByte))
        }
        Phase::Streaming(stream) => Some((stream.last_at.plus(limits.idle_timeout_ms), Timer::Silent)),
        Phase::Compacting(Some(compacting)) => Some((compacting.since.plus(limits.compact_ms), Timer::Compaction)),
        Phase::Retry { until } => Some((*until, Timer::RetryDue)),
        Phase::Awaiting { on: WaitFor::Quota, until: Some(until) } => Some((*until, Timer::QuotaReset)),
        Phase::Preparing { stage: PrepareStage::Gathering | PrepareStage::Reserving }
        | Phase::ToolExec
        | Phase::Awaiting { .. }
        | Phase::Compacting(None)
        | Phase::Error { .. } => None,
    }
}

fn call_times<'a>(run: &'a Run, limits: &'a Limits) -> impl Iterator<Item = (Timestamp, Timer)> + 'a {
    started(run).filter_map(|call| Some((call.limit_at(limits)?, Timer::CallLimit(call.id))))
}

/// A question has a limit also while the run waits for something else or is paused.
fn question_times<'a>(run: &'a Run, approvals: &'a Approvals) -> impl Iterator<Item = (Timestamp, Timer)> + 'a {
    let open = run.step.calls.iter().filter(|call| call.stage == Stage::Asking && !call.is_overdue);
    let open = open.filter(|_| run.ending.is_none());
    open.filter_map(|call| Some((call.expires_at(approvals)?, Timer::ApprovalExpired(call.id))))
}

fn started(run: &Run) -> impl Iterator<Item = &Call> {
    run.step.calls.iter().filter(|call| matches!(call.stage, Stage::Started { .. }))
}
