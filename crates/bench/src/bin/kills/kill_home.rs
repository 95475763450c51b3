//! The fresh home of a case, with its workspace and ledger, and the processes that run on it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::case::Bench;
use super::faults::Address;
use super::plan::{Attack, Setup, Work};
use super::record::Record;

/// Seconds that one process may take before the case fails: twenty times the duration of a whole run.
const PROCESS_S: u64 = 40;
/// The number of files to read, `step-1.txt` and so on.
pub(super) const FILES: u32 = 6;
/// Lines of one file: about a thousand tokens, so that a few files are more than what is kept of a long history.
const FILE_LINES: usize = 150;
/// How often an end is checked.
const LOOK: Duration = Duration::from_millis(1);

/// A fresh home with its workspace and ledger.
#[derive(Debug)]
pub(super) struct KillHome {
    folder: TempDir,
    mutant: Option<String>,
    address: Address,
    started: u32,
}

impl KillHome {
    /// Creates the folders and writes the configuration.
    pub(super) fn new(setup: &Setup, bench: &Bench) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("limulus-kills-").tempdir()?;
        let kill_home = Self { folder, mutant: bench.mutant.clone(), address: setup.fault.address, started: 0 };
        std::fs::create_dir(kill_home.workspace())?;
        std::fs::create_dir(kill_home.home())?;
        std::fs::write(kill_home.home().join("config.toml"), configuration(&kill_home, setup, bench)?)?;
        for file in 1..=FILES {
            let text = "high at noon, low at six\n".repeat(FILE_LINES);
            std::fs::write(kill_home.workspace().join(format!("step-{file}.txt")), text)?;
        }
        Ok(kill_home)
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.path().join("workspace")
    }

    /// The file in which the children of the tools write what they did.
    pub(super) fn ledger(&self) -> PathBuf {
        self.path().join("ledger")
    }

    /// Keeps the folder for inspection.
    pub(super) fn keep(mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// Runs the binary under a client to its end, and reads the client's record.
    pub(super) fn attack(&mut self, binary: &Path, arguments: &[&str], attack: &Attack) -> Result<Record, String> {
        self.attack_when(binary, arguments, attack, &|| false)
    }

    /// The same, for an attack after a provider fault: `has_happened` returns whether the fault has happened.
    pub(super) fn attack_when(
        &mut self,
        binary: &Path,
        arguments: &[&str],
        attack: &Attack,
        has_happened: &dyn Fn() -> bool,
    ) -> Result<Record, String> {
        self.started += 1;
        let record = self.path().join(format!("client-{}.jsonl", self.started));
        let stderr = self.path().join(format!("client-{}.stderr", self.started));
        let mut client = self.command(&std::env::current_exe().map_err(|e| e.to_string())?);
        client.arg("client").arg("--record").arg(&record).arg("--stderr").arg(&stderr);
        let signal = self.path().join(format!("signal-{}", self.started));
        let ledger = if matches!(attack, Attack::Fault { .. }) { signal.clone() } else { self.ledger() };
        client.args(["--deadline-s", &PROCESS_S.to_string()]).arg("--ledger").arg(ledger);
        match attack {
            Attack::None => {}
            Attack::Point { point, nth, .. } => {
                client.env("LIMULUS_CRASHPOINT", format!("{}:{nth}", point.name()));
            }
            Attack::Token { token } => {
                client.args(["--kill-when", token]);
            }
            Attack::After { us } => {
                client.args(["--kill-after-us", &us.to_string()]);
            }
            Attack::Fault { .. } => {
                client.args(["--kill-when", SIGNAL]);
            }
        }
        if let Attack::Point { interrupt_when: Some(token), .. } = attack {
            client.args(["--interrupt-when", token]);
        }
        client.arg("--").arg(binary).args(arguments);
        let mut signalled = Signalled { record: record.clone(), signal, since: None };
        let each = || match attack {
            Attack::Fault { after_us } => signalled.look(has_happened, self.address, Duration::from_micros(*after_us)),
            Attack::None | Attack::Point { .. } | Attack::Token { .. } | Attack::After { .. } => Ok(()),
        };
        finish(client.stdout(Stdio::null()), Duration::from_secs(PROCESS_S + 10), each)?;
        Record::read(&record)
    }

    /// Runs a command of the binary that prints JSON. Readers need no owner and leave no trace.
    pub(super) fn ask(&self, binary: &Path, arguments: &[&str]) -> Result<(Option<i32>, Value), String> {
        let answer = self.path().join("answer.json");
        let stdout = File::create(&answer).map_err(|e| e.to_string())?;
        let code =
            finish(self.command(binary).args(arguments).stdout(stdout), Duration::from_secs(PROCESS_S), || Ok(()))?;
        let text = std::fs::read_to_string(&answer).map_err(|e| e.to_string())?;
        if text.trim().is_empty() {
            return Ok((code, Value::Null));
        }
        let value = serde_json::from_str(&text).map_err(|e| format!("`{}` is not JSON: {e}", arguments.join(" ")))?;
        Ok((code, value))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", self.path())
            .env("LIMULUS_HOME", self.home())
            .env("LIMULUS_QUEUE__MODE", "followup")
            // Commands leave their marks outside of their workspace.
            .env("LIMULUS_SANDBOX__MODE", "off")
            .current_dir(self.path())
            .stdin(Stdio::null());
        command.stderr(Stdio::null()).envs(self.mutant.iter().map(|mutant| ("LIMULUS_MUTANT", mutant)));
        command
    }
}

