//! The process that owns the home of a case: it is started, awaited and killed.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A fresh home with its workspace.
pub(super) struct KillHome {
    folder: TempDir,
}

impl KillHome {
    pub(super) fn new(base_url: &str) -> std::io::Result<Self> {
        let kill_home = Self { folder: tempfile::Builder::new().prefix("limulus-serve-kills-").tempdir()? };
        std::fs::create_dir(kill_home.workspace())?;
        std::fs::create_dir(kill_home.home())?;
        let workspace = kill_home.workspace();
        let configuration = format!(
            "[agents.main]\nmodel = \"scripted/wire\"\nworkspace = \"{}\"\n[runs]\npoison_after = \"off\"\n\
             [tools.exec]\npolicy = \"allow\"\n[providers.scripted]\napi = \"openai-chat\"\nbase_url = \"{base_url}\"\n",
            workspace.display()
        );
        std::fs::write(kill_home.home().join("config.toml"), configuration)?;
        Ok(kill_home)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Keeps it for inspection.
    pub(super) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// Starts an owner, and waits until it responds.
    pub(super) fn serve(&self, binary: &Path) -> Result<Owner, String> {
        let mut command = Command::new(binary);
        command.args(["serve", "--json"]).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path()).env("LIMULUS_HOME", self.home()).current_dir(self.workspace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{} does not start: {error}", binary.display()))?;
        let stdout = child.stdout.take().ok_or("the owner has no stdout")?;
        let mut owner = Owner { child, stdout: BufReader::new(stdout) };
        let mut line = String::new();
        while !line.contains("\"ready\"") {
            line.clear();
            if owner.stdout.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
                return Err(format!("the owner ended before it was ready: {:?}", owner.child.wait()));
            }
        }
        Ok(owner)
    }
}

/// A running owner. It is killed when it is dropped.
pub(super) struct Owner {
    child: Child,
    /// Held open: otherwise a write to the closed pipe might end the owner.
    stdout: BufReader<ChildStdout>,
}

impl Owner {
    /// Sends SIGKILL and waits for the end.
    pub(super) fn kill(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Sends SIGTERM and waits for a proper end.
    pub(super) fn stop(mut self) -> Result<(), String> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(|error| error.to_string())?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("it was stopped and ended with {status}")) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
