//! The service of the process that owns a home: its runtime, the subscribers, and the clients that can approve. Socket
//! clients and commands of this process use the same kind of connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use engine::tables::lifecycle::LifecycleKind;
use engine::{ApprovalRow, ReceiptState, RunId, SessionRow, Timestamp};
use journal::{Collected, Journal, Read, SearchIndex};
use protocol::deprecated::Deprecated;
use protocol::limits::ALL_BUFFERED_BYTES;
use protocol::method::OwnerKind;
use protocol::notice::Asked;
use runtime::{IdlePolicy, Options, Resolver, Runtime};
use telemetry::Telemetry;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::{Semaphore, mpsc, watch};
use views::events::Lines;
use views::unrecorded;

use crate::approvals::Approvals;
use crate::connection::{self, Caller, Identity};
use crate::deliveries::Routes;
use crate::error::Error;
use crate::events::Hub;
use crate::methods;

/// Pages of 500 entries that are added to the index for searches without a pause.
const FILL_PAGES: usize = 4;
/// Bytes that are buffered between a command and the service in its own process.
const PIPE_BYTES: usize = 64 << 10;

/// How long an owner keeps its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenure {
    /// Until it is stopped.
    Service,
    /// While a command runs. A service that asks for the home gets it; answers in progress may finish within `drain`.
    Command {
        /// The longest time for answers in progress.
        drain: Duration,
    },
}

/// The options of a service.
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct ServiceOptions {
    pub home: PathBuf,
    /// The program whose subcommand `supervise` runs commands.
    pub supervisor: PathBuf,
    /// Resolves the configuration for each run, so that a changed configuration counts from the next run.
    pub resolver: Box<dyn Resolver>,
    pub models: models::ModelSet,
    /// When the actors of idle sessions are stopped.
    pub idle: IdlePolicy,
    pub tenure: Tenure,
    /// Whether no run starts or continues until that is asked of the runtime.
    pub holds_runs: bool,
    pub version: String,
    /// Notes for the user of the owner, one line each.
    pub notes: mpsc::Sender<String>,
}

/// The number of answers that are read at once: reading one waits for nobody.
const READING: usize = 8;

/// Different notes on what clients cause that are said.
const SAID: usize = 100;

/// How long a shutdown waits for threads that read the journal.
const READS: Duration = Duration::from_secs(5);

/// A journal that a thread reads; counted until it is let go.
pub(crate) struct JournalRead {
    journal: Option<Arc<dyn Journal>>,
    reads: watch::Sender<usize>,
}

impl JournalRead {
    pub(crate) fn get(&self) -> &dyn Journal {
        self.journal.as_deref().expect("it is there until it is dropped")
    }
}

impl Drop for JournalRead {
    fn drop(&mut self) {
        drop(self.journal.take());
        self.reads.send_modify(|reads| *reads -= 1);
    }
}

/// The service of a home that this process owns.
pub struct Service {
    pub(crate) runtime: Runtime,
    pub(crate) hub: Arc<Hub>,
    pub(crate) approvals: Arc<Approvals>,
    home: Arc<Path>,
    pub(crate) version: String,
    started_at: Timestamp,
    callers: Mutex<BTreeMap<u64, Weak<Caller>>>,
    last_number: AtomicU64,
    notes: mpsc::Sender<String>,
    /// The old method names that the user was already warned of.
    warned: Mutex<BTreeSet<&'static str>>,
    /// What was said of it once.
    said: Mutex<BTreeSet<String>>,
    /// Answers that are read at once, for all clients: each may take as much memory as a frame.
    pub(crate) reading: Semaphore,
    /// Threads that read the journal for an answer.
    reads: watch::Sender<usize>,
    /// Clients, including those that have not completed the handshake.
    open: watch::Sender<usize>,
    leaving: watch::Sender<bool>,
    tenure: Tenure,
    telemetry: Arc<Telemetry>,
    handing_over: watch::Sender<bool>,
    /// Where it serves HTTP and WebSocket.
    listens_at: OnceLock<(SocketAddr, bool)>,
}

