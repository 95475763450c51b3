//! Actors that end: one by one while their sessions are idle, and all of them when the runtime shuts down. Nothing that
//! is sent meanwhile is lost or answered wrongly.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use engine::{Acknowledgement, Command, Event, Outcome, Override, Refusal, RunId, Seq};
use journal::{Memory, Read as _};
use runtime::{Error, IdlePolicy, Options, Published, Runtime};
use testkit::{KEY, OfflineResolver, message};
use tokio::sync::mpsc;

/// Idle actors end at once.
const NONE: IdlePolicy = IdlePolicy { timeout: Duration::ZERO, at_once: 0 };

struct Home {
    journal: Arc<Memory>,
    runtime: Arc<Runtime>,
    events: mpsc::UnboundedReceiver<Published>,
}

fn home(idle: IdlePolicy, pace: Duration) -> Home {
    let journal = Arc::new(Memory::new());
    journal.open();
    let resolver = OfflineResolver::without_tools().with_main_lane(Arc::new(AtomicUsize::new(4)));
    let (options, events) = testkit::options(resolver, pace);
    let options = Options { idle, ..options };
    Home { runtime: Arc::new(Runtime::new(journal.clone(), options)), journal, events }
}

fn run_of(answer: &Acknowledgement) -> RunId {
    let Acknowledgement::Receipt(receipt) = answer else { panic!("{answer:?}") };
    receipt.run
}

impl Home {
    async fn until_nobody_is_there(&self) {
        self.runtime.actors().wait_for(|count| *count == 0).await.unwrap();
    }

    /// Waits for a record of this kind.
    async fn until(&mut self, kind: &str) {
        while let Some(published) = self.events.recv().await {
            if published.batch.records.iter().any(|record| record.event.kind() == kind) {
                return;
            }
        }
        panic!("the runtime ended without {kind}");
    }

    fn kinds(&self, key: &str) -> Vec<&'static str> {
        let branch = self.journal.session(key).unwrap().unwrap().branch;
        self.journal.read(branch, Seq(1)).unwrap().iter().map(|entry| entry.event.kind()).collect()
    }

    fn count(&self, key: &str, kind: &str) -> usize {
        self.kinds(key).iter().filter(|other| **other == kind).count()
    }
}

/// R20: a command to a session whose actor is just ending is taken once, by that actor or by the next.
#[tokio::test]
async fn r20_a_command_sent_while_an_actor_ends_is_neither_lost_nor_taken_twice() {
    const SENDERS: usize = 6;
    const EACH: usize = 200;
    const MESSAGES: usize = 5;
    let home = home(NONE, Duration::ZERO);
    let mut senders = vec![];
    for sender in 0..SENDERS {
        let runtime = Arc::clone(&home.runtime);
        let key = format!("agent:main:{}", sender % 2);
        let send = async move {
            let mut runs = vec![];
            let (handle, _) = runtime.open(&key, "main", vec![]).await.unwrap();
            for nth in 0..EACH {
                // Some senders wait until all actors have ended, so that the next command finds none. The others send
                // at any time.
                if sender < 2 && nth % 16 == 0 {
                    runtime.actors().wait_for(|count| *count == 0).await.unwrap();
                }
                if nth % (EACH / MESSAGES) == 0 {
                    let (_, mut answers) = runtime.open(&key, "main", vec![message("tokens=1 go")]).await.unwrap();
                    runs.push(run_of(&answers.remove(0).await.unwrap().unwrap()));
                } else {
                    // Recorded without a run: the session is idle again at once.
                    handle.command(Command::Override(Override::Model(None))).await.unwrap();
                }
            }
            runs
        };
        // On its own thread, so that it also arrives between two steps of an actor.
        senders.push(tokio::task::spawn_blocking(move || tokio::runtime::Handle::current().block_on(send)));
    }
    let mut runs = BTreeSet::new();
    for sender in senders {
        runs.extend(sender.await.unwrap());
    }
    home.until_nobody_is_there().await;
    assert_eq!(runs.len(), SENDERS * MESSAGES);
    let rows = home.journal.runs(None).unwrap();
    assert_eq!(rows.iter().map(|row| row.run).collect::<BTreeSet<_>>(), runs);
    assert!(rows.iter().all(|row| row.outcome == Some(Outcome::Completed)));
    for key in ["agent:main:0", "agent:main:1"] {
        assert_eq!(home.count(key, "override_set"), SENDERS / 2 * (EACH - MESSAGES), "{key}");
        assert_eq!(home.count(key, "opened"), 1, "one owner opens a session once, however often its actor leaves");
    }
    home.runtime.shutdown().await.unwrap();
}

