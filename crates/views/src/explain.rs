//! Explains a run: its state and since when, what it waits for and until when, and what can be done.

use engine::tables::limits::RECOVERIES_MS;
use engine::tables::timers::Timer;
use engine::timers::armed;
use engine::{Lifecycle, Phase, ReceiptState, Run, Session, Settings, Stage, Timestamp, WaitFor};
use protocol::show::{Explained, Way};

use super::fold::fold;
use super::lookup::FoundRun;
use super::plan::open_plan;
use super::sentence::name;
use super::waiting::{Owned, waits_for};
use super::{Source, approvals, budget, owner};
use crate::error::Error;

/// Explains a run that was found. `until` is absent without an owner, because only an owner keeps time.
pub fn explain(source: &Source<'_>, found: &FoundRun) -> Result<Explained, Error> {
    let owned = if owner(source.home).is_some() { Owned::Yes } else { Owned::No };
    let (session, since) = session(source, found)?;
    let ended = found.row.as_ref().and_then(|row| row.ended_at.zip(row.outcome));
    let current = session.run().filter(|run| run.id == found.run);
    match (ended, current) {
        (Some((at, outcome)), _) => Ok(bare(found, name(&outcome), at, ended_ways(found))),
        (None, Some(run)) => under_way(source, found, (&session, run, since), owned),
        (None, None) => queued(source, found, &session, owned),
    }
}

/// The state of the run's session, and the time since which its run is in its state.
fn session(source: &Source<'_>, found: &FoundRun) -> Result<(Session, Timestamp), Error> {
    let line = source.read.history(found.session.branch)?;
    let mut since = found.session.last_activity;
    let mut state = None;
    let session = fold(&line, |transition| {
        if state != Some(transition.to) {
            (state, since) = (Some(transition.to), transition.entry.at);
        }
    })?;
    // Progress after the last entry may have begun the stream.
    let streamed = line.progress.first().filter(|_| state.is_some_and(|state| state != session.run_state()));
    let since = streamed.map_or(since, |record| record.at);
    Ok((session, since))
}

fn bare(found: &FoundRun, state: String, since: Timestamp, can: Vec<Way>) -> Explained {
    let key = found.session.key.clone();
    Explained {
        run: found.run,
        key,
        state,
        since,
        waits_for: None,
        until: None,
        then: None,
        budget: None,
        plan: vec![],
        can,
    }
}

fn under_way(
    source: &Source<'_>,
    found: &FoundRun,
    (session, run, since): (&Session, &Run, Timestamp),
    owned: Owned,
) -> Result<Explained, Error> {
    let settings = match &found.row {
        Some(row) => source.read.body(&row.settings)?.and_then(|bytes| Settings::from_bytes(&bytes).ok()),
        None => None,
    };
    // Times are kept only by an owner.
    let settings = settings.filter(|_| owned == Owned::Yes);
    // The run waits neither for its title nor for what goes out.
    let is_of_run = |(_, timer): &(Timestamp, Timer)| !matches!(timer, Timer::Title | Timer::DeliveryDue(_));
    let times = |settings: Settings| armed(session, (&settings.limits, &settings.approvals), None);
    let next = settings.and_then(|settings| times(settings).into_iter().filter(is_of_run).min());
    let requests = source.read.approvals(Some(session.account.id))?;
    let limit = budget::awaited(source.read, &budget::SharedPool::default(), session)?;
    let waits = match source.lane_wait(run.id) {
        Some(wait) => format!("{}: queued behind {}", wait.place(), wait.behind_whom()),
        None => waits_for(session, &requests, limit.as_ref(), owned),
    };
    Ok(Explained {
        waits_for: Some(waits),
        budget: limit.map(Into::into),
        plan: open_plan(source.read, session)?,
        until: next.map(|(at, _)| at),
        then: next.map(|(_, timer)| consequence(session, run, timer)),
        ..bare(found, name(&session.run_state()), since, ways(session, run, owned))
    })
}

/// What happens when the timer fires.
fn consequence(session: &Session, run: &Run, timer: Timer) -> String {
    match timer {
        Timer::RunDeadline => "it ends as timed out".to_owned(),
        Timer::Stall => "it ends as stalled if there is no progress".to_owned(),
        Timer::FirstByte => "the request fails: no byte arrived".to_owned(),
        Timer::Silent => "the request fails: the stream went idle".to_owned(),
        Timer::CallLimit(call) => {
            let tool = run.call(call).map_or("the call", |call| call.tool.as_str());
            format!("`{tool}` is ended")
        }
        Timer::ApprovalExpired(call) => {
            let tool = run.call(call).map_or("the call", |call| call.tool.as_str());
            format!("nobody has answered whether `{tool}` may run (approvals.on_expiry)")
        }
        Timer::Compaction => "the compaction is abandoned and the history stays as it is".to_owned(),
        Timer::Title => "the conversation stays without a title".to_owned(),
        Timer::DeliveryDue(_) => "a delivery is tried again".to_owned(),
        Timer::RetryDue => "the request is sent again".to_owned(),
        Timer::QuotaReset => "a cooldown has ended, so its model is asked again".to_owned(),
        Timer::EndGrace => "it ends without waiting for the calls that could not be ended".to_owned(),
        Timer::ProcessLimit(_) => "a command in the background is ended".to_owned(),
        Timer::RecoveryDue => {
            let no = session.next_recovery().map_or(1, |next| next.no);
            format!("it tries again by itself ({no} of {})", RECOVERIES_MS.len())
        }
        Timer::GroupDue => "the collected messages become one message".to_owned(),
    }
}

