//! The two scenes of a demo: start a real process, read its lines, kill it, and let another process resume the run.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use engine::RunId;
use journal::Read as _;
use serde_json::Value;

use super::failed;
use crate::error::CliError;
use crate::show::{print, worded};

/// Lines that the command writes, one every 0.2 s.
pub(super) const LINES: usize = 8;

/// The home, the workspace and the program of a demo.
pub(super) struct Stage {
    pub(super) home: PathBuf,
    pub(super) workspace: PathBuf,
    program: PathBuf,
    quiet: bool,
}

/// What a client received of a run before its process was killed.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) run: String,
    pub(super) text: String,
    pub(super) lines_at_kill: usize,
}

impl Stage {
    pub(super) fn set(folder: &Path, quiet: bool) -> io::Result<Self> {
        let (home, workspace) = (folder.join("home"), folder.join("workspace"));
        fs::create_dir_all(&workspace)?;
        fs::write(workspace.join("README.txt"), README)?;
        Ok(Self { home, workspace, program: std::env::current_exe()?, quiet })
    }

    /// The file that the command writes: independent evidence of what was done.
    pub(super) fn ledger(&self) -> PathBuf {
        self.workspace.join("ledger.txt")
    }

    /// A command writes a line every 0.2 s; after the third its runtime is killed.
    pub(super) fn kill_in_a_tool(&self) -> Result<Seen, CliError> {
        self.say("scene 1: SIGKILL while a command is running");
        let command = format!("for i in $(seq {LINES}); do echo line $i >> ledger.txt; sleep 0.2; done");
        let mut child =
            self.limulus(&["agent", "--session", "tool", "--yes", "--json", "-m", &format!("run `{command}`")])?;
        let mut seen = Seen::default();
        self.watch(&mut child, &mut seen, |stage, _, line| {
            line["type"] == "start" && line["stream"] == "tool" && stage.three_lines()
        })?;
        seen.lines_at_kill = self.lines();
        self.kill(&mut child, &format!("{} of {LINES} lines are in ledger.txt", seen.lines_at_kill))?;
        self.resume("tool")?;
        self.say(&format!("  {} lines are in ledger.txt now", self.lines()));
        Ok(seen)
    }

    /// The answer streams slowly; after a few pieces its runtime is killed.
    pub(super) fn kill_in_an_answer(&self) -> Result<Seen, CliError> {
        self.say("scene 2: SIGKILL while an answer streams in");
        let mut child = self.limulus(&["agent", "--session", "answer", "--json", "-m", "read README.txt"])?;
        let mut seen = Seen::default();
        let mut pieces = 0;
        self.watch(&mut child, &mut seen, |_, _, line| {
            pieces += usize::from(line["stream"] == "assistant" && line["type"] == "delta");
            pieces >= 5
        })?;
        self.kill(&mut child, &format!("{} bytes of the answer had come", seen.text.len()))?;
        self.resume("answer")?;
        Ok(seen)
    }

    fn limulus(&self, words: &[&str]) -> Result<Child, CliError> {
        let child = Command::new(&self.program)
            .args(words)
            .arg("--workspace")
            .arg(&self.workspace)
            .env("LIMULUS_HOME", &self.home)
            .env("LIMULUS_AGENTS__MAIN__MODEL", "offline/offline")
            .env("LIMULUS_OFFLINE__PACE_MS", "30")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(|error| failed(format!("limulus does not start: {error}")))?;
        self.say(&format!("  $ limulus {} → pid {}", words[..words.len().min(3)].join(" "), child.id()));
        Ok(child)
    }

    /// Reads the lines of a client until `enough`. Fails if the process ends before.
    fn watch(
        &self,
        child: &mut Child,
        seen: &mut Seen,
        mut enough: impl FnMut(&Self, &Seen, &Value) -> bool,
    ) -> Result<(), CliError> {
        let out = child.stdout.take().expect("stdout is piped");
        for line in BufReader::new(out).lines() {
            let line = line.map_err(|error| failed(format!("its output cannot be read: {error}")))?;
            let line: Value = serde_json::from_str(&line).map_err(|error| failed(format!("`{line}`: {error}")))?;
            if let Some(run) = line["run"].as_str() {
                run.clone_into(&mut seen.run);
            }
            if line["stream"] == "assistant" && line["type"] == "delta" {
                seen.text.push_str(line["text"].as_str().unwrap_or_default());
            }
            if line["stream"] == "assistant" && line["type"] == "message" {
                seen.text.clear();
            }
            if enough(self, seen, &line) {
                return Ok(());
            }
        }
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        Err(failed(format!("the process ended by itself ({status}) before it could be killed")))
    }

    fn kill(&self, child: &mut Child, why: &str) -> Result<(), CliError> {
        child.kill().and_then(|()| child.wait()).map_err(|error| failed(format!("cannot kill: {error}")))?;
        let head = self.reader()?.head()?;
        self.say(&format!("  SIGKILL → pid {} ({why}); the journal is at position {head}", child.id()));
        Ok(())
    }

    fn resume(&self, session: &str) -> Result<(), CliError> {
        let child = self.limulus(&["resume", session, "--json"])?;
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        let head = self.reader()?.head()?;
        self.say(&format!("  it ended with {}; the journal is at position {head}", output.status));
        Ok(())
    }

    pub(super) fn reader(&self) -> Result<journal::Reader, CliError> {
        Ok(journal::Reader::open(&self.home)?)
    }

    pub(super) fn lines(&self) -> usize {
        fs::read_to_string(self.ledger()).map_or(0, |text| text.lines().count())
    }

    /// Waits until the command has written three lines, which takes less than a second.
    fn three_lines(&self) -> bool {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while self.lines() < 3 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        self.lines() >= 3
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            // A closed stdout stops no scene.
            let _ = print(&worded(format!("{text}\n")));
        }
    }
}

impl Seen {
    pub(super) fn run(&self) -> Result<RunId, CliError> {
        self.run.parse().map_err(|error| failed(format!("no run was seen: {error}")))
    }
}

const README: &str = "The horseshoe crab has outlived five mass extinctions.\n\
It has ten eyes, blue blood, and a loop that goes on.\n\
Its shell grows by leaving the old one behind.\n\
What it knew before, it still knows after.\n\
This file is long enough for an answer that takes its time.\n";
