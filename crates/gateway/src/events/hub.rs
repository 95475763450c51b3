//! The task that receives every commit notice, and notifies subscribers and waiters for the end of a run. Each line is
//! encoded once and its bytes are shared. A subscriber that does not read is dropped with its cursor, so it delays
//! nobody.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::{Batch, CallId, Event, MessageId, ReceiptState, RunEnded, RunId, Timestamp};
use protocol::limits::OFF_THREAD_BYTES;
use protocol::notice::{Dropped, Stand};
use runtime::{DiskFullWait, LaneUpdate, Published};
use telemetry::Telemetry;
use tokio::sync::{mpsc, oneshot, watch};
use views::events::BatchPosition;
use views::events::text_bytes;
use views::events::{Chats, Line, Lines, StreamPosition};

use super::short_runs::ShortRuns;
use super::subscription::{Encoded, Subscription, Target};
use crate::approvals::Approvals;
use crate::connection::{Caller, Slow};
use crate::error::Error;

/// Subscriptions of one client: more than a person or a page looks at.
const SUBSCRIPTIONS: usize = 256;

/// The sessions that wait for space on the disk, by key.
type DiskFullWaits = BTreeMap<String, DiskFullWait>;

/// How a run ended.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// The run started and ended.
    Ran {
        /// All batches of the run if it was short, else `None`.
        batches: Option<Arc<[Arc<Batch>]>>,
        at: Timestamp,
        ended: Box<RunEnded>,
    },
    /// The message was settled before its run started.
    NeverBegan {
        /// The final state of the message.
        state: ReceiptState,
        at: Timestamp,
    },
}

/// The subscribers and waiters of an owner.
pub(crate) struct Hub {
    subscribers: Mutex<Subscribers>,
    /// Changes with every commit.
    observed: watch::Sender<()>,
    ending: mpsc::UnboundedSender<Ended>,
}

/// Notified when every earlier batch is delivered and no further one will come.
pub(crate) type Ended = oneshot::Sender<()>;

#[derive(Default)]
struct Subscribers {
    waiting: HashMap<RunId, Vec<(u64, oneshot::Sender<End>)>>,
    last_wait: u64,
    /// The runs that took the awaited messages, by the number of the wait.
    taken: HashMap<u64, RunId>,
    /// The awaited runs that are short.
    short: ShortRuns,
    /// Subscribers by client and number.
    subscriptions: BTreeMap<(u64, u64), Subscription>,
}

/// A waiter for the end of a run.
pub(crate) struct Waiting<'a> {
    hub: &'a Hub,
    run: RunId,
    number: u64,
    end: oneshot::Receiver<End>,
}

