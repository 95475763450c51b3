//! `events.subscribe` and `events.unsubscribe`: what was missed, then what happens, without a gap and nothing twice.

use std::sync::Arc;

use engine::{RunId, SessionRow};
use journal::Journal;
use protocol::Response;
use protocol::method::{EventsSubscribe, NoResult, SubscribeParams, Subscribed, UnsubscribeParams};

use crate::connection::Caller;
use crate::error::Error;
use crate::events::{CatchUp, Cursor, Target, before_run, catch_up, split};
use crate::methods::given;
use crate::service::Service;
use crate::session_key::SessionKey;

/// Where a subscription begins.
#[derive(Debug, Clone)]
enum From {
    Now,
    Beginning,
    Cursor(Cursor),
}

pub(in crate::methods) async fn subscribe(
    caller: &Arc<Caller>,
    id: &str,
    params: SubscribeParams,
) -> Result<(), Error> {
    let service = &caller.service;
    let (target, from, numbers) = asked(service, &params)?;
    let number = caller.next_subscription();
    // In this order: what is recorded after the look is heard.
    service.hub.begin(caller, number, target.clone(), &numbers)?;
    let caught_up = match missed(service, target, from).await {
        Ok(caught_up) => caught_up,
        Err(error) => {
            service.hub.end(caller.number, number);
            return Err(error);
        }
    };
    let cursor = service.hub.cursor(caller.number, number, &caught_up.cursor.to_string());
    let subscribed = Subscribed { subscription: number, cursor };
    caller.respond(Response::ok(id, given::<EventsSubscribe>(subscribed)));
    service.hub.go_live(caller, number, caught_up).await;
    Ok(())
}

pub(in crate::methods) fn unsubscribe(caller: &Arc<Caller>, params: &UnsubscribeParams) -> Result<NoResult, Error> {
    if caller.service.hub.end(caller.number, params.subscription) {
        return Ok(NoResult {});
    }
    let what = format!("there is no subscription {}", params.subscription);
    Err(Error::not_found(what, "`events.subscribe` gives its number"))
}

/// What is asked for, and the numbers of whoever comes back.
fn asked(service: &Service, params: &SubscribeParams) -> Result<(Target, From, String), Error> {
    let target = match (&params.session, &params.run) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("a session and a run were named", "name one of them, or neither"));
        }
        (Some(key), None) => Target::Session(SessionKey::parse(Some(key))?.to_string()),
        (None, Some(run)) => {
            let id: RunId = run
                .parse()
                .map_err(|_| Error::invalid(format!("`{run}` is no id of a run"), "`limulus runs list` shows them"))?;
            let row = service.runtime.journal().session_of_run(id)?;
            let row = row
                .ok_or_else(|| Error::not_found(format!("there is no run {run}"), "`limulus runs list` shows them"))?;
            Target::Run(row.key, id)
        }
        (None, None) => Target::Home,
    };
    let (from, numbers) = match (&params.from, params.whole) {
        (Some(_), true) => {
            return Err(Error::invalid("`from` and `whole` were given", "give one of them, or neither"));
        }
        (None, true) => (From::Beginning, String::new()),
        (None, false) => (From::Now, String::new()),
        (Some(from), false) => {
            let (cursor, numbers) = split(from);
            let cursor = cursor.parse().map_err(|error: crate::events::InvalidCursor| {
                Error::invalid(error.to_string(), "a cursor is given as it was received")
            })?;
            (From::Cursor(cursor), numbers.to_owned())
        }
    };
    Ok((target, from, numbers))
}

/// What a subscriber has not seen, read on a thread that may wait.
async fn missed(service: &Service, target: Target, from: From) -> Result<CatchUp, Error> {
    let journal = Arc::clone(service.runtime.journal());
    let reading = tokio::task::spawn_blocking(move || read(journal.as_ref(), &target, from));
    reading
        .await
        .unwrap_or_else(|error| Err(Error::Bug { what: format!("what was missed could not be read: {error}") }))
}

fn read(journal: &dyn Journal, target: &Target, from: From) -> Result<CatchUp, Error> {
    let nothing = CatchUp { lines: vec![], cursor: Cursor::default() };
    let key = match (target, &from) {
        (Target::Home, From::Now) => return Ok(nothing),
        (Target::Home, _) => {
            let hint = "follow the home from now on, or a session from its cursor".to_owned();
            return Err(Error::State { what: "the whole home cannot be read back yet".to_owned(), hint });
        }
        (Target::Session(key) | Target::Run(key, _), _) => key,
    };
    // A session that there is not yet begins at its beginning.
    let Some(row) = journal.session(key)? else { return Ok(nothing) };
    let from = match from {
        From::Now => return Ok(CatchUp { lines: vec![], cursor: Cursor::now(journal, row.branch)? }),
        From::Cursor(cursor) => cursor,
        From::Beginning => beginning(journal, &row, target)?,
    };
    Ok(catch_up(journal, &row, &from)?)
}

/// Before the first entry of a session, or of a run.
fn beginning(journal: &dyn Journal, row: &SessionRow, target: &Target) -> Result<Cursor, Error> {
    match target {
        Target::Run(_, run) => Ok(before_run(journal, row, *run)?),
        Target::Home | Target::Session(_) => Ok(Cursor::default()),
    }
}
