//! A full disk under sessions: they wait, report it, accept an abort, and resume by themselves.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use engine::{Acknowledgement, Command, Event, Outcome, Refusal, Seq, SessionRow};
use journal::{Memory, Read};
use runtime::{Handle, Published, Runtime};
use testkit::{KEY, OfflineResolver};
use tokio::sync::mpsc;

struct Home {
    journal: Arc<Memory>,
    runtime: Runtime,
    events: mpsc::UnboundedReceiver<Published>,
}

/// One run at once: a slot that is lost or held twice would block everything.
fn home() -> Home {
    let journal = Arc::new(Memory::new());
    journal.open();
    let resolver = OfflineResolver::without_tools().with_main_lane(Arc::new(AtomicUsize::new(1)));
    let (options, events) = testkit::options(resolver, Duration::from_millis(20));
    Home { runtime: Runtime::new(journal.clone(), options), journal, events }
}

fn message() -> Command {
    testkit::message("tokens=3 Who are you?")
}

fn is_no_space(answer: &Result<Acknowledgement, Refusal>) -> bool {
    matches!(answer, Err(Refusal::Unavailable { reason }) if reason.contains("no space left"))
}

impl Home {
    /// The session with an accepted message; the disk is full from the first piece of its response on.
    async fn run_that_fills_the_disk(&mut self) -> Handle {
        let (handle, mut answers) =
            self.runtime.open(KEY, "main", vec![message()]).await.expect("a session that reads");
        answers.remove(0).await.expect("an answer").expect("there is space");
        self.journal.fill();
        self.until_disk_full().await;
        handle
    }

    async fn until_disk_full(&self) {
        self.runtime.disk_full_waits().wait_for(|parked| parked.contains_key(KEY)).await.expect("the runtime is there");
    }

    async fn until_ended(&mut self) -> Outcome {
        while let Some(published) = self.events.recv().await {
            for record in &published.batch.records {
                if let Event::RunEnded(ended) = &record.event {
                    return ended.outcome;
                }
            }
        }
        panic!("the runtime ended before the run");
    }

    fn kinds(&self) -> Vec<&'static str> {
        let branch = self.session().branch;
        self.journal.read(branch, Seq(1)).expect("it reads").iter().map(|entry| entry.event.kind()).collect()
    }

    fn session(&self) -> SessionRow {
        self.journal.session(KEY).expect("it reads").expect("it was recorded")
    }
}

#[tokio::test]
async fn r10_b8_a_run_without_space_waits_and_resumes_by_itself() {
    let mut home = home();
    let handle = home.run_that_fills_the_disk().await;
    let parked = home.runtime.disk_full_waits().borrow()[KEY].clone();
    assert!(matches!(parked.error, journal::Error::Full { .. }) && parked.next_look >= parked.since, "{parked:?}");
    // What cannot be recorded is refused, and leaves no trace.
    let before = home.kinds();
    assert!(is_no_space(&handle.command(message()).await));
    assert!(is_no_space(&handle.command(Command::Pause { run: None, freeze: false }).await));
    assert_eq!(home.kinds(), before);

    home.journal.free();
    assert_eq!(home.until_ended().await, Outcome::Completed);
    assert!(home.runtime.disk_full_waits().borrow().is_empty());
    handle.command(message()).await.unwrap();
    assert_eq!(home.until_ended().await, Outcome::Completed);
    let kinds = home.kinds();
    assert_eq!(kinds.iter().filter(|kind| **kind == "message_accepted").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| **kind == "run_ended").count(), 2);
    home.runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn r15_b8_an_abort_is_recorded_from_the_reserve() {
    let mut home = home();
    let handle = home.run_that_fills_the_disk().await;
    handle.command(Command::Abort { run: None }).await.unwrap();
    assert_eq!(home.until_ended().await, Outcome::Aborted);
    assert!(is_no_space(&handle.command(message()).await), "there still is no space");
    home.journal.free();
    handle.command(message()).await.unwrap();
    assert_eq!(home.until_ended().await, Outcome::Completed);
    home.runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn r10_b8_a_message_refused_for_lack_of_space_leaves_no_lane_request() {
    let mut home = home();
    home.journal.fill();
    let (handle, mut answers) = home.runtime.open(KEY, "main", vec![message()]).await.unwrap();
    assert!(is_no_space(&answers.remove(0).await.unwrap()));
    home.until_disk_full().await;
    home.journal.free();
    // A retry finds space at once, so nobody waits for the next check.
    handle.command(message()).await.unwrap();
    assert_eq!(home.until_ended().await, Outcome::Completed);
    assert_eq!(home.kinds().iter().filter(|kind| **kind == "message_accepted").count(), 1);
    home.runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn r11_b8_a_session_that_waits_for_space_does_not_keep_the_process() {
    let mut home = home();
    let handle = home.run_that_fills_the_disk().await;
    let before = home.kinds();
    home.runtime.shutdown().await.unwrap();
    assert!(matches!(handle.command(message()).await, Err(Refusal::Unavailable { .. })));
    home.journal.free();
    let branch = home.journal.session(KEY).unwrap().unwrap().branch;
    assert_eq!(home.journal.read(branch, Seq(1)).unwrap().len(), before.len());
}
