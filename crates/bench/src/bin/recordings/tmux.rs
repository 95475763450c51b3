//! A real terminal: tmux with a server of its own, which ends with it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::Problem;

/// The file with what the terminal runs.
pub(super) const SCRIPT: &str = "script";

/// Rows: what is recorded fits into them.
const ROWS: u16 = 80;
/// How long to wait for something on the screen.
const LIMIT: Duration = Duration::from_mins(1);
/// How often the screen is read.
const LOOK: Duration = Duration::from_millis(20);

/// A terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Runs the script of this folder in a terminal with so many columns.
    pub(super) fn run(folder: &Path, columns: u16) -> Result<Self, Problem> {
        let terminal = Self { socket: folder.join("tmux") };
        let (columns, rows) = (columns.to_string(), ROWS.to_string());
        let script = format!("sh '{}'", folder.join(SCRIPT).display());
        let start = ["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, &script];
        terminal.tmux(&start).map_err(|error| format!("tmux: {error}"))?;
        Ok(terminal)
    }

    /// Types a text, without Enter.
    pub(super) fn type_text(&self, text: &str) -> Result<(), Problem> {
        self.tmux(&["send-keys", "-l", text]).map(drop)
    }

    /// The screen with the sequences of its colours, in rows.
    pub(super) fn coloured_screen(&self) -> Result<String, Problem> {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the screen has this text, and returns it.
    pub(super) fn until(&self, part: &str) -> Result<String, Problem> {
        let began = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p", "-J"])?;
            if screen.contains(part) {
                return Ok(screen);
            }
            if began.elapsed() > LIMIT {
                return Err(format!("this is not on the screen after {LIMIT:?}: {part}\n{screen}").into());
            }
            std::thread::sleep(LOOK);
        }
    }

    fn tmux(&self, words: &[&str]) -> Result<String, Problem> {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(words).env_remove("TMUX").output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}
