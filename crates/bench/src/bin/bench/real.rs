//! The real binary in a separate home, with a model server in this process that records its requests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model_server::ModelServer;
use serde_json::Value;

use super::Problem;

/// How long to wait for anything before the measurement fails.
const LIMIT: Duration = Duration::from_mins(2);
/// How often a condition is checked.
const LOOK: Duration = Duration::from_micros(100);

/// A folder with a home and a workspace.
pub(super) struct KillHome<'a> {
    pub(super) folder: PathBuf,
    binary: &'a Path,
}

impl<'a> KillHome<'a> {
    /// Creates it, with a configuration in which every run uses this server and no call needs approval.
    pub(super) fn new(folder: PathBuf, binary: &'a Path, server: &ModelServer, resume: &str) -> Result<Self, Problem> {
        let kill_home = Self { folder, binary };
        std::fs::create_dir_all(kill_home.home())?;
        std::fs::create_dir_all(kill_home.workspace())?;
        let (workspace, base_url) = (kill_home.workspace(), server.base_url());
        let configuration = format!(
            "[agents.main]\nmodel = \"scripted/wire\"\nworkspace = \"{}\"\n[runs]\nresume = \"{resume}\"\nloop_warn_after = \"off\"\nloop_stop_after = \"off\"\n\
             [tools.exec]\npolicy = \"allow\"\n[providers.scripted]\napi = \"openai-chat\"\nbase_url = \"{base_url}\"\n\
             [[providers.scripted.profiles]]\nname = \"first\"\nkey = \"not-a-secret\"\n\
             [models.\"scripted/wire\"]\ncontext_window = 100000000\nmax_output = 8192\n",
            workspace.display()
        );
        std::fs::write(kill_home.home().join("config.toml"), configuration)?;
        Ok(kill_home)
    }

    /// The same with a copy of this home, also of one that a kill left behind.
    pub(super) fn with_home_of(&self, folder: PathBuf) -> Result<Self, Problem> {
        let copy = Self { folder, binary: self.binary };
        std::fs::create_dir_all(copy.home())?;
        for file in ["config.toml", "journal.db", "journal.db-wal", "journal.mark"] {
            if self.home().join(file).exists() {
                std::fs::copy(self.home().join(file), copy.home().join(file))?;
            }
        }
        Ok(copy)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// Starts the binary; its stdout is a pipe.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Child, Problem> {
        let mut command = Command::new(self.binary);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &self.folder);
        command.env("LIMULUS_HOME", self.home()).args(arguments).current_dir(&self.folder);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
    }

    /// Runs the binary and parses its output as JSON.
    pub(super) fn ask(&self, arguments: &[&str]) -> Result<Value, Problem> {
        let output = self.start(arguments)?.wait_with_output()?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Waits until a condition holds; returns how long that took.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<Duration, Problem> {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > LIMIT {
            return Err(format!("{what}: not within {LIMIT:?}").into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(started.elapsed())
}

/// An owner that has resumed what was there.
pub(super) struct Resumed {
    pub(super) owner: Child,
    /// From its start until its next request reached the server.
    pub(super) wall_ms: f64,
    /// The CPU time of all its threads until then.
    pub(super) cpu_ms: f64,
}

/// Starts `limulus resume` and waits for the next request.
pub(super) fn resume(kill_home: &KillHome<'_>, server: &ModelServer) -> Result<Resumed, Problem> {
    let before = server.requests();
    let started = Instant::now();
    let mut owner = kill_home.start(&["resume", "--json"])?;
    let reached =
        until("the next request", || server.requests() > before || owner.try_wait().is_ok_and(|s| s.is_some()));
    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
    let cpu_ms = cpu_ms(owner.id());
    reached?;
    if server.requests() == before {
        return Err("`limulus resume` ended without a request".into());
    }
    Ok(Resumed { owner, wall_ms, cpu_ms: cpu_ms? })
}

/// The CPU time of a process's current threads so far.
fn cpu_ms(pid: u32) -> Result<f64, Problem> {
    let mut ns = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let spent = std::fs::read_to_string(task?.path().join("schedstat"))?;
        ns += spent.split_whitespace().next().ok_or("schedstat is empty")?.parse::<u64>()?;
    }
    Ok(ns as f64 / 1e6)
}
