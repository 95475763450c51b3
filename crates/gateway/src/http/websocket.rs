//! The frames of the socket as text messages of a WebSocket. The service sends `connect.challenge` first; the client shows its token in
//! the head of the request, or as `auth.token` of its `connect`. From then on each message is a frame, as it is on the socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use protocol::limits::{FIRST_FRAME_BYTES, FRAME_BYTES, HANDSHAKE_MS};
use protocol::method::{Connect, Method as _};
use protocol::{EventFrame, Frame, encode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::App;
use super::access::Grant;
use super::gate::Caller;
use super::openclaw;
use super::problem::Problem;

/// How often a client that says nothing is asked whether it is still there.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(25);
/// How long it may say nothing at all.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Why a connection is closed whose token was revoked, or has expired.
pub(super) const REVOKED: &str = "the token opens nothing any more";
/// How long a client that is closed has to read that.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);
/// Bytes that are read at once. Each client has them all the time, and most say nothing for hours.
const READ_BYTES: usize = 4 << 10;
/// Bytes of what wraps the first frame.
const WRAPPING_BYTES: usize = 1 << 10;

/// Makes a connection one of frames.
pub(super) async fn upgrade(State(app): State<Arc<App>>, mut request: Request) -> Response {
    let accept = match accept_key(request.headers()) {
        Ok(accept) => accept,
        Err(problem) => return problem.into_response(),
    };
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Problem::invalid("this connection cannot become a WebSocket").into_response();
    };
    let caller = request.extensions().get::<Caller>().cloned();
    tokio::spawn(async move {
        if let (Ok(stream), Some(caller)) = (upgrade.await, caller) {
            // A client that breaks off is no error of the service.
            tokio::select! {
                _ = serve(&app, stream, &caller) => {}
                () = caller.peer.place.is_needed() => {}
            }
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// The answer to the key of a request that asks for a WebSocket.
fn accept_key(headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    let has = |name: header::HeaderName, word: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
    };
    if !has(header::UPGRADE, "websocket") || !has(header::CONNECTION, "upgrade") {
        let hint = "the page of limulus is not here yet; docs/http.md lists what is";
        let problem = Problem::new(StatusCode::UPGRADE_REQUIRED, "not_a_websocket", "a WebSocket is served here");
        return Err(problem.with_hint(hint));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(Problem::invalid("the version of the WebSocket must be 13"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| Problem::invalid("the WebSocket has no key"))?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(|error| Problem::invalid(error.to_string()))
}

/// Serves a client until it disconnects or the service stops.
async fn serve(app: &Arc<App>, stream: Upgraded, caller: &Caller) -> Result<(), Error> {
    let left = Arc::new(AtomicUsize::new(FIRST_FRAME_BYTES + WRAPPING_BYTES));
    let stream = Limited { stream: TokioIo::new(stream), left: Arc::clone(&left) };
    let config = WebSocketConfig::default().max_message_size(Some(FRAME_BYTES)).max_frame_size(Some(FRAME_BYTES));
    let config = config.read_buffer_size(READ_BYTES);
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let nonce = uuid::Uuid::now_v7().to_string();
    let challenge = json!({ "nonce": nonce, "ts": app.service.runtime.clock().now() });
    let challenge =
        EventFrame { event: "connect.challenge".to_owned(), payload: challenge, seq: None, subscription: None };
    socket.send(text(&encode(&Frame::Event(challenge)))).await?;
    let first = tokio::time::timeout(Duration::from_millis(HANDSHAKE_MS), first_frame(&mut socket)).await;
    let connect = match first {
        Ok(Ok(first)) => connect_of(app, &first, caller),
        Ok(Err(error)) => return Err(error),
        Err(_) => Err((None, Problem::invalid("no handshake within 10 s"))),
    };
    let (connect, grant) = match connect {
        Ok(First::Own { connect, grant }) => (connect, grant),
        Ok(First::OpenClaw { id, params }) => {
            left.store(usize::MAX, Ordering::Relaxed);
            let first = openclaw::First { id, params, challenge: &nonce };
            return openclaw::serve(app, socket, caller, first).await;
        }
        Err((id, problem)) => {
            let refused = json!({ "type": "res", "id": id, "ok": false, "error": {
                "code": if problem.code == "invalid_request" { "INVALID_REQUEST" } else { "REFUSED" },
                "message": problem.message,
                "details": { "hint": problem.hint.unwrap_or_default(), "exit": 2 },
            } });
            if id.is_some() {
                socket.send(text(refused.to_string().as_bytes())).await?;
            }
            return close(&mut socket, CloseCode::Policy, "the handshake failed").await;
        }
    };
    left.store(usize::MAX, Ordering::Relaxed);
    tracing::info!(target: "limulus::http", by = grant.name(), "a client has connected");
    let (read, mut write) = tokio::io::split(app.attach(&caller.peer, grant.scopes).await);
    write.write_all(&connect).await?;
    let (mut to_client, mut from_client) = socket.split();
    let last_received = LastReceived::default();
    // Neither direction waits for the other: a client that does not read is the service's to drop.
    tokio::select! {
        result = forward(&mut from_client, &mut write, &last_received) => result?,
        result = show(BufReader::with_capacity(READ_BYTES, read), &mut to_client, &last_received) => result?,
        () = app.gate.until_revoked(&grant) => {
            // A client that does not read is not waited for.
            let _ = tokio::time::timeout(FAREWELL, close(&mut to_client, CloseCode::Policy, REVOKED)).await;
        }
    }
    Ok(())
}

/// The first frame of a client.
async fn first_frame<S>(socket: &mut WebSocketStream<S>) -> Result<Vec<u8>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match socket.next().await.ok_or(Error::ConnectionClosed)?? {
            Message::Text(text) => return Ok(text.as_bytes().to_vec()),
            Message::Close(_) => return Err(Error::ConnectionClosed),
            Message::Binary(_) => return Ok(vec![]),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

/// The first frame of a client.
enum First {
    /// The request `connect` as the service takes it, of a client that has shown a token.
    Own { connect: Vec<u8>, grant: Grant },
    /// That of a client of OpenClaw.
    OpenClaw { id: String, params: Value },
}

/// What the first frame is. Else the id of its request, and what is wrong.
fn connect_of(app: &App, first: &[u8], caller: &Caller) -> Result<First, (Option<String>, Problem)> {
    let no_request = || (None, Problem::invalid("the first frame must be a request"));
    let Ok(Frame::Request(mut request)) = serde_json::from_slice::<Frame>(first) else { return Err(no_request()) };
    let id = Some(request.id.clone());
    if request.method != Connect::NAME {
        let message = format!("the first request must be `connect`, not `{}`", request.method.escape_debug());
        return Err((id, Problem::invalid(message)));
    }
    if openclaw::is_of_openclaw(&request.params) {
        return Ok(First::OpenClaw { id: request.id, params: request.params });
    }
    let auth = request.params.as_object_mut().and_then(|params| params.remove("auth"));
    let given = auth.as_ref().and_then(|auth| auth.get("token")).and_then(Value::as_str);
    let grant = caller.grant.clone().map_or_else(|| app.gate.check(&caller.peer, given), Ok);
    let grant = grant.and_then(|grant| match grant.device() {
        None => Ok(grant),
        Some(_) => Err(Problem::invalid("the token of a device is for its client of OpenClaw alone")),
    });
    let grant = grant.map_err(|problem| (id, problem))?;
    Ok(First::Own { connect: encode(&Frame::Request(request)), grant })
}

/// When something came from the client.
pub(super) struct LastReceived(std::sync::Mutex<Instant>);

impl Default for LastReceived {
    fn default() -> Self {
        Self(std::sync::Mutex::new(Instant::now()))
    }
}

impl LastReceived {
    pub(super) fn update(&self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).elapsed() > IDLE_TIMEOUT
    }
}

/// Passes on what the client sends, a message as a line.
async fn forward(
    from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    last_received: &LastReceived,
) -> Result<(), Error> {
    while let Some(message) = from.next().await {
        last_received.update();
        match message? {
            // Between the parts of JSON a line break is a blank.
            Message::Text(text) => {
                let mut line = text.as_bytes().to_vec();
                line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
                line.push(b'\n');
                to.write_all(&line).await?;
            }
            Message::Close(_) => break,
            Message::Binary(_) => return Err(Error::Io(io::Error::other("frames are text"))),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
    Ok(())
}

/// Shows the client what the service sends, a line as a message.
async fn show<R>(
    mut from: BufReader<R>,
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
    last_received: &LastReceived,
) -> Result<(), Error>
where
    R: AsyncRead + Unpin,
{
    let mut ping = tokio::time::interval(PING_INTERVAL);
    ping.tick().await;
    let mut line = vec![];
    loop {
        tokio::select! {
            // What was read of a line stays in it when the other branch is first.
            read = from.read_until(b'\n', &mut line) => {
                if read? == 0 && line.is_empty() {
                    return close(to, CloseCode::Away, "the service has closed the connection").await;
                }
                to.send(text(&line)).await?;
                line.clear();
            }
            _ = ping.tick() => {
                if last_received.is_idle() {
                    return Ok(());
                }
                to.send(Message::Ping(vec![].into())).await?;
            }
        }
    }
}

pub(super) async fn close(
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
    code: CloseCode,
    reason: &'static str,
) -> Result<(), Error> {
    to.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await
}

/// A line as a message. The service writes only UTF-8.
fn text(line: &[u8]) -> Message {
    Message::Text(String::from_utf8_lossy(line.trim_ascii_end()).into_owned().into())
}

/// A stream of which only so many bytes are read until its client has shown the token.
struct Limited<S> {
    stream: S,
    left: Arc<AtomicUsize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, into);
        let read = into.filled().len() - before;
        let left = self.left.load(Ordering::Relaxed);
        if left < read {
            return Poll::Ready(Err(io::Error::other("the first frame is too long")));
        }
        if left != usize::MAX {
            self.left.store(left - read, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
