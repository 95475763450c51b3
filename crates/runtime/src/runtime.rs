//! The runtime of a home: opens sessions, hands out lanes, tells subscribers, shuts down in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Answer, Batch, BranchId, CallId, CallOutcome, CallSettled, Candidate, Command, EffectId, Epoch, Failure, Flags,
    Hash, Overrides, Refusal, Report, RunId, SessionId, Settings, Timestamp,
};
use journal::Journal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::actor::{Mailboxes, Offer};
use crate::clock::Clock;
use crate::keep::{Name, keep_running};
use crate::latest::Latest;
use crate::park::Parked;
use crate::post::{self, Letter};
use crate::recovered::{Recovered, recover};
use crate::resting::Resting;

/// What the configuration gives when it is needed, and not before.
pub trait Resolver: Send + Sync {
    /// The settings of a run that starts now. A failure ends that run, and is what its user reads.
    fn settings(&self, agent: &str, model: Option<&str>, overrides: &Overrides) -> Result<Settings, Failure>;

    /// Where a candidate is served, with its key.
    fn endpoint(&self, candidate: &Candidate) -> Result<models::Endpoint, Failure>;

    /// What a call that begins now may not see or reach.
    fn withheld(&self) -> Withheld {
        Withheld::default()
    }
}

/// What calls may not see or reach.
#[derive(Debug, Clone, Default)]
pub struct Withheld {
    /// Values that are masked in what tools give back.
    pub secrets: tools::Secrets,
    /// Environment variables that commands do not get.
    pub secret_env: Vec<String>,
    /// Which addresses may be fetched from.
    pub reach: tools::Reach,
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
    /// How many runs may be under way at once.
    pub lane: usize,
    /// Who is told of every committed batch.
    pub events: Option<mpsc::UnboundedSender<Published>>,
    /// Who can be asked; without it every question is answered no.
    pub questions: Option<mpsc::UnboundedSender<Question>>,
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
    /// The lifecycle after it.
    pub lifecycle: LifecycleKind,
    /// The run state after it.
    pub run_state: RunState,
    /// The flags after it.
    pub flags: Flags,
}

/// A call that needs leave.
#[derive(Debug, Clone)]
pub struct Question {
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
#[derive(Debug, thiserror::Error)]
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
    pub(crate) resting: Resting,
    /// Where the journal's answers go.
    pub(crate) post: mpsc::UnboundedSender<Letter>,
    events: Option<mpsc::UnboundedSender<Published>>,
    questions: Option<mpsc::UnboundedSender<Question>>,
    lane: Arc<Semaphore>,
    in_lane: Mutex<BTreeMap<RunId, OwnedSemaphorePermit>>,
    pub(crate) broken: watch::Sender<Option<journal::Error>>,
    parked: watch::Sender<BTreeMap<String, Parked>>,
}

