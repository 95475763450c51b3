//! A thread that hears what a terminal sends to the command that has changed it, whatever the other threads do: Ctrl-Z while
//! the command waits for an owner or closes, and the end of the terminal. The keyboard comes first, because it leaves the
//! screen in order.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
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

/// How often this process was suspended: whatever was drawn before may be anywhere on the screen.
pub(crate) fn suspensions() -> u32 {
    SUSPENSIONS.load(Ordering::Relaxed)
}

/// Gives the terminal back and stops this process until it is continued.
pub(super) fn suspend() {
    SUSPENSIONS.fetch_add(1, Ordering::Relaxed);
    give_back();
    // It fails for no process that is this one.
    let _ = kill_process(getpid(), ProcessSignal::STOP);
}

/// Listens from now on. Without the thread the signals do what they do to any process.
pub(super) fn listen() {
    static BEGUN: OnceLock<()> = OnceLock::new();
    if BEGUN.set(()).is_err() {
        return;
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let (mut hangs_up, mut suspends) = {
        let _within = runtime.enter();
        (heard(ProcessSignal::HUP), heard(ProcessSignal::TSTP))
    };
    let hear = move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    () = next(&mut hangs_up) => {
                        give_back();
                        std::process::exit(HANGUP);
                    }
                    () = next(&mut suspends) => {
                        let before = suspensions();
                        tokio::time::sleep(PATIENCE).await;
                        if suspensions() == before {
                            suspend();
                        }
                    }
                }
            }
        });
    };
    let _ = thread::Builder::new().name("terminal".to_owned()).spawn(hear);
}

/// The stream of a signal; none if whoever started this process has it ignored, as `nohup` does.
fn heard(of: ProcessSignal) -> Option<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let is_ignored = is_ignored(&status, of.as_raw())?;
    if is_ignored { None } else { signal(SignalKind::from_raw(of.as_raw())).ok() }
}

async fn next(signal: &mut Option<Signal>) {
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
}
