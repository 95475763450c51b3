//! `sessions.cleanup`: erases old content. The journal does the erasing.

use std::sync::Arc;

use engine::Timestamp;
use engine::tables::lifecycle::LifecycleKind;
use journal::{Collected, Old, Read, SearchIndex};
use protocol::method::{CleanedUp, CleanupParams};
use tools::{FileStore, StoreLimits};
use views::fold_branch;

use crate::connection::Caller;
use crate::error::Error;
use crate::service::Service;

/// What the command line takes too.
const MOST_DAYS: u32 = 100_000;

pub(in crate::methods) async fn cleanup(caller: &Arc<Caller>, params: CleanupParams) -> Result<CleanedUp, Error> {
    if params.days > MOST_DAYS {
        return Err(Error::invalid(
            format!("`days` is a whole number up to {MOST_DAYS}"),
            "nothing is older than that",
        ));
    }
    let service = Arc::clone(&caller.service);
    let before = before(service.runtime.clock().now(), params.days);
    let erased = tokio::task::spawn_blocking(move || erase(&service, before)).await;
    let Collected { bodies, bytes, .. } = erased.map_err(|_| Error::bug("the erasure panicked"))??;
    Ok(CleanedUp { bodies, bytes })
}

/// Erases content that is older than this time, of the journal and of files before they were changed. May block.
pub(crate) fn erase(service: &Service, before: Timestamp) -> Result<Collected, Error> {
    let limits = service.runtime.resolver().redaction().undo;
    let keep_ms = limits.keep_ms.min(service.runtime.clock().now().since(before));
    // There may be none. What cannot be removed now is removed with the next that is kept.
    let _ = FileStore::new(service.home().join("files"), StoreLimits { keep_ms, ..limits }).trim();
    let journal = service.runtime.journal();
    let erased = journal.erase(&Old { before, states: &states(&**journal)? })?;
    if erased.bodies > 0 {
        SearchIndex::clear(service.home())?;
    }
    Ok(erased)
}

/// The time before which content is old if it is kept for this many days.
pub fn before(now: Timestamp, days: u32) -> Timestamp {
    Timestamp(now.0 - i64::from(days) * 24 * 3_600_000)
}

/// The states of all sessions that may continue; content that they name is kept. A session that cannot be read is an
/// error, because its content is unknown.
pub fn states(read: &dyn Read) -> Result<Vec<Vec<u8>>, Error> {
    let rows = read.sessions()?;
    let may_continue = rows.iter().filter(|row| row.lifecycle != LifecycleKind::Terminated);
    may_continue.map(|row| Ok(fold_branch(read, row)?.to_snapshot())).collect()
}
