//! What a client sends before its bytes go on: read piece by piece, within a time and a number of bytes.

use std::io::{self, ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Instant;

/// The beginning of what a client sends.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
    most: usize,
    /// What has come and was not taken.
    pub(super) bytes: Vec<u8>,
}

impl<'a> Incoming<'a> {
    /// Never more than `most` bytes are kept.
    pub(super) fn new(stream: &'a TcpStream, deadline: Instant, most: usize) -> Self {
        Self { stream, deadline, most, bytes: vec![] }
    }

    /// Goes on with other bounds.
    pub(super) fn within(self, deadline: Instant, most: usize) -> Self {
        Self { deadline, most, ..self }
    }

    /// Waits for more bytes. `TimedOut` and `FileTooLarge` are the bounds, `UnexpectedEof` the end.
    pub(super) fn more(&mut self) -> io::Result<()> {
        let space = self.most.saturating_sub(self.bytes.len());
        let left = self.deadline.saturating_duration_since(Instant::now());
        if space == 0 {
            return Err(ErrorKind::FileTooLarge.into());
        }
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 4096];
        let length = space.min(piece.len());
        match self.stream.read(&mut piece[..length]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.bytes.extend_from_slice(&piece[..count]);
                Ok(())
            }
            // The next call sees the deadline.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes this many bytes, for which it waits.
    pub(super) fn take<const COUNT: usize>(&mut self) -> io::Result<[u8; COUNT]> {
        let taken = self.take_vec(COUNT)?;
        Ok(taken.try_into().expect("as many were asked for"))
    }

    pub(super) fn take_vec(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.bytes.len() < count {
            self.more()?;
        }
        Ok(self.bytes.drain(..count).collect())
    }
}
