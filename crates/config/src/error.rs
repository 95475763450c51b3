//! The errors of a configuration, each with its place and what to write instead. Messages never contain keys of
//! providers.

use std::fmt;
use std::path::PathBuf;

use models::{ProviderPreset, provider_preset, provider_presets};
use strsim::osa_distance;

use super::concealed::without_keys;

/// The layer that a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// The built-in defaults.
    Defaults,
    File {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
    },
    /// A file of the project of the workspace.
    Project {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
        /// Whether the user trusts the file, so that it may allow as well.
        trusted: bool,
    },
    /// An environment variable.
    Variable { name: String },
    /// A flag of the command.
    Flag {
        /// With its dashes.
        name: &'static str,
    },
}

impl ValueOrigin {
    /// The name of the layer, for `config show --origin`.
    pub fn layer(&self) -> &'static str {
        match self {
            Self::Defaults => "defaults",
            Self::File { .. } => "file",
            Self::Project { .. } => "project",
            Self::Variable { .. } => "variable",
            Self::Flag { .. } => "flag",
        }
    }

    /// Whether both come from one file, or from one kind of other layer.
    pub(super) fn is_same_layer(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { path, .. }, Self::File { path: other, .. })
            | (Self::Project { path, .. }, Self::Project { path: other, .. }) => path == other,
            _ => self.layer() == other.layer(),
        }
    }

    /// The place in the layer: `PATH:LINE`, or the name of the variable or flag.
    pub fn at(&self) -> Option<String> {
        match self {
            Self::Defaults => None,
            Self::File { path, line, .. } | Self::Project { path, line, .. } => {
                Some(format!("{}:{line}", path.display()))
            }
            Self::Variable { name } => Some(name.clone()),
            Self::Flag { name } => Some((*name).to_owned()),
        }
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => f.write_str("the defaults"),
            Self::File { path, line, column } | Self::Project { path, line, column, .. } => {
                write!(f, "{}:{line}:{column}", path.display())
            }
            Self::Variable { name } => write!(f, "the variable {name}"),
            Self::Flag { name } => write!(f, "the flag {name}"),
        }
    }
}

