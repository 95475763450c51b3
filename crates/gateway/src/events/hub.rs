//! One task that hears everything that is recorded: it tells subscribers, and whoever waits for the end of a run. Each line
//! is encoded once and its bytes are shared; a subscriber that does not read is dropped with its cursor, and nobody waits
//! for it. What may not live here: what a line says, and what was missed of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::{Batch, Event, MessageId, ReceiptState, RunEnded, RunId, Timestamp};
use protocol::notice::{Dropped, Stand};
use runtime::{LaneUpdate, Published};
use tokio::sync::{mpsc, oneshot, watch};

use super::place::BatchPosition;
use super::subscription::{Encoded, Subscription, Target};
use super::{Chats, Line, Lines, StreamPosition};
use crate::approvals::Approvals;
use crate::connection::{Caller, Slow};
use crate::error::Error;

/// Subscriptions of one client: more than a person or a page looks at.
const SUBSCRIPTIONS: usize = 256;

/// How a run came to its end.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// It ran.
    Ran {
        /// What its end was recorded with.
        batch: Arc<Batch>,
        /// When.
        at: Timestamp,
        /// How.
        ended: Box<RunEnded>,
    },
    /// Its message came to an end before it began.
    NeverBegan {
        /// What became of the message.
        state: ReceiptState,
        /// When.
        at: Timestamp,
    },
}

/// Who is told of what is recorded.
pub(crate) struct Hub {
    told: Mutex<Told>,
    /// Changes whenever something was recorded.
    observed: watch::Sender<()>,
    ending: mpsc::UnboundedSender<Ended>,
}

/// Told when all is told that was recorded before, and nothing more will be.
pub(crate) type Ended = oneshot::Sender<()>;

#[derive(Default)]
struct Told {
    waiting: HashMap<RunId, Vec<(u64, oneshot::Sender<End>)>>,
    last_wait: u64,
    /// The runs that took along what is waited for, by the number of the wait.
    taken: HashMap<u64, RunId>,
    /// By client and number.
    subscriptions: BTreeMap<(u64, u64), Subscription>,
}

/// The place of one that waits for the end of a run.
pub(crate) struct Waiting<'a> {
    hub: &'a Hub,
    run: RunId,
    number: u64,
    end: oneshot::Receiver<End>,
}

