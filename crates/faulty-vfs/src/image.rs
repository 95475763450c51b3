//! What of a file is on the disk for certain, and what is still under way to it. What may not live here: chance.

/// Something that was done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was made.
    Create,
    /// Bytes were written.
    Write {
        /// From here on.
        offset: usize,
        /// These.
        bytes: Vec<u8>,
    },
    /// It got this length.
    Truncate(usize),
    /// It was removed.
    Delete,
}

impl Change {
    /// Does it to a content; none is a file that is not there.
    pub(crate) fn apply(&self, content: &mut Option<Vec<u8>>) {
        match self {
            Self::Create => drop(content.get_or_insert_default()),
            Self::Write { offset, bytes } => overwrite(content.get_or_insert_default(), *offset, bytes),
            Self::Truncate(length) => content.get_or_insert_default().resize(*length, 0),
            Self::Delete => *content = None,
        }
    }
}

/// Writes into a content that grows as need be, with zeros where nothing was written.
pub(crate) fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// A change that no sync has followed, with its place among all changes of the disk.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) number: u64,
    pub(crate) change: Change,
}

/// One file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    /// What the last sync left; none if the file was not there, or its name was not synced.
    pub(crate) durable: Option<Vec<u8>>,
    /// What was done since, in order.
    pub(crate) pending: Vec<Pending>,
    /// How many times it is open.
    pub(crate) open: usize,
}

impl Image {
    /// What a reader sees.
    pub(crate) fn content(&self) -> Option<Vec<u8>> {
        let mut content = self.durable.clone();
        self.pending.iter().for_each(|pending| pending.change.apply(&mut content));
        content
    }

    /// All that was done has reached the disk.
    pub(crate) fn sync(&mut self) {
        self.sync_first(self.pending.len());
    }

    /// Its folder was synced: what was removed is gone.
    pub(crate) fn sync_name(&mut self) {
        let removed = self.pending.iter().rposition(|pending| pending.change == Change::Delete);
        self.sync_first(removed.map_or(0, |at| at + 1));
    }

    fn sync_first(&mut self, count: usize) {
        for pending in self.pending.drain(..count) {
            pending.change.apply(&mut self.durable);
        }
    }

    /// Whether its name has not been synced yet.
    pub(crate) fn is_new(&self) -> bool {
        self.pending.iter().any(|pending| pending.change == Change::Create)
    }

    /// Somebody else made this file what it is.
    pub(crate) fn renew(&mut self, content: Vec<u8>) {
        self.durable = Some(content);
        self.pending.clear();
    }
}
