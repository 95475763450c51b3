//! Approvals over the socket: who is asked, what an answer may say, and what is remembered of it.

use std::time::Duration;

use engine::Outcome;
use protocol::method::{
    AbortParams, Agent, AgentParams, AlwaysParams, AlwaysScope, AnswerParams, ApprovalParams, ApprovalShown,
    ApprovalsGrants, ApprovalsList, ApprovalsListParams, ApprovalsResolve, ApprovalsRevoke, ApprovalsShow, Cap,
    EventsSubscribe, NoParams, RevokeParams, RunResumeParams, RunsAbort, RunsResume, SubscribeParams,
};
use protocol::{Client, ErrorCode};
use serde_json::json;

use crate::methods::{accepted, code, ended};
use crate::support::{Home, KEY, message, observe};

fn answer_to(asked: &serde_json::Value, allow: bool) -> AnswerParams {
    let call = serde_json::from_value(asked["call"].clone()).unwrap();
    AnswerParams::once(call, serde_json::from_value(asked["fingerprint"].clone()).unwrap(), allow)
}

/// R15: an abort reaches a run that waits for approval: its request closes, and the call never runs.
#[tokio::test]
async fn r15_an_abort_withdraws_an_approval_request() {
    let home = Home::new();
    let (client, _, mut events) = home.connect(vec![Cap::Asks]).await;
    let mut answers = client.ask::<Agent>(message("main", "k", "run `echo hi > there.txt`")).unwrap();
    let run = accepted(&mut answers).await;
    assert_eq!(observe(&mut events).await.unwrap().event, "ask");
    client.call::<RunsAbort>(AbortParams { run: Some(run.to_string()), ..AbortParams::default() }).await.unwrap();
    assert_eq!(ended(&mut answers).await.outcome, Outcome::Aborted);
    assert_eq!(observe(&mut events).await.unwrap().event, "answered");
    home.leave().await;
}

/// R60: every client that can approve receives the request, also one that connects later; the first answer counts, and
/// the others are notified.
#[tokio::test]
async fn r60_an_approval_request_goes_to_all_approvers_and_the_first_answer_counts() {
    let home = Home::new();
    let (client, _, mut events) = home.connect(vec![Cap::Asks]).await;
    let mut answers = client.ask::<Agent>(message("main", "k", "run `echo hi > there.txt`")).unwrap();
    accepted(&mut answers).await;
    let ask = observe(&mut events).await.unwrap();
    assert_eq!((ask.event.as_str(), &ask.payload["session"]), ("ask", &json!(KEY)));
    let (second, _, mut second_events) = home.connect(vec![Cap::Asks]).await;
    assert_eq!(observe(&mut second_events).await.unwrap().payload, ask.payload, "the request is still open");
    let answer = |allow| answer_to(&ask.payload, allow);
    second.call::<ApprovalsResolve>(answer(false)).await.unwrap();
    let late = client.call::<ApprovalsResolve>(answer(true)).await.unwrap_err();
    assert!(matches!(code(late), ErrorCode::Refused | ErrorCode::NotFound));
    for events in [&mut events, &mut second_events] {
        let event = observe(events).await.unwrap();
        assert_eq!((event.event.as_str(), &event.payload["allow"]), ("answered", &json!(false)));
    }
    ended(&mut answers).await;

    home.leave().await;
}

