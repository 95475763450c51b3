//! What the runtime needs from the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use engine::policy::Principal;
use engine::{
    Candidate, Failure, LaneBounds, Overrides, QueueSettings, ReplySettings, Settings, SharedBudget, Thinking,
};

use super::RouteTarget;
use crate::conversation::STEER_MARK;

/// What the settings of a run depend on in its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionContext<'a> {
    /// The key of the session, `agent:AGENT:NAME`; `None` = it is not known yet.
    pub key: Option<&'a str>,
    /// Who began the run; `None` = nobody knows it.
    pub principal: Option<Principal>,
    /// The model, `PROVIDER/MODEL`; `None` = as configured.
    pub model: Option<&'a str>,
    /// The thinking level; `None` = as configured.
    pub thinking: Option<Thinking>,
}

/// The code of a failure of [`Resolver::settings`] that says that the home has no space for another run.
pub const NO_SPACE: &str = "no_room";

/// The configuration, read when it is needed and not before.
pub trait Resolver: Send + Sync {
    /// The settings of a run that starts now. A failure ends that run, and its user reads it.
    fn settings(&self, agent: &str, session: SessionContext<'_>, overrides: &Overrides) -> Result<Settings, Failure>;

    /// The settings of a run that starts now, whose message may have been checked with [`Resolver::settings`] a moment ago. What
    /// was looked up then need not be looked up again.
    fn settings_again(
        &self,
        agent: &str,
        session: SessionContext<'_>,
        overrides: &Overrides,
    ) -> Result<Settings, Failure> {
        self.settings(agent, session, overrides)
    }

    /// What a run needs to know to send its reply, for a run that is refused before it has settings.
    fn reply(&self, _overrides: &Overrides) -> ReplySettings {
        ReplySettings::default()
    }

    /// The names of the configured agents.
    fn agents(&self) -> Vec<String> {
        vec![]
    }

    /// The default queue mode of messages to this agent.
    fn queue(&self, _agent: &str) -> QueueSettings {
        QueueSettings::default()
    }

    /// The prefix, for the model, of a message that arrived during a run.
    fn mark(&self) -> Arc<str> {
        STEER_MARK.into()
    }

    /// The endpoint of a candidate, with its key, as of the last [`Resolver::may_block`]. It may block: a command may print
    /// the key.
    fn endpoint(&self, candidate: &Candidate) -> Result<models::Endpoint, Failure>;

    /// The same, which ends early with an error if nobody awaits it any more.
    fn endpoint_while(
        &self,
        candidate: &Candidate,
        _is_awaited: &dyn Fn() -> bool,
    ) -> Result<models::Endpoint, Failure> {
        self.endpoint(candidate)
    }

    /// The route of this name, with its secret. It may block: a command may print the secret. An error is for people.
    fn route(&self, name: &str) -> Result<RouteTarget, String> {
        Err(format!("no route is called `{name}`"))
    }

    /// Whether [`Resolver::endpoint`] of this candidate may block for long. It is asked before each request.
    fn may_block(&self, _candidate: &Candidate) -> bool {
        false
    }

    /// The endpoint of a candidate, perhaps without its key. It does not block.
    fn address(&self, candidate: &Candidate) -> Result<models::Endpoint, Failure> {
        self.endpoint(candidate)
    }

    /// The user's folder: no folder above it belongs to a project of the user.
    fn user_folder(&self) -> Option<PathBuf> {
        None
    }

    /// What is masked in texts: the secrets of the settings and endpoints that were resolved so far.
    fn secrets(&self) -> tools::Secrets {
        self.redaction().secrets
    }

    /// What a call that starts now may not see or reach.
    fn redaction(&self) -> Redaction {
        Redaction::default()
    }

    /// What a call of a run with these settings may not see or reach, if it starts now: the project of its workspace may restrict it
    /// further, and its skills may bring variables.
    fn redaction_of(&self, _settings: &Settings) -> Redaction {
        self.redaction()
    }

    /// The daily limits of this agent, and of the home.
    fn shared_budget(&self, _agent: &str) -> SharedBudget {
        SharedBudget::default()
    }

    /// How many runs may execute at once, from the next one on.
    fn lanes(&self) -> LaneBounds {
        LaneBounds::default()
    }
}

/// What calls may not see or reach.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    /// The files that no tool may read or write: the configuration and keys. The home is always protected.
    pub protected: tools::Protected,
    /// Values that are masked in results of tools.
    pub secrets: tools::Secrets,
    /// Environment variables that commands never receive.
    pub secret_env: Vec<String>,
    /// Further variables that commands receive.
    pub passed_env: Vec<String>,
    /// Which addresses may be fetched.
    pub reach: tools::NetworkPolicy,
    /// How much is kept of what files held before they were changed.
    pub undo: tools::StoreLimits,
    /// What `web_search` asks; none if it is not configured.
    pub search: Option<tools::SearchProvider>,
}
