//! R35: the lanes as the runtime drives them: which runs wait and how that is reported, and which run gives up its slot
//! and takes one again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{Acknowledgement, Command, Event, ReceiptState, RunId, Seq};
use journal::{Journal as _, Memory, Read as _};
use runtime::{Handle, LaneUpdate, Options, Published, Runtime};
use testkit::{OfflineResolver, message, steer};
use tokio::sync::mpsc;

struct Home {
    runtime: Runtime,
    journal: Arc<Memory>,
    main: Arc<AtomicUsize>,
    events: mpsc::UnboundedReceiver<Published>,
    waits: mpsc::UnboundedReceiver<LaneUpdate>,
}

/// A model that never answers: a run stays where it is until it is ended.
fn home(main: usize) -> Home {
    home_of(Arc::new(Memory::new()), main)
}

/// The next owner of this journal.
fn home_of(journal: Arc<Memory>, main: usize) -> Home {
    home_that(journal, main, false)
}

fn home_that(journal: Arc<Memory>, main: usize, holds_runs: bool) -> Home {
    journal.open();
    let (waits_in, waits) = mpsc::unbounded_channel();
    let main = Arc::new(AtomicUsize::new(main));
    let resolver = OfflineResolver::without_tools().with_main_lane(Arc::clone(&main));
    let (options, events) = testkit::options(resolver, Duration::from_hours(1));
    let options = Options { waits: Some(waits_in), holds_runs, ..options };
    Home { runtime: Runtime::new(journal.clone(), options), journal, main, events, waits }
}

impl Home {
    /// Opens the session of this name.
    async fn open(&self, name: &str) -> Handle {
        self.runtime.open(name, "main", vec![]).await.unwrap().0
    }

    /// What was recorded in the session of this name from this owner on.
    fn recorded(&self, name: &str) -> Vec<&'static str> {
        let branch = self.journal.session(name).unwrap().unwrap().branch;
        let entries = self.journal.read(branch, Seq(1)).unwrap();
        let of_this = entries.iter().filter(|entry| entry.epoch == self.journal.epoch());
        of_this.map(|entry| entry.event.kind()).collect()
    }

    /// Sends a message to the session of this name; it is accepted.
    async fn send(&self, name: &str) -> (Handle, RunId) {
        let command = message("tokens=20 go");
        let (handle, mut answers) = self.runtime.open(name, "main", vec![command]).await.unwrap();
        let Acknowledgement::Receipt(receipt) = answers.remove(0).await.unwrap().unwrap() else { panic!("no receipt") };
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
            LaneUpdate::Waits { wait, at } => {
                let behind = wait.behind.iter().map(|request| request.session.to_string()).collect();
                (wait.request.run, behind, at.since(wait.since))
            }
            news @ LaneUpdate::Entered { .. } => panic!("{news:?}"),
        }
    }

    async fn next_entered(&mut self) -> (RunId, u64) {
        match self.waits.recv().await.unwrap() {
            LaneUpdate::Entered { request, since, at } => (request.run, at.since(since)),
            news @ LaneUpdate::Waits { .. } => panic!("{news:?}"),
        }
    }

    /// The session of the next lane update.
    async fn next_wait_or_entry(&mut self) -> String {
        match self.waits.recv().await.unwrap() {
            LaneUpdate::Waits { wait, .. } => wait.request.session.to_string(),
            LaneUpdate::Entered { request, .. } => request.session.to_string(),
        }
    }

    fn waiting(&self) -> Vec<String> {
        self.runtime.waits().iter().map(|wait| wait.request.session.to_string()).collect()
    }
}

#[tokio::test]
async fn r35_a_wait_names_the_runs_ahead_and_a_long_wait_is_reported_again_and_at_its_end() {
    let mut home = home(1);
    let (first, _) = home.send("a").await;
    home.until_started("a").await;
    let (_, waits) = home.send("b").await;
    assert_eq!(home.next_wait().await, (waits, vec!["a".to_owned()], 0));
    let (run, behind, waited_ms) = home.next_wait().await;
    assert_eq!((run, behind), (waits, vec!["a".to_owned()]));
    assert!(waited_ms >= 2_000, "a wait of {waited_ms} ms is too short");
    first.command(Command::Abort { run: None }).await.unwrap();
    let (run, waited_ms) = home.next_entered().await;
    assert!(run == waits && waited_ms >= 2_000);
    home.until_started("b").await;
    assert!(home.waiting().is_empty());
    home.runtime.shutdown().await.unwrap();
}

