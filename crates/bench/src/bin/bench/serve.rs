//! The costs of `limulus serve`: acknowledgements, events to subscribers, whole turns, and an idle service. The service
//! is a separate process; the clients are in this one.

mod control;
mod owner;
mod stamped;
pub(super) mod web;

use std::path::Path;
use std::time::{Duration, Instant};

use model_server::ModelServer;
use protocol::method::{Agent, AgentAnswer, AgentParams, EventsSubscribe, SubscribeParams};
use protocol::{Client, Events};
use tokio::task::JoinSet;

use super::Problem;
use super::opening::add_idle_sessions;
use super::table::{Line, Row, Samples, Target};
use super::warm::{Server, tokio};
use owner::Owner;
use stamped::Stamped;

/// Acknowledgements that are timed.
const ACKNOWLEDGED: usize = 300;
/// Sessions that have turns at the same time.
const SESSIONS: usize = 64;
/// How long they have them.
const TURNS: Duration = Duration::from_secs(10);
/// Idle subscribers, and subscribers that read the same run.
const SUBSCRIBERS: usize = 100;
/// The number of sessions without work.
const IDLE_SESSIONS: u64 = 10_000;
/// How long an idle service is observed.
const IDLE: Duration = Duration::from_mins(1);

/// Measures; it creates homes in this folder, which must be on a disk.
pub(super) fn measure(binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    let runtime = tokio()?;
    let server = Server::start()?;
    let home = |name: &str, base_url: &str| Owner::start(binary, &folder.join(name), base_url);
    let mut lines = vec![];
    let owner = home("acknowledged", &server.base_url)?;
    let what = "serve: a message over the socket until it is acknowledged, synced";
    lines.push(runtime.block_on(acknowledgements(&owner, what))?);
    drop(owner);
    let stamped = Stamped::start()?;
    for (subscribers, what, most) in [
        (1, "serve: a piece of an answer, from the model's socket to 1 subscriber's, p99", 5.0),
        (SUBSCRIBERS, "serve: the same to 100 subscribers, p99", 20.0),
    ] {
        let owner = home(&format!("subscribers-{subscribers}"), &stamped.base_url)?;
        let ms = runtime.block_on(pieces(&owner, subscribers))?;
        let measured = Samples::new("ms", ms).p99();
        lines.push(Row { what, target: Target::AtMost(most), measured }.into());
    }
    let what = ["serve: finished turns without tools, 64 sessions", "serve: CPU of the service for one of them"];
    lines.extend(runtime.block_on(turns(&home("turns", &server.base_url)?, 2_000.0, what))?);
    lines.extend(runtime.block_on(control::measure(binary, folder, ModelServer::start()?))?);
    lines.push(runtime.block_on(subscribers_at_rest(&home("subscribers", &server.base_url)?))?);
    let idle = folder.join("idle");
    Owner::prepare(&idle, &server.base_url)?;
    add_idle_sessions(&idle.join("home"), IDLE_SESSIONS)?;
    lines.extend(at_rest(&Owner::start(binary, &idle, &server.base_url)?)?);
    Ok(lines)
}

