//! What the child reports on its pipe: that it owns the home, then each acknowledgement as soon as it gets it.

use std::io::{self, Write};

use engine::{Epoch, Position};

/// Bytes of one report: three numbers, little-endian. A write of this size is atomic on a pipe.
pub(super) const BYTES: usize = 24;
/// The number that replaces that of a session if the home is owned.
const OWNED: u64 = u64::MAX;

/// A report of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportLine {
    /// It owns the home, with this epoch.
    Owned(Epoch),
    /// A step of a session was acknowledged.
    Done {
        session: usize,
        step: u64,
        /// The position that the journal returned.
        position: Position,
    },
}

impl ReportLine {
    pub(super) fn write(self, mut pipe: impl Write) -> io::Result<()> {
        let numbers = match self {
            Self::Owned(epoch) => [OWNED, epoch.0, 0],
            Self::Done { session, step, position } => [session as u64, step, position.0],
        };
        pipe.write_all(&numbers.map(u64::to_le_bytes).concat())
    }

    /// All reports, in order. An incomplete last one does not count.
    pub(super) fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        bytes.chunks_exact(BYTES).map(|word| {
            let number = |at: usize| u64::from_le_bytes(word[8 * at..8 * at + 8].try_into().expect("eight bytes"));
            match number(0) {
                OWNED => Self::Owned(Epoch(number(1))),
                session => Self::Done { session: session as usize, step: number(1), position: Position(number(2)) },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_as_they_were_written_and_half_a_report_is_none() {
        let reported = [ReportLine::Owned(Epoch(3)), ReportLine::Done { session: 2, step: 9, position: Position(77) }];
        let mut pipe = vec![];
        for word in reported {
            word.write(&mut pipe).unwrap();
        }
        assert_eq!(ReportLine::all(&pipe).collect::<Vec<_>>(), reported);
        assert_eq!(ReportLine::all(&pipe[..pipe.len() - 1]).count(), 1);
    }
}
