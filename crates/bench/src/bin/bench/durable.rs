//! W1 and W2: whole runs through the runtime, its journal on disk, the model server in another process. Wall is from the
//! message to the end of its run in a warm process; CPU is user and system of this process for that span.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bench::model_server::ModelServer;
use engine::{
    BodyKind, Candidate, Content, Event, Failure, Limits, MessageId, Outcome, Overrides, Policy, ResumeMode, Settings,
};
use journal::Sqlite;
use runtime::{Options, Published, Runtime};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::Problem;
use super::table::{Row, Samples, Target};

/// Measurements of W1; the first are not counted, they warm the process.
const SINGLE: (usize, usize) = (3, 21);
/// Measurements of W2, likewise.
const MANY: (usize, usize) = (1, 5);
/// Sessions of W2, how many of them run at once, and the rounds of each.
const SESSIONS: usize = 200;
const AT_ONCE: usize = 50;
const ROUNDS: usize = 5;

/// The program that answers as a model server until its stdin ends.
pub(super) fn serve() -> Result<(), Problem> {
    let server = ModelServer::start()?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", server.base_url())?;
    stdout.flush()?;
    std::io::stdin().lines().for_each(drop);
    Ok(())
}

/// A model server in a process of its own.
struct Server {
    child: Child,
    base_url: String,
}

impl Server {
    fn start() -> Result<Self, Problem> {
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
        // Its stdin ends, and so does it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The configuration: one model on the server, all tools, nothing asked.
struct Local {
    base_url: String,
    workspace: PathBuf,
}

impl runtime::Resolver for Local {
    fn settings(&self, agent: &str, _: Option<&str>, _: &Overrides) -> Result<Settings, Failure> {
        let candidate = Candidate {
            provider: "scripted".into(),
            model: "wire".into(),
            profile: None,
            context_window: 200_000,
            max_output: 8_192,
        };
        Ok(Settings {
            agent: agent.to_owned(),
            workspace: self.workspace.to_string_lossy().into_owned(),
            date: "2026-01-01".into(),
            candidates: vec![candidate],
            limits: Limits::default(),
            resume: ResumeMode::Restart,
            exec: Policy::Allow,
            outside: Policy::Deny,
            tools: tools::specs(),
        })
    }

    fn endpoint(&self, _: &Candidate) -> Result<models::Endpoint, Failure> {
        let key = Some(models::Secret::new("not-a-secret"));
        Ok(models::Endpoint { api: models::Api::OpenAiChat, base_url: self.base_url.clone(), key })
    }
}

/// A warm process with a home.
struct Warm {
    runtime: Runtime,
    published: mpsc::UnboundedReceiver<Published>,
    sessions: usize,
}

impl Warm {
    fn new(folder: &Path, server: &Server) -> Result<Self, Problem> {
        let workspace = folder.join("workspace");
        std::fs::create_dir_all(&workspace)?;
        let (events, published) = mpsc::unbounded_channel();
        let options = Options {
            home: folder.join("home"),
            supervisor: PathBuf::new(),
            resolver: Box::new(Local { base_url: server.base_url.clone(), workspace }),
            secrets: tools::Secrets::new(Vec::<String>::new()),
            secret_env: vec![],
            lane: AT_ONCE,
            models: models::ModelSet::new(),
            events: Some(events),
            questions: None,
        };
        let journal = Arc::new(Sqlite::own(&folder.join("home"))?);
        Ok(Self { runtime: Runtime::new(journal, options), published, sessions: 0 })
    }

    /// Sends the message to so many new sessions and waits for the ends of their runs. Gives wall and CPU, seconds.
    async fn run(&mut self, sessions: usize, text: &str) -> Result<(f64, f64), Problem> {
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        for _ in 0..sessions {
            self.sessions += 1;
            let message = engine::Command::Message {
                message: MessageId(Uuid::now_v7()),
                content: Content::text(BodyKind::Message, text),
                mode: None,
                key: None,
                overrides: Overrides::default(),
            };
            self.runtime.open(&format!("agent:main:bench-{}", self.sessions), "main", vec![message])?;
        }
        let mut running = sessions;
        while running > 0 {
            let published = self.published.recv().await.ok_or("the runtime has stopped")?;
            for record in &published.batch.records {
                if let Event::RunEnded(ended) = &record.event {
                    if ended.outcome != Outcome::Completed {
                        return Err(format!("a run ended as {:?}: {:?}", ended.outcome, ended.failure).into());
                    }
                    running -= 1;
                }
            }
        }
        Ok((wall.elapsed().as_secs_f64(), cpu_seconds() - cpu))
    }

    async fn repeat(
        &mut self,
        (warm_up, counted): (usize, usize),
        sessions: usize,
        text: &str,
    ) -> Result<Spans, Problem> {
        let mut spans = Spans { wall: vec![], cpu: vec![] };
        for at in 0..warm_up + counted {
            let (wall, cpu) = self.run(sessions, text).await?;
            if at >= warm_up {
                spans.wall.push(wall);
                spans.cpu.push(cpu);
            }
        }
        Ok(spans)
    }
}

/// Wall and CPU of each measurement, seconds.
struct Spans {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

/// The figures; the home is made in this folder, which must be on a disk.
pub(super) fn measure(folder: &Path) -> Result<Vec<Row>, Problem> {
    let server = Server::start()?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        let mut warm = Warm::new(folder, &server)?;
        let single = warm.repeat(SINGLE, 1, "rounds=20 tool=ls tokens=50").await?;
        let many = warm.repeat(MANY, SESSIONS, &format!("rounds={ROUNDS} tool=ls tokens=1")).await?;
        warm.runtime.shutdown().await?;
        Ok(rows(single, many))
    })
}

fn rows(single: Spans, many: Spans) -> Vec<Row> {
    let rounds = (SESSIONS * ROUNDS) as f64;
    let ms = |seconds: Vec<f64>| Samples::new("ms", seconds.into_iter().map(|s| s * 1e3).collect());
    let rate = Samples::new("rounds/s", many.wall.into_iter().map(|s| rounds / s).collect());
    let each = ms(many.cpu.into_iter().map(|s| s / rounds).collect());
    vec![
        Row {
            what: "W1: 1 session, 20 tool rounds, 50 tokens, durable: wall",
            target: Target::AtMost(100.0),
            measured: ms(single.wall),
        },
        Row { what: "W1: the same: CPU", target: Target::AtMost(20.0), measured: ms(single.cpu) },
        Row {
            what: "W2: 200 sessions × 5 tool rounds, 50 at once, durable",
            target: Target::AtLeast(4_000.0),
            measured: rate,
        },
        Row { what: "W2: the same: CPU a round", target: Target::AtMost(0.25), measured: each },
    ]
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
