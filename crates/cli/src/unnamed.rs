//! Commands that name no session mean that of the folder in which they are given: one place fills it in for all of them.
//! Commands that mean every session where none is named are not here. A title may stand for a name.

use std::path::Path;

use config::{Globals, default_session};
use engine::{SessionRow, Visibility};
use journal::{Read as _, Reader};
use views::SessionKey;

use crate::args::Command;
use crate::commands::budget::BudgetArgs;
use crate::commands::runs::RunsArgs;
use crate::commands::sessions::SessionsArgs;
use crate::error::{CliError, Exit};

/// The place of a session in the arguments of a command, and the folder that they name.
pub(crate) struct SessionArgument<'a> {
    /// None if the command line names no session.
    pub(crate) key: &'a mut Option<String>,
    /// `--workspace`.
    pub(crate) workspace: Option<&'a str>,
}

impl<'a> SessionArgument<'a> {
    /// That of a command which takes no folder.
    pub(crate) fn of(key: &'a mut Option<String>) -> Self {
        Self { key, workspace: None }
    }
}

/// Fills in the session of a command that names none, which is returned, and the name of one that is named by its title.
pub(crate) fn fill_in(command: &mut Command, globals: &Globals) -> Option<String> {
    let SessionArgument { key, workspace } = argument(command)?;
    let unnamed = key.is_none().then(|| default_session(globals, workspace));
    *key = match key.take() {
        Some(text) => Some(named(text, globals)),
        None => unnamed.clone(),
    };
    unnamed
}

/// The error of a command that named no session, if that of its folder, which was filled in, has not begun: nobody has typed
/// its name.
pub(crate) fn explained(error: CliError, key: &str, home: &Path) -> CliError {
    let Ok(key) = SessionKey::parse(Some(key)) else { return error };
    let what = error.to_string();
    if error.exit() != Exit::NotFound || what != format!("there is no session `{key}`") {
        return error;
    }
    let main = SessionKey::parse(None).map(|main| main.to_string()).unwrap_or_default();
    let has_main =
        main != key.to_string() && Reader::open(home).is_ok_and(|read| matches!(read.session(&main), Ok(Some(_))));
    let more = if has_main { "; `main` is the one of no folder, and is there" } else { "" };
    let hint = format!(
        "so the session of this folder is called, and `limulus agent -m TEXT` begins it{more}; `limulus sessions list` shows all"
    );
    CliError::not_found(what, hint)
}

/// The name of a session that somebody named: of the only one with this title, if the text cannot be a name because it has
/// blanks.
pub(crate) fn named(text: String, globals: &Globals) -> String {
    if SessionKey::parse(Some(&text)).is_ok() {
        return text;
    }
    only_with_title(&text, globals).unwrap_or(text)
}

fn only_with_title(text: &str, globals: &Globals) -> Option<String> {
    let title = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let reader = Reader::open(&globals.home).ok()?;
    let has_title = |row: &SessionRow| {
        let given = row.title.and_then(|given| reader.body(&given.hash).ok().flatten());
        row.visibility != Visibility::Deleted && given.is_some_and(|given| *given == *title.as_bytes())
    };
    let mut rows = reader.sessions().ok()?.into_iter().filter(has_title);
    let first = rows.next()?;
    rows.next().is_none().then_some(first.key)
}

/// Where a command has its session; none if it needs none, as when it names a run.
fn argument(command: &mut Command) -> Option<SessionArgument<'_>> {
    match command {
        Command::Agent(args) => {
            Some(SessionArgument { key: &mut args.conversation.session, workspace: args.writer.workspace.as_deref() })
        }
        Command::Send(args) => {
            Some(SessionArgument { key: &mut args.session, workspace: args.writer.workspace.as_deref() })
        }
        Command::Undo(args) | Command::Redo(args) => {
            let workspace = args.writer.workspace.as_deref();
            args.run.is_none().then_some(SessionArgument { key: &mut args.session, workspace })
        }
        Command::Diff(args) if args.run.is_none() => Some(SessionArgument::of(&mut args.session)),
        Command::Audit(args) => Some(SessionArgument::of(&mut args.key)),
        Command::Sessions(args) => SessionsArgs::session(args),
        Command::Runs(args) => RunsArgs::session(args),
        Command::Budget(args) => Some(BudgetArgs::session(args)),
        Command::Diff(_)
        | Command::Queue(_)
        | Command::Resume(_)
        | Command::Serve(_)
        | Command::Status(_)
        | Command::Agents(_)
        | Command::Receipt(_)
        | Command::Events(_)
        | Command::Doctor(_)
        | Command::Setup(_)
        | Command::Models(_)
        | Command::Profiles(_)
        | Command::Usage(_)
        | Command::Config(_)
        | Command::Failover(_)
        | Command::Graph(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Demo(_) => None,
    }
}