/// R60: a client that follows a session is asked for this session only, behind the lines that came before.
#[tokio::test]
async fn r60_a_client_that_follows_a_session_is_asked_for_no_other() {
    let home = Home::new();
    let follow = |key: &str| SubscribeParams { session: Some(key.to_owned()), ..SubscribeParams::default() };
    let (other, _, mut other_events) = home.connect(vec![Cap::Asks]).await;
    other.call::<EventsSubscribe>(follow("other")).await.unwrap();
    let (client, _, mut events) = home.connect(vec![Cap::Asks]).await;
    client.call::<EventsSubscribe>(follow("main")).await.unwrap();
    let mut answers = client.ask::<Agent>(message("main", "k", "run `echo hi > there.txt`")).unwrap();
    accepted(&mut answers).await;
    let mut has_asked_line = false;
    let ask = loop {
        let event = observe(&mut events).await.unwrap();
        if event.event == "ask" {
            break event;
        }
        has_asked_line |= event.payload["stream"] == "tool" && event.payload["type"] == "asked";
    };
    assert!(has_asked_line, "the question comes behind its line");
    // One that begins to follow later is asked behind the lines that it missed.
    let (late, _, mut late_events) = home.connect(vec![Cap::Asks]).await;
    assert_eq!(observe(&mut late_events).await.unwrap().payload, ask.payload, "it follows nothing yet");
    late.call::<EventsSubscribe>(SubscribeParams { whole: true, ..follow("main") }).await.unwrap();
    let mut missed = vec![];
    while missed.last().is_none_or(|event: &protocol::EventFrame| event.event != "ask") {
        missed.push(observe(&mut late_events).await.unwrap());
    }
    assert!(missed.len() > 3 && missed.last().unwrap().payload == ask.payload, "{missed:?}");
    let answer = answer_to(&ask.payload, false);
    client.call::<ApprovalsResolve>(answer).await.unwrap();
    ended(&mut answers).await;
    assert_eq!(observe(&mut other_events).await.unwrap().event, "answered", "nothing was asked there");
    home.leave().await;
}

/// R60: whether a call waits never depends on who is connected: one that follows another session is not asked, and the call
/// waits for the one that comes.
#[tokio::test]
async fn r60_a_call_waits_though_only_a_client_of_another_session_is_connected() {
    let home = Home::new();
    let (client, _, mut events) = home.connect(vec![Cap::Asks]).await;
    let follow = SubscribeParams { session: Some("other".to_owned()), ..SubscribeParams::default() };
    client.call::<EventsSubscribe>(follow).await.unwrap();
    let mut answers = client.ask::<Agent>(message("main", "k2", "run `echo hi > there.txt`")).unwrap();
    accepted(&mut answers).await;
    let asked = open_request(&client).await;
    let (other, _, mut other_events) = home.connect(vec![Cap::Asks]).await;
    let ask = observe(&mut other_events).await.unwrap();
    assert_eq!((ask.event.as_str(), ask.payload["call"].as_str()), ("ask", Some(asked.call.to_string().as_str())));
    other.call::<ApprovalsResolve>(answer_to(&ask.payload, true)).await.unwrap();
    assert_eq!(observe(&mut events).await.unwrap().event, "answered", "nothing was asked there");
    let text = ended(&mut answers).await.text;
    assert!(!text.contains("not allowed"), "{text}");
    home.leave().await;
}

/// The one request that is open, once there is one.
async fn open_request(client: &Client) -> ApprovalShown {
    loop {
        let listed = client.call::<ApprovalsList>(ApprovalsListParams::default()).await.unwrap();
        if let [one] = &listed.approvals[..] {
            return one.clone();
        }
        tokio::task::yield_now().await;
    }
}