impl Service {
    /// Starts the service of a home whose journal this process owns. Must be called inside a tokio runtime.
    pub fn start(journal: Arc<dyn Journal>, options: ServiceOptions) -> Arc<Self> {
        let (events, published) = mpsc::unbounded_channel();
        let (waits, waiting) = mpsc::unbounded_channel();
        let (hub, ending) = Hub::new();
        let hub = Arc::new(hub);
        let (approvals, requests) = Approvals::new();
        let approvals = Arc::new(approvals);
        let runtime = Runtime::new(
            journal,
            Options {
                home: options.home.clone(),
                supervisor: options.supervisor,
                resolver: options.resolver,
                models: options.models,
                tools: tools::ToolSet::default(),
                deliver: Some(Arc::new(Routes::new(&options.version))),
                events: Some(events),
                waits: Some(waits),
                idle: options.idle,
                holds_runs: options.holds_runs,
            },
        );
        // A journal that cannot be read reports it when a session is opened.
        approvals.found(open_requests(&**runtime.journal()).unwrap_or_default().into_iter());
        let lines = Lines::new(Arc::<dyn Journal>::clone(runtime.journal()));
        let waiting = (waiting, runtime.disk_full_waits());
        let telemetry = Arc::new(Telemetry::default());
        let watching = (lines, Arc::clone(&telemetry));
        tokio::spawn(Arc::clone(&hub).run((published, ending), waiting, watching, (Arc::clone(&approvals), requests)));
        Arc::new(Self {
            started_at: runtime.clock().now(),
            runtime,
            hub,
            approvals,
            telemetry,
            home: options.home.into(),
            version: options.version,
            notes: options.notes,
            warned: Mutex::default(),
            said: Mutex::default(),
            callers: Mutex::default(),
            last_number: AtomicU64::new(0),
            reading: Semaphore::new(READING),
            reads: watch::Sender::new(0),
            open: watch::Sender::new(0),
            leaving: watch::Sender::new(false),
            tenure: options.tenure,
            handing_over: watch::Sender::new(false),
            listens_at: OnceLock::new(),
        })
    }

