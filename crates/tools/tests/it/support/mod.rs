//! A workspace, a folder for calls, and short ways to make a call. The supervisor is the real one.

#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads better without a borrow

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{CallId, EffectId, EffectKind, Limits, Policy, ResumeMode, RunId, Settings, ToolResult};
use serde_json::Value;
use tempfile::TempDir;
use tools::{CallRequest, Checked, Context, NetworkPolicy, Outputs, Protected, Secrets};
use uuid::Uuid;

/// The secret of every world.
pub(crate) const SECRET: &str = "sk-do-not-show-4711";

/// How long ending a call may take.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) home: TempDir,
    pub(crate) context: Context,
    pub(crate) settings: Settings,
}

impl World {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("ws");
        fs::create_dir(&workspace).unwrap();
        let workspace = fs::canonicalize(workspace).unwrap();
        let settings = Settings {
            compaction: engine::Compaction::default(),
            titles: None,
            reply: engine::ReplySettings::default(),
            agent: "main".to_owned(),
            workspace: workspace.display().to_string(),
            date: "2026-11-02".to_owned(),
            facts: String::new(),
            prompt: engine::PromptSettings::default(),
            candidates: Vec::new(),
            limits: Limits::default(),
            resume: ResumeMode::Restart,
            policy: [].into(),
            approvals: engine::Approvals::default(),
            sandbox: engine::Sandbox::default(),
            exec: Policy::Ask,
            outside: Policy::Deny,
            budget: engine::Budget::default(),
            history_turns: None,
            instructions: false,
            addresses: vec![],
            recover: engine::Recover::Ask,
            executed_files: Policy::Ask,
            web_fetch: Policy::Deny,
            web_search: None,
            tools: tools::specs(),
            stop_before: vec![],
            plan: false,
            output_schema: None,
            derived: engine::Derived::default(),
        };
        let context = Context {
            tools: tools::ToolSet::default(),
            workspace,
            files: tools::FileStore::new(home.path().join("files"), tools::StoreLimits::default()),
            calls: home.path().join("calls"),
            protected: Protected::default(),
            tool_timeout_ms: 120_000,
            secrets: Secrets::new([SECRET]),
            outputs: Outputs::default(),
            reach: NetworkPolicy::Public,
            search: None,
            memory: tools::MemoryContext::default(),
            rules: tools::CallRules::default(),
            secret_env: Vec::new(),
            sandbox: engine::Sandbox::default(),
            passed_env: Vec::new(),
            user: None,
            skills: None,
            routes: vec![],
            replies_to: vec![],
            processes: Vec::new(),
            supervisor: PathBuf::from(env!("CARGO_BIN_EXE_limulus-supervise")),
        };
        Self { home, context, settings }
    }

    /// Checks a call, on a thread of its own, so that a test need not be asynchronous.
    pub(crate) fn check(&self, request: &CallRequest) -> Checked {
        let (settings, context) = (Arc::new(self.settings.clone()), self.context.clone());
        let check = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(tools::check(settings, context, request.clone())).0
        };
        std::thread::scope(|threads| threads.spawn(check).join()).unwrap()
    }

    pub(crate) fn processes(&self) -> tools::ProcessContext {
        let Context { calls, files, protected, secrets, .. } = self.context.clone();
        tools::ProcessContext { calls, files, protected, secrets }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.context.workspace.join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The folder of this call.
    pub(crate) fn folder(&self, request: &CallRequest) -> PathBuf {
        self.context.calls.join(request.id.to_string().replace('/', "."))
    }

    /// Checks, then runs, as the runtime does.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        let mut request = request(tool, arguments);
        request.evidence = self.check(&request).evidence;
        tools::run(&self.context, &request, |_, _| {}).await
    }

    pub(crate) async fn run(&self, request: &CallRequest) -> ToolResult {
        tools::run(&self.context, request, |_, _| {}).await
    }
}

/// A call with a new id.
pub(crate) fn request(tool: &str, arguments: Value) -> CallRequest {
    let run = RunId(Uuid::now_v7());
    CallRequest {
        id: EffectId { run, kind: EffectKind::RunCall, ordinal: 1, try_no: 1 },
        call: CallId { run, step: 1, index: 0 },
        tool: tool.to_owned(),
        arguments: serde_json::to_vec(&arguments).unwrap().into(),
        evidence: None,
        timeout_ms: None,
        already: 0,
    }
}

pub(crate) fn exec(command: &str) -> CallRequest {
    request("exec", serde_json::json!({ "command": command }))
}

pub(crate) fn output(ended: &ToolResult) -> String {
    String::from_utf8(ended.output.bytes.to_vec()).unwrap()
}

/// Live output as it is reported.
#[derive(Clone, Default)]
pub(crate) struct Observed(Arc<Mutex<Vec<(u64, String)>>>);

impl Observed {
    pub(crate) fn listener(&self) -> impl FnMut(u64, String) + Send + 'static {
        let observed = self.0.clone();
        move |offset, text| observed.lock().unwrap().push((offset, text))
    }

    /// All of it; it must be gapless from `from` on.
    pub(crate) fn text(&self, from: u64) -> String {
        let mut whole = String::new();
        for (offset, text) in self.0.lock().unwrap().iter() {
            assert_eq!(*offset, from + whole.len() as u64, "live output has a gap");
            whole.push_str(text);
        }
        whole
    }
}

/// Waits until a condition holds; fails the test after a minute.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if holds() {
            return;
        }
        // waits: between two checks of the condition
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited in vain until {what}");
}

/// Whether a process exists and has not ended.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// The number that a command wrote into a file of the workspace, once it is complete.
pub(crate) async fn pid_in(path: &Path) -> i32 {
    let read =
        || fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')).and_then(|text| text.trim().parse().ok());
    until("the pid is written", || read().is_some()).await;
    read().unwrap()
}

/// The word by which the supervisor of this call is found.
pub(crate) fn token(folder: &Path) -> String {
    let calls = blake3::hash(folder.parent().unwrap().to_str().unwrap().as_bytes()).to_hex();
    format!("{}.{}", folder.file_name().unwrap().to_str().unwrap(), &calls[..16])
}

/// The supervisor of this call: the process whose command line has its token.
pub(crate) fn supervisor_of(folder: &Path) -> Option<i32> {
    let token = token(folder);
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let named = line.split(|byte| *byte == 0).nth(2)? == token.as_bytes();
        if named { entry.file_name().to_str()?.parse().ok() } else { None }
    })
}
