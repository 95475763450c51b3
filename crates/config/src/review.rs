//! Finds all errors and warnings of a configuration. An error prevents runs from starting; a warning does not.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use engine::tables::limits::{WINDOW_LEAST, WINDOW_SMALL};
use serde::Serialize;

use super::declared::Provider;
use super::endpoints::KeySource;
use super::error::{ConfigError, ValueOrigin};
use super::figures::Figures;
use super::kind::Kind;
use super::layers::{Layers, dotted};
use super::places;
use super::project_layer::ProjectLayer;
use super::settings::{self, Entry};
use super::{Config, Environment, FlagValues};

/// An error or a warning about a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// What is wrong, with its place.
    pub what: String,
    /// What to write instead.
    pub hint: String,
}

impl From<&ConfigError> for Remark {
    fn from(error: &ConfigError) -> Self {
        Self { what: error.to_string(), hint: error.hint() }
    }
}

/// All errors and warnings of a configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Review {
    /// Each of them prevents runs from starting.
    pub errors: Vec<Remark>,
    /// Runs start all the same.
    pub warnings: Vec<Remark>,
    /// The number of keys that the file and the variables set.
    pub set: usize,
}

impl Config {
    /// Reads every layer and checks all values.
    pub fn review(home: &Path, environment: &Environment, flags: FlagValues) -> Review {
        Self::review_of(Self::read(home, environment, flags))
    }

    /// Checks all values as they would be if this file of the user had this text.
    pub fn review_text(home: &Path, environment: &Environment, (file, text): (&Path, &str)) -> Review {
        let files = places::of_user(home, environment);
        let layers = Layers::with_text((file, text), &files, environment);
        Self::review_of(Self::assemble(home, environment, FlagValues::default(), (files, vec![], layers)))
    }

    fn review_of((config, mut errors): (Self, Vec<ConfigError>)) -> Review {
        let layers = Arc::clone(&config.layers);
        let project =
            config.main_workspace().map(|workspace| ProjectLayer::of(&config, &workspace)).unwrap_or_default();
        errors.extend_from_slice(&project.wrong);
        let models = config.models_of_agents();
        for (agent, model) in &models {
            let error = config.candidate(model, &config.values.agents[agent], None).err();
            errors.extend(error.filter(|error| !errors.contains(error) && !is_reported(error, &errors)));
        }
        let mut warnings: Vec<Remark> = config.unreadable_keys().iter().map(Remark::from).collect();
        let hint = "change it before the next update; until then the old and the new form are equivalent".to_owned();
        warnings.splice(
            ..0,
            layers
                .deprecated()
                .iter()
                .chain(project.deprecated())
                .map(|what| Remark { what: what.clone(), hint: hint.clone() }),
        );
        warnings.extend(models.iter().filter_map(|(_, model)| config.assumed_figures(model)));
        warnings.extend(models.iter().filter_map(|(_, model)| config.small_window(model)));
        warnings.extend(config.values.budget.unmeasurable());
        let files = config.user_files();
        warnings.extend(files.iter().filter_map(|file| readable_by_others(file, &layers)));
        warnings.extend(config.key_files().filter_map(|file| readable_key(&file)));
        warnings.extend(config.values.providers.iter().filter_map(|(name, provider)| sent_in_clear(name, provider)));
        warnings.extend([config.home.clone()].iter().chain(files).filter_map(|path| of_others(path)));
        let mut once = vec![];
        warnings.retain(|warning| {
            !once.contains(warning) && {
                once.push(warning.clone());
                true
            }
        });
        let set = layers.values().filter(|(_, _, origin)| **origin != ValueOrigin::Defaults).count();
        Review { errors: errors.iter().map(Remark::from).collect(), warnings, set }
    }

    /// Every model that an agent names, with the agent.
    fn models_of_agents(&self) -> Vec<(String, String)> {
        let agents = self.values.agents.iter();
        let models = agents.flat_map(|(name, agent)| {
            agent.model.iter().chain(&agent.fallbacks).map(|model| (name.clone(), model.clone()))
        });
        models.collect()
    }

    /// Warns about a context window that is too small for an agent, or smaller than recommended.
    fn small_window(&self, model: &str) -> Option<Remark> {
        let (provider, name) = model.split_once('/')?;
        let window = self.figures(provider, name).info.context_window;
        let advice = match window {
            ..WINDOW_LEAST => format!("it is skipped: an agent needs at least {WINDOW_LEAST} tokens"),
            WINDOW_LEAST..WINDOW_SMALL => format!("{WINDOW_SMALL} or more are recommended"),
            _ => return None,
        };
        Some(Remark {
            what: format!("the model `{model}` has a context window of {window} tokens; {advice}"),
            hint: format!("use a model with a larger window, or set `context_window` under [models.\"{model}\"]"),
        })
    }

