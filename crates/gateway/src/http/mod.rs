//! HTTP and WebSocket over TCP: who may use it (`gate`, `token`, `access`), the frames of the socket as text messages (`websocket`), the API
//! of OpenAI (`openai`), the frames of OpenClaw (`openclaw`), and the methods of the protocol (`api`). Each request is a client of the service in the same process,
//! so nothing here knows more than the protocol, and a connection that is lost ends no run.

mod access;
mod api;
mod certificate;
mod events;
mod gate;
mod metrics;
mod openai;
#[cfg(test)]
mod openapi;
mod openclaw;
mod peer;
mod places;
mod problem;
mod tls;
mod token;
mod webhooks;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{BoxError, Router};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::limits::{FRAME_BYTES, OFF_THREAD_BYTES};
use protocol::method::{Cap, ClientInfo, ConnectParams};
use protocol::{Client, ClientError, Events, PROTOCOL, Scopes};
use serde::de::{DeserializeOwned, Error as _};
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::connection::Identity;
use crate::service::Service;
use crate::socket::capacity_for_http;

pub use access::{ACCESS_FILE, Access, AccessError, DeviceRequest, NewToken, PairedDevice, TokenEntry};
pub use certificate::{TlsError, TlsFiles};
pub use token::{TOKEN_FILE, Token, TokenError};
pub use webhooks::{Webhook, WebhookProof, Webhooks};

use gate::{Caller, Gate};
use peer::Peer;
use places::Places;
use tls::Tls;

/// The address where a service listens if none is configured.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 18789);

/// How long a client may take to send the head of a request, and how long an idle connection is kept.
const HEAD: Duration = Duration::from_secs(30);
/// Bytes of the head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// The pause after a failed accept, for example because the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// Who may connect.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// The home, which has the token.
    pub home: PathBuf,
    /// Further names under which clients reach this service, such as that of a proxy.
    pub hosts: Vec<String>,
    /// Whether clients come through a proxy, so that their addresses say nothing.
    pub is_behind_proxy: bool,
    /// The certificate with which connections are encrypted; none = they are not.
    pub tls: Option<TlsFiles>,
    /// What other programs send to `/hooks/NAME`.
    pub webhooks: Webhooks,
}

/// A listening address.
#[derive(Debug)]
pub struct HttpListener {
    socket: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
    tls: Option<Arc<Tls>>,
}

