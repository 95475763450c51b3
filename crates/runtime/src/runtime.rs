//! The runtime of a home: opens sessions, hands out lanes, tells subscribers, shuts down in order.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Account, Acknowledgement, Allowance, Batch, BranchId, CallId, CallOutcome, CallSettled, Candidate, Command,
    Cooldown, EffectId, Epoch, Failure, Flags, Hash, LaneBounds, LaneWait, Ledger, Overrides, Position, QueueSettings,
    Refusal, SessionId, Settings, SharedBudget, Thinking, Timestamp,
};
use journal::Journal;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use crate::actor::Offer;
use crate::budget_pool::BudgetHandle;
use crate::clock::Clock;
use crate::commit_relay::{self, CommitNotice};
use crate::conversation::STEER_MARK;
use crate::conversation_cache::ConversationCache;
use crate::disk_full::DiskFullWait;
use crate::idle::{IdlePolicy, Places};
use crate::lanes::{LaneHandle, LaneUpdate};
use crate::latest::Latest;
use crate::ledger::{self, HomeLedger};
use crate::sessions::{Reading, Sessions};
use crate::supervise::{Name, keep_running};

/// How long an owner that leaves waits for the refreshes of logins that are under way: one takes a second or two.
const REFRESHES: Duration = Duration::from_secs(5);

/// What a session wants of its runs, in place of what is configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelPreferences<'a> {
    /// `PROVIDER/MODEL`.
    pub model: Option<&'a str>,
    /// How much they think.
    pub thinking: Option<Thinking>,
}

/// The code of a failure of [`Resolver::settings`] that says that the home has no room for another run.
pub const NO_SPACE: &str = "no_room";

/// What the configuration gives when it is needed, and not before.
pub trait Resolver: Send + Sync {
    /// The settings of a run that starts now. A failure ends that run, and is what its user reads.
    fn settings(&self, agent: &str, wants: ModelPreferences<'_>, overrides: &Overrides) -> Result<Settings, Failure>;

    /// How messages to this agent are queued where neither they nor their session say.
    fn queue(&self, _agent: &str) -> QueueSettings {
        QueueSettings::default()
    }

    /// What stands, for the model, before a message that came while a run was under way.
    fn mark(&self) -> Arc<str> {
        STEER_MARK.into()
    }

    /// Where a candidate is served, with its key.
    fn endpoint(&self, candidate: &Candidate) -> Result<models::Endpoint, Failure>;

    /// What a call that begins now may not see or reach.
    fn redaction(&self) -> Redaction {
        Redaction::default()
    }

    /// What all runs of this agent, and all of the home, may spend in a day.
    fn shared_budget(&self, _agent: &str) -> SharedBudget {
        SharedBudget::default()
    }

    /// How many runs may be under way at once, from the next one on.
    fn lanes(&self) -> LaneBounds {
        LaneBounds::default()
    }
}

/// What calls may not see or reach.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    /// Values that are masked in what tools give back.
    pub secrets: tools::Secrets,
    /// Environment variables that commands do not get.
    pub secret_env: Vec<String>,
    /// Which addresses may be fetched from.
    pub reach: tools::NetworkPolicy,
}

/// What a runtime is made with.
pub struct Options {
    /// The home's folder.
    pub home: PathBuf,
    /// The program whose subcommand `supervise` runs commands.
    pub supervisor: PathBuf,
    /// The configuration.
    pub resolver: Box<dyn Resolver>,
    /// The model adapters.
    pub models: models::ModelSet,
    /// Who is told of every committed batch.
    pub events: Option<mpsc::UnboundedSender<Published>>,
    /// Who is told of runs that wait for their place in a lane.
    pub waits: Option<mpsc::UnboundedSender<LaneUpdate>>,
    /// Who can be asked; without it every question is answered no.
    pub questions: Option<Box<dyn Approver>>,
    /// How long actors of sessions at rest stay.
    pub idle: IdlePolicy,
}

/// Whoever can be asked for leave.
pub trait Approver: Send + Sync {
    /// Puts a question. False where nobody is there just now who could answer: then the answer is no.
    fn ask(&self, question: ApprovalRequest) -> bool;
}

impl<T: Approver> Approver for Arc<T> {
    fn ask(&self, question: ApprovalRequest) -> bool {
        T::ask(self, question)
    }
}

