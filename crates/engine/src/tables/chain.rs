//! What is decided before a request and around a call, in order. Before a request each link may add a note for the model, begin
//! something that comes first, or let the request wait; its decision is an event of the journal, which the trace of the run shows.

/// A link of the chain before a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChainLink {
    /// The same call with the same result, again and again.
    LoopGuard,
    /// The date and the like, if the model would not see them.
    Facts,
    /// The open plan, if the model would not see it.
    Plan,
    /// The budget of the run and of its session.
    Budget,
    /// A history that is too long, and the note before it is replaced.
    CompactionGuard,
    /// The budgets that sessions share.
    Grant,
    /// Messages that came meanwhile.
    SteerIn,
}

/// A row of the chain.
#[derive(Debug, Clone, Copy)]
pub struct ChainRow {
    /// The link.
    pub link: ChainLink,
    /// Its name on the screen.
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
    /// The kinds of events with which it decides.
    pub decides: &'static [&'static str],
}

/// The chain. A note comes before what counts the request, and a steer last, so that it is in no run that then ends without the
/// request.
pub const BEFORE_REQUEST: [ChainRow; 7] = [
    row(
        ChainLink::LoopGuard,
        "loop_guard",
        "warns the model of a call that it repeats with the same result, then stops the run",
        &["noted", "run_ended"],
    ),
    row(ChainLink::Facts, "facts", "gives the model the date again, if it would not see it any more", &["noted"]),
    row(ChainLink::Plan, "plan", "gives the model its open plan again, if it would not see it any more", &["noted"]),
    row(
        ChainLink::Budget,
        "budget",
        "asks for an end near the limit of the run or session, then waits for more or ends the run",
        &["noted", "wait_began", "failed", "run_ended"],
    ),
    row(
        ChainLink::CompactionGuard,
        "compaction_guard",
        "has the model write down what must not be lost, then replaces a history that is too long",
        &["noted", "compaction_begun", "failed"],
    ),
    row(
        ChainLink::Grant,
        "grant",
        "asks the budgets that sessions share for what the request needs",
        &["budget_asked"],
    ),
    row(
        ChainLink::SteerIn,
        "steer_in",
        "adds the messages that came meanwhile, checks that each call has its result, and sends",
        &["message_settled", "request_sent", "wait_began", "failed"],
    ),
];

/// What is decided around a call. Each link but the first waits for the one before it.
pub const AROUND_CALL: [CallLink; 5] = [
    call_link(
        "policy",
        "judges every act of the call by the rules for files, commands and hosts: the strictest verdict decides",
        &["call_checked"],
    ),
    call_link(
        "approval",
        "asks what the policy leaves to a human, in one question bound to these arguments",
        &["call_asked", "ask_answered", "ask_expired"],
    ),
    call_link("call_budget", "lets no call begin whose run may make no further one", &["call_started", "call_settled"]),
    call_link("changes", "records what the call changed in files, with what they held before", &["files_changed"]),
    call_link("result", "masks keys in the result, bounds it, and gives it to the model", &["call_settled"]),
];

/// A link of the chain around a call.
#[derive(Debug, Clone, Copy)]
pub struct CallLink {
    /// Its name on the screen.
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
    /// The kinds of events with which it decides.
    pub decides: &'static [&'static str],
}

const fn call_link(name: &'static str, does: &'static str, decides: &'static [&'static str]) -> CallLink {
    CallLink { name, does, decides }
}

const fn row(link: ChainLink, name: &'static str, does: &'static str, decides: &'static [&'static str]) -> ChainRow {
    ChainRow { link, name, does, decides }
}
