//! The methods that act, over a real socket.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use engine::tables::transitions::RunState;
use engine::{Outcome, QueueMode, RunId};
use journal::Memory;
use protocol::method::{
    AbortParams, Agent, AgentAnswer, AgentParams, AgentWait, Attachment, AuditParams, Cap, EndParams, Ended, HealthGet,
    NoParams, ReceiptParams, ReceiptsGet, ResumeParams, RunParams, RunsAbort, RunsShow, SessionsAudit, SessionsEnd,
    SessionsResume, SubscribeParams, WaitParams, WaitStatus,
};
use protocol::method::{EventsSubscribe, EventsUnsubscribe, UnsubscribeParams};
use protocol::show::{AuditLine, Payload, ReplyStop};
use protocol::{Answers, ClientError, ErrorCode};
use serde_json::json;

use crate::support::{Home, KEY, message, observe};

pub(crate) async fn accepted(answers: &mut Answers<Agent>) -> RunId {
    let AgentAnswer::Accepted { run_id, accepted_at, .. } = answers.next().await.unwrap() else {
        panic!("not accepted")
    };
    assert!(accepted_at.0 > 0);
    run_id
}

pub(crate) async fn ended(answers: &mut Answers<Agent>) -> Ended {
    match answers.next().await.unwrap() {
        AgentAnswer::Ok(ended) | AgentAnswer::Error(ended) | AgentAnswer::Timeout(ended) => ended,
        other @ (AgentAnswer::Accepted { .. } | AgentAnswer::Command { .. }) => panic!("no end: {other:?}"),
    }
}

pub(crate) fn code(error: ClientError) -> ErrorCode {
    let ClientError::Answered(shape) = error else { panic!("{error:?}") };
    assert!(shape.details.is_some_and(|details| !details.hint.is_empty()), "{}", shape.message);
    shape.code
}

/// R60, R61: a message has two responses on one id. The same key gives the same run, other content a conflict, also
/// after another owner took the home over.
#[tokio::test]
async fn r46_r60_r61_a_message_is_answered_when_it_is_accepted_and_when_its_run_has_ended() {
    let home = Home::new();
    let (client, _events) = home.client().await;
    let mut answers = client.ask::<Agent>(message("main", "k1", "Who are you?")).unwrap();
    let run = accepted(&mut answers).await;
    let first = ended(&mut answers).await;
    assert_eq!((first.run_id, first.outcome), (run, Outcome::Completed));
    assert!(!first.text.is_empty() && first.ended_at >= first.started_at && first.usage.input > 0, "{first:?}");

    let mut again = client.ask::<Agent>(message("agent:main:main", "k1", "Who are you?")).unwrap();
    assert_eq!(accepted(&mut again).await, run);
    assert_eq!(ended(&mut again).await, first);
    // R46: whoever asks for its end gets the same reply.
    let reply = first.reply.clone().expect("a reply");
    assert_eq!(reply.payloads, [Payload::Text { text: first.text.clone(), place: None }]);
    assert_eq!((reply.meta.usage, reply.meta.stop_reason), (first.usage, ReplyStop::Stop));
    assert_eq!(reply.meta.duration_ms, first.ended_at.since(first.started_at));
    let waited = client.call::<AgentWait>(WaitParams { run_id: run, timeout_ms: 0 }).await.unwrap();
    assert_eq!(waited.reply, first.reply);
    let conflict = client.ask::<Agent>(message("main", "k1", "And now?")).unwrap().next().await.unwrap_err();
    assert_eq!(code(conflict), ErrorCode::Conflict);

    let home = home.again(Duration::ZERO).await;
    let (client, _events) = home.client().await;
    let mut again = client.ask::<Agent>(message("main", "k1", "Who are you?")).unwrap();
    assert_eq!((accepted(&mut again).await, ended(&mut again).await), (run, first));
    home.leave().await;
}

