//! Tokens for programs: each has a name, and scopes that say what it may do. Only its hash is kept.

use protocol::{Scope, Scopes};
use serde::{Deserialize, Serialize};

use super::{Access, AccessError, file, hash};

/// Tokens of a home.
const MOST: usize = 100;
/// Characters of a name.
const NAME_CHARS: usize = 64;

/// A token, without itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// The name by which it is revoked.
    pub name: String,
    /// The SHA-256 of it.
    pub(super) hash: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// When it was made, milliseconds since 1970.
    pub created_at: i64,
    /// When it ends, milliseconds since 1970; none = never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

/// A token that is made.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone)]
pub struct NewToken {
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Milliseconds since 1970.
    pub now: i64,
    pub expires_at: Option<i64>,
}

impl TokenEntry {
    /// Whether its time is over.
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    pub(super) fn scopes(&self) -> Scopes {
        self.scopes.iter().copied().collect()
    }
}

impl Access {
    /// Makes a token, which is returned this once.
    pub fn create_token(&mut self, new: NewToken) -> Result<String, AccessError> {
        let NewToken { name, mut scopes, now, expires_at } = new;
        let is_name = |char: char| char.is_alphanumeric() || "-_.".contains(char);
        if name.is_empty() || name.chars().count() > NAME_CHARS || !name.chars().all(is_name) {
            return Err(AccessError::Name { name: name.chars().take(NAME_CHARS).collect() });
        }
        if expires_at.is_some_and(|at| at <= now) {
            return Err(AccessError::Expired);
        }
        // The name of one that has ended is free.
        self.tokens.retain(|token| token.name != name || !token.has_expired(now));
        if self.tokens.iter().any(|token| token.name == name) {
            return Err(AccessError::Taken { name });
        }
        if self.tokens.len() >= MOST {
            return Err(AccessError::Full { most: MOST, what: "tokens" });
        }
        scopes.sort_unstable();
        scopes.dedup();
        let token = file::random().map_err(|source| AccessError::Io { act: "make", path: "a token".into(), source })?;
        self.tokens.push(TokenEntry { name, hash: hash(&token), scopes, created_at: now, expires_at });
        Ok(token)
    }

    /// Revokes a token: it opens nothing any more.
    pub fn revoke_token(&mut self, name: &str) -> Result<(), AccessError> {
        let at = self.tokens.iter().position(|token| token.name == name);
        let at = at.ok_or_else(|| AccessError::Unknown { what: "token", name: name.to_owned() })?;
        self.tokens.remove(at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::ACCESS_FILE;
    use super::*;

    fn new(name: &str) -> NewToken {
        NewToken { name: name.to_owned(), scopes: vec![Scope::Write, Scope::Read], now: 1_000, expires_at: None }
    }

    /// R60: a token is kept as its hash, in a file of its user alone, and is gone when it is revoked.
    #[test]
    fn r60_a_token_is_kept_as_its_hash() {
        let home = tempfile::tempdir().unwrap();
        let made = Access::change(home.path(), |access| access.create_token(new("grafana"))).unwrap();
        let path = home.path().join(ACCESS_FILE);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&made) && text.contains("\"grafana\"") && text.contains("\"read\""), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing else is left there");
        let access = Access::read(home.path()).unwrap();
        assert_eq!(access.tokens[0].scopes, [Scope::Read, Scope::Write]);
        let again = Access::change(home.path(), |access| access.create_token(new("grafana")));
        assert!(matches!(again, Err(AccessError::Taken { .. })));
        assert!(matches!(
            Access::change(home.path(), |access| access.revoke_token("other")),
            Err(AccessError::Unknown { .. })
        ));
        Access::change(home.path(), |access| access.revoke_token("grafana")).unwrap();
        assert!(Access::read(home.path()).unwrap().tokens.is_empty());
        for name in ["", "a b", "a/b", "a\nb", &"x".repeat(65)] {
            let made = Access::change(home.path(), |access| access.create_token(new(name)));
            assert!(matches!(made, Err(AccessError::Name { .. })), "{name}");
        }
        for number in 0..MOST {
            Access::change(home.path(), |access| access.create_token(new(&format!("t{number}")))).unwrap();
        }
        let more = Access::change(home.path(), |access| access.create_token(new("more")));
        assert!(matches!(more, Err(AccessError::Full { .. })));
    }

    /// R60: what others can read, or what is damaged, opens nothing and is not replaced.
    #[test]
    fn r60_a_file_that_cannot_be_used_is_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(ACCESS_FILE);
        for text in ["", "{", "[]", "{\"tokens\": [{\"name\": \"a\"}]}", "{\"more\": 1}", &"x".repeat(2 << 20)] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let made = Access::change(home.path(), |access| access.create_token(new("a")));
            assert!(matches!(made, Err(AccessError::Invalid { .. })), "{text:.20}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        assert!(matches!(Access::read(home.path()), Err(AccessError::Open { .. })));
        fs::remove_file(&path).unwrap();
        assert!(Access::read(home.path()).unwrap().tokens.is_empty());
    }
}
