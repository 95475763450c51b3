//! The loop of the supervisor: it handles the command's output, its limit, requests through the FIFO, and the processes
//! that the command leaves.

use std::fs::File;
use std::io::{PipeReader, Read as _};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, WaitStatus, pidfd_open};

use super::output::OutputLog;
use super::{Started, notify_update, processes};
use crate::cgroup::CallCgroup;
use crate::folder::{CLOSE_INPUT, ClaimedFolder, END, EndedBy, ExitRecord, FREEZE, THAW};
use crate::limits::{
    DRAIN_BYTES, ENDING_TICK_MS, FREEZE_LOOKS, KILL_MS, LIVE_BYTES, PIPE_BYTES, REAP_TICK_MS, TERM_MS,
};

/// The stage of ending the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The command runs; nothing has to be ended.
    Running,
    /// The remaining processes received SIGTERM.
    Terminating { until: Instant },
    /// The remaining processes receive SIGKILL.
    Killing { until: Instant },
    /// No process is left, or none that can be ended.
    Over,
}

/// The state of a command whose processes are stopped.
#[derive(Debug, Clone, Copy)]
struct Frozen {
    since: Instant,
    /// How many more searches for processes remain: a process that started while the others were stopped must be found
    /// too.
    looks: u32,
}

/// What a wait found to be ready.
#[derive(Debug, Clone, Copy)]
struct Readiness {
    control: bool,
    output: bool,
}

