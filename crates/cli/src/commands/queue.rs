//! `limulus queue`: lists and cancels waiting messages, prints the routing table, and sets queue modes.

use clap::{Args, Subcommand};
use config::Globals;
use engine::tables::routing::{MODES, OnlyIf, ROUTES};
use engine::{Interrupt, QueueMode};
use protocol::method::{
    Cancelled, QueueCancel, QueueCancelParams, QueueClear, QueueClearParams, QueueModeParams, SessionParams,
    SessionsList, SessionsListParams, SessionsShow,
};
use protocol::show::{QueuedStory, QueuedSummary};
use serde::Serialize;
use views::name;

use super::change::change;
use crate::args::WriterArgs;
use crate::error::CliError;
use crate::language::word;
use crate::reading::ask;
use crate::show::choice::{SessionFilter, SessionName};
use crate::show::human::{Page, Zone, columns, count, excerpt, heading};
use crate::show::{json, print, worded};
use crate::unnamed::SessionArgument;

/// List and cancel waiting messages, show what becomes of a message, set the queue mode of a session.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct QueueArgs {
    /// Print what becomes of a message, for every state and every mode
    #[arg(long)]
    table: bool,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<QueueCommand>,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    /// List the messages that wait, in order
    List {
        #[command(flatten)]
        choice: SessionFilter,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Cancel a message that waits
    Cancel {
        /// The message's id
        message: String,
        #[command(flatten)]
        writer: WriterArgs,
    },
    /// Cancel everything that waits in a session
    Clear {
        #[command(flatten)]
        name: SessionName,
        #[command(flatten)]
        writer: WriterArgs,
    },
    /// Set the default queue mode of a session
    #[command(allow_missing_positional = true)]
    Mode {
        /// The session: NAME, or agent:AGENT:NAME
        #[arg(required_unless_present = "session")]
        key: Option<String>,
        /// steer, followup, collect, steer_backlog or interrupt; `default` = as configured
        #[arg(value_parser = session_mode)]
        mode: SessionMode,
        /// The same as KEY
        #[arg(long, value_name = "KEY", conflicts_with = "key")]
        session: Option<String>,
        /// What an interrupt does with the unfinished run: replace or suspend; `default` resets it with the mode
        #[arg(long, value_name = "HOW", value_parser = interrupt)]
        interrupt: Option<Interrupt>,
        #[command(flatten)]
        writer: WriterArgs,
    },
}

impl QueueArgs {
    /// Where it has its session; none if it needs none.
    pub(crate) fn session(&mut self) -> Option<SessionArgument<'_>> {
        match self.command.as_mut()? {
            QueueCommand::List { choice, .. } => Some(choice.session()),
            QueueCommand::Clear { name, .. } => Some(name.session()),
            QueueCommand::Mode { key, session, .. } => {
                let given = key.take().or(session.take());
                *key = given;
                Some(SessionArgument::of(key))
            }
            QueueCommand::Cancel { .. } => None,
        }
    }
}

/// The mode of a session; None = as configured.
#[derive(Debug, Clone, Copy)]
struct SessionMode(Option<QueueMode>);

/// Parses the name of a mode; `-` and `+` are accepted for `_`.
pub(super) fn mode(text: &str) -> Result<QueueMode, String> {
    let found = MODES.into_iter().find(|mode| name(mode) == text.replace(['-', '+'], "_"));
    found.ok_or_else(|| format!("there are: {}", MODES.map(|mode| name(&mode)).join(", ")))
}

/// Parses what an interrupt does.
pub(super) fn interrupt(text: &str) -> Result<Interrupt, String> {
    match text {
        "replace" => Ok(Interrupt::Replace),
        "suspend" => Ok(Interrupt::Suspend),
        _ => Err("there are: replace, suspend".to_owned()),
    }
}

/// Parses the state that a sender asks for.
pub(super) fn only_if(text: &str) -> Result<OnlyIf, String> {
    let found = [OnlyIf::Idle, OnlyIf::Active].into_iter().find(|state| state.name() == text);
    found.ok_or_else(|| "there are: idle, active".to_owned())
}

fn session_mode(text: &str) -> Result<SessionMode, String> {
    if text == "default" { Ok(SessionMode(None)) } else { mode(text).map(|mode| SessionMode(Some(mode))) }
}

/// A waiting message and its session.
#[derive(Debug, Serialize)]
struct Waiting {
    session: String,
    #[serde(flatten)]
    queued: QueuedStory,
}

impl QueueArgs {
    /// Whether the command writes, so that it needs the owner.
    pub(crate) fn writes(&self) -> bool {
        match self.command {
            None | Some(QueueCommand::List { .. }) => false,
            Some(QueueCommand::Cancel { .. } | QueueCommand::Clear { .. } | QueueCommand::Mode { .. }) => true,
        }
    }
}

pub(crate) fn read(args: QueueArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        Some(QueueCommand::List { choice, json }) => list(globals, choice.key, json),
        None if args.table => print(&if args.json { table_json() } else { table() }),
        _ => list(globals, None, args.json),
    }
}

