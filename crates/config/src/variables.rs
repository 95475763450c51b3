//! The environment variables that commands of agents receive, beside those of every command.

use std::path::Path;
use std::sync::LazyLock;

use engine::Settings;
use models::provider_presets;

use super::Config;
use super::endpoints::KeySource;

/// The variables of the keys of known providers, each once.
pub(super) static KEY_VARIABLES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut variables: Vec<&str> = vec![];
    for variable in provider_presets().iter().filter_map(|preset| preset.key) {
        if !variables.contains(&variable) {
            variables.push(variable);
        }
    }
    variables
});

impl Config {
    /// Further variables that commands receive.
    pub(crate) fn passed_env(&self) -> Vec<String> {
        self.values.tools.exec.env.clone()
    }

    /// Further variables that commands receive in runs with these settings, because they have skills of the user.
    pub(crate) fn env_of_skills(&self, settings: &Settings) -> Vec<String> {
        let is_there = |name: &String| settings.prompt.skills.as_ref().is_none_or(|names| names.contains(name));
        let (workspace, user) = (settings.known_workspace(), self.user_folder());
        let is_used =
            |name: &String| is_there(name) && tools::is_users_skill(name, Path::new(&workspace), user.as_deref());
        let has_skills = settings.tool("skill").is_some();
        let skills = self.values.skills.iter().filter(|(name, _)| has_skills && is_used(name));
        skills.flat_map(|(_, options)| options.env.clone()).collect()
    }

    /// The variables that hold keys. Commands never receive them.
    pub(crate) fn secret_env(&self) -> Vec<String> {
        let sources = self.key_sources().chain(self.header_sources()).filter_map(|source| match source {
            KeySource::Variable(name) => Some(name.clone()),
            KeySource::File(_) | KeySource::Command(_) | KeySource::Literal(_) => None,
        });
        // A variable that configures a provider may itself hold a key.
        let configuring = self.environment.variables().map(|(name, _)| name);
        let is_secret = |name: &str| name.ends_with("__KEY") || name.contains("__HEADERS__");
        let is_of = |name: &str| ["LIMULUS_PROVIDERS__", "LIMULUS_TOOLS__"].iter().any(|start| name.starts_with(start));
        let configuring = configuring.filter(|name| is_of(name) && is_secret(name));
        let names = configuring.chain(KEY_VARIABLES.iter().copied()).map(str::to_owned);
        let mut names: Vec<String> = sources.chain(names).collect();
        names.sort();
        names.dedup();
        names
    }
}
