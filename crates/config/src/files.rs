//! Reads the files of the configuration and of keys, and creates their folder. A pipe or a device could block for ever or
//! never end, so only regular files of a bounded size are read.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Bytes of a configuration: far above any real one.
pub(super) const CONFIG_BYTES: u64 = 4 << 20;
/// Bytes of the file of a project: every key that it may set has room many times. It is read when a run starts.
pub(super) const PROJECT_BYTES: u64 = 16 << 10;
/// Folders of a project, one in another, that may have such a file. Each is looked at when a run starts, at the end of a path that
/// may be long.
pub(super) const PROJECT_FILES: usize = 32;
/// Bytes of a key: servers accept no header as long as this.
pub(super) const KEY_BYTES: u64 = 64 << 10;

/// Reads a regular file of at most `most` bytes. It never waits.
pub(super) fn read(path: &Path, most: u64) -> io::Result<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    if file.take(most + 1).read_to_string(&mut text)? as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

/// Reads a configuration file.
pub fn read_config(path: &Path) -> io::Result<String> {
    read(path, CONFIG_BYTES)
}

/// Creates a folder for its owner alone, whatever the umask, with the folders above it.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
