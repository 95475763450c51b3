//! A thread that hears SIGINT and SIGTERM whatever the other threads do. A command handles its signals itself, in order; this
//! thread ends the process if the command cannot, if it waits for an owner that does not answer, or if the user insists.
//! Committed entries are durable in any case.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use runtime::watchdog;
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::agent::quit;
use crate::error::{CliError, Exit};
use crate::output;

/// The signals after which the process ends at once; the first one ends the command in order.
const ENOUGH: u32 = 2;
/// After a signal to stop, the thread of all tasks may be held for this long.
const PATIENCE: Duration = Duration::from_secs(5);
/// After a signal, a command that owns no home has this long to end in order: it only waits for an owner, which may be stopped.
const LINGER: Duration = Duration::from_secs(2);
/// Interval of looks after a signal.
const LOOK: Duration = Duration::from_millis(250);
/// The time for a last line on stderr, which may be a pipe that nobody reads.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Which signals are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insists {
    /// The second SIGINT: the first one ends a run.
    Interrupts,
    /// The second of either.
    Any,
}

/// Counts signals until it is dropped.
#[derive(Debug)]
pub(crate) struct Counting(());

/// Whether the first SIGINT has become a request to end a run, which may take a while.
static ABORTING: AtomicBool = AtomicBool::new(false);

/// From here on the end of a run is awaited: the first SIGINT does not end the process.
pub(crate) fn is_aborting() {
    ABORTING.store(true, Ordering::Relaxed);
}

/// Whether the signals of the terminal are for another program, which this process waits for.
static ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Signals are not counted until it is dropped.
pub(crate) struct Elsewhere(());

/// From here on another program has the terminal.
pub(crate) fn are_elsewhere() -> Elsewhere {
    ELSEWHERE.store(true, Ordering::Relaxed);
    Elsewhere(())
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        ELSEWHERE.store(false, Ordering::Relaxed);
    }
}

static COUNTED: Mutex<Option<(Insists, u32)>> = Mutex::new(None);

fn counted() -> MutexGuard<'static, Option<(Insists, u32)>> {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Counting {
    fn drop(&mut self) {
        *counted() = None;
    }
}

/// Ends the process at the second of these signals, and at the first one to stop if the thread of all tasks is held. From
/// here on no signal ends the process by itself.
pub(crate) fn count(insists: Insists) -> Result<Counting, CliError> {
    static BEGUN: OnceLock<()> = OnceLock::new();
    *counted() = Some((insists, 0));
    if BEGUN.set(()).is_err() {
        return Ok(Counting(()));
    }
    let failed = |error| CliError::bug(&format!("no signals: {error}"));
    // Its own runtime: that of the tasks hears nothing while one of them works.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let streams = {
        let _within = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    let hear = move || {
        let (mut interrupt, mut terminate) = streams;
        runtime.block_on(async {
            let (mut is_stopping, mut first) = (false, None);
            loop {
                let is_interrupt = tokio::select! {
                    _ = interrupt.recv() => true,
                    _ = terminate.recv() => false,
                    () = tokio::time::sleep(LOOK), if first.is_some() => {
                        if is_stopping {
                            quit_if_held();
                        }
                        first.iter().for_each(quit_if_waiting);
                        continue;
                    }
                };
                if is_interrupt && ELSEWHERE.load(Ordering::Relaxed) {
                    continue;
                }
                let insists = counted().as_ref().map(|(insists, _)| *insists);
                is_stopping |= !is_interrupt || insists == Some(Insists::Any);
                if first.is_none_or(|(was_interrupt, _)| was_interrupt && !is_interrupt) {
                    first = Some((is_interrupt, Instant::now()));
                }
                if is_enough(is_interrupt) {
                    quit();
                }
            }
        });
    };
    thread::Builder::new().name("signals".to_owned()).spawn(hear).map_err(failed)?;
    Ok(Counting(()))
}

/// Counts a signal. Returns whether the user insists.
fn is_enough(is_interrupt: bool) -> bool {
    match &mut *counted() {
        Some((insists, count)) if is_interrupt || *insists == Insists::Any => {
            *count += 1;
            *count >= ENOUGH
        }
        _ => false,
    }
}

/// Ends a command that owns nothing and still waits for its owner.
fn quit_if_waiting((is_interrupt, since): &(bool, Instant)) {
    let is_command = counted().as_ref().is_some_and(|(insists, _)| *insists == Insists::Interrupts);
    let is_expected = *is_interrupt && ABORTING.load(Ordering::Relaxed);
    if is_command && !is_expected && since.elapsed() > LINGER && !output::is_owner() {
        let exit = if *is_interrupt { Exit::Aborted } else { Exit::Stopped };
        crate::keyboard::give_back();
        std::process::exit(i32::from(exit as u8));
    }
}

fn quit_if_held() {
    if watchdog::is_held_for(PATIENCE) {
        let by = watchdog::latest().map_or_else(String::new, |stall| format!(" by {}", stall.what));
        let line =
            format!("limulus: the thread of all sessions is held{by}: this process ends without an orderly shutdown");
        thread::spawn(move || {
            output::say!("{line}");
        });
        thread::sleep(LAST_WORDS);
        quit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r61_the_second_signal_that_counts_ends_the_process() {
        for (insists, signals, enough) in [
            (Insists::Interrupts, &[true, true][..], true),
            (Insists::Interrupts, &[true, false], false),
            (Insists::Interrupts, &[false, false, true], false),
            (Insists::Any, &[true, false], true),
            (Insists::Any, &[false, false], true),
            (Insists::Any, &[false], false),
        ] {
            *counted() = Some((insists, 0));
            let last = signals.iter().fold(None, |_, is_interrupt| Some(is_enough(*is_interrupt)));
            assert_eq!(last, Some(enough), "{insists:?} {signals:?}");
        }
        drop(Counting(()));
        assert!(!is_enough(true) && !is_enough(true), "nobody counts");
    }
}