/// R15: an owner that holds runs records commands, reports no wait for a slot, and starts the runs when it is asked to.
#[tokio::test]
async fn r15_an_owner_that_holds_runs_starts_them_when_it_is_asked_to() {
    let mut home = home_that(Arc::new(Memory::new()), 2, true);
    let (handle, first) = home.send("a").await;
    home.until("a", |event| matches!(event, Event::MessageAccepted(_))).await;
    handle.command(Command::Cancel { message: first.into(), leg: None }).await.unwrap();
    let (_, second) = home.send("b").await;
    home.until("b", |event| matches!(event, Event::MessageAccepted(_))).await;
    assert_eq!(home.waiting(), ["b"]);
    assert!(!home.recorded("b").contains(&"run_started"));
    home.runtime.start_runs();
    home.until_started("b").await;
    assert!(home.waiting().is_empty() && home.waits.is_empty(), "run {second} has waited for no slot");
    home.runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn r35_a_cancelled_message_leaves_the_lane_queue() {
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
async fn r35_a_paused_run_gives_up_its_slot_and_takes_one_again_without_waiting() {
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
    assert!(home.waiting().is_empty(), "the earlier run has its slot too");
    home.main.store(1, Ordering::Relaxed);
    home.send("d").await;
    while home.next_wait_or_entry().await != "d" {}
    home.runtime.shutdown().await.unwrap();
}

/// R11, R16: three runs were active when their owner shut down or was killed, and the next owner has one slot. The
/// waiting runs accept commands meanwhile, and do not continue.
#[tokio::test]
async fn r11_r35_a_run_that_queues_for_its_lane_after_a_restart_accepts_commands() {
    for killed in [false, true] {
        let mut before = home(3);
        for name in ["a", "b", "c"] {
            before.send(name).await;
            before.until_started(name).await;
        }
        if killed {
            before.journal.crash_process();
        } else {
            before.runtime.shutdown().await.unwrap();
        }
        let mut home = home_of(Arc::clone(&before.journal), 1);
        let (a, b, c) = (home.open("a").await, home.open("b").await, home.open("c").await);
        home.until_started("a").await;
        while home.waiting() != ["b", "c"] {
            home.next_wait().await;
        }

        let Acknowledgement::Receipt(receipt) = b.command(steer("and this")).await.unwrap() else {
            panic!("no receipt")
        };
        assert_eq!(receipt.state, ReceiptState::Queued);
        let Acknowledgement::Receipt(later) = b.command(message("and then")).await.unwrap() else {
            panic!("no receipt")
        };
        b.command(Command::Cancel { message: later.message, leg: None }).await.unwrap();
        assert_eq!(home.waiting(), ["b", "c"]);
        let kinds = home.recorded("b");
        assert_eq!(kinds.last(), Some(&"message_settled"), "it is recorded when it is answered: {kinds:?}");
        assert!(!kinds.contains(&"request_sent"), "{kinds:?}");

        // Paused, it waits for nothing; resumed, it continues at once.
        c.command(Command::Pause { run: None, freeze: false }).await.unwrap();
        home.until("c", |event| matches!(event, Event::Opened(_))).await;
        assert_eq!(home.waiting(), ["b"]);
        c.command(Command::Resume { run: None, drop: false }).await.unwrap();
        home.until_started("c").await;

        for (name, handle) in [("c", c), ("a", a)] {
            handle.command(Command::Abort { run: None }).await.unwrap();
            home.until(name, |event| matches!(event, Event::RunEnded(_))).await;
        }
        home.until_started("b").await;
        let kinds = home.recorded("b");
        assert!(kinds.contains(&"message_settled") && home.waiting().is_empty(), "{kinds:?}");
        let steered = |event: &Event| matches!(event, Event::MessageSettled(e) if e.message == receipt.message);
        let branch = home.journal.session("b").unwrap().unwrap().branch;
        let entries = home.journal.read(branch, Seq(1)).unwrap();
        assert!(entries.iter().any(|entry| steered(&entry.event)), "it is in the request that follows");
        home.runtime.shutdown().await.unwrap();
    }
}

/// R16: a run that was paused and resumed in one go while it waited for its slot has the slot.
#[tokio::test]
async fn r16_r35_a_run_that_is_paused_and_resumed_before_it_has_its_slot_continues() {
    let mut before = home(2);
    for name in ["a", "b"] {
        before.send(name).await;
        before.until_started(name).await;
    }
    before.runtime.shutdown().await.unwrap();
    let mut home = home_of(Arc::clone(&before.journal), 1);
    let (_a, b) = (home.open("a").await, home.open("b").await);
    home.until_started("a").await;
    let held = b.send(Command::Pause { run: None, freeze: false });
    let let_go = b.send(Command::Resume { run: None, drop: false });
    held.await.unwrap();
    let_go.await.unwrap();
    home.until_started("b").await;
    let aborted = b.command(Command::Abort { run: None }).await;
    aborted.unwrap();
    home.until("b", |event| matches!(event, Event::RunEnded(_))).await;
    home.runtime.shutdown().await.unwrap();
}
