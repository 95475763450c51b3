//! Writes to stdout and stderr, and detects a stuck write: a full pipe that nobody reads blocks its writer forever, and
//! a signal must still end such a command.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use gateway::Service;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{CliError, Exit};

/// After a signal, a write that lasts longer than this counts as stuck.
const PATIENCE: Duration = Duration::from_secs(2);
/// Poll interval for stuck writes.
const LOOK: Duration = Duration::from_millis(100);
/// Time that an owner has for an orderly shutdown if its own command is stuck.
const LEAVING: Duration = Duration::from_secs(10);

/// Start of the current write, in milliseconds since the first write of the program plus 1; 0 if no write is running.
static WRITING: AtomicU64 = AtomicU64::new(0);
static FIRST: OnceLock<Instant> = OnceLock::new();
/// The service, if this process owns a home.
static OWNER: Mutex<Weak<Service>> = Mutex::new(Weak::new());

fn now_ms() -> u64 {
    let first = FIRST.get_or_init(Instant::now);
    u64::try_from(first.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// Writes the whole text.
pub(crate) fn write(mut to: impl Write, text: &str) -> io::Result<()> {
    WRITING.store(now_ms(), Ordering::Relaxed);
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    WRITING.store(0, Ordering::Relaxed);
    written
}

/// Whether the current write is stuck.
fn is_stuck() -> bool {
    let began = WRITING.load(Ordering::Relaxed);
    began > 0 && now_ms().saturating_sub(began) >= PATIENCE.as_millis() as u64
}

/// Registers the service of this process, so that it is shut down in order even if the command is stuck.
pub(crate) fn owned_by(service: Weak<Service>) {
    *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = service;
}

/// Ends the process on a signal if its command is stuck. A command that is not stuck handles signals itself.
pub(crate) fn end_where_stuck() -> Result<(), CliError> {
    static BEGUN: OnceLock<()> = OnceLock::new();
    if BEGUN.set(()).is_err() {
        return Ok(());
    }
    let signal = |kind| signal(kind).map_err(|error| CliError::bug(&format!("no signals: {error}")));
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        let exit = tokio::select! {
            _ = interrupt.recv() => Exit::Aborted,
            _ = terminate.recv() => Exit::Stopped,
        };
        while !is_stuck() {
            tokio::time::sleep(LOOK).await;
        }
        let owner = OWNER.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(owner) = owner {
            // The process ends even if the shutdown fails: committed entries are durable.
            let _ = tokio::time::timeout(LEAVING, owner.leave(Duration::ZERO)).await;
        }
        std::process::exit(i32::from(exit as u8));
    });
    Ok(())
}
