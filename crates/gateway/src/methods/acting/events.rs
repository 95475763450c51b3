//! `events.subscribe` and `events.unsubscribe`: what was missed, then what happens, without a gap and nothing twice.

use std::str::FromStr;
use std::sync::Arc;

use engine::{RunId, SessionRow};
use journal::Journal;
use protocol::Response;
use protocol::method::{EventsSubscribe, NoResult, SubscribeParams, Subscribed, UnsubscribeParams};

use crate::connection::Caller;
use crate::error::Error;
use crate::events::{
    CatchUp, CaughtUp, Chats, Cursor, HomeCursor, HomeReading, InvalidCursor, Line, Target, before_run, catch_up,
    split, wait,
};
use crate::methods::given;
use crate::service::Service;
use crate::session_key::SessionKey;

/// Where a subscription begins.
#[derive(Debug, Clone)]
enum From<C> {
    Now,
    Beginning,
    Cursor(C),
}

/// What is subscribed to, and from where.
enum Asked {
    Home(From<HomeCursor>),
    Session(Target, From<Cursor>),
}

pub(in crate::methods) async fn subscribe(
    caller: &Arc<Caller>,
    id: &str,
    params: SubscribeParams,
) -> Result<(), Error> {
    let hub = &caller.service.hub;
    let (asked, numbers) = asked(&caller.service, &params)?;
    let number = caller.next_subscription();
    let target = match &asked {
        Asked::Home(_) => Target::Home,
        Asked::Session(target, _) => target.clone(),
    };
    hub.begin(caller, number, target, &numbers)?;
    let subscribing = Subscribing { caller, id, number };
    let subscribed = match asked {
        Asked::Home(From::Now) => subscribing.home_from_now().await,
        Asked::Home(From::Beginning) => subscribing.home(HomeCursor::default()).await,
        Asked::Home(From::Cursor(cursor)) => subscribing.home(cursor).await,
        Asked::Session(target, from) => subscribing.session(target, from, params.chat).await,
    };
    if subscribed.is_err() {
        hub.end(caller.number, number);
    }
    subscribed
}

/// A subscription that is being made.
struct Subscribing<'a> {
    caller: &'a Arc<Caller>,
    id: &'a str,
    number: u64,
}

impl Subscribing<'_> {
    async fn session(&self, target: Target, from: From<Cursor>, chat: bool) -> Result<(), Error> {
        // In this order: what is recorded after the look is heard.
        self.keep();
        let key = target.key().unwrap_or_default().to_owned();
        let (begins, CatchUp { mut lines, cursor }, chats) = self
            .read(move |journal| {
                let (begins, caught_up) = read(journal, &target, from)?;
                let chats = if chat { Some(chats(journal, &target, &begins)?) } else { None };
                Ok((begins, caught_up, chats))
            })
            .await?;
        if let Some(chats) = chats {
            self.caller.service.hub.chat(self.caller.number, self.number, chats);
        }
        lines.extend(self.wait(&key, &cursor));
        self.answer(&begins.to_string());
        self.go_live(&lines, CaughtUp::Session(Some(cursor))).await;
        Ok(())
    }

    /// What a session waits for is in no journal: it is told as it is now.
    fn wait(&self, key: &str, cursor: &Cursor) -> Option<Line> {
        let runtime = &self.caller.service.runtime;
        let wait = runtime.waits().into_iter().find(|wait| *wait.request.session == *key)?;
        Some(wait::line_now(cursor, &wait, runtime.clock().now()))
    }

    async fn home_from_now(&self) -> Result<(), Error> {
        self.keep();
        let cursor = self.read(|journal| Ok(HomeReading::now(journal)?)).await?;
        self.answer(&cursor.to_string());
        self.go_live(&[], CaughtUp::home(cursor)).await;
        Ok(())
    }

    /// What was missed goes out page by page; only what happens while the last is read waits in memory.
    async fn home(&self, from: HomeCursor) -> Result<(), Error> {
        let begins = from.to_string();
        let (mut reading, mut more) = self
            .read(move |journal| {
                let mut reading = HomeReading::behind(journal, &from)?;
                let more = reading.more(journal)?;
                Ok((reading, more))
            })
            .await?;
        self.answer(&begins);
        while more {
            let lines = reading.take_lines();
            if !self.caller.service.hub.send(self.caller, self.number, &lines).await {
                return Ok(());
            }
            let read = self.read(move |journal| {
                let more = reading.more(journal)?;
                Ok((reading, more))
            });
            (reading, more) = match read.await {
                Ok(read) => read,
                Err(error) => {
                    self.stop(&error);
                    return Ok(());
                }
            };
        }
        self.keep();
        let read = self.read(move |journal| {
            reading.finish(journal)?;
            Ok((reading.take_lines(), reading.cursor().clone()))
        });
        let (lines, cursor) = match read.await {
            Ok(read) => read,
            Err(error) => {
                self.stop(&error);
                return Ok(());
            }
        };
        self.go_live(&lines, CaughtUp::home(cursor)).await;
        Ok(())
    }

    /// What happens from here on is kept until it has caught up.
    fn keep(&self) {
        self.caller.service.hub.keep(self.caller.number, self.number);
    }

    /// It was answered already, and what it missed cannot be read: the client is closed with the reason, and can come back
    /// with its last cursor.
    fn stop(&self, error: &Error) {
        self.caller.close(&error.shape());
    }

    /// Reads the journal on a thread that may wait.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Journal) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let journal = Arc::clone(self.caller.service.runtime.journal());
        let reading = tokio::task::spawn_blocking(move || read(journal.as_ref()));
        reading
            .await
            .unwrap_or_else(|error| Err(Error::Bug { what: format!("what was missed could not be read: {error}") }))
    }

    fn answer(&self, cursor: &str) {
        let cursor = self.caller.service.hub.begin_at(self.caller.number, self.number, cursor);
        let subscribed = Subscribed { subscription: self.number, cursor };
        self.caller.respond(Response::ok(self.id, given::<EventsSubscribe>(subscribed)));
    }

    async fn go_live(&self, lines: &[Line], caught_up: CaughtUp) {
        let hub = &self.caller.service.hub;
        if hub.send(self.caller, self.number, lines).await {
            hub.go_live(self.caller, self.number, caught_up);
        }
    }
}