/// A command under supervision.
pub(super) struct Watch<'a> {
    folder: &'a ClaimedFolder,
    main: Pid,
    /// Readable once the command has ended. None if the kernel has no pidfds: the supervisor then polls.
    main_end: Option<OwnedFd>,
    /// None once every writer has closed it.
    output: Option<PipeReader>,
    /// Keeps the input of the command open; none once it is closed, or if the command has no input.
    input: Option<File>,
    /// Whether the command may continue in the background, so that others read its output while it grows.
    may_stay: bool,
    log: OutputLog,
    buffer: Vec<u8>,
    stage: Stage,
    status: Option<WaitStatus>,
    ended_by: Option<EndedBy>,
    limit: Instant,
    /// Set while the command is frozen; its limit does not run then.
    frozen: Option<Frozen>,
    /// None where the command has no cgroup.
    cgroup: Option<CallCgroup>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(folder: &'a ClaimedFolder, started: Started, limit_ms: u64) -> Self {
        let main = Pid::from_child(&started.child);
        Self {
            folder,
            main,
            main_end: pidfd_open(main, PidfdFlags::empty()).ok(),
            output: Some(started.output),
            may_stay: started.input.is_some(),
            input: started.input,
            log: OutputLog::default(),
            buffer: vec![0; PIPE_BYTES],
            stage: Stage::Running,
            status: None,
            ended_by: None,
            limit: Instant::now() + Duration::from_millis(limit_ms),
            frozen: None,
            cgroup: started.cgroup,
        }
    }

    /// Runs until the command and all its processes have ended, or cannot be ended.
    pub(super) fn until_ended(mut self) -> ExitRecord {
        while self.stage != Stage::Over {
            let ready = self.wait(self.timeout());
            if ready.output {
                self.take_output();
            }
            let reaped = processes::reap(self.main);
            if let Some(status) = reaped.main {
                self.status = Some(status);
                self.main_end = None;
            }
            let asked = ready.control && self.asked();
            self.advance(asked, reaped.none_left);
        }
        self.drain();
        ExitRecord {
            status: self.status.and_then(WaitStatus::exit_status),
            signal: self.status.and_then(WaitStatus::terminating_signal),
            ended_by: self.ended_by,
            trouble: self.log.trouble,
            bytes: self.log.bytes,
            survivors: processes::reap(self.main).none_left.then(Vec::new).unwrap_or_else(processes::survivors),
            started_at: 0,
            ended_at: 0,
            nonce: String::new(),
            exceeded: self.cgroup.as_ref().and_then(CallCgroup::exceeded),
        }
    }

    fn advance(&mut self, asked: bool, none_left: bool) {
        let now = Instant::now();
        // What is in the cgroup and is no descendant was put there.
        if none_left && !self.ends_cgroup() {
            self.stage = Stage::Over;
            return;
        }
        match self.stage {
            Stage::Running => {
                self.look_again();
                let is_past = self.frozen.is_none() && now >= self.limit;
                self.ended_by = match (self.status, asked, is_past) {
                    // The command ended by itself; only its remaining processes have to be ended.
                    (Some(_), _, _) => None,
                    (None, true, _) => Some(EndedBy::Request),
                    (None, false, true) => Some(EndedBy::Limit),
                    (None, false, false) => return,
                };
                processes::signal_descendants(self.main, Signal::TERM);
                // A stopped process handles SIGTERM only after it is continued.
                self.thaw();
                self.stage = Stage::Terminating { until: now + Duration::from_millis(TERM_MS) };
            }
            Stage::Terminating { until } if now < until => {}
            Stage::Terminating { .. } => {
                self.kill();
                self.stage = Stage::Killing { until: now + Duration::from_millis(KILL_MS) };
            }
            // Repeat: a killed process may have forked just before.
            Stage::Killing { until } if now < until => self.kill(),
            Stage::Killing { .. } | Stage::Over => self.stage = Stage::Over,
        }
    }

    fn kill(&self) {
        self.ends_cgroup();
        processes::signal_descendants(self.main, Signal::KILL);
    }

    fn ends_cgroup(&self) -> bool {
        self.cgroup.as_ref().is_some_and(CallCgroup::end)
    }

    fn timeout(&self) -> Duration {
        match self.stage {
            Stage::Running if self.frozen.is_some_and(|frozen| frozen.looks > 0) => {
                Duration::from_millis(ENDING_TICK_MS)
            }
            Stage::Running if self.main_end.is_some() && self.frozen.is_some() => Duration::from_millis(REAP_TICK_MS),
            Stage::Running if self.main_end.is_some() => {
                let rest = self.limit.saturating_duration_since(Instant::now());
                rest.min(Duration::from_millis(REAP_TICK_MS))
            }
            _ => Duration::from_millis(ENDING_TICK_MS),
        }
    }

    fn wait(&self, timeout: Duration) -> Readiness {
        let mut fds = vec![PollFd::new(&self.folder.control, PollFlags::IN)];
        let output = self.output.as_ref().map(|output| {
            fds.push(PollFd::new(output, PollFlags::IN));
            fds.len() - 1
        });
        if let Some(end) = &self.main_end {
            fds.push(PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        }
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        if poll(&mut fds, Some(&timeout)).is_err() {
            return Readiness { control: false, output: false };
        }
        let ready = |at: usize| !fds[at].revents().is_empty();
        Readiness { control: ready(0), output: output.is_some_and(ready) }
    }

    /// Reads the requests from the control FIFO; returns whether one asks for the end.
    fn asked(&mut self) -> bool {
        let mut bytes = [0; 16];
        let count = (&self.folder.control).read(&mut bytes).unwrap_or(0);
        let mut is_to_end = false;
        for asked in &bytes[..count] {
            match *asked {
                CLOSE_INPUT => self.input = None,
                FREEZE => self.freeze(),
                THAW => self.thaw(),
                END => is_to_end = true,
                // A request of a later version.
                _ => {}
            }
        }
        is_to_end
    }

    fn freeze(&mut self) {
        if self.stage == Stage::Running && self.frozen.is_none() {
            processes::signal_descendants(self.main, Signal::STOP);
            self.frozen = Some(Frozen { since: Instant::now(), looks: FREEZE_LOOKS });
        }
    }

    fn look_again(&mut self) {
        if let Some(frozen) = self.frozen.as_mut().filter(|frozen| frozen.looks > 0) {
            frozen.looks -= 1;
            processes::signal_descendants(self.main, Signal::STOP);
        }
    }

    fn thaw(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            self.limit += frozen.since.elapsed();
            processes::signal_descendants(self.main, Signal::CONT);
        }
    }

    /// Reads one piece of output from the pipe, which is ready.
    fn take_output(&mut self) {
        let Some(output) = &mut self.output else { return };
        match output.read(&mut self.buffer) {
            Ok(0) => self.output = None,
            Ok(count) => {
                let live = self.log.bytes < LIVE_BYTES;
                self.log.append(&self.folder.output, &self.buffer[..count]);
                if self.may_stay {
                    // Only readers of the live output use it. If it fails, they see a wrong number, and the command
                    // continues.
                    let _ = self.folder.note_written(self.log.bytes);
                }
                if live {
                    notify_update();
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => self.output = None,
        }
    }

    /// Reads the rest of the pipe.
    fn drain(&mut self) {
        let most = self.log.bytes + DRAIN_BYTES;
        while self.log.bytes < most && self.wait(Duration::ZERO).output {
            self.take_output();
        }
    }
}
