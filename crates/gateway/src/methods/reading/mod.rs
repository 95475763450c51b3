//! The methods that only read the journal of a home. The owner serves them, and a command without an owner runs them
//! itself. Nothing here waits for a run or writes.

mod agents;
mod approvals;
mod audit;
mod deliveries;
mod diff;
mod pages;
mod profiles;
mod questions;
mod receipts;
mod runs;
mod sessions;
mod spending;
mod status;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;

use engine::LaneWait;
use journal::Read;
use protocol::ErrorShape;
use protocol::limits::{FIRST_FRAME_BYTES, FRAME_BYTES};
use protocol::method::{
    AgentsList, ApprovalsGrants, ApprovalsList, ApprovalsShow, BudgetShow, DeliveriesList, Method, ProfilesList,
    QuestionsList, QuestionsShow, ReceiptsGet, RunsDiff, RunsExplain, RunsList, RunsShow, RunsTrace, SessionsAudit,
    SessionsContext, SessionsList, SessionsShow, SessionsState, StatusGet, UsageGet,
};
use serde_json::Value;

use crate::error::Error;
use views::Source;

pub use agents::agents_without_journal;
pub(in crate::methods) use diff::Contents;
pub(in crate::methods) use profiles::cooldown_view;
pub use status::without_journal;

/// Bytes of a result that fits into a frame, with space for the envelope.
const RESULT_BYTES: usize = FRAME_BYTES - FIRST_FRAME_BYTES;

/// A method that only reads.
pub trait Reads: Method {
    /// Runs the method. May block.
    fn read(source: &Source<'_>, params: Self::Params) -> Result<Self::Result, Error>;
}

/// The one list of the methods that only read.
macro_rules! reading {
    ($($method:ident),+ $(,)?) => {
        /// Whether the method is one of them.
        pub fn only_reads(name: &str) -> bool {
            [$($method::NAME),+].contains(&name)
        }

        /// Runs the method of this name.
        fn read(source: &Source<'_>, name: &str, params: Value) -> Result<Value, Error> {
            match name {
                $(<$method as Method>::NAME => answered::<$method>(source, params),)+
                _ => Err(Error::bug(format!("`{name}` is not a read-only method"))),
            }
        }
    };
}

reading!(
    StatusGet,
    ReceiptsGet,
    RunsList,
    RunsShow,
    RunsTrace,
    RunsExplain,
    RunsDiff,
    AgentsList,
    ApprovalsList,
    ApprovalsShow,
    ApprovalsGrants,
    QuestionsList,
    QuestionsShow,
    DeliveriesList,
    SessionsList,
    SessionsShow,
    SessionsContext,
    SessionsAudit,
    SessionsState,
    ProfilesList,
    BudgetShow,
    UsageGet,
);

/// Runs a method for the owner of a home, on a thread that may block.
pub async fn answer(
    home: Arc<Path>,
    journal: Arc<dyn Read>,
    (waits, full, agents): (Vec<LaneWait>, Vec<String>, Vec<String>),
    (name, params): (String, Value),
) -> Result<Value, ErrorShape> {
    let reading = tokio::task::spawn_blocking(move || {
        let most_bytes = RESULT_BYTES as u64;
        let (read, waits, full, agents) = (&*journal, waits.as_slice(), full.as_slice(), agents.as_slice());
        let source = Source { home: &home, read, immutable: false, most_bytes, waits, full, agents };
        self::read(&source, &name, params)
    });
    let read = reading.await.unwrap_or_else(|error| Err(Error::bug(format!("reading failed: {error}"))));
    read.map_err(ErrorShape::from)
}

fn answered<M: Reads>(source: &Source<'_>, params: Value) -> Result<Value, Error> {
    // Absent parameters are the defaults.
    let params = if params.is_null() { Value::Object(serde_json::Map::new()) } else { params };
    let params = M::params_from_json(params).map_err(|error| {
        Error::invalid(format!("invalid parameters of `{}`: {error}", M::NAME), "docs/protocol.md lists them")
    })?;
    let result = M::read(source, params)?;
    // The size is checked before the result is serialised a second time.
    serde_json::to_writer(PageBudget(RESULT_BYTES), &result).map_err(|_| Error::TooLarge)?;
    Ok(M::result_to_json(result))
}

/// Accepts this many bytes and no more, and keeps none.
struct PageBudget(usize);

impl io::Write for PageBudget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| io::Error::other("no space"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
