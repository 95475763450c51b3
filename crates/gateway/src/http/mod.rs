//! HTTP and WebSocket over TCP: who may use it (`gate`, `token`), the frames of the socket as text messages (`websocket`), the API
//! of OpenAI (`openai`), the frames of OpenClaw (`openclaw`), and the methods of the protocol (`api`). Each request is a client of the service in the same process,
//! so nothing here knows more than the protocol, and a connection that is lost ends no run.

mod api;
mod events;
mod gate;
mod metrics;
mod openai;
mod openclaw;
mod peer;
mod places;
mod problem;
mod token;
mod webhooks;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
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

pub use token::{TOKEN_FILE, Token, TokenError};
pub use webhooks::{Webhook, WebhookProof, Webhooks};

use gate::Gate;
use peer::Peer;
use places::Places;

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
    /// What other programs send to `/hooks/NAME`.
    pub webhooks: Webhooks,
}

/// A listening address.
#[derive(Debug)]
pub struct HttpListener {
    socket: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
}

/// What requests share.
struct App {
    service: Arc<Service>,
    gate: Gate,
}

impl HttpListener {
    /// Listens at this address. Port 0 is one that is free. Must be called inside a tokio runtime.
    pub async fn bind(address: SocketAddr, options: HttpOptions) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        Ok(Self { address: socket.local_addr()?, socket, options })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts and serves connections in a task of its own, until that is aborted.
    pub fn spawn(self, service: Arc<Service>) -> JoinHandle<()> {
        service.listening_at(self.address);
        let app = Arc::new(App { service, gate: Gate::new(self.options) });
        let router = router(app);
        tokio::spawn(async move { accept(&self.socket, &router).await })
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

async fn accept(socket: &TcpListener, router: &Router) {
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
        tokio::spawn(async move {
            let mut serving = http1::Builder::new();
            serving.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
            let serving = serving.serve_connection(TokioIo::new(stream), service).with_upgrades();
            // A client that breaks off is no error of the service.
            tokio::select! {
                _ = serving => {}
                () = peer.place.is_needed() => {}
            }
        });
    }
}

/// The JSON of a client. What is large is parsed on a thread that may block: the sessions go on meanwhile.
async fn parsed<T: DeserializeOwned + Send + 'static>(bytes: Bytes) -> serde_json::Result<T> {
    if bytes.len() <= OFF_THREAD_BYTES {
        return serde_json::from_slice(&bytes);
    }
    let parsing = tokio::task::spawn_blocking(move || serde_json::from_slice(&bytes));
    parsing.await.unwrap_or_else(|error| Err(serde_json::Error::custom(error)))
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

    /// Connects to the service as the user.
    async fn client(self: &Arc<Self>, peer: &Arc<Peer>) -> Result<(Client, Events), ClientError> {
        self.client_with(peer, Scopes::ALL, vec![]).await
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
