//! Drives the table of lanes: a run waits here until it may start, and listeners are notified of the wait. The engine's
//! table decides who starts and when.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::{Lane, LaneAnswer, LaneRequest, LaneWait, Lanes, RunId, Session, Timestamp};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::runtime::Shared;

/// A wait longer than this is reported once more (R35).
const LONG_WAIT: Duration = Duration::from_secs(2);

/// What is reported of a run that waits for a lane. It is in no journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneUpdate {
    /// It waits: reported when the wait begins, and again when it is long.
    Waits {
        /// What it waits behind, and since when.
        wait: LaneWait,
        /// The time of the report.
        at: Timestamp,
    },
    /// It has its slot.
    Entered {
        /// The run and its session.
        request: LaneRequest,
        /// Since when it waited.
        since: Timestamp,
        /// When it got the slot.
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
    /// Notified when closed lanes are opened.
    opened: Notify,
    update: Option<mpsc::UnboundedSender<LaneUpdate>>,
}

struct Inside {
    lanes: Lanes,
    /// Notifies each waiting run that it may start.
    waiting: BTreeMap<RunId, oneshot::Sender<()>>,
}

/// A run's ticket: it has a slot, or will get one. Dropping a waiting ticket withdraws the request.
pub(crate) struct LaneTicket {
    shared: Arc<Shared>,
    request: LaneRequest,
    since: Timestamp,
    /// `None` once it has the slot.
    entered: Option<oneshot::Receiver<()>>,
    is_admitted: bool,
}

impl fmt::Debug for LaneTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneTicket").field("request", &self.request).finish_non_exhaustive()
    }
}

/// Completes when the run has a slot. Dropping it earlier withdraws the request.
pub(crate) type LaneAdmission = Pin<Box<dyn Future<Output = ()> + Send>>;

impl LaneHandle {
    /// If they are closed, no run starts until they are opened.
    pub(crate) fn new(update: Option<mpsc::UnboundedSender<LaneUpdate>>, closed: bool) -> Self {
        let lanes = if closed { Lanes::closed() } else { Lanes::default() };
        Self { inside: Mutex::new(Inside { lanes, waiting: BTreeMap::new() }), opened: Notify::new(), update }
    }

    /// Waits until runs start.
    pub(crate) async fn runs_started(&self) {
        let opened = self.opened.notified();
        if self.lock().lanes.are_closed() {
            opened.await;
        }
    }

    /// Runs start from now on.
    pub(crate) fn open(&self) {
        self.open_then(|_| {});
    }

    /// The same, and `then` without a moment in between.
    fn open_then(&self, then: impl FnOnce(&mut Lanes)) {
        let mut inside = self.lock();
        let entered = inside.lanes.open();
        then(&mut inside.lanes);
        inside.admit(&entered);
        drop(inside);
        self.opened.notify_waiters();
    }

    /// No run starts any more as soon as this one has ended. Until then they do.
    pub(crate) fn close_after(&self, run: RunId) {
        self.open_then(|lanes| lanes.close_after(run));
    }

    /// Whether no run starts.
    pub(crate) fn are_closed(&self) -> bool {
        self.lock().lanes.are_closed()
    }

    /// Frees the slot of a run for the next one.
    pub(crate) fn leave(&self, run: RunId) {
        let mut inside = self.lock();
        inside.waiting.remove(&run);
        let entered = inside.lanes.leave(run);
        inside.admit(&entered);
    }

    /// A run has ended: its slot is free for the next one.
    pub(crate) fn end(&self, run: RunId) {
        let mut inside = self.lock();
        inside.waiting.remove(&run);
        let entered = inside.lanes.end(run);
        inside.admit(&entered);
    }

    /// The waiting runs.
    pub(crate) fn waits(&self) -> Vec<LaneWait> {
        self.lock().lanes.waits()
    }

    fn notify(&self, update: LaneUpdate) {
        if let Some(listener) = &self.update {
            // A receiver that is gone is skipped.
            let _ = listener.send(update);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn admit(&mut self, runs: &[RunId]) {
        for run in runs {
            if let Some(waits) = self.waiting.remove(run) {
                // A ticket that was just dropped leaves by itself.
                let _ = waits.send(());
            }
        }
    }
}

impl Shared {
    /// Requests a slot, first come, first served. A run that has one keeps it.
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
        LaneTicket { shared: Arc::clone(self), request, since, entered, is_admitted: false }
    }

    /// Takes a slot if one is free now.
    pub(crate) fn enter_free_lane(&self, run: RunId, of: Of<'_>) -> bool {
        self.open_lanes().lanes.enter_free(&of.request(run))
    }

    /// Takes a slot for a run that a human resumed; it does not wait.
    pub(crate) fn keep_lane(&self, run: RunId, of: Of<'_>) {
        let mut inside = self.lanes.lock();
        let entered = inside.lanes.take_again(of.request(run));
        inside.admit(&[run]);
        inside.admit(&entered);
    }

    /// The lanes with the current limits of the configuration.
    fn open_lanes(&self) -> MutexGuard<'_, Inside> {
        let bounds = self.resolver.lanes();
        let mut inside = self.lanes.lock();
        let entered = inside.lanes.set_bounds(bounds);
        inside.admit(&entered);
        inside
    }
}

impl LaneTicket {
    /// The request of this ticket.
    pub(crate) fn run(&self) -> RunId {
        self.request.run
    }

    /// Waits until it has a slot, and keeps it.
    pub(crate) async fn admitted(mut self) {
        if let Some(mut entered) = self.entered.take() {
            // A run that is held waits for no slot.
            let is_held = self.shared.lanes.lock().lanes.are_closed();
            if !is_held {
                self.notify_wait();
            }
            let admitted = tokio::select! {
                biased;
                admitted = &mut entered => admitted,
                () = tokio::time::sleep(LONG_WAIT), if !is_held => {
                    self.notify_wait();
                    entered.await
                }
            };
            if admitted.is_err() {
                // Its request was withdrawn, and whoever withdrew it ends this wait as well.
                return std::future::pending().await;
            }
            if !is_held {
                let (request, since, at) = (self.request.clone(), self.since, self.shared.clock.now());
                self.shared.lanes.notify(LaneUpdate::Entered { request, since, at });
            }
        }
        self.is_admitted = true;
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
        if !self.is_admitted {
            self.shared.lanes.leave(self.request.run);
        }
    }
}

/// The owner of a request: the key of its session, and its agent.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) session: &'a str,
    pub(crate) agent: &'a str,
}

impl<'a> From<&'a Session> for Of<'a> {
    fn from(session: &'a Session) -> Self {
        Self { session: &session.account.key, agent: &session.account.agent }
    }
}

impl Of<'_> {
    /// Every run today starts from a message.
    fn request(self, run: RunId) -> LaneRequest {
        LaneRequest { run, session: self.session.into(), agent: self.agent.into(), lane: Lane::Main }
    }
}