    /// Warns about a model whose figures are neither in the catalogue nor configured.
    fn assumed_figures(&self, model: &str) -> Option<Remark> {
        let (provider, name) = model.split_once('/')?;
        let Figures { info, configured } = self.figures(provider, name);
        let is_configured = ["context_window", "max_output"].iter().all(|key| configured.contains(key));
        // Nobody publishes figures of local models.
        let is_unknown = info.origin == models::Origin::Default && provider != "ollama";
        (is_unknown && !is_configured).then(|| Remark {
            what: format!(
                "the model `{model}` is not in the catalogue: a window of {} and answers of {} tokens are assumed",
                info.context_window, info.max_output
            ),
            hint: format!("set `context_window` and `max_output` under [models.\"{model}\"]"),
        })
    }
}

/// Whether a provider is unknown because of another error in its table, which is already reported.
fn is_reported(error: &ConfigError, errors: &[ConfigError]) -> bool {
    let ConfigError::UnknownProvider { provider, .. } = error else { return false };
    let table = dotted(&["providers".to_owned(), provider.clone()]) + ".";
    errors.iter().any(|error| match error {
        ConfigError::UnknownKey { key, .. }
        | ConfigError::Value { key, .. }
        | ConfigError::Missing { key, .. }
        | ConfigError::Misplaced { key, .. } => key.starts_with(&table),
        _ => false,
    })
}

/// Warns if the file holds a key and other users can read it.
fn readable_by_others(file: &Path, layers: &Layers) -> Option<Remark> {
    let is_literal = |(path, value, origin): (&[String], &toml::Value, &ValueOrigin)| {
        settings::at(path) == Entry::Key(Kind::Secret)
            && matches!(origin, ValueOrigin::File { path: of, .. } if of == file)
            && value.as_str().is_some_and(|text| !KeySource::of(text).is_reference())
    };
    let mode = std::fs::metadata(file).ok()?.mode();
    (mode & 0o077 != 0 && layers.values().any(is_literal)).then(|| Remark {
        what: format!("{} holds a key and can be read by others", file.display()),
        hint: format!(
            "`chmod 600 {}`, or name the place of the key: env:NAME, file:PATH or cmd:COMMAND",
            file.display()
        ),
    })
}

/// Warns about the file of a key that other users can read.
fn readable_key(file: &Path) -> Option<Remark> {
    let mode = std::fs::metadata(file).ok()?.mode();
    (mode & 0o077 != 0).then(|| Remark {
        what: format!("{} holds a key, and others can read or change it (mode {:o})", file.display(), mode & 0o777),
        hint: format!("`chmod 600 {}`", file.display()),
    })
}

/// Warns about an address to which key and conversation go unencrypted.
fn sent_in_clear(name: &str, provider: &Provider) -> Option<Remark> {
    let address = provider.base_url.as_deref().filter(|address| !models::may_hold_tokens(address))?;
    let address = Kind::Address.masked(&toml::Value::String(address.to_owned()));
    Some(Remark {
        what: format!(
            "the provider `{name}` at {address} is asked without encryption: others can read key and conversation"
        ),
        hint: "use an address that begins with https://, or a server on this machine".to_owned(),
    })
}

