//! Shared by the measurements of whole runs: a model server in a separate process, and a warm process with a home on
//! disk.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use engine::{
    BodyKind, Candidate, Command as Asked, Content, Event, Failure, LaneBounds, Limits, MessageId, Outcome, Overrides,
    Policy, ResumeMode, Settings,
};
use journal::Sqlite;
use model_server::ModelServer;
use runtime::{IdlePolicy, Options, Published, Runtime};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::Problem;

/// Runs a model server until stdin ends.
pub(super) fn serve() -> Result<(), Problem> {
    let server = ModelServer::start()?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", server.base_url())?;
    stdout.flush()?;
    std::io::stdin().lines().for_each(drop);
    Ok(())
}

/// A model server in a separate process.
pub(super) struct Server {
    child: Child,
    pub(super) base_url: String,
}

impl Server {
    /// Starts the server and waits for its address.
    pub(super) fn start() -> Result<Self, Problem> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program).arg("server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut base_url = String::new();
        let stdout = child.stdout.take().ok_or("the server has no stdout")?;
        BufReader::new(stdout).read_line(&mut base_url)?;
        Ok(Self { child, base_url: base_url.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Closing its stdin ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The configuration: one model on the server, all tools, no approvals.
struct Local {
    base_url: String,
    workspace: PathBuf,
    /// The context window of the model, tokens.
    window: u64,
    /// How many runs may execute at once.
    lane: usize,
    redaction: runtime::Redaction,
}

/// As many keys as a configuration may have, of the usual length: answers are masked.
fn redaction() -> runtime::Redaction {
    let key = |number: u64| format!("sk-{:x}{:x}", !number, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    runtime::Redaction { secrets: tools::Secrets::new((1..=4).map(key)), ..runtime::Redaction::default() }
}

impl runtime::Resolver for Local {
    fn settings(&self, agent: &str, _: runtime::SessionContext<'_>, _: &Overrides) -> Result<Settings, Failure> {
        let candidate = Candidate {
            provider: "scripted".into(),
            model: "wire".into(),
            profile: None,
            context_window: self.window,
            max_output: 8_192,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        };
        Ok(Settings {
            policy: [].into(),
            compaction: engine::Compaction::default(),
            titles: None,
            reply: engine::ReplySettings::default(),
            agent: agent.to_owned(),
            workspace: self.workspace.to_string_lossy().into_owned(),
            date: "2026-01-01".into(),
            facts: String::new(),
            prompt: engine::PromptSettings::default(),
            candidates: vec![candidate],
            // Its rounds are all alike.
            limits: Limits {
                deadline_ms: Some(86_400_000),
                loop_warn_after: 0,
                loop_stop_after: 0,
                ..Limits::default()
            },
            resume: ResumeMode::Restart,
            approvals: engine::Approvals::default(),
            sandbox: engine::Sandbox::default(),
            exec: Policy::Allow,
            outside: Policy::Deny,
            budget: engine::Budget::default(),
            history_turns: None,
            stop_before: vec![],
            plan: false,
            output_schema: None,
            derived: engine::Derived::default(),
            instructions: true,
            addresses: vec![],
            recover: engine::Recover::Ask,
            executed_files: Policy::Allow,
            web_fetch: Policy::Deny,
            web_search: None,
            tools: tools::specs(),
        })
    }

    fn endpoint(&self, _: &Candidate) -> Result<models::Endpoint, Failure> {
        let key = Some(models::Secret::new("not-a-secret"));
        Ok(models::Endpoint::new(models::Api::OpenAiChat, self.base_url.clone(), key))
    }

    fn redaction(&self) -> runtime::Redaction {
        self.redaction.clone()
    }

    fn lanes(&self) -> LaneBounds {
        LaneBounds { main: self.lane, ..LaneBounds::default() }
    }
}

/// A warm process with a home.
pub(super) struct Warm {
    pub(super) runtime: Runtime,
    pub(super) published: mpsc::UnboundedReceiver<Published>,
    sessions: usize,
}

impl Warm {
    /// A fresh home in this folder, in which this many runs may execute at once.
    pub(super) fn new(folder: &Path, base_url: &str, lane: usize) -> Result<Self, Problem> {
        // Far more than any measurement sends: nothing may be refused for its length.
        Self::with_window(folder, base_url, lane, 100_000_000)
    }

    /// The same with a model that has this context window, tokens.
    pub(super) fn with_window(folder: &Path, base_url: &str, lane: usize, window: u64) -> Result<Self, Problem> {
        let workspace = folder.join("workspace");
        std::fs::create_dir_all(&workspace)?;
        let (events, published) = mpsc::unbounded_channel();
        let options = Options {
            deliver: None,
            home: folder.join("home"),
            supervisor: PathBuf::new(),
            resolver: Box::new(Local {
                base_url: base_url.to_owned(),
                workspace,
                window,
                lane,
                redaction: redaction(),
            }),
            models: models::ModelSet::new(),
            tools: tools::ToolSet::default(),
            events: Some(events),
            waits: None,
            idle: IdlePolicy::default(),
            holds_runs: false,
        };
        let journal = Arc::new(Sqlite::own(&folder.join("home"))?);
        Ok(Self { runtime: Runtime::new(journal, options), published, sessions: 0 })
    }

    /// The key of a new session.
    pub(super) fn next_key(&mut self) -> String {
        self.sessions += 1;
        format!("agent:main:bench-{}", self.sessions)
    }

    /// Sends the message to this many new sessions and waits for the ends of their runs.
    pub(super) async fn run(&mut self, sessions: usize, text: &str) -> Result<Counts, Problem> {
        for _ in 0..sessions {
            let key = self.next_key();
            self.runtime.open(&key, "main", vec![message(text)]).await?;
        }
        self.until_ended(sessions).await
    }

    /// Waits until this many runs have ended, each completed.
    pub(super) async fn until_ended(&mut self, mut running: usize) -> Result<Counts, Problem> {
        let mut counts = Counts::default();
        while running > 0 {
            let published = self.published.recv().await.ok_or("the runtime has stopped")?;
            counts.batches += 1;
            for record in &published.batch.records {
                match record.seq {
                    Some(_) => counts.entries += 1,
                    None => counts.progress += 1,
                }
                if let Event::RunEnded(ended) = &record.event {
                    if ended.outcome != Outcome::Completed {
                        return Err(format!("a run ended as {:?}: {:?}", ended.outcome, ended.failure).into());
                    }
                    running -= 1;
                }
            }
        }
        Ok(counts)
    }
}

/// What was made durable and then published.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) batches: u64,
    pub(super) entries: u64,
    pub(super) progress: u64,
}

impl Counts {
    /// Entries and pieces of progress.
    pub(super) fn events(self) -> u64 {
        self.entries + self.progress
    }
}

/// A message with this text.
pub(super) fn message(text: &str) -> Asked {
    let content = Content::text(BodyKind::Message, text);
    Asked::Message {
        message: MessageId(Uuid::now_v7()),
        content,
        mode: None,
        queue: engine::QueueSettings::default(),
        key: None,
        overrides: Overrides::default(),
        attachments: vec![],
        options: engine::SenderOptions::default(),
    }
}

/// A runtime for one thread, as the product has it.
pub(super) fn tokio() -> Result<tokio::runtime::Runtime, Problem> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// User and system time of this process so far, seconds.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The peak memory of this process, MiB.
pub(super) fn peak_mib() -> Result<f64, Problem> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("/proc/self/status has no VmHWM")?;
    Ok(peak.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
