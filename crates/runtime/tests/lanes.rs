//! R35: the lanes as the runtime drives them. Who waits, and that it is told; who gives its place up and takes one again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{
    Answer, BodyKind, Candidate, Command, Content, Event, Failure, LaneBounds, MessageId, Overrides, QueueSettings,
    RunId, Settings,
};
use journal::Memory;
use models::{Endpoint, ModelSet, Offline};
use runtime::{Handle, LaneNews, Linger, Options, Published, Resolver, Runtime};
use tokio::sync::mpsc;
use uuid::Uuid;

/// The offline model, and so many runs at once.
struct Fixed(Arc<AtomicUsize>);

impl Resolver for Fixed {
    fn settings(&self, agent: &str, _: runtime::Wants<'_>, _: &Overrides) -> Result<Settings, Failure> {
        let candidate = Candidate {
            provider: "offline".into(),
            model: "offline".into(),
            profile: None,
            context_window: 100_000,
            max_output: 1_000,
            thinking: None,
            images: true,
        };
        let workspace = std::env::temp_dir().display().to_string();
        Ok(Settings { agent: agent.into(), workspace, candidates: vec![candidate], ..Settings::default() })
    }

    fn endpoint(&self, _: &Candidate) -> Result<Endpoint, Failure> {
        Ok(Endpoint::offline())
    }

    fn lanes(&self) -> LaneBounds {
        LaneBounds { main: self.0.load(Ordering::Relaxed), ..LaneBounds::default() }
    }
}

struct Home {
    runtime: Runtime,
    main: Arc<AtomicUsize>,
    events: mpsc::UnboundedReceiver<Published>,
    waits: mpsc::UnboundedReceiver<LaneNews>,
}

/// A model that never says anything: a run stays where it is until it is ended.
fn home(main: usize) -> Home {
    let journal = Arc::new(Memory::new());
    journal.open();
    let (events_in, events) = mpsc::unbounded_channel();
    let (waits_in, waits) = mpsc::unbounded_channel();
    let main = Arc::new(AtomicUsize::new(main));
    let options = Options {
        home: std::env::temp_dir(),
        supervisor: "/nowhere".into(),
        resolver: Box::new(Fixed(Arc::clone(&main))),
        models: ModelSet::new().with_offline(Offline::with_pace(Duration::from_hours(1))),
        events: Some(events_in),
        waits: Some(waits_in),
        questions: None,
        linger: Linger::default(),
    };
    Home { runtime: Runtime::new(journal, options), main, events, waits }
}

impl Home {
    /// Sends a message to the session of this name; it is accepted.
    async fn send(&self, name: &str) -> (Handle, RunId) {
        let command = Command::Message {
            message: MessageId(Uuid::now_v7()),
            content: Content::text(BodyKind::Message, "tokens=20 go"),
            mode: None,
            queue: QueueSettings::default(),
            key: None,
            overrides: Overrides::default(),
            attachments: vec![],
        };
        let (handle, mut answers) = self.runtime.open(name, "main", vec![command]).await.unwrap();
        let Answer::Receipt(receipt) = answers.remove(0).await.unwrap().unwrap() else { panic!("no receipt") };
        (handle, receipt.run)
    }

    /// Waits until this is recorded in the session of this name.
    async fn until(&mut self, name: &str, is_it: impl Fn(&Event) -> bool) {
        while let Some(published) = self.events.recv().await {
            if &*published.key == name && published.batch.records.iter().any(|record| is_it(&record.event)) {
                return;
            }
        }
        panic!("the runtime ended before it happened in {name}");
    }

    async fn until_started(&mut self, name: &str) {
        self.until(name, |event| matches!(event, Event::RequestSent(_))).await;
    }

    async fn next_wait(&mut self) -> (RunId, Vec<String>, u64) {
        match self.waits.recv().await.unwrap() {
            LaneNews::Waits { wait, at } => {
                let behind = wait.behind.iter().map(|wish| wish.session.to_string()).collect();
                (wait.wish.run, behind, at.since(wait.since))
            }
            news @ LaneNews::Entered { .. } => panic!("{news:?}"),
        }
    }