/// R20: idle sessions are rows; only a few keep their actor for a while.
#[tokio::test]
async fn r20_idle_sessions_hold_no_actors_beyond_the_idle_policy() {
    let mut home = home(IdlePolicy { timeout: Duration::from_hours(1), at_once: 3 }, Duration::ZERO);
    for session in 0..30 {
        home.runtime.open(&format!("agent:main:{session}"), "main", vec![message("tokens=1 go")]).await.unwrap();
    }
    for _ in 0..30 {
        home.until("run_ended").await;
    }
    home.runtime.actors().wait_for(|count| *count == 3).await.unwrap();
    home.runtime.shutdown().await.unwrap();
    assert_eq!(*home.runtime.actors().borrow(), 0);
    assert!(home.journal.unfinished().unwrap().is_empty());
}

/// R15: an orderly shutdown lets a response in progress finish, and accepts nothing new.
#[tokio::test]
async fn r15_a_runtime_that_drains_lets_a_stream_end_and_admits_nothing() {
    let mut home = home(IdlePolicy::default(), Duration::from_millis(10));
    let (handle, _) = home.runtime.open(KEY, "main", vec![message("tokens=20 go")]).await.unwrap();
    home.until("text_added").await;
    let runtime = Arc::clone(&home.runtime);
    let mut actors = runtime.actors();
    let drained = tokio::spawn(async move { runtime.drain(Duration::from_hours(1)).await });
    tokio::task::yield_now().await;
    assert!(matches!(home.runtime.open("agent:main:new", "main", vec![]).await, Err(Error::Leaving)));
    assert!(matches!(handle.command(message("more")).await, Err(Refusal::Unavailable { .. })));
    drained.await.unwrap();
    actors.wait_for(|count| *count == 0).await.unwrap();
    home.runtime.shutdown().await.unwrap();
    let kinds = home.kinds(KEY);
    assert!(kinds.ends_with(&["closed"]) && !kinds.contains(&"stream_cut"), "{kinds:?}");
    let runs = home.journal.runs(None).unwrap();
    assert_eq!((runs.len(), runs[0].outcome), (1, Some(Outcome::Completed)));
}

#[tokio::test]
async fn r15_a_stream_that_does_not_end_in_time_is_interrupted_and_resumes_with_the_next_owner() {
    let mut home = home(IdlePolicy::default(), Duration::from_hours(1));
    home.runtime.open(KEY, "main", vec![message("tokens=20 go")]).await.unwrap();
    home.until("request_sent").await;
    home.runtime.drain(Duration::from_millis(1)).await;
    home.runtime.shutdown().await.unwrap();
    let rows = home.journal.unfinished().unwrap();
    assert_eq!(rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(), [KEY]);
    assert!(home.kinds(KEY).ends_with(&["closed"]));
}

/// R20: a run that waits for a human gives its slot of the lane to others.
#[tokio::test]
async fn r20_a_session_that_queues_for_a_lane_can_be_aborted_and_does_not_keep_the_process() {
    let mut home = home(IdlePolicy::default(), Duration::from_hours(1));
    for session in 0..6 {
        home.runtime.open(&format!("agent:main:{session}"), "main", vec![message("tokens=20 go")]).await.unwrap();
    }
    // Four are in the lane, two wait in their queues.
    for _ in 0..4 {
        home.until("request_sent").await;
    }
    home.runtime.shutdown().await.unwrap();
    assert_eq!(home.journal.unfinished().unwrap().len(), 6);

    home.journal.open();
    let resolver = OfflineResolver::without_tools().with_main_lane(Arc::new(AtomicUsize::new(1)));
    let (options, _events) = testkit::options(resolver, Duration::from_hours(1));
    let options = Options { idle: NONE, ..options };
    let next = Runtime::new(home.journal.clone(), options);
    for session in 0..3 {
        next.open(&format!("agent:main:{session}"), "main", vec![]).await.unwrap();
    }
    // One has the only slot; the others wait for it.
    let aborted = Command::Abort { run: None };
    let (_, mut answers) = next.open("agent:main:2", "main", vec![aborted]).await.unwrap();
    answers.remove(0).await.unwrap().unwrap();
    next.shutdown().await.unwrap();
    let ended = |event: &Event| matches!(event, Event::RunEnded(ended) if ended.outcome == Outcome::Aborted);
    let branch = home.journal.session("agent:main:2").unwrap().unwrap().branch;
    assert!(home.journal.read(branch, Seq(1)).unwrap().iter().any(|entry| ended(&entry.event)));
    assert_eq!(home.count("agent:main:1", "opened"), 1, "a session that queues for a slot is left as it is");
}
