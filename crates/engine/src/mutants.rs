//! Planted bugs. They exist only in a build with `--cfg mutants`, where one is chosen by name at run time; elsewhere
//! [`planted`] is a constant `false`. Each must be found by the simulator.

/// The bugs that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mutant {
    /// Callers are answered before the batch is committed.
    AcknowledgedBeforeSynced = 1,
    /// Subscribers are told before the batch is committed.
    PublishedBeforeWritten,
    /// Effects start before the batch that decided them is committed.
    StartedBeforeIntent,
    /// A call that a crash cut off is simply run again.
    LostCallRunAgain,
    /// A run ends twice.
    TerminalTwice,
}

impl Mutant {
    /// Every one with the name that it is chosen by.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::AcknowledgedBeforeSynced, "acknowledged_before_synced"),
        (Self::PublishedBeforeWritten, "published_before_written"),
        (Self::StartedBeforeIntent, "started_before_intent"),
        (Self::LostCallRunAgain, "lost_call_run_again"),
        (Self::TerminalTwice, "terminal_twice"),
    ];
}

#[cfg(mutants)]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a bug, or none.
#[cfg(mutants)]
pub fn plant(mutant: Option<Mutant>) {
    CHOSEN.store(mutant.map_or(0, |m| m as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Whether this bug is planted.
#[cfg(mutants)]
pub(crate) fn planted(mutant: Mutant) -> bool {
    CHOSEN.load(std::sync::atomic::Ordering::SeqCst) == mutant as u8
}

/// Whether this bug is planted: never, in this build.
#[cfg(not(mutants))]
pub(crate) const fn planted(_: Mutant) -> bool {
    false
}