impl Hub {
    /// A hub and the channel from which its task receives.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Ended>) {
        let (ending, ended) = mpsc::unbounded_channel();
        (Self { subscribers: Mutex::default(), observed: watch::Sender::new(()), ending }, ended)
    }

    /// Processes commit notices until the hub is drained or the runtime is gone.
    pub(crate) async fn run(
        self: Arc<Self>,
        (mut published, mut ending): (mpsc::UnboundedReceiver<Published>, mpsc::UnboundedReceiver<Ended>),
        (mut waits, mut disk_full): (mpsc::UnboundedReceiver<LaneUpdate>, watch::Receiver<DiskFullWaits>),
        (mut lines, telemetry): (Lines, Arc<Telemetry>),
        (approvals, mut requests): (Arc<Approvals>, mpsc::UnboundedReceiver<CallId>),
    ) {
        let mut full = DiskFullWaits::new();
        loop {
            tokio::select! {
                biased;
                batch = published.recv() => {
                    let Some(batch) = batch else { return };
                    approvals.observe(&batch);
                    telemetry.observe(&batch);
                    // A subscriber that begins from here on finds the batch in the journal.
                    if !self.has_listener(&batch.key) {
                        lines.pass_over(&batch);
                        self.observe(&batch, std::iter::empty());
                    } else if is_large(&batch.batch) {
                        // The order holds: the next batch is taken when this one is delivered.
                        let Ok((back, batch, projected)) = tokio::task::spawn_blocking(move || encoded(lines, batch)).await
                        else { return };
                        lines = back;
                        self.observe(&batch, projected.into_iter());
                    } else {
                        self.observe(&batch, lines.of(&batch).into_iter().map(|line| (line, None)));
                    }
                }
                // These come after all lines that were recorded before them.
                Some(call) = requests.recv() => approvals.deliver(call),
                Some(update) = waits.recv() => {
                    let session = update.session();
                    if let Some(line) = self.has_listener(session).then(|| lines.of_wait(&update)).flatten() {
                        self.lock().notify(line, None);
                    }
                }
                Ok(()) = disk_full.changed() => {
                    let now = disk_full.borrow_and_update().clone();
                    let before = std::mem::replace(&mut full, now);
                    let begun = full.iter().filter(|(key, _)| !before.contains_key(*key));
                    let begun = begun.map(|(key, wait)| (key, true, wait.since));
                    let over = before.iter().filter(|(key, _)| !full.contains_key(*key));
                    for (key, is_full, at) in begun.chain(over.map(|(key, wait)| (key, false, wait.next_look))) {
                        if let Some(line) = self.has_listener(key).then(|| lines.of_disk_full(key, is_full, at)).flatten() {
                            self.lock().notify(line, None);
                        }
                    }
                }
                // Taken only if no earlier notice waits.
                Some(ended) = ending.recv() => {
                    // The home has another owner from here on: its batches are not kept.
                    drop(lines);
                    let _ = ended.send(());
                    return;
                }
            }
        }
    }

    /// Ends the hub once everything recorded so far is delivered.
    pub(crate) async fn drain(&self) {
        let (ended, drained) = oneshot::channel();
        if self.ending.send(ended).is_ok() {
            let _ = drained.await;
        }
    }

    /// Changes with every commit. A waiter for something in the journal then looks there again.
    pub(crate) fn observed(&self) -> watch::Receiver<()> {
        self.observed.subscribe()
    }

    /// Begins to wait for the end of a run. An earlier end is in the journal: look there after this call.
    pub(crate) fn wait_for(&self, run: RunId) -> Waiting<'_> {
        let mut subscribers = self.lock();
        subscribers.last_wait += 1;
        let number = subscribers.last_wait;
        let (sender, end) = oneshot::channel();
        subscribers.waiting.entry(run).or_default().push((number, sender));
        Waiting { hub: self, run, number, end }
    }

    /// Begins a subscription that receives nothing yet.
    pub(crate) fn begin(&self, caller: &Arc<Caller>, number: u64, target: Target, numbers: &str) -> Result<(), Error> {
        let mut subscribers = self.lock();
        if subscribers.subscriptions.range((caller.number, 0)..=(caller.number, u64::MAX)).count() >= SUBSCRIPTIONS {
            let what = format!("{SUBSCRIPTIONS} subscriptions are open on this connection");
            return Err(Error::State { what, hint: "end one with `events.unsubscribe` first".to_owned() });
        }
        let subscription = Subscription::new(Arc::downgrade(caller), number, target, numbers);
        subscribers.subscriptions.insert((caller.number, number), subscription);
        Ok(())
    }

    /// The subscription receives chat, which continues from these answers.
    pub(crate) fn chat(&self, caller: u64, number: u64, chats: Chats) {
        if let Some(subscription) = self.lock().subscriptions.get_mut(&(caller, number)) {
            subscription.chat(chats);
        }
    }

    /// Buffers live lines for a subscription until it has caught up. The journal, read from here on, holds everything
    /// that was recorded before.
    pub(crate) fn start_buffering(&self, caller: u64, number: u64) {
        if let Some(subscription) = self.lock().subscriptions.get_mut(&(caller, number)) {
            subscription.start_buffering();
        }
    }

    /// Starts a subscription at this cursor and returns the cursor as its own.
    pub(crate) fn begin_at(&self, caller: u64, number: u64, cursor: &str) -> String {
        let mut subscribers = self.lock();
        subscribers
            .subscriptions
            .get_mut(&(caller, number))
            .map_or_else(String::new, |of| of.begin_at(cursor).to_owned())
    }

    /// Sends missed lines as fast as the client reads. Returns whether the subscription still exists.
    pub(crate) async fn send(&self, caller: &Caller, number: u64, lines: Vec<Line>) -> bool {
        let key = (caller.number, number);
        for line in lines {
            let Some((line, encoded)) = encoded_line(line).await else { return false };
            caller.buffer.wait_for(encoded.bytes()).await;
            loop {
                let sent = match self.lock().subscriptions.get_mut(&key) {
                    Some(subscription) => subscription.send(&caller.buffer, &line, &encoded),
                    None => return false,
                };
                // Whoever reads what was missed is as slow as it reads, and is not dropped for it: the line does not fit
                // because of its head, or because live lines of another subscription have taken the space.
                match sent {
                    Ok(()) => break,
                    Err(Slow) => caller.buffer.wait_until_empty().await,
                }
            }
        }
        true
    }

    /// A subscription has caught up: sends it the buffered lines. From there on it is live.
    pub(crate) fn go_live(&self, caller: &Caller, number: u64, position: StreamPosition) {
        let mut subscribers = self.lock();
        let subscription = subscribers.subscriptions.get_mut(&(caller.number, number));
        let went = subscription.map(|subscription| subscription.go_live(&caller.buffer, position));
        if went == Some(Err(Slow)) {
            subscribers.drop_slow(caller);
        }
    }

    /// The client reads too slowly: it receives the position of each of its subscriptions and is closed.
    pub(crate) fn drop_slow(&self, caller: &Caller) {
        self.lock().drop_slow(caller);
    }

    /// Ends a subscription. Returns whether it existed.
    pub(crate) fn end(&self, caller: u64, number: u64) -> bool {
        self.lock().subscriptions.remove(&(caller, number)).is_some()
    }

    /// Ends all subscriptions of a client that is gone.
    pub(crate) fn forget(&self, caller: u64) {
        self.lock().subscriptions.retain(|(of, _), _| *of != caller);
    }

    fn has_listener(&self, session: &str) -> bool {
        self.lock().subscriptions.values().any(|subscription| subscription.listens_to(session))
    }

    fn observe(&self, published: &Published, lines: impl Iterator<Item = (Line, Option<Encoded>)>) {
        let mut subscribers = self.lock();
        for (line, encoded) in lines {
            subscribers.notify(line, encoded);
        }
        let batch = BatchPosition::of(published);
        subscribers.subscriptions.values_mut().for_each(|subscription| subscription.pass(&batch));
        // The waiter is notified after the lines, so the whole run has been reported.
        subscribers.short.add(&published.batch);
        for record in &published.batch.records {
            let (run, end) = match &record.event {
                Event::RunStarted(e) => {
                    if subscribers.waiting.contains_key(&e.run) {
                        subscribers.short.begin(e.run, &published.batch);
                    }
                    continue;
                }
                Event::RunEnded(ended) => {
                    let batches = subscribers.short.take(published.session, ended.run);
                    (ended.run, End::Ran { batches, at: record.at, ended: Box::new(ended.clone()) })
                }
                Event::MessageSettled(e) if e.run.is_none() && is_over(e.state) => {
                    (RunId::from(e.message), End::NeverBegan { state: e.state, at: record.at })
                }
                Event::MessageSettled(e) => {
                    subscribers.move_waits(e.message, &published.batch);
                    continue;
                }
                _ => continue,
            };
            for (_, waits) in subscribers.waiting.remove(&run).unwrap_or_default() {
                // Waiters that are gone are skipped.
                let _ = waits.send(end.clone());
            }
        }
        if self.observed.receiver_count() > 0 {
            self.observed.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscribers {
    /// A run takes a message that it did not start: waiters for the message wait for that run from here on.
    fn move_waits(&mut self, message: MessageId, batch: &Batch) {
        let receipt = batch.views.receipts.iter().find(|receipt| receipt.message == message);
        let own = RunId::from(message);
        let Some(run) = receipt.map(|receipt| receipt.run).filter(|run| *run != own) else { return };
        let waits = self.waiting.remove(&own).unwrap_or_default();
        if !waits.is_empty() {
            self.taken.extend(waits.iter().map(|(number, _)| (*number, run)));
            self.waiting.entry(run).or_default().extend(waits);
        }
    }

    fn notify(&mut self, line: Line, mut encoded: Option<Encoded>) {
        let mut slow = vec![];
        let line = Arc::new(line);
        for subscription in self.subscriptions.values_mut().filter(|subscription| subscription.wants(&line)) {
            let Some(caller) = subscription.caller.upgrade() else { continue };
            let encoded = encoded.get_or_insert_with(|| Encoded::of(&line));
            if subscription.observe(&caller.buffer, &line, encoded) == Err(Slow) {
                slow.push(caller);
            }
        }
        for caller in slow {
            self.drop_slow(&caller);
        }
    }

    /// Sends the client the position of each of its subscriptions, and nothing more.
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
    /// The run or message that is awaited.
    pub(crate) fn run(&self) -> RunId {
        self.run
    }

    /// The end; `None` if it will not come from this owner.
    pub(crate) async fn end(mut self) -> Option<End> {
        (&mut self.end).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut subscribers = self.hub.lock();
        // A message that was taken waits under another run by now.
        for run in [self.run].into_iter().chain(subscribers.taken.remove(&self.number)) {
            if let Some(waiting) = subscribers.waiting.get_mut(&run) {
                waiting.retain(|(number, _)| *number != self.number);
                if waiting.is_empty() {
                    subscribers.waiting.remove(&run);
                    subscribers.short.forget(run);
                }
            }
        }
    }
}

/// Whether the texts of a batch make its lines long.
fn is_large(batch: &Batch) -> bool {
    batch.records.iter().map(|record| text_bytes(&record.event)).sum::<u64>() > OFF_THREAD_BYTES as u64
}

/// A line with its bytes; `None` if this process shuts down.
async fn encoded_line(line: Line) -> Option<(Line, Encoded)> {
    let encoded = |line: Line| {
        let encoded = Encoded::of(&line);
        (line, encoded)
    };
    if line.event.text().is_none_or(|text| text.len() < OFF_THREAD_BYTES) {
        return Some(encoded(line));
    }
    tokio::task::spawn_blocking(move || encoded(line)).await.ok()
}

/// The lines of a batch with their bytes.
fn encoded(mut lines: Lines, batch: Published) -> (Lines, Published, Vec<(Line, Option<Encoded>)>) {
    let of_batch = lines.of(&batch).into_iter();
    let encoded = of_batch.map(|line| {
        let encoded = Encoded::of(&line);
        (line, Some(encoded))
    });
    let encoded = encoded.collect();
    (lines, batch, encoded)
}

/// Whether no run will answer a message in this state.
pub(crate) fn is_over(state: ReceiptState) -> bool {
    matches!(state, ReceiptState::Dropped | ReceiptState::Cancelled | ReceiptState::Refused)
}

/// The client of a subscription, which may be gone.
pub(crate) type WeakCaller = Weak<Caller>;
