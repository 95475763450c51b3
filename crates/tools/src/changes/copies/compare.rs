//! What changed in a copy since it was made, and whether the workspace changed there too.

use std::collections::BTreeSet;
use std::path::Path;

use engine::{FileContent, FileKind, NotKept, WorkspaceCopy};

use super::super::listing::{Entry, EntryKind, Known, Listing};
use super::super::plan::FileVersion;
use super::super::restore::keep_content;
use super::super::scan::{Deadline, look, scan};
use super::super::snapshot;
use super::super::store::FileStore;
use super::super::version::{named, version};
use super::make::not_listed;
use super::{MADE, ORIGINAL, Place};
use crate::cancel::Cancel;
use crate::guard::Protected;
use crate::limits::TAKEN_OVER_BYTES;
use crate::paths::Workspace;

/// A path that changed in a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyChange {
    /// Relative to what was copied.
    pub path: String,
    /// What was copied from there, if it is there as it was; if it changed since, something that is not there.
    pub before: Option<FileVersion>,
    /// What is there in the copy; none = it was removed.
    pub after: Option<FileVersion>,
    /// Why it cannot be taken over; none = it can.
    pub not_kept: Option<NotKept>,
}

/// What changed in a copy, without what rules such as `.gitignore` leave out. The contents are kept in the store, if there is one, so
/// that they can be taken over when the copy is gone; what is too large for that is named. May block.
///
/// # Errors
/// Returns why that cannot be said.
pub fn copy_changes(
    copy: &WorkspaceCopy,
    protected: &Protected,
    store: Option<&FileStore>,
) -> Result<Vec<CopyChange>, String> {
    let failed = |why: String| format!("the copy {} cannot be compared: {why}", copy.folder);
    let place = Place::of(copy).map_err(|error| failed(error.to_string()))?;
    let listing = |name: &str| {
        let listing = snapshot::read(&place.folder.join(name));
        listing.ok_or_else(|| {
            failed(format!("{} is damaged or gone; take over by hand what you need", place.folder.join(name).display()))
        })
    };
    let (original, made) = (listing(ORIGINAL)?, listing(MADE)?);
    let open = |path: &str| Workspace::open(Path::new(path), protected).map_err(|error| failed(error.to_string()));
    let (copied, workspace) = (open(&copy.folder)?, open(&copy.of)?);
    let cancel = Cancel::default();
    let now = scan(&copied, &Deadline::new(&cancel)).map_err(|why| failed(not_listed(why)))?;
    let paths: BTreeSet<&[u8]> = made.entries.iter().chain(&now.entries).map(|entry| &*entry.path).collect();
    let mut compare = Compare {
        original: &original,
        copied: &copied,
        workspace: &workspace,
        store,
        left: TAKEN_OVER_BYTES,
        cancel: &cancel,
    };
    let of = |path: &[u8]| {
        let (before, after) = (made.find(path), now.find(path));
        is_change(before, after).then(|| compare.change(path, after))?
    };
    Ok(paths.into_iter().filter_map(of).collect())
}

/// Whether something else is there. What git ignores is nobody's change.
fn is_change(before: Option<&Entry>, after: Option<&Entry>) -> bool {
    let is_ignored = |entry: &Entry| entry.known == Known::Not(NotKept::Ignored);
    if before.into_iter().chain(after).any(is_ignored) {
        return false;
    }
    match (before, after) {
        (Some(before), Some(after)) if before.kind == after.kind && before.bits() == after.bits() => {
            before.kind != EntryKind::Folder && before.stamp != after.stamp
        }
        (before, after) => before.is_some() || after.is_some(),
    }
}

struct Compare<'a> {
    original: &'a Listing,
    copied: &'a Workspace,
    workspace: &'a Workspace,
    store: Option<&'a FileStore>,
    /// Bytes of contents that can still be taken over.
    left: u64,
    cancel: &'a Cancel,
}

impl Compare<'_> {
    /// What is to be done at a path; none if the workspace has it already.
    fn change(&mut self, path: &[u8], after: Option<&Entry>) -> Option<CopyChange> {
        let lossy = || String::from_utf8_lossy(path).into_owned();
        let version = |entry: &Entry| FileVersion { content: entry.content(), mode: entry.bits() };
        let (old, new) = (self.original.find(path).map(version), after.map(version));
        let not_kept = |why| Some(CopyChange { path: lossy(), before: old, after: new, not_kept: Some(why) });
        let Ok(name) = std::str::from_utf8(path) else { return not_kept(NotKept::Name) };
        if let Some(Known::Not(why)) = after.map(|after| after.known) {
            return not_kept(why);
        }
        let bytes = self.bytes(path, after);
        if bytes > self.left {
            return not_kept(NotKept::TooLarge);
        }
        self.left -= bytes;
        let Ok(after) = self.kept(name) else { return not_kept(NotKept::Unreadable) };
        let before = self.before(path, name);
        (before != after).then(|| CopyChange { path: name.to_owned(), before, after, not_kept: None })
    }

    /// Bytes of what is there and of what is to be there.
    fn bytes(&self, path: &[u8], after: Option<&Entry>) -> u64 {
        let now = self.original.find(path).and_then(|_| look(self.workspace.open_root().ok()?, path));
        let of = |entry: &Entry| if entry.kind == EntryKind::File { entry.stamp.size } else { 0 };
        now.as_ref().into_iter().chain(after).map(of).fold(0, u64::saturating_add)
    }

    /// What is in the copy. Its content is kept.
    fn kept(&self, name: &str) -> Result<Option<FileVersion>, crate::error::ToolError> {
        let path = named(self.copied, name)?;
        let found = version(&path, self.cancel)?;
        if let (Some(store), Some(FileVersion { content: FileContent { kind, hash: Some(hash) }, .. })) =
            (self.store, found)
        {
            keep_content(store, &path, kind, &hash)?;
        }
        Ok(found)
    }

    /// What is in the workspace, if it is as it was copied; else something that is not there.
    fn before(&self, path: &[u8], name: &str) -> Option<FileVersion> {
        let original = self.original.find(path)?;
        let now = named(self.workspace, name).and_then(|path| version(&path, self.cancel)).ok().flatten();
        let is_unchanged = match (now, original.known) {
            (Some(now), Known::Kept(hash)) => now.content.hash == Some(hash) && now.mode == original.bits(),
            (Some(now), _) if original.kind == EntryKind::Folder => {
                now.content.kind == FileKind::Folder && now.mode == original.bits()
            }
            (Some(_), _) => self.is_as_listed(path, original),
            (None, _) => false,
        };
        let unknown = FileVersion { content: FileContent { hash: None, ..original.content() }, mode: Some(u32::MAX) };
        if is_unchanged { now } else { Some(unknown) }
    }

    fn is_as_listed(&self, path: &[u8], original: &Entry) -> bool {
        let found = self.workspace.open_root().ok().and_then(|root| look(root, path));
        found.is_some_and(|found| original.is_unchanged(found.kind, found.stamp) && found.bits() == original.bits())
    }
}
