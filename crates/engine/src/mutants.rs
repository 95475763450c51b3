//! Mutants: deliberate bugs for tests. They exist only in a build with the feature `faults`, where one is chosen by
//! name at run time; elsewhere [`is_active`] is a constant `false`. The simulator must find each.

macro_rules! mutants {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// A deliberate bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Mutant {
            /// No mutant.
            None,
            $($(#[$doc])* $variant,)*
        }

        impl Mutant {
            /// Every mutant with its name.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$variant, $name),)*];

            /// Whether it is in message routing, so that only worlds that send messages in all modes can find it.
            pub fn is_in_routing(self) -> bool {
                let is_named = |name: &str| name.starts_with("queue_") && self != Self::QueueDroppedAtClosing;
                Self::ALL.iter().any(|(mutant, name)| *mutant == self && is_named(name))
            }

            /// Whether it is in the journal on disk, which only a world over a file has.
            pub fn is_on_disk(self) -> bool {
                Self::ALL.iter().any(|(mutant, name)| *mutant == self && name.starts_with("disk_"))
            }
        }
    };
}

mutants! {
    /// Callers are answered before the batch is committed.
    AcknowledgedBeforeSynced = "acknowledged_before_synced";
    /// Subscribers are notified before the batch is committed.
    PublishedBeforeWritten = "published_before_written";
    /// Effects start before the batch that decided them is committed.
    StartedBeforeIntent = "started_before_intent";
    /// A call that a crash interrupted is simply run again.
    LostCallRunAgain = "lost_call_run_again";
    /// A run ends twice.
    TerminalTwice = "terminal_twice";
    /// The previous owner may still append.
    EpochNotChecked = "epoch_not_checked";
    /// A failed write is forgotten.
    PoisonIgnored = "poison_ignored";
    /// Progress stays when an entry seals it.
    ProgressKept = "progress_kept";
    /// The count of failed tries restarts at an opening.
    TriesReset = "tries_reset";
    /// An armed timer is not replaced by an earlier one.
    DeadlineNotRearmed = "deadline_not_rearmed";
    /// Waiting messages are dropped when the owner shuts down.
    QueueDroppedAtClosing = "queue_dropped_at_closing";
    /// The text of an interrupted stream is thrown away.
    CutTextLost = "cut_text_lost";
    /// An abort is answered, but the run continues.
    AbortForgotten = "abort_forgotten";
    /// A key is not looked up, only the id of the message.
    KeyForgotten = "key_forgotten";
    /// An answer counts for any approval request.
    ApprovalUnbound = "approval_unbound";
    /// A request that nobody has answered in time is approved.
    ExpiryAllows = "expiry_allows";
    /// A waiting steer is lost when its run ends.
    SteerLost = "queue_steer_lost";
    /// A steer that was sent still waits, and is sent with the next request as well.
    SteerTwice = "queue_steer_twice";
    /// A steer joins a run that starts, before a request of it holds the steer.
    SteerEarly = "queue_steer_early";
    /// A group of collected messages takes over others that wait between them.
    GroupAcross = "queue_group_across";
    /// A steer waits for calls that have not started.
    CallsNotSkipped = "queue_calls_not_skipped";
    /// An interrupt waits behind the others.
    InterruptBehind = "queue_interrupt_behind";
    /// A reset drops waiting messages.
    ResetDrops = "queue_reset_drops";
    /// A reset that waits for the end of a run is forgotten.
    ResetForgotten = "queue_reset_forgotten";
    /// The breakpoints that a message asks for are not set when its run starts.
    BreakpointOfMessageLost = "queue_breakpoint_of_message_lost";
    /// A model is asked again and again for an answer that fits the schema.
    SchemaMismatchRepeated = "queue_schema_mismatch_repeated";
    /// An answer that was continued is not asked for again if it does not fit the schema.
    SchemaMismatchOfRestPassed = "queue_schema_mismatch_of_rest_passed";
    /// A breakpoint does not pause a run.
    BreakpointPassed = "queue_breakpoint_passed";
    /// A breakpoint that has stopped a run stops it again.
    BreakpointTwice = "queue_breakpoint_twice";
    /// The mode of a session is ignored.
    ModeIgnored = "queue_mode_ignored";
    /// A history is split between a call and its result.
    CompactionSplitsCall = "compaction_splits_call";
    /// A summary replaces a history although it is no shorter.
    CompactionUnchecked = "compaction_unchecked";
    /// A message that waits when a summary comes is lost.
    CompactionDropsQueue = "compaction_drops_queue";
    /// A message that stays beside a summary is sent twice.
    CompactionTellsTwice = "compaction_tells_twice";
    /// A compaction that a crash interrupted has lost the old history, without a summary.
    CompactionHalf = "compaction_half";
    /// A run whose summary failed ends instead of trying again.
    CompactionEndsRun = "compaction_ends_run";
    /// No reservation is made for a request.
    BudgetNotReserved = "budget_not_reserved";
    /// A request is sent whatever budget is left.
    BudgetNotAsked = "budget_not_asked";
    /// A request that was answered costs its usage and its reservation as well.
    BudgetSettledTwice = "budget_settled_twice";
    /// A request with an unknown end has cost nothing.
    BudgetUnknownIsNothing = "budget_unknown_is_nothing";
    /// What was spent is forgotten at an opening.
    BudgetForgotten = "budget_forgotten";
    /// A run that waits for a larger budget keeps waiting when it has one.
    BudgetRaiseForgotten = "budget_raise_forgotten";
    /// Cooldowns of a run are forgotten at an opening.
    CoolingForgotten = "cooling_forgotten";
    /// A wait ends at an opening, whatever its time is.
    WaitShortened = "wait_shortened";
    /// An abort of a request counts as its failure: another candidate is asked.
    AbortFallsBack = "abort_falls_back";
    /// When the keys of a model are used up, no other model is asked.
    NextModelForgotten = "next_model_forgotten";
    /// A key that was refused for one model is asked for the others.
    KeyAskedAgain = "key_asked_again";
    /// The lowered thinking level is forgotten at an opening.
    LevelForgotten = "level_forgotten";
    /// The refusal of a key is forgotten at an opening: the key is refreshed once more.
    RefusalForgotten = "refusal_forgotten";
    /// A call that was denied runs.
    DeniedCallRuns = "denied_call_runs";
    /// A delivery whose outcome is unknown is sent again where keys do not count.
    UnknownDeliveryRepeated = "unknown_delivery_repeated";
    /// In the journal on disk: a group is not synced, whatever is in it.
    DiskGroupNotSynced = "disk_group_not_synced";
    /// In the journal on disk: the number of a new owner is not synced.
    DiskEpochNotSynced = "disk_epoch_not_synced";
    /// In the journal on disk: the mark is written before the group is committed.
    DiskMarkLeads = "disk_mark_leads";
    /// In the journal on disk: the counts of a failed group stay.
    DiskEndsKept = "disk_ends_kept";
    /// In the journal on disk: after a failed write the next one is acknowledged.
    DiskPoisonIgnored = "disk_poison_ignored";
    /// In the journal on disk: a snapshot is kept under the entry before its own.
    DiskSnapshotEarly = "disk_snapshot_early";
}

#[cfg(feature = "faults")]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Activates a mutant, or none.
#[cfg(feature = "faults")]
pub fn plant(mutant: Option<Mutant>) {
    CHOSEN.store(mutant.map_or(0, |m| m as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Whether this mutant is active.
#[cfg(feature = "faults")]
pub fn is_active(mutant: Mutant) -> bool {
    CHOSEN.load(std::sync::atomic::Ordering::SeqCst) == mutant as u8
}

/// Whether this mutant is active: never in this build.
#[cfg(not(feature = "faults"))]
pub const fn is_active(_: Mutant) -> bool {
    false
}

/// Whether this mutant is active: `mutant!(NextModelForgotten)`. Always false but in the fault build.
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutants::is_active($crate::mutants::Mutant::$name)
    };
}
