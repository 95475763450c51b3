//! The way to the owner of a home: over its socket where there is one that answers, else this process becomes the owner and
//! speaks with its own service by the same protocol. So a command is written once, and prints the same. What may not live
//! here: what is asked, and what is shown of it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway::socket::{self, Listener};
use gateway::{Service, ServiceOptions};
use journal::Sqlite;
use protocol::method::{Cap, ClientInfo, ConnectParams};
use protocol::{Client, ClientError, Events, FrameError, PROTOCOL};
use runtime::IdlePolicy;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::{Config, Globals};
use crate::error::{CliError, Exit};
use crate::output;
use crate::resolver::ConfigResolver;

/// How long an owner may take to greet: one that is stopped never does, one on a busy machine takes its time.
const GREETING: Duration = Duration::from_secs(5);
/// The same for whoever has the journal to look at instead.
const GLANCE: Duration = Duration::from_secs(1);
/// How long an owner may take to listen after it took the home, or to leave it after it stopped listening.
const CHANGE: Duration = Duration::from_secs(5);
/// How often another owner is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long answers of other terminals may go on when this one is done.
const DRAIN: Duration = Duration::from_secs(1);

/// An open way to the owner.
pub(crate) struct OwnerClient {
    pub(crate) client: Client,
    pub(crate) events: Events,
    /// The owner's process.
    pub(crate) pid: u32,
    /// What the owner can be asked for: it may be of another version.
    methods: Vec<String>,
    /// The owner, if it is this process.
    pub(crate) here: Option<Here>,
}

/// The home is this process's.
pub(crate) struct Here {
    service: Arc<Service>,
    /// Listens to other terminals.
    listening: Option<JoinHandle<()>>,
    /// What is to be said of a configuration that has changed.
    pub(crate) notes: mpsc::UnboundedReceiver<String>,
    pub(crate) broken: watch::Receiver<Option<journal::Error>>,
}

/// How a home is opened.
pub(crate) struct Opening<'a> {
    pub(crate) globals: &'a Globals,
    pub(crate) config: Arc<Config>,
    /// Whether to wait for an owner that does not answer.
    pub(crate) wait: bool,
    /// Whether a person can be asked.
    pub(crate) asks: bool,
}

