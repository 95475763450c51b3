//! A home, a workspace and a user's folder of a test's own, and the program started in them with nothing else around.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use model_server::ModelServer;
use serde_json::Value;
use tempfile::TempDir;

use super::owner::Owner;
use super::{Process, is_alive, pids, watch};

/// The program that is tested.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_limulus");

/// Where a test's program works. What its commands leave running is ended with it.
pub(crate) struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
    owner: Owner,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("limulus-e2e-").tempdir().expect("a temporary folder");
        watch::begin(folder.path());
        fs::create_dir(folder.path().join("workspace")).expect("a workspace");
        let path = folder.path().join("home").display().to_string();
        let home = Self { folder, variables: vec![], owner: Owner::of_this_test() }.with("LIMULUS_HOME", &path);
        // The name of a folder of a test differs each time, and so would that of its session.
        // The tests of the sandbox switch it on.
        // Those of HTTP listen at a port of their own.
        let home = home.with("LIMULUS_SESSION__DEFAULT", "main").with("LIMULUS_SANDBOX__MODE", "off");
        home.with("LIMULUS_GATEWAY__LISTEN", "off")
    }

    /// The same with a variable set.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same without a variable.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// The same with a model that answers in pieces this far apart.
    pub(crate) fn paced(self, ms: u32) -> Self {
        self.with("LIMULUS_OFFLINE__PACE_MS", &ms.to_string())
    }

    /// The same with all answers from this server.
    pub(crate) fn served_by(self, server: &ModelServer) -> Self {
        self.served_at(&server.base_url())
    }

    /// The same with all answers from whatever is there.
    pub(crate) fn served_at(self, base_url: &str) -> Self {
        self.with("LIMULUS_AGENTS__MAIN__MODEL", "acme/scripted")
            .with("LIMULUS_PROVIDERS__ACME__API", "openai-chat")
            .with("LIMULUS_PROVIDERS__ACME__BASE_URL", base_url)
    }

    /// The folder that all of it is in; `HOME` of the program.
    pub(crate) fn user(&self) -> &Path {
        self.folder.path()
    }

    /// The home of limulus.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A file of the workspace.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("workspace").join(name)
    }

    /// Puts a file into the workspace.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.file(name), content).expect("the workspace can be written");
    }

    /// The text of a file of the workspace; nothing if it is not there.
    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// The environment of a program: nothing of this process but where programs are.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        let user = self.user().display().to_string();
        let first = [("PATH".to_owned(), path), ("HOME".to_owned(), user), ("LANG".to_owned(), "C.UTF-8".to_owned())];
        first.into_iter().chain(self.variables.clone()).collect()
    }

    /// Any program in the workspace, without a terminal.
    pub(crate) fn program(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.file("")).env_clear().envs(self.variables());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs limulus to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Finished {
        self.limulus(words).output().expect("limulus can be started").into()
    }

    /// Limulus, beside the owner of the home if there is one.
    pub(crate) fn limulus(&self, words: &[&str]) -> Command {
        self.have_owner();
        self.program(PROGRAM, words)
    }

    /// Has the owner there that commands are to find, if any.
    pub(super) fn have_owner(&self) {
        self.owner.be_there(self);
    }

    /// Runs a script of the shell to its end; limulus is `$LIMULUS` in it.
    pub(crate) fn shell(&self, script: &str) -> Finished {
        self.have_owner();
        let mut shell = self.program("sh", &["-c", script]);
        shell.env("LIMULUS", PROGRAM).output().expect("sh can be started").into()
    }

    /// Runs limulus to its end with something on stdin.
    pub(crate) fn feed(&self, words: &[&str], stdin: &[u8]) -> Finished {
        let mut child = self.limulus(words).stdin(Stdio::piped()).spawn().expect("limulus can be started");
        // One that leaves without reading to the end says why.
        let _ = child.stdin.take().expect("stdin is a pipe").write_all(stdin);
        child.wait_with_output().expect("it ends").into()
    }

    /// Starts limulus.
    pub(crate) fn start(&self, words: &[&str]) -> Process {
        Process::spawn(self.limulus(words))
    }

    /// What a reader prints as JSON.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let shown = self.run(&words).expect_code(0);
        serde_json::from_str(&shown.out).unwrap_or_else(|error| panic!("{words:?}: {error}: {}", shown.out))
    }

    /// How many commands have ended and are on record as that, collected or not.
    pub(crate) fn exit_records(&self) -> usize {
        let calls = fs::read_dir(self.path().join("calls")).into_iter().flatten().flatten();
        calls.filter(|call| call.path().join("exit.json").exists()).count()
    }

    /// Checks that this session takes a message and completes it.
    #[track_caller]
    pub(crate) fn assert_usable(&self, session: &str) {
        let answer = self.run(&["agent", "--session", session, "-m", "tokens=3 Who are you?"]).expect_code(0);
        assert!(!answer.out.trim().is_empty(), "{answer:?}");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        watch::end(self.user());
        self.owner.leave();
        for pid in pids(&self.file("pids")).into_iter().filter(|pid| is_alive(*pid)) {
            let pid = rustix::process::Pid::from_raw(pid as i32).expect("a pid is not 0");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Finished {
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }

    /// Checks that stderr says this.
    #[track_caller]
    pub(crate) fn expect_err(self, part: &str) -> Self {
        assert!(self.err.contains(part), "{part:?} is not in: {}", self.err);
        self
    }

    /// The lines of stdout, each JSON, without the result that follows those of `agent`.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let mut lines = self.all_lines();
        lines.pop_if(|line| line["stream"] == "result");
        lines
    }

    /// The last line of stdout, which is the result of a message.
    #[track_caller]
    pub(crate) fn result(&self) -> Value {
        let last = self.all_lines().pop().expect("a line");
        assert_eq!(last["stream"], "result", "{last}");
        last
    }

    #[track_caller]
    fn all_lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(parse).collect()
    }

    /// The last words on stderr: what went wrong and what to do. They are two lines at most, or one line of JSON, whose texts
    /// are returned as these two.
    #[track_caller]
    pub(crate) fn verdict(&self) -> String {
        let lines: Vec<&str> = self.err.lines().collect();
        let error = lines.last().and_then(|line| serde_json::from_str::<Value>(line).ok());
        if let Some((message, hint)) =
            error.as_ref().and_then(|error| error["message"].as_str().zip(error["hint"].as_str()))
        {
            return format!("limulus: {message}\n  hint: {hint}");
        }
        let from = lines.iter().rposition(|line| line.starts_with("limulus: "));
        let verdict = &lines[from.unwrap_or_else(|| panic!("no verdict: {}", self.err))..];
        assert!(verdict.len() <= 2, "{verdict:?}");
        verdict.join("\n")
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
