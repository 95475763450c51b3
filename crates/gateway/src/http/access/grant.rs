//! Who was let in, and for how long that holds.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Scopes;
use subtle::ConstantTimeEq as _;

use super::{ACCESS_FILE, Access, AccessError, PairedDevice, hash};
use crate::http::token::{TOKEN_FILE, Token, TokenError};

/// Who was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) struct Grant {
    /// What it may do.
    pub(in crate::http) scopes: Scopes,
    holder: Holder,
    /// The device that it is, whatever token it has shown.
    paired: Option<String>,
}

/// Who has the token that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holder {
    /// The user, with the token of this hash.
    User(String),
    /// A program, by the name and the hash of its token.
    Program { name: String, hash: String },
    /// A device, and when it was approved.
    Device { id: String, approved_at: Option<i64> },
}

impl Grant {
    /// The device whose token was shown; none if it was another token.
    pub(in crate::http) fn device(&self) -> Option<&str> {
        match &self.holder {
            Holder::Device { id, .. } => Some(id),
            Holder::User(_) | Holder::Program { .. } => None,
        }
    }

    /// The same with at most these scopes.
    pub(in crate::http) fn within(&self, scopes: Scopes) -> Self {
        let scopes = scopes.iter().filter(|scope| self.scopes.allow(*scope)).collect();
        Self { scopes, holder: self.holder.clone(), paired: self.paired.clone() }
    }

    /// The same for a device, with which it ends.
    pub(in crate::http) fn of_device(&self, id: &str) -> Self {
        Self { paired: Some(id.to_owned()), ..self.clone() }
    }

    /// The SHA-256 of the token of a user or a program.
    pub(in crate::http) fn hash(&self) -> Option<&str> {
        match &self.holder {
            Holder::User(hash) | Holder::Program { hash, .. } => Some(hash),
            Holder::Device { .. } => None,
        }
    }

    /// A name of it for the log.
    pub(in crate::http) fn name(&self) -> String {
        match &self.holder {
            Holder::User(_) => "the user".to_owned(),
            Holder::Program { name, .. } => format!("token {name}"),
            Holder::Device { id, .. } => format!("device {}", id.chars().take(8).collect::<String>()),
        }
    }
}

/// Why nobody can be let in.
#[derive(Debug, thiserror::Error)]
pub(in crate::http) enum KeyringError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Access(#[from] AccessError),
}

impl KeyringError {
    /// What to do.
    pub(in crate::http) fn hint(&self) -> &'static str {
        match self {
            Self::Token(error) => error.hint(),
            Self::Access(error) => error.hint(),
        }
    }
}

/// The tokens of a home, read again when their files have changed.
#[derive(Debug)]
pub(in crate::http) struct Keyring {
    home: PathBuf,
    known: Mutex<Option<Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    stamps: [Option<Stamp>; 2],
    keys: Arc<Keys>,
}

/// What both files had.
#[derive(Debug)]
struct Keys {
    token: Token,
    /// The SHA-256 of it.
    user: String,
    access: Access,
}

/// What changes with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) struct Stamp {
    inode: u64,
    bytes: u64,
    mode: u32,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let meta = fs::symlink_metadata(path).ok()?;
        let changed = (meta.ctime(), meta.ctime_nsec());
        Some(Self { inode: meta.ino(), bytes: meta.len(), mode: meta.mode(), changed })
    }
}

impl Keyring {
    pub(in crate::http) fn new(home: PathBuf) -> Self {
        Self { home, known: Mutex::default() }
    }

    /// Who has this token, if anybody.
    pub(in crate::http) fn holder(&self, given: &str, now: i64) -> Result<Option<Grant>, KeyringError> {
        let keys = self.keys()?;
        if keys.token.is(given) {
            return Ok(Some(Grant { scopes: Scopes::ALL, holder: Holder::User(hash(given)), paired: None }));
        }
        let hash = hash(given);
        let mut tokens = keys.access.tokens.iter().filter(|token| !token.has_expired(now));
        if let Some(token) = tokens.find(|token| token.hash.as_bytes().ct_eq(hash.as_bytes()).into()) {
            let holder = Holder::Program { name: token.name.clone(), hash };
            return Ok(Some(Grant { scopes: token.scopes(), holder, paired: None }));
        }
        Ok(keys.access.device_with(given, &keys.user, now).map(|device| Grant {
            scopes: device.scopes(),
            holder: Holder::Device { id: device.id.clone(), approved_at: device.approved_at },
            paired: None,
        }))
    }

