//! A listing of a workspace: for each path its kind, its permissions, what tells a changed file from an unchanged one, and
//! where its content is. It is written as one file, which ends with the hash of all that is before it: a listing that
//! somebody damaged counts as none.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use engine::{FileContent, FileKind, Hash, NotKept};

use crate::limits::{COARSE_CLOCK_NS, LISTED_ENTRIES, PATH_BYTES};

/// The first bytes of a listing. Another version of limulus that writes another form has another word here.
const MAGIC: &[u8; 8] = b"listing1";

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Folder,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

/// What changes whenever a file is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) modified_ns: i64,
    /// The time of the last change of the inode, which no program can set.
    pub(super) changed_ns: i64,
    pub(super) inode: u64,
}

/// What is known of the content of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It has none: a folder.
    Nothing,
    /// The store keeps it.
    Kept(Hash),
    Not(NotKept),
}

/// One path of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Relative to the workspace.
    pub(super) path: Box<[u8]>,
    pub(super) kind: EntryKind,
    /// The permission bits.
    pub(super) mode: u32,
    pub(super) stamp: Stamp,
    pub(super) known: Known,
    /// It was looked at so soon after its last change that a later change can have the same stamp.
    pub(super) is_fresh: bool,
}

/// The state of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    /// The real path of the workspace.
    pub(super) root: PathBuf,
    /// When the look at it began, nanoseconds since 1970.
    pub(super) taken_ns: i64,
    /// The time of the last change of the folder itself.
    pub(super) root_changed_ns: i64,
    /// In the order of the bytes of their paths.
    pub(super) entries: Vec<Entry>,
}

impl Entry {
    /// What an event of the journal says of it; none for what it has no word for.
    pub(super) fn content(&self) -> FileContent {
        let hash = if let Known::Kept(hash) = self.known { Some(hash) } else { None };
        let kind = match self.kind {
            EntryKind::File | EntryKind::Special => FileKind::File,
            EntryKind::Folder => FileKind::Folder,
            EntryKind::Link => FileKind::Link,
        };
        FileContent { kind, hash }
    }

    /// The permission bits as an event of the journal has them: none for a link.
    pub(super) fn bits(&self) -> Option<u32> {
        (self.kind != EntryKind::Link).then_some(self.mode)
    }

    /// Whether both are the same thing, as far as can be told.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        if self.kind != other.kind || self.bits() != other.bits() {
            return false;
        }
        match (self.known, other.known) {
            (Known::Kept(a), Known::Kept(b)) => a == b,
            // What is in it is not known, so it is the same as long as it is the same folder.
            _ if self.kind == EntryKind::Folder => {
                !matches!((self.known, other.known), (Known::Not(_), Known::Not(_)))
                    || self.stamp.inode == other.stamp.inode
            }
            _ if self.kind == EntryKind::Special => self.stamp.inode == other.stamp.inode,
            _ => {
                let seen = |stamp: Stamp| (stamp.size, stamp.modified_ns, stamp.inode);
                seen(self.stamp) == seen(other.stamp)
            }
        }
    }

    /// Whether the content that was known of it is that of an entry with this stamp.
    pub(super) fn is_unchanged(&self, kind: EntryKind, stamp: Stamp) -> bool {
        self.kind == kind && self.stamp == stamp && !self.is_fresh
    }
}

/// Whether a change at this time may be followed by one with the same stamp, if the file was looked at now.
pub(super) fn is_fresh(changed_ns: i64, looked_ns: i64) -> bool {
    changed_ns >= looked_ns.saturating_sub(COARSE_CLOCK_NS)
}

impl Listing {
    /// The entry of this path.
    pub(super) fn find(&self, path: &[u8]) -> Option<&Entry> {
        self.entries.binary_search_by(|entry| (*entry.path).cmp(path)).ok().map(|at| &self.entries[at])
    }

    /// Says of a folder that not all is known of what is in it.
    pub(super) fn mark_unreadable(&mut self, path: &[u8]) {
        if let Ok(at) = self.entries.binary_search_by(|entry| (*entry.path).cmp(path)) {
            self.entries[at].known = Known::Not(NotKept::Unreadable);
        }
    }