impl Opening<'_> {
    /// Speaks with the owner; becomes it where there is none.
    pub(crate) async fn open(&self) -> Result<OwnerClient, CliError> {
        let home = &self.globals.home;
        let (began, mut told) = (Instant::now(), false);
        loop {
            let greeted = look_for(home, self.asks, GREETING).await;
            let is_away = greeted.is_none();
            match greeted {
                Some(Ok(owner_client)) => return Ok(owner_client),
                // It says why it lets nobody in: it has no room, or speaks another version.
                Some(Err(error @ ClientError::Answered(_))) if !self.wait => return Err(failed(error)),
                Some(Err(_)) | None => {}
            }
            match Sqlite::own(home) {
                Ok(journal) => return self.own(Arc::new(journal)).await,
                Err(error @ journal::Error::Owned { .. }) => {
                    // One that does not greet is stopped; one without a socket comes or goes.
                    let is_changing = is_away && began.elapsed() < CHANGE;
                    if !is_changing && !self.wait {
                        return Err(error.into());
                    }
                    if self.wait && !is_changing && !std::mem::replace(&mut told, true) {
                        eprintln!("limulus: {error}; waiting");
                    }
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn own(&self, journal: Arc<Sqlite>) -> Result<OwnerClient, CliError> {
        let (notes_in, notes) = mpsc::unbounded_channel();
        let config = Arc::clone(&self.config);
        let logins = models::Logins::default();
        let options = ServiceOptions {
            home: self.globals.home.clone(),
            supervisor: std::env::current_exe()
                .map_err(|error| CliError::bug(&format!("no path of this program: {error}")))?,
            models: models::ModelSet::new()
                .with_offline(models::Offline::with_pace(config.offline_pace()))
                .with_logins(logins.clone()),
            resolver: Box::new(ConfigResolver::new(config, logins, notes_in.clone())),
            idle: IdlePolicy::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            notes: notes_in.clone(),
        };
        let service = Service::start(journal, options);
        output::owned_by(Arc::downgrade(&service));
        say_damage(&service);
        let listening = match Listener::bind(&self.globals.home) {
            Ok(listener) => Some(listen(listener, Arc::clone(&service))),
            Err(error) => {
                let note = format!("limulus: other terminals cannot follow this one: {error}");
                notes_in.send(note).expect("its receiver is in this function");
                None
            }
        };
        let broken = service.runtime().broken();
        let mut owner_client = greet(service.attach(), self.asks).await.map_err(failed)?;
        owner_client.here = Some(Here { service, listening, notes, broken });
        Ok(owner_client)
    }
}

/// Says what the owner of a home does not know, where its ledger cannot be believed. It goes on all the same.
pub(crate) fn say_damage(service: &Service) {
    if let Some(damage) = service.runtime().ledger_damage() {
        eprintln!(
            "limulus: the ledger of this home is damaged ({damage})\n  \
             what it says before the damage counts, and what runs find out is kept only as long as this process lives; runs go on\n  \
             hint: `limulus doctor` says what can be done"
        );
    }
}

/// Speaks with the owner, if there is one that listens; the error is of one that does, and does not greet.
pub(crate) async fn look(home: &Path, asks: bool) -> Option<Result<OwnerClient, ClientError>> {
    look_for(home, asks, GLANCE).await
}

async fn look_for(home: &Path, asks: bool, within: Duration) -> Option<Result<OwnerClient, ClientError>> {
    let stream = socket::connect(home).await.ok()?;
    match timeout(within, greet(stream, asks)).await {
        // It went away meanwhile.
        Ok(Err(ClientError::Gone)) => None,
        Ok(greeted) => Some(greeted),
        Err(_) => Some(Err(ClientError::Gone)),
    }
}

async fn greet<S>(stream: S, asks: bool) -> Result<OwnerClient, ClientError>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let client = ClientInfo {
        id: "cli".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: std::env::consts::OS.to_owned(),
        mode: "cli".to_owned(),
    };
    let caps = if asks { vec![Cap::Asks] } else { vec![] };
    let hello = ConnectParams { min_protocol: PROTOCOL, max_protocol: PROTOCOL, client, caps };
    let (client, hello, events) = Client::connect(stream, hello).await?;
    Ok(OwnerClient { client, events, pid: hello.server.pid, methods: hello.features.methods, here: None })
}

impl OwnerClient {
    /// Whether the owner knows this method.
    pub(crate) fn can(&self, method: &str) -> bool {
        self.methods.iter().any(|known| known == method)
    }
}

/// Lets others in from now on, whatever this terminal does.
pub(crate) fn listen(listener: Listener, service: Arc<Service>) -> JoinHandle<()> {
    tokio::spawn(async move { listener.serve(&service).await })
}

/// Lets nobody in any more.
pub(crate) async fn hang_up(listening: JoinHandle<()>) {
    listening.abort();
    // It was aborted, or has panicked: either way the socket is gone.
    let _ = listening.await;
}

/// Owns a home, as soon as nobody else does.
pub(crate) async fn own(home: &Path, wait: bool) -> Result<Arc<Sqlite>, CliError> {
    let mut told = false;
    loop {
        match Sqlite::own(home) {
            Ok(journal) => return Ok(Arc::new(journal)),
            Err(error @ journal::Error::Owned { .. }) if wait => {
                if !std::mem::replace(&mut told, true) {
                    eprintln!("limulus: {error}; waiting");
                }
                tokio::time::sleep(LOOK).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a request failed of, where another owner would not do better.
pub(crate) fn failed(error: ClientError) -> CliError {
    match error {
        ClientError::Answered(shape) => shape.into(),
        ClientError::Frame(FrameError::TooLong { limit }) => CliError::Refused {
            exit: Exit::Refused,
            what: format!("the message with its files has more than {} MiB", limit >> 20),
            hint: "send fewer files at once, or put them into the workspace and name them".into(),
        },
        error => CliError::bug(&error.to_string()),
    }
}

/// Whether another owner may do what this one did not: it is gone, or leaves.
pub(crate) fn is_gone(error: &ClientError) -> bool {
    match error {
        ClientError::Gone => true,
        ClientError::Answered(shape) => shape.code == protocol::ErrorCode::Unavailable && shape.retryable == Some(true),
        ClientError::Frame(_) | ClientError::Unreadable { .. } => false,
    }
}

impl Here {
    /// Another way to this owner: the last one was not read as fast as things happened.
    pub(crate) async fn attach(self, asks: bool) -> Result<OwnerClient, CliError> {
        let owner_client = greet(self.service.attach(), asks).await.map_err(failed)?;
        Ok(OwnerClient { here: Some(self), ..owner_client })
    }

    /// Lets nobody new in and leaves in order. Clients are told all that is recorded until then. What was asked for by a
    /// signal is done at once.
    pub(crate) async fn leave(&mut self, at_once: bool) -> Result<(), CliError> {
        if let Some(listening) = self.listening.take() {
            hang_up(listening).await;
        }
        self.service.leave(if at_once { Duration::ZERO } else { DRAIN }).await.map_err(CliError::from)
    }
}
