//! `erase`: erases what a deleted conversation said, wherever it is. Done again after a crash, it erases what is left.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Erased, Report};
use journal::{DeletedConversation, ErasedConversation, Journal, SearchIndex};
use tools::{FileStore, StoreLimits};

use super::Reporter;
use crate::crashpoint;
use crate::runtime::Shared;

/// Erases on a thread that may block. When dropped, that thread ends after its current step, and keeps the home until then.
pub(super) async fn perform(shared: Arc<Shared>, of: DeletedConversation, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("erase_started");
    let (journal, home) = (Arc::clone(&shared.journal), shared.home.clone());
    let stops = StopsWhenDropped::default();
    let stopped = Arc::clone(&stops.0);
    let erasing = tokio::task::spawn_blocking(move || erase(&home, &*journal, of, &stopped));
    let result = erasing.await.unwrap_or_else(|error| Err(format!("the erasure did not end: {error}")));
    drop(stops);
    crashpoint::hit("erase_done");
    reporter.report(Report::Erased { effect, result }).await;
}

/// Tells the thread that erases to stop.
#[derive(Default)]
struct StopsWhenDropped(Arc<AtomicBool>);

impl Drop for StopsWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn erase(home: &Path, journal: &dyn Journal, of: DeletedConversation, stopped: &AtomicBool) -> Result<Erased, String> {
    let store = FileStore::new(home.join("files"), StoreLimits::NONE);
    let unchanged = |error: std::io::Error| format!("files/ cannot be changed: {error}");
    let before = store.kept_times().map_err(unchanged)?;
    let erased = journal.erase_conversation(of, stopped).map_err(|error| error.to_string())?;
    let ErasedConversation { collected, files, calls } = erased.ok_or("it was stopped")?;
    crashpoint::hit("erase_texts");
    // Behind it: whoever completes the index meanwhile finds no text any more.
    SearchIndex::forget(home, journal, &of).map_err(|error| error.to_string())?;
    crashpoint::hit("erase_index");
    tools::forget_calls(&home.join("calls"), &calls).map_err(|error| format!("calls/ cannot be changed: {error}"))?;
    let files = store.forget(&files, &before).map_err(unchanged)?;
    Ok(Erased { bodies: collected.bodies, bytes: collected.bytes, files })
}
