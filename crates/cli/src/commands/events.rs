//! `limulus events`: prints the events of a session or of the whole home, as subscribers receive them.

use std::convert::Infallible;

use clap::Args;
use client::{StreamTarget, look};
use config::Globals;
use journal::Reader;
use protocol::Event;
use views::SessionKey;

use super::follower::quit_on_signals;
use super::stream::{DrawnStream, Followed};
use super::unanswered::{LOOK, Unanswered};
use crate::error::{CliError, failed};
use crate::render::{Screen, Style};
use crate::show::choice::SessionFilter;

/// Print the events of a session or of the whole home, one JSON object a line
#[derive(Debug, Args)]
#[command(
    after_help = "Each line has a `cursor`; `--from CURSOR` resumes without gap or repeat. Use a cursor only with the \
                  session or home that it came from."
)]
pub(crate) struct EventsArgs {
    /// Follow new events; a session starts at its beginning or at --from, the home starts now
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    pub(crate) choice: SessionFilter,
    /// Start after this cursor
    #[arg(long, value_name = "CURSOR")]
    from: Option<String>,
    /// With --follow: start the home at its beginning
    #[arg(long, conflicts_with = "from")]
    whole: bool,
    /// Accepted without effect: the output is JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: EventsArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    let key = args.choice.key.as_deref().map(|key| SessionKey::parse(Some(key))).transpose()?;
    let whole = args.whole || key.is_some() || !args.follow;
    let target = key.map_or(StreamTarget::Home, |key| StreamTarget::Session(key.to_string()));
    let mut stream = DrawnStream::new(target, reader, whole, args.from, Screen::new(Style::Json, 1));
    // An invalid cursor is reported now, not when an owner appears.
    stream.lines.position()?;
    if !args.follow {
        return stream.read(|_| true, never).map(drop);
    }
    quit_on_signals()?;
    let mut unanswered = Unanswered::default();
    loop {
        if let Some(Ok(owner_client)) = look(&globals.home, false).await {
            if let Followed::Refused(error) = stream.follow(owner_client, never).await? {
                return Err(failed(error));
            }
            unanswered.reset();
        } else {
            // A state is a line at every read: only an owner sends new ones.
            stream.read(|event| !event.is_state(), never)?;
        }
        if unanswered.is_news(&globals.home) {
            stream.screen().say("limulus: no process that answers owns this home; waiting for one");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Follows for ever: no line is the last.
fn never(_: &Event) -> Option<Infallible> {
    None
}
