//! Makes a copy a git worktree of its repository. Git runs nothing that the repository names: no hooks, no monitor of files, no
//! filters, since nothing is checked out.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cancel::Cancel;

/// How long one command of git may take.
const LIMIT: Duration = Duration::from_mins(1);
/// Between two looks whether it has ended.
const AGAIN: Duration = Duration::from_millis(5);
/// Bytes of an error of git.
const ERROR_BYTES: u64 = 2_048;

/// Makes the empty folder `to` a worktree of the repository `of` at its present commit, with no files in it.
pub(super) fn add(of: &Path, to: &Path, cancel: &Cancel) -> Result<(), String> {
    let hint = "sandbox.root = \"copy\" needs no git";
    if of.join(".git").symlink_metadata().is_err() {
        return Err(format!("it is no git repository; {hint}"));
    }
    let failed = |error: String| format!("git worktree add: {error}; {hint}");
    let add = ["worktree", "add", "--detach", "--no-checkout", "--force"].map(AsRef::as_ref);
    run(of, &[&add[..], &[to.as_os_str(), "HEAD".as_ref()]].concat(), cancel).map_err(failed)?;
    run(to, &["read-tree", "HEAD"].map(AsRef::as_ref), cancel).map_err(failed)
}

/// Says where the worktree is now. Without it git works there all the same, but may forget it after months.
pub(super) fn moved(of: &Path, to: &Path, cancel: &Cancel) {
    let _ = run(of, &["worktree".as_ref(), "repair".as_ref(), to.as_os_str()], cancel);
}

/// Removes the worktree from the list of its repository. What fails leaves an entry there that `git worktree prune` removes.
pub(super) fn forget(of: &Path, folder: &Path) {
    let remove = ["worktree", "remove", "--force", "--force"].map(AsRef::as_ref);
    let _ = run(of, &[&remove[..], &[folder.as_os_str()]].concat(), &Cancel::default());
}

fn run(folder: &Path, arguments: &[&std::ffi::OsStr], cancel: &Cancel) -> Result<(), String> {
    let mut git = Command::new("git");
    git.env_clear();
    for name in ["PATH", "LANG", "LC_ALL"] {
        git.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0");
    git.env("GIT_NO_LAZY_FETCH", "1").env("GIT_OPTIONAL_LOCKS", "0");
    git.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never"]);
    git.arg("-C").arg(folder).args(arguments);
    git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = git.spawn().map_err(|error| format!("git cannot be started ({error})"))?;
    let (stderr, until) = (child.stderr.take(), Instant::now() + LIMIT);
    let status = loop {
        match child.try_wait() {
            Ok(None) if cancel.is_set() || Instant::now() >= until => {
                // It may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err("it takes too long, or is no longer needed".to_owned());
            }
            Ok(None) => thread::sleep(AGAIN),
            Ok(Some(status)) => break status,
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut error = vec![];
    // Without its words the exit code has to do.
    let _ = stderr.map(|stderr| stderr.take(ERROR_BYTES).read_to_end(&mut error));
    let error = String::from_utf8_lossy(&error);
    let last = error.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    Err(last.unwrap_or_else(|| status.to_string()))
}
