//! Who has access besides the user of the home: tokens that may do less than everything, and devices. They are in a file of the home,
//! which the commands of its user change and the service reads; what is revoked opens nothing from then on.
//!
//! `file` reads and writes it, `tokens` and `devices` are what is in it, `grant` is who was let in.

mod devices;
mod file;
mod grant;
mod tokens;

use std::io;
use std::path::PathBuf;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

pub use devices::{DeviceRequest, PairedDevice};
pub use file::ACCESS_FILE;
pub use tokens::{NewToken, TokenEntry};

pub(super) use devices::{Asked, Pairing};
pub(super) use file::random;
pub(super) use grant::{Grant, Keyring, KeyringError};

/// What the file has.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// What the tokens of devices are made with; made with the first device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Secret>,
    /// The tokens besides that of the user.
    #[serde(default)]
    pub tokens: Vec<TokenEntry>,
    /// The devices that are known or ask.
    #[serde(default)]
    pub devices: Vec<PairedDevice>,
}

/// Digits that nobody else may see.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Why access cannot be read or changed.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file cannot be read or written.
    #[error("cannot {act} {}: {source}", path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
    /// Others can read it.
    #[error("{} can be read by other users", path.display())]
    Open { path: PathBuf },
    /// What stands there cannot be used.
    #[error("{} cannot be used: {why}", path.display())]
    Invalid { path: PathBuf, why: String },
    /// A token of this name is there.
    #[error("there is a token `{name}` already")]
    Taken { name: String },
    /// No name of a token.
    #[error("`{name}` is no name of a token: up to 64 letters, digits, `-`, `_` and `.`")]
    Name { name: String },
    /// There are as many as there may be.
    #[error("there are {most} {what} already")]
    Full { most: usize, what: &'static str },
    /// Nothing has this name or id.
    #[error("there is no {what} `{name}`")]
    Unknown { what: &'static str, name: String },
    /// Several begin with these digits.
    #[error("several devices begin with `{name}`")]
    Ambiguous { name: String },
    /// The time is over that a token was to be good for.
    #[error("a token is good for at least a moment")]
    Expired,
}

impl AccessError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "check who owns the home and whether its disk is full",
            Self::Open { .. } => "`chmod 600` makes it yours alone; revoke what others may have read",
            Self::Invalid { .. } => "correct it, or remove it: then only the token of the user opens anything",
            Self::Taken { .. } => "revoke it first, or take another name",
            Self::Name { .. } => "name it after the program that has it, such as `grafana`",
            Self::Full { .. } => "revoke what is not used any more",
            Self::Unknown { .. } => {
                "`limulus gateway token list` and `limulus gateway devices list` show what there is"
            }
            Self::Ambiguous { .. } => "give more digits of its id",
            Self::Expired => "give it more days",
        }
    }
}

/// The hash of a secret, as it is kept.
fn hash(secret: &str) -> String {
    hex(digest(&SHA256, secret.as_bytes()).as_ref())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}
