//! Connects to the owner of a home over its socket. If no owner responds, this process becomes the owner and talks to
//! its own service with the same protocol, so each command is written once and prints the same.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Config, ConfigResolver, Globals};
use gateway::socket::{self, Listener};
use gateway::{Service, ServiceOptions, Tenure};
use journal::Sqlite;
use protocol::method::{Cap, ClientInfo, ConnectParams};
use protocol::{Client, ClientError, Events, FrameError, PROTOCOL};
use runtime::IdlePolicy;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::claim::Claim;
use crate::error::{CliError, Exit};
use crate::here::Here;
use crate::output::{self, say};

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
/// How long a command waits for the next owner without a word.
const SILENT: Duration = Duration::from_secs(1);
/// How long a command leaves a home to the service that has claimed it: a service takes a free home at its next look.
const PRECEDENCE: Duration = Duration::from_secs(10);
/// How many notes of an owner wait to be printed. A further one is dropped rather than waited for.
pub(crate) const NOTES: usize = 64;

/// A connection to the owner.
pub(crate) struct OwnerClient {
    pub(crate) client: Client,
    pub(crate) events: Events,
    /// The process id of the owner.
    pub(crate) pid: u32,
    /// The methods that the owner knows: it may have another version.
    methods: Vec<String>,
    /// The owner, if it is this process.
    pub(crate) here: Option<Here>,
    /// Whether another process owned the home while this one looked for it.
    pub(crate) is_successor: bool,
}

/// How to open a home.
pub(crate) struct Opening<'a> {
    pub(crate) globals: &'a Globals,
    pub(crate) config: Arc<Config>,
    /// Whether to wait for an owner that does not respond.
    pub(crate) wait: bool,
    /// Whether this terminal can answer approval requests.
    pub(crate) can_approve: bool,
}

impl Opening<'_> {
    /// Connects to the owner, or becomes the owner if there is none.
    pub(crate) async fn open(&self) -> Result<OwnerClient, CliError> {
        let home = &self.globals.home;
        let (began, mut reported, mut is_successor) = (Instant::now(), false, false);
        loop {
            let greeted = look_for(home, self.can_approve, GREETING).await;
            let is_away = greeted.is_none();
            is_successor |= !is_away;
            match greeted {
                Some(Ok(owner_client)) => return Ok(owner_client),
                // The owner refused the handshake: it has too many clients, or speaks another version.
                Some(Err(error @ ClientError::Answered(_))) if !self.wait => return Err(failed(error)),
                Some(Err(_)) | None => {}
            }
            let is_claimed = is_away && Claim::is_held(home);
            if is_claimed && began.elapsed() > SILENT && !std::mem::replace(&mut reported, true) {
                say!("limulus: a service is about to take {}; waiting for it", home.display());
            }
            if is_claimed && began.elapsed() < PRECEDENCE {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            match Sqlite::own(home) {
                Ok(journal) => return Ok(OwnerClient { is_successor, ..self.own(Arc::new(journal)).await? }),
                Err(error @ journal::Error::Owned { .. }) => {
                    is_successor = true;
                    // An owner that does not complete the handshake is stopped; one without a socket starts or shuts
                    // down, or hands the home over to the service that has claimed it.
                    let most = if is_claimed { self.config.drain().saturating_add(RELEASE) } else { CHANGE };
                    let is_changing = is_away && began.elapsed() < most;
                    if !is_changing && !self.wait {
                        return Err(error.into());
                    }
                    if self.wait && !is_changing && !std::mem::replace(&mut reported, true) {
                        say!("limulus: {error}; waiting");
                    }
                    tokio::time::sleep(LOOK).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn own(&self, journal: Arc<Sqlite>) -> Result<OwnerClient, CliError> {
        adopt(&self.globals.home)?;
        let (notes_in, notes) = mpsc::channel(NOTES);
        let config = Arc::clone(&self.config);
        let drain = config.drain();
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
            tenure: Tenure::Command { drain },
            version: env!("CARGO_PKG_VERSION").to_owned(),
            notes: notes_in.clone(),
        };
        let service = Service::start(journal, options);
        let held = notes_in.clone();
        // A note is not worth waiting for.
        let watching = runtime::watchdog::watch(move |stall| drop(held.try_send(format!("limulus: {stall}"))));
        watching.map_err(|error| CliError::bug(&format!("no thread: {error}")))?;
        output::owned_by(Arc::downgrade(&service));
        say_damage(&service);
        let listening = match Listener::bind(&self.globals.home) {
            Ok(listener) => Some(listener.spawn(Arc::clone(&service))),
            Err(error) => {
                let note = format!("limulus: other terminals cannot follow this one: {error}");
                notes_in.try_send(note).expect("it is the first, and its receiver is in this function");
                None
            }
        };
        // A service that asks for the home meanwhile waits for the keeper, so this connection is accepted.
        let owner_client = greet(service.attach(), self.can_approve).await.map_err(failed)?;
        Ok(OwnerClient { here: Some(Here::keep(service, listening, notes, drain)), ..owner_client })
    }
}

/// Makes this process inherit, and end, what commands leave behind.
pub(crate) fn adopt(home: &Path) -> Result<(), CliError> {
    tools::adopt_what_commands_leave(&home.join("calls"))
        .map_err(|error| CliError::bug(&format!("what commands leave cannot be inherited: {error}")))
}

/// Warns if the ledger is corrupt. The owner continues without it.
pub(crate) fn say_damage(service: &Service) {
    if let Some(damage) = service.runtime().ledger_damage() {
        say!(
            "limulus: the ledger of this home is damaged ({damage})\n  \
             entries before the damage are used; new cooldowns are kept in memory only; runs continue\n  \
             hint: `limulus doctor` shows what can be done"
        );
    }
}

/// Connects to an owner that listens. None if nobody listens; an error if the handshake fails.
pub(crate) async fn look(home: &Path, can_approve: bool) -> Option<Result<OwnerClient, ClientError>> {
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
        methods: hello.features.methods,
        here: None,
        is_successor: false,
    })
}

impl OwnerClient {
    /// Whether the owner knows this method.
    pub(crate) fn can(&self, method: &str) -> bool {
        self.methods.iter().any(|known| known == method)
    }
}

/// Accepts no further clients.
pub(crate) async fn hang_up(listening: JoinHandle<()>) {
    listening.abort();
    // The task was aborted or has panicked: either way the socket is gone.
    let _ = listening.await;
}

/// The error of a request that another owner would refuse too.
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

/// Whether another owner may succeed: this one is gone or shuts down.
pub(crate) fn is_gone(error: &ClientError) -> bool {
    match error {
        ClientError::Gone => true,
        ClientError::Answered(shape) => shape.code == protocol::ErrorCode::Unavailable && shape.retryable == Some(true),
        ClientError::Frame(_) | ClientError::Unreadable { .. } => false,
    }
}