/// Why a service cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is taken, or is none of this machine.
    #[error(transparent)]
    Address(#[from] io::Error),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// What requests share.
struct App {
    service: Arc<Service>,
    gate: Gate,
}

impl HttpListener {
    /// Listens at this address. Port 0 is one that is free. Must be called inside a tokio runtime.
    pub async fn bind(address: SocketAddr, options: HttpOptions) -> Result<Self, BindError> {
        let tls = options.tls.clone().map(Tls::new).transpose()?.map(Arc::new);
        let socket = TcpListener::bind(address).await?;
        Ok(Self { address: socket.local_addr()?, socket, options, tls })
    }

    /// Listens at a socket that is listening already. Must be called inside a tokio runtime.
    pub fn over(socket: std::net::TcpListener, options: HttpOptions) -> Result<Self, BindError> {
        let tls = options.tls.clone().map(Tls::new).transpose()?.map(Arc::new);
        socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(socket)?;
        Ok(Self { address: socket.local_addr()?, socket, options, tls })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Accepts and serves connections in a task of its own, until that is aborted.
    pub fn spawn(self, service: Arc<Service>) -> JoinHandle<()> {
        service.listening_at(self.address, self.is_encrypted());
        self.tls.iter().for_each(|tls| tls.said_by(&service));
        let app = Arc::new(App { service, gate: Gate::new(self.options) });
        let router = router(Arc::clone(&app));
        tokio::spawn(async move {
            tokio::select! {
                () = accept(&self.socket, self.tls.as_ref(), &router) => {}
                () = app.gate.watch() => {}
            }
        })
    }
}

fn router(app: Arc<App>) -> Router {
    let reads = get(api::read);
    Router::new()
        .route("/", get(websocket::upgrade))
        .route("/ws", get(websocket::upgrade))
        .route("/healthz", get(api::alive))
        .route("/readyz", get(api::ready))
        .route("/metrics", get(metrics::show))
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{*name}", get(openai::model))
        .route("/v1/chat/completions", post(openai::chat))
        .route("/v1/responses", post(openai::respond))
        .route("/v1/rpc/{method}", post(api::call))
        .route("/v1/runs", reads.clone().post(api::start))
        .route("/v1/runs/{id}", reads.clone())
        .route("/v1/runs/{id}/events", get(events::of_run))
        .route("/v1/sessions", reads.clone())
        .route("/v1/sessions/{id}", reads.clone())
        .route("/v1/sessions/{id}/events", get(events::of_session))
        .route("/v1/events", get(events::of_home))
        .route("/v1/approvals", reads)
        .route("/hooks/{name}", post(webhooks::receive))
        .fallback(api::unknown)
        .method_not_allowed_fallback(api::not_allowed)
        .layer(DefaultBodyLimit::max(FRAME_BYTES))
        .layer(from_fn_with_state(Arc::clone(&app), gate::admit))
        .with_state(app)
}

async fn accept(socket: &TcpListener, tls: Option<&Arc<Tls>>, router: &Router) {
    let places = Places::new(capacity_for_http());
    loop {
        let Ok((stream, peer)) = socket.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (Ok(here), Some(place)) = (stream.local_addr(), places.take()) else { continue };
        let peer = Arc::new(Peer::new((peer, here), place));
        // A small frame is not worth waiting for a larger one.
        let _ = stream.set_nodelay(true);
        let (router, of) = (router.clone(), Arc::clone(&peer));
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Arc::clone(&of));
            router.clone().oneshot(request)
        });
        let tls = tls.cloned();
        tokio::spawn(async move {
            let serving = async {
                // A client that breaks off is no error of the service.
                match tls {
                    None => serve(TokioIo::new(stream), service).await,
                    Some(tls) => {
                        if let Some(stream) = tls.accept(stream).await {
                            serve(TokioIo::new(stream), service).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                () = peer.place.is_needed() => {}
            }
        });
    }
}

/// Serves a connection until its client disconnects.
async fn serve<I, S>(io: I, service: S)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = axum::body::Body, Error: Into<BoxError>>,
{
    let mut serving = http1::Builder::new();
    serving.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
    let _ = serving.serve_connection(io, service).with_upgrades().await;
}

/// The JSON of a client. What is large is parsed on a thread that may block: the sessions go on meanwhile.
async fn parsed<T: DeserializeOwned + Send + 'static>(bytes: Bytes) -> serde_json::Result<T> {
    parsed_within(bytes, VALUES).await
}

/// The same with at most so many values.
async fn parsed_within<T: DeserializeOwned + Send + 'static>(bytes: Bytes, most: usize) -> serde_json::Result<T> {
    if bytes.len() <= OFF_THREAD_BYTES {
        return serde_json::from_slice(&bytes);
    }
    let parsing = tokio::task::spawn_blocking(move || {
        // Each takes many times its text in memory.
        if values(&bytes) > most {
            return Err(serde_json::Error::custom(format!("it has more than {most} values")));
        }
        serde_json::from_slice(&bytes)
    });
    parsing.await.unwrap_or_else(|error| Err(serde_json::Error::custom(error)))
}

/// The most values in a body of JSON: more than a request needs.
const VALUES: usize = 200_000;

/// About how many values a text of JSON has: what begins or divides them outside of strings.
fn values(json: &[u8]) -> usize {
    let (mut is_in_string, mut is_escaped, mut values) = (false, false, 0);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'[' | b'{' | b',' | b':' if !is_in_string => values += 1,
            _ => {}
        }
    }
    values
}

impl App {
    /// A stream of frames to the service, as one more client of it: that at the other end of the connection.
    async fn attach(self: &Arc<Self>, peer: &Arc<Peer>, scopes: Scopes) -> DuplexStream {
        let (app, peer) = (Arc::clone(self), Arc::clone(peer));
        // A process that cannot be looked for is none that may act.
        let looked = tokio::task::spawn_blocking(move || peer.process(app.service.home())).await;
        self.service.attach_for(Identity { process: looked.unwrap_or(Some(u32::MAX)), scopes })
    }

    /// The names of the configured agents.
    fn agents(&self) -> Vec<String> {
        self.service.runtime.resolver().agents()
    }

    /// Connects to the service as who sends a request.
    async fn client(self: &Arc<Self>, caller: &Caller) -> Result<(Client, Events), ClientError> {
        self.client_with(&caller.peer, caller.scopes(), vec![]).await
    }

    /// Connects to the service.
    async fn client_with(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        scopes: Scopes,
        caps: Vec<Cap>,
    ) -> Result<(Client, Events), ClientError> {
        let client = ClientInfo {
            id: "http".to_owned(),
            version: self.service.version.clone(),
            platform: std::env::consts::OS.to_owned(),
            mode: "backend".to_owned(),
        };
        let params = ConnectParams { min_protocol: PROTOCOL, max_protocol: PROTOCOL, client, caps };
        let (client, _, events) = Client::connect(self.attach(peer, scopes).await, params).await?;
        Ok((client, events))
    }
}
