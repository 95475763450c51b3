//! `limulus events`: the lines of a session or of the whole home, as subscribers read them.

use std::convert::Infallible;
use std::time::Duration;

use clap::Args;
use gateway::SessionKey;
use journal::Reader;
use protocol::Event;

use super::follower::quit_on_signals;
use super::stream::{Followed, StreamReader, StreamTarget};
use crate::config::Globals;
use crate::error::CliError;
use crate::owner_client::{failed, look};
use crate::render::{Screen, Style};

/// How often an owner is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// What happened, one JSON object a line: of one session, or of the whole home
#[derive(Debug, Args)]
#[command(
    after_help = "Each line has a `cursor`; `--from CURSOR` gives what follows it, nothing twice and nothing missing. \
                  A cursor of a session is for that session, one of the whole home for the home."
)]
pub(crate) struct EventsArgs {
    /// Go on with what happens from now on; a session is told from its beginning, or from --from, the home from now
    #[arg(long)]
    follow: bool,
    /// The session: NAME, or agent:AGENT:NAME [default: all, in the order in which they were recorded]
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// The cursor of the last line that was seen
    #[arg(long, value_name = "CURSOR")]
    from: Option<String>,
    /// With --follow: the home from its beginning on too
    #[arg(long, conflicts_with = "from")]
    whole: bool,
    /// JSON is what it prints in any case
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: EventsArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    let key = args.session.as_deref().map(|key| SessionKey::parse(Some(key))).transpose()?;
    let whole = args.whole || key.is_some() || !args.follow;
    let target = key.map_or(StreamTarget::Home, |key| StreamTarget::Session(key.to_string()));
    let mut lines = StreamReader::new(target, reader, whole, args.from, Screen::new(Style::Json, 1));
    // What is no cursor is said at once, not by the owner that comes some day.
    lines.position()?;
    if !args.follow {
        return lines.read(|_| true, never).map(drop);
    }
    quit_on_signals()?;
    let mut told = false;
    loop {
        if let Some(Ok(owner_client)) = look(&globals.home, false).await {
            if let Followed::Refused(error) = lines.follow(owner_client, never).await? {
                return Err(failed(error));
            }
            told = false;
        } else {
            // The state is told whenever it is looked at.
            lines.read(|event| !event.is_state(), never)?;
        }
        if !std::mem::replace(&mut told, true) {
            lines.screen().say("limulus: no process that answers owns this home; waiting for one");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// No line is the last.
fn never(_: &Event) -> Option<Infallible> {
    None
}