pub(in crate::methods) fn unsubscribe(caller: &Arc<Caller>, params: &UnsubscribeParams) -> Result<NoResult, Error> {
    if caller.service.hub.end(caller.number, params.subscription) {
        return Ok(NoResult {});
    }
    let what = format!("there is no subscription {}", params.subscription);
    Err(Error::not_found(what, "`events.subscribe` gives its number"))
}

/// What is asked for, and the numbers of whoever comes back.
fn asked(service: &Service, params: &SubscribeParams) -> Result<(Asked, String), Error> {
    let numbers = params.from.as_deref().map_or("", |from| split(from).1).to_owned();
    let asked = match target(service, params)? {
        Target::Home if params.chat => {
            return Err(Error::invalid("chat is of a session or of a run", "name one of them"));
        }
        Target::Home => Asked::Home(from(params)?),
        target => Asked::Session(target, from(params)?),
    };
    Ok((asked, numbers))
}

fn target(service: &Service, params: &SubscribeParams) -> Result<Target, Error> {
    match (&params.session, &params.run) {
        (Some(_), Some(_)) => Err(Error::invalid("a session and a run were named", "name one of them, or neither")),
        (Some(key), None) => Ok(Target::Session(SessionKey::parse(Some(key))?.to_string())),
        (None, Some(run)) => {
            let id: RunId = run
                .parse()
                .map_err(|_| Error::invalid(format!("`{run}` is no id of a run"), "`limulus runs list` shows them"))?;
            let row = super::session_of_run(service, id)?;
            let row = row
                .ok_or_else(|| Error::not_found(format!("there is no run {run}"), "`limulus runs list` shows them"))?;
            Ok(Target::Run(row.key, id))
        }
        (None, None) => Ok(Target::Home),
    }
}

fn from<C: FromStr<Err = InvalidCursor>>(params: &SubscribeParams) -> Result<From<C>, Error> {
    match (&params.from, params.whole) {
        (Some(_), true) => Err(Error::invalid("`from` and `whole` were given", "give one of them, or neither")),
        (None, true) => Ok(From::Beginning),
        (None, false) => Ok(From::Now),
        (Some(from), false) => {
            let hint =
                "a cursor is given as it was received, to what it was received from: a session, or the whole home";
            let invalid = |error: InvalidCursor| Error::invalid(error.to_string(), hint);
            Ok(From::Cursor(split(from).0.parse().map_err(invalid)?))
        }
    }
}

/// Where a subscriber of a session or of a run begins, and what it has not seen.
fn read(journal: &dyn Journal, target: &Target, from: From<Cursor>) -> Result<(Cursor, CatchUp), Error> {
    let (Target::Session(key) | Target::Run(key, _)) = target else {
        return Err(Error::Bug { what: "the whole home was read as a session".to_owned() });
    };
    // A session that there is not yet begins at its beginning.
    let Some(row) = journal.session(key)? else {
        return Ok((Cursor::default(), CatchUp { lines: vec![], cursor: Cursor::default() }));
    };
    let from = match from {
        From::Now => {
            let cursor = Cursor::now(journal, row.branch)?;
            return Ok((cursor.clone(), CatchUp { lines: vec![], cursor }));
        }
        From::Cursor(cursor) => cursor,
        From::Beginning => beginning(journal, &row, target)?,
    };
    let caught_up = catch_up(journal, &row, &from)?;
    Ok((from, caught_up))
}

/// What had been answered by then of what is under way.
fn chats(journal: &dyn Journal, target: &Target, begins: &Cursor) -> Result<Chats, Error> {
    let row = target.key().map(|key| journal.session(key)).transpose()?.flatten();
    Ok(row.map(|row| Chats::behind(journal, &row, begins)).transpose()?.unwrap_or_default())
}

/// Before the first entry of a session, or of a run.
fn beginning(journal: &dyn Journal, row: &SessionRow, target: &Target) -> Result<Cursor, Error> {
    match target {
        Target::Run(_, run) => Ok(before_run(journal, row, *run)?),
        Target::Home | Target::Session(_) => Ok(Cursor::default()),
    }
}
