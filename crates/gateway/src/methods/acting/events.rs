//! `events.subscribe` and `events.unsubscribe`: missed lines, then live lines, without a gap and nothing twice.

use std::sync::Arc;

use engine::{RunId, SessionRow};
use journal::Journal;
use protocol::Response;
use protocol::method::{EventsSubscribe, NoResult, SubscribeParams, Subscribed, UnsubscribeParams};
use views::SessionKey;
use views::events::{CatchUp, Chats, Line, StreamPosition, StreamScope, wait};

use crate::connection::{Caller, PagePermit};
use crate::error::Error;
use crate::events::{Target, split};
use crate::methods::encoded;
use crate::service::Service;

/// Where a subscription begins.
#[derive(Debug, Clone)]
enum From {
    Now,
    Beginning,
    Position(StreamPosition),
}

impl From {
    /// Whether live lines are buffered from the first read on: what is missed of a session is read at one moment.
    fn is_read_at_once(&self, target: &Target) -> bool {
        matches!(self, Self::Now) || *target != Target::Home
    }
}

pub(in crate::methods) async fn subscribe(
    caller: &Arc<Caller>,
    id: &str,
    params: SubscribeParams,
) -> Result<(), Error> {
    let hub = &caller.service.hub;
    let target = target(&caller.service, &params)?;
    let (from, numbers) = from(&target, &params)?;
    let number = caller.next_subscription();
    hub.begin(caller, number, target.clone(), numbers)?;
    caller.service.approvals.follow(caller.number, number, target.clone());
    let subscribed = Subscribing { caller, id, number, target }.subscribe(from, params.chat).await;
    if subscribed.is_err() {
        end(caller, number);
    }
    subscribed
}

/// A subscription that is being created.
struct Subscribing<'a> {
    caller: &'a Arc<Caller>,
    id: &'a str,
    number: u64,
    target: Target,
}

/// The catch-up that is read before the response.
struct Begun {
    /// The position where the subscription begins.
    at: StreamPosition,
    reading: CatchUp,
    /// Whether there is more to read at once.
    more: bool,
}

impl<'a> Subscribing<'a> {
    /// Missed lines are sent page by page. Of the home, only the lines that arrive while the last page is read wait in memory.
    /// The first page is read before the response, which reports an error if it cannot be read.
    async fn subscribe(&self, from: From, chat: bool) -> Result<(), Error> {
        let at_once = from.is_read_at_once(&self.target);
        // Held until its lines are on their way.
        let mut page = if let From::Now = from { None } else { Some(self.caller.permit_to_catch_up().await) };
        if at_once {
            // The order matters: what is recorded after this read arrives live.
            self.start_buffering();
        }
        let target = self.target.clone();
        let read = self.read(move |journal| {
            let begun = begin(journal, &target, from)?;
            let chats = if chat { Some(chats(journal, &target, &begun.at)?) } else { None };
            Ok((begun, chats))
        });
        let (Begun { at, reading, more }, chats) = read.await?;
        if let Some(chats) = chats {
            self.caller.service.hub.chat(self.caller.number, self.number, chats);
        }
        self.answer(&at.to_string());
        match self.read_on((reading, more), &mut page, at_once).await {
            Ok(Some(mut reading)) => {
                let (mut lines, position) = (reading.take_lines(), reading.position().clone());
                lines.extend(self.wait(&position));
                self.go_live(lines, position).await;
            }
            Ok(None) => {}
            Err(error) => self.stop(&error),
        }
        Ok(())
    }

    /// Sends page after page, and reads the last; `None` if the subscription is gone.
    async fn read_on(
        &self,
        (mut reading, mut more): (CatchUp, bool),
        page: &mut Option<PagePermit<'a>>,
        is_buffering: bool,
    ) -> Result<Option<CatchUp>, Error> {
        while more {
            has_read(page);
            let lines = reading.take_lines();
            if !self.caller.service.hub.send(self.caller, self.number, lines).await {
                return Ok(None);
            }
            *page = None;
            *page = Some(self.caller.permit_to_catch_up().await);
            let read = self.read(move |journal| {
                let more = reading.more(journal)?;
                Ok((reading, more))
            });
            (reading, more) = read.await?;
        }
        if !is_buffering {
            self.start_buffering();
        }
        let read = self.read(move |journal| {
            reading.finish(journal)?;
            Ok(reading)
        });
        let read = read.await;
        has_read(page);
        read.map(Some)
    }

    /// A session's wait is in no journal: it is reported as it is now.
    fn wait(&self, position: &StreamPosition) -> Option<Line> {
        let (runtime, key) = (&self.caller.service.runtime, self.target.key()?);
        let wait = runtime.waits().into_iter().find(|wait| *wait.request.session == *key)?;
        Some(wait::line_now(position, &wait, runtime.clock().now()))
    }

    /// Live lines are buffered from here on, until the subscription has caught up.
    fn start_buffering(&self) {
        self.caller.service.hub.start_buffering(self.caller.number, self.number);
    }

    /// The response was sent already, and the missed lines cannot be read: closes the client with the reason. The
    /// client can come back with its last cursor.
    fn stop(&self, error: &Error) {
        self.caller.close(&error.shape());
    }

