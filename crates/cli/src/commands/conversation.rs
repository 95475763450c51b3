//! The conversation that a message goes to: the one of its folder, another one of it, or the one that is named; and the line
//! with which a terminal says where it is.

use std::path::Path;

use clap::Args;
use config::{Environment, Globals, default_session};
use engine::tables::lifecycle::LifecycleKind;
use engine::{SessionRow, Settings, Visibility};
use journal::{Read as _, Reader};
use views::SessionKey;

use crate::error::CliError;
use crate::show::human::{count, excerpt, price, printable_line, session_name};

/// Characters of a model and of a folder in the first line.
const NAME_CHARS: usize = 60;
/// The session that belongs to no folder.
const MAIN: &str = "agent:main:main";

/// The arguments that choose a conversation.
#[derive(Debug, Args)]
pub(crate) struct ConversationArgs {
    /// Send it to this session: NAME, or agent:AGENT:NAME [default: that of this folder]
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// Begin another session of this folder
    #[arg(long, conflicts_with = "session")]
    new: bool,
    /// Continue the session of this folder that was used last
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["session", "new"])]
    is_continued: bool,
}

impl ConversationArgs {
    /// Those that name this session.
    pub(super) fn of(key: &str) -> Self {
        Self { session: Some(key.to_owned()), new: false, is_continued: false }
    }
}

/// The session of this folder that was used last, if it has one.
pub(super) fn last_of_folder(globals: &Globals) -> Result<Option<SessionRow>, CliError> {
    let own = SessionKey::parse(Some(&default_session(globals, None)))?;
    let rows = rows(&own, Which::Last, globals)?.unwrap_or_default();
    Ok(rows.into_iter().map(|(_, row)| row).filter(goes_on).max_by_key(|row| row.last_activity))
}

/// A conversation.
pub(super) struct Conversation {
    pub(super) key: SessionKey,
    /// Whether a command that names no session means it, given in this folder.
    is_default: bool,
}

/// Which session of a folder is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Its own.
    Own,
    /// One that is not there yet.
    New,
    /// The one that was used last.
    Last,
}

impl Conversation {
    /// The one that the arguments choose. Further ones of a folder are `OWN-2`, `OWN-3` and so on. With `--new` or `--continue`
    /// it is the one in which a message with this key was sent before, if there is one.
    pub(super) fn of(args: &ConversationArgs, key: Option<&str>, globals: &Globals) -> Result<Self, CliError> {
        let which = match (args.new, args.is_continued) {
            (true, _) => Which::New,
            (false, true) => Which::Last,
            (false, false) => Which::Own,
        };
        let own = SessionKey::parse(args.session.as_deref())?;
        let default = SessionKey::parse(Some(&default_session(globals, None)))?;
        let key = choose(own, which, key, globals)?;
        Ok(Self { is_default: key == default, key })
    }

    /// Its name for people.
    pub(super) fn name(&self) -> String {
        session_name(&self.key.to_string()).to_owned()
    }

    /// The option with which a command names it; empty if it need not.
    pub(super) fn option(&self) -> String {
        let key = self.key.to_string();
        let name = session_name(&key);
        if self.is_default { String::new() } else { format!(" --session {name}") }
    }

    /// The line before a run on a terminal: the model, the folder and the conversation; and what is said with the first message
    /// in a folder: that the conversation of all folders is still there.
    pub(super) fn lines(&self, settings: &Settings, globals: &Globals) -> (String, Option<String>) {
        let key = self.key.to_string();
        let reader = Reader::open(&globals.home).ok();
        let row = reader.as_ref().and_then(|reader| reader.session(&key).ok().flatten());
        let of = row.as_ref().zip(reader.as_ref());
        let messages = of.and_then(|(row, reader)| reader.first_message(row.session, row.begun_at).ok());
        let messages = messages.map_or(0, |(_, messages)| messages as usize);
        let first = line(&key, settings, &globals.environment, row.as_ref(), messages);
        let has_main = || {
            let main = reader.as_ref().and_then(|reader| reader.session(MAIN).ok().flatten());
            main.is_some_and(|main| main.visibility != Visibility::Deleted)
        };
        let is_first = row.is_none() && self.is_default && key != MAIN && has_main();
        let main = "this folder has a conversation of its own; the one of all folders is still there: --session main";
        (first, is_first.then(|| main.to_owned()))
    }
}

