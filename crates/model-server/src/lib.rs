//! A model server whose answers are a function of the request: a client that repeats a request after a crash gets the
//! same answer. The server keeps only statistics and counts of faults.
//!
//! It speaks the chat-completions format over plain HTTP/1.1 (keep-alive, chunked, no Nagle). The user's own message
//! is the script of the answer, see [`Script`]. What may not live here: anything that a shipped program needs.

mod answer;
mod connection;
mod fault;
mod markdown;
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
pub use odd_calls::{Expected, ODD_CALLS, OddCalls};
pub use script::{Call, Script, words};

/// One received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The user message that holds the script of its answer; empty if no message does.
    pub script: String,
    /// The number of messages in it.
    pub messages: usize,
    /// How many of these are results of calls.
    pub results: usize,
    /// The HTTP status of its answer.
    pub status: u16,
    /// When all of it had arrived.
    pub at: SystemTime,
}

/// The state that all connections share.
#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    hung_up: Mutex<Vec<SystemTime>>,
    violations: Mutex<Vec<String>>,
    /// How many requests had the fault of a script, by script.
    faults: Mutex<BTreeMap<String, u32>>,
}

impl Shared {
    fn record(&self, seen: Seen) {
        lock(&self.seen).push(seen);
    }

    fn was_hung_up_on(&self) {
        lock(&self.hung_up).push(SystemTime::now());
    }

    fn violated(&self, what: &str) {
        lock(&self.violations).push(what.to_owned());
    }

    /// Whether this request has the fault of this script, which `times` requests have; counts it if so.
    fn counts_fault(&self, script: &str, times: u32) -> bool {
        let mut faults = lock(&self.faults);
        let count = faults.entry(script.to_owned()).or_default();
        let has_fault = *count < times;
        *count += u32::from(has_fault);
        has_fault
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server on a free port of loopback, in its own thread.
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

    /// The `base_url` that makes this server a provider.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All valid requests so far, in order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// The number of valid requests so far.
    pub fn requests(&self) -> usize {
        lock(&self.shared.seen).len()
    }

    /// How many requests had the fault of this message's script.
    pub fn fault_count(&self, script: &str) -> u32 {
        lock(&self.shared.faults).get(script).copied().unwrap_or_default()
    }

    /// The times at which a client closed its connection in the middle of an answer, in order.
    pub fn hung_up(&self) -> Vec<SystemTime> {
        lock(&self.shared.hung_up).clone()
    }

    /// A description of every invalid request (status 400), for example one with unpaired calls and results, and of
    /// every redirect that a client followed.
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
            // A killed client breaks its connection. That is no error of the server.
            let _ = connection::serve(stream, &shared).await;
        });
    }
}
