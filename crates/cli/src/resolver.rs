//! The configuration as the runtime asks for it: settings when a run starts, an endpoint when a request is sent.

use std::sync::Arc;

use engine::{Candidate, Failure, FailureClass, Overrides, Settings};
use models::Endpoint;
use runtime::Resolver;

use crate::config::{Config, ConfigError, Subject};

/// Answers out of one configuration.
pub(crate) struct ConfigResolver {
    config: Arc<Config>,
}

impl ConfigResolver {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        Self { config }
    }
}

impl Resolver for ConfigResolver {
    fn settings(&self, agent: &str, model: Option<&str>, overrides: &Overrides) -> Result<Settings, Failure> {
        let subject = Subject { agent, overrides, session_model: model, date: &today() };
        let resolved = self.config.resolve(subject).map_err(|error| refused(&error, FailureClass::Refused))?;
        Ok(resolved.settings)
    }

    fn endpoint(&self, candidate: &Candidate) -> Result<Endpoint, Failure> {
        let endpoint = self.config.endpoint(&candidate.provider, candidate.profile.as_deref());
        endpoint.map_err(|error| refused(&error, FailureClass::Auth))
    }
}

/// The local date, `YYYY-MM-DD`.
pub(crate) fn today() -> String {
    jiff::Zoned::now().date().to_string()
}

fn refused(error: &ConfigError, class: FailureClass) -> Failure {
    Failure::new(class, format!("{error} ({})", error.hint()))
}
