//! A run that the end of its process interrupted, said in one line to whoever comes back.

use config::Globals;
use engine::Timestamp;
use journal::{Read as _, Reader};
use protocol::show::{CommandNow, InterruptedRun};
use views::{fold_branch, interrupted};

use crate::show::human::{Zone, excerpt, printable_line};

/// Characters of a command in the line.
const COMMAND_CHARS: usize = 60;

/// The interrupted run of a session that nobody owns. None if it has none, or if what is recorded of it cannot be read:
/// whoever resumes it says why.
pub(super) fn of(globals: &Globals, key: &str) -> Option<InterruptedRun> {
    let reader = Reader::open(&globals.home).ok()?;
    let row = reader.session(key).ok()?.filter(|row| row.unfinished)?;
    interrupted(&reader, &globals.home, &fold_branch(&reader, &row).ok()?)
}

/// What is said of it; `goes_on` is what happens to it now.
pub(super) fn line(run: &InterruptedRun, goes_on: &str, zone: &Zone, now: Timestamp) -> String {
    let since = zone.short(run.since, now);
    let within = run.call.as_ref().map(|call| format!(" in \"{}\"", excerpt(&printable_line(call), COMMAND_CHARS)));
    let then = match run.command {
        Some(CommandNow::Finished) => "it has finished meanwhile",
        Some(CommandNow::Running) => "it still runs",
        Some(CommandNow::Unknown) => "what became of it is not known",
        None => goes_on,
    };
    format!("your run from {since} was interrupted{}; {then}", within.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_an_interrupted_run_is_said_in_a_line() {
        let since = Timestamp(1_763_694_246_000);
        let said = |call: Option<&str>, command, hours: i64| {
            let run = InterruptedRun { since, call: call.map(str::to_owned), command };
            line(&run, "it goes on", &Zone::utc(), Timestamp(since.0 + hours * 3_600_000))
        };
        let finished = said(Some("cargo test"), Some(CommandNow::Finished), 2);
        assert_eq!(finished, "your run from 03:04 was interrupted in \"cargo test\"; it has finished meanwhile");
        let running = said(Some("cargo test\u{1b}[2J"), Some(CommandNow::Running), 48);
        assert!(running.starts_with("your run from 2025-11-21 03:04 was"), "{running}");
        assert!(running.ends_with("; it still runs") && !running.contains('\u{1b}'), "{running}");
        assert!(said(Some("edit"), None, 0).ends_with(" in \"edit\"; it goes on"));
        assert_eq!(said(None, None, 0), "your run from 03:04 was interrupted; it goes on");
    }
}
