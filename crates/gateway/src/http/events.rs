//! Lines of sessions as events that a server sends (SSE). The id of an event is its cursor: a client that connects again with
//! `Last-Event-ID` receives what it has missed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use protocol::event::{AGENT_EVENT, LifecycleLine, Stream};
use protocol::method::{EventsSubscribe, SubscribeParams};
use protocol::notice::{Dropped, Notice as _, Shutdown};
use protocol::{Client, Event, EventFrame, Events};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::App;
use super::gate::Caller;
use super::problem::Problem;

/// How often a client is shown that the connection is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events that wait for a client; the service drops one that does not read.
const WAITING: usize = 16;
/// The cursor from which a client goes on.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// What of a subscription a client asks for.
#[derive(Debug, Default)]
struct Place {
    from: Option<String>,
    whole: Option<bool>,
}

impl Place {
    fn of(headers: &HeaderMap, mut query: HashMap<String, String>) -> Result<Self, Problem> {
        let last = headers.get(LAST_EVENT).map(|value| value.to_str().map(str::to_owned));
        let last = last.transpose().map_err(|_| Problem::invalid("`Last-Event-ID` is not a cursor"))?;
        // A client that reconnects sends its first address again, and knows better by now.
        let from = last.filter(|cursor| !cursor.is_empty()).or_else(|| query.remove("from"));
        query.remove("from");
        let whole = match query.remove("whole").as_deref() {
            None => None,
            Some("true" | "1") => Some(true),
            Some("false" | "0") => Some(false),
            Some(_) => return Err(Problem::invalid("`whole` is true or false")),
        };
        match query.keys().next() {
            Some(other) => Err(Problem::invalid(format!("unknown parameter `{}`", other.escape_debug()))
                .with_hint("`from` and `whole` are known")),
            None => Ok(Self { from, whole }),
        }
    }
}

/// The lines of a run from its beginning, until it has ended.
pub(super) async fn of_run(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(run): Path<String>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Problem> {
    let Place { from, whole } = Place::of(&headers, query)?;
    let whole = whole.unwrap_or(from.is_none());
    follow((&app, &caller), SubscribeParams { run: Some(run), from, whole, ..SubscribeParams::default() }).await
}

/// The lines of a session from now on.
pub(super) async fn of_session(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(session): Path<String>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Problem> {
    let Place { from, whole } = Place::of(&headers, query)?;
    let whole = whole.unwrap_or(false);
    follow((&app, &caller), SubscribeParams { session: Some(session), from, whole, ..SubscribeParams::default() }).await
}

/// The lines of all sessions from now on.
pub(super) async fn of_home(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Problem> {
    let Place { from, whole } = Place::of(&headers, query)?;
    follow((&app, &caller), SubscribeParams { from, whole: whole.unwrap_or(false), ..SubscribeParams::default() }).await
}

async fn follow((app, caller): (&Arc<App>, &Caller), params: SubscribeParams) -> Result<Response, Problem> {
    let ends_with_run = params.run.is_some();
    let (client, events) = app.client(caller).await?;
    client.call::<EventsSubscribe>(params).await?;
    let (mut to, response) = response();
    tokio::spawn(async move {
        // A client that is gone reads nothing more.
        let _ = pass_on(&mut to, (client, events), ends_with_run).await;
    });
    Ok(response)
}

/// Passes lines on until the run or the connection ends.
async fn pass_on(to: &mut ToClient, (_client, mut events): (Client, Events), ends_with_run: bool) -> Result<(), Gone> {
    loop {
        let Some(event) = to.alive(events.recv()).await? else {
            return to.send(None, "shutdown", &json!({ "reason": "the service is shutting down" })).await;
        };
        if event.event == AGENT_EVENT {
            let name = event.payload["stream"].as_str().unwrap_or(AGENT_EVENT).to_owned();
            let cursor = event.payload["cursor"].as_str().map(str::to_owned);
            to.send(cursor.as_deref(), &name, &event.payload).await?;
            if ends_with_run && is_end(&event) {
                return Ok(());
            }
        } else if [Dropped::NAME, Shutdown::NAME].contains(&event.event.as_str()) {
            return to.send(None, &event.event, &event.payload).await;
        }
    }
}

/// Whether a line is the last one of its run.
fn is_end(event: &EventFrame) -> bool {
    let line = Event::deserialize(&event.payload);
    line.is_ok_and(|line| matches!(line.what, Stream::Lifecycle(LifecycleLine::End(_) | LifecycleLine::Error(_))))
}

/// The client does not read any more.
#[derive(Debug)]
pub(super) struct Gone;

/// Where events of a response go.
pub(super) struct ToClient(mpsc::Sender<Bytes>);

/// A response of events, and where they go.
pub(super) fn response() -> (ToClient, Response) {
    let (to, from) = mpsc::channel(WAITING);
    let next =
        |mut from: mpsc::Receiver<Bytes>| async { from.recv().await.map(|bytes| (Ok::<_, Infallible>(bytes), from)) };
    let mut response = Response::new(Body::from_stream(stream::unfold(from, next)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy that collects an answer would show it when it is over.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    (ToClient(to), response)
}

impl ToClient {
    /// Sends an event with an id and a name.
    pub(super) async fn send(&mut self, id: Option<&str>, name: &str, data: &Value) -> Result<(), Gone> {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.put(format!("{id}event: {name}\ndata: {data}\n\n")).await
    }

    /// Sends what has no name, as the API of OpenAI does.
    pub(super) async fn data(&mut self, data: &str) -> Result<(), Gone> {
        self.put(format!("data: {data}\n\n")).await
    }

    /// Waits for something, and shows the client meanwhile that the connection is there.
    pub(super) async fn alive<T>(&mut self, waited_for: impl Future<Output = T>) -> Result<T, Gone> {
        let mut waited_for = std::pin::pin!(waited_for);
        loop {
            tokio::select! {
                biased;
                done = &mut waited_for => return Ok(done),
                () = self.0.closed() => return Err(Gone),
                () = tokio::time::sleep(KEEP_ALIVE) => self.put(": still here\n\n".to_owned()).await?,
            }
        }
    }

    async fn put(&mut self, text: String) -> Result<(), Gone> {
        self.0.send(text.into()).await.map_err(|_| Gone)
    }
}
