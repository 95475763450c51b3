//! `limulus events`: the lines of a session or of the whole home, as subscribers read them.

use std::time::Duration;

use clap::Args;
use gateway::SessionKey;
use gateway::events::{Cursor, catch_up};
use gateway::show::lookup;
use journal::{Read, Reader};
use protocol::Event;
use protocol::method::SubscribeParams;

use super::follower::{Follower, Happening};
use super::watch::cursor;
use crate::config::Globals;
use crate::door::{failed, is_gone, look};
use crate::error::CliError;
use crate::render::{Screen, Style};

/// How often an owner is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// What happened, one JSON object a line: of one session, or of the whole home
#[derive(Debug, Args)]
#[command(
    after_help = "Each line has a `cursor`; `--from CURSOR` gives what follows it, nothing twice and nothing missing."
)]
pub(crate) struct EventsArgs {
    /// Go on with what happens from now on; a session is told from its beginning, or from --from, the home from now
    #[arg(long)]
    follow: bool,
    /// The session: NAME, or agent:AGENT:NAME [default: all]
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// The cursor of the last line that was seen
    #[arg(long, value_name = "CURSOR", requires = "session")]
    from: Option<String>,
    /// JSON is what it prints in any case
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: EventsArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    let key = args.session.as_deref().map(|key| SessionKey::parse(Some(key))).transpose()?.map(|key| key.to_string());
    let mut screen = Screen::new(Style::Json, 1);
    if !args.follow {
        for event in recorded(&reader, key.as_deref(), args.from.as_deref())? {
            screen.draw(&event);
        }
        return Ok(());
    }
    // What is no cursor is said at once, not by the owner that comes some day.
    args.from.as_deref().map(cursor).transpose()?;
    let (mut seen, mut told) = (args.from, false);
    loop {
        if let Some(Ok(door)) = look(&globals.home, false).await {
            let mut follower = Follower::watch(door, screen)?;
            follow(&mut follower, key.as_deref(), &mut seen).await?;
            screen = follower.into_screen();
            told = false;
        } else if let Some(key) = &key {
            for event in recorded(&reader, Some(key), seen.as_deref())? {
                // The state is told whenever it is looked at.
                if !event.is_state() {
                    screen.draw(&event);
                    seen = Some(event.cursor.clone());
                }
            }
        }
        if !std::mem::replace(&mut told, true) {
            screen.say("limulus: no process that answers owns this home; waiting for one");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Prints what an owner tells, until it is gone.
async fn follow(follower: &mut Follower<'_>, key: Option<&str>, seen: &mut Option<String>) -> Result<(), CliError> {
    let params = SubscribeParams {
        session: key.map(str::to_owned),
        run: None,
        whole: key.is_some() && seen.is_none(),
        from: seen.clone(),
    };
    match follower.follow_from(key.unwrap_or_default(), params).await {
        Ok(()) => {}
        Err(error) if is_gone(&error) => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    loop {
        match follower.next().await? {
            Happening::Told(event) if key.is_some() => *seen = Some(event.cursor.clone()),
            Happening::Told(_) => {}
            Happening::Interrupt => super::agent::quit(),
            Happening::Gone => return Ok(()),
        }
    }
}

/// What the journal has of a session behind a cursor, or of all sessions in the order of time.
fn recorded(read: &dyn Read, key: Option<&str>, from: Option<&str>) -> Result<Vec<Event>, CliError> {
    let rows = match key {
        Some(key) => vec![lookup::session(read, Some(key))?],
        None => read.sessions()?,
    };
    let from = from.map_or_else(|| Ok(Cursor::default()), cursor)?;
    let mut events = vec![];
    for row in rows {
        events.extend(catch_up(read, &row, &from)?.lines.into_iter().map(|line| line.event));
    }
    // Stable: the lines of a session stay in their order.
    events.sort_by_key(|event| event.at);
    Ok(events)
}