impl Approver for mpsc::UnboundedSender<ApprovalRequest> {
    fn ask(&self, question: ApprovalRequest) -> bool {
        self.send(question).is_ok()
    }
}

/// A committed batch, with the state that it led to.
#[derive(Debug, Clone)]
pub struct Published {
    /// The session.
    pub session: SessionId,
    /// Its key.
    pub key: Arc<str>,
    /// What was recorded.
    pub batch: Arc<Batch>,
    /// The owner that recorded it.
    pub epoch: Epoch,
    /// The position of its last entry; where it is progress alone, of the last entry of the home before it.
    pub position: Position,
    /// The lifecycle after it.
    pub lifecycle: LifecycleKind,
    /// The run state after it.
    pub run_state: RunState,
    /// The flags after it.
    pub flags: Flags,
}

/// A call that needs leave.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The session's key.
    pub key: String,
    /// The call.
    pub call: CallId,
    /// What the answer binds to.
    pub fingerprint: Hash,
    /// What is asked.
    pub text: String,
}

/// What can go wrong with a session or the home.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// What was read does not fold.
    #[error("session {key} does not read ({error}), nothing was changed: `limulus doctor` says what can be done")]
    Damaged {
        /// The session's key.
        key: String,
        /// What is wrong.
        error: engine::RecoverError,
    },
    /// The command was not carried out.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The runtime is shutting down, and takes up nothing new.
    #[error("the process that owns this home is leaving, nothing was changed: ask again, the next owner answers")]
    Leaving,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal,
            error => Self::Unavailable { reason: error.to_string() },
        }
    }
}

/// What every actor and effect of a home shares.
pub(crate) struct Shared {
    pub(crate) home: PathBuf,
    pub(crate) supervisor: PathBuf,
    pub(crate) resolver: Box<dyn Resolver>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) models: models::ModelSet,
    pub(crate) clock: Clock,
    pub(crate) latest: Latest,
    pub(crate) ledger: HomeLedger,
    pub(crate) budget_pool: BudgetHandle,
    pub(crate) conversations: ConversationCache,
    pub(crate) sessions: Sessions,
    pub(crate) places: Places,
    /// Where the journal's answers go.
    pub(crate) commit_relay: mpsc::UnboundedSender<CommitNotice>,
    /// What the post delivers, until the first actor starts it.
    notices: Mutex<Option<mpsc::UnboundedReceiver<CommitNotice>>>,
    events: Option<mpsc::UnboundedSender<Published>>,
    questions: Option<Box<dyn Approver>>,
    pub(crate) lanes: LaneHandle,
    pub(crate) broken: watch::Sender<Option<journal::Error>>,
    parked: watch::Sender<BTreeMap<String, DiskFullWait>>,
}

impl Shared {
    /// Tells that a session waits for space.
    pub(crate) fn park(&self, key: &str, error: &journal::Error, next_look: Timestamp) {
        self.parked.send_modify(|all| {
            let since = all.get(key).map_or_else(|| self.clock.now(), |parked| parked.since);
            all.insert(key.to_owned(), DiskFullWait { error: error.clone(), since, next_look });
        });
    }

    /// Tells that a session waits no more.
    pub(crate) fn unpark(&self, key: &str) {
        self.parked.send_if_modified(|all| all.remove(key).is_some());
    }

    /// Where `read` finds the whole of an output: in the journal.
    pub(crate) fn outputs(&self) -> tools::Outputs {
        let journal = Arc::clone(&self.journal);
        tools::Outputs::new(move |hash| journal.body(hash).map_err(std::io::Error::other))
    }

    /// The record of a command is not needed once its result is synced. One that could not be ended is kept.
    pub(crate) fn forget(&self, settled: &CallSettled) {
        let (Some(effect), false) = (settled.effect, settled.outcome == CallOutcome::Unended) else { return };
        // What cannot be removed is a file too many, not a fault; most calls have no record at all.
        let _ = tools::forget(&self.calls(), effect);
    }

    /// The record of a process that is not listed any more.
    pub(crate) fn forget_process(&self, process: EffectId) {
        let _ = tools::forget_process(&self.calls(), process);
    }

