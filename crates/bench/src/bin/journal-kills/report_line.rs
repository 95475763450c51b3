//! What the child says on its pipe: that it owns the home, then each acknowledgement, in the moment in which it is given.

use std::io::{self, Write};

use engine::{Epoch, Position};

/// Bytes of one word on the pipe: three numbers, little-endian. So few are written whole or not at all.
pub(super) const BYTES: usize = 24;
/// In the place of a session: the home is owned.
const OWNED: u64 = u64::MAX;

/// One word of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It owns the home, under this number.
    Owned(Epoch),
    /// A step of a session was acknowledged.
    Done {
        /// Which session.
        session: usize,
        /// Which step.
        step: u64,
        /// The position that the journal named.
        position: Position,
    },
}

impl Told {
    pub(super) fn write(self, mut pipe: impl Write) -> io::Result<()> {
        let numbers = match self {
            Self::Owned(epoch) => [OWNED, epoch.0, 0],
            Self::Done { session, step, position } => [session as u64, step, position.0],
        };
        pipe.write_all(&numbers.map(u64::to_le_bytes).concat())
    }

    /// All words, in order. What a kill has cut was not told.
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
    fn words_are_read_as_they_were_told_and_half_a_word_is_none() {
        let told = [Told::Owned(Epoch(3)), Told::Done { session: 2, step: 9, position: Position(77) }];
        let mut pipe = vec![];
        for word in told {
            word.write(&mut pipe).unwrap();
        }
        assert_eq!(Told::all(&pipe).collect::<Vec<_>>(), told);
        assert_eq!(Told::all(&pipe[..pipe.len() - 1]).count(), 1);
    }
}