/// R46: where a message came from and where its answer goes is recorded and shown; a wrong address is refused.
#[tokio::test]
async fn r46_a_message_may_say_where_it_came_from_and_where_its_answer_goes() {
    let home = Home::new();
    let (client, _events) = home.client().await;
    let address = |peer: &str| {
        let (channel, peer) = ("telegram".to_owned(), Some(peer.to_owned()));
        Some(Box::new(engine::Address { channel, peer, ..engine::Address::default() }))
    };
    for wrong in [String::new(), "x".repeat(257), "a\nb".to_owned()] {
        let refused = AgentParams { reply_to: address(&wrong), ..message("main", "k1", "Who are you?") };
        let refused = client.ask::<Agent>(refused).unwrap().next().await.unwrap_err();
        assert!(refused.to_string().contains("`reply_to` is wrong: `peer`"), "{refused}");
        assert_eq!(code(refused), ErrorCode::InvalidRequest);
    }
    let (origin, reply_to) = (address("42"), address(&"x".repeat(256)));
    let sent = AgentParams { origin: origin.clone(), reply_to: reply_to.clone(), ..message("main", "k1", "Who?") };
    let mut answers = client.ask::<Agent>(sent).unwrap();
    let run = accepted(&mut answers).await;
    ended(&mut answers).await;
    let home = home.again(Duration::ZERO).await;
    let (client, _events) = home.client().await;
    let shown = client.call::<RunsShow>(RunParams { run: Some(run.to_string()), session: None }).await.unwrap();
    assert_eq!((&shown.origin, &shown.reply_to), (&origin, &reply_to));
    let by_key = ReceiptParams { key: Some("k1".to_owned()), ..ReceiptParams::default() };
    let receipt = client.call::<ReceiptsGet>(by_key).await.unwrap();
    assert_eq!((receipt.origin, receipt.reply_to), (origin, reply_to));
    home.leave().await;
}

/// R61: a hundred clients with the same key get one run.
#[tokio::test]
async fn r61_a_hundred_at_once_with_the_same_key_are_one_run() {
    let home = Home::new();
    let mut clients = vec![];
    for _ in 0..100 {
        clients.push(home.client().await);
    }
    let asked: Vec<_> = clients
        .iter()
        .map(|(client, _)| client.ask::<Agent>(message("main", "same", "Who are you?")).unwrap())
        .collect();
    let (mut runs, mut texts) = (BTreeSet::new(), BTreeSet::new());
    for mut answers in asked {
        runs.insert(accepted(&mut answers).await);
        texts.insert(ended(&mut answers).await.text);
    }
    assert_eq!((runs.len(), texts.len()), (1, 1));
    assert_eq!(home.service.runtime().journal().runs(None).unwrap().len(), 1);
    home.leave().await;
}

/// R60: a client that disconnects stops no run; the next waiter reads its end from the journal.
#[tokio::test]
async fn r60_a_connection_that_goes_away_stops_no_run() {
    let home = Home::paced(Duration::from_millis(5));
    let (client, events) = home.client().await;
    let mut answers = client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    let run = accepted(&mut answers).await;
    drop((client, events, answers));

    let (client, _events) = home.client().await;
    let wait = |timeout_ms| WaitParams { run_id: run, timeout_ms };
    let waited = client.call::<AgentWait>(wait(3_600_000)).await.unwrap();
    assert_eq!((waited.run_id, waited.status), (run, WaitStatus::Ok));
    assert!(waited.ended_at.is_some() && waited.error.is_none());
    assert_eq!(client.call::<AgentWait>(wait(0)).await.unwrap(), waited, "it is in the journal");
    home.leave().await;
}

/// R60: a wait ends, the run continues; the run is aborted by its session's key, and both waiters are notified.
#[tokio::test]
async fn r60_a_wait_times_out_and_an_abort_ends_the_run() {
    let home = Home::paced(Duration::from_hours(1));
    let (client, _events) = home.client().await;
    let mut answers = client.ask::<Agent>(message("work", "k", "Who are you?")).unwrap();
    let run = accepted(&mut answers).await;
    let waited = client.call::<AgentWait>(WaitParams { run_id: run, timeout_ms: 0 }).await.unwrap();
    assert_eq!((waited.status, waited.ended_at), (WaitStatus::Timeout, None));
    assert!(waited.started_at.is_some());
    let waiting = client.ask::<AgentWait>(WaitParams { run_id: run, timeout_ms: 3_600_000 });
    let by_session = AbortParams { session: Some("work".to_owned()), ..AbortParams::default() };
    let aborted = client.call::<RunsAbort>(by_session.clone()).await.unwrap();
    assert_eq!((aborted.run_id, aborted.session_key.as_str()), (run, "agent:main:work"));
    assert_eq!(ended(&mut answers).await.outcome, Outcome::Aborted);
    assert_eq!(waiting.unwrap().next().await.unwrap().status, WaitStatus::Error);
    assert_eq!(code(client.call::<RunsAbort>(by_session).await.unwrap_err()), ErrorCode::NotFound);
    let by_run = AbortParams { run: Some(run.to_string()), ..AbortParams::default() };
    assert_eq!(code(client.call::<RunsAbort>(by_run).await.unwrap_err()), ErrorCode::NotFound);
    home.leave().await;
}