fn message(session: &str, text: &str) -> AgentParams {
    AgentParams {
        message: text.to_owned(),
        session_key: session.to_owned(),
        idempotency_key: uuid::Uuid::now_v7().to_string(),
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

/// The time from a request to its acknowledgement, one after the other over a few sessions.
async fn acknowledgements(owner: &Owner, what: &'static str) -> Result<Line, Problem> {
    let (client, _events) = owner.connect().await?;
    let mut ms = vec![];
    for at in 0..ACKNOWLEDGED {
        let params = message(&format!("s{}", at % 8), "tokens=1");
        let started = Instant::now();
        let mut answers = client.ask::<Agent>(params)?;
        answers.next().await?;
        ms.push(started.elapsed().as_secs_f64() * 1e3);
        answers.next().await?;
    }
    let measured = Samples::new("ms", ms);
    Ok(Row { what, target: Target::AtMost(2.0), measured }.into())
}

/// The age of each piece of an answer when a subscriber reads it, ms: this includes everything in between, also the
/// journal.
async fn pieces(owner: &Owner, subscribers: usize) -> Result<Vec<f64>, Problem> {
    let mut reading = JoinSet::new();
    for _ in 0..subscribers {
        let (client, events) = owner.connect().await?;
        client.call::<EventsSubscribe>(session("main")).await?;
        reading.spawn(ages(client, events));
    }
    let (client, _events) = owner.connect().await?;
    let mut answers = client.ask::<Agent>(message("main", "go"))?;
    answers.next().await?;
    answers.next().await?;
    let mut all = vec![];
    while let Some(ages) = reading.join_next().await {
        all.extend(ages?);
    }
    Ok(all)
}

fn session(key: &str) -> SubscribeParams {
    SubscribeParams { session: Some(key.to_owned()), ..SubscribeParams::default() }
}

/// Reads until the run has ended.
async fn ages(client: Client, mut events: Events) -> Vec<f64> {
    let mut ages = vec![];
    while let Some(frame) = events.recv().await {
        match (frame.payload["stream"].as_str(), frame.payload["type"].as_str()) {
            (Some("assistant"), Some("delta")) => ages.extend(frame.payload["text"].as_str().and_then(Stamped::age_ms)),
            (Some("lifecycle"), Some("end" | "error")) => break,
            _ => {}
        }
    }
    drop(client);
    ages
}

/// As many turns without tools as possible, and the CPU time of the service for one.
async fn turns(owner: &Owner, least: f64, what: [&'static str; 2]) -> Result<Vec<Line>, Problem> {
    let mut sessions = JoinSet::new();
    let (started, cpu) = (Instant::now(), owner.cpu_ms()?);
    for at in 0..SESSIONS {
        let (client, events) = owner.connect().await?;
        sessions.spawn(async move {
            let _events = events;
            let mut turns = 0_u32;
            // A new session now and then: this measures turns, not the length of a history.
            while started.elapsed() < TURNS {
                let session = format!("s{at}-{}", turns / 20);
                let Ok(mut answers) = client.ask::<Agent>(message(&session, "tokens=4")) else { break };
                let accepted = answers.next().await;
                let ended = answers.next().await;
                if !matches!((accepted, ended), (Ok(_), Ok(AgentAnswer::Ok(_)))) {
                    break;
                }
                turns += 1;
            }
            turns
        });
    }
    let mut all = 0_u32;
    while let Some(turns) = sessions.join_next().await {
        all += turns?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let (rate, spent) = (f64::from(all) / seconds, (owner.cpu_ms()? - cpu) / f64::from(all.max(1)));
    let rate = Samples::new("turns/s", vec![rate]);
    let spent = Samples::new("ms", vec![spent]);
    Ok(vec![
        Row { what: what[0], target: Target::AtLeast(least), measured: rate }.into(),
        Row { what: what[1], target: Target::None, measured: spent }.into(),
    ])
}

async fn subscribers_at_rest(owner: &Owner) -> Result<Line, Problem> {
    // The one-time cost of the first client is not counted.
    let (client, _events) = owner.connect().await?;
    client.call::<EventsSubscribe>(session("main")).await?;
    let before = owner.resident_mib()?;
    let mut all = vec![];
    for _ in 0..SUBSCRIBERS {
        let (client, events) = owner.connect().await?;
        client.call::<EventsSubscribe>(session("main")).await?;
        all.push((client, events));
    }
    let measured = Samples::new("MiB", vec![owner.resident_mib()? - before]);
    Ok(Row { what: "serve: memory for 100 idle subscribers", target: Target::AtMost(10.0), measured }.into())
}

/// A service with idle sessions and no requests.
fn at_rest(owner: &Owner) -> Result<Vec<Line>, Problem> {
    let before = owner.cpu_ms()?;
    std::thread::sleep(IDLE);
    let spent = (owner.cpu_ms()? - before) / IDLE.as_secs_f64() / 10.0;
    let (memory, share) = (Samples::new("MiB", vec![owner.resident_mib()?]), Samples::new("%", vec![spent]));
    Ok(vec![
        Row {
            what: "serve: memory of an idle service with 10,000 sessions at rest",
            target: Target::AtMost(15.0),
            measured: memory,
        }
        .into(),
        Row { what: "serve: CPU of the same over a minute", target: Target::AtMost(0.0), measured: share }.into(),
    ])
}
