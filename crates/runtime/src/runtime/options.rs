//! The options of a runtime.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Deliver, Published, Resolver};
use crate::idle::IdlePolicy;
use crate::lanes::LaneUpdate;

/// The options of a runtime.
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Options {
    pub home: PathBuf,
    /// The program whose subcommand `supervise` runs commands.
    pub supervisor: PathBuf,
    /// Resolves the configuration for each run.
    pub resolver: Box<dyn Resolver>,
    pub models: models::ModelSet,
    pub tools: tools::ToolSet,
    /// Sends what goes out to routes; none = nothing does, and a delivery is refused.
    pub deliver: Option<Arc<dyn Deliver>>,
    /// Receives every committed batch.
    pub events: Option<mpsc::UnboundedSender<Published>>,
    /// Receives reports of runs that wait for a lane.
    pub waits: Option<mpsc::UnboundedSender<LaneUpdate>>,
    /// How long actors of idle sessions are kept.
    pub idle: IdlePolicy,
    /// Whether no run starts or continues before [`start_runs`](super::Runtime::start_runs): for an owner that changes
    /// something and leaves, so that it sends no request whose answer it does not wait for.
    pub holds_runs: bool,
}
