//! What must hold, by name, and how it is said that it does not.

macro_rules! invariants {
    ($($variant:ident = $name:literal, $says:literal;)*) => {
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

            /// What must hold.
            pub const fn says(self) -> &'static str {
                match self { $(Self::$variant => $says,)* }
            }
        }
    };
}

invariants! {
    Acknowledged = "INV-ACKNOWLEDGED", "what a caller was told is in the journal for ever";
    SameKey = "INV-SAME-KEY", "the same key is the same run, and accepted once";
    Published = "INV-PUBLISHED", "what a subscriber saw is in the journal; only unsynced ends of it vanish with the power";
    Stream = "INV-STREAM", "streamed text comes without gap or repeat, and is what the journal seals";
    Journal = "INV-JOURNAL", "the journal is exactly what was appended and survived";
    Fence = "INV-FENCE", "an owner that is gone appends nothing";
    Fold = "INV-FOLD", "the recovered state is the live state";
    Terminal = "INV-TERMINAL", "a run has exactly one end, and nothing comes after it";
    Outcome = "INV-OUTCOME", "a run ends as its script says";
    Settled = "INV-SETTLED", "accepted = ended once all is quiet";
    Order = "INV-ORDER", "runs start in the order in which their messages were accepted";
    Answer = "INV-ANSWER", "the final text is its segments, and what the model said";
    Intent = "INV-INTENT", "no call starts before its start is recorded as its class asks";
    Once = "INV-ONCE", "a call that may run once starts at most once";
    Key = "INV-KEY", "every start of a call carries the same key";
    Leave = "INV-LEAVE", "a call that asks starts only after leave was given";
    Result = "INV-RESULT", "a result says what the tool did";
    Pairing = "INV-PAIRING", "in every request each call has one result, and no result stands alone";
    Request = "INV-REQUEST", "a request tells the model only what it said";
    Edge = "INV-EDGE", "no step leaves the tables, and none panics";
    Repeat = "INV-REPEAT", "a case that runs twice does the same";
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