impl Hub {
    /// A hub, and what its task hears of it.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Ended>) {
        let (ending, ended) = mpsc::unbounded_channel();
        (Self { told: Mutex::default(), observed: watch::Sender::new(()), ending }, ended)
    }

    /// Hears everything until it is ended, or the runtime is gone.
    pub(crate) async fn run(
        self: Arc<Self>,
        (mut published, mut ending): (mpsc::UnboundedReceiver<Published>, mpsc::UnboundedReceiver<Ended>),
        mut waits: mpsc::UnboundedReceiver<LaneUpdate>,
        mut lines: Lines,
        asks: Arc<Approvals>,
    ) {
        loop {
            tokio::select! {
                biased;
                batch = published.recv() => {
                    let Some(batch) = batch else { return };
                    asks.observe(&batch);
                    // Who begins to listen from here on finds the batch in the journal.
                    let told = if self.has_listener(&batch.key) { lines.of(&batch) } else {
                        lines.pass_over(&batch);
                        vec![]
                    };
                    self.observe(&batch, told);
                }
                // After what was recorded before it.
                Some(news) = waits.recv() => {
                    let session = news.session();
                    if let Some(line) = self.has_listener(session).then(|| lines.of_wait(&news)).flatten() {
                        self.lock().notify(line);
                    }
                }
                // Taken only where nothing that was recorded before waits.
                Some(ended) = ending.recv() => {
                    // The home has another owner from here on: nothing of it is kept.
                    drop(lines);
                    let _ = ended.send(());
                    return;
                }
            }
        }
    }

    /// Ends it when everything is told that was recorded by now.
    pub(crate) async fn drain(&self) {
        let (ended, told) = oneshot::channel();
        if self.ending.send(ended).is_ok() {
            let _ = told.await;
        }
    }

    /// Changes whenever something is recorded: whoever waits for what the journal tells looks there again.
    pub(crate) fn observed(&self) -> watch::Receiver<()> {
        self.observed.subscribe()
    }

    /// Begins to wait for the end of a run. What ended before is in the journal: look there after this.
    pub(crate) fn wait_for(&self, run: RunId) -> Waiting<'_> {
        let mut told = self.lock();
        told.last_wait += 1;
        let number = told.last_wait;
        let (tell, end) = oneshot::channel();
        told.waiting.entry(run).or_default().push((number, tell));
        Waiting { hub: self, run, number, end }
    }

    /// Begins a subscription, of which nobody is told anything yet.
    pub(crate) fn begin(&self, caller: &Arc<Caller>, number: u64, target: Target, numbers: &str) -> Result<(), Error> {
        let mut told = self.lock();
        if told.subscriptions.range((caller.number, 0)..=(caller.number, u64::MAX)).count() >= SUBSCRIPTIONS {
            let what = format!("{SUBSCRIPTIONS} subscriptions are open on this connection");
            return Err(Error::State { what, hint: "end one with `events.unsubscribe` first".to_owned() });
        }
        let subscription = Subscription::new(Arc::downgrade(caller), number, target, numbers);
        told.subscriptions.insert((caller.number, number), subscription);
        Ok(())
    }

    /// A subscription is told chat, which goes on from these.
    pub(crate) fn chat(&self, caller: u64, number: u64, chats: Chats) {
        if let Some(subscription) = self.lock().subscriptions.get_mut(&(caller, number)) {
            subscription.chat(chats);
        }
    }

    /// What happens from here on is kept for a subscription until it has caught up: what it reads in the journal from here
    /// on holds all that was recorded before.
    pub(crate) fn keep(&self, caller: u64, number: u64) {
        if let Some(subscription) = self.lock().subscriptions.get_mut(&(caller, number)) {
            subscription.keep();
        }
    }

    /// A subscription begins at this cursor; gives it as its own.
    pub(crate) fn begin_at(&self, caller: u64, number: u64, cursor: &str) -> String {
        let mut told = self.lock();
        told.subscriptions.get_mut(&(caller, number)).map_or_else(String::new, |of| of.begin_at(cursor).to_owned())
    }

    /// Sends what was missed, as fast as the client reads it. Says whether the subscription is still there.
    pub(crate) async fn send(&self, caller: &Caller, number: u64, lines: &[Line]) -> bool {
        let place = (caller.number, number);
        for line in lines {
            caller.outbox.room().await;
            let encoded = Encoded::of(line);
            let mut told = self.lock();
            let Some(subscription) = told.subscriptions.get_mut(&place) else { return false };
            if subscription.send(&caller.outbox, line, &encoded) == Err(Slow) {
                told.drop_slow(caller);
                return false;
            }
        }
        true
    }

    /// A subscription has caught up: it is sent what was kept meanwhile; from there on it is live.
    pub(crate) fn go_live(&self, caller: &Caller, number: u64, position: StreamPosition) {
        let mut told = self.lock();
        let subscription = told.subscriptions.get_mut(&(caller.number, number));
        let went = subscription.map(|subscription| subscription.go_live(&caller.outbox, position));
        if went == Some(Err(Slow)) {
            told.drop_slow(caller);
        }
    }

    /// The client does not read as fast as things happen: it is told where each of its subscriptions stands, and closed.
    pub(crate) fn drop_slow(&self, caller: &Caller) {
        self.lock().drop_slow(caller);
    }

    /// Ends a subscription; says whether there was one.
    pub(crate) fn end(&self, caller: u64, number: u64) -> bool {
        self.lock().subscriptions.remove(&(caller, number)).is_some()
    }

    /// Ends all of a client that is gone.
    pub(crate) fn forget(&self, caller: u64) {
        self.lock().subscriptions.retain(|(of, _), _| *of != caller);
    }

    fn has_listener(&self, session: &str) -> bool {
        self.lock().subscriptions.values().any(|subscription| subscription.listens_to(session))
    }

    fn observe(&self, published: &Published, lines: Vec<Line>) {
        let mut told = self.lock();
        lines.into_iter().for_each(|line| told.notify(line));
        let batch = BatchPosition::of(published);
        told.subscriptions.values_mut().for_each(|subscription| subscription.pass(&batch));
        // After its lines: whoever is answered has been told all of the run.
        for record in &published.batch.records {
            let (run, end) = match &record.event {
                Event::RunEnded(ended) => {
                    let (batch, ended) = (Arc::clone(&published.batch), Box::new(ended.clone()));
                    (ended.run, End::Ran { batch, at: record.at, ended })
                }
                Event::MessageSettled(e) if e.run.is_none() && is_over(e.state) => {
                    (RunId::from(e.message), End::NeverBegan { state: e.state, at: record.at })
                }
                Event::MessageSettled(e) => {
                    told.take_along(e.message, &published.batch);
                    continue;
                }
                _ => continue,
            };
            for (_, waits) in told.waiting.remove(&run).unwrap_or_default() {
                // Whoever waits no more is not told.
                let _ = waits.send(end.clone());
            }
        }
        if self.observed.receiver_count() > 0 {
            self.observed.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    /// A run takes a message that it did not start: whoever waits for the message waits for that run from here on.
    fn take_along(&mut self, message: MessageId, batch: &Batch) {
        let receipt = batch.views.receipts.iter().find(|receipt| receipt.message == message);
        let own = RunId::from(message);
        let Some(run) = receipt.map(|receipt| receipt.run).filter(|run| *run != own) else { return };
        let waits = self.waiting.remove(&own).unwrap_or_default();
        if !waits.is_empty() {
            self.taken.extend(waits.iter().map(|(number, _)| (*number, run)));
            self.waiting.entry(run).or_default().extend(waits);
        }
    }

    fn notify(&mut self, line: Line) {
        let (mut encoded, mut slow) = (None, vec![]);
        let line = Arc::new(line);
        for subscription in self.subscriptions.values_mut().filter(|subscription| subscription.wants(&line)) {
            let Some(caller) = subscription.caller.upgrade() else { continue };
            let encoded = encoded.get_or_insert_with(|| Encoded::of(&line));
            if subscription.observe(&caller.outbox, &line, encoded) == Err(Slow) {
                slow.push(caller);
            }
        }
        for caller in slow {
            self.drop_slow(&caller);
        }
    }

    /// The client is told where each of its subscriptions stands, and nothing more.
    fn drop_slow(&mut self, caller: &Caller) {
        let mut subscriptions = vec![];
        self.subscriptions.retain(|(of, number), subscription| {
            if *of == caller.number {
                subscriptions.push(Stand { subscription: *number, cursor: subscription.cursor().to_owned() });
            }
            *of != caller.number
        });
        caller.drop_slow(&Dropped { subscriptions });
    }
}

impl Waiting<'_> {
    /// What is waited for.
    pub(crate) fn run(&self) -> RunId {
        self.run
    }

    /// The end, when it comes; none if it will not come from this owner.
    pub(crate) async fn end(mut self) -> Option<End> {
        (&mut self.end).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut told = self.hub.lock();
        // One that was taken along waits under another run by now.
        for run in [self.run].into_iter().chain(told.taken.remove(&self.number)) {
            if let Some(waiting) = told.waiting.get_mut(&run) {
                waiting.retain(|(number, _)| *number != self.number);
                if waiting.is_empty() {
                    told.waiting.remove(&run);
                }
            }
        }
    }
}

/// Whether no run will answer a message in this state.
pub(crate) fn is_over(state: ReceiptState) -> bool {
    matches!(state, ReceiptState::Dropped | ReceiptState::Cancelled | ReceiptState::Refused)
}

/// For the subscriptions of one client.
pub(crate) type Whose = Weak<Caller>;