pub(crate) async fn write(args: QueueArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        Some(QueueCommand::Cancel { message, writer }) => {
            let params = QueueCancelParams { message };
            let cancelled =
                change(globals, &writer, async |client| client.call::<QueueCancel>(params.clone()).await).await?;
            print(&if writer.json { json(&cancelled) } else { lay_out_cancelled(&cancelled) })
        }
        Some(QueueCommand::Clear { name, writer }) => {
            let params = QueueClearParams { session_key: name.key().to_owned() };
            let cancelled =
                change(globals, &writer, async |client| client.call::<QueueClear>(params.clone()).await).await?;
            print(&if writer.json { json(&cancelled) } else { lay_out_cancelled(&cancelled) })
        }
        Some(QueueCommand::Mode { key, session, mode: SessionMode(mode), interrupt, writer }) => {
            let key = key.or(session).expect("the command line has one of both");
            let params = QueueModeParams { session_key: key, mode, interrupt };
            let set = change(globals, &writer, async |client| {
                client.call::<protocol::method::QueueMode>(params.clone()).await
            });
            let set = set.await?;
            let whose = if mode.is_none() { " (as the configuration says)" } else { "" };
            let text = format!("messages to {} are queued as {}{whose}\n", set.session_key, name(&set.mode));
            print(&if writer.json { json(&set) } else { worded(text) })
        }
        None | Some(QueueCommand::List { .. }) => Err(CliError::bug("`queue` was taken for a command that writes")),
    }
}

fn list(globals: &Globals, session: Option<String>, as_json: bool) -> Result<(), CliError> {
    let keys = if let Some(key) = session {
        vec![key]
    } else {
        let sessions = ask::<SessionsList>(globals, SessionsListParams::default())?.sessions;
        sessions.into_iter().filter(|session| !session.queue.is_empty()).map(|session| session.key).collect()
    };
    let mut waiting = vec![];
    for key in keys {
        let shown =
            ask::<SessionsShow>(globals, SessionParams { session_key: Some(key), limit: Some(0), whole: false })?;
        waiting.extend(shown.queue.into_iter().map(|queued| Waiting { session: shown.key.clone(), queued }));
    }
    print(&if as_json { json(&waiting) } else { lay_out(&waiting, &Zone::local()) })
}

fn lay_out(waiting: &[Waiting], zone: &Zone) -> String {
    if waiting.is_empty() {
        return worded("nothing waits\n");
    }
    let heading = heading(["SESSION", "MESSAGE", "MODE", "STATE", "ACCEPTED", "TEXT"]);
    let rows = waiting.iter().map(|Waiting { session, queued }| {
        let summary = &queued.summary;
        [
            session.clone(),
            summary.message.to_string(),
            name(&summary.mode),
            word(states(summary)),
            zone.time(summary.accepted_at),
            match &summary.origin {
                Some(origin) => format!("{} (from {})", excerpt(&queued.text, 60), excerpt(&origin.to_string(), 60)),
                None => excerpt(&queued.text, 60),
            },
        ]
    });
    columns(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
}

/// What a waiting message shows: of one with two legs, both.
fn states(queued: &QueuedSummary) -> String {
    let state = queued.queue_state.map(|state| state.name().to_owned()).unwrap_or_default();
    let steer = queued.steer_state.filter(|_| queued.steer_state != queued.queue_state);
    steer.map_or_else(|| state.clone(), |steer| format!("{state}, steer {}", steer.name()))
}

fn lay_out_cancelled(cancelled: &Cancelled) -> String {
    let mut page = Page::default();
    page.line(format!("{} of {} cancelled", count(cancelled.messages.len(), "message"), cancelled.session_key));
    for message in &cancelled.messages {
        page.line_as_it_is(format!("  {message}"));
    }
    page.text()
}

/// The routing table of the engine: a state, and below it what becomes of a message of each mode.
fn table() -> String {
    let mut page = Page::default();
    for (cell, routes) in ROUTES {
        page.line(cell.text());
        for (mode, route) in MODES.into_iter().zip(routes) {
            page.line_as_it_is(format!("  {:<14} {}", name(&mode), word(route.text())));
        }
    }
    page.text()
}

#[derive(Serialize)]
struct Row {
    state: &'static str,
    mode: QueueMode,
    route: &'static str,
    text: &'static str,
}

fn table_json() -> String {
    let rows = ROUTES.iter().flat_map(|(cell, routes)| {
        MODES.into_iter().zip(routes).map(|(mode, route)| Row {
            state: cell.name(),
            mode,
            route: route.name(),
            text: route.text(),
        })
    });
    json(&rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r31_the_printed_table_is_the_one_that_the_engine_obeys() {
        let text = table();
        assert_eq!(text.lines().count(), ROUTES.len() * 6);
        let block = text.split("tool_exec\n").nth(1).unwrap();
        assert!(block.starts_with("  steer          running calls finish, the others are skipped"), "{block}");
        let rows: Vec<serde_json::Value> = serde_json::from_str(&table_json()).unwrap();
        assert_eq!(rows.len(), ROUTES.len() * 5);
        assert_eq!(rows[0]["state"], "idle");
        assert_eq!(rows[0]["route"], "start");
    }

    #[test]
    fn r30_a_mode_is_parsed_by_its_name_and_an_unknown_one_is_refused_with_the_known_ones() {
        for (typed, expected) in [
            ("steer", QueueMode::Steer),
            ("steer-backlog", QueueMode::SteerBacklog),
            ("steer+backlog", QueueMode::SteerBacklog),
        ] {
            assert_eq!(mode(typed), Ok(expected));
        }
        assert!(mode("later").unwrap_err().contains("followup"));
        assert!(session_mode("default").unwrap().0.is_none());
    }
}
