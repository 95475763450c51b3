//! OpenClaw's clients, as they are: its frames over the WebSocket, in the versions 3 and 4 of its protocol. Each of its methods is one
//! or more requests of our own protocol, so nothing here knows more than that; docs/compatibility.md lists what differs.

mod approvals;
mod connect;
mod device;
mod devices;
mod events;
mod history;
mod methods;
mod run_names;
mod runs;
mod server;
mod sessions;
mod trouble;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use protocol::limits::{OFF_THREAD_BYTES, REQUESTS};
use protocol::method::{Cap, EventsSubscribe, SubscribeParams};
use protocol::{Client, Scope};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::gate::Caller;
use super::peer::Peer;
use super::websocket::{FAREWELL, LastReceived, PING_INTERVAL, REVOKED, close};
use super::{App, parsed_within};

use connect::{Admitted, Hello};
use run_names::RunNames;
use trouble::{INVALID, Trouble};

pub(super) use connect::is_of_openclaw;

/// Frames that wait for a client; behind them the service drops one that does not read.
const WAITING: usize = 16;
/// Requests that may still be started while the others wait for the ends of their runs.
const STARTED: usize = REQUESTS / 2;
/// How long a client may take to show that it has read a response, before what is shown of its run follows all the same.
const APART: Duration = Duration::from_millis(500);
/// Responses that are made at once, of those that do not wait for a run.
const PLACES: usize = 4;

/// A request that its clients send. Newer ones have more fields.
#[derive(Debug, Deserialize)]
struct OpenRequest {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    method: String,
    #[serde(default)]
    params: Value,
}

/// A client that is let in.
pub(super) struct Operator {
    app: Arc<App>,
    peer: Arc<Peer>,
    /// Our own client, which has its scopes.
    client: Client,
    of: Admitted,
    runs: RunNames,
    /// The subscription to all sessions of the home.
    home: u64,
    /// Whether it is shown changes of sessions.
    follows_sessions: AtomicBool,
    /// The number of the last event. Held while one is sent, so that they arrive in order.
    last_event: Mutex<u64>,
    frames: mpsc::Sender<Message>,
    /// The number of the last ping that it was sent, and of the last one that it has answered.
    pings: AtomicU64,
    pongs: watch::Sender<u64>,
    unanswered: Unanswered,
    /// Responses that are made at once.
    places: Semaphore,
}

/// Messages whose acceptance the client is still to be shown, by their keys: nothing of their runs is shown before, or it would take a
/// run that has ended for one that begins.
#[derive(Debug, Default)]
struct Unanswered(std::sync::Mutex<HashMap<String, watch::Sender<()>>>);

/// One of them, until it is dropped.
struct Pending<'a> {
    all: &'a Unanswered,
    key: String,
}

impl Unanswered {
    fn add(&self, key: &str) -> Pending<'_> {
        self.lock().insert(key.to_owned(), watch::Sender::new(()));
        Pending { all: self, key: key.to_owned() }
    }

    /// Waits until the client was shown that this message is accepted, if it is to be shown that.
    async fn answered(&self, key: &str) {
        let waiting = self.lock().get(key).map(watch::Sender::subscribe);
        if let Some(mut waiting) = waiting {
            // It ends with the sender.
            while waiting.changed().await.is_ok() {}
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.key);
    }
}

/// The first frame of a client, with what it was sent before.
pub(super) struct First<'a> {
    pub(super) id: String,
    pub(super) params: Value,
    pub(super) challenge: &'a str,
}

