//! A `limulus serve` in a separate home, and what the kernel reports about its process.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use protocol::method::{ClientInfo, ConnectParams};
use protocol::{Client, Events, PROTOCOL};
use tokio::net::UnixStream;

use super::web;
use crate::Problem;

/// Ticks per second in the kernel's reports to programs.
const TICKS: f64 = 100.0;

/// It runs until it is dropped.
pub(super) struct Owner {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    home: PathBuf,
    /// Where clients connect over TCP; none = over the socket.
    address: Option<String>,
}

/// The first request of a client.
pub(super) fn hello() -> ConnectParams {
    let client = ClientInfo {
        id: "bench".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: std::env::consts::OS.to_owned(),
        mode: "test".to_owned(),
    };
    ConnectParams { min_protocol: PROTOCOL, max_protocol: PROTOCOL, client, caps: vec![] }
}

impl Owner {
    /// Creates a home in this folder, with this model server, and as many concurrent runs as there are sessions.
    pub(super) fn prepare(folder: &Path, base_url: &str) -> Result<(), Problem> {
        std::fs::create_dir_all(folder.join("workspace"))?;
        std::fs::create_dir_all(folder.join("home"))?;
        let workspace = folder.join("workspace");
        let configuration = format!(
            "[agents.main]\nmodel = \"scripted/wire\"\nworkspace = \"{}\"\n[lanes]\nmain = 64\n\
             [providers.scripted]\napi = \"openai-chat\"\nbase_url = \"{base_url}\"\n",
            workspace.display()
        );
        Ok(std::fs::write(folder.join("home/config.toml"), configuration)?)
    }

    /// Starts it, and waits until it responds.
    pub(super) fn start(binary: &Path, folder: &Path, base_url: &str) -> Result<Self, Problem> {
        Self::start_with(&["--no-listen"], (binary, folder, base_url))
    }

    /// The same, with clients over TCP.
    pub(super) fn start_web(binary: &Path, folder: &Path, base_url: &str) -> Result<Self, Problem> {
        Self::start_with(&["--listen", "127.0.0.1:0"], (binary, folder, base_url))
    }

    fn start_with(words: &[&str], (binary, folder, base_url): (&Path, &Path, &str)) -> Result<Self, Problem> {
        Self::prepare(folder, base_url)?;
        let home = folder.join("home");
        let mut command = Command::new(binary);
        command.args(["serve", "--json"]).args(words).env_clear().env("HOME", folder).env("LIMULUS_HOME", &home);
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("the service has no stdout")?);
        let mut line = String::new();
        while !line.contains("\"ready\"") {
            line.clear();
            if stdout.read_line(&mut line)? == 0 {
                return Err(format!("the service ended before it was ready: {}", child.wait()?).into());
            }
        }
        let ready: serde_json::Value = serde_json::from_str(&line)?;
        let address = ready["listensAt"].as_str().map(str::to_owned);
        Ok(Self { child, _stdout: stdout, home, address })
    }

    /// Where it listens, and the token.
    pub(super) fn web(&self) -> Result<(String, String), Problem> {
        let address = self.address.clone().ok_or("it does not listen")?;
        let token = std::fs::read_to_string(self.home.join("gateway.token"))?;
        Ok((address, token.trim_end().to_owned()))
    }

    pub(super) async fn connect(&self) -> Result<(Client, Events), Problem> {
        if self.address.is_some() {
            let (address, token) = self.web()?;
            return web::connect(&address, &token).await;
        }
        let socket = UnixStream::connect(self.home.join("limulus.sock")).await?;
        let (client, _, events) = Client::connect(socket, hello()).await?;
        Ok((client, events))
    }

    /// User and system time of its process so far, ms.
    pub(super) fn cpu_ms(&self) -> Result<f64, Problem> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let behind = stat.rsplit(')').next().unwrap_or_default();
        let ticks: Vec<f64> =
            behind.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
        Ok(ticks.iter().sum::<f64>() * 1e3 / TICKS)
    }

    /// Its resident memory, MiB.
    pub(super) fn resident_mib(&self) -> Result<f64, Problem> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("it has no VmRSS")?;
        Ok(resident.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
