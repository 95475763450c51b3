//! A test that hangs is ended, and says in which program it hung: without it, the whole proof would wait for ever.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a home may be in use: several times what the longest test needs.
const LIMIT: Duration = Duration::from_mins(5);

/// Interval of looks.
const LOOK: Duration = Duration::from_secs(5);

/// The homes that are in use.
static USED: Mutex<Vec<Used>> = Mutex::new(vec![]);

/// A home in use.
struct Used {
    folder: PathBuf,
    test: String,
    since: Instant,
    is_ended: bool,
}

fn used() -> MutexGuard<'static, Vec<Used>> {
    USED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks from now on whether this home is in use for too long.
pub(super) fn begin(folder: &Path) {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| drop(thread::spawn(watch)));
    let test = thread::current().name().unwrap_or("?").to_owned();
    used().push(Used { folder: folder.to_owned(), test, since: Instant::now(), is_ended: false });
}

/// The home is left.
pub(super) fn end(folder: &Path) {
    used().retain(|used| used.folder != folder);
}

fn watch() {
    loop {
        // waits: for the time to pass, which is what it measures.
        thread::sleep(LOOK);
        for used in used().iter_mut() {
            if used.since.elapsed() > LIMIT && !used.is_ended {
                used.is_ended = true;
                // A home that all tests of a subject share is in use for long, by no program.
                let programs = end_programs(&used.folder);
                if !programs.is_empty() {
                    say(&format!("{} hangs; its programs, which are ended now:\n{programs}", used.test));
                }
            }
        }
    }
}

/// Ends the programs that were started for a home. Says what each was doing.
fn end_programs(folder: &Path) -> String {
    let mut ended = String::new();
    let folder = folder.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for (pid, process) in processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
    {
        let has = |file: &str| {
            let bytes = fs::read(process.join(file)).unwrap_or_default();
            bytes.windows(folder.len()).any(|part| part == folder)
        };
        if pid != std::process::id() as i32 && (has("environ") || has("cmdline")) {
            ended.push_str(&shown(&process));
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
    ended
}

/// A process: its command line, and what each of its threads waits for.
fn shown(process: &Path) -> String {
    let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).replace('\0', " ");
    let mut shown = format!("  {} {:.300}\n", process.display(), text(&process.join("cmdline")));
    for thread in fs::read_dir(process.join("task")).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let [name, waits, call] = ["comm", "wchan", "syscall"].map(|file| text(&thread.join(file)));
        let _ = writeln!(shown, "    {} in {waits}, {}", name.trim(), call.trim());
    }
    shown
}

/// Past the harness, which shows what a test prints when it has ended.
#[expect(clippy::disallowed_methods, reason = "it is the rule of the program, not of its tests")]
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[test]
fn the_programs_of_a_home_are_ended_and_named() {
    let home = super::Home::new();
    let process = super::Process::spawn(home.program("sleep", &["600"]));
    let mut shown = String::new();
    // Until it has become `sleep`.
    super::until("it is found", || {
        shown = end_programs(home.user());
        shown.contains("sleep 600")
    });
    assert!(shown.contains(&format!("/proc/{} ", process.pid())), "{shown}");
    assert_eq!(process.finish().code, None);
}
