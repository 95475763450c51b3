//! The table of lanes, driven: who asks waits here until it is let in, and whoever listens is told of the wait. What may
//! not live here: who is let in and when, which the engine's table says.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Lane, LaneAnswer, LaneRequest, LaneWait, Lanes, RunId, Session, Timestamp};
use tokio::sync::{mpsc, oneshot};

use crate::runtime::Shared;

/// A wait that takes longer is told of once more (R35).
const LONG_WAIT: Duration = Duration::from_secs(2);

/// What is told of a run that waits for its place in a lane. It is in no journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneUpdate {
    /// It waits: told when the wait begins, and again when it is a long one.
    Waits {
        /// Behind whom, and since when.
        wait: LaneWait,
        /// When this was so.
        at: Timestamp,
    },
    /// It has its place.
    Entered {
        /// Who.
        request: LaneRequest,
        /// Since when it waited.
        since: Timestamp,
        /// When it was let in.
        at: Timestamp,
    },
}

impl LaneUpdate {
    /// The key of the session that it is about.
    pub fn session(&self) -> &str {
        match self {
            Self::Waits { wait: LaneWait { request, .. }, .. } | Self::Entered { request, .. } => &request.session,
        }
    }
}

/// The lanes of a home.
pub(crate) struct LaneHandle {
    inside: Mutex<Inside>,
    update: Option<mpsc::UnboundedSender<LaneUpdate>>,
}

#[derive(Default)]
struct Inside {
    lanes: Lanes,
    /// How each that waits is told that it is in.
    waiting: BTreeMap<RunId, oneshot::Sender<()>>,
}

/// A run's turn: it has its place, or will have it. Dropped before it has come, the run asks no more.
pub(crate) struct LaneTicket {
    shared: Arc<Shared>,
    request: LaneRequest,
    since: Timestamp,
    /// None once it is in.
    entered: Option<oneshot::Receiver<()>>,
    has_come: bool,
}

impl fmt::Debug for LaneTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneTicket").field("wish", &self.request).finish_non_exhaustive()
    }
}

/// Comes when a run has its place. Dropped before, the run asks no more.
pub(crate) type LaneAdmission = Pin<Box<dyn Future<Output = ()> + Send>>;

impl LaneHandle {
    pub(crate) fn new(update: Option<mpsc::UnboundedSender<LaneUpdate>>) -> Self {
        Self { inside: Mutex::default(), update }
    }

    /// A run needs its place no more: the next one has it.
    pub(crate) fn leave(&self, run: RunId) {
        let mut inside = self.lock();
        inside.waiting.remove(&run);
        let entered = inside.lanes.leave(run);
        inside.let_in(&entered);
    }

    /// Those that wait.
    pub(crate) fn waits(&self) -> Vec<LaneWait> {
        self.lock().lanes.waits()
    }

    fn notify(&self, update: LaneUpdate) {
        if let Some(listener) = &self.update {
            // Who has gone away is not missed.
            let _ = listener.send(update);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn let_in(&mut self, runs: &[RunId]) {
        for run in runs {
            if let Some(waits) = self.waiting.remove(run) {
                // One that has just been given up leaves by itself.
                let _ = waits.send(());
            }
        }
    }
}

impl Shared {
    /// Asks for a place; first come, first served. A run that has one keeps it.
    pub(crate) fn ask_lane(self: &Arc<Self>, run: RunId, of: Of<'_>) -> LaneTicket {
        let (request, since) = (of.request(run), self.clock.now());
        let mut inside = self.open_lanes();
        let entered = match inside.lanes.ask(request.clone(), since) {
            LaneAnswer::Entered => None,
            LaneAnswer::Waits => {
                let (sender, entered) = oneshot::channel();
                inside.waiting.insert(run, sender);
                Some(entered)
            }
        };
        LaneTicket { shared: Arc::clone(self), request, since, entered, has_come: false }
    }

    /// Takes a place if one is free now.
    pub(crate) fn enter_free_lane(&self, run: RunId, of: Of<'_>) -> bool {
        self.open_lanes().lanes.enter_free(&of.request(run))
    }

    /// A place for a run that a human took up again; it does not wait for one.
    pub(crate) fn keep_lane(&self, run: RunId, of: Of<'_>) {
        let mut inside = self.lanes.lock();
        inside.lanes.take_again(of.request(run));
        inside.let_in(&[run]);
    }

    /// The lanes as the configuration bounds them now.
    fn open_lanes(&self) -> MutexGuard<'_, Inside> {
        let bounds = self.resolver.lanes();
        let mut inside = self.lanes.lock();
        let entered = inside.lanes.set_bounds(bounds);
        inside.let_in(&entered);
        inside
    }
}

impl LaneTicket {
    /// Whose turn it is.
    pub(crate) fn run(&self) -> RunId {
        self.request.run
    }

    /// Waits until it has its place, and leaves it there.
    pub(crate) async fn come(mut self) {
        if let Some(mut entered) = self.entered.take() {
            self.notify_wait();
            let is_in = tokio::select! {
                biased;
                is_in = &mut entered => is_in,
                () = tokio::time::sleep(LONG_WAIT) => {
                    self.notify_wait();
                    entered.await
                }
            };
            if is_in.is_err() {
                // Its place was given up for it: whoever did so ends this wait as well.
                return std::future::pending().await;
            }
            let (request, since, at) = (self.request.clone(), self.since, self.shared.clock.now());
            self.shared.lanes.notify(LaneUpdate::Entered { request, since, at });
        }
        self.has_come = true;
    }

    fn notify_wait(&self) {
        let wait = self.shared.lanes.lock().lanes.wait_of(self.request.run);
        if let Some(wait) = wait {
            self.shared.lanes.notify(LaneUpdate::Waits { wait, at: self.shared.clock.now() });
        }
    }
}

impl Drop for LaneTicket {
    fn drop(&mut self) {
        if !self.has_come {
            self.shared.lanes.leave(self.request.run);
        }
    }
}

/// Whose run asks: the key of its session, and its agent.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) session: &'a str,
    pub(crate) agent: &'a str,
}

impl<'a> From<&'a Session> for Of<'a> {
    fn from(session: &'a Session) -> Self {
        Self { session: &session.key, agent: &session.agent }
    }
}

impl Of<'_> {
    /// Everything that is run today was sent as a message.
    fn request(self, run: RunId) -> LaneRequest {
        LaneRequest { run, session: self.session.into(), agent: self.agent.into(), lane: Lane::Main }
    }
}
