//! Makes the mounts of the host read-only, one by one.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, statx};

use super::mountinfo::{self, Mount};
use super::{Writability, restrict};
use crate::paths::{is_unreachable, open_handle};
use crate::setup::{AtStep as _, SetupError, SetupStep};

/// Which mounts become read-only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Everything,
    /// Those of the kernel's own settings only, because the workspace is the whole file system.
    Kernel,
}

/// Makes every mount read-only that can be reached. `/proc` is left out, because a new one is mounted over it.
pub(super) fn make_read_only(extent: Extent) -> Result<(), SetupError> {
    let text = mountinfo_text().at(SetupStep::Mounts, "/proc/self/mountinfo")?;
    let mounts = mountinfo::parse(&text)
        .map_err(|line| SetupError::new(SetupStep::Mounts, format!("a line of mountinfo cannot be read: {line}")))?;
    for mount in mounts.iter().filter(|mount| is_meant(&mount.path, extent)) {
        make_one_read_only(mount)
            .at(SetupStep::Mounts, format!("{} cannot be made read-only", mount.path.display()))?;
    }
    Ok(())
}

/// At once if it is not longer than usual: its file has no length, and the kernel writes it anew for each piece.
fn mountinfo_text() -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(64 * 1024);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut text)?;
    Ok(text)
}

fn is_meant(path: &Path, extent: Extent) -> bool {
    !path.starts_with("/proc") && (extent == Extent::Everything || path.starts_with("/sys"))
}

fn make_one_read_only(mount: &Mount) -> io::Result<()> {
    let root = match open_handle(&mount.path) {
        Ok(root) => root,
        Err(error) if is_unreachable(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    // Another mount over it hides it, and has a line of its own.
    let found = statx(&root, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    if found.stx_mnt_id != mount.id {
        return Ok(());
    }
    restrict(&root, Writability::ReadOnly)
}