/// The content of the file that makes a client kill.
const SIGNAL: &str = "now";

/// Signals a client to kill after a provider fault.
struct Signalled {
    /// The record of the client.
    record: PathBuf,
    /// The file that the client reads.
    signal: PathBuf,
    /// When the fault was seen.
    since: Option<Instant>,
}

impl Signalled {
    fn look(&mut self, has_happened: &dyn Fn() -> bool, address: Address, after: Duration) -> io::Result<()> {
        if self.since.is_none() {
            let has_happened = match address {
                Address::Server => has_happened(),
                Address::NoName | Address::MuteTls => {
                    std::fs::read_to_string(&self.record).is_ok_and(|record| record.contains(r#""type":"accepted""#))
                }
            };
            self.since = has_happened.then(Instant::now);
        }
        match self.since {
            Some(since) if since.elapsed() >= after => std::fs::write(&self.signal, format!("{SIGNAL}\n")),
            _ => Ok(()),
        }
    }
}

/// Waits for the end of a process, at most this long, and calls `each` at each check.
fn finish(
    command: &mut Command,
    limit: Duration,
    mut each: impl FnMut() -> io::Result<()>,
) -> Result<Option<i32>, String> {
    let mut child = command.spawn().map_err(|e| format!("{} does not start: {e}", command.get_program().display()))?;
    let started = Instant::now();
    loop {
        each().map_err(|e| e.to_string())?;
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => return Ok(status.code()),
            None if started.elapsed() > limit => {
                child.kill().and_then(|()| child.wait()).map_err(|e| e.to_string())?;
                return Err(format!("{} took longer than {limit:?}", command.get_program().display()));
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Idle timeouts, seconds: short if the case waits for one.
const SHORT_S: u32 = 1;
const LONG_S: u32 = 60;

fn configuration(kill_home: &KillHome, setup: &Setup, bench: &Bench) -> io::Result<String> {
    let Setup { resume, poison_after, call_s, fault } = setup;
    let poison_after = if *poison_after == 0 { r#""off""#.to_owned() } else { poison_after.to_string() };
    let workspace = kill_home.workspace();
    let (workspace, base_url) = (workspace.display(), bench.server.base_url());
    let silence_s = if fault.is_silence() { SHORT_S } else { LONG_S };
    let keep = if fault.work == Work::Reads { 1_000 } else { 20_000 };
    let away = match fault.address {
        Address::Server => None,
        // The label is too long to be sent to any name server.
        Address::NoName => Some(format!("http://{}.invalid:1/v1", "x".repeat(64))),
        Address::MuteTls => Some(format!("https://{}/v1", bench.mute.local_addr()?)),
    };
    let (model, retries) = if away.is_some() { ("away/wire", 0) } else { ("scripted/wire", 2) };
    let away = away.map(|base_url| format!("[providers.away]\napi = \"openai-chat\"\nbase_url = \"{base_url}\"\n"));
    let away = away.unwrap_or_default();
    Ok(format!(
        r#"[agents.main]
model = "{model}"
fallbacks = ["scripted/wire", "scripted/second"]
workspace = "{workspace}"
[runs]
poison_after = {poison_after}
resume = "{resume}"
[compaction]
keep_recent_tokens = {keep}
[tools]
timeout_s = {call_s}
[tools.exec]
policy = "allow"
{away}[providers.scripted]
api = "openai-chat"
base_url = "{base_url}"
[[providers.scripted.profiles]]
name = "first"
key = "not-a-secret"
[[providers.scripted.profiles]]
name = "second"
key = "no-secret-either"
[requests]
first_byte_timeout_s = {silence_s}
idle_timeout_s = {silence_s}
retries = {retries}
[models."away/wire"]
context_window = 200000
max_output = 8192
[models."scripted/wire"]
context_window = 200000
max_output = 8192
[models."scripted/second"]
context_window = 200000
max_output = 8192
"#
    ))
}