/// Warns about a home or a configuration that another user owns or may change.
fn of_others(path: &Path) -> Option<Remark> {
    let meta = std::fs::metadata(path).ok()?;
    let (own, mode) = (rustix::process::geteuid().as_raw(), meta.mode());
    let remark = |what: String, hint: String| Some(Remark { what, hint });
    if meta.uid() != own {
        let what =
            format!("{} belongs to another user (uid {}), who can change what is allowed", path.display(), meta.uid());
        return remark(what, "use a home of your own: set LIMULUS_HOME to another folder".to_owned());
    }
    // In a folder with the sticky bit others cannot replace what they do not own.
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let what =
            format!("others can change {} (mode {:o}) and with it what is allowed", path.display(), mode & 0o777);
        return remark(what, format!("`chmod go-w {}`", path.display()));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::FILE;
    use super::*;

    fn review(file: &str, variables: &[(&str, &str)], mode: u32) -> Review {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE);
        fs::write(&path, file).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let mut review = Config::review(home.path(), &Environment::of(variables, "/now"), FlagValues::default());
        for remark in review.errors.iter_mut().chain(&mut review.warnings) {
            remark.what = remark.what.replace(home.path().to_str().unwrap(), "HOME");
        }
        review
    }

    fn whats(remarks: &[Remark]) -> Vec<&str> {
        remarks.iter().map(|remark| remark.what.as_str()).collect()
    }

    #[test]
    fn r24_all_errors_are_reported_in_the_order_of_the_file() {
        let file = "[runs]\nresume = \"never\"\ndeadline = 5\n[agents.main]\nmodel = \"nobody/m\"\nfallbacks = [\"acme/m\"]\n\
                    [providers.acme]\napi = \"smoke\"\n[tools]\ntimeout_s = 0\n[providers.beta]\napi = \"gemini\"\n";
        let review = review(file, &[("LIMULUS_QUEUE__CAP", "many"), ("LIMULUS_QEUE__CAP", "1")], 0o600);
        let errors = [
            "HOME/config.toml:2:1: `runs.resume` cannot be \"never\"",
            "HOME/config.toml:3:1: unknown key `runs.deadline`",
            "HOME/config.toml:8:1: `providers.acme.api` cannot be \"smoke\"",
            "HOME/config.toml:10:1: `tools.timeout_s` cannot be 0",
            "unknown variable LIMULUS_QEUE__CAP",
            "the variable LIMULUS_QUEUE__CAP: `queue.cap` cannot be \"many\"",
            "`providers.beta.base_url` is missing",
            "the model `nobody/m` names the provider `nobody`, which is not configured",
        ];
        assert_eq!(whats(&review.errors), errors);
    }

    #[test]
    fn r24_a_warning_prevents_no_run() {
        let file = "[agents.main]\nmodel = \"acme/m\"\nfallbacks = [\"acme/n\", \"ollama/x\"]\n[models.\"acme/n\"]\n\
                    context_window = 9000\nmax_output = 900\n[providers.acme]\napi = \"openai-chat\"\n\
                    base_url = \"http://127.0.0.1:1\"\nheaders.x-team = \"env:TEAM\"\n[[providers.acme.profiles]]\n\
                    key = \"file:/nowhere/key\"\n[[providers.acme.profiles]]\nname = \"b\"\nkey = \"sk-literal\"\n";
        let review = review(file, &[], 0o644);
        assert_eq!(whats(&review.errors), [""; 0]);
        let warnings = [
            "the key of `acme` (profile `default`) is unavailable: /nowhere/key cannot be read (No such file or directory \
             (os error 2))",
            "the header `x-team` of `acme` is unavailable: the variable TEAM is not set",
            "the model `acme/m` is not in the catalogue: a window of 128000 and answers of 8192 tokens are assumed",
            "the model `acme/n` has a context window of 9000 tokens; it is skipped: an agent needs at least 16000 tokens",
            "HOME/config.toml holds a key and can be read by others",
        ];
        assert_eq!(whats(&review.warnings), warnings);
        assert!(!format!("{review:?}").contains("sk-literal"));
        assert_eq!(self::review("", &[], 0o644), Review { errors: vec![], warnings: vec![], set: 0 });
    }

    /// R50: what other users of the machine could read or change is a warning.
    #[test]
    fn r50_what_others_can_read_or_change_is_warned_about() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, "sk-literal").unwrap();
        let provider = |address: &str| {
            format!(
                "[providers.acme]\napi = \"openai-chat\"\nbase_url = \"{address}\"\n[[providers.acme.profiles]]\n\
                 key = \"file:{}\"\n",
                key.display()
            )
        };
        let warned = |mode: u32, address: &str, file_mode: u32| {
            fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
            let review = review(&provider(address), &[], file_mode);
            assert!(review.errors.is_empty(), "{review:?}");
            review.warnings.iter().map(|remark| remark.what.clone()).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(warned(0o600, "https://h/v1", 0o600), "");
        assert_eq!(warned(0o400, "http://127.0.0.1:1/v1", 0o644), "");
        for mode in [0o640, 0o604, 0o666, 0o620] {
            let said = warned(mode, "https://h/v1", 0o600);
            assert!(
                said.contains("key holds a key, and others can read") && said.contains(&format!("{mode:o}")),
                "{said}"
            );
        }
        for address in ["http://h/v1", "http://me:sk-pass@10.0.0.1:1/v1", "http://127.0.0.1.evil.example/v1"] {
            let said = warned(0o600, address, 0o600);
            assert!(said.contains("without encryption") && !said.contains("sk-pass"), "{address}: {said}");
        }
        for mode in [0o620, 0o602, 0o666] {
            let said = warned(0o600, "https://h/v1", mode);
            assert!(said.contains("others can change HOME/config.toml"), "{mode:o}: {said}");
        }
    }

    /// R50: a key file that is a pipe, a device, a folder, a socket or too large neither blocks nor is read.
    #[test]
    fn r50_a_key_file_that_is_no_file_never_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let large = folder.path().join("large");
        fs::write(&large, vec![b'k'; 1 << 20]).unwrap();
        fs::set_permissions(&large, Permissions::from_mode(0o600)).unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let devices = ["/dev/zero", "/dev/tty", "/dev/random"].map(std::path::PathBuf::from);
        for path in [pipe.clone(), large, socket, folder.path().to_owned()].into_iter().chain(devices) {
            let text = format!(
                "[providers.acme]\napi = \"openai-chat\"\nbase_url = \"https://h\"\n[[providers.acme.profiles]]\nkey = \"file:{}\"\n",
                path.display()
            );
            let review = review(&text, &[], 0o600);
            assert!(whats(&review.warnings).iter().any(|what| what.contains("cannot be read")), "{path:?}: {review:?}");
        }
        // The configuration itself.
        let home = tempfile::tempdir().unwrap();
        fs::rename(&pipe, home.path().join(FILE)).unwrap();
        let review = Config::review(home.path(), &Environment::of(&[], "/now"), FlagValues::default());
        assert!(review.errors[0].what.contains("not a regular file"), "{review:?}");
    }
}
