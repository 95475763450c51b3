//! Connects to the owner of a home over its socket. If no owner responds, this process becomes the owner and talks to
//! its own service with the same protocol, so each command is written once and prints the same.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, ConfigResolver, Globals};
use gateway::socket::{self, Listener};
use gateway::{Service, ServiceOptions, Tenure};
use journal::Sqlite;
use protocol::method::{Cap, ClientInfo, ConnectParams, OwnerKind};
use protocol::{Client, ClientError, Events, PROTOCOL};
use runtime::IdlePolicy;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::claim::Claim;
use crate::error::Error;
use crate::here::Here;

/// Timeout of the handshake: long enough for a busy machine; a stopped owner never responds.
pub(crate) const GREETING: Duration = Duration::from_secs(5);
/// The same for commands that can read the journal instead.
const GLANCE: Duration = Duration::from_secs(1);
/// How long an owner may hold the home without listening, while it starts or shuts down.
pub(crate) const CHANGE: Duration = Duration::from_secs(5);
/// Poll interval while waiting for an owner.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// Time after its drain within which an owner must have released a home that it hands over.
pub(crate) const RELEASE: Duration = Duration::from_secs(20);
/// How long a command waits for an owner that changes without a word.
pub(crate) const SILENT: Duration = Duration::from_secs(1);
/// How long a command leaves a home to the service that has claimed it: a service takes a free home at its next look.
const PRECEDENCE: Duration = Duration::from_secs(10);
/// How many notes of an owner wait to be printed. A further one is dropped rather than waited for.
pub const NOTES: usize = 64;

/// A connection to the owner.
pub struct OwnerClient {
    /// Sends requests.
    pub client: Client,
    pub(crate) events: Events,
    /// The process id of the owner.
    pub pid: u32,
    /// What the owner was when it was found; one of an older version does not say.
    pub kind: Option<OwnerKind>,
    /// The methods that the owner knows: it may have another version.
    methods: Vec<String>,
    /// The owner, if it is this process.
    pub(crate) here: Option<Here>,
    /// Whether another process owned the home while this one looked for it.
    pub(crate) is_successor: bool,
}

/// How to open a home.
pub struct Opening<'a> {
    /// Where the home is.
    pub globals: &'a Globals,
    /// With what this process owns the home, if there is no owner.
    pub config: Arc<Config>,
    /// Whether to wait for an owner that does not respond.
    pub wait: bool,
    /// Whether this terminal can answer approval requests.
    pub can_approve: bool,
    /// Whether this process, if it owns the home, starts and continues no run until it is asked to: it changes something
    /// and leaves.
    pub holds_runs: bool,
    /// Is called while the home is opened.
    pub notify: &'a dyn Fn(OpeningNotice<'_>),
}

/// What happens while a home is opened.
#[derive(Clone, Copy)]
pub enum OpeningNotice<'a> {
    /// A service has claimed the home, and is waited for.
    Claimed {
        /// The home.
        home: &'a Path,
    },
    /// Another owner keeps the home, and is waited for.
    Waiting {
        /// What an opening that does not wait ends with.
        owned: &'a journal::Error,
    },
    /// This process owns the home from now on. No client is served yet.
    Became {
        /// Its service.
        service: &'a Arc<Service>,
    },
}

