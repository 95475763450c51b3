//! The environment of the process: variables and the current folder. It is read once, so that everything else is a
//! function of values. `Debug` does not show the values of variables, since some are secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tools::{THIS_PROGRAM, real_folder};

use super::error::ConfigError;
use super::key_command::CommandKeys;

/// The variables and the current folder of a process.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    current: PathBuf,
    /// The keys that commands of this process printed: shared by every configuration that is read in it.
    command_keys: CommandKeys,
    /// The program that runs the commands that print keys, by its subcommand [`HELPER`](super::key_command::HELPER): it ends them
    /// when this process ends in any way. None = they run without it.
    helper: Option<PathBuf>,
    /// The real path of the user's folder, once it was asked for.
    real_user: Arc<OnceLock<Option<PathBuf>>>,
}

impl Environment {
    /// The environment of this process, without variables that are empty or not UTF-8.
    pub fn of_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(_, value)| !value.is_empty());
        // If the current folder was removed, opening a relative path fails later.
        let (current, helper) = (std::env::current_dir().unwrap_or_default(), Some(THIS_PROGRAM.into()));
        Self { variables: variables.collect(), current, helper, ..Self::default() }
    }

    /// An environment for tests.
    #[cfg(test)]
    pub fn of(variables: &[(&str, &str)], current: &str) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { variables: variables.collect(), current: current.into(), ..Self::default() }
    }

    /// The same with this variable, as for a configuration that is tried before it is written.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.variables.insert(name.to_owned(), value.to_owned());
        changed
    }

    /// The program that runs the commands that print keys.
    pub(super) fn helper(&self) -> Option<&Path> {
        self.helper.as_deref()
    }

    /// The keys that commands printed.
    pub(super) fn command_keys(&self) -> &CommandKeys {
        &self.command_keys
    }

    /// The value of a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// All variables, ordered by name.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The home: `$LIMULUS_HOME`, else `limulus` in the platform's data folder.
    pub fn home(&self) -> Result<PathBuf, ConfigError> {
        if let Some(home) = self.get("LIMULUS_HOME") {
            return self.absolute(home);
        }
        if cfg!(target_os = "macos") {
            return Ok(self.user()?.join("Library/Application Support/limulus"));
        }
        match self.get("XDG_DATA_HOME").map(Path::new) {
            // The XDG specification says to ignore relative paths.
            Some(data) if data.is_absolute() => Ok(data.join("limulus")),
            _ => Ok(self.user()?.join(".local/share/limulus")),
        }
    }

    /// The folder of the user's own configuration, for all homes; none if nobody knows where it is.
    pub(super) fn config_folder(&self) -> Option<PathBuf> {
        match self.get("XDG_CONFIG_HOME").map(Path::new) {
            Some(folder) if folder.is_absolute() => Some(folder.join("limulus")),
            _ => Some(self.user().ok()?.join(".config/limulus")),
        }
    }

    /// The folder of what outlives a process but is no configuration, such as copies of workspaces.
    pub(super) fn state_folder(&self) -> Result<PathBuf, ConfigError> {
        match self.get("XDG_STATE_HOME").map(Path::new) {
            Some(folder) if folder.is_absolute() => Ok(folder.join("limulus")),
            _ => Ok(self.user()?.join(".local/state/limulus")),
        }
    }

    /// The absolute path: `~` is the user's folder, a relative path starts at the current folder.
    pub fn absolute(&self, path: &str) -> Result<PathBuf, ConfigError> {
        let expanded = match path.strip_prefix('~') {
            Some("") => self.user()?.to_owned(),
            Some(rest) if rest.starts_with('/') => self.user()?.join(rest.trim_start_matches('/')),
            _ => PathBuf::from(path),
        };
        if expanded.is_relative() && self.current.as_os_str().is_empty() {
            return Err(ConfigError::NoCurrentFolder);
        }
        // `components` drops redundant parts, such as the dot of `./x`.
        Ok(self.current.join(expanded).components().collect())
    }

    /// The real path of the user's folder, if it is known.
    pub(super) fn real_user(&self) -> Option<&Path> {
        self.real_user.get_or_init(|| Some(real_folder(Path::new(self.get("HOME")?)))).as_deref()
    }

    fn user(&self) -> Result<&Path, ConfigError> {
        self.get("HOME").map(Path::new).ok_or(ConfigError::NoUserFolder)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.keys();
        f.debug_struct("Environment").field("names", &names).field("current", &self.current).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_the_configured_folder() {
        let check = |variables: &[(&str, &str)], home: &str| {
            let found = Environment::of(variables, "/now").home();
            assert_eq!(found.map(|home| home.display().to_string()).as_deref(), Ok(home));
        };
        check(&[("LIMULUS_HOME", "/l"), ("HOME", "/u")], "/l");
        check(&[("LIMULUS_HOME", "l/./m")], "/now/l/m");
        check(&[("LIMULUS_HOME", "~/l"), ("HOME", "/u")], "/u/l");
        if cfg!(target_os = "linux") {
            check(&[("XDG_DATA_HOME", "/d"), ("HOME", "/u")], "/d/limulus");
            check(&[("XDG_DATA_HOME", "d"), ("HOME", "/u")], "/u/.local/share/limulus");
        }
        assert_eq!(Environment::of(&[], "/now").home(), Err(ConfigError::NoUserFolder));
    }

    #[test]
    fn paths_are_relative_to_the_user_folder_or_the_current_folder() {
        let environment = Environment::of(&[("HOME", "/u")], "/now");
        let check = |path: &str, expected: &str| assert_eq!(environment.absolute(path), Ok(PathBuf::from(expected)));
        check(".", "/now");
        check("~", "/u");
        check("~/a/b", "/u/a/b");
        check("~other", "/now/~other");
        check("a", "/now/a");
        check("/a", "/a");
    }

    #[test]
    fn values_are_not_shown() {
        let environment = Environment::of(&[("ACME_KEY", "sk-secret")], "/");
        assert!(!format!("{environment:?}").contains("sk-secret"));
    }
}