/// An error of a configuration. `origin` is the place of the value; `nearest` the nearest known name, if one is
/// near.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it themselves")]
pub enum ConfigError {
    /// The file exists and cannot be read.
    #[error("{} cannot be read: {detail}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The error of the system.
        detail: String,
    },
    /// The file is not UTF-8.
    #[error("{} is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    /// The file of a project exists and cannot be used: what it forbids is not known.
    #[error("{} cannot be used: {detail}", path.display())]
    ProjectFile {
        path: PathBuf,
        /// The reason.
        detail: String,
    },
    /// A key that the file of a project may not set.
    #[error("{origin}: a project may not set `{key}`")]
    NotForProject { origin: ValueOrigin, key: String },
    /// The file that says which projects are trusted cannot be used.
    #[error("{} cannot be used: {detail}", path.display())]
    Trust {
        path: PathBuf,
        /// The reason.
        detail: String,
    },
    /// The file is not TOML.
    #[error("{origin} is not valid TOML: {detail}")]
    Syntax {
        origin: ValueOrigin,
        /// The error of the parser.
        detail: String,
    },
    #[error("{origin}: unknown key `{key}`")]
    UnknownKey { origin: ValueOrigin, key: String, nearest: Option<String> },
    /// A key of a command line that is not declared.
    #[error("there is no key `{key}`")]
    NoSuchKey { key: String, nearest: Option<String> },
    /// A value of a command line that its key does not take; secrets masked.
    #[error("`{key}` cannot be {found}")]
    Unfit { key: String, found: String, expected: String },
    #[error("unknown variable {name}")]
    UnknownVariable { name: String, nearest: Option<String> },
    /// A key of a provider where a name belongs.
    #[error("{origin}: `{key}` has a key of a provider in the place of a name")]
    KeyAsName { origin: ValueOrigin, key: String },
    /// A value that its key does not take.
    #[error("{origin}: `{key}` cannot be {found}")]
    Value {
        origin: ValueOrigin,
        key: String,
        /// The value, secrets masked.
        found: String,
        /// The values that the key takes.
        expected: String,
    },
    /// A required key is missing.
    #[error("`{key}` is missing")]
    Missing {
        key: String,
        /// The values that the key takes.
        expected: String,
    },
    /// A template that cannot be read.
    #[error("`{key}` is no template: {detail}")]
    Template {
        key: String,
        /// The reason, with the line in the template.
        detail: String,
    },
    /// A key of a profile that belongs to profiles of another kind.
    #[error("`{key}` is not for a profile of kind \"{kind}\"")]
    Misplaced {
        key: String,
        /// The kind of its profile.
        kind: &'static str,
    },
    /// A route has the name of something that messages come from.
    #[error("`{key}` cannot be a route: messages come from there under this name")]
    RouteName { key: String },
    /// A route is named that is not configured.
    #[error("`{key}` names the route `{route}`, which is not there")]
    UnknownRoute { key: String, route: String, known: Vec<String> },
    /// A route leads to two places.
    #[error("`{key}` is not for a route that has `url`")]
    RouteToBoth { key: String },
    /// Two profiles of a provider have the same name.
    #[error("`{key}` is the name of another profile of its provider, or both have none")]
    SameProfile { key: String },
    #[error("there is no agent `{agent}`")]
    UnknownAgent {
        agent: String,
        /// All configured agents.
        known: Vec<String>,
    },
    /// A message is to stop before calls of a tool that does not exist.
    #[error("{why}")]
    StopBefore { why: String },
    /// A model of a flag or of a session that is neither `PROVIDER/MODEL` nor the name of a known one.
    #[error("`{}` is not a model", without_keys(model))]
    NotAModel {
        model: String,
        /// Models with names near to it.
        nearest: Vec<String>,
    },
    /// A model without its provider that several providers have.
    #[error("several providers have a model `{}`", without_keys(model))]
    AmbiguousModel { model: String, candidates: Vec<String> },
    /// A model of a provider that is not configured.
    #[error(
        "the model `{}` names the provider `{}`, which is not configured",
        without_keys(model),
        without_keys(provider)
    )]
    UnknownProvider {
        model: String,
        provider: String,
        /// All configured providers.
        known: Vec<String>,
    },
    /// A profile that does not exist, or no longer exists.
    #[error("the provider `{provider}` has no profile `{profile}`")]
    UnknownProfile { provider: String, profile: String },
    /// A key that cannot be read.
    #[error("the key of `{provider}` (profile `{profile}`) is unavailable: {detail}")]
    Key {
        provider: String,
        profile: String,
        place: KeyPlace,
        /// The reason; never the key.
        detail: String,
    },
    /// The value of a header that cannot be read.
    #[error("the header `{header}` of `{provider}` is unavailable: {detail}")]
    Header {
        provider: String,
        header: String,
        place: KeyPlace,
        /// The reason; never the value.
        detail: String,
    },
    /// The key of `[tools.web_search]` cannot be read.
    #[error("the key of the web search (tools.web_search.key) is unavailable: {detail}")]
    SearchKey {
        place: KeyPlace,
        /// The reason; never the key.
        detail: String,
    },
    /// `--workspace` names a folder that is not there.
    #[error("the workspace {} is not a folder that exists", path.display())]
    NoWorkspace { path: PathBuf },
    /// The folder that a service makes for an agent cannot be made.
    #[error("the workspace {} of agent {agent} cannot be made: {why}", path.display())]
    OwnWorkspace { agent: String, path: PathBuf, why: String },
    /// A service would have to look for a workspace in its own current folder.
    #[error("the workspace `{workspace}` of agent {agent} is relative, and a service works in no folder of its own")]
    RelativeWorkspace { agent: String, workspace: String },
    /// The same, named by `--workspace`; `path` is where that would lead from here.
    #[error("--workspace `{workspace}` is relative, and a service works in no folder of its own")]
    RelativeFlag { workspace: String, path: PathBuf },
    /// A relative path is needed, and the current folder was removed.
    #[error("the current folder does not exist any more")]
    NoCurrentFolder,
    /// `~` or the default home is needed, and `HOME` is not set.
    #[error("the folder of this user is not known: HOME is not set")]
    NoUserFolder,
}

