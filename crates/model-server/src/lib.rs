//! A model server whose answers are a function of the request: whoever asks again after a crash gets the right next
//! answer, and the server remembers nothing but what it saw.
//!
//! It speaks the chat-completions format over plain HTTP/1.1 (keep-alive, chunked, no Nagle). What to answer is written
//! in the user's own message, see [`Script`]. What may not live here: anything that a shipped program needs.

mod answer;
mod connection;
mod fault;
mod odd;
mod odd_calls;
mod pairing;
pub mod prose;
pub mod rng;
mod script;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use fault::{Fault, Odd, RetryAfter};
pub use odd_calls::{Meant, ODD_CALLS, OddCalls};
pub use script::{Call, Script, words};

/// One request that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The user message whose script it was answered by.
    pub script: String,
    /// How many messages it held.
    pub messages: usize,
    /// How many of them were results of calls.
    pub results: usize,
    /// The status that it was answered with.
    pub status: u16,
    /// When it was there, whole.
    pub at: SystemTime,
}

/// What the connections share.
#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    hung_up: Mutex<Vec<SystemTime>>,
    violations: Mutex<Vec<String>>,
    /// How often the fault of a script has struck.
    faults: Mutex<BTreeMap<String, u32>>,
}

impl Shared {
    fn saw(&self, seen: Seen) {
        lock(&self.seen).push(seen);
    }

    fn was_hung_up_on(&self) {
        lock(&self.hung_up).push(SystemTime::now());
    }

    fn violated(&self, what: &str) {
        lock(&self.violations).push(what.to_owned());
    }

    /// Counts a fault of this script; says whether it strikes once more.
    fn strikes(&self, script: &str, times: u32) -> bool {
        let mut faults = lock(&self.faults);
        let count = faults.entry(script.to_owned()).or_default();
        let strikes = *count < times;
        *count += u32::from(strikes);
        strikes
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server. It stops when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server on a free port of loopback, in a thread of its own.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("model-server".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, serving) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The `base_url` of a provider that is this server.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every request so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// How many requests there were so far.
    pub fn requests(&self) -> usize {
        lock(&self.shared.seen).len()
    }

    /// How often what goes wrong with this message has done so.
    pub fn struck(&self, script: &str) -> u32 {
        lock(&self.shared.faults).get(script).copied().unwrap_or_default()
    }

    /// When a client left in the middle of an answer, in order.
    pub fn hung_up(&self) -> Vec<SystemTime> {
        lock(&self.shared.hung_up).clone()
    }

    /// Every request whose calls and results did not pair, in words. They were answered 400.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.shared.violations).clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A client that is killed breaks its connection: nothing to be done, and nothing to tell.
            let _ = connection::serve(stream, &shared).await;
        });
    }
}