impl Shared {
    /// Waits for a place; first come, first served. A run that has one keeps it.
    pub(crate) async fn enter_lane(&self, run: RunId) {
        if self.in_lane.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&run) {
            return;
        }
        let permit = Arc::clone(&self.lane).acquire_owned().await.expect("the lane is never closed");
        self.in_lane.lock().unwrap_or_else(PoisonError::into_inner).insert(run, permit);
    }

    /// Takes a place if one is free now.
    pub(crate) fn enter_free_lane(&self, run: RunId) -> bool {
        let Ok(permit) = Arc::clone(&self.lane).try_acquire_owned() else { return false };
        self.in_lane.lock().unwrap_or_else(PoisonError::into_inner).insert(run, permit);
        true
    }

    pub(crate) fn leave_lane(&self, run: RunId) {
        self.in_lane.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
    }

    /// Tells that a session waits for space.
    pub(crate) fn park(&self, key: &str, error: &journal::Error, next_look: Timestamp) {
        self.parked.send_modify(|all| {
            let since = all.get(key).map_or_else(|| self.clock.now(), |parked| parked.since);
            all.insert(key.to_owned(), Parked { error: error.clone(), since, next_look });
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
    pub(crate) fn ask(&self, question: Question) -> Option<Command> {
        let Question { call, fingerprint, .. } = question;
        if let Some(questions) = &self.questions
            && questions.send(question).is_ok()
        {
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
    sessions: BTreeMap<String, Handle>,
    actors: Vec<JoinHandle<()>>,
    /// What the post delivers, until the first actor starts it.
    letters: Option<mpsc::UnboundedReceiver<Letter>>,
}

/// A session that is open.
#[derive(Debug, Clone)]
pub struct Handle {
    /// Its key.
    pub key: String,
    control: mpsc::UnboundedSender<Offer>,
}

impl Handle {
    /// Asks for something; answered when it is recorded.
    pub async fn command(&self, command: Command) -> Result<Answer, Refusal> {
        self.send(command).await
    }

    /// Asks for something at once; the answer can be awaited later.
    pub fn send(&self, command: Command) -> impl Future<Output = Result<Answer, Refusal>> + use<> {
        let (caller, answer) = oneshot::channel();
        let _ = self.control.send(Offer { input: command.into(), caller: Some(caller) });
        async move {
            let gone = || Refusal::Unavailable { reason: "the session has stopped".into() };
            answer.await.map_err(|_| gone())?
        }
    }
}

impl Runtime {
    /// The runtime of a home whose journal this process owns.
    pub fn new(journal: Arc<dyn Journal>, options: Options) -> Self {
        let (post, letters) = mpsc::unbounded_channel();
        // A journal that cannot be read says so when a session is opened.
        let latest = journal.latest().unwrap_or_default();
        let shared = Shared {
            home: options.home,
            supervisor: options.supervisor,
            resolver: options.resolver,
            journal,
            models: options.models,
            clock: Clock::after(latest),
            latest: Latest::default(),
            resting: Resting::default(),
            post,
            events: options.events,
            questions: options.questions,
            lane: Arc::new(Semaphore::new(options.lane.max(1))),
            in_lane: Mutex::new(BTreeMap::new()),
            broken: watch::Sender::new(None),
            parked: watch::Sender::new(BTreeMap::new()),
        };
        Self { shared: Arc::new(shared), sessions: BTreeMap::new(), actors: vec![], letters: Some(letters) }
    }

    /// The journal.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.shared.journal
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Takes up a session, or makes it. Its unfinished run goes on by itself. `first` is asked for in the same batch as
    /// the opening: before anything that the session would do by itself.
    pub fn open(&mut self, key: &str, agent: &str, first: Vec<Command>) -> Result<(Handle, Answers), Error> {
        let (offers, answers) = offers(first);
        if let Some(handle) = self.sessions.get(key) {
            for offer in offers {
                let _ = handle.control.send(offer);
            }
            return Ok((handle.clone(), answers));
        }
        let recovered = self.recover(key)?;
        let mut beginning = vec![];
        if recovered.machine.session().is_none() {
            beginning.push(create(key, agent));
        }
        beginning.push(Offer::report(Report::Opened { epoch: self.shared.journal.epoch() }));
        beginning.extend(offers);
        let handle = self.start(key, agent, recovered, beginning);
        Ok((handle, answers))
    }

    /// The store's failure, once there is one: nothing more will be acknowledged.
    pub fn broken(&self) -> watch::Receiver<Option<journal::Error>> {
        self.shared.broken.subscribe()
    }

    /// The sessions that wait for space, by key.
    pub fn parked(&self) -> watch::Receiver<BTreeMap<String, Parked>> {
        self.shared.parked.subscribe()
    }

    /// Leaves in order: streams are cut and sealed, commands are left to their supervisors, `Closed` is recorded.
    pub async fn shutdown(self) -> Result<(), Error> {
        for handle in self.sessions.values() {
            let _ = handle.control.send(Offer::report(Report::Closing));
        }
        for actor in self.actors {
            // An actor reports its own end; a panic in it was caught there.
            let _ = actor.await;
        }
        match self.shared.broken.borrow().clone() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn recover(&self, key: &str) -> Result<Recovered, Error> {
        let Some(row) = self.shared.journal.session(key)? else { return Ok(Recovered::default()) };
        recover(self.shared.journal.as_ref(), key, row.branch)
    }

    fn start(&mut self, key: &str, agent: &str, recovered: Recovered, beginning: Vec<Offer>) -> Handle {
        if let Some(letters) = self.letters.take() {
            tokio::spawn(post::deliver(letters));
        }
        let (control, control_in) = mpsc::unbounded_channel();
        let (data, data_in) = mpsc::channel(MAILBOX);
        let handle = Handle { key: key.to_owned(), control };
        let mail = Mailboxes { control: control_in, data: data_in, reports: data };
        let name = Name { key: key.to_owned(), agent: agent.to_owned() };
        self.actors.push(tokio::spawn(keep_running(Arc::clone(&self.shared), name, mail, recovered, beginning)));
        self.sessions.insert(key.to_owned(), handle.clone());
        handle
    }
}

/// Reports that may wait in a session's mailbox before their senders do.
const MAILBOX: usize = 256;

pub(crate) fn create(key: &str, agent: &str) -> Offer {
    let command = Command::Create {
        session: SessionId(Uuid::now_v7()),
        key: key.to_owned(),
        agent: agent.to_owned(),
        branch: BranchId(Uuid::now_v7()),
    };
    Offer { input: command.into(), caller: None }
}

/// One answer for each command that was asked for at the opening, in order.
type Answers = Vec<oneshot::Receiver<Result<Answer, Refusal>>>;

fn offers(commands: Vec<Command>) -> (Vec<Offer>, Answers) {
    let pairs = commands.into_iter().map(|command| {
        let (caller, answer) = oneshot::channel();
        (Offer { input: command.into(), caller: Some(caller) }, answer)
    });
    pairs.unzip()
}