    /// Whether something on the way to this path is left out of the listing, so that nothing is known of the path.
    pub(super) fn is_left_out(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        ends.into_iter().any(|end| self.find(&path[..end]).is_some_and(|entry| matches!(entry.known, Known::Not(_))))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * 128 + 256);
        bytes.extend_from_slice(MAGIC);
        put_text(&mut bytes, self.root.as_os_str().as_bytes());
        bytes.extend_from_slice(&self.taken_ns.to_le_bytes());
        bytes.extend_from_slice(&self.root_changed_ns.to_le_bytes());
        bytes.extend_from_slice(&(self.entries.len() as u64).to_le_bytes());
        for entry in &self.entries {
            put_text(&mut bytes, &entry.path);
            let (known, hash) = match entry.known {
                Known::Nothing => (0, None),
                Known::Kept(hash) => (1, Some(hash)),
                Known::Not(why) => (2 + code(why), None),
            };
            bytes.extend([entry.kind as u8, known, u8::from(entry.is_fresh)]);
            bytes.extend_from_slice(&entry.mode.to_le_bytes());
            for number in [entry.stamp.size, entry.stamp.inode] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            for time in [entry.stamp.modified_ns, entry.stamp.changed_ns] {
                bytes.extend_from_slice(&time.to_le_bytes());
            }
            bytes.extend_from_slice(hash.as_ref().map_or(&[], |hash| &hash.0));
        }
        let sum = blake3::hash(&bytes);
        bytes.extend_from_slice(sum.as_bytes());
        bytes
    }

    /// Reads what [`Listing::to_bytes`] wrote; none if it is not whole.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (bytes, sum) = bytes.split_last_chunk::<32>()?;
        if blake3::hash(bytes).as_bytes() != sum {
            return None;
        }
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let root = PathBuf::from(std::ffi::OsString::from_vec(take_text(&mut rest)?.to_vec()));
        let (taken_ns, root_changed_ns) = (take_time(&mut rest)?, take_time(&mut rest)?);
        let count = usize::try_from(take_number(&mut rest)?).ok().filter(|count| *count <= LISTED_ENTRIES)?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(entry(&mut rest)?);
        }
        let is_sorted = entries.is_sorted_by(|a: &Entry, b: &Entry| a.path < b.path);
        (rest.is_empty() && is_sorted).then_some(Self { root, taken_ns, root_changed_ns, entries })
    }

    /// The workspace of a listing that is not read whole.
    pub(super) fn root_of(bytes: &[u8]) -> Option<PathBuf> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        take_text(&mut rest).map(|root| Path::new(OsStr::from_bytes(root)).to_owned())
    }
}

fn entry(rest: &mut &[u8]) -> Option<Entry> {
    let path = take_text(rest)?.into();
    let [kind, known, fresh] = *take::<3>(rest)?;
    let kind = match kind {
        0 => EntryKind::File,
        1 => EntryKind::Folder,
        2 => EntryKind::Link,
        3 => EntryKind::Special,
        _ => return None,
    };
    let mode = u32::from_le_bytes(*take::<4>(rest)?);
    let (size, inode) = (take_number(rest)?, take_number(rest)?);
    let (modified_ns, changed_ns) = (take_time(rest)?, take_time(rest)?);
    let known = match known {
        0 => Known::Nothing,
        1 => Known::Kept(Hash(*take::<32>(rest)?)),
        code => Known::Not(*CODES.get(usize::from(code) - 2)?),
    };
    let stamp = Stamp { size, modified_ns, changed_ns, inode };
    Some(Entry { path, kind, mode, stamp, known, is_fresh: fresh != 0 })
}

/// The reasons that an entry can have, each by its place.
const CODES: [NotKept; 7] = [
    NotKept::TooLarge,
    NotKept::Ignored,
    NotKept::PastLimits,
    NotKept::Special,
    NotKept::Unreadable,
    NotKept::Unstable,
    NotKept::Name,
];

fn code(why: NotKept) -> u8 {
    // Whatever is said of a whole workspace is not said of an entry.
    CODES.iter().position(|known| *known == why).map_or(4, |at| at as u8)
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text);
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(taken)
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(*take::<4>(rest)?) as usize;
    let (text, left) = rest.split_at_checked(length).filter(|_| length <= 2 * PATH_BYTES)?;
    *rest = left;
    Some(text)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    take::<8>(rest).map(|bytes| u64::from_le_bytes(*bytes))
}

fn take_time(rest: &mut &[u8]) -> Option<i64> {
    take::<8>(rest).map(|bytes| i64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing() -> Listing {
        let stamp = Stamp { size: 3, modified_ns: -4, changed_ns: 5, inode: 6 };
        let entry =
            |path: &[u8], kind, known| Entry { path: path.into(), kind, mode: 0o644, stamp, known, is_fresh: true };
        let entries = vec![
            entry(b"a", EntryKind::Folder, Known::Nothing),
            entry(b"a.b", EntryKind::Link, Known::Kept(Hash::of(b"x"))),
            entry(b"a/\xff", EntryKind::File, Known::Not(NotKept::Name)),
            entry(b"target", EntryKind::Folder, Known::Not(NotKept::Ignored)),
        ];
        Listing { root: "/p".into(), taken_ns: 1, root_changed_ns: 2, entries }
    }

    #[test]
    fn a_listing_is_read_as_it_was_written_and_damage_is_noticed() {
        let (listing, bytes) = (listing(), listing().to_bytes());
        assert_eq!(Listing::from_bytes(&bytes).as_ref(), Some(&listing));
        assert_eq!(Listing::root_of(&bytes), Some("/p".into()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Listing::from_bytes(&damaged), None, "byte {at}");
            assert_eq!(Listing::from_bytes(&bytes[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn what_is_in_a_folder_that_is_left_out_is_left_out() {
        let listing = listing();
        for (path, expected) in
            [("target", true), ("target/a/b", true), ("targets", false), ("a", false), ("a/x", false)]
        {
            assert_eq!(listing.is_left_out(path.as_bytes()), expected, "{path}");
        }
    }
}
