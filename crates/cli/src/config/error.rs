//! What can be wrong with a configuration, each with where it stands and what to write instead. Keys of providers never
//! reach a message.

use std::fmt;
use std::path::PathBuf;

use super::endpoints::{BuiltIn, built_in};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The built-in defaults.
    Defaults,
    /// A line of a file, from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
    },
    /// A flag of the command.
    Flag {
        /// Its name, dashes included.
        name: &'static str,
    },
}

impl Origin {
    /// The name of the layer.
    pub(crate) fn layer(&self) -> &'static str {
        match self {
            Self::Defaults => "defaults",
            Self::File { .. } => "file",
            Self::Variable { .. } => "variable",
            Self::Flag { .. } => "flag",
        }
    }

    /// Where in it: `PATH:LINE`, or a name.
    pub(crate) fn at(&self) -> Option<String> {
        match self {
            Self::Defaults => None,
            Self::File { path, line } => Some(format!("{}:{line}", path.display())),
            Self::Variable { name } => Some(name.clone()),
            Self::Flag { name } => Some((*name).to_owned()),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => f.write_str("the defaults"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable { name } => write!(f, "the variable {name}"),
            Self::Flag { name } => write!(f, "the flag {name}"),
        }
    }
}

/// What can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file is there and cannot be read.
    #[error("{} cannot be read: {detail}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
    /// The file is not TOML.
    #[error("{origin} is not valid TOML: {detail}")]
    Syntax {
        /// Where.
        origin: Origin,
        /// What the reader said.
        detail: String,
    },
    /// A key that there is not.
    #[error("{origin}: unknown key `{key}`")]
    UnknownKey {
        /// Where.
        origin: Origin,
        /// The key.
        key: String,
        /// The nearest known one.
        nearest: String,
    },
    /// A variable that there is not.
    #[error("unknown variable {name}")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The nearest known one.
        nearest: String,
    },
    /// A key with a value that it cannot hold.
    #[error("{origin}: `{key}` cannot be {found}")]
    Value {
        /// Where.
        origin: Origin,
        /// The key.
        key: String,
        /// What it holds.
        found: String,
        /// What it may hold.
        expected: String,
    },
    /// A key that must be there and is not.
    #[error("`{key}` is missing")]
    Missing {
        /// The key.
        key: String,
        /// What it may hold.
        expected: String,
    },
    /// A key of a profile that is for profiles of another kind.
    #[error("`{key}` is not for a profile of kind \"{kind}\"")]
    Misplaced {
        /// The key.
        key: String,
        /// The kind that its profile has.
        kind: &'static str,
    },
    /// A profile that is called like one before it.
    #[error("`{key}` is the name of another profile of its provider, or both have none")]
    SameProfile {
        /// The key.
        key: String,
    },
    /// No such agent.
    #[error("there is no agent `{agent}`")]
    UnknownAgent {
        /// The agent.
        agent: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A model of a flag or of a session that is not `PROVIDER/MODEL`.
    #[error("`{model}` is not a model")]
    NotAModel {
        /// What was given.
        model: String,
    },
    /// A model of a provider that there is not.
    #[error("the model `{model}` names the provider `{provider}`, which is not configured")]
    UnknownProvider {
        /// The model.
        model: String,
        /// Its provider.
        provider: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A profile that there is not (any more).
    #[error("the provider `{provider}` has no profile `{profile}`")]
    UnknownProfile {
        /// The provider.
        provider: String,
        /// The profile.
        profile: String,
    },
    /// A key that cannot be had.
    #[error("the key of `{provider}` (profile `{profile}`) cannot be had: {detail}")]
    Key {
        /// The provider.
        provider: String,
        /// The profile.
        profile: String,
        /// Why; never the key.
        detail: String,
    },
    /// The value of a header that cannot be had.
    #[error("the header `{header}` of `{provider}` cannot be had: {detail}")]
    Header {
        /// The provider.
        provider: String,
        /// The header.
        header: String,
        /// Why; never the value.
        detail: String,
    },
    /// There is no folder to be found for the home or for `~`.
    #[error("the folder of this user is not known: HOME is not set")]
    NoUserFolder,
}

impl ConfigError {
    /// What to do.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Unreadable { .. } => "make it readable, or set LIMULUS_HOME to another folder".to_owned(),
            Self::Syntax { .. } => "fix that line; https://toml.io shows the format".to_owned(),
            Self::UnknownKey { nearest, .. } => format!("the nearest known key is `{nearest}`"),
            Self::UnknownVariable { nearest, .. } => format!("the nearest known one is {nearest}"),
            Self::Value { expected, .. } => format!("it takes {expected}"),
            Self::Missing { expected, .. } => format!("add it to config.toml: it takes {expected}"),
            Self::Misplaced { kind, .. } => {
                let other = if *kind == "key" { "oauth" } else { "key" };
                format!("take it away, or write kind = \"{other}\" beside it")
            }
            Self::UnknownAgent { agent, known } => {
                format!("add [agents.{agent}] to config.toml; there are: {}", known.join(", "))
            }
            Self::SameProfile { .. } => {
                "give each profile of a provider a name of its own, such as name = \"work\"".to_owned()
            }
            Self::NotAModel { .. } => "write PROVIDER/MODEL, such as offline/offline".to_owned(),
            Self::UnknownProvider { provider, known, .. } => match built_in(provider) {
                Some(BuiltIn { key: Some(key), .. }) => {
                    format!("set {key}, or add [[providers.{provider}.profiles]] with a key to config.toml")
                }
                _ => format!(
                    "add [providers.{provider}] with api and base_url to config.toml; there are: {}",
                    known.join(", ")
                ),
            },
            Self::UnknownProfile { provider, profile } => {
                format!("add it as name = \"{profile}\" under [[providers.{provider}.profiles]], or start a new run")
            }
            Self::Key { .. } | Self::Header { .. } => "fix that; the file is read again for each request".to_owned(),
            Self::NoUserFolder => "set HOME, or LIMULUS_HOME and absolute paths".to_owned(),
        }
    }
}
