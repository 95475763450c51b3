//! The token of a home: who has it may do over TCP what its user may do on the socket.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq as _;

use super::access;

/// The name of its file in the home.
pub const TOKEN_FILE: &str = "gateway.token";

/// The shortest token that somebody may have written there.
const LEAST_CHARS: usize = 16;
/// Bytes of the file.
const MOST_BYTES: u64 = 1_024;

/// A token: it is neither printed nor compared in a time that says how much of it is right.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Why there is no token.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read or written.
    #[error("cannot {act} {}: {source}", path.display())]
    Io { act: &'static str, path: PathBuf, source: io::Error },
    /// Others can read it.
    #[error("{} can be read by other users: they could do all that you can", path.display())]
    Open { path: PathBuf },
    /// What stands there is none.
    #[error("{} has no token: one line of at least {LEAST_CHARS} letters, digits and signs", path.display())]
    Invalid { path: PathBuf },
}

impl TokenError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "there is no home yet: `limulus serve` makes it, as the first message does"
            }
            Self::Io { .. } => "check who owns the home and whether its disk is full",
            Self::Open { .. } | Self::Invalid { .. } => "`limulus gateway token rotate` makes a new one",
        }
    }
}

impl Token {
    /// The token of a home.
    pub fn read(home: &Path) -> Result<Self, TokenError> {
        let path = home.join(TOKEN_FILE);
        let failed = |source| TokenError::Io { act: "read", path: path.clone(), source };
        let meta = fs::symlink_metadata(&path).map_err(failed)?;
        if !meta.is_file() || meta.len() > MOST_BYTES {
            return Err(TokenError::Invalid { path });
        }
        if meta.mode() & 0o077 != 0 {
            return Err(TokenError::Open { path });
        }
        let text = fs::read_to_string(&path).map_err(failed)?;
        let token = text.trim();
        let is_token = token.len() >= LEAST_CHARS && token.chars().all(|char| char.is_ascii_graphic());
        if is_token { Ok(Self(token.to_owned())) } else { Err(TokenError::Invalid { path }) }
    }

    /// The same; makes one if there is none, and the home.
    pub fn open(home: &Path) -> Result<Self, TokenError> {
        match Self::read(home) {
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(home);
        made.map_err(|source| TokenError::Io { act: "write", path: home.to_owned(), source })?;
        match Self::make(home, |new, path| fs::hard_link(new, path)) {
            // Another process has made one at the same time.
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => Self::read(home),
            made => made,
        }
    }

    /// Makes a new one. The old one opens nothing from now on.
    pub fn rotate(home: &Path) -> Result<Self, TokenError> {
        Self::make(home, |new, path| fs::rename(new, path))
    }

    /// Makes a new one, and gives its file the name.
    fn make(home: &Path, name: impl Fn(&Path, &Path) -> io::Result<()>) -> Result<Self, TokenError> {
        let path = home.join(TOKEN_FILE);
        let failed = |source| TokenError::Io { act: "write", path: path.clone(), source };
        let token = access::random().map_err(failed)?;
        // Whole or not at all, and never readable by others.
        let new = home.join(format!("{TOKEN_FILE}.{}", uuid::Uuid::now_v7().simple()));
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
            file.write_all(format!("{token}\n").as_bytes())?;
            file.sync_all()?;
            name(&new, &path)
        });
        // It has its name now, or none.
        let _ = fs::remove_file(&new);
        written.map_err(failed)?;
        Ok(Self(token))
    }

    /// The token itself, for its user.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether somebody has it.
    pub fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// R60: those who make a token at the same time have the same one.
    #[test]
    fn r60_a_token_that_is_made_at_the_same_time_is_the_same_one() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let home = folder.path().join("home");
            let tokens: Vec<_> = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..4).map(|_| scope.spawn(|| Token::open(&home).unwrap())).collect();
                makers.into_iter().map(|maker| maker.join().unwrap()).collect()
            });
            let kept = Token::read(&home).unwrap();
            assert!(tokens.iter().all(|token| kept.is(token.expose())));
            assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "nothing else is left there");
            assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    /// R60: a token is made once, only its user can read it, and a new one replaces it.
    #[test]
    fn r60_a_token_is_made_once_and_is_its_users_alone() {
        let home = tempfile::tempdir().unwrap();
        let first = Token::open(home.path()).unwrap();
        assert_eq!(first.expose().len(), 64);
        let again = Token::open(home.path()).unwrap();
        assert!(again.is(first.expose()) && !again.is(&first.expose()[1..]) && !again.is(""));
        let path = home.path().join(TOKEN_FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = Token::rotate(home.path()).unwrap();
        assert!(!second.is(first.expose()) && Token::read(home.path()).unwrap().is(second.expose()));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "nothing else is left there");
        assert_eq!(format!("{second:?}"), "Token");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Token::open(home.path()), Err(TokenError::Open { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "short\n", "has a space in the middle of it\n", &"x".repeat(2_000)] {
            fs::write(&path, text).unwrap();
            assert!(matches!(Token::open(home.path()), Err(TokenError::Invalid { .. })), "{text:.20}");
        }
    }
}