/// R60: nobody waits for a run that never was; a run whose message waits is waited for.
#[tokio::test]
async fn r60_a_wait_for_a_run_that_never_was_is_refused_at_once() {
    let home = Home::paced(Duration::from_hours(1));
    let (client, _events) = home.client().await;
    let wait = |run_id, timeout_ms| WaitParams { run_id, timeout_ms };
    let never = RunId(uuid::Uuid::nil());
    for timeout_ms in [0, 3_600_000] {
        let refused = client.call::<AgentWait>(wait(never, timeout_ms)).await.unwrap_err();
        assert_eq!(code(refused), ErrorCode::NotFound);
    }
    let mut first = client.ask::<Agent>(message("main", "k1", "Who are you?")).unwrap();
    accepted(&mut first).await;
    let followup = AgentParams { mode: Some(QueueMode::Followup), ..message("main", "k2", "And now?") };
    let mut second = client.ask::<Agent>(followup).unwrap();
    let queued = accepted(&mut second).await;
    let waited = client.call::<AgentWait>(wait(queued, 0)).await.unwrap();
    assert_eq!((waited.status, waited.started_at), (WaitStatus::Timeout, None));
    home.leave().await;
}

/// R18: no transition is missing: each line begins where the previous one ended, also from `completed` to `idle`.
#[tokio::test]
async fn r18_each_line_of_a_page_of_the_audit_begins_where_the_one_before_it_ended() {
    let home = Home::new();
    let (client, _events) = home.client().await;
    for key in ["k1", "k2"] {
        let mut answers = client.ask::<Agent>(message("main", key, "Who are you?")).unwrap();
        accepted(&mut answers).await;
        ended(&mut answers).await;
    }
    let params = AuditParams { session_key: Some("main".to_owned()), ..AuditParams::default() };
    let lines = client.call::<SessionsAudit>(params).await.unwrap().lines;
    for pair in lines.windows(2) {
        assert_eq!(pair[0].to, pair[1].from, "{pair:?}");
        assert_eq!(pair[0].lifecycle_to, pair[1].lifecycle_from, "{pair:?}");
    }
    let is_left = |line: &&AuditLine| (line.from, line.to) == (Some(RunState::Completed), Some(RunState::Idle));
    let left: Vec<_> = lines.iter().filter(is_left).map(|line| (line.event.as_str(), line.run)).collect();
    let ended = lines.iter().filter(|line| line.event == "run_ended");
    assert_eq!(left, ended.map(|line| ("lifecycle_changed", line.run)).collect::<Vec<_>>());
    assert_eq!(left.len(), 2);
    home.leave().await;
}

#[tokio::test]
async fn r60_an_impossible_request_is_refused_and_records_nothing() {
    let home = Home::new();
    let (client, _events) = home.client().await;
    let said = |params| {
        let client = client.clone();
        async move { code(client.ask::<Agent>(params).unwrap().next().await.unwrap_err()) }
    };
    assert_eq!(said(message("a b", "k", "go")).await, ErrorCode::InvalidRequest);
    assert_eq!(said(message("main", "k", "  ")).await, ErrorCode::InvalidRequest);
    assert_eq!(said(message("main", "", "go")).await, ErrorCode::InvalidRequest);
    let model = Some("none/such".to_owned());
    assert_eq!(said(protocol::method::AgentParams { model, ..message("main", "k", "go") }).await, ErrorCode::Config);
    let attached = |content: &str| protocol::method::AgentParams {
        attachments: vec![Attachment { name: "a.txt".to_owned(), content: content.to_owned() }],
        ..message("main", "k", "go")
    };
    assert_eq!(said(attached("?")).await, ErrorCode::InvalidRequest);
    assert_eq!(said(attached("")).await, ErrorCode::InvalidRequest);
    let nobody = ResumeParams { session_key: Some("nobody".to_owned()), force: false };
    assert_eq!(code(client.call::<SessionsResume>(nobody).await.unwrap_err()), ErrorCode::NotFound);
    assert!(home.service.runtime().journal().sessions().unwrap().is_empty());

    let text = base64::engine::general_purpose::STANDARD.encode("three lines");
    let mut answers = client.ask::<Agent>(attached(&text)).unwrap();
    accepted(&mut answers).await;
    assert_eq!(ended(&mut answers).await.outcome, Outcome::Completed);
    home.leave().await;
}

