//! What must hold after every single operation, judged by the visible state of the process.

use engine::{Lifecycle, Phase, Session, Stage, WaitFor};

use super::Outside;
use super::process::Process;
use crate::invariant::{Invariant, Violation};

/// Checks the current state of the world.
pub fn check(process: &Process, outside: &Outside) -> Result<(), Violation> {
    if let Some(session) = process.session().filter(|_| process.is_idle() && !process.is_ending()) {
        accounts_are_even(session)?;
        someone_looks_after_it(session, process, outside)?;
        session.check().map_err(|violation| Invariant::State.violated(violation.to_string()))?;
    }
    Ok(())
}

/// Every accepted message has ended, was cancelled, is in progress or waits.
fn accounts_are_even(session: &Session) -> Result<(), Violation> {
    use engine::ReceiptState as State;
    let in_state = |state: State| session.account.messages.values().filter(|message| message.state == state).count();
    let (ended, cancelled) = (in_state(State::Ended), in_state(State::Cancelled));
    let (active, queued) = (usize::from(session.run().is_some()), session.conversation.queue.len());
    let accepted = session.account.messages.len();
    Invariant::Accounts.holds(accepted == ended + cancelled + active + queued, || {
        format!("{accepted} accepted, {ended} ended, {cancelled} cancelled, {active} in progress, {queued} waiting")
    })
}

/// Everything unfinished has a running effect, an armed timer, or a named task for a human.
fn someone_looks_after_it(session: &Session, process: &Process, outside: &Outside) -> Result<(), Violation> {
    let processes = session.account.processes.iter().any(|process| !process.is_ended());
    let open = session.run().is_some() || !session.conversation.queue.is_empty() || processes;
    let cared = !open || process.is_moving() || outside.tools.moving().next().is_some() || waits_for_a_human(session);
    Invariant::Owner.holds(cared, || format!("nothing is in progress for {:#?}", session.conversation.lifecycle))
}

/// Whether only a human can continue it, and the state names that human's task.
pub fn waits_for_a_human(session: &Session) -> bool {
    match &session.conversation.lifecycle {
        Lifecycle::Suspended(_) | Lifecycle::Error { .. } => true,
        Lifecycle::Active(run) => {
            matches!(run.phase, Phase::Awaiting { on: WaitFor::Budget, .. })
                || matches!(run.phase, Phase::Awaiting { on: WaitFor::Approval | WaitFor::Answer, .. })
                    && run.step.calls.iter().any(|call| call.stage == Stage::Asking)
        }
        Lifecycle::Initializing
        | Lifecycle::Ready
        | Lifecycle::Idle
        | Lifecycle::Recovering { .. }
        | Lifecycle::Terminated => false,
    }
}
