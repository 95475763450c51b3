//! What is written for people and programs, and whether it is stuck: a pipe that nobody reads takes no more, and whoever
//! writes to it waits for ever. A signal must end such a command all the same. What may not live here: what is written.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use gateway::Service;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::{CliError, Exit};

/// How long one write may last, after a signal has come, before nobody is taken to read.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long an owner whose own command is stuck has to leave in order.
const LEAVING: Duration = Duration::from_secs(10);

/// When the write that is under way began, milliseconds since the program's first one, from 1; 0 where none is.
static WRITING: AtomicU64 = AtomicU64::new(0);
static FIRST: OnceLock<Instant> = OnceLock::new();
/// The service of the home that this process owns.
static OWNER: Mutex<Weak<Service>> = Mutex::new(Weak::new());

fn now_ms() -> u64 {
    let first = FIRST.get_or_init(Instant::now);
    u64::try_from(first.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// Writes a text whole.
pub(crate) fn write(mut to: impl Write, text: &str) -> io::Result<()> {
    WRITING.store(now_ms(), Ordering::Relaxed);
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    WRITING.store(0, Ordering::Relaxed);
    written
}

/// Whether one write lasts so long that nobody reads it.
fn is_stuck() -> bool {
    let began = WRITING.load(Ordering::Relaxed);
    began > 0 && now_ms().saturating_sub(began) >= PATIENCE.as_millis() as u64
}

/// This process owns a home from here on: it leaves it in order also where its own command is stuck.
pub(crate) fn owned_by(service: Weak<Service>) {
    *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = service;
}

/// From here on a signal ends a command that is stuck; one that is not goes by its own ways.
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
            // Whatever comes of it, the process ends: what is recorded is recorded.
            let _ = tokio::time::timeout(LEAVING, owner.leave(Duration::ZERO)).await;
        }
        std::process::exit(i32::from(exit as u8));
    });
    Ok(())
}
