//! The state of a file: its durable content, and the changes that are not synced yet.

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The file was created.
    Create,
    /// These bytes were written at this offset.
    Write { offset: usize, bytes: Vec<u8> },
    /// The file was set to this length, bytes.
    Truncate(usize),
    /// The file was removed.
    Delete,
}

impl Change {
    /// Applies it to a content; `None` is a file that does not exist.
    pub(crate) fn apply(&self, content: &mut Option<Vec<u8>>) {
        match self {
            Self::Create => drop(content.get_or_insert_default()),
            Self::Write { offset, bytes } => overwrite(content.get_or_insert_default(), *offset, bytes),
            Self::Truncate(length) => content.get_or_insert_default().resize(*length, 0),
            Self::Delete => *content = None,
        }
    }
}

/// Writes into a content, which grows as needed; gaps are zeros.
pub(crate) fn overwrite(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// A change without a later sync, with its number among all changes of the disk.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) number: u64,
    pub(crate) change: Change,
}

/// The state of one file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    /// Its content at the last sync; `None` if the file did not exist, or its name was not synced.
    pub(crate) durable: Option<Vec<u8>>,
    /// Changes since then, in order.
    pub(crate) pending: Vec<Pending>,
    /// How many times it is open.
    pub(crate) open: usize,
}

impl Image {
    /// The content that a reader sees, with all changes.
    pub(crate) fn content(&self) -> Option<Vec<u8>> {
        let mut content = self.durable.clone();
        self.pending.iter().for_each(|pending| pending.change.apply(&mut content));
        content
    }

    /// Makes all changes durable.
    pub(crate) fn sync(&mut self) {
        self.sync_first(self.pending.len());
    }

    /// Makes a removal durable: its folder was synced.
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

    /// Replaces the content: another program has written the file.
    pub(crate) fn renew(&mut self, content: Vec<u8>) {
        self.durable = Some(content);
        self.pending.clear();
    }
}