impl Opening<'_> {
    /// Connects to the owner, or becomes the owner if there is none.
    pub async fn open(&self) -> Result<OwnerClient, Error> {
        let home = &self.globals.home;
        let (began, mut reported, mut is_successor) = (Instant::now(), false, false);
        loop {
            let greeted = look_for(home, self.can_approve, GREETING).await;
            let is_away = greeted.is_none();
            is_successor |= !is_away;
            match greeted {
                Some(Ok(owner_client)) => return Ok(owner_client),
                // The owner refused the handshake: it has too many clients, or speaks another version.
                Some(Err(error @ ClientError::Answered(_))) if !self.wait => return Err(error.into()),
                Some(Err(_)) | None => {}
            }
            let is_claimed = is_away && Claim::is_held(home);
            if is_claimed && began.elapsed() > SILENT && !std::mem::replace(&mut reported, true) {
                (self.notify)(OpeningNotice::Claimed { home });
            }
            if is_claimed && began.elapsed() < PRECEDENCE {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            match Sqlite::own(home) {
                Ok(journal) => return Ok(OwnerClient { is_successor, ..self.own(Arc::new(journal)).await? }),
                Err(error @ journal::Error::Owned { .. }) => {
                    // An owner that does not complete the handshake is stopped; one without a socket starts or shuts
                    // down, or hands the home over to the service that has claimed it.
                    let most = self.config.drain().saturating_add(if is_claimed { RELEASE } else { CHANGE });
                    let is_changing = is_away && began.elapsed() < most;
                    if is_changing && began.elapsed() > SILENT && !std::mem::replace(&mut reported, true) {
                        (self.notify)(OpeningNotice::Waiting { owned: &error });
                    }
                    if !is_changing && !self.wait {
                        return Err(error.into());
                    }
                    if self.wait && !is_changing && !std::mem::replace(&mut reported, true) {
                        (self.notify)(OpeningNotice::Waiting { owned: &error });
                    }
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn own(&self, journal: Arc<Sqlite>) -> Result<OwnerClient, Error> {
        adopt(&self.globals.home)?;
        let (notes_in, notes) = mpsc::channel(NOTES);
        let config = Arc::clone(&self.config);
        let drain = config.drain();
        let logins = models::Logins::default();
        let options = ServiceOptions {
            home: self.globals.home.clone(),
            supervisor: std::env::current_exe()
                .map_err(|error| Error::bug(format!("no path of this program: {error}")))?,
            models: models::ModelSet::new()
                .with_offline(models::Offline::with_pace(config.offline_pace()))
                .with_logins(logins.clone()),
            resolver: Box::new(ConfigResolver::new(config, logins, notes_in.clone())),
            idle: IdlePolicy::default(),
            tenure: Tenure::Command { drain },
            holds_runs: self.holds_runs,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            notes: notes_in.clone(),
        };
        let service = Service::start(journal, options);
        let held = notes_in.clone();
        // A note is not worth waiting for.
        let watching = runtime::watchdog::watch(move |stall| drop(held.try_send(format!("limulus: {stall}"))));
        watching.map_err(|error| Error::bug(format!("no thread: {error}")))?;
        (self.notify)(OpeningNotice::Became { service: &service });
        let listening = match Listener::bind(&self.globals.home) {
            Ok(listener) => Some(listener.spawn(Arc::clone(&service))),
            Err(error) => {
                let note = format!("limulus: other terminals cannot follow this one: {error}");
                notes_in.try_send(note).expect("it is the first, and its receiver is in this function");
                None
            }
        };
        // A service that asks for the home meanwhile waits for the keeper, so this connection is accepted.
        let owner_client = greet(service.attach(), self.can_approve).await?;
        Ok(OwnerClient { here: Some(Here::keep(service, listening, notes, drain)), ..owner_client })
    }
}

/// Makes this process inherit, and end, what commands leave behind.
pub fn adopt(home: &Path) -> Result<(), Error> {
    tools::adopt_what_commands_leave(&home.join("calls"))
        .map_err(|error| Error::bug(format!("what commands leave cannot be inherited: {error}")))
}

/// Connects to an owner that listens. None if nobody listens; an error if the handshake fails.
pub async fn look(home: &Path, can_approve: bool) -> Option<Result<OwnerClient, ClientError>> {
    look_for(home, can_approve, GLANCE).await
}

pub(crate) async fn look_for(
    home: &Path,
    can_approve: bool,
    within: Duration,
) -> Option<Result<OwnerClient, ClientError>> {
    let stream = socket::connect(home).await.ok()?;
    match timeout(within, greet(stream, can_approve)).await {
        // It shut down in the meantime.
        Ok(Err(ClientError::Gone)) => None,
        Ok(greeted) => Some(greeted),
        Err(_) => Some(Err(ClientError::Gone)),
    }
}

pub(crate) async fn greet<S>(stream: S, can_approve: bool) -> Result<OwnerClient, ClientError>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let client = ClientInfo {
        id: "cli".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: std::env::consts::OS.to_owned(),
        mode: "cli".to_owned(),
    };
    let caps = if can_approve { vec![Cap::Asks] } else { vec![] };
    let hello = ConnectParams { min_protocol: PROTOCOL, max_protocol: PROTOCOL, client, caps };
    let (client, hello, events) = Client::connect(stream, hello).await?;
    Ok(OwnerClient {
        client,
        events,
        pid: hello.server.pid,
        kind: hello.server.kind,
        methods: hello.features.methods,
        here: None,
        is_successor: false,
    })
}

impl OwnerClient {
    /// Whether the owner knows this method.
    pub fn can(&self, method: &str) -> bool {
        self.methods.iter().any(|known| known == method)
    }
}

/// Accepts no further clients.
pub async fn hang_up(listening: JoinHandle<()>) {
    listening.abort();
    // The task was aborted or has panicked: either way the socket is gone.
    let _ = listening.await;
}

/// Whether another owner may succeed: this one is gone or shuts down.
pub fn is_gone(error: &ClientError) -> bool {
    match error {
        ClientError::Gone => true,
        ClientError::Answered(shape) => shape.code == protocol::ErrorCode::Unavailable && shape.retryable == Some(true),
        ClientError::Frame(_) | ClientError::Unreadable { .. } => false,
    }
}