/// Serves a client until it disconnects or the service stops.
pub(super) async fn serve<S>(app: &Arc<App>, socket: S, caller: &Caller, first: First<'_>) -> Result<(), Error>
where
    S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin,
{
    let (mut to_client, mut from_client) = socket.split();
    let id = first.id.clone();
    let (operator, events, mut outgoing) = match admitted(app, caller, first).await {
        Ok(admitted) => admitted,
        Err(trouble) => {
            send(&mut to_client, response(&id, &Err(trouble))).await?;
            return close(&mut to_client, CloseCode::Policy, "the handshake failed").await;
        }
    };
    let connection = uuid::Uuid::now_v7().to_string();
    tracing::info!(target: "limulus::http", by = operator.of.grant.name(), "a client of OpenClaw has connected");
    let hello = connect::hello(app, &operator.of, &connection);
    send(&mut to_client, response(&id, &Ok(hello))).await?;
    let last_received = LastReceived::default();
    // Neither direction waits for the other: a client that does not read is the service's to drop.
    tokio::select! {
        result = read(&operator, &mut from_client, &last_received) => {
            result?;
            to_client.close().await
        }
        result = write(&mut outgoing, &mut to_client, &last_received) => result,
        end = events::pass_on(&operator, events) => {
            // A client that does not read is not waited for.
            tokio::time::timeout(FAREWELL, drain(&mut outgoing, &mut to_client, end)).await.unwrap_or(Ok(()))
        }
        () = app.gate.until_revoked(&operator.of.grant) => {
            tokio::time::timeout(FAREWELL, close(&mut to_client, CloseCode::Policy, REVOKED)).await.unwrap_or(Ok(()))
        }
    }
}

/// Lets a client in, and follows the home for it.
async fn admitted(
    app: &Arc<App>,
    caller: &Caller,
    First { params, challenge, .. }: First<'_>,
) -> Result<(Arc<Operator>, protocol::Events, mpsc::Receiver<Message>), Trouble> {
    let hello =
        Hello::deserialize(params).map_err(|error| Trouble::invalid(format!("invalid connect params: {error}")))?;
    let now = app.service.runtime.clock().now().0;
    let of = hello.admit((app, caller), (challenge, now)).await?;
    let caps = if of.grant.scopes.allow(Scope::Approve) { vec![Cap::Asks] } else { vec![] };
    let (client, events) = app.client_with(&caller.peer, of.grant.scopes, caps).await?;
    let (frames, outgoing) = mpsc::channel(WAITING);
    let home = if of.grant.scopes.allow(Scope::Read) {
        client.call::<EventsSubscribe>(SubscribeParams::default()).await?.subscription
    } else {
        0
    };
    let operator = Operator {
        app: Arc::clone(app),
        peer: Arc::clone(&caller.peer),
        client,
        of,
        runs: RunNames::default(),
        home,
        follows_sessions: AtomicBool::new(false),
        last_event: Mutex::new(0),
        frames,
        pings: AtomicU64::new(0),
        pongs: watch::Sender::new(0),
        unanswered: Unanswered::default(),
        places: Semaphore::new(PLACES),
    };
    Ok((Arc::new(operator), events, outgoing))
}

/// Starts what the client requests. Responses come in any order.
async fn read(
    operator: &Arc<Operator>,
    from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    last_received: &LastReceived,
) -> Result<(), Error> {
    let mut started = JoinSet::new();
    let waiting = Arc::new(AtomicUsize::new(0));
    while let Some(message) = from.next().await {
        last_received.update();
        while started.try_join_next().is_some() {}
        let text = match message? {
            Message::Text(text) => text,
            Message::Close(_) => break,
            Message::Binary(_) => return Err(Error::Io(std::io::Error::other("frames are text"))),
            Message::Pong(number) => {
                if let Ok(number) = number[..].try_into() {
                    operator.pongs.send_replace(u64::from_be_bytes(number));
                }
                continue;
            }
            Message::Ping(_) | Message::Frame(_) => continue,
        };
        // A list of the values of its fields would be read as a request too.
        let is_object = text.trim_start().starts_with('{');
        let is_large = text.len() > OFF_THREAD_BYTES;
        let text = if is_object { text.into() } else { Bytes::from_static(b"{}") };
        let request = match parsed_within::<OpenRequest>(text, usize::MAX).await {
            // Only attachments are large; what else there is of a frame is let go where it may take its time.
            Ok(request) if is_large && !methods::takes_attachments(&request.method) => {
                let trouble = Trouble::invalid("the params are too large: only those with attachments may be");
                operator.respond(&request.id, &Err(trouble)).await;
                tokio::task::spawn_blocking(move || drop(request));
                continue;
            }
            Ok(request) if request.kind == "req" && !request.id.is_empty() => request,
            Ok(request) => {
                operator
                    .respond(&request.id, &Err(Trouble::invalid("a frame of a client is a request with an id")))
                    .await;
                continue;
            }
            Err(error) => {
                let message = format!("invalid request frame: {error}");
                operator.respond("invalid", &Err(Trouble::invalid(message))).await;
                continue;
            }
        };
        if waiting.load(Ordering::Relaxed) >= STARTED {
            let busy = Trouble::new(trouble::UNAVAILABLE, "too many requests of this client wait for their ends");
            operator.respond(&request.id, &Err(busy.retryable())).await;
            continue;
        }
        waiting.fetch_add(1, Ordering::Relaxed);
        let (operator, waiting) = (Arc::clone(operator), Arc::clone(&waiting));
        started.spawn(async move {
            let OpenRequest { id, method, params, .. } = request;
            // Each response may be large: the next one is made when the one before it is on its way.
            let _place = if methods::waits(&method) { None } else { operator.places.acquire().await.ok() };
            let answer = Box::pin(methods::answer(&operator, &id, (&method, params))).await;
            if let Some(answer) = answer.transpose() {
                operator.respond(&id, &answer).await;
            }
            waiting.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(())
}

/// Sends what waits for the client.
async fn write(
    outgoing: &mut mpsc::Receiver<Message>,
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
    last_received: &LastReceived,
) -> Result<(), Error> {
    let mut ping = tokio::time::interval(PING_INTERVAL);
    ping.tick().await;
    loop {
        tokio::select! {
            message = outgoing.recv() => match message {
                Some(message) => to.send(message).await?,
                None => return Ok(()),
            },
            _ = ping.tick() => {
                if last_received.is_idle() {
                    return Ok(());
                }
                to.send(Message::Ping(vec![].into())).await?;
            }
        }
    }
}

/// Sends what still waits when the service has said its last, and closes.
async fn drain(
    outgoing: &mut mpsc::Receiver<Message>,
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
    (code, reason): (CloseCode, &'static str),
) -> Result<(), Error> {
    while let Ok(message) = outgoing.try_recv() {
        to.send(message).await?;
    }
    close(to, code, reason).await
}

async fn send(to: &mut (impl Sink<Message, Error = Error> + Unpin), frame: Value) -> Result<(), Error> {
    to.send(Message::Text(frame.to_string().into())).await
}

/// The response to a request.
fn response(id: &str, answer: &Result<Value, Trouble>) -> Value {
    match answer {
        Ok(payload) => json!({ "type": "res", "id": id, "ok": true, "payload": payload }),
        Err(trouble) => {
            let mut response = json!({ "type": "res", "id": id, "ok": false, "error": trouble.shape() });
            if !trouble.payload.is_null() {
                response["payload"] = trouble.payload.clone();
            }
            response
        }
    }
}

impl Operator {
    /// A client that is gone reads nothing more.
    async fn respond(&self, id: &str, answer: &Result<Value, Trouble>) {
        let _ = self.frames.send(Message::Text(response(id, answer).to_string().into())).await;
    }

    /// Waits until the client has read what it was sent. One that reads a response and the events of its run at once deals with the
    /// events first, and then waits for a run that has ended.
    async fn until_read(&self) {
        let number = self.pings.fetch_add(1, Ordering::Relaxed) + 1;
        let mut pongs = self.pongs.subscribe();
        let _ = self.frames.send(Message::Ping(number.to_be_bytes().to_vec().into())).await;
        let _ = tokio::time::timeout(APART, pongs.wait_for(|last| *last >= number)).await;
    }

    /// Sends an event, with the next number.
    async fn event(&self, name: &str, payload: Value) {
        let mut last = self.last_event.lock().await;
        *last += 1;
        let frame = json!({ "type": "event", "event": name, "payload": payload, "seq": *last });
        let _ = self.frames.send(Message::Text(frame.to_string().into())).await;
    }

    fn now(&self) -> i64 {
        self.app.service.runtime.clock().now().0
    }
}
