//! What a runtime is made with.

use std::path::PathBuf;

use tokio::sync::mpsc;

use super::{Approver, Published, Resolver};
use crate::idle::IdlePolicy;
use crate::lanes::LaneUpdate;

/// What a runtime is made with.
pub struct Options {
    /// The home's folder.
    pub home: PathBuf,
    /// The program whose subcommand `supervise` runs commands.
    pub supervisor: PathBuf,
    /// The configuration.
    pub resolver: Box<dyn Resolver>,
    /// The model adapters.
    pub models: models::ModelSet,
    /// Who is told of every committed batch.
    pub events: Option<mpsc::UnboundedSender<Published>>,
    /// Who is told of runs that wait for their place in a lane.
    pub waits: Option<mpsc::UnboundedSender<LaneUpdate>>,
    /// Who can be asked; without it every question is answered no.
    pub questions: Option<Box<dyn Approver>>,
    /// How long actors of sessions at rest stay.
    pub idle: IdlePolicy,
}
