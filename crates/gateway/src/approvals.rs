//! Open approval requests and the clients that can resolve them. A client that follows sessions receives the requests of
//! these, each behind the lines that were recorded before it; one that follows none receives all. A client that comes later
//! receives the requests that are still open. The first answer counts, and the other clients are notified. The engine
//! decides whether an answer is accepted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::tables::lifecycle::LifecycleKind;
use engine::{CallId, Event, Record};
use protocol::notice::{Answered, Asked, Notice};
use runtime::Published;
use tokio::sync::mpsc;

use crate::connection::Caller;
use crate::events::Target;

/// The clients with a person who can answer, and the open approval requests.
pub(crate) struct Approvals {
    open: Mutex<Open>,
    /// The requests on their way to the clients, behind the lines of their sessions.
    made: mpsc::UnboundedSender<CallId>,
}

#[derive(Default)]
struct Open {
    approvers: BTreeMap<u64, Client>,
    requests: BTreeMap<CallId, OpenRequest>,
}

/// A client with a person who can answer.
struct Client {
    caller: Weak<Caller>,
    /// What it follows, by the number of the subscription.
    follows: BTreeMap<u64, Follow>,
}

struct Follow {
    target: Target,
    /// Whether it has received the missed lines.
    is_live: bool,
}

struct OpenRequest {
    asked: Asked,
    /// Whether the lines before it were delivered.
    is_due: bool,
}

impl Client {
    fn new(caller: &Arc<Caller>) -> Self {
        Self { caller: Arc::downgrade(caller), follows: BTreeMap::new() }
    }

    /// The client, if it has received the missed lines of this session.
    fn is_due(&self, key: &str) -> Option<Arc<Caller>> {
        let is_live = self.follows.is_empty() || self.follows.values().any(|follow| follow.is_live && follow.has(key));
        self.caller.upgrade().filter(|_| is_live)
    }
}

impl Follow {
    fn has(&self, key: &str) -> bool {
        self.target.key().is_none_or(|own| own == key)
    }
}

impl Approvals {
    /// No clients and no requests; the channel has the requests that are made.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<CallId>) {
        let (made, requests) = mpsc::unbounded_channel();
        (Self { open: Mutex::default(), made }, requests)
    }

    /// Registers a client on which a person can answer, and sends it the open requests.
    pub(crate) fn attach(&self, caller: &Arc<Caller>) {
        if !caller.can_approve {
            return;
        }
        let mut open = self.lock();
        open.approvers.insert(caller.number, Client::new(caller));
        open.send_due(caller, |_| true);
    }

    /// A client follows a session, a run or the home from here on.
    pub(crate) fn follow(&self, caller: u64, number: u64, target: Target) {
        if let Some(client) = self.lock().approvers.get_mut(&caller) {
            client.follows.insert(number, Follow { target, is_live: false });
        }
    }

    /// The client has received the missed lines: sends it the open requests.
    pub(crate) fn go_live(&self, caller: &Caller, number: u64) {
        let mut open = self.lock();
        let client = open.approvers.get_mut(&caller.number);
        let Some(follow) = client.and_then(|client| client.follows.get_mut(&number)) else { return };
        follow.is_live = true;
        let target = follow.target.clone();
        open.send_due(caller, |key| target.key().is_none_or(|own| own == key));
    }

    /// The client no longer follows this.
    pub(crate) fn unfollow(&self, caller: u64, number: u64) {
        if let Some(client) = self.lock().approvers.get_mut(&caller) {
            client.follows.remove(&number);
        }
    }

    /// Sends a request: all lines that were recorded before it were delivered.
    pub(crate) fn deliver(&self, call: CallId) {
        let mut open = self.lock();
        let Some(made) = open.requests.get_mut(&call).filter(|made| !made.is_due) else { return };
        made.is_due = true;
        let request = made.asked.clone();
        for caller in open.approvers.values().filter_map(|client| client.is_due(&request.session)) {
            caller.notify(&request);
        }
    }

    /// Removes a client that can no longer answer. Open requests stay open for the next client.
    pub(crate) fn detach(&self, number: u64) {
        self.lock().approvers.remove(&number);
    }

    /// The key of the session in which this call waits for approval.
    pub(crate) fn session_of(&self, call: CallId) -> Option<String> {
        self.lock().requests.get(&call).map(|made| made.asked.session.clone())
    }

    /// The requests that were open when this owner came, each with whether its run is paused.
    pub(crate) fn found(&self, open: impl Iterator<Item = (Asked, bool)>) {
        let made = |(asked, is_paused): (Asked, bool)| (asked.call, OpenRequest { asked, is_due: !is_paused });
        self.lock().requests.extend(open.map(made));
    }

    /// The clients are asked about the calls of this session that they were not asked about yet. A paused run asks nobody: its
    /// requests come when it is resumed.
    fn make_due(&self, session: &str) {
        for (call, _) in self.lock().requests.iter().filter(|(_, made)| !made.is_due && made.asked.session == session) {
            // Nobody delivers it any more when the owner shuts down: the next one finds it.
            let _ = self.made.send(*call);
        }
    }

    /// Opens the requests that a committed batch has made, and closes those that it has resolved.
    pub(crate) fn observe(&self, published: &Published) {
        for record in &published.batch.records {
            match &record.event {
                Event::CallAsked(e) => {
                    let (session, question) = (published.key.to_string(), e.question.clone());
                    let asked = Asked { session, call: e.call, fingerprint: e.fingerprint, question, takes: e.takes };
                    self.lock().requests.insert(e.call, OpenRequest { asked, is_due: false });
                }
                Event::AskAnswered(e) => {
                    let by = Some(e.by.clone());
                    let answered = Answered { call: Some(e.call), allow: Some(e.allow), by, ..Answered::default() };
                    self.close(|call| call == e.call, &answered);
                }
                Event::CallSettled(e) => {
                    self.close(|call| call == e.call, &Answered { call: Some(e.call), ..Answered::default() });
                }
                Event::RunEnded(e) => {
                    self.close(|call| call.run == e.run, &Answered { run: Some(e.run), ..Answered::default() });
                }
                _ => {}
            }
        }
        let asks = |record: &Record| matches!(record.event, Event::CallAsked(_) | Event::Resumed(_));
        if published.lifecycle != LifecycleKind::Suspended && published.batch.records.iter().any(asks) {
            self.make_due(&published.key);
        }
    }

    fn close(&self, closes: impl Fn(CallId) -> bool, answered: &Answered) {
        let mut open = self.lock();
        let before = open.requests.len();
        open.requests.retain(|call, _| !closes(*call));
        if open.requests.len() != before {
            open.notify(answered);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn notify<N: Notice>(&mut self, notice: &N) {
        self.approvers.retain(|_, client| {
            let Some(caller) = client.caller.upgrade() else { return false };
            caller.notify(notice);
            true
        });
    }

    /// Sends a client the open requests of these sessions.
    fn send_due(&self, caller: &Caller, wants: impl Fn(&str) -> bool) {
        for made in self.requests.values().filter(|made| made.is_due && wants(&made.asked.session)) {
            caller.notify(&made.asked);
        }
    }
}
