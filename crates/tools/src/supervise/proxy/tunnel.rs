//! Carries bytes both ways between two connections, in one thread.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::limits::TUNNEL_BYTES;

/// One direction.
pub(super) struct Flow {
    bytes: Vec<u8>,
    /// How many of them were written.
    written: usize,
    /// How many more may be read.
    left: u64,
    /// Whether the end of the source is handed on.
    ends: bool,
    /// Whether the source sends nothing more.
    is_source_over: bool,
    state: FlowState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowState {
    Open,
    /// Nothing more is read.
    Ending,
    Over,
}

impl Flow {
    /// Begins with bytes that were read before.
    pub(super) fn all(bytes: Vec<u8>) -> Self {
        Self { bytes, written: 0, left: u64::MAX, ends: true, is_source_over: false, state: FlowState::Open }
    }

    /// A number of bytes, and what follows them is not read.
    pub(super) fn first(bytes: Vec<u8>, left: u64) -> Self {
        Self {
            left,
            ends: false,
            state: if left == 0 { FlowState::Ending } else { FlowState::Open },
            ..Self::all(bytes)
        }
    }

    fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    fn wants_to_read(&self) -> bool {
        (self.state == FlowState::Open && self.is_empty()) || self.discards()
    }

    /// What follows the bytes that are carried is read to notice the end of the source.
    fn discards(&self) -> bool {
        self.state == FlowState::Over && !self.ends && !self.is_source_over
    }

    fn read(&mut self, source: &TcpStream) -> io::Result<()> {
        if self.discards() {
            let mut piece = [0; 4096];
            let mut source = source;
            self.is_source_over = again_later(source.read(&mut piece))? == Some(0);
            return Ok(());
        }
        self.bytes.resize(self.left.min(TUNNEL_BYTES as u64) as usize, 0);
        self.written = 0;
        let mut source = source;
        let read = again_later(source.read(&mut self.bytes));
        self.bytes.truncate(read.as_ref().map_or(0, |count| count.unwrap_or_default()));
        match read? {
            None => {}
            Some(0) => {
                self.state = FlowState::Ending;
                self.is_source_over = true;
            }
            Some(count) => {
                self.left -= count as u64;
                if self.left == 0 {
                    self.state = FlowState::Ending;
                }
            }
        }
        Ok(())
    }

    /// Returns how many bytes were written.
    fn write(&mut self, sink: &TcpStream) -> io::Result<usize> {
        let mut sink_writer = sink;
        let count = if self.is_empty() {
            0
        } else {
            again_later(sink_writer.write(&self.bytes[self.written..]))?.unwrap_or_default()
        };
        self.written += count;
        if self.is_empty() && self.state == FlowState::Ending {
            self.state = FlowState::Over;
            if self.ends {
                sink.shutdown(Shutdown::Write)?;
            }
        }
        Ok(count)
    }
}

/// None if the socket is not ready.
fn again_later(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// How long nothing may move.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleLimits {
    pub(super) open: Duration,
    /// Once the client sends nothing more: it may have ended.
    pub(super) half_closed: Duration,
}

/// Carries bytes until both directions are over, or until nothing moved for a time. `count` receives the bytes up and down.
pub(super) fn carry(
    (client, host): (&TcpStream, &TcpStream),
    (mut up, mut down): (Flow, Flow),
    idle: IdleLimits,
    count: impl Fn(usize, usize),
) -> io::Result<()> {
    client.set_nonblocking(true)?;
    host.set_nonblocking(true)?;
    loop {
        count(up.write(host)?, down.write(client)?);
        // The answer to a single request ends the connection.
        let is_answered = down.state == FlowState::Over && !up.ends;
        if is_answered || (up.state == FlowState::Over && down.state == FlowState::Over) {
            return Ok(());
        }
        let of_client = interest(&up, &down);
        let of_host = interest(&down, &up);
        let limit = if up.is_source_over { idle.half_closed } else { idle.open };
        if !wait(&[(client, of_client), (host, of_host)], limit)? {
            return Err(ErrorKind::TimedOut.into());
        }
        if up.wants_to_read() {
            up.read(client)?;
        }
        if down.wants_to_read() {
            down.read(host)?;
        }
    }
}

/// What a connection is waited for, from which one flow comes and to which the other one goes.
fn interest(from: &Flow, to: &Flow) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, from.wants_to_read());
    flags.set(PollFlags::OUT, !to.is_empty());
    flags
}

/// Waits until one of them is ready. Returns false after this time.
fn wait(sources: &[(&TcpStream, PollFlags)], limit: Duration) -> io::Result<bool> {
    // One that nothing is expected of would end the wait again and again once its other side has gone.
    let sources = sources.iter().filter(|(_, flags)| !flags.is_empty());
    let mut sources: Vec<_> = sources.map(|(stream, flags)| PollFd::new(*stream, *flags)).collect();
    let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    match poll(&mut sources, Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
