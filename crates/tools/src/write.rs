//! The tool `write`: a whole file, replaced at once or not at all. It is idempotent by two hashes: of the file before the
//! call, which is its evidence, and of what it is to write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::{EffectId, Found, Hash};
use rustix::fs::{Access, access};

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::invocation::WriteArguments;
use crate::paths::{self, ResolvedPath};

/// Evidence of a file that was not there.
const ABSENT: &str = "absent";

/// Held while a file is put in its place: whoever holds it knows that no write is half way, and that one which was cut
/// will not happen any more.
static COMMIT: Mutex<()> = Mutex::new(());

fn commit() -> MutexGuard<'static, ()> {
    COMMIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the file is now: its hash, or that it is absent.
pub(crate) fn evidence(path: &ResolvedPath) -> Result<String, ToolError> {
    let failed = || ToolError::file("write", path.shown.clone());
    match fs::metadata(&path.real) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ABSENT.to_owned()),
        Err(error) => return Err(failed()(error)),
        Ok(found) if found.is_dir() => return Err(ToolError::IsFolder { path: path.shown.clone() }),
        Ok(found) if !found.is_file() => return Err(ToolError::Special { path: path.shown.clone() }),
        Ok(_) => {}
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(&path.real).map_err(failed())?).map_err(failed())?;
    Ok(Hash(*hasher.finalize().as_bytes()).to_string())
}

pub(crate) fn run(
    workspace: &Path,
    id: EffectId,
    arguments: &WriteArguments,
    cancel: &Cancel,
) -> Result<String, ToolError> {
    let path = paths::resolve(workspace, &arguments.path)?;
    let failed = || ToolError::file("write", path.shown.clone());
    let parent = path.real.parent().ok_or_else(|| ToolError::IsFolder { path: path.shown.clone() })?;
    let before = existing(&path)?;
    fs::create_dir_all(parent).map_err(failed())?;
    let beside = temporary(parent, id);
    let placed = fill(&beside, before.as_ref(), arguments.content.as_bytes()).map_err(failed()).and_then(|()| {
        let _commit = commit();
        cancel.check()?;
        fs::rename(&beside, &path.real).map_err(failed())
    });
    if placed.is_err() {
        // It may be that there is nothing to remove.
        let _ = fs::remove_file(&beside);
    }
    placed?;
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(failed())?;
    Ok(done(&path, arguments, before.is_some()))
}

/// What was found of a write that a crash or an end cut off.
pub(crate) struct Trace {
    pub(crate) found: Found,
    /// For Ended: what the model is told.
    pub(crate) text: Option<String>,
}

/// Compares the file with what it was before the call and with what the call was to write. Removes what it left half done.
pub(crate) fn find(
    workspace: &Path,
    id: EffectId,
    arguments: &WriteArguments,
    before: Option<&str>,
) -> Result<Trace, ToolError> {
    let path = paths::resolve(workspace, &arguments.path)?;
    let _commit = commit();
    if let Some(parent) = path.real.parent() {
        // It is there only if the call was cut while it wrote.
        let _ = fs::remove_file(temporary(parent, id));
    }
    let now = evidence(&path)?;
    Ok(if now == Hash::of(arguments.content.as_bytes()).to_string() {
        Trace { found: Found::Ended, text: Some(done(&path, arguments, before.is_some_and(|b| b != ABSENT))) }
    } else if before == Some(now.as_str()) {
        Trace { found: Found::NeverStarted, text: None }
    } else {
        Trace { found: Found::Unknown, text: None }
    })
}

fn done(path: &ResolvedPath, arguments: &WriteArguments, replaced: bool) -> String {
    let how = if replaced { "replaced" } else { "a new file" };
    format!("wrote {} bytes to {} ({how})\n", arguments.content.len(), path.shown)
}

/// The file that stands in that place, if one does and may be written.
fn existing(path: &ResolvedPath) -> Result<Option<fs::Metadata>, ToolError> {
    let failed = || ToolError::file("write", path.shown.clone());
    match fs::metadata(&path.real) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed()(error)),
        Ok(found) if found.is_dir() => Err(ToolError::IsFolder { path: path.shown.clone() }),
        Ok(found) if !found.is_file() => Err(ToolError::Special { path: path.shown.clone() }),
        Ok(found) => {
            // A rename would replace a file that says it must not be written.
            access(&path.real, Access::WRITE_OK).map_err(|errno| failed()(errno.into()))?;
            Ok(Some(found))
        }
    }
}

/// Named by the call, so that a crash leaves nothing that nobody knows.
fn temporary(parent: &Path, id: EffectId) -> PathBuf {
    parent.join(format!(".limulus-{}.tmp", id.to_string().replace('/', ".")))
}

fn fill(beside: &Path, before: Option<&fs::Metadata>, content: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(beside)?;
    if let Some(before) = before {
        file.set_permissions(fs::Permissions::from_mode(before.permissions().mode() & 0o7777))?;
    }
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use engine::{EffectKind, RunId};

    use super::*;

    #[test]
    fn r15_a_write_that_was_cut_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let arguments = WriteArguments { path: "a.txt".to_owned(), content: "after".to_owned() };
        let id = EffectId { run: RunId(uuid::Uuid::nil()), kind: EffectKind::RunCall, ordinal: 1, try_no: 1 };
        let cut = run(home.path(), id, &arguments, &Cancel::cut());
        assert!(matches!(cut, Err(ToolError::Cancelled)));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