    /// Reads the journal on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Journal) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let journal = self.caller.service.journal_to_read();
        let reading = tokio::task::spawn_blocking(move || read(journal.get()));
        reading
            .await
            .unwrap_or_else(|error| Err(Error::Bug { what: format!("the missed lines could not be read: {error}") }))
    }

    fn answer(&self, cursor: &str) {
        let cursor = self.caller.service.hub.begin_at(self.caller.number, self.number, cursor);
        let subscribed = Subscribed { subscription: self.number, cursor };
        self.caller.respond(Response::ok(self.id, encoded::<EventsSubscribe>(subscribed)));
    }

    async fn go_live(&self, lines: Vec<Line>, position: StreamPosition) {
        let hub = &self.caller.service.hub;
        if hub.send(self.caller, self.number, lines).await {
            hub.go_live(self.caller, self.number, position);
            self.caller.service.approvals.go_live(self.caller, self.number);
        }
    }
}

/// What the page permits is in memory: others may read while the client takes it.
fn has_read(page: &mut Option<PagePermit<'_>>) {
    if let Some(page) = page {
        page.has_read();
    }
}

/// Ends a subscription. Returns whether it existed.
fn end(caller: &Caller, number: u64) -> bool {
    caller.service.approvals.unfollow(caller.number, number);
    caller.service.hub.end(caller.number, number)
}

pub(in crate::methods) fn unsubscribe(caller: &Arc<Caller>, params: &UnsubscribeParams) -> Result<NoResult, Error> {
    if end(caller, params.subscription) {
        return Ok(NoResult {});
    }
    let what = format!("there is no subscription {}", params.subscription);
    Err(Error::not_found(what, "`events.subscribe` returns the number"))
}

fn target(service: &Service, params: &SubscribeParams) -> Result<Target, Error> {
    match (&params.session, &params.run) {
        (Some(_), Some(_)) => {
            Err(Error::invalid("a session and a run exclude each other", "name one of them, or neither"))
        }
        (Some(key), None) => Ok(Target::Session(SessionKey::parse(Some(key))?.to_string())),
        (None, Some(run)) => {
            let id: RunId = run
                .parse()
                .map_err(|_| Error::invalid(format!("`{run}` is not a run id"), "`limulus runs list` shows them"))?;
            let row = super::session_of_run(service, id)?;
            let row = row
                .ok_or_else(|| Error::not_found(format!("there is no run {run}"), "`limulus runs list` shows them"))?;
            Ok(Target::Run(row.key, id))
        }
        (None, None) => Ok(Target::Home),
    }
}

/// The start position, and the numbers of a resuming subscriber.
fn from<'a>(target: &Target, params: &'a SubscribeParams) -> Result<(From, &'a str), Error> {
    let scope = match target {
        Target::Home if params.chat => {
            return Err(Error::invalid("chat needs a session or a run", "name one of them"));
        }
        Target::Home => StreamScope::Home,
        Target::Session(_) | Target::Run(..) => StreamScope::Session,
    };
    match (&params.from, params.whole) {
        (Some(_), true) => Err(Error::invalid("`from` and `whole` exclude each other", "give one of them, or neither")),
        (None, true) => Ok((From::Beginning, "")),
        (None, false) => Ok((From::Now, "")),
        (Some(from), false) => {
            let (cursor, numbers) = split(from);
            let position = StreamPosition::parse(scope, cursor).map_err(|error| {
                let hint =
                    "pass the cursor as it was received, to the stream that it came from: a session or the whole home";
                Error::invalid(error.to_string(), hint)
            })?;
            Ok((From::Position(position), numbers))
        }
    }
}

/// Reads the first page of the missed lines.
fn begin(journal: &dyn Journal, target: &Target, from: From) -> Result<Begun, Error> {
    let (at, mut reading) = match target.key() {
        None => begin_home(journal, from)?,
        Some(key) => match journal.session(key)? {
            Some(row) => begin_session(journal, (&row, target), from)?,
            // A session that does not exist yet starts at its beginning.
            None => nothing(StreamPosition::default()),
        },
    };
    let more = reading.more(journal)?;
    Ok(Begun { at, reading, more })
}

/// For a subscriber that has missed nothing.
fn nothing(at: StreamPosition) -> (StreamPosition, CatchUp) {
    (at.clone(), CatchUp::nothing(at))
}

fn begin_home(journal: &dyn Journal, from: From) -> Result<(StreamPosition, CatchUp), Error> {
    let at = match from {
        From::Now => return Ok(nothing(StreamPosition::now_in_home(journal)?)),
        From::Position(position) => position,
        From::Beginning => StreamPosition::beginning(StreamScope::Home),
    };
    let reading = CatchUp::of_home(journal, &at)?;
    Ok((at, reading))
}

fn begin_session(
    journal: &dyn Journal,
    (row, target): (&SessionRow, &Target),
    from: From,
) -> Result<(StreamPosition, CatchUp), Error> {
    let at = match (from, target) {
        (From::Now, _) => return Ok(nothing(StreamPosition::now(journal, row.branch)?)),
        (From::Position(position), _) => position,
        // The position before the first entry of a session, or of a run.
        (From::Beginning, Target::Run(_, run)) => StreamPosition::before_run(journal, row, *run)?,
        (From::Beginning, Target::Home | Target::Session(_)) => StreamPosition::default(),
    };
    let reading = CatchUp::of_session(journal, row, &at)?;
    Ok((at, reading))
}

/// The text that the active run had answered up to this cursor.
fn chats(journal: &dyn Journal, target: &Target, begins: &StreamPosition) -> Result<Chats, Error> {
    let row = target.key().map(|key| journal.session(key)).transpose()?.flatten();
    Ok(row.map(|row| Chats::behind(journal, &row, begins)).transpose()?.unwrap_or_default())
}