/// R60: a request is answered by its id, with arguments of the user's, a pattern, or a reason; what does not fit is refused
/// and changes nothing.
#[tokio::test]
async fn r60_a_request_is_answered_once_with_arguments_for_good_or_with_a_reason() {
    let home = Home::new();
    let (client, _events) = home.client().await;
    let start = |key: &'static str, text: &str| client.ask::<Agent>(message("main", key, text)).unwrap();
    let once = |asked: &ApprovalShown, allow| AnswerParams::once(asked.call, asked.fingerprint.unwrap(), allow);
    let mut answers = start("k1", "run `echo one > there.txt`");
    accepted(&mut answers).await;
    let asked = open_request(&client).await;
    assert_eq!((asked.tool.as_str(), &asked.arguments["command"]), ("exec", &json!("echo one > there.txt")));
    let refused = |params| {
        let client = client.clone();
        async move { code(client.call::<ApprovalsResolve>(params).await.unwrap_err()) }
    };
    let stale = AnswerParams { fingerprint: engine::Hash::of(b"another call"), ..once(&asked, true) };
    assert_eq!(refused(stale).await, ErrorCode::Refused);
    for params in [
        AnswerParams { reason: Some("no".to_owned()), ..once(&asked, true) },
        AnswerParams { arguments: Some(json!({})), ..once(&asked, false) },
        AnswerParams { arguments: Some(json!({ "comand": "ls" })), ..once(&asked, true) },
        AnswerParams { reason: Some("n".repeat(9_000)), ..once(&asked, false) },
        AnswerParams { always: Some(always(&["git log *"])), ..once(&asked, true) },
    ] {
        assert_eq!(refused(params.clone()).await, ErrorCode::InvalidRequest, "{params:?}");
    }
    assert!(client.call::<ApprovalsGrants>(NoParams {}).await.unwrap().grants.is_empty(), "nothing was granted");
    let edited = AnswerParams { arguments: Some(json!({ "command": "echo two > there.txt" })), ..once(&asked, true) };
    client.call::<ApprovalsResolve>(edited).await.unwrap();
    let text = ended(&mut answers).await.text;
    assert!(text.contains("changed the arguments of this call to {\"command\":\"echo two"), "{text}");
    let late = client.call::<ApprovalsResolve>(once(&asked, false)).await.unwrap_err().to_string();
    assert!(late.contains("already approved by the user"), "{late}");

    let mut answers = start("k2", "run `echo three > there.txt`");
    accepted(&mut answers).await;
    let asked = open_request(&client).await;
    let shown = client.call::<ApprovalsShow>(ApprovalParams { id: asked.id[..6].to_owned() }).await.unwrap();
    let offered = shown.always.expect("it can be allowed for good");
    assert_eq!(offered.commands, ["echo three", "> there.txt"]);
    let patterns = always(&["echo *", "> there.txt"]);
    client.call::<ApprovalsResolve>(AnswerParams { always: Some(patterns), ..once(&asked, true) }).await.unwrap();
    ended(&mut answers).await;
    let mut answers = start("k3", "run `echo four > there.txt`");
    accepted(&mut answers).await;
    let text = ended(&mut answers).await.text;
    assert!(!text.contains("not allowed"), "nobody was asked: {text}");
    let grants = client.call::<ApprovalsGrants>(NoParams {}).await.unwrap().grants;
    assert_eq!((grants.len(), grants[0].allowed, grants[0].id.as_str()), (1, 1, asked.id.as_str()));
    client.call::<ApprovalsRevoke>(RevokeParams { id: asked.id.clone() }).await.unwrap();
    assert_eq!(
        code(client.call::<ApprovalsRevoke>(RevokeParams { id: asked.id }).await.unwrap_err()),
        ErrorCode::NotFound
    );

    let mut answers = start("k4", "run `echo five > there.txt`");
    accepted(&mut answers).await;
    let asked = open_request(&client).await;
    let deny = AnswerParams { reason: Some("the file is mine".to_owned()), ..once(&asked, false) };
    client.call::<ApprovalsResolve>(deny).await.unwrap();
    let text = ended(&mut answers).await.text;
    assert!(text.contains("the file is mine"), "{text}");
    home.leave().await;
}

fn always(patterns: &[&str]) -> AlwaysParams {
    let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    AlwaysParams { scope: AlwaysScope::Session, patterns }
}

/// R60: a session, an agent and a home are the scopes of grants.
#[tokio::test]
async fn r60_a_grant_is_for_its_scope_alone() {
    let home = Home::new();
    let (client, _events) = home.client().await;
    for (scope, session, key) in [
        (AlwaysScope::Session, "one", "k1"),
        (AlwaysScope::Agent, "two", "k2"),
        (AlwaysScope::Home, "agent:b:three", "k3"),
    ] {
        let mut answers = client.ask::<Agent>(message(session, key, &format!("run `echo {key}`"))).unwrap();
        accepted(&mut answers).await;
        let asked = open_request(&client).await;
        let once = AnswerParams::once(asked.call, asked.fingerprint.unwrap(), true);
        let always = Some(AlwaysParams { scope, patterns: vec![] });
        client.call::<ApprovalsResolve>(AnswerParams { always, ..once }).await.unwrap();
        ended(&mut answers).await;
    }
    for (command, session, is_allowed) in [
        ("k1", "one", true),
        ("k1", "two", false),
        ("k2", "one", true),
        ("k2", "agent:b:one", false),
        ("k3", "one", true),
        ("k3", "agent:b:one", true),
    ] {
        let key = format!("{command} {session}");
        let text = format!("run `echo {command}`");
        let of_session = AgentParams { unattended: Some(engine::Unattended::Deny), ..message(session, &key, &text) };
        let mut answers = client.ask::<Agent>(of_session).unwrap();
        accepted(&mut answers).await;
        let text = ended(&mut answers).await.text;
        assert_eq!(!text.contains("not allowed"), is_allowed, "{key}: {text}");
    }
    home.leave().await;
}