    /// Warns the user of the owner, once for each name, that a client used an old name.
    pub(crate) fn warn(&self, row: &'static Deprecated) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(row.old) {
            // The receiver may be gone, or busy: a warning is not worth waiting for.
            let _ = self.notes.try_send(format!("a client uses an old name: {row}"));
        }
    }

    /// Says it to the user of the owner, once: who causes it may cause it again and again.
    pub(crate) fn note_once(&self, note: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < SAID && said.insert(note.clone()) {
            // As for `warn`.
            let _ = self.notes.try_send(note);
        }
    }

    /// The folder of the home that this service owns.
    pub fn home(&self) -> &Arc<Path> {
        &self.home
    }

    /// Where it serves HTTP and WebSocket, and whether that is encrypted; none if it does not.
    pub(crate) fn listens_at(&self) -> Option<(SocketAddr, bool)> {
        self.listens_at.get().copied()
    }

    /// From now on it also serves at this address, encrypted or not.
    pub(crate) fn listening_at(&self, address: SocketAddr, is_encrypted: bool) {
        // It listens at one address only.
        let _ = self.listens_at.set((address, is_encrypted));
    }

    /// What is counted of the sessions and of clients.
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// The runtime of the sessions.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Serves a client over these halves of a stream until it disconnects.
    pub async fn serve<R, W>(self: Arc<Self>, read: R, write: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.serve_peer(Identity::of_user(None), read, write).await;
    }

    /// The same for who is at the other end of a socket.
    pub(crate) async fn serve_peer<R, W>(self: Arc<Self>, identity: Identity, read: R, write: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.open.send_modify(|open| *open += 1);
        let _open = Counted(&self.open);
        connection::serve(&self, identity, Box::new(read), Box::new(write)).await;
    }

    /// Connects a client in this process: the stream carries the same frames as the socket.
    pub fn attach(self: &Arc<Self>) -> DuplexStream {
        self.attach_for(Identity::of_user(None))
    }

    /// The same for a client that this process serves.
    pub(crate) fn attach_for(self: &Arc<Self>, identity: Identity) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (read, write) = tokio::io::split(ours);
        tokio::spawn(Arc::clone(self).serve_peer(identity, read, write));
        theirs
    }

    /// Resumes all unfinished sessions. Returns their keys, and the sessions that cannot be read with their errors.
    pub async fn resume(self: &Arc<Self>) -> Result<RecoveredSessions, Error> {
        let mut taken = RecoveredSessions::default();
        let rows = unfinished(&**self.runtime.journal())?;
        // What they change is recorded when they end, so somebody has to wait for that.
        let home = Arc::clone(&self.home);
        let held = methods::reading(self, move |journal| Ok(unrecorded(&home, journal)?)).await?;
        for row in held
            .into_iter()
            .map(|session| session.row)
            .filter(|held| rows.iter().all(|row| row.session != held.session))
        {
            if let Err(error) = self.resume_one(&row).await {
                taken.unreadable.push((row.key, error));
            }
        }
        for row in rows {
            match self.resume_one(&row).await {
                Ok(()) => taken.sessions.push(row.key),
                Err(error) => taken.unreadable.push((row.key, error)),
            }
        }
        Ok(taken)
    }

    /// Terminates the sessions in which nothing has happened since this time. Returns the result for each.
    pub async fn terminate_idle(&self, before: Timestamp) -> Result<Vec<(String, Result<(), Error>)>, Error> {
        methods::terminate_idle(self, before).await
    }

    /// Erases texts and outputs that are older than this many days and that no session needs. May block.
    pub fn erase(&self, days: u32) -> Result<Collected, Error> {
        methods::erase(self, methods::before(self.runtime.clock().now(), days))
    }

    /// Adds some of what was said to the index for searches, unless a session is at work. True if nothing is left for now;
    /// an index that cannot be used is left to the next search, which says so. May block.
    pub fn fill_search(&self) -> bool {
        let journal = self.runtime.journal();
        if !journal.unfinished().is_ok_and(|rows| rows.is_empty()) {
            return true;
        }
        let filled = SearchIndex::open(&self.home).and_then(|mut index| index.fill(&**journal, FILL_PAGES));
        filled.unwrap_or(true)
    }

    async fn resume_one(&self, row: &SessionRow) -> Result<(), Error> {
        self.runtime.open(&row.key, &row.agent, vec![]).await?;
        Ok(())
    }

    /// Shuts down in order: no new run starts, responses in progress may finish within `drain`, and clients are
    /// notified of the results and then closed.
    pub async fn leave(&self, drain: Duration) -> Result<(), Error> {
        self.runtime.drain(drain).await;
        let left = self.runtime.shutdown().await;
        self.hub.drain().await;
        self.telemetry.leave().await;
        // Whoever waited for the end of a run was notified, and reads what it answers.
        tokio::task::yield_now().await;
        self.reads_have_ended().await;
        self.leaving.send_replace(true);
        // Each client has a few seconds to read its buffered frames.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
        // A thread that still reads would keep the journal open, and the home locked.
        self.reads_have_ended().await;
        Ok(left?)
    }

    async fn reads_have_ended(&self) {
        let mut reads = self.reads.subscribe();
        let _ = tokio::time::timeout(READS, reads.wait_for(|reads| *reads == 0)).await;
    }

    /// The journal for a thread that reads it: the home is released after it.
    pub(crate) fn journal_to_read(&self) -> JournalRead {
        self.reads.send_modify(|reads| *reads += 1);
        JournalRead { journal: Some(Arc::clone(self.runtime.journal())), reads: self.reads.clone() }
    }

    /// Becomes true when a service has asked for the home: its owner then calls [`Service::leave`] and releases it.
    pub fn handing_over(&self) -> watch::Receiver<bool> {
        self.handing_over.subscribe()
    }

    /// Accepts the request of a service for the home. Returns the time within which answers in progress may finish.
    pub(crate) fn hand_over(&self) -> Result<Duration, Error> {
        match self.tenure {
            Tenure::Command { drain } => {
                self.handing_over.send_replace(true);
                Ok(drain)
            }
            Tenure::Service => Err(Error::State {
                what: "the owner of this home is a service, which keeps it".to_owned(),
                hint: "stop that service first".to_owned(),
            }),
        }
    }

    /// What this owner is now.
    pub(crate) fn kind(&self) -> OwnerKind {
        match self.tenure {
            Tenure::Service => OwnerKind::Service,
            Tenure::Command { .. } if self.runtime.holds_runs() => OwnerKind::Change,
            Tenure::Command { .. } => OwnerKind::Command,
        }
    }

    /// The number of clients that have completed the handshake.
    pub(crate) fn connections(&self) -> usize {
        self.lock().len()
    }

    /// How long this owner has had the home, in milliseconds.
    pub(crate) fn uptime_ms(&self) -> u64 {
        self.runtime.clock().now().since(self.started_at)
    }

    /// Registers a new client.
    pub(crate) fn admit(&self, caller: impl FnOnce(u64) -> Caller) -> Arc<Caller> {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let caller = Arc::new(caller(number));
        self.lock().insert(number, Arc::downgrade(&caller));
        caller
    }

    /// Keeps what is buffered for all clients within its bound: the client with the most is closed. Small answers may wait
    /// for a slow client; who takes that much has asked for more than it reads.
    pub(crate) fn make_space(&self) {
        loop {
            let callers: Vec<_> = self.lock().values().filter_map(Weak::upgrade).collect();
            let buffered = |caller: &Arc<Caller>| caller.buffer.bytes();
            if callers.iter().map(buffered).sum::<usize>() <= ALL_BUFFERED_BYTES {
                return;
            }
            let Some(most) = callers.iter().max_by_key(|caller| buffered(caller)) else { return };
            self.hub.drop_slow(most);
            most.buffer.clear();
        }
    }

    /// Removes a client that is gone.
    pub(crate) fn forget(&self, number: u64) {
        self.lock().remove(&number);
        self.approvals.detach(number);
        self.hub.forget(number);
    }

    /// Becomes true when clients are to be closed.
    pub(crate) fn leaving(&self) -> watch::Receiver<bool> {
        self.leaving.subscribe()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Weak<Caller>>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The approval requests that an earlier owner left open, each with whether its run is paused.
fn open_requests(read: &dyn Read) -> Result<Vec<(Asked, bool)>, views::Error> {
    let mut requests = vec![];
    for row in views::approvals::open(read, None)? {
        // One that cannot be read must not hide the others.
        let session = read.session_of_run(row.call.run).unwrap_or_default();
        let Some((session, fingerprint)) = session.zip(row.fingerprint) else { continue };
        let is_paused = session.lifecycle == LifecycleKind::Suspended;
        let ApprovalRow { call, question, takes, .. } = row;
        let asked = Asked { session: session.key, call, fingerprint, question, takes };
        requests.push((asked, is_paused));
    }
    Ok(requests)
}

/// Unfinished sessions in the order in which their runs were accepted, so that the runs queue for lanes in the same
/// order.
pub(crate) fn unfinished(read: &dyn Read) -> Result<Vec<SessionRow>, journal::Error> {
    let mut rows = vec![];
    for row in read.unfinished()? {
        rows.push((next_run(read, &row)?, row));
    }
    // A run's id is made when its message is accepted, and grows with time.
    rows.sort_by_key(|(run, _)| *run);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The active run of a session, or the first run in its queue.
fn next_run(read: &dyn Read, row: &SessionRow) -> Result<Option<RunId>, journal::Error> {
    if row.run.is_some() || row.queued == 0 {
        return Ok(row.run);
    }
    let receipts = read.receipts(row.session)?;
    let queued = receipts.iter().filter(|receipt| receipt.state == ReceiptState::Queued);
    Ok(queued.map(|receipt| RunId::from(receipt.message)).min())
}

/// A client that is counted until it is dropped.
struct Counted<'a>(&'a watch::Sender<usize>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// The result of resuming a service's sessions.
#[derive(Debug, Default)]
pub struct RecoveredSessions {
    /// The keys of the resumed sessions.
    pub sessions: Vec<String>,
    /// The sessions that cannot be read.
    pub unreadable: Vec<(String, Error)>,
}
