//! Background commands that still work, each said in a line to whoever leaves them behind.

use std::path::Path;

use engine::Timestamp;
use protocol::Client;
use protocol::method::{NoParams, StatusGet};
use protocol::show::BackgroundCommand;

use crate::show::human::{duration, excerpt, printable_line, session_name};

/// Characters of a command in a line.
const COMMAND_CHARS: usize = 60;

/// Those of a session. The home is asked only if any command runs in it.
pub(super) async fn of_session(home: &Path, client: &Client, key: &str) -> Vec<BackgroundCommand> {
    if tools::running_calls(&home.join("calls")).is_ok_and(|running| running.is_empty()) {
        return vec![];
    }
    let status = client.call::<StatusGet>(NoParams {}).await;
    let background = status.map(|status| status.background).unwrap_or_default();
    background.into_iter().filter(|command| command.session == key).collect()
}

/// `npm run dev (started 2 min ago)`
pub(super) fn name(command: &BackgroundCommand, now: Timestamp) -> String {
    let line = excerpt(&printable_line(&command.command), COMMAND_CHARS);
    format!("{line} (started {} ago)", duration(now.since(command.since)))
}

/// The line at the end of a run, with the command that shows more.
pub(crate) fn line(command: &BackgroundCommand, now: Timestamp) -> String {
    let session = session_name(&command.session);
    format!("still running: {} · limulus sessions show {session}", name(command, now))
}

/// Whether a command has ended whose changes are not recorded yet. Reads nothing but the folder of calls.
pub(crate) fn has_unrecorded(home: &Path) -> bool {
    tools::unrecorded_calls(&home.join("calls")).is_ok_and(|calls| calls.iter().any(|call| call.has_ended))
}

/// What `undo` and `diff` say of it.
pub(super) fn in_folder(command: &BackgroundCommand, now: Timestamp) -> String {
    format!("still running in this folder: {}; what it changes is recorded when it ends", name(command, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_a_command_in_the_background_is_said_in_a_line() {
        let command = BackgroundCommand {
            session: "agent:main:proj-1a2b3c".to_owned(),
            id: "p1".to_owned(),
            command: "npm run dev\u{1b}[2J".to_owned(),
            since: Timestamp(1_000),
        };
        let said = line(&command, Timestamp(121_000));
        assert!(said.starts_with("still running: npm run dev") && !said.contains('\u{1b}'), "{said}");
        assert!(said.ends_with("(started 2 min 0 s ago) · limulus sessions show proj-1a2b3c"), "{said}");
    }
}
