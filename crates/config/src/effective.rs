//! The values in force, key by key, each with its layer. Secrets are masked.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use toml::Value;

use super::error::{ConfigError, ValueOrigin};
use super::layers::dotted;
use super::settings::{self, Entry};
use super::{Config, Environment, FlagValues};

/// A key with its value in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The key as in a file.
    pub key: String,
    /// The value, secrets masked.
    pub value: Value,
    /// `defaults`, `file`, `project`, `variable` or `flag`.
    pub layer: &'static str,
    /// The place in that layer: `PATH:LINE`, or the name of a variable or flag.
    pub at: Option<String>,
}

/// A configuration with all values in force.
#[derive(Debug)]
pub struct Effective {
    /// The configuration itself.
    pub config: Config,
    /// Ordered by key.
    pub settings: Vec<Setting>,
}

impl Config {
    /// Reads every layer and lists the values in force, as the project of the workspace of the agent `main` restricts them.
    pub fn effective(home: &Path, environment: &Environment, flags: FlagValues) -> Result<Effective, ConfigError> {
        let config = Self::load(home, environment, flags)?;
        let config = config.within(&config.main_workspace()?)?.into_owned();
        let mut rows: BTreeMap<Vec<String>, (Value, ValueOrigin)> = BTreeMap::new();
        for (path, value, origin) in config.known_values() {
            rows.insert(path, (Value::String(value), origin));
        }
        for (path, value, origin) in config.layers.values() {
            rows.insert(path.to_vec(), (value.clone(), origin.clone()));
        }
        if let Some(workspace) = &config.flags.workspace {
            for agent in config.values.agents.keys() {
                let path = ["agents", agent, "workspace"].map(str::to_owned).to_vec();
                rows.insert(path, (Value::String(workspace.clone()), ValueOrigin::Flag { name: "--workspace" }));
            }
        }
        let settings = rows.iter().map(|(path, (value, origin))| setting(path, value, origin)).collect();
        Ok(Effective { config, settings })
    }
}

fn setting(path: &[String], value: &Value, origin: &ValueOrigin) -> Setting {
    let Entry::Key(kind) = settings::at(path) else { unreachable!("a layer holds nothing but keys of the table") };
    Setting { key: dotted(path), value: kind.masked(value), layer: origin.layer(), at: origin.at() }
}

#[cfg(test)]
mod tests {
    use super::super::FILE;
    use super::*;

    const FILE_TEXT: &str = "\
[runs]
deadline_s = 60
resume = \"continue\"
[providers.acme]
api = \"openai-chat\"
base_url = \"http://me:sk-password@127.0.0.1:1/v1\"
proxy = \"http://127.0.0.1:2/?api_key=sk-query-key\"
headers.x-team = \"sk-header\"
[[providers.acme.profiles]]
key = \"sk-literal-key\"
[[providers.acme.profiles]]
key = \"env:ACME_KEY\"
name = \"other\"
";

    fn settings(flags: FlagValues) -> Vec<Setting> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), FILE_TEXT).unwrap();
        let variables = [("LIMULUS_RUNS__RESUME", "restart"), ("ACME_KEY", "sk-of-env"), ("OPENAI_API_KEY", "sk-open")];
        let effective = Config::effective(home.path(), &Environment::of(&variables, "/now"), flags).unwrap();
        let shown = format!("{:?}", effective.settings);
        assert!(!shown.contains("sk-"), "{shown}");
        let mut settings = effective.settings;
        for setting in &mut settings {
            setting.at = setting.at.take().map(|at| at.replace(home.path().to_str().unwrap(), "HOME"));
        }
        settings
    }

    #[test]
    fn r50_every_key_is_shown_with_its_layer_and_no_secret() {
        let settings = settings(FlagValues { workspace: Some("there".to_owned()), ..FlagValues::default() });
        let check = |key: &str, value: &str, layer: &str, at: Option<&str>| {
            let setting = settings.iter().find(|setting| setting.key == key).unwrap_or_else(|| panic!("no {key}"));
            let found = (setting.value.to_string(), setting.layer, setting.at.as_deref());
            assert_eq!(found, (value.to_owned(), layer, at), "{key}");
        };
        check("runs.poison_after", "3", "defaults", None);
        check("runs.deadline_s", "60", "file", Some("HOME/config.toml:2"));
        check("runs.resume", "\"restart\"", "variable", Some("LIMULUS_RUNS__RESUME"));
        check("agents.main.workspace", "\"there\"", "flag", Some("--workspace"));
        check("providers.acme.base_url", "\"http://…@127.0.0.1:1/v1\"", "file", Some("HOME/config.toml:6"));
        check("providers.acme.headers.x-team", "\"…\"", "file", Some("HOME/config.toml:8"));
        check("providers.acme.proxy", "\"http://127.0.0.1:2/?api_key=…\"", "file", Some("HOME/config.toml:7"));
        check("providers.acme.profiles.0.key", "\"…\"", "file", Some("HOME/config.toml:10"));
        check("providers.acme.profiles.1.key", "\"env:ACME_KEY\"", "file", Some("HOME/config.toml:12"));
        check("providers.openai.base_url", "\"https://api.openai.com/v1\"", "defaults", None);
        check("providers.openai.profiles.0.key", "\"env:OPENAI_API_KEY\"", "variable", Some("OPENAI_API_KEY"));
        assert!(
            settings.iter().all(|setting| !setting.key.starts_with("providers.gemini.")),
            "a provider without a key is not listed"
        );
    }
}
