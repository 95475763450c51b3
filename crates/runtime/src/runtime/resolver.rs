//! What the runtime asks of the configuration.

use std::sync::Arc;

use engine::{Candidate, Failure, LaneBounds, Overrides, QueueSettings, Settings, SharedBudget, Thinking};

use crate::conversation::STEER_MARK;

/// What a session wants of its runs, in place of what is configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelPreferences<'a> {
    /// `PROVIDER/MODEL`.
    pub model: Option<&'a str>,
    /// How much they think.
    pub thinking: Option<Thinking>,
}

/// The code of a failure of [`Resolver::settings`] that says that the home has no room for another run.
pub const NO_SPACE: &str = "no_room";

/// What the configuration gives when it is needed, and not before.
pub trait Resolver: Send + Sync {
    /// The settings of a run that starts now. A failure ends that run, and is what its user reads.
    fn settings(&self, agent: &str, wants: ModelPreferences<'_>, overrides: &Overrides) -> Result<Settings, Failure>;

    /// How messages to this agent are queued where neither they nor their session say.
    fn queue(&self, _agent: &str) -> QueueSettings {
        QueueSettings::default()
    }

    /// What stands, for the model, before a message that came while a run was under way.
    fn mark(&self) -> Arc<str> {
        STEER_MARK.into()
    }

    /// Where a candidate is served, with its key.
    fn endpoint(&self, candidate: &Candidate) -> Result<models::Endpoint, Failure>;

    /// What a call that begins now may not see or reach.
    fn redaction(&self) -> Redaction {
        Redaction::default()
    }

    /// What all runs of this agent, and all of the home, may spend in a day.
    fn shared_budget(&self, _agent: &str) -> SharedBudget {
        SharedBudget::default()
    }

    /// How many runs may be under way at once, from the next one on.
    fn lanes(&self) -> LaneBounds {
        LaneBounds::default()
    }
}

/// What calls may not see or reach.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    /// Values that are masked in what tools give back.
    pub secrets: tools::Secrets,
    /// Environment variables that commands do not get.
    pub secret_env: Vec<String>,
    /// Which addresses may be fetched from.
    pub reach: tools::NetworkPolicy,
}
