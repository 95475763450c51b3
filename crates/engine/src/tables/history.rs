//! What is made of a history before a request, in order, so that its model takes it and reads no more than it should. The journal
//! keeps all of it as it was; each request is made anew from that. `crates/models` carries out the rules from `files` on, which
//! depend on the model or on the format of its provider.

/// A rule for the history of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryRule {
    /// A summary in place of what was compacted.
    Summary,
    /// Results that were truncated for want of space.
    Results,
    /// Turns beyond the number that a request may hold.
    Turns,
    /// Messages that came while a run was under way, and those that a full queue dropped.
    Marks,
    /// Each call with its result.
    Pairs,
    /// Answers that were cut.
    Unfinished,
    /// Images and documents that the model cannot see, or that are too large together.
    Files,
    /// Reasoning and signatures of another model.
    Signatures,
    /// Ids of calls that a provider refuses.
    Ids,
    /// Names and arguments of calls that a provider refuses.
    Calls,
    /// Answers and texts without content.
    Empty,
    /// Turns of the user and of the model, one after the other.
    Alternate,
}

/// A row of the list.
#[derive(Debug, Clone, Copy)]
pub struct HistoryRow {
    /// The rule.
    pub rule: HistoryRule,
    /// Its name on the screen.
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
    /// The kind of event at which the trace of a run shows what it changed.
    pub shown_at: &'static str,
}

/// The rules, in the order in which they apply.
pub const BEFORE_REQUEST: [HistoryRow; 12] = [
    row(HistoryRule::Summary, "summary", "has the summary in place of what was compacted", "compacted"),
    row(HistoryRule::Results, "results", "has results as they were truncated for want of space", "results_cut"),
    row(HistoryRule::Turns, "turns", "leaves out the oldest turns beyond `history_turns`", "request_sent"),
    row(
        HistoryRule::Marks,
        "marks",
        "marks messages that came during the run, and names those that a full queue dropped",
        "message_settled",
    ),
    row(
        HistoryRule::Pairs,
        "pairs",
        "puts the result of each call behind it; a call that did not run has an error that says so",
        "call_settled",
    ),
    row(
        HistoryRule::Unfinished,
        "unfinished",
        "asks the model to go on where its answer was cut, then joins both parts",
        "stream_cut",
    ),
    row(
        HistoryRule::Files,
        "files",
        "has a line of text for each image that the model cannot see, and for the oldest files beyond 12 MiB",
        "request_sent",
    ),
    row(
        HistoryRule::Signatures,
        "signatures",
        "gives reasoning and signatures only to the model that made them",
        "request_sent",
    ),
    row(
        HistoryRule::Ids,
        "ids",
        "replaces ids of calls that are long, odd or not the only ones, and those of their results with them",
        "request_sent",
    ),
    row(
        HistoryRule::Calls,
        "calls",
        "replaces names with other signs, and arguments that are no object by an empty one",
        "call_settled",
    ),
    row(HistoryRule::Empty, "empty", "leaves out answers and texts without content", "request_sent"),
    row(
        HistoryRule::Alternate,
        "alternate",
        "joins what one side says in a row, where a format asks for turns, with `Go on.` for one that is missing",
        "request_sent",
    ),
];

const fn row(rule: HistoryRule, name: &'static str, does: &'static str, shown_at: &'static str) -> HistoryRow {
    HistoryRow { rule, name, does, shown_at }
}
