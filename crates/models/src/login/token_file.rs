//! The file of a refresh token. A process locks it to change it, so that all processes together use a single-use token
//! only once. A new token is on disk before it is used.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Hash;
use tokio::time::{sleep, timeout};

use super::step;
use crate::endpoint::Secret;

/// Only the owner of the file can read it.
const MODE: u32 = 0o600;

/// Bytes of a refresh token; the longest known ones, which contain claims, have some thousands.
const TOKEN_BYTES: u64 = 64 << 10;

/// The interval of attempts to get a lock that another process holds.
const LOCK_AGAIN: Duration = Duration::from_millis(25);

/// The file, locked until this is dropped.
#[derive(Debug)]
pub(super) struct TokenFile {
    /// The real path, so that a link stays a link.
    path: PathBuf,
    /// The file that names the token that was sent last, until the result is stored.
    lock: File,
}

/// Why the file could not be locked.
#[derive(Debug)]
pub(super) enum NotHad {
    /// It does not exist, or cannot be read or changed.
    Unusable(String),
    /// Another process held the lock the whole time.
    Busy,
}

/// The path if it is that of a regular file: to open a pipe could block for ever, and a device never ends.
fn regular(path: PathBuf) -> io::Result<PathBuf> {
    if fs::metadata(&path)?.is_file() { Ok(path) } else { Err(io::Error::other("it is not a regular file")) }
}

impl TokenFile {
    /// Waits for the lock, at most this long.
    pub(super) async fn lock(path: &Path, most: Duration) -> Result<Self, NotHad> {
        let shown = path.display();
        let path = fs::canonicalize(path).and_then(regular);
        let path = path.map_err(|error| unusable(&format!("{shown} cannot be read"), &error))?;
        let guard = beside(&path, ".lock");
        let unlocked = |error: &io::Error| unusable(&format!("{} cannot be locked", guard.display()), error);
        let mut options = OpenOptions::new();
        let lock =
            options.read(true).append(true).create(true).mode(MODE).open(&guard).map_err(|error| unlocked(&error))?;
        let locking = async {
            loop {
                match lock.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::WouldBlock) => sleep(LOCK_AGAIN).await,
                    Err(TryLockError::Error(error)) => return Err(unlocked(&error)),
                }
            }
        };
        timeout(most, locking).await.map_err(|_| NotHad::Busy)??;
        Ok(Self { path, lock })
    }

    /// Whether this token was sent before and the result was not stored.
    pub(super) fn was_sent(&self, token: &Secret) -> bool {
        let mut name = String::new();
        let read = (&self.lock).rewind().and_then(|()| (&self.lock).take(TOKEN_BYTES).read_to_string(&mut name));
        read.is_ok() && name == name_of(token)
    }

    /// Records that this token is about to be sent. The record only serves a later error message, so a failed write is
    /// ignored.
    pub(super) fn note_sent(&self, token: &Secret) {
        let _ = self.lock.set_len(0).and_then(|()| (&self.lock).write_all(name_of(token).as_bytes()));
        step();
    }

    /// Records that the result of the sent token is known: it was refused, or stays valid.
    pub(super) fn forget_sent(&self) {
        let _ = self.lock.set_len(0);
        step();
    }

    /// The current token in the file.
    pub(super) fn read(&self) -> Result<Secret, NotHad> {
        let shown = self.path.display();
        let mut text = String::new();
        let read = regular(self.path.clone())
            .and_then(|path| File::open(path)?.take(TOKEN_BYTES + 1).read_to_string(&mut text));
        read.map_err(|error| unusable(&format!("{shown} cannot be read"), &error))?;
        let token = Secret::new(&text);
        match token.reveal() {
            "" => Err(NotHad::Unusable(format!("{shown} is empty"))),
            // Somebody may have written the configuration or a whole response of a token server; neither is a token.
            text if text.contains(char::is_whitespace) || text.len() as u64 > TOKEN_BYTES => {
                Err(NotHad::Unusable(format!("{shown} does not hold exactly one refresh token")))
            }
            _ => {
                step();
                Ok(token)
            }
        }
    }

    /// Replaces the token atomically: the file contains one of the two, also after a power loss.
    pub(super) fn put(&self, token: &Secret) -> io::Result<()> {
        let next = beside(&self.path, ".new");
        // A process that died here left it; the lock excludes others.
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => step(),
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&next)?;
        step();
        file.write_all(token.reveal().as_bytes())?;
        step();
        file.write_all(b"\n")?;
        file.sync_all()?;
        step();
        fs::rename(&next, &self.path)?;
        step();
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        File::open(folder)?.sync_all()
    }
}

/// Identifies a token without revealing it.
fn name_of(token: &Secret) -> String {
    Hash::of(token.reveal().as_bytes()).to_string()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    beside.into()
}

fn unusable(what: &str, error: &io::Error) -> NotHad {
    NotHad::Unusable(format!("{what} ({error})"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn r50_a_new_refresh_token_takes_the_place_of_the_old_one_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (place, link) = (folder.path().join("token"), folder.path().join("link"));
        fs::write(&place, " the-first\n").unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&place, &link).unwrap();
        // The leftovers of a process that died in the middle.
        fs::write(beside(&place, ".new"), "half").unwrap();
        let file = TokenFile::lock(&link, PATIENCE).await.unwrap();
        assert_eq!(file.read().unwrap().reveal(), "the-first");
        file.put(&Secret::new("the-second")).unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "the-second\n");
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, MODE);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "a link stays one");
        assert!(!beside(&place, ".new").exists());
    }

    #[tokio::test]
    async fn r50_who_comes_second_waits_and_reads_what_the_first_has_put() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("token");
        fs::write(&place, "the-first").unwrap();
        let first = TokenFile::lock(&place, PATIENCE).await.unwrap();
        let busy = TokenFile::lock(&place, Duration::ZERO).await;
        assert!(matches!(busy, Err(NotHad::Busy)), "{busy:?}");
        let second = tokio::spawn({
            let place = place.clone();
            async move { TokenFile::lock(&place, PATIENCE).await.unwrap().read().unwrap() }
        });
        tokio::task::yield_now().await;
        first.put(&Secret::new("the-second")).unwrap();
        drop(first);
        assert_eq!(second.await.unwrap().reveal(), "the-second");
    }

    #[tokio::test]
    async fn r50_a_file_without_one_token_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("token");
        let why = async || match TokenFile::lock(&place, PATIENCE).await.and_then(|file| file.read()) {
            Err(NotHad::Unusable(why)) => why.replace(&place.display().to_string(), "PLACE"),
            other => panic!("{other:?}"),
        };
        assert_eq!(why().await, "PLACE cannot be read (No such file or directory (os error 2))");
        fs::write(&place, " \n").unwrap();
        assert_eq!(why().await, "PLACE is empty");
        fs::write(&place, "{\"refresh_token\": \"x\"}").unwrap();
        assert_eq!(why().await, "PLACE does not hold exactly one refresh token");
        fs::remove_file(&place).unwrap();
        fs::create_dir(&place).unwrap();
        assert!(why().await.starts_with("PLACE cannot be read ("));
    }
}
