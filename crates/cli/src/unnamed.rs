//! Commands that name no session mean that of the folder in which they are given: one place fills it in for all of them.
//! Commands that mean every session where none is named are not here. A title may stand for a name.

use std::path::Path;

use config::{Globals, default_session};
use engine::{RunId, SessionRow, Visibility};
use journal::{Read as _, Reader};
use strsim::osa_distance;
use views::SessionKey;

use crate::args::Command;
use crate::commands::budget::BudgetArgs;
use crate::commands::runs::RunsArgs;
use crate::commands::sessions::SessionsArgs;
use crate::error::{CliError, Exit};

/// Letters that are missing, wrong, too many or swapped in what was meant for the name of a session.
const SLIP: usize = 2;

/// The place of a session in the arguments of a command, and the folder that they name.
pub(crate) struct SessionArgument<'a> {
    /// None if the command line names no session.
    key: &'a mut Option<String>,
    /// `--workspace`.
    workspace: Option<&'a str>,
    /// The place of a run, in which a session may stand as well.
    run: Option<&'a mut Option<String>>,
    without: Without,
}

/// What a command means that names no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    /// That of the folder.
    OfFolder,
    /// All of them.
    All,
}

impl<'a> SessionArgument<'a> {
    /// That of a command which takes no folder.
    pub(crate) fn of(key: &'a mut Option<String>) -> Self {
        Self { key, workspace: None, run: None, without: Without::OfFolder }
    }

    /// That of a command which works in this folder.
    fn in_folder(self, workspace: Option<&'a str>) -> Self {
        Self { workspace, ..self }
    }

    /// That of a command which may name a run in its place.
    pub(crate) fn or_run(self, run: &'a mut Option<String>) -> Self {
        Self { run: Some(run), ..self }
    }

    /// That of a command which means all sessions where it names none.
    pub(crate) fn or_all(self) -> Self {
        Self { without: Without::All, ..self }
    }
}

/// Fills in the session of a command that names none, which is returned, and the name of one that is named by its title, or in
/// the place of a run.
pub(crate) fn fill_in(command: &mut Command, globals: &Globals) -> Option<String> {
    let SessionArgument { key, workspace, run, without } = argument(command)?;
    if let Some(run) = run
        && let Some(text) = run.take()
    {
        *key = session_in_place_of_run(&text, globals);
        if key.is_none() {
            *run = Some(text);
        }
        return None;
    }
    match key.take() {
        Some(text) => *key = Some(named(text, globals)),
        None if without == Without::All => {}
        None => {
            *key = Some(default_session(globals, workspace));
            return key.clone();
        }
    }
    None
}

/// The session of this name or title, unless the text is the beginning of the id of a run.
fn session_in_place_of_run(text: &str, globals: &Globals) -> Option<String> {
    let reader = Reader::open(&globals.home).ok()?;
    if text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        let id = text.to_lowercase();
        let is_run = |run: &RunId| run.to_string().starts_with(&id);
        let started = reader.runs(None).ok()?.into_iter().map(|row| row.run);
        let waiting = reader.sessions().ok()?.into_iter().filter(|session| session.queued > 0);
        let waiting = waiting.filter_map(|session| reader.receipts(session.session).ok()).flatten();
        if started.chain(waiting.map(|receipt| receipt.run)).any(|run| is_run(&run)) {
            return None;
        }
    }
    match SessionKey::parse(Some(text)) {
        Ok(key) => {
            let key = key.to_string();
            reader.session(&key).ok().flatten().map(|row| row.key)
        }
        Err(_) => only_with_title(text, globals),
    }
}

/// The error of a command with a session that is not there, and the one whose name is nearest.
pub(crate) fn with_nearest(error: CliError, home: &Path) -> CliError {
    let what = error.to_string();
    let Some(key) = what.strip_prefix("there is no session ").map(|key| key.trim_matches('`')) else { return error };
    if error.exit() != Exit::NotFound {
        return error;
    }
    let Some(name) = nearest(key, home) else { return error };
    CliError::not_found(what, format!("the nearest is `{name}`; `limulus sessions list` shows the sessions"))
}

/// The name of the session of the same agent that differs by a slip of the keys.
fn nearest(key: &str, home: &Path) -> Option<String> {
    let parse = |key: &str| SessionKey::parse(Some(key)).ok();
    let wanted = parse(key)?.to_string();
    let rows = Reader::open(home).ok()?.sessions().ok()?;
    let near = rows.into_iter().filter(|row| row.visibility != Visibility::Deleted).filter_map(|row| {
        let distance = osa_distance(&wanted, &row.key);
        (distance <= SLIP).then_some((distance, row.key))
    });
    let (_, key) = near.min()?;
    // Without the name of the agent where it is the first one.
    let short = key.rsplit(':').next().filter(|short| parse(short).is_some_and(|whole| whole.to_string() == key));
    Some(short.map_or_else(|| key.clone(), str::to_owned))
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
fn named(text: String, globals: &Globals) -> String {
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

/// Where a command has its session; none if it needs none.
fn argument(command: &mut Command) -> Option<SessionArgument<'_>> {
    Some(match command {
        Command::Agent(args) => {
            SessionArgument::of(&mut args.conversation.session).in_folder(args.writer.workspace.as_deref())
        }
        Command::Send(args) => SessionArgument::of(&mut args.session).in_folder(args.writer.workspace.as_deref()),
        Command::Undo(args) | Command::Redo(args) => {
            SessionArgument::of(&mut args.session).or_run(&mut args.run).in_folder(args.writer.workspace.as_deref())
        }
        Command::Diff(args) => {
            SessionArgument::of(&mut args.session).or_run(&mut args.run).in_folder(args.writer.workspace.as_deref())
        }
        Command::Audit(args) => args.choice.session(),
        Command::Sessions(args) => return SessionsArgs::session(args),
        Command::Runs(args) => RunsArgs::session(args),
        Command::Budget(args) => BudgetArgs::session(args),
        Command::Queue(args) => return args.session(),
        Command::Deliveries(args) => return args.session(),
        Command::Approvals(args) => return args.session(),
        Command::Resume(args) => args.choice.session(),
        Command::Events(args) => args.choice.session(),
        Command::Usage(args) => args.choice.session(),
        Command::Serve(_)
        | Command::Status(_)
        | Command::Policy(_)
        | Command::Prompt(_)
        | Command::Skills(_)
        | Command::Sandbox(_)
        | Command::Backup(_)
        | Command::Restore(_)
        | Command::Gateway(_)
        | Command::Agents(_)
        | Command::Answer(_)
        | Command::Receipt(_)
        | Command::Doctor(_)
        | Command::Setup(_)
        | Command::Models(_)
        | Command::Profiles(_)
        | Command::Config(_)
        | Command::Failover(_)
        | Command::Graph(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Demo(_) => return None,
    })
}