    async fn next_entered(&mut self) -> (RunId, u64) {
        match self.waits.recv().await.unwrap() {
            LaneNews::Entered { wish, since, at } => (wish.run, at.since(since)),
            news @ LaneNews::Waits { .. } => panic!("{news:?}"),
        }
    }

    /// Of which session the next news is.
    async fn next_wait_or_entry(&mut self) -> String {
        match self.waits.recv().await.unwrap() {
            LaneNews::Waits { wait, .. } => wait.wish.session.to_string(),
            LaneNews::Entered { wish, .. } => wish.session.to_string(),
        }
    }

    fn waiting(&self) -> Vec<String> {
        self.runtime.waits().iter().map(|wait| wait.wish.session.to_string()).collect()
    }
}

#[tokio::test]
async fn r35_who_waits_says_behind_whom_and_a_long_wait_is_told_once_more_and_at_its_end() {
    let mut home = home(1);
    let (first, _) = home.send("a").await;
    home.until_started("a").await;
    let (_, waits) = home.send("b").await;
    assert_eq!(home.next_wait().await, (waits, vec!["a".to_owned()], 0));
    let (run, behind, waited_ms) = home.next_wait().await;
    assert_eq!((run, behind), (waits, vec!["a".to_owned()]));
    assert!(waited_ms >= 2_000, "a wait of {waited_ms} ms is not a long one");
    first.command(Command::Abort { run: None }).await.unwrap();
    let (run, waited_ms) = home.next_entered().await;
    assert!(run == waits && waited_ms >= 2_000);
    home.until_started("b").await;
    assert!(home.waiting().is_empty());
    home.runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn r35_a_message_that_is_taken_back_waits_no_more_and_takes_no_place() {
    let mut home = home(1);
    let (first, _) = home.send("a").await;
    home.until_started("a").await;
    let (second, taken_back) = home.send("b").await;
    home.next_wait().await;
    home.send("c").await;
    home.next_wait().await;
    assert_eq!(home.waiting(), ["b", "c"]);
    second.command(Command::Cancel { message: taken_back.into(), leg: None }).await.unwrap();
    first.command(Command::Abort { run: None }).await.unwrap();
    home.until_started("c").await;
    assert!(home.waiting().is_empty());
    home.runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn r35_a_paused_run_gives_its_place_up_and_takes_one_again_without_waiting() {
    let mut home = home(1);
    let (first, _) = home.send("a").await;
    home.until_started("a").await;
    let (second, _) = home.send("b").await;
    home.next_wait().await;
    first.command(Command::Pause { run: None, freeze: false }).await.unwrap();
    home.until_started("b").await;
    first.command(Command::Resume { run: None, drop: false }).await.unwrap();
    home.until_started("a").await;
    // Both count: the next one waits for the end of both.
    home.send("c").await;
    while home.next_wait_or_entry().await != "c" {}
    second.command(Command::Abort { run: None }).await.unwrap();
    home.until("b", |event| matches!(event, Event::RunEnded(_))).await;
    assert_eq!(home.waiting(), ["c"]);
    first.command(Command::Abort { run: None }).await.unwrap();
    home.until_started("c").await;
    home.runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn r35_a_changed_bound_is_for_the_next_run() {
    let mut home = home(1);
    home.send("a").await;
    home.until_started("a").await;
    home.send("b").await;
    home.next_wait().await;
    home.main.store(3, Ordering::Relaxed);
    home.send("c").await;
    home.until_started("c").await;
    assert!(home.waiting().is_empty(), "who waited before it has its place too");
    home.main.store(1, Ordering::Relaxed);
    home.send("d").await;
    while home.next_wait_or_entry().await != "d" {}
    home.runtime.shutdown().await.unwrap();
}