/// R60: a message says that nobody attends its run: then a call is denied at once, also if somebody is connected.
#[tokio::test]
async fn r60_a_call_of_a_run_that_nobody_attends_is_denied_whoever_is_connected() {
    let home = Home::new();
    let (client, _, mut events) = home.connect(vec![Cap::Asks]).await;
    let unattended = Some(engine::Unattended::Deny);
    let params = AgentParams { unattended, ..message("main", "k2", "run `echo hi > there.txt`") };
    let mut answers = client.ask::<Agent>(params).unwrap();
    accepted(&mut answers).await;
    ended(&mut answers).await;
    assert!(!home.path().join("../workspace/there.txt").exists());
    assert!(client.call::<ApprovalsList>(ApprovalsListParams::default()).await.unwrap().approvals.is_empty());
    let closed = ApprovalsListParams { closed: true, ..ApprovalsListParams::default() };
    let closed = client.call::<ApprovalsList>(closed).await.unwrap().approvals;
    assert_eq!((closed.len(), closed[0].allowed), (1, Some(false)));
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(1), observe(&mut events)).await {
        assert_ne!(event.unwrap().event, "ask");
    }
    home.leave().await;
}

/// R60: an approval for good answers what waits for the same elsewhere.
#[tokio::test]
async fn r60_a_grant_answers_the_open_requests_that_it_covers() {
    let home = Home::new();
    let (client, _events) = home.client().await;
    let mut running = vec![];
    for (session, command) in [("one", "git log -1"), ("two", "git log -2"), ("three", "git push")] {
        let text = format!("run `{command}`");
        let mut answers = client.ask::<Agent>(message(session, session, &text)).unwrap();
        accepted(&mut answers).await;
        running.push(answers);
    }
    let open = || client.call::<ApprovalsList>(ApprovalsListParams::default());
    while open().await.unwrap().approvals.len() < 3 {
        tokio::task::yield_now().await;
    }
    let asked = open().await.unwrap().approvals.into_iter().find(|asked| asked.session.ends_with(":one")).unwrap();
    let always = Some(AlwaysParams { scope: AlwaysScope::Home, patterns: vec![] });
    let once = AnswerParams::once(asked.call, asked.fingerprint.unwrap(), true);
    client.call::<ApprovalsResolve>(AnswerParams { always, ..once }).await.unwrap();
    for mut answers in running.drain(..2) {
        ended(&mut answers).await;
    }
    let left = open().await.unwrap().approvals;
    assert!(left.len() == 1 && left[0].what.contains("git push"), "{left:?}");
    let closed = ApprovalsListParams { closed: true, ..ApprovalsListParams::default() };
    let closed = client.call::<ApprovalsList>(closed).await.unwrap().approvals;
    assert!(closed.iter().any(|row| row.by.as_deref().is_some_and(|by| by.contains("all such calls"))), "{closed:?}");
    home.leave().await;
}

/// R60: a paused run asks nobody; its request comes when it is resumed, also under another owner.
#[tokio::test]
async fn r60_a_paused_run_asks_nobody_until_it_is_resumed() {
    for another_owner in [false, true] {
        let mut home = Home::new();
        let (mut client, _, mut events) = home.connect(vec![Cap::Asks]).await;
        let stopping = AgentParams { stop_before: vec!["exec".to_owned()], ..message("main", "k", "run `date`") };
        let mut answers = client.ask::<Agent>(stopping).unwrap();
        let run = accepted(&mut answers).await;
        let asked = open_request(&client).await;
        if another_owner {
            home = home.again(Duration::ZERO).await;
            home.service.resume().await.unwrap();
            (client, _, events) = home.connect(vec![Cap::Asks]).await;
        }
        let resume = RunResumeParams { run: Some(run.to_string()), ..RunResumeParams::default() };
        client.call::<RunsResume>(resume).await.unwrap();
        let ask = observe(&mut events).await.unwrap();
        assert_eq!(ask.event, "ask");
        client.call::<ApprovalsResolve>(answer_to(&ask.payload, false)).await.unwrap();
        let answered = observe(&mut events).await.unwrap();
        assert_eq!(answered.event, "answered", "it was asked once");
        assert_eq!(answered.payload["call"], json!(asked.call));
        home.leave().await;
    }
}
