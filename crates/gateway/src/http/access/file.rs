//! The file: read as a whole, replaced as a whole, by one process at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::{Access, AccessError};

/// Its name in the home.
pub const ACCESS_FILE: &str = "gateway.access.json";

/// Bytes of it.
const MOST_BYTES: u64 = 1 << 20;
/// Random bytes of a secret.
const RANDOM_BYTES: usize = 32;

impl Access {
    /// What the file of a home has; nothing if there is none.
    pub fn read(home: &Path) -> Result<Self, AccessError> {
        let path = home.join(ACCESS_FILE);
        let failed = |source| AccessError::Io { act: "read", path: path.clone(), source };
        let invalid = |why: String| AccessError::Invalid { path: path.clone(), why };
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed())
            .open(&path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err(invalid("it is a link, of which a service would not see the changes".to_owned()));
            }
            file => file.map_err(failed)?,
        };
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(invalid("it is no file".to_owned()));
        }
        if meta.mode() & 0o077 != 0 {
            return Err(AccessError::Open { path });
        }
        let mut text = String::new();
        let read = file.take(MOST_BYTES + 1).read_to_string(&mut text);
        if text.len() as u64 > MOST_BYTES {
            return Err(invalid("it has more than 1 MiB".to_owned()));
        }
        match read {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(invalid("it is not UTF-8".to_owned()));
            }
            read => read.map_err(failed)?,
        };
        // A list of the values of its fields would be read as well.
        if !text.trim_start().starts_with('{') {
            return Err(invalid("it is no object".to_owned()));
        }
        serde_json::from_str(&text).map_err(|error| invalid(without_content(&error)))
    }

    /// Changes it. Two processes that change it at once do so one after the other.
    pub fn change<T>(home: &Path, change: impl FnOnce(&mut Self) -> Result<T, AccessError>) -> Result<T, AccessError> {
        let path = home.join(ACCESS_FILE);
        let failed = |source| AccessError::Io { act: "write", path: path.clone(), source };
        // The lock is on the folder: the file is another one after each change.
        let folder = File::open(home).map_err(failed)?;
        flock(&folder, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        remove_unfinished(home);
        let mut access = Self::read(home)?;
        let result = change(&mut access)?;
        let text = serde_json::to_string_pretty(&access).map_err(|error| failed(error.into()))?;
        let new = home.join(format!("{ACCESS_FILE}.{}", uuid::Uuid::now_v7().simple()));
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            folder.sync_all()
        });
        if let Err(source) = written {
            let _ = fs::remove_file(&new);
            return Err(failed(source));
        }
        Ok(result)
    }
}

/// Removes what was written by processes that were killed: whoever writes now holds the lock.
fn remove_unfinished(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let is_unfinished =
            entry.file_name().to_string_lossy().strip_prefix(ACCESS_FILE).is_some_and(|rest| rest.starts_with('.'));
        if is_unfinished {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// What is wrong, without what stands there.
fn without_content(error: &serde_json::Error) -> String {
    format!("line {}, column {} is not what is expected there", error.line(), error.column())
}

/// A new secret: 64 hexadecimal digits.
pub(in crate::http) fn random() -> io::Result<String> {
    let mut random = [0; RANDOM_BYTES];
    let mut filled = 0;
    while filled < RANDOM_BYTES {
        let more = rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty());
        filled += more?;
    }
    Ok(super::hex(&random))
}
