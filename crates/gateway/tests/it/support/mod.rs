//! A home that is served on a real socket with a real journal and the offline model, and clients of it.

#![allow(unreachable_pub, reason = "what other files of the tests use")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{Candidate, Failure, Overrides, Policy, Settings};
use gateway::socket::{self, Listener};
use gateway::{Service, ServiceOptions};
use journal::{Journal, Sqlite};
use models::{Endpoint, ModelSet, Offline};
use protocol::method::{AgentParams, Cap, ClientInfo, ConnectParams, HelloOk};
use protocol::{Client, EventFrame, Events};
use runtime::{IdlePolicy, Resolver};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

pub use testkit::KEY;

/// Runs on the offline model in a folder; commands need approval.
struct Here(String);

impl Resolver for Here {
    fn settings(
        &self,
        agent: &str,
        _: runtime::SessionContext<'_>,
        overrides: &Overrides,
    ) -> Result<Settings, Failure> {
        if overrides.model.as_deref() == Some("none/such") {
            return Err(Failure::new(engine::FailureClass::Refused, "there is no provider none"));
        }
        let candidate = Candidate { max_output: 10_000, ..testkit::candidate() };
        let workspace = overrides.workspace.clone().unwrap_or_else(|| self.0.clone());
        let exec = if overrides.allow { Policy::Allow } else { Policy::Ask };
        let tools = tools::specs();
        let approvals =
            engine::Approvals { unattended: overrides.unattended.unwrap_or_default(), ..engine::Approvals::default() };
        let (candidates, stop_before) = (vec![candidate], vec![overrides.stop_before.clone()]);
        let settings = Settings { agent: agent.into(), workspace, approvals, exec, tools, ..Settings::default() };
        Ok(Settings { candidates, stop_before, ..settings })
    }

    fn endpoint(&self, _: &Candidate) -> Result<Endpoint, Failure> {
        Ok(Endpoint::offline())
    }
}

/// A home with its owner.
pub struct Home {
    folder: TempDir,
    pub service: Arc<Service>,
    /// The notes for the user of the owner.
    #[allow(dead_code, reason = "few tests look at it")]
    pub notes: Receiver<String>,
    listening: JoinHandle<()>,
}

impl Home {
    pub fn new() -> Self {
        Self::paced(Duration::ZERO)
    }

    /// The model waits this long before each piece of its response.
    pub fn paced(pace: Duration) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), pace)
    }

    /// Owns the home in this folder.
    pub fn in_folder(folder: TempDir, pace: Duration) -> Self {
        let journal = Arc::new(Sqlite::own(&folder.path().join("home")).unwrap());
        Self::with_journal(folder, pace, journal)
    }

    /// Keeps what is recorded there.
    pub fn with_journal(folder: TempDir, pace: Duration, journal: Arc<dyn Journal>) -> Self {
        let (home, workspace) = (folder.path().join("home"), folder.path().join("workspace"));
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir_all(&home).unwrap();
        let (notes_in, notes) = tokio::sync::mpsc::channel(64);
        let options = ServiceOptions {
            home: home.clone(),
            supervisor: "/nowhere".into(),
            resolver: Box::new(Here(workspace.display().to_string())),
            models: ModelSet::new().with_offline(Offline::with_pace(pace)),
            idle: IdlePolicy::default(),
            tenure: gateway::Tenure::Service,
            holds_runs: false,
            version: "0.0.0".to_owned(),
            notes: notes_in,
        };
        let service = Service::start(journal, options);
        let listener = Listener::bind(&home).unwrap();
        let listening = listener.spawn(Arc::clone(&service));
        Self { folder, service, notes, listening }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("home")
    }

    /// The owner shuts down, and the next one opens the home.
    pub async fn again(self, pace: Duration) -> Self {
        let folder = self.leave().await;
        Self::in_folder(folder, pace)
    }

    pub async fn leave(self) -> TempDir {
        self.listening.abort();
        let _ = self.listening.await;
        self.service.leave(Duration::ZERO).await.unwrap();
        self.folder
    }

    pub async fn client(&self) -> (Client, Events) {
        let (client, _, events) = self.connect(vec![]).await;
        (client, events)
    }

    pub async fn connect(&self, caps: Vec<Cap>) -> (Client, HelloOk, Events) {
        let stream = socket::connect(&self.path()).await.unwrap();
        Client::connect(stream, hello(caps)).await.unwrap()
    }

    pub async fn raw(&self) -> Raw {
        Raw::connect(&self.path()).await
    }
}

pub fn hello(caps: Vec<Cap>) -> ConnectParams {
    let client = ClientInfo {
        id: "test".to_owned(),
        version: "0".to_owned(),
        platform: "test".to_owned(),
        mode: "test".to_owned(),
    };
    ConnectParams { min_protocol: 1, max_protocol: 1, client, caps }
}

pub fn message(session: &str, key: &str, text: &str) -> AgentParams {
    AgentParams {
        message: text.to_owned(),
        session_key: session.to_owned(),
        idempotency_key: key.to_owned(),
        mode: None,
        interrupt: None,
        model: None,
        timeout_ms: None,
        allow: false,
        workspace: None,
        attachments: vec![],
        ..AgentParams::default()
    }
}

/// The next event that is not a tick.
pub async fn observe(events: &mut Events) -> Option<EventFrame> {
    loop {
        let event = events.recv().await?;
        if event.event != "tick" {
            return Some(event);
        }
    }
}

/// A client that writes and reads bytes.
pub struct Raw {
    pub read: BufReader<OwnedReadHalf>,
    pub write: OwnedWriteHalf,
}

pub const CONNECT: &str = concat!(
    r#"{"type":"req","id":"c","method":"connect","params":{"minProtocol":1,"maxProtocol":1,"#,
    r#""client":{"id":"raw","version":"0","platform":"test","mode":"test"}}}"#
);

impl Raw {
    pub async fn connect(home: &Path) -> Self {
        Self::over(socket::connect(home).await.unwrap())
    }

    pub fn over(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        Self { read: BufReader::new(read), write }
    }

    /// Writes this line; a closed connection is not an error.
    pub async fn say(&mut self, line: &str) {
        let _ = self.write.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// The next frame that is not a tick; `None` at the end.
    pub async fn observe(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            let bytes = self.read.read_line(&mut line).await.unwrap_or(0);
            let frame: Value = (bytes > 0).then(|| serde_json::from_str(&line).expect("a frame"))?;
            if frame["event"] != "tick" {
                return Some(frame);
            }
        }
    }

    /// Reads everything until the end.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut all = vec![];
        while let Some(frame) = self.observe().await {
            all.push(frame);
        }
        all
    }
}