fn way(what: &str, command: String) -> Way {
    Way { what: what.to_owned(), command }
}

fn ways(session: &Session, run: &Run, owned: Owned) -> Vec<Way> {
    let (id, key) = (run.id, &session.account.key);
    let abort = way("abort it", format!("limulus runs abort {id}"));
    let watch = way("watch it", format!("limulus runs watch {id}"));
    let needs_budget = matches!(run.phase, Phase::Awaiting { on: WaitFor::Budget, .. });
    let raise = needs_budget.then(|| way("see its budget and how to raise it", format!("limulus budget show {key}")));
    match (&session.conversation.lifecycle, owned) {
        (Lifecycle::Suspended(_), _) => vec![
            way("let it continue", format!("limulus runs resume {id}")),
            way("end it as interrupted", format!("limulus runs resume {id} --drop")),
            abort,
        ],
        (Lifecycle::Error { .. }, _) => {
            vec![way("repair and resume it", format!("limulus resume {key} --force")), abort]
        }
        (Lifecycle::Recovering { .. }, Owned::Yes) => vec![watch, abort],
        (_, Owned::No) => {
            let resume = way("resume it", format!("limulus resume {key}"));
            answers(run).into_iter().chain(raise).chain([resume, abort]).collect()
        }
        (_, Owned::Yes) if run.ending.is_some() => vec![watch],
        (_, Owned::Yes) => {
            let steer = way("steer it", format!("limulus runs steer {id} TEXT"));
            let pause = way("pause it", format!("limulus runs pause {id}"));
            answers(run).into_iter().chain(raise).chain([steer, pause, abort]).collect()
        }
    }
}

/// How its approval requests and questions are answered.
fn answers(run: &Run) -> Vec<Way> {
    let asking: Vec<_> = run.step.calls.iter().filter(|call| call.stage == Stage::Asking).collect();
    match asking[..] {
        [] => vec![],
        [call] if call.takes.is_some() => {
            let id = approvals::id(call.id);
            vec![
                way("answer it", format!("limulus answer {id} TEXT")),
                way("skip it", format!("limulus answer {id} --skip")),
            ]
        }
        [call] => {
            let id = approvals::id(call.id);
            vec![
                way("approve it", format!("limulus approvals approve {id}")),
                way("deny it", format!("limulus approvals deny {id}")),
            ]
        }
        [..] => {
            let list = |takes: bool| asking.iter().any(|call| call.takes.is_some() == takes);
            let approvals = list(false).then(|| way("see what it asks", "limulus approvals list".to_owned()));
            let questions = list(true).then(|| way("see what the model asks", "limulus answer".to_owned()));
            approvals.into_iter().chain(questions).collect()
        }
    }
}

fn ended_ways(found: &FoundRun) -> Vec<Way> {
    vec![
        way("read it", format!("limulus runs show {}", found.run)),
        way("see how it got there", format!("limulus runs trace {}", found.run)),
    ]
}

/// A run that has not begun.
fn queued(source: &Source<'_>, found: &FoundRun, session: &Session, owned: Owned) -> Result<Explained, Error> {
    let receipts = source.read.receipts(found.session.session)?;
    let own = receipts.iter().find(|receipt| receipt.run == found.run);
    let since = own.map_or(found.session.last_activity, |receipt| receipt.accepted_at);
    if let Some(over) = own.filter(|receipt| receipt.state != ReceiptState::Queued) {
        let can = vec![way("see its receipt", format!("limulus receipt {}", over.message))];
        return Ok(bare(found, name(&over.state), since, can));
    }
    let waits = match (source.lane_wait(found.run), session.run(), owned) {
        (Some(wait), ..) => format!("{}: queued behind {}", wait.place(), wait.behind_whom()),
        (None, Some(run), Owned::Yes) => match source.lane_wait(run.id) {
            Some(wait) => {
                let (slot, behind) = (wait.place(), wait.behind_whom());
                format!("run {} of its session, which waits for {slot}: queued behind {behind}", run.id)
            }
            None => format!("run {} of its session, which is {}, to end", run.id, session.run_state().name()),
        },
        _ => waits_for(session, &[], None, owned),
    };
    let cancel = way("withdraw it", format!("limulus queue cancel {}", found.run));
    let up = (owned == Owned::No).then(|| way("resume it", format!("limulus resume {}", session.account.key)));
    let can = up.into_iter().chain([cancel]).collect();
    Ok(Explained { waits_for: Some(waits), ..bare(found, "queued".to_owned(), since, can) })
}
