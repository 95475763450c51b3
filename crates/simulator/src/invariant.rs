//! What must hold, by name, and how a violation is reported.

macro_rules! invariants {
    ($($variant:ident = $name:literal, $letters:literal, $says:literal, $checked:literal;)*) => {
        /// A property that must hold in every case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each says itself, in `says`")]
        pub enum Invariant { $($variant,)* }

        impl Invariant {
            /// All invariants, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in reports and tests.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its letters in the list of all invariants of the design.
            pub const fn letters(self) -> &'static str {
                match self { $(Self::$variant => $letters,)* }
            }

            /// The property in words.
            pub const fn says(self) -> &'static str {
                match self { $(Self::$variant => $says,)* }
            }

            /// When it is checked.
            pub const fn checked(self) -> &'static str {
                match self { $(Self::$variant => $checked,)* }
            }
        }
    };
}

invariants! {
    Lanes = "INV-LANES", "A1", "a session has one active run at most", "at the end, over the journal";
    Acknowledged = "INV-ACKNOWLEDGED", "A2", "what was acknowledged to a caller stays in the journal", "at each answer, each opening, and at the end";
    SameKey = "INV-SAME-KEY", "A3", "the same key is the same run, accepted once; with other content it is a conflict", "at each answer and at the end";
    Order = "INV-ORDER", "A4", "runs start in the order in which their messages were accepted", "at the end, over the journal";
    Terminal = "INV-TERMINAL", "A5", "a run has exactly one end, and nothing comes after it, not even a start of a call", "at the end, over the journal and the tools";
    Accounts = "INV-ACCOUNTS", "A6", "accepted = ended + cancelled + in progress + waiting", "after every operation";
    State = "INV-STATE", "A1 A3 A6 D4 D6 D7 D8 D9 F3", "the state of a session breaks no invariant that it can break by itself", "after every operation";
    Fence = "INV-FENCE", "A7", "an owner that has ended appends nothing", "after each change of owner";
    Settled = "INV-SETTLED", "A8", "once everything is quiet, each accepted message has ended, was cancelled, or waits for a named human task", "at the end, over journal and views";
    Owner = "INV-OWNER", "A10", "everything unfinished has a running effect, an armed timer, or a human to wait for", "after every operation";
    Published = "INV-PUBLISHED", "C1", "what a subscriber saw is in the journal; a loss of power takes only an unsynced end", "at each opening and at the end";
    Journal = "INV-JOURNAL", "B1 B2", "the journal is exactly what was appended and survived, gapless", "at each append and at the end";
    Fold = "INV-FOLD", "B4", "the recovered state is the live state", "at each append of the exhaustive mode, and at the end";
    Snapshot = "INV-SNAPSHOT", "B5", "a fold through a snapshot is the fold from the beginning", "at each opening";
    Repeat = "INV-REPEAT", "B4", "a case that runs twice does the same", "after each random case, and of every sixteenth point";
    Poison = "INV-POISON", "B7", "after a failed write nothing more is acknowledged by that process", "at each failed append";
    Stream = "INV-STREAM", "C1 C2", "streamed text comes without gap or repeat, and equals what the journal seals", "at each publication and opening";
    Answer = "INV-ANSWER", "C2", "the final text consists of its segments, and is what the model sent", "at the end, over the journal";
    EndMark = "INV-END-MARK", "C3", "an answer without the provider's end mark is not complete", "at the end, over the journal and the provider";
    Stall = "INV-STALL", "C4", "a silent stream is stalled within its limit", "at the end, over the journal and the provider";
    Intent = "INV-INTENT", "D1", "no call starts before its start is recorded as its class requires; one that is read-only and needs no approval may, and is recorded then", "at the end, over the tools";
    Once = "INV-ONCE", "D2", "a call that may run once starts at most once", "at the end, over the tools";
    Key = "INV-KEY", "D2", "every start of a call carries the same key", "at the end, over the tools";
    Result = "INV-RESULT", "D3 D6", "each call has one result, which says what the tool did", "at the end, over the journal and the tools";
    Pairing = "INV-PAIRING", "D4", "in every request each call has one result, and no result stands alone", "at each request";
    Request = "INV-REQUEST", "C8 E6", "a request contains only what the model really said", "at each request";
    Arguments = "INV-ARGUMENTS", "D5", "a call with incomplete arguments never runs", "at each check and start of a call";
    Orphan = "INV-ORPHAN", "D7", "at the end of a run no process of it lives but those that its session holds", "at each end of a run";
    Process = "INV-PROCESS", "D7", "a background command is supervised until it has ended, and has ended when the journal says so", "at each append and at the end";
    Leave = "INV-LEAVE", "D9", "a call that needs approval starts only after this very call was approved", "at each answer and at the end";
    Task = "INV-TASK", "D9 E6", "a run stops once before the first call of each class that its message names, a plan only reads, and an answer that does not fit its schema is asked for once more", "at the end, over the journal";
    Abort = "INV-ABORT", "E4", "a run whose abort was acknowledged ends as aborted, within its limit", "at the end, over the journal";
    Outcome = "INV-OUTCOME", "E4 F1", "a run ends as its script, its limits and its users say", "at the end, over the journal";
    Counters = "INV-COUNTERS", "F1 F2", "tries of a request and waiting times survive a restart", "at the end, over the journal";
    Chain = "INV-CHAIN", "F4 F5 F7", "no run gives up or waits while a candidate is left that was not asked; a refused thinking level is not asked again, a key is refreshed once", "at each request and at the end, over the journal";
    Cooldown = "INV-COOLDOWN", "F3", "no crash shortens a cooldown of the ledger, a cooldown that is over no longer counts, and a candidate in cooldown is only probed", "at each entry of the ledger, each request and each opening of sessions that share one";
    Compaction = "INV-COMPACTION", "E5 E6", "a history is replaced completely, by a shorter one, and no run ends meanwhile; no message is in a request twice", "at each request, and at the end, over the journal";
    Budget = "INV-BUDGET", "F6", "no request is sent without enough budget, and the spending in the state is what was used; a request with an unknown outcome counts in full", "at the end, over the journal and the state";
    Edge = "INV-EDGE", "A5", "no step leaves the tables, and none panics", "at every decision";
    Delivery = "INV-DELIVERY", "D1 D2", "a delivery starts after that is recorded, ends once, arrives in order, and at most once where keys do not count; its blocks are the text of the answer", "at the end, over the journal and the route";
    Liveness = "INV-LIVENESS", "L1", "when faults stop, every accepted run settles within bounded time and operations", "at the end";
}

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", invariant.name())]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Violation {
    pub invariant: Invariant,
    /// What was observed instead.
    pub detail: String,
}

impl Invariant {
    /// Reports a violation for this reason.
    pub fn violated(self, detail: impl Into<String>) -> Violation {
        Violation { invariant: self, detail: detail.into() }
    }

    /// Checks that `held` is true.
    pub fn holds(self, held: bool, otherwise: impl FnOnce() -> String) -> Result<(), Violation> {
        if held { Ok(()) } else { Err(self.violated(otherwise())) }
    }
}
