//! `limulus events`: the lines of a session or of the whole home, as subscribers receive them.

use std::time::Duration;

use clap::Args;
use gateway::SessionKey;
use gateway::events::{Cursor, HomeCursor, HomeReading, Line, catch_up};
use gateway::show::lookup;
use journal::Reader;
use protocol::Event;
use protocol::method::SubscribeParams;

use super::follower::{Follower, Happening, quit_on_signals};
use super::watch::cursor;
use crate::config::Globals;
use crate::error::CliError;
use crate::owner_client::{OwnerClient, failed, is_gone, look};
use crate::render::{Screen, Style};

/// Poll interval while waiting for an owner.
const LOOK: Duration = Duration::from_millis(200);

/// Print the events of a session or of the whole home, one JSON object a line
#[derive(Debug, Args)]
#[command(
    after_help = "Each line has a `cursor`; `--from CURSOR` prints what follows it, nothing twice and nothing missing. \
                  A cursor of a session is valid for that session, one of the whole home for the home."
)]
pub(crate) struct EventsArgs {
    /// Continue with new events; a session starts at its beginning or at --from, the home starts now
    #[arg(long)]
    follow: bool,
    /// Print only this session: NAME, or agent:AGENT:NAME [default: all, in the order of recording]
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Start after the line with this cursor
    #[arg(long, value_name = "CURSOR")]
    from: Option<String>,
    /// With --follow, print the home from its beginning
    #[arg(long, conflicts_with = "from")]
    whole: bool,
    /// Accepted without effect: the output is always JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: EventsArgs, globals: &Globals) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    let key = args.session.as_deref().map(|key| SessionKey::parse(Some(key))).transpose()?.map(|key| key.to_string());
    let screen = Screen::new(Style::Json, 1);
    let mut watch = Watch { reader, whole: args.whole || key.is_some() || !args.follow, key, seen: args.from, screen };
    watch.check()?;
    if !args.follow {
        return watch.read(|_| true);
    }
    quit_on_signals()?;
    let mut reported = false;
    loop {
        if let Some(Ok(owner_client)) = look(&globals.home, false).await {
            watch = watch.follow(owner_client).await?;
            reported = false;
        } else {
            // A state line comes with each new subscription.
            watch.read(|event| !event.is_state())?;
        }
        if !std::mem::replace(&mut reported, true) {
            watch.screen.say("limulus: no process that answers owns this home; waiting for one");
        }
        tokio::time::sleep(LOOK).await;
    }
}

struct Watch {
    reader: Reader,
    /// None = the whole home.
    key: Option<String>,
    /// Without a cursor: whether to start at the beginning or now.
    whole: bool,
    /// The cursor of the last line.
    seen: Option<String>,
    screen: Screen,
}

impl Watch {
    /// Rejects an invalid cursor at once, instead of waiting for an owner that does.
    fn check(&self) -> Result<(), CliError> {
        match (&self.key, self.seen.as_deref()) {
            (_, None) => Ok(()),
            (Some(_), Some(seen)) => cursor::<Cursor>(seen).map(drop),
            (None, Some(seen)) => cursor::<HomeCursor>(seen).map(drop),
        }
    }

    /// Prints the lines of an owner until it goes away.
    async fn follow(mut self, owner_client: OwnerClient) -> Result<Self, CliError> {
        let params = SubscribeParams {
            session: self.key.clone(),
            run: None,
            whole: self.whole && self.seen.is_none(),
            from: self.seen.clone(),
            chat: false,
        };
        let key = self.key.clone().unwrap_or_default();
        let mut follower = Follower::watch(owner_client, self.screen)?;
        match follower.follow_from(&key, params).await {
            Ok(()) => self.seen = Some(follower.cursor(&key)),
            Err(error) if is_gone(&error) => return Ok(Self { screen: follower.into_screen(), ..self }),
            Err(error) => return Err(failed(error)),
        }
        loop {
            match follower.next().await? {
                Happening::Recorded(event) => self.seen = Some(event.cursor.clone()),
                Happening::Interrupt => super::agent::quit(),
                Happening::Gone => return Ok(Self { screen: follower.into_screen(), ..self }),
            }
        }
    }

    /// Prints what the journal has after the last line.
    fn read(&mut self, wants: impl Fn(&Event) -> bool) -> Result<(), CliError> {
        match &self.key {
            Some(key) => {
                let row = lookup::session(&self.reader, Some(key))?;
                let from = self.seen.as_deref().map_or_else(|| Ok(Cursor::default()), cursor)?;
                let missed = catch_up(&self.reader, &row, &from)?;
                self.print(missed.lines, wants);
            }
            None => self.read_home(wants)?,
        }
        Ok(())
    }

    fn read_home(&mut self, wants: impl Fn(&Event) -> bool) -> Result<(), CliError> {
        let from: HomeCursor = match self.seen.as_deref() {
            Some(seen) => cursor(seen)?,
            None if self.whole => HomeCursor::default(),
            None => {
                self.seen = Some(HomeReading::now(&self.reader)?.to_string());
                return Ok(());
            }
        };
        let mut reading = HomeReading::behind(&self.reader, &from)?;
        while reading.more(&self.reader)? {
            self.print(reading.take_lines(), &wants);
        }
        reading.finish(&self.reader)?;
        self.print(reading.take_lines(), &wants);
        self.seen = Some(reading.cursor().to_string());
        Ok(())
    }

    fn print(&mut self, lines: Vec<Line>, wants: impl Fn(&Event) -> bool) {
        for Line { event, .. } in lines {
            if wants(&event) {
                self.screen.draw(&event);
                self.seen = Some(event.cursor);
            }
        }
    }
}
