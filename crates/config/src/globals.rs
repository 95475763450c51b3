//! The inputs of every command, and its configuration, which a process reads once at its start.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Config, ConfigError, Environment, FlagValues};

/// The values without errors, and the errors.
type Read = (Config, Vec<ConfigError>);

/// The inputs of every command.
#[derive(Debug, Clone)]
pub struct Globals {
    /// Its variables and its current folder.
    pub environment: Environment,
    /// The folder with the journal and config.toml.
    pub home: PathBuf,
    /// What was read for the name of a session, until a command loads its configuration.
    read: Arc<Mutex<Option<Read>>>,
}

impl Globals {
    /// Of this environment and this home.
    pub fn new(environment: Environment, home: PathBuf) -> Self {
        Self { environment, home, read: Arc::default() }
    }

    /// The environment of this process and the home that it names.
    pub fn of_process() -> Result<Self, ConfigError> {
        let environment = Environment::of_process();
        let home = environment.home()?;
        Ok(Self::new(environment, home))
    }

    /// The configuration. What was read for the name of a session is taken, once: later loads read it anew, so that a service
    /// notices its changes. Fails with the first error.
    pub fn load(&self, flags: FlagValues) -> Result<Config, ConfigError> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (config, wrong) = read.unwrap_or_else(|| self.read_now());
        wrong.into_iter().next().map_or(Ok(Config { flags, ..config }), Err)
    }

    /// Looks at the configuration. A wrong value counts as one that is not set.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Config) -> T) -> T {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        look(&read.get_or_insert_with(|| self.read_now()).0)
    }

    fn read_now(&self) -> Read {
        Config::read(&self.home, &self.environment, FlagValues::default())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::default_session;

    #[test]
    fn r21_what_was_read_for_the_name_of_a_session_is_the_configuration_of_the_command() {
        let home = tempfile::tempdir().unwrap();
        let put = |text: &str| fs::write(home.path().join(crate::FILE), text).unwrap();
        let globals = Globals::new(Environment::of(&[], "/"), home.path().to_owned());
        put("session.default = \"main\"\ndisplay.verbose = true");
        assert_eq!(
            (default_session(&globals, None), default_session(&globals, Some("/"))),
            ("main".into(), "main".into())
        );
        put("display.verbose = 7");
        let flags = FlagValues { workspace: Some("/w".to_owned()), ..FlagValues::default() };
        let config = globals.load(flags).unwrap();
        assert!(config.is_verbose() && config.flags.workspace.as_deref() == Some("/w"), "read once");
        assert!(globals.load(FlagValues::default()).is_err(), "and then anew");
        assert_ne!(default_session(&globals, None), "main");
        assert!(globals.load(FlagValues::default()).is_err(), "an error is not lost");
    }
}
