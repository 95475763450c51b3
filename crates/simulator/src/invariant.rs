//! What must hold, by name, and how it is said that it does not.

macro_rules! invariants {
    ($($variant:ident = $name:literal, $letters:literal, $says:literal, $checked:literal;)*) => {
        /// One thing that must hold in every case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each says itself, in `says`")]
        pub enum Invariant { $($variant,)* }

        impl Invariant {
            /// Every one, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name in reports and tests.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its letters in the list of all invariants of the design.
            pub const fn letters(self) -> &'static str {
                match self { $(Self::$variant => $letters,)* }
            }

            /// What must hold.
            pub const fn says(self) -> &'static str {
                match self { $(Self::$variant => $says,)* }
            }

            /// Where it is checked.
            pub const fn checked(self) -> &'static str {
                match self { $(Self::$variant => $checked,)* }
            }
        }
    };
}

invariants! {
    Lanes = "INV-LANES", "A1", "a session has one active run at most", "at the end, over the journal";
    Acknowledged = "INV-ACKNOWLEDGED", "A2", "what a caller was told is in the journal for ever", "at each answer, each opening, and at the end";
    SameKey = "INV-SAME-KEY", "A3", "the same key is the same run, accepted once; with other content it is a conflict", "at each answer and at the end";
    Order = "INV-ORDER", "A4", "runs start in the order in which their messages were accepted", "at the end, over the journal";
    Terminal = "INV-TERMINAL", "A5", "a run has exactly one end, and nothing comes after it, a start of a call neither", "at the end, over the journal and the tools";
    Accounts = "INV-ACCOUNTS", "A6", "accepted = ended + taken back + under way + waiting", "after every operation";
    State = "INV-STATE", "A1 A3 A6 D4 D6 D7 D8 D9 F3", "the state of a session breaks no invariant that it can break by itself", "after every operation";
    Fence = "INV-FENCE", "A7", "an owner that is gone appends nothing", "after each change of owner";
    Settled = "INV-SETTLED", "A8", "once all is quiet, what was accepted has ended, was taken back, or waits for a human by name", "at the end, over journal and views";
    Owner = "INV-OWNER", "A10", "whatever is not over has something under way, an armed time, or a human to wait for", "after every operation";
    Published = "INV-PUBLISHED", "C1", "what a subscriber saw is in the journal; only unsynced ends of it vanish with the power", "at each opening and at the end";
    Journal = "INV-JOURNAL", "B1 B2", "the journal is exactly what was appended and survived, gapless", "at each append and at the end";
    Fold = "INV-FOLD", "B4", "the recovered state is the live state", "at each append of the exhaustive mode, and at the end";
    Snapshot = "INV-SNAPSHOT", "B5", "a fold through a snapshot is the fold from the beginning", "at each opening";
    Repeat = "INV-REPEAT", "B4", "a case that runs twice does the same", "after each random case, and of every sixteenth point";
    Poison = "INV-POISON", "B7", "after a failed write nothing more is acknowledged by that process", "at each failed append";
    Stream = "INV-STREAM", "C1 C2", "streamed text comes without gap or repeat, and is what the journal seals", "at each publication and opening";
    Answer = "INV-ANSWER", "C2", "the final text is its segments, and what the model said", "at the end, over the journal";
    EndMark = "INV-END-MARK", "C3", "an answer without the provider's end mark is not complete", "at the end, over the journal and the provider";
    Stall = "INV-STALL", "C4", "a silent stream is stalled within its limit", "at the end, over the journal and the provider";
    Intent = "INV-INTENT", "D1", "no call starts before its start is recorded as its class asks", "at the end, over the tools";
    Once = "INV-ONCE", "D2", "a call that may run once starts at most once", "at the end, over the tools";
    Key = "INV-KEY", "D2", "every start of a call carries the same key", "at the end, over the tools";
    Result = "INV-RESULT", "D3 D6", "each call has one result, which says what the tool did", "at the end, over the journal and the tools";
    Pairing = "INV-PAIRING", "D4", "in every request each call has one result, and no result stands alone", "at each request";
    Request = "INV-REQUEST", "C8 E6", "a request tells the model only what it said", "at each request";
    Arguments = "INV-ARGUMENTS", "D5", "a call with incomplete arguments never runs", "at each check and start of a call";
    Orphan = "INV-ORPHAN", "D7", "at the end of a run no process of it lives but those that its session holds", "at each end of a run";
    Process = "INV-PROCESS", "D7", "a command in the background is held until it has ended, and ended when that is said", "at each append and at the end";
    Leave = "INV-LEAVE", "D9", "a call that asks starts only after leave was given for this very call", "at each answer and at the end";
    Abort = "INV-ABORT", "E4", "a run whose abort was acknowledged ends so, within its limit", "at the end, over the journal";
    Outcome = "INV-OUTCOME", "E4 F1", "a run ends as its script, its limits and its users say", "at the end, over the journal";
    Counters = "INV-COUNTERS", "F1 F2", "tries of a request and waiting times survive a restart", "at the end, over the journal";
    Chain = "INV-CHAIN", "F4 F5 F7", "no run gives up or waits while a candidate is left that was not asked; a level of thinking that was refused is not asked again, a key is made anew once", "at each request and at the end, over the journal";
    Cooldown = "INV-COOLDOWN", "F3", "no crash shortens what the ledger leaves alone, a time that is over counts no more, and nobody is asked whom it said to leave alone but as a probe", "at each entry of the ledger, each request and each opening of sessions that share one";
    Compaction = "INV-COMPACTION", "E5 E6", "a history is replaced whole, by a shorter one, and no run ends while that is under way; no message is told twice", "at each request, and at the end, over the journal";
    Budget = "INV-BUDGET", "F6", "no request goes out for which too little is left, and what was spent is what was taken, a request of unknown end in full", "at the end, over the journal and the state";
    Edge = "INV-EDGE", "A5", "no step leaves the tables, and none panics", "at every decision";
    Liveness = "INV-LIVENESS", "L1", "when faults stop, every accepted run comes to rest within bounded time and operations", "at the end";
}

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", invariant.name())]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was seen instead.
    pub detail: String,
}

impl Invariant {
    /// It does not hold, for this reason.
    pub fn violated(self, detail: impl Into<String>) -> Violation {
        Violation { invariant: self, detail: detail.into() }
    }

    /// It holds if this does.
    pub fn holds(self, held: bool, otherwise: impl FnOnce() -> String) -> Result<(), Violation> {
        if held { Ok(()) } else { Err(self.violated(otherwise())) }
    }
}