/// R15: an owner that shuts down notifies its clients; the next one resumes what was unfinished.
#[tokio::test]
async fn r15_waiters_are_notified_when_the_owner_leaves_and_the_next_owner_resumes() {
    let home = Home::paced(Duration::from_hours(1));
    let (client, mut events) = home.client().await;
    let mut answers = client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    let run = accepted(&mut answers).await;
    let leaving = home.leave();
    let (folder, event) = tokio::join!(leaving, answers.next());
    let ClientError::Answered(shape) = event.unwrap_err() else { panic!("the connection was cut first") };
    assert_eq!((shape.code, shape.retryable), (ErrorCode::Unavailable, Some(true)));
    assert_eq!(observe(&mut events).await.unwrap().event, "shutdown");
    assert!(observe(&mut events).await.is_none());

    let home = Home::in_folder(folder, Duration::ZERO);
    assert!(home.service.runtime().actors().borrow().eq(&0));
    let (client, _events) = home.client().await;
    let resumed = client.call::<SessionsResume>(ResumeParams::default()).await.unwrap();
    assert_eq!(resumed.session_keys, [KEY]);
    let waited = client.call::<AgentWait>(WaitParams { run_id: run, timeout_ms: 3_600_000 }).await.unwrap();
    assert_eq!(waited.status, WaitStatus::Ok);
    let nothing = client.call::<SessionsResume>(ResumeParams::default()).await.unwrap();
    assert!(nothing.session_keys.is_empty());
    home.leave().await;
}

/// R35: after a restart, runs queue for lanes in the order in which they were accepted, not in which their sessions
/// were created.
#[tokio::test]
async fn r35_the_next_owner_queues_runs_in_the_order_of_acceptance() {
    const NAMES: [&str; 6] = ["s0", "s1", "s2", "s3", "s4", "s5"];
    let home = Home::new();
    let (client, _events) = home.client().await;
    for name in NAMES {
        let mut answers = client.ask::<Agent>(message(name, "first", "Who are you?")).unwrap();
        accepted(&mut answers).await;
        ended(&mut answers).await;
    }
    let home = home.again(Duration::from_hours(1)).await;
    let (client, _events) = home.client().await;
    for name in NAMES.iter().rev() {
        accepted(&mut client.ask::<Agent>(message(name, "second", "Who are you?")).unwrap()).await;
    }
    let home = home.again(Duration::from_hours(1)).await;
    home.service.resume().await.unwrap();
    let waits = home.service.runtime().waits();
    let waiting: Vec<_> = waits.iter().map(|wait| &*wait.request.session).collect();
    assert_eq!(waiting, ["agent:main:s1", "agent:main:s0"], "the four that were accepted first hold the lane");
    home.leave().await;
}

/// R41: a folder that a client names and that is not there is refused; the default one is made.
#[tokio::test]
async fn r41_a_workspace_that_a_client_names_and_that_is_not_there_is_refused() {
    let home = Home::new();
    let (client, _events) = home.client().await;
    let missing = home.path().join("../nowhere");
    let named =
        |key: &str| AgentParams { workspace: Some(missing.display().to_string()), ..message("main", key, "ls") };
    let refused = client.ask::<Agent>(named("k")).unwrap().next().await.unwrap_err();
    assert_eq!(code(refused), ErrorCode::InvalidRequest);
    assert!(!missing.exists());
    std::fs::create_dir(&missing).unwrap();
    let mut answers = client.ask::<Agent>(named("k")).unwrap();
    accepted(&mut answers).await;
    assert_eq!(ended(&mut answers).await.outcome, Outcome::Completed);
    home.leave().await;
}

