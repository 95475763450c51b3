//! A session whose conversation was evicted while it was idle continues from the journal as if it had been cached.

use std::sync::Arc;

use engine::{
    BodyKind, Candidate, Command, Content, Event, Failure, MessageId, Overrides, QueueSettings, Settings, Usage,
};
use journal::Sqlite;
use models::{Endpoint, ModelSet};
use runtime::{IdlePolicy, Options, Published, Resolver, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use uuid::Uuid;

/// Runs on the offline model in a folder.
struct Offline(String);

impl Resolver for Offline {
    fn settings(&self, agent: &str, _: runtime::ModelPreferences<'_>, _: &Overrides) -> Result<Settings, Failure> {
        let candidate = Candidate {
            provider: "offline".into(),
            model: "offline".into(),
            profile: None,
            context_window: 100_000,
            max_output: 1_000,
            thinking: None,
            images: true,
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        };
        let (workspace, tools) = (self.0.clone(), tools::specs());
        Ok(Settings { agent: agent.into(), workspace, tools, candidates: vec![candidate], ..Settings::default() })
    }

    fn endpoint(&self, _: &Candidate) -> Result<Endpoint, Failure> {
        Ok(Endpoint::offline())
    }
}

/// Runs a message to its end; returns the tokens that the model counted in its input.
async fn ask(runtime: &mut Runtime, events: &mut UnboundedReceiver<Published>, key: &str, text: &str) -> Usage {
    let content = Content::text(BodyKind::Message, text);
    let message = MessageId(Uuid::now_v7());
    let command = Command::Message {
        message,
        content,
        mode: None,
        queue: QueueSettings::default(),
        key: None,
        overrides: Overrides::default(),
        attachments: vec![],
    };
    runtime.open(key, "main", vec![command]).await.expect("a session that reads");
    loop {
        let published = events.recv().await.expect("a runtime that goes on");
        for record in &published.batch.records {
            if let Event::RunEnded(ended) = &record.event {
                return ended.usage;
            }
        }
    }
}

/// The input of the third run of a session, with this many runs of other sessions before it.
async fn third(others: usize) -> Usage {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("work")).expect("a workspace");
    let workspace = folder.path().join("work").display().to_string();
    let (events_in, mut events) = unbounded_channel();
    let options = Options {
        home: folder.path().join("home"),
        supervisor: "/nowhere".into(),
        resolver: Box::new(Offline(workspace)),
        models: ModelSet::new(),
        events: Some(events_in),
        waits: None,
        questions: None,
        idle: IdlePolicy::default(),
    };
    let journal = Arc::new(Sqlite::own(&options.home).expect("a fresh home"));
    let mut runtime = Runtime::new(journal, options);
    for text in ["list this folder", "who are you?"] {
        ask(&mut runtime, &mut events, "agent:main:main", text).await;
    }
    for other in 0..others {
        ask(&mut runtime, &mut events, &format!("agent:main:{other}"), "who are you?").await;
    }
    let usage = ask(&mut runtime, &mut events, "agent:main:main", "list this folder").await;
    runtime.shutdown().await.expect("a store in order");
    usage
}

#[tokio::test]
async fn r20_a_session_that_others_pushed_out_of_memory_sends_its_whole_history() {
    let (kept, let_go) = (third(0).await, third(20).await);
    assert!(kept.input > 400, "two requests with the history of two runs: {kept:?}");
    assert_eq!(kept, let_go);
}
