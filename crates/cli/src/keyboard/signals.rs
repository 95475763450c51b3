//! A thread that hears what a terminal sends to the command that has changed it, whatever the other threads do: Ctrl-Z while
//! the command waits for an owner or closes, and the end of the terminal. The keyboard comes first, because it leaves the
//! screen in order.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal as ProcessSignal, getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::give_back;

/// How long the keyboard has to suspend the process itself.
const PATIENCE: Duration = Duration::from_millis(300);
/// The exit code after SIGHUP, as a shell counts it.
const HANGUP: i32 = 128 + 1;

/// How often this process was suspended.
static SUSPENSIONS: AtomicU32 = AtomicU32::new(0);

/// How often this process was continued, also after a stop that no handler saw.
static CONTINUATIONS: AtomicU32 = AtomicU32::new(0);

/// How often this process was suspended.
pub(super) fn suspensions() -> u32 {
    SUSPENSIONS.load(Ordering::Relaxed)
}

/// Set by the handler of SIGCONT itself: a task that waits for the signal may run after the next drawing.
static CONTINUED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
    let continued = Arc::default();
    // Without a handler, whoever is continued draws where it was.
    let _ = signal_hook::flag::register(ProcessSignal::CONT.as_raw(), Arc::clone(&continued));
    continued
});

/// How often another process had the terminal meanwhile: whatever was drawn before may be anywhere on the screen.
pub(crate) fn interruptions() -> u32 {
    if CONTINUED.swap(false, Ordering::SeqCst) {
        CONTINUATIONS.fetch_add(1, Ordering::Relaxed);
    }
    suspensions().wrapping_add(CONTINUATIONS.load(Ordering::Relaxed))
}

/// Gives the terminal back and stops this process until it is continued, unless it was suspended since there were so many
/// suspensions: one Ctrl-Z stops it once, whoever handles it. A process that nobody could continue goes on.
pub(super) fn suspend(seen: u32) {
    let is_first = || SUSPENSIONS.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if is_orphaned(getpid().as_raw_nonzero().get(), stat_of) || !is_first() {
        return;
    }
    give_back();
    // It fails for no process that is this one.
    let _ = kill_process(getpid(), ProcessSignal::STOP);
}

/// Listens from now on. Without the thread the signals do what they do to any process.
pub(super) fn listen() {
    static BEGUN: OnceLock<()> = OnceLock::new();
    if BEGUN.set(()).is_ok() {
        LazyLock::force(&CONTINUED);
        let _ = thread::Builder::new().name("terminal".to_owned()).spawn(handle_signals);
    }
}

fn handle_signals() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let (mut hangs_up, mut suspends) = (stream(ProcessSignal::HUP), stream(ProcessSignal::TSTP));
        let mut seen = suspensions();
        loop {
            tokio::select! {
                () = next(&mut hangs_up) => {
                    give_back();
                    std::process::exit(HANGUP);
                }
                () = next(&mut suspends) => {
                    tokio::time::sleep(PATIENCE).await;
                    suspend(seen);
                    seen = suspensions();
                }
            }
        }
    });
}

/// The stream of a signal; none if whoever started this process has it ignored, as `nohup` does.
pub(super) fn stream(of: ProcessSignal) -> Option<Signal> {
    // Read before the first stream: a signal with a stream is not ignored any more.
    static STATUS: OnceLock<Option<String>> = OnceLock::new();
    let status = STATUS.get_or_init(|| std::fs::read_to_string("/proc/self/status").ok()).as_deref()?;
    if is_ignored(status, of.as_raw())? { None } else { signal(SignalKind::from_raw(of.as_raw())).ok() }
}

/// Waits for the signal; for ever if there is no stream of it.
pub(super) async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether a process with this `/proc/PID/status` ignores a signal.
fn is_ignored(status: &str, signal: i32) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

/// The line `/proc/PID/stat` of a process.
fn stat_of(pid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// Whether no shell waits for the group of this process, as if a terminal was opened for it alone: nobody could continue it. The
/// system does not stop such a group on Ctrl-Z either.
fn is_orphaned(pid: i32, stat_of: impl Fn(i32) -> Option<String>) -> bool {
    /// Parents that are looked at.
    const PARENTS: usize = 64;
    // Behind the name come the state, the parent, the group and the session.
    let of = |pid: i32| -> Option<[i32; 3]> {
        let stat = stat_of(pid)?;
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(1);
        let mut field = || fields.next()?.parse().ok();
        Some([field()?, field()?, field()?])
    };
    let Some([mut parent, group, session]) = of(pid) else { return false };
    for _ in 0..PARENTS {
        match of(parent) {
            Some([next, same_group, same_session]) if same_group == group && same_session == session => parent = next,
            Some([_, _, of_parent]) => return of_parent != session,
            None => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r15_a_signal_that_is_ignored_stays_ignored() {
        let status = "Name:\tlimulus\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        for (signal, expected) in [(1, true), (13, true), (2, false), (20, false)] {
            assert_eq!(is_ignored(status, signal), Some(expected), "{signal}");
        }
        assert_eq!(is_ignored("", 1), None);
    }

    #[test]
    fn r15_a_process_that_no_shell_waits_for_is_known() {
        // A shell (5) of session 5; a script (7) that it started in a group of its own, and what that started (8); a terminal
        // (3) with a process (6) that leads a session.
        let stats = [
            (3, "3 (xterm) S 1 3 3 0"),
            (5, "5 (sh) S 3 5 5 34816"),
            (6, "6 (limulus) S 3 6 6 34816"),
            (7, "7 (a) b (script) S 5 7 5 34816"),
            (8, "8 (limulus) S 7 7 5 34816"),
            (9, "9 (limulus) S 0 9 9 34816"),
        ];
        let stat_of = |pid| stats.iter().find(|(known, _)| *known == pid).map(|(_, stat)| (*stat).to_owned());
        for (pid, expected) in [(8, false), (7, false), (6, true), (9, true)] {
            assert_eq!(is_orphaned(pid, stat_of), expected, "{pid}");
        }
    }
}
