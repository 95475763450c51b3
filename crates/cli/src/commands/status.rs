//! `limulus status`: who owns the home, what its sessions are doing, what the unfinished ones wait for.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Position, RunId, SessionRow, Timestamp};
use journal::{Read, Reader};
use serde::Serialize;

use crate::config::Globals;
use crate::error::CliError;
use crate::show::human::{Zone, columns, count, printable};
use crate::show::owner::{Owner, owner};
use crate::show::session::fold_branch;
use crate::show::waiting::{Owned, waits_for};
use crate::show::{json, print};

/// What this home is doing: its owner, its sessions by state, what the unfinished ones wait for.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct StatusArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a home is doing.
#[derive(Debug, PartialEq, Serialize)]
struct Status {
    home: String,
    owner: Option<Owner>,
    /// Whether the home cannot be written, so that what its owner wrote last may be missing here.
    immutable: bool,
    /// The last position of the journal.
    head: Position,
    /// How many sessions there are in each lifecycle state.
    sessions: BTreeMap<&'static str, usize>,
    unfinished: Vec<Unfinished>,
}

/// A session that someone must take up, or mend.
#[derive(Debug, PartialEq, Serialize)]
struct Unfinished {
    key: String,
    lifecycle: LifecycleKind,
    run_state: RunState,
    run: Option<RunId>,
    queued: u32,
    last_activity: Timestamp,
    waits_for: String,
}

/// Prints it.
pub(crate) fn run(args: StatusArgs, globals: &Globals) -> Result<(), CliError> {
    let zone = Zone::local();
    let owner = owner(&globals.home);
    let status = match Reader::open(&globals.home) {
        Ok(reader) => gather(&reader, &globals.home, owner, &zone)
            .map(|status| Status { immutable: reader.is_immutable(), ..status })?,
        // A home without a journal is doing nothing, which is an answer.
        Err(journal::Error::NotFound { .. }) => empty(&globals.home, owner),
        Err(error) => return Err(error.into()),
    };
    print(&if args.json { json(&status) } else { lay_out(&status, &zone) })
}

fn empty(home: &Path, owner: Option<Owner>) -> Status {
    Status {
        home: home.display().to_string(),
        owner,
        immutable: false,
        head: Position(0),
        sessions: BTreeMap::new(),
        unfinished: vec![],
    }
}

fn gather(read: &dyn Read, home: &Path, owner: Option<Owner>, zone: &Zone) -> Result<Status, CliError> {
    let taken = if owner.is_some() { Owned::Yes } else { Owned::No };
    let rows = read.sessions()?;
    let mut status = Status { head: read.head()?, ..empty(home, owner) };
    for row in &rows {
        *status.sessions.entry(row.lifecycle.name()).or_default() += 1;
    }
    for row in rows.iter().filter(|row| is_unfinished(row)) {
        let questions = read.approvals(Some(row.session))?;
        // One session that does not read must not hide the others.
        let waits_for = fold_branch(read, row).map_or_else(
            |error| format!("a journal that reads: {error}"),
            |session| waits_for(&session, &questions, taken, zone),
        );
        status.unfinished.push(Unfinished {
            key: row.key.clone(),
            lifecycle: row.lifecycle,
            run_state: row.run_state,
            run: row.run,
            queued: row.queued,
            last_activity: row.last_activity,
            waits_for,
        });
    }
    Ok(status)
}

fn is_unfinished(row: &SessionRow) -> bool {
    row.unfinished || row.run.is_some() || row.queued > 0 || row.trouble.is_some()
}

fn lay_out(status: &Status, zone: &Zone) -> String {
    let owner = match &status.owner {
        Some(Owner { pid, since: Some(since) }) => format!("pid {pid}, since {since}"),
        Some(Owner { pid, since: None }) => format!("pid {pid}"),
        None => "none".to_owned(),
    };
    let total: usize = status.sessions.values().sum();
    let by_state: Vec<String> = status.sessions.iter().map(|(state, number)| format!("{number} {state}")).collect();
    let sessions = if total == 0 { "none yet".to_owned() } else { format!("{total} ({})", by_state.join(", ")) };
    let note = if status.immutable { " (cannot be written: what its owner wrote last may be missing)" } else { "" };
    let head = [
        ["home".to_owned(), format!("{}{note}", status.home)],
        ["owner".to_owned(), owner],
        ["sessions".to_owned(), sessions],
        ["unfinished".to_owned(), if status.unfinished.is_empty() { "none".to_owned() } else { String::new() }],
    ];
    let mut text = columns(&head);
    let rows = status.unfinished.iter().map(|session| {
        [
            format!("  {}", session.key),
            session.run_state.to_string(),
            zone.time(session.last_activity),
            if session.queued == 0 {
                String::new()
            } else {
                format!("{} queued", count(session.queued as usize, "message"))
            },
            format!("waits for {}", printable(&session.waits_for)),
        ]
    });
    text.push_str(&columns(&rows.collect::<Vec<_>>()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::scene::Scene;

    fn status(scene: &Scene, owner: Option<Owner>) -> Status {
        gather(&scene.journal, Path::new("/home"), owner, &Zone::utc()).unwrap()
    }

    fn owner_7() -> Owner {
        Owner { pid: 7, since: Some("2026-11-21T03:00:00Z".to_owned()) }
    }

    #[test]
    fn what_is_unfinished_says_what_it_waits_for() {
        let mut scene = Scene::new();
        scene.start("look around");
        scene.stream("Here is ");
        assert_eq!(status(&scene, Some(owner_7())).unfinished[0].waits_for, "the rest of an answer");
        let text = lay_out(&status(&scene, None), &Zone::utc());
        let expected = "\
home        /home
owner       none
sessions    1 (1 active)
unfinished
  agent:main:main  streaming  2025-11-21 03:04:06    waits for an owner: `limulus resume agent:main:main` goes on with it
";
        assert_eq!(text, expected);
        scene.crash();
        scene.crash();
        scene.crash();
        let held = status(&scene, Some(owner_7()));
        assert_eq!(held.unfinished[0].lifecycle, LifecycleKind::Error);
        assert!(held.unfinished[0].waits_for.ends_with("mend it with `limulus resume agent:main:main --force`"));
    }

    #[test]
    fn a_finished_home_is_quiet() {
        let mut scene = Scene::new();
        scene.start("hello");
        scene.stream("Hi.");
        scene.end_stream();
        let text = lay_out(&status(&scene, Some(owner_7())), &Zone::utc());
        let expected = "home        /home\nowner       pid 7, since 2026-11-21T03:00:00Z\nsessions    1 (1 idle)\nunfinished  none\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_question_is_shown_as_it_is_asked() {
        let mut scene = Scene::new();
        scene.start("clean up");
        scene.call("exec", r#"{"command":"rm -r old"}"#);
        scene.end_stream();
        scene.ask("run the command `rm -r old`");
        assert_eq!(status(&scene, Some(owner_7())).unfinished[0].waits_for, "leave to run the command `rm -r old`");
    }
}
