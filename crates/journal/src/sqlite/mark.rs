//! `journal.mark`: a second record of what was acknowledged last.
//!
//! It has 40 bytes: the position (8, LE) and the chain value of the entry there. The writer writes it after the sync
//! and before the acknowledgement, and does not sync it: so it may lag behind the journal, but is never ahead of it.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use engine::{Hash, Position};

use super::files::Open;

const BYTES: usize = 40;

/// `journal.mark`, opened for reading and writing.
#[derive(Debug)]
pub(super) struct Mark(Open);

impl Mark {
    /// Opens it and gives it its full size: from now on writing it needs no space.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = Open::new(OpenOptions::new().read(true).write(true), path)?;
        match file.len()? {
            0 => file.write_all_at(&[0; BYTES], 0)?,
            bytes if bytes != BYTES as u64 => {
                let detail = format!("it has {bytes} bytes, not {BYTES}: what was acknowledged last is not known");
                return Err(io::Error::new(io::ErrorKind::InvalidData, detail));
            }
            _ => {}
        }
        Ok(Self(file))
    }

    /// What it says; `None` when it was never written, or power was lost before it reached the disk.
    pub(super) fn read(&self) -> io::Result<Option<(Position, Hash)>> {
        let mut bytes = [0; BYTES];
        match self.0.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let (position, chain) = bytes.split_at(8);
        let position = u64::from_le_bytes(position.try_into().expect("split at 8"));
        let chain = Hash(chain.try_into().expect("40 less 8 are 32"));
        Ok((position > 0).then_some((Position(position), chain)))
    }

    pub(super) fn write(&self, position: Position, chain: Hash) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&position.0.to_le_bytes());
        bytes[8..].copy_from_slice(&chain.0);
        self.0.write_all_at(&bytes, 0)
    }

    /// Syncs it. No acknowledgement waits for this.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}
