//! What tests of the runtime and of the crates above it set up: a candidate of the offline model, a configuration that
//! offers it, a runtime's options, and the messages of a user. No program is built with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{
    Approvals, BodyKind, Candidate, Command, Content, Failure, LaneBounds, MessageId, Overrides, QueueMode,
    QueueSettings, Settings, ToolSpec, Unattended,
};
use models::{Endpoint, ModelSet, Offline};
use runtime::{IdlePolicy, Options, Published, Resolver, SessionContext};
use tokio::sync::mpsc;
use uuid::Uuid;

/// The key of the default session.
pub const KEY: &str = "agent:main:main";

/// The offline model: 100,000 tokens of context, at most 1,000 of output, no price.
pub fn candidate() -> Candidate {
    Candidate {
        provider: "offline".into(),
        model: "offline".into(),
        profile: None,
        context_window: 100_000,
        max_output: 1_000,
        thinking: None,
        images: true,
        structured_output: false,
        sampling: engine::Sampling::default(),
        token_rate: 1_000,
        can_refresh: false,
        levels: vec![],
        price: None,
    }
}

/// A configuration in which every run uses the offline model.
pub struct OfflineResolver {
    workspace: String,
    tools: Arc<[ToolSpec]>,
    main: Option<Arc<AtomicUsize>>,
}

impl OfflineResolver {
    /// Runs have no tools, and the temporary folder as their workspace.
    pub fn without_tools() -> Self {
        Self { workspace: std::env::temp_dir().display().to_string(), tools: Arc::default(), main: None }
    }

    /// Runs have all tools in this workspace.
    pub fn in_workspace(workspace: impl Into<String>) -> Self {
        Self { workspace: workspace.into(), tools: tools::specs(), main: None }
    }

    /// The main lane lets this many runs execute at once. It is read anew for each run.
    #[must_use]
    pub fn with_main_lane(self, main: Arc<AtomicUsize>) -> Self {
        Self { main: Some(main), ..self }
    }
}

impl Resolver for OfflineResolver {
    fn settings(&self, agent: &str, _: SessionContext<'_>, _: &Overrides) -> Result<Settings, Failure> {
        let (workspace, tools) = (self.workspace.clone(), self.tools.clone());
        // Nobody is there to be asked.
        let approvals = Approvals { unattended: Unattended::Deny, ..Approvals::default() };
        let candidates = vec![candidate()];
        Ok(Settings { agent: agent.into(), workspace, tools, approvals, candidates, ..Settings::default() })
    }

    fn endpoint(&self, _: &Candidate) -> Result<Endpoint, Failure> {
        Ok(Endpoint::offline())
    }

    fn lanes(&self) -> LaneBounds {
        let bounds = LaneBounds::default();
        LaneBounds { main: self.main.as_ref().map_or(bounds.main, |main| main.load(Ordering::Relaxed)), ..bounds }
    }
}

/// Options of a runtime in the temporary folder, and its committed batches. The offline model waits `pace` before each
/// piece of its answer.
pub fn options(resolver: impl Resolver + 'static, pace: Duration) -> (Options, mpsc::UnboundedReceiver<Published>) {
    let (events_in, events) = mpsc::unbounded_channel();
    let options = Options {
        home: std::env::temp_dir(),
        supervisor: "/nowhere".into(),
        resolver: Box::new(resolver),
        models: ModelSet::new().with_offline(Offline::with_pace(pace)),
        tools: tools::ToolSet::default(),
        deliver: None,
        events: Some(events_in),
        waits: None,
        idle: IdlePolicy::default(),
        holds_runs: false,
    };
    (options, events)
}

/// A message with a new id, in the default queue mode.
pub fn message(text: &str) -> Command {
    message_in(text, None)
}

/// A message that steers the run that is under way.
pub fn steer(text: &str) -> Command {
    message_in(text, Some(QueueMode::Steer))
}

fn message_in(text: &str, mode: Option<QueueMode>) -> Command {
    Command::Message {
        message: MessageId(Uuid::now_v7()),
        content: Content::text(BodyKind::Message, text),
        mode,
        queue: QueueSettings::default(),
        key: None,
        overrides: Overrides::default(),
        attachments: vec![],
        options: engine::SenderOptions::default(),
    }
}