fn choose(own: SessionKey, which: Which, key: Option<&str>, globals: &Globals) -> Result<SessionKey, CliError> {
    let Some(rows) = rows(&own, which, globals)? else { return Ok(own) };
    let sent = key.map(|key| sent_in(&rows, key, globals)).transpose()?.flatten();
    let chosen = match which {
        _ if sent.is_some() => sent,
        Which::Own => None,
        Which::New => rows.iter().map(|(number, _)| *number).max().map(|last| last.max(1) + 1),
        Which::Last => rows
            .iter()
            .filter(|(_, row)| goes_on(row))
            .max_by_key(|(_, row)| row.last_activity)
            .map(|(number, _)| *number),
    };
    match chosen.filter(|number| *number > 1) {
        Some(number) => Ok(SessionKey::parse(Some(&format!("{own}-{number}")))?),
        None => Ok(own),
    }
}

/// The number of the session in which a message with this key was sent, the last if there are several.
fn sent_in(rows: &[(u32, SessionRow)], key: &str, globals: &Globals) -> Result<Option<u32>, CliError> {
    let reader = Reader::open(&globals.home)?;
    let mut last = None;
    for (number, row) in rows {
        if reader.receipt_by_key(row.session, key)?.is_some() {
            last = last.max(Some(*number));
        }
    }
    Ok(last)
}

/// Whether it is offered to go on: it is in the list and has not been ended.
fn goes_on(row: &SessionRow) -> bool {
    row.visibility == Visibility::Listed && row.lifecycle != LifecycleKind::Terminated
}

/// The sessions of a folder by their numbers; none if they are not needed or there is no home yet.
fn rows(own: &SessionKey, which: Which, globals: &Globals) -> Result<Option<Vec<(u32, SessionRow)>>, CliError> {
    if which == Which::Own {
        return Ok(None);
    }
    let reader = match Reader::open(&globals.home) {
        Err(journal::Error::NotFound { .. }) => return Ok(None),
        reader => reader?,
    };
    let own = own.to_string();
    let number = |key: &str| match key.strip_prefix(&own)? {
        "" => Some(1),
        rest => rest.strip_prefix('-')?.parse().ok().filter(|number| *number > 1),
    };
    let rows = reader.sessions()?.into_iter();
    Ok(Some(rows.filter_map(|row| Some((number(&row.key)?, row))).collect()))
}

fn line(
    key: &str,
    settings: &Settings,
    environment: &Environment,
    row: Option<&SessionRow>,
    messages: usize,
) -> String {
    let model = settings.candidates.first().map(|first| format!("{}/{}", first.provider, first.model));
    let model = excerpt(&printable_line(&model.unwrap_or_default()), NAME_CHARS);
    let folder = excerpt(&printable_line(&below_user(&settings.workspace, environment.get("HOME"))), NAME_CHARS);
    let name = session_name(key);
    let cost = row.and_then(|row| row.totals).map(|totals| totals.spent.cost).filter(|cost| *cost > 0);
    let cost = cost.map(|cost| format!(", {}", price(cost))).unwrap_or_default();
    let so_far = if messages == 0 { "new".to_owned() } else { format!("{}{cost}", count(messages, "message")) };
    format!("{model} · {folder} · session {name} ({so_far})")
}

/// A path with `~` for the user's folder.
pub(super) fn below_user(path: &str, user: Option<&str>) -> String {
    let below = user.and_then(|user| Path::new(path).strip_prefix(user).ok());
    match below.map(|below| below.display().to_string()) {
        Some(below) if below.is_empty() => "~".to_owned(),
        Some(below) => format!("~/{below}"),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r09_a_folder_is_shown_below_that_of_the_user() {
        for (path, user, shown) in [
            ("/u/a/b", Some("/u"), "~/a/b"),
            ("/u/a", Some("/u/a"), "~"),
            ("/u/abc", Some("/u/a"), "/u/abc"),
            ("/x", Some("/u"), "/x"),
            ("/u", None, "/u"),
        ] {
            assert_eq!(below_user(path, user), shown, "{path} {user:?}");
        }
    }
}