    /// The folder of the records of commands.
    pub(crate) fn calls(&self) -> PathBuf {
        self.home.join("calls")
    }

    pub(crate) fn publish(&self, published: Published) {
        if let Some(events) = &self.events {
            // A subscriber that has gone away is not missed.
            let _ = events.send(published);
        }
    }

    /// Puts a question to the terminal; where there is none, gives the answer no.
    pub(crate) fn ask(&self, question: ApprovalRequest) -> Option<Command> {
        let ApprovalRequest { call, fingerprint, .. } = question;
        if self.questions.as_ref().is_some_and(|questions| questions.ask(question)) {
            return None;
        }
        let by =
            "it needs leave and there is no terminal to ask on; run with --yes, or set tools.exec.policy".to_owned();
        Some(Command::Answer { call, fingerprint, allow: false, by })
    }
}

/// The runtime of one home.
pub struct Runtime {
    shared: Arc<Shared>,
}

/// The way to a session. Its actor may leave while the session rests: what is sent next finds another one.
#[derive(Clone)]
pub struct Handle {
    /// Its key.
    pub key: String,
    agent: String,
    /// Whoever only knows a session keeps no runtime and no home.
    shared: Weak<Shared>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Handle {
    /// Asks for something; answered when it is recorded.
    pub async fn command(&self, command: Command) -> Result<Acknowledgement, Refusal> {
        self.send(command).await
    }

    /// Asks for something at once; the answer can be awaited later.
    pub fn send(&self, command: Command) -> impl Future<Output = Result<Acknowledgement, Refusal>> + use<> {
        let (caller, answer) = oneshot::channel();
        let offer = Offer::command(command, Some(caller));
        let sent = match self.shared.upgrade() {
            Some(shared) => enter(&shared, &self.key, &self.agent, vec![offer]),
            None => Err(Error::Leaving),
        };
        async move {
            read(sent?).await?;
            answer.await.map_err(|_| gone())?
        }
    }
}

impl Runtime {
    /// The runtime of a home whose journal this process owns.
    pub fn new(journal: Arc<dyn Journal>, options: Options) -> Self {
        let (commit_relay, notices) = mpsc::unbounded_channel();
        // A journal that cannot be read says so when a session is opened.
        let latest = journal.latest().unwrap_or_default();
        let shared = Shared {
            home: options.home,
            supervisor: options.supervisor,
            resolver: options.resolver,
            ledger: HomeLedger::read(journal.as_ref()),
            budget_pool: BudgetHandle::default(),
            journal,
            models: options.models,
            clock: Clock::after(latest),
            latest: Latest::default(),
            conversations: ConversationCache::default(),
            sessions: Sessions::default(),
            places: Places::new(options.idle),
            commit_relay,
            notices: Mutex::new(Some(notices)),
            events: options.events,
            questions: options.questions,
            lanes: LaneHandle::new(options.waits),
            broken: watch::Sender::new(None),
            parked: watch::Sender::new(BTreeMap::new()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.shared.journal
    }

    /// The configuration.
    pub fn resolver(&self) -> &dyn Resolver {
        self.shared.resolver.as_ref()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Takes up a session, or makes it. Its unfinished run goes on by itself. `first` is asked for in the same batch as
    /// the opening: before anything that the session would do by itself. Waits until the session is read.
    pub async fn open(&self, key: &str, agent: &str, first: Vec<Command>) -> Result<(Handle, Acknowledgements), Error> {
        let (offers, answers) = offers(first);
        read(enter(&self.shared, key, agent, offers)?).await?;
        let shared = Arc::downgrade(&self.shared);
        Ok((Handle { key: key.to_owned(), agent: agent.to_owned(), shared }, answers))
    }

    /// How many sessions have an actor just now.
    pub fn actors(&self) -> watch::Receiver<usize> {
        self.shared.sessions.count()
    }

    /// The store's failure, once there is one: nothing more will be acknowledged.
    pub fn broken(&self) -> watch::Receiver<Option<journal::Error>> {
        self.shared.broken.subscribe()
    }

    /// The runs that wait for their place in a lane, lane by lane, in the order of their turns.
    pub fn waits(&self) -> Vec<LaneWait> {
        self.shared.lanes.waits()
    }

    /// The sessions that wait for space, by key.
    pub fn parked(&self) -> watch::Receiver<BTreeMap<String, DiskFullWait>> {
        self.shared.parked.subscribe()
    }

    /// Why the ledger of this home could not be read to its end, if it could not: what it says after that of profiles is not known
    /// then, and what is found out is not kept.
    pub fn ledger_damage(&self) -> Option<&journal::Error> {
        self.shared.ledger.damage()
    }

    /// Puts a profile first among its provider's, or none; answered when it is recorded.
    pub async fn prefer_profile(&self, provider: &str, profile: Option<&str>) -> Result<(), Error> {
        let (provider, profile) = (provider.to_owned(), profile.map(str::to_owned));
        let prefer = move |ledger: &mut Ledger, now| ledger.prefer(&provider, profile.as_deref(), now);
        Ok(ledger::record(&self.shared, prefer).await?)
    }

    /// Lets the profiles of this provider and this name, or of any, be asked again, whatever failed. Gives what was left
    /// alone; answered when it is recorded.
    pub async fn clear_profiles(
        &self,
        provider: Option<String>,
        profile: Option<String>,
    ) -> Result<Vec<(Account, Cooldown)>, Error> {
        let clear = move |ledger: &mut Ledger, now| ledger.clear(provider.as_deref(), profile.as_deref(), now);
        Ok(ledger::record(&self.shared, clear).await?)
    }

    /// Says what all runs of an agent, or (none) of the home, may spend in a day; answered when it is recorded.
    pub async fn allow(&self, agent: Option<String>, change: Allowance) -> Result<(), Error> {
        ledger::record(&self.shared, move |ledger, now| ledger.allow(agent.as_deref(), change, now)).await?;
        self.shared.budget_pool.look_again();
        Ok(())
    }

    /// Takes up nothing new, and lets requests under way end within this time. What can be ended or answered still is.
    pub async fn drain(&self, within: Duration) {
        let mut actors = self.shared.sessions.count();
        self.shared.sessions.drain();
        // What is left after that time is closed by the shutdown that follows.
        let _ = tokio::time::timeout(within, actors.wait_for(|count| *count == 0)).await;
    }

    /// Leaves in order: streams are cut and sealed, commands are left to their supervisors, `Closed` is recorded.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.shared.sessions.drain();
        self.shared.sessions.close();
        // An actor reports its own end; a panic in it was caught there.
        let _ = self.shared.sessions.count().wait_for(|count| *count == 0).await;
        self.shared.models.settle(REFRESHES).await;
        match self.shared.broken.borrow().clone() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

/// Sends these to the session, which is taken up for it where nobody has it.
fn enter(shared: &Arc<Shared>, key: &str, agent: &str, offers: Vec<Offer>) -> Result<Reading, Error> {
    if let Some(error) = shared.broken.borrow().clone() {
        return Err(error.into());
    }
    let (reading, new) = shared.sessions.send(key, offers)?;
    if let Some(new) = new {
        if let Some(notices) = shared.notices.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(commit_relay::deliver(notices));
        }
        let name = Name { key: key.to_owned(), agent: agent.to_owned() };
        tokio::spawn(keep_running(Arc::clone(shared), name, new));
    }
    Ok(reading)
}

/// Waits until a session is read.
async fn read(mut reading: Reading) -> Result<(), Error> {
    let read = reading.wait_for(Option::is_some).await.map_err(|_| gone())?;
    read.clone().expect("waited for")
}

fn gone() -> Refusal {
    Refusal::Unavailable { reason: "the session has stopped".into() }
}

pub(crate) fn create(key: &str, agent: &str) -> Offer {
    let command = Command::Create {
        session: SessionId(Uuid::now_v7()),
        key: key.to_owned(),
        agent: agent.to_owned(),
        branch: BranchId(Uuid::now_v7()),
    };
    Offer::command(command, None)
}

/// One answer for each command that was asked for at the opening, in order.
pub type Acknowledgements = Vec<oneshot::Receiver<Result<Acknowledgement, Refusal>>>;

fn offers(commands: Vec<Command>) -> (Vec<Offer>, Acknowledgements) {
    let pairs = commands.into_iter().map(|command| {
        let (caller, answer) = oneshot::channel();
        (Offer::command(command, Some(caller)), answer)
    });
    pairs.unzip()
}