#[tokio::test]
async fn r60_a_method_is_reached_by_its_old_name_and_the_owner_is_warned_once() {
    let mut home = Home::new();
    let (client, hello, mut events) = home.connect(vec![Cap::Asks]).await;
    assert!(["asks.answer", "approvals.resolve"].iter().all(|name| hello.features.methods.iter().any(|m| m == name)));
    let mut answers = client.ask::<Agent>(message("main", "k", "run `echo hi > there.txt`")).unwrap();
    accepted(&mut answers).await;
    let ask = observe(&mut events).await.unwrap();
    let (call, fingerprint) = (&ask.payload["call"], &ask.payload["fingerprint"]);
    let answer = json!({ "call": call, "fingerprint": fingerprint, "allow": false });
    client.request("asks.answer", answer.clone()).await.unwrap();
    client.request("asks.answer", answer).await.unwrap_err();
    ended(&mut answers).await;
    let warning = home.notes.recv().await.unwrap();
    assert!(warning.contains("the method `asks.answer` is now called `approvals.resolve`"), "{warning}");
    assert!(home.notes.try_recv().is_err(), "once");
    home.leave().await;
}

#[tokio::test]
async fn r60_health_and_the_handshake_say_who_answers() {
    let home = Home::new();
    let (client, hello, _events) = home.connect(vec![]).await;
    assert_eq!((hello.kind.as_str(), hello.protocol, hello.server.epoch), ("hello-ok", 1, 1));
    assert_eq!(hello.server.pid, std::process::id());
    let health = client.call::<HealthGet>(NoParams {}).await.unwrap();
    assert_eq!((health.ok, health.connections, health.open_sessions), (true, 1, 0));
    let subscribed = client.call::<EventsSubscribe>(SubscribeParams::default()).await.unwrap();
    let end = || UnsubscribeParams { subscription: subscribed.subscription };
    client.call::<EventsUnsubscribe>(end()).await.unwrap();
    assert_eq!(code(client.call::<EventsUnsubscribe>(end()).await.unwrap_err()), ErrorCode::NotFound);
    home.leave().await;
}

/// R20: a session is terminated together with its run, and accepts nothing more.
#[tokio::test]
async fn r20_a_session_is_terminated_over_the_socket() {
    let home = Home::paced(Duration::from_hours(1));
    let (client, _events) = home.client().await;
    let mut answers = client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    accepted(&mut answers).await;
    let end = |key: &str| EndParams { session_key: key.to_owned() };
    let gone = client.call::<SessionsEnd>(end("main")).await.unwrap();
    assert_eq!((gone.session_key.as_str(), gone.left.len()), (KEY, 0));
    assert_eq!(ended(&mut answers).await.outcome, Outcome::Aborted);
    let refused = client.ask::<Agent>(message("main", "k2", "Who are you?")).unwrap().next().await.unwrap_err();
    assert_eq!(code(refused), ErrorCode::Refused);
    assert_eq!(client.call::<SessionsEnd>(end("main")).await.unwrap(), gone, "asked again");
    assert_eq!(code(client.call::<SessionsEnd>(end("nobody")).await.unwrap_err()), ErrorCode::NotFound);
    home.leave().await;
}

/// R10: connected clients are notified that sessions wait for disk space, also clients that connect later, and that
/// none waits any more.
#[tokio::test]
async fn r10_b8_clients_are_notified_of_sessions_that_wait_for_space() {
    let journal = Arc::new(Memory::new());
    journal.open();
    let home = Home::with_journal(tempfile::tempdir().unwrap(), Duration::ZERO, journal.clone());
    let (client, mut events) = home.client().await;
    journal.fill();
    let refused = client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap().next().await.unwrap_err();
    assert_eq!(code(refused), ErrorCode::Store);
    let event = observe(&mut events).await.unwrap();
    assert_eq!((event.event.as_str(), &event.payload["sessions"][0]["sessionKey"]), ("parked", &json!(KEY)));
    assert!(event.payload["needsBytes"].as_u64().is_some_and(|bytes| bytes > 0));
    let (late, mut late_events) = home.client().await;
    assert_eq!(observe(&mut late_events).await.unwrap().event, "parked");
    assert!(!late.call::<HealthGet>(NoParams {}).await.unwrap().ok);

    journal.free();
    let mut answers = client.ask::<Agent>(message("main", "k", "Who are you?")).unwrap();
    accepted(&mut answers).await;
    assert_eq!(ended(&mut answers).await.outcome, Outcome::Completed);
    while observe(&mut events).await.unwrap().payload["sessions"] != json!([]) {}
    home.leave().await;
}