    /// Whether what was granted still holds.
    pub(in crate::http) fn holds(&self, grant: &Grant, now: i64) -> bool {
        let Ok(keys) = self.keys() else { return false };
        let device = |id: &str| keys.access.devices.iter().find(|device| device.id == id);
        let is_good = |device: &PairedDevice| {
            let granted = device.scopes();
            keys.access.is_good(device, &keys.user, now) && grant.scopes.iter().all(|scope| granted.allow(scope))
        };
        let holds = match &grant.holder {
            Holder::User(hash) => keys.user == *hash,
            Holder::Program { name, hash } => keys
                .access
                .tokens
                .iter()
                .any(|token| token.name == *name && token.hash == *hash && !token.has_expired(now)),
            Holder::Device { id, approved_at } => {
                device(id).is_some_and(|device| device.approved_at == *approved_at && is_good(device))
            }
        };
        holds && grant.paired.as_deref().is_none_or(|id| device(id).is_some_and(is_good))
    }

    /// The SHA-256 of the token of the user.
    pub(in crate::http) fn user(&self) -> Result<String, KeyringError> {
        Ok(self.keys()?.user.clone())
    }

    /// Whether a token has expired between these times.
    pub(in crate::http) fn has_expired(&self, before: i64, now: i64) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = known.iter().flat_map(|known| &known.keys.access.tokens);
        tokens.filter_map(|token| token.expires_at).any(|at| before < at && at <= now)
    }

    /// What changes with the files.
    pub(in crate::http) fn stamps(&self) -> [Option<Stamp>; 2] {
        [TOKEN_FILE, ACCESS_FILE].map(|name| Stamp::of(&self.home.join(name)))
    }

    fn keys(&self) -> Result<Arc<Keys>, KeyringError> {
        let stamps = self.stamps();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.stamps == stamps) {
            return Ok(Arc::clone(&known.keys));
        }
        // Read after their stamps: what changes in between is read once more the next time.
        let (token, access) = (Token::read(&self.home)?, Access::read(&self.home)?);
        let keys = Arc::new(Keys { user: hash(token.expose()), token, access });
        *known = Some(Known { stamps, keys: Arc::clone(&keys) });
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use protocol::Scope;

    use super::super::NewToken;
    use super::*;

    fn new(name: &str, scopes: &[Scope], expires_at: Option<i64>) -> NewToken {
        NewToken { name: name.to_owned(), scopes: scopes.to_vec(), now: 0, expires_at }
    }

    /// R60: each token may do what it was made for, and what is revoked, has expired or was replaced holds no more.
    #[test]
    fn r60_each_token_may_do_what_it_was_made_for_as_long_as_it_holds() {
        let home = tempfile::tempdir().unwrap();
        let keyring = Keyring::new(home.path().to_owned());
        assert!(keyring.holder("anything", 0).is_err(), "there is no token yet");
        let user = Token::open(home.path()).unwrap();
        let made = |name: &str, scopes: &[Scope], expires_at| {
            Access::change(home.path(), |access| access.create_token(new(name, scopes, expires_at))).unwrap()
        };
        let (reader, brief) = (made("reader", &[Scope::Read], None), made("brief", &[Scope::Write], Some(1_000)));
        let holder = |token: &str, now| keyring.holder(token, now).unwrap();
        let of_user = holder(user.expose(), 0).unwrap();
        assert_eq!(of_user.scopes, Scopes::ALL);
        let of_reader = holder(&reader, 0).unwrap();
        assert_eq!(
            (of_reader.scopes.iter().collect::<Vec<_>>(), of_reader.name()),
            (vec![Scope::Read], "token reader".to_owned())
        );
        let of_brief = holder(&brief, 999).unwrap();
        assert!(keyring.holds(&of_brief, 999) && !keyring.holds(&of_brief, 1_000) && holder(&brief, 1_000).is_none());
        assert!(holder("", 0).is_none() && holder(&reader[1..], 0).is_none());
        assert!(holder(&hash(&reader), 0).is_none(), "its hash is no token");

        let narrow = of_user.within([Scope::Read, Scope::Approve].into_iter().collect());
        assert_eq!(narrow.scopes.iter().collect::<Vec<_>>(), [Scope::Read, Scope::Approve]);
        assert!(of_reader.within(Scopes::ALL).scopes == of_reader.scopes, "it is never more");

        assert!(keyring.holds(&of_user, 0) && keyring.holds(&of_reader, 0));
        Token::rotate(home.path()).unwrap();
        assert!(!keyring.holds(&of_user, 0) && keyring.holds(&of_reader, 0) && holder(user.expose(), 0).is_none());
        Access::change(home.path(), |access| access.revoke_token("reader")).unwrap();
        assert!(!keyring.holds(&of_reader, 0) && holder(&reader, 0).is_none());
        made("reader", &[Scope::Read], None);
        assert!(!keyring.holds(&of_reader, 0), "another one of this name is another one");
        std::fs::write(home.path().join(ACCESS_FILE), "{").unwrap();
        assert!(keyring.holder("x", 0).is_err() && !keyring.holds(&of_brief, 0));
    }
}
