//! Copies a skill to where it is found.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::{FOLDERS, Skill};
use crate::size::size;

/// Files of a skill that is added.
const FILES: usize = 1_024;
/// Bytes of all of them.
const BYTES: u64 = 64 << 20;

/// Where a skill that is added goes, below the folder of the user or of the project: where other programs find it too.
pub const ADDED_SKILLS: &str = FOLDERS[1];

/// Copies the skill in `from` into the folder of skills `into`, under its name. Files and folders are copied, with the permission to
/// run; a link, a pipe or a device is an error, and nothing is left of the copy then. With `within`, no part of `into` below that
/// folder may be a link: a project decides not where something is written. Returns the new folder.
pub fn add_skill(from: &Path, into: &Path, within: Option<&Path>) -> Result<(Skill, PathBuf), String> {
    let skill = Skill::read(from)?;
    let parts = into.ancestors().take_while(|part| within.is_some_and(|within| *part != within));
    if let Some(link) = parts.into_iter().find(|part| part.is_symlink()) {
        return Err(format!("{} is a link, and leads elsewhere", link.display()));
    }
    let to = into.join(&skill.name);
    if to.symlink_metadata().is_ok() {
        return Err(format!("{} is there already; remove it first", to.display()));
    }
    let cannot = |error: io::Error| format!("cannot copy it to {}: {error}", to.display());
    fs::create_dir_all(into).map_err(cannot)?;
    // Half of a skill is never found: its folder has its name when all of it is there.
    let half = into.join(format!(".{}.{}", skill.name, std::process::id()));
    let mut left = Left { files: FILES, bytes: BYTES };
    let copied = copy(&skill.folder, &half, &mut left).and_then(|()| fs::rename(&half, &to).map_err(cannot));
    if copied.is_err() {
        let _ = fs::remove_dir_all(&half);
    }
    copied.map(|()| (skill, to))
}

/// How much more may be copied.
struct Left {
    files: usize,
    bytes: u64,
}

fn copy(from: &Path, to: &Path, left: &mut Left) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot copy {}: {error}", from.display());
    DirBuilder::new().mode(0o755).create(to).map_err(cannot)?;
    let mut entries = fs::read_dir(from).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(cannot)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        left.files = left.files.checked_sub(1).ok_or_else(|| format!("it has more than {FILES} files"))?;
        let kind = entry.file_type().map_err(cannot)?;
        if kind.is_dir() {
            copy(&path, &to, left)?;
        } else if kind.is_file() {
            file(&path, &to, left).map_err(|error| format!("cannot copy {}: {error}", path.display()))?;
        } else {
            return Err(format!("{} is neither a file nor a folder, so nothing was copied", path.display()));
        }
    }
    Ok(())
}

fn file(from: &Path, to: &Path, left: &mut Left) -> io::Result<()> {
    // It may have become a pipe or a link since it was looked at.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let source = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(from)?;
    let found = source.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file any more"));
    }
    let mode = if found.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 };
    let mut target: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
    let copied = io::copy(&mut source.take(left.bytes + 1), &mut target)?;
    left.bytes =
        left.bytes.checked_sub(copied).ok_or_else(|| io::Error::other(format!("it has more than {}", size(BYTES))))?;
    Ok(())
}
