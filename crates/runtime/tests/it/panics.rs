//! A defect in one session affects only that session: it is stopped or reported, and the process and the other
//! sessions continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::tables::lifecycle::LifecycleKind;
use engine::{
    Acknowledgement, BranchId, Candidate, Command, Decide as _, Failure, Machine, Moment, Outcome, Overrides, Recover,
    Refusal, SessionId, Settings, Timestamp,
};
use journal::{Append, Journal as _, Read, Sqlite};
use models::Endpoint;
use runtime::{Options, Resolver, Runtime};
use tempfile::TempDir;
use testkit::message;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// A configuration with a defect.
#[derive(Default)]
struct Defect {
    /// Settings panic from this call on, counted from 1; 0 = never.
    settings_at: u32,
    /// Endpoints panic for this agent.
    endpoint_of: &'static str,
    recover: Recover,
    asked: AtomicU32,
}

impl Resolver for Defect {
    fn settings(&self, agent: &str, _: runtime::SessionContext<'_>, _: &Overrides) -> Result<Settings, Failure> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(asked != self.settings_at, "an injected defect");
        let candidate = Candidate { model: agent.into(), ..testkit::candidate() };
        let workspace = std::env::temp_dir().display().to_string();
        Ok(Settings {
            agent: agent.into(),
            workspace,
            candidates: vec![candidate],
            recover: self.recover,
            ..Settings::default()
        })
    }

    fn endpoint(&self, candidate: &Candidate) -> Result<Endpoint, Failure> {
        assert!(candidate.model != self.endpoint_of, "an injected defect");
        Ok(Endpoint::offline())
    }
}

struct Home {
    folder: TempDir,
    journal: Arc<Sqlite>,
    runtime: Runtime,
    events: mpsc::UnboundedReceiver<runtime::Published>,
}

fn home(defect: Defect) -> Home {
    home_in(tempfile::tempdir().expect("a temporary folder"), defect)
}

fn home_in(folder: TempDir, defect: Defect) -> Home {
    let journal = Arc::new(Sqlite::own(folder.path()).expect("a fresh home"));
    let (options, events) = testkit::options(defect, Duration::ZERO);
    let options = Options { home: folder.path().to_owned(), ..options };
    let runtime = Runtime::new(journal.clone(), options);
    Home { folder, journal, runtime, events }
}

impl Home {
    async fn send(&mut self, key: &str, agent: &str) -> Result<Acknowledgement, Refusal> {
        let (_, mut answers) =
            self.runtime.open(key, agent, vec![message("Who are you?")]).await.expect("a session that reads");
        let gone = Refusal::Unavailable { reason: "the session has stopped".into() };
        answers.remove(0).await.unwrap_or(Err(gone))
    }

    /// Waits until this session has this lifecycle, after at least one run or none.
    async fn until(&mut self, key: &str, lifecycle: LifecycleKind) {
        while let Some(published) = self.events.recv().await {
            if published.key.as_ref() == key && published.lifecycle == lifecycle {
                return;
            }
        }
        panic!("the runtime ended before {key} was {lifecycle}");
    }
}

#[tokio::test]
async fn r20_a_panic_in_an_effect_stops_only_its_session() {
    let mut home = home(Defect { endpoint_of: "broken", ..Defect::default() });
    home.send("agent:broken:main", "broken").await.unwrap();
    home.until("agent:broken:main", LifecycleKind::Error).await;
    home.send("agent:main:main", "main").await.unwrap();
    home.until("agent:main:main", LifecycleKind::Idle).await;
    let held = home.journal.session("agent:broken:main").unwrap().unwrap();
    assert!(held.trouble.as_ref().is_some_and(|trouble| trouble.contains("resume")), "{held:?}");
    let runs = home.journal.runs(None).unwrap();
    assert_eq!(runs.iter().filter(|run| run.outcome == Some(Outcome::Completed)).count(), 1);
    home.runtime.shutdown().await.unwrap();
}

/// R20: with `runs.recover = "auto"` a held session is unfinished, and the owner for whom the time has come makes the
/// attempt. Another session has an entry of a later time, behind which no owner's clock starts.
#[tokio::test]
async fn r20_a_held_session_tries_by_itself_when_its_time_has_come() {
    let key = "agent:broken:main";
    let mut home = home(Defect { endpoint_of: "broken", recover: Recover::Auto, ..Defect::default() });
    home.send(key, "broken").await.unwrap();
    home.until(key, LifecycleKind::Error).await;
    let held = home.journal.session(key).unwrap().unwrap();
    assert!(held.unfinished, "the next owner opens it: {held:?}");
    home.runtime.shutdown().await.unwrap();
    append_later(&home.journal, home.journal.latest().unwrap().plus(61_000)).await;
    let Home { folder, journal, runtime, .. } = home;
    drop((journal, runtime));

    let mut home = home_in(folder, Defect { recover: Recover::Auto, ..Defect::default() });
    home.runtime.open(key, "broken", vec![]).await.unwrap();
    home.until(key, LifecycleKind::Idle).await;
    let runs = home.journal.runs(None).unwrap();
    assert_eq!(runs.iter().map(|run| run.outcome).collect::<Vec<_>>(), [Some(Outcome::Completed)]);
    home.runtime.shutdown().await.unwrap();
}

/// Appends an entry of this time, of another session.
async fn append_later(journal: &Sqlite, now: Timestamp) {
    let id = Uuid::from_u128(7);
    let (session, branch) = (SessionId(id), BranchId(id));
    let create = Command::Create { session, key: "agent:main:later".into(), agent: "main".into(), branch };
    let mut machine = Machine::new();
    machine.handle(create.into(), Moment { now, random: 0 }).unwrap();
    let (done, kept) = oneshot::channel();
    let append = Append { batch: Arc::new(machine.take_batch().unwrap()), epoch: journal.epoch() };
    journal.append(append, Box::new(move |result| drop(done.send(result))));
    kept.await.unwrap().unwrap();
}

#[tokio::test]
async fn r20_a_panic_in_an_actor_leaves_its_session_usable_and_the_journal_whole() {
    let mut home = home(Defect { settings_at: 2, ..Defect::default() });
    home.send("agent:main:main", "main").await.unwrap();
    home.until("agent:main:main", LifecycleKind::Idle).await;
    let refused = home.send("agent:main:main", "main").await;
    assert!(matches!(refused, Err(Refusal::Unavailable { .. })), "{refused:?}");
    home.send("agent:main:main", "main").await.unwrap();
    home.until("agent:main:main", LifecycleKind::Idle).await;
    assert_eq!(home.journal.runs(None).unwrap().len(), 2, "what was not acknowledged is not there");
    home.runtime.shutdown().await.unwrap();
}