/// Where a key or a header comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPlace {
    /// It is in the configuration.
    Text,
    /// A variable of the environment.
    Variable,
    /// A file.
    File,
    /// A command prints it.
    Command,
}

/// What the user can do about the file with the trusted projects.
const BROKEN_TRUST: &str = "make it writable; if it is broken, remove it: projects are asked about again then";

impl ConfigError {
    /// What the user can do.
    #[expect(clippy::too_many_lines, reason = "a line for each error")]
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { .. } => "make it readable, or set LIMULUS_HOME to another folder".to_owned(),
            Self::NotText { .. } => {
                "save it as UTF-8, or move it away: `limulus config init` writes a new one".to_owned()
            }
            Self::ProjectFile { .. } => {
                "make it a regular file of the project that you can read, or remove it; it limits what runs may do here"
                    .to_owned()
            }
            Self::Trust { .. } => BROKEN_TRUST.to_owned(),
            Self::NotForProject { key, .. } => {
                format!(
                    "take it out: the file of a project can only limit runs (docs/configuration.md); \
                     `limulus config set {key} VALUE` sets it for you alone"
                )
            }
            Self::Syntax { .. } => "fix that line; https://toml.io shows the format".to_owned(),
            Self::UnknownKey { key, .. } | Self::NoSuchKey { key, .. } if let Some(provider) = with_secret(key) => {
                format!(
                    "a key belongs under [[providers.{provider}.profiles]] as key = \"env:NAME\", \"file:PATH\" or \"cmd:COMMAND\"; \
                     `limulus setup` asks for it and writes that"
                )
            }
            Self::UnknownKey { nearest, .. } | Self::NoSuchKey { nearest, .. } => nearest_key(nearest.as_deref()),
            Self::KeyAsName { .. } => {
                "give it a name; the key belongs under [[providers.NAME.profiles]] as key = \"env:NAME\", \"file:PATH\" or \"cmd:COMMAND\""
                    .to_owned()
            }
            Self::UnknownVariable { nearest: Some(nearest), .. } => format!("the nearest known one is {nearest}"),
            Self::UnknownVariable { nearest: None, .. } => {
                "`limulus config init --print` shows every key; LIMULUS_RUNS__DEADLINE_S sets runs.deadline_s".to_owned()
            }
            Self::Value { expected, .. } | Self::Unfit { expected, .. } => format!("it takes {expected}"),
            Self::Missing { expected, .. } => format!("add it to config.toml: it takes {expected}"),
            Self::Template { .. } => "write it in Jinja, as docs/webhooks.md shows".to_owned(),
            Self::Misplaced { kind, .. } => {
                let other = if *kind == "key" { "oauth" } else { "key" };
                format!("remove it, or write kind = \"{other}\" beside it")
            }
            Self::RouteName { .. } => "give the route another name".to_owned(),
            Self::UnknownRoute { route, known, .. } if known.is_empty() => format!("add [routes.{route}] to config.toml"),
            Self::UnknownRoute { route, known, .. } => {
                format!("add [routes.{route}] to config.toml; there are: {}", known.join(", "))
            }
            Self::RouteToBoth { .. } => "remove one of them, or make two routes".to_owned(),
            Self::UnknownAgent { agent, known } => {
                format!("add [agents.{agent}] to config.toml; there are: {}", known.join(", "))
            }
            Self::SameProfile { .. } => {
                "give each profile of a provider a name of its own, such as name = \"work\"".to_owned()
            }
            Self::StopBefore { .. } => "name classes or tools, separated by commas: edit,exec".to_owned(),
            Self::NotAModel { .. } | Self::AmbiguousModel { .. } | Self::UnknownProvider { .. } => self.hint_on_models(),
            Self::UnknownProfile { provider, profile } => {
                format!("add it as name = \"{profile}\" under [[providers.{provider}.profiles]], or start a new run")
            }
            Self::Key { place, .. } | Self::Header { place, .. } | Self::SearchKey { place, .. } => match place {
                KeyPlace::Variable => "set the variable, and start the process that owns the home again",
                KeyPlace::File => "fix that; the file is read again for each request",
                KeyPlace::Command => {
                    "the first line that the command prints must be the key; it is run again for the next request"
                }
                KeyPlace::Text => "fix that; the configuration is read again for each request",
            }
            .to_owned(),
            Self::OwnWorkspace { agent, .. } | Self::RelativeWorkspace { agent, .. } => {
                format!("set agents.{agent}.workspace to an absolute path, or send the message with its folder")
            }
            Self::RelativeFlag { path, .. } => {
                format!("give an absolute path, such as --workspace '{}'", path.display())
            }
            Self::NoWorkspace { path } if path.exists() => "it is a file; name a folder".to_owned(),
            Self::NoWorkspace { path } => format!("create it (mkdir -p '{}'), or name another folder", path.display()),
            Self::NoCurrentFolder => "change to a folder that exists, or name one with --workspace".to_owned(),
            Self::NoUserFolder => "set HOME, or LIMULUS_HOME and absolute paths".to_owned(),
        }
    }

    /// What to do about the name of a model.
    fn hint_on_models(&self) -> String {
        match self {
            Self::NotAModel { nearest, .. } if !nearest.is_empty() => {
                format!("write PROVIDER/MODEL; near it are {}", nearest.join(", "))
            }
            Self::NotAModel { .. } => {
                "write PROVIDER/MODEL, such as offline/offline; `limulus models list --search TEXT` finds some"
                    .to_owned()
            }
            Self::AmbiguousModel { candidates, .. } => format!("name one of them: {}", candidates.join(", ")),
            Self::UnknownProvider { provider, known, .. } => match provider_preset(provider) {
                Some(ProviderPreset { key: Some(key), base_url: Some(_), .. }) => {
                    format!("set {key}, or let `limulus setup --provider {provider}` ask for a key")
                }
                Some(ProviderPreset { example: Some(example), .. }) => format!(
                    "let `limulus setup --provider {provider}` ask for its address, or add [providers.{provider}] with \
                     base_url to config.toml, such as \"{example}\""
                ),
                _ => match nearest_provider(provider, known) {
                    Some(nearest) => format!("the nearest known provider is `{nearest}`"),
                    None => format!(
                        "add [providers.{}] with api and base_url to config.toml; there are: {}",
                        without_keys(provider),
                        known.join(", ")
                    ),
                },
            },
            _ => String::new(),
        }
    }
}

/// The provider whose key is given in a place where other programs have it: `providers.NAME.key`.
fn with_secret(key: &str) -> Option<&str> {
    let (provider, key) = key.strip_prefix("providers.")?.split_once('.')?;
    matches!(key, "key" | "api_key" | "apikey" | "apiKey" | "token").then_some(provider)
}

/// The provider that was meant if two keys of the keyboard slipped at most.
fn nearest_provider<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let names = provider_presets().iter().map(|preset| preset.name).chain(known.iter().map(String::as_str));
    let near = names.map(|known| (osa_distance(name, known), known)).filter(|(distance, _)| *distance <= 2);
    near.min().map(|(_, known)| known)
}

/// The hint for a key that is not known.
fn nearest_key(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("the nearest known key is `{nearest}`"),
        None => "`limulus config init --print` shows every key".to_owned(),
    }
}
