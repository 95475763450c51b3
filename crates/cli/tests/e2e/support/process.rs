//! A program that runs while the test watches it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Finished, until};

/// A running program. It is killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    out: Captured,
    err: Captured,
}

/// The output of a pipe so far.
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Captured {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(vec![]));
        let into = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        Self { bytes, thread: Some(thread) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn whole(&mut self) -> String {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the reader of a pipe does not panic");
        }
        self.text()
    }
}

impl Process {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the program can be started");
        // None if the test redirected the stream.
        let out = child.stdout.take().map_or_else(|| Captured::from(std::io::empty()), Captured::from);
        let err = Captured::from(child.stderr.take().expect("stderr is a pipe"));
        Self { child, out, err }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until stderr contains this.
    #[track_caller]
    pub(crate) fn until_err(&self, part: &str) {
        until(part, || self.err.text().contains(part));
    }

    /// Waits until stderr contains this `times` times.
    #[track_caller]
    pub(crate) fn until_err_times(&self, part: &str, times: usize) {
        until(part, || self.err.text().matches(part).count() >= times);
    }

    /// Waits for a line of stdout that matches, and returns it.
    #[track_caller]
    pub(crate) fn until_line(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        until(what, || {
            found = self.lines().into_iter().find(|line| is_it(line));
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// Waits until stdout has this many pieces of an answer. Returns the text so far.
    #[track_caller]
    pub(crate) fn until_text(&self, pieces: usize) -> String {
        until("pieces of an answer", || self.pieces() >= pieces);
        self.texts().concat()
    }

    /// Waits until the answer contains this. Returns the text so far.
    #[track_caller]
    pub(crate) fn until_said(&self, part: &str) -> String {
        until(part, || self.texts().concat().contains(part));
        self.texts().concat()
    }

    /// The pieces of an answer so far.
    pub(crate) fn pieces(&self) -> usize {
        self.texts().len()
    }

    fn texts(&self) -> Vec<String> {
        let lines = self.lines().into_iter();
        let deltas = lines.filter(|line| line["stream"] == "assistant" && line["type"] == "delta");
        deltas.filter_map(|line| Some(line["text"].as_str()?.to_owned())).collect()
    }

    /// The whole lines so far.
    fn lines(&self) -> Vec<Value> {
        let text = self.out.text();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is not reaped yet");
    }

    /// SIGKILL, and its end.
    #[track_caller]
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9), "it ended before it could be killed: {}", self.err.whole());
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Finished {
        let mut code = None;
        until("the end of the program", || {
            code = self.child.try_wait().expect("it can be waited for");
            code.is_some()
        });
        Finished { code: code.and_then(|status| status.code()), out: self.out.whole(), err: self.err.whole() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
