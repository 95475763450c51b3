//! The place of one case: a fresh home, workspace and ledger, and how programs are run there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::case::Bench;
use super::plan::{Attack, Setup};
use super::record::Record;

/// Seconds that one process may take before the case is lost: twenty times what a whole run takes.
const PROCESS_S: u64 = 40;
/// How often an end is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// A fresh home with all that belongs to it.
#[derive(Debug)]
pub(super) struct Place {
    folder: TempDir,
    mutant: Option<String>,
    started: u32,
}

impl Place {
    /// Makes the folders and writes the configuration.
    pub(super) fn new(setup: &Setup, bench: &Bench) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("limulus-kills-").tempdir()?;
        let place = Self { folder, mutant: bench.mutant.clone(), started: 0 };
        std::fs::create_dir(place.workspace())?;
        std::fs::create_dir(place.home())?;
        std::fs::write(place.home().join("config.toml"), configuration(&place, setup, &bench.base_url))?;
        Ok(place)
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

    /// Where the tools' own children write what they did.
    pub(super) fn ledger(&self) -> PathBuf {
        self.path().join("ledger")
    }

    /// Leaves the folder behind for a look.
    pub(super) fn keep(mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// Runs the binary under a client, to its end, and reads the client's record.
    pub(super) fn attack(&mut self, binary: &Path, arguments: &[&str], attack: &Attack) -> Result<Record, String> {
        self.started += 1;
        let record = self.path().join(format!("client-{}.jsonl", self.started));
        let stderr = self.path().join(format!("client-{}.stderr", self.started));
        let mut client = self.command(&std::env::current_exe().map_err(|e| e.to_string())?);
        client.arg("client").arg("--record").arg(&record).arg("--stderr").arg(&stderr);
        client.args(["--deadline-s", &PROCESS_S.to_string()]).arg("--ledger").arg(self.ledger());
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
        }
        if let Attack::Point { interrupt_when: Some(token), .. } = attack {
            client.args(["--interrupt-when", token]);
        }
        client.arg("--").arg(binary).args(arguments);
        finish(client.stdout(Stdio::null()), Duration::from_secs(PROCESS_S + 10))?;
        Record::read(&record)
    }

    /// Asks the binary something that it answers with JSON. Readers need no owner and leave no trace.
    pub(super) fn ask(&self, binary: &Path, arguments: &[&str]) -> Result<(Option<i32>, Value), String> {
        let answer = self.path().join("answer.json");
        let stdout = File::create(&answer).map_err(|e| e.to_string())?;
        let code = finish(self.command(binary).args(arguments).stdout(stdout), Duration::from_secs(PROCESS_S))?;
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
            .current_dir(self.path())
            .stdin(Stdio::null());
        command.stderr(Stdio::null()).envs(self.mutant.iter().map(|mutant| ("LIMULUS_MUTANT", mutant)));
        command
    }
}

/// Waits for the end of a process, but not for ever.
fn finish(command: &mut Command, limit: Duration) -> Result<Option<i32>, String> {
    let mut child = command.spawn().map_err(|e| format!("{} does not start: {e}", command.get_program().display()))?;
    let started = Instant::now();
    loop {
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

fn configuration(place: &Place, setup: &Setup, base_url: &str) -> String {
    let Setup { resume, poison_after, call_s, fault } = setup;
    let workspace = place.workspace();
    let workspace = workspace.display();
    // Silence is waited for where there is some.
    let silence_s = if fault.starts_with("hang") || fault.starts_with("stall") { 1 } else { 60 };
    format!(
        r#"[agents.main]
model = "scripted/wire"
fallbacks = ["scripted/second"]
workspace = "{workspace}"
[runs]
poison_after = {poison_after}
resume = "{resume}"
[tools]
call_s = {call_s}
[tools.exec]
policy = "allow"
[providers.scripted]
api = "openai-chat"
base_url = "{base_url}"
[[providers.scripted.profiles]]
name = "first"
key = "not-a-secret"
[[providers.scripted.profiles]]
name = "second"
key = "no-secret-either"
[requests]
first_byte_s = {silence_s}
silent_s = {silence_s}
[models."scripted/wire"]
context_window = 200000
max_output = 8192
[models."scripted/second"]
context_window = 200000
max_output = 8192
"#
    )
}
