//! A home with its workspace, the real program in it, and ways to watch it. Tests make the assertions.

mod busy;
mod canned;
mod client;
mod home;
mod login_server;
pub(crate) mod openclaw;
mod owner;
mod page;
mod planned;
mod process;
pub(crate) mod receiver;
mod retention;
mod terminal;
mod watch;
pub(crate) mod web;

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;

pub(crate) use busy::{Busy, HOLD};
pub(crate) use canned::{all, answered, refused, serve, serve_whole};
pub(crate) use client::RawClient;
pub(crate) use home::{Finished, Home, PROGRAM};
pub(crate) use login_server::{GOOD_KEY, LoginServer, refresh_token};
pub(crate) use owner::beside_an_owner;
pub(crate) use page::{examples, is_as_shown, with_names};
pub(crate) use planned::{Asked, Does, Planned, STREAM, said, whole};
pub(crate) use process::Process;
pub(crate) use retention::{anchor, keep_snapshot};
pub(crate) use terminal::Terminal;

/// An address without a listener: the system assigns this port only to a program that requests it.
pub(crate) const CLOSED: &str = "127.0.0.1:1";

/// The timeout of every wait in a test: far above what is needed, so that it only bounds a hang.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until it holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "this never came: {what}");
        // waits: polls another process, which does not notify anyone when it is ready.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a line shows a state and no entry: each new subscription receives it.
pub(crate) fn is_state(line: &Value) -> bool {
    line["stream"] == "state" && line["type"] == "changed" || line["stream"] == "usage"
}

/// Whether a process runs; one that has ended and only waits to be reaped does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rfind(')').and_then(|at| stat[at + 1..].split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// The pids that commands of a test have written into a file, one a line.
pub(crate) fn pids(file: &Path) -> Vec<u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The bytes of everything below a folder.
pub(crate) fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder that is there").flatten();
    entries
        .map(|entry| {
            let meta = entry.metadata().expect("an entry that is there");
            if meta.is_dir() { size_of(&entry.path()) } else { meta.len() }
        })
        .sum()
}
