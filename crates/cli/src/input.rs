//! What is piped into the program. Nothing hangs on a pipe that is open and that nobody writes to, as CI, cron and ssh have it.

#![allow(clippy::disallowed_methods, reason = "no terminal is read here")]

use std::io::{self, IsTerminal as _, stdin};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, read};

use crate::output::say;

/// How long the first byte may take.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// How long stdin is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For its end, however long nothing comes.
    End,
    /// For its end, if something comes within a second.
    Second,
}

/// What was on stdin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piped {
    /// It is a terminal, `/dev/null` or closed, or it ended without a byte.
    Nothing,
    /// It is open, and nothing came in time.
    Silent,
    Bytes(Vec<u8>),
    /// There is more than the limit.
    TooMuch,
}

/// Reads stdin to its end, at most `limit` bytes. A terminal is waited for only if the end is.
pub(crate) fn piped(wait: Wait, limit: usize) -> io::Result<Piped> {
    let is_awaited = is_piped() || wait == Wait::End && stdin().is_terminal();
    if !is_awaited {
        return Ok(Piped::Nothing);
    }
    let (mut bytes, mut piece) = (vec![], vec![0; PIECE_BYTES]);
    let mut is_noted = false;
    loop {
        if wait == Wait::Second && !is_noted && !is_ready()? {
            if bytes.is_empty() {
                return Ok(Piped::Silent);
            }
            is_noted = true;
            say!("limulus: stdin is read to its end; --no-stdin does not read it");
        }
        match read(stdin(), &mut piece) {
            Ok(0) if bytes.is_empty() => return Ok(Piped::Nothing),
            Ok(0) => return Ok(Piped::Bytes(bytes)),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(Errno::INTR) => {}
            // Whoever started this process made it so.
            Err(Errno::AGAIN) => wait_for_more()?,
            Err(error) => return Err(error.into()),
        }
        if bytes.len() > limit {
            return Ok(Piped::TooMuch);
        }
    }
}

/// Whether stdin is a pipe, a socket or a file. A closed one is `/dev/null`: the standard library opens that in its place.
fn is_piped() -> bool {
    let kind = fstat(stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile))
}

/// Whether something, or the end, comes in time.
fn is_ready() -> io::Result<bool> {
    polled(Some(&PATIENCE))
}

fn wait_for_more() -> io::Result<()> {
    polled(None).map(drop)
}

fn polled(patience: Option<&Timespec>) -> io::Result<bool> {
    let stdin = stdin();
    loop {
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], patience) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
