//! Programs of the user that are ended with what they started: that of a notification after a while, a command that prints a key when
//! nobody waits for the key any more. Each runs under a process of this program, which inherits what has lost its parent below it, so
//! that nothing escapes by a group or a session of its own.

use std::ffi::OsString;
use std::io::{Read as _, stdin};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The hidden subcommand that runs the program of a notification.
pub(crate) const NOTIFICATION: &str = "run-notification";
/// How long the program of a notification may run.
const LIMIT: Duration = Duration::from_secs(10);
/// What a shell says of a program that is not there.
const NOT_THERE: u8 = 127;
/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;

/// Runs the program of a notification, which reads stdin.
pub(crate) fn notification(words: impl Iterator<Item = OsString>) -> ExitCode {
    match start(words, Stdio::inherit()) {
        Ok(end) => finish(end.recv_timeout(LIMIT)),
        Err(code) => code,
    }
}

/// Runs a command that prints a key until it ends or stdin does.
#[expect(clippy::disallowed_methods, reason = "no answer is read: the end of the input is waited for")]
pub(crate) fn key_command(words: impl Iterator<Item = OsString>) -> ExitCode {
    let end = match start(words, Stdio::null()) {
        Ok(end) => end,
        Err(code) => return code,
    };
    // Held by whoever decides how this process ends: what the command started is ended after the command itself.
    let ending = Arc::new(Mutex::new(()));
    let of_thread = Arc::clone(&ending);
    thread::spawn(move || {
        // Whoever waits for the key holds the other end and writes nothing.
        let _ = stdin().read(&mut [0; 1]);
        let _ending = of_thread.lock();
        end_all();
        std::process::exit(1);
    });
    let end = end.recv().map_err(RecvTimeoutError::from);
    let _ending = ending.lock();
    finish(end)
}

fn start(mut words: impl Iterator<Item = OsString>, stdin: Stdio) -> Result<Receiver<ExitStatus>, ExitCode> {
    let program = words.next().ok_or(ExitCode::from(2))?;
    // A kernel that refuses it offers no other way.
    let _ = tools::inherit_orphans();
    // A group of its own: if it stops its group, this process goes on.
    let child = Command::new(program).args(words).stdin(stdin).process_group(0).spawn();
    let mut child = child.map_err(|_| ExitCode::from(NOT_THERE))?;
    let (ended, end) = channel();
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            // Nobody waits any more if the time is over.
            let _ = ended.send(status);
        }
    });
    Ok(end)
}

fn finish(end: Result<ExitStatus, RecvTimeoutError>) -> ExitCode {
    let Ok(status) = end else {
        end_all();
        return ExitCode::FAILURE;
    };
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn end_all() {
    tools::end_below(std::process::id());
}
