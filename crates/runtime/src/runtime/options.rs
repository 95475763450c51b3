//! The options of a runtime.

use std::path::PathBuf;

use tokio::sync::mpsc;

use super::{Approver, Published, Resolver};
use crate::idle::IdlePolicy;
use crate::lanes::LaneUpdate;

/// The options of a runtime.
pub struct Options {
    /// The home's folder.
    pub home: PathBuf,
    /// The program whose subcommand `supervise` runs commands.
    pub supervisor: PathBuf,
    /// The configuration.
    pub resolver: Box<dyn Resolver>,
    /// The model adapters.
    pub models: models::ModelSet,
    /// Receives every committed batch.
    pub events: Option<mpsc::UnboundedSender<Published>>,
    /// Receives reports of runs that wait for a lane.
    pub waits: Option<mpsc::UnboundedSender<LaneUpdate>>,
    /// The approver; without it every request is answered no.
    pub questions: Option<Box<dyn Approver>>,
    /// How long actors of idle sessions stay.
    pub idle: IdlePolicy,
}
