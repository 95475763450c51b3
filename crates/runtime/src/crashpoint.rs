//! Points at which a build with the feature `faults` ends itself with SIGKILL, chosen by `LIMULUS_CRASHPOINT=NAME:NTH`.
//! In any other build [`hit`] is empty.

/// The points at which the process can end itself.
pub const NAMES: [&str; 19] = [
    "accepted",        // a message is recorded, its sender not yet answered
    "request_sent",    // a request is on its way, no byte has come
    "title_sent",      // a title is asked for, no byte of it has come
    "mid_stream",      // a piece of an answer has come
    "sealed",          // a message with calls is recorded, no call has started
    "intent_synced",   // a call is recorded as started, its supervisor is not
    "mid_call",        // a command is running
    "call_ended",      // a call has ended, its result is not recorded
    "recorded",        // a batch is recorded, nobody is notified
    "opening",         // a session is being opened
    "ending_call",     // a running call is being ended
    "undo_started",    // an undo is recorded as started, no file is restored
    "undo_done",       // its files are restored, its end is not recorded
    "deliver_started", // a delivery is recorded as started, nothing is sent
    "deliver_done",    // it is sent, and its outcome is not recorded
    "erase_started",   // a conversation is recorded as deleted, nothing is erased
    "erase_texts",     // its texts are erased, the index for searches still knows its words
    "erase_index",     // it is out of the index too, contents of its files are kept
    "erase_done",      // everything is erased, and that is not recorded
];

/// Passes a point; at the chosen point and occurrence the process ends here.
#[cfg(feature = "faults")]
pub fn hit(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static CHOSEN: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static HITS: AtomicU32 = AtomicU32::new(0);
    hold(name);
    let chosen = CHOSEN.get_or_init(|| {
        let value = std::env::var("LIMULUS_CRASHPOINT").ok()?;
        let (name, nth) = value.split_once(':').unwrap_or((&value, "1"));
        Some((name.to_owned(), nth.parse().ok()?))
    });
    let Some((_, nth)) = chosen.as_ref().filter(|(chosen, _)| chosen == name) else { return };
    if HITS.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// At the first occurrence of the point of `LIMULUS_HOLD=NAME:SECONDS`, its thread works for so long.
#[cfg(feature = "faults")]
fn hold(name: &str) {
    use std::sync::Once;
    static HELD: Once = Once::new();
    let Ok(value) = std::env::var("LIMULUS_HOLD") else { return };
    let Some((point, seconds)) = value.split_once(':') else { return };
    if let Some(seconds) = seconds.parse().ok().filter(|_| point == name) {
        HELD.call_once(|| {
            let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
            while std::time::Instant::now() < until {
                std::hint::spin_loop();
            }
        });
    }
}

/// Does nothing in this build.
#[cfg(not(feature = "faults"))]
#[inline]
pub fn hit(_: &'static str) {}
