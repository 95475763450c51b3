//! The reply of a run that has ended (R46).

use engine::{Command, Failure, FailureClass, Override};
use protocol::show::{AttemptKind, Payload, Reply, ReplyStop};

use super::*;

fn reply(scene: &Scene) -> Reply {
    show(scene, &RunParams::default()).reply.expect("the run has ended")
}

fn text(text: &str) -> Payload {
    Payload::Text { text: text.to_owned(), place: None }
}

/// A run that calls a tool, which ends like this, and then answers.
fn after_a_call(verbose: bool, outcome: CallOutcome, answer: &str) -> Scene {
    let mut scene = Scene::new();
    if verbose {
        scene.offer(Command::Override(Override::Verbose(Some(true))));
    }
    scene.start("look around");
    scene.stream("I will look.");
    scene.call("exec", r#"{"command":"ls"}"#);
    scene.end_stream();
    scene.allow_and_start();
    scene.settle_as(outcome, "3 files");
    scene.stream(answer);
    scene.end_stream();
    scene
}

#[test]
fn r46_an_answer_is_a_payload_and_a_run_that_has_not_ended_has_no_reply() {
    let mut scene = Scene::new();
    scene.start("hello");
    scene.stream("Hello.");
    assert_eq!(show(&scene, &RunParams::default()).reply, None);
    scene.end_stream();
    let Reply { payloads, meta } = reply(&scene);
    assert_eq!(payloads, [text("Hello.")]);
    assert_eq!(
        (meta.provider.as_deref(), meta.model.as_deref(), meta.profile),
        (Some("offline"), Some("offline"), None)
    );
    assert_eq!((meta.stop_reason, meta.error, meta.usage.output), (ReplyStop::Stop, None, 20));
    assert_eq!((meta.attempts.len(), meta.attempts[0].kind, &meta.attempts[0].reason), (1, AttemptKind::Tried, &None));
}

#[test]
fn r46_calls_are_named_in_a_session_that_shows_its_runs_in_detail() {
    assert_eq!(reply(&after_a_call(false, CallOutcome::Done, "Done.")).payloads, [text("Done.")]);
    let scene = after_a_call(true, CallOutcome::Done, "Done.");
    let summary = Payload::ToolSummary { text: r#"exec {"command":"ls"} — done"#.to_owned() };
    assert_eq!(reply(&scene).payloads, [summary, text("Done.")]);
    assert_eq!(reply(&scene).meta.attempts.len(), 1, "two answered requests to one model are one attempt");
}

#[test]
fn r46_no_reply_is_silent_unless_a_tool_failed() {
    assert_eq!(reply(&after_a_call(false, CallOutcome::Done, "NO_REPLY\n")).payloads, []);
    let failed = Payload::Error { text: "`exec` failed".to_owned() };
    assert_eq!(reply(&after_a_call(false, CallOutcome::Failed, "NO_REPLY")).payloads, [failed]);
    assert_eq!(reply(&after_a_call(false, CallOutcome::Failed, "It failed.")).payloads, [text("It failed.")]);
}

#[test]
fn r46_a_failed_run_says_why_and_what_was_tried() {
    let mut scene = Scene::new();
    scene.start("hello");
    scene.stream("Half");
    scene.crash();
    scene.stream("Hel");
    let mut failure = Failure::new(FailureClass::InvalidRequest, "no such parameter");
    (failure.status, failure.code) = (Some(400), Some("bad_parameter".to_owned()));
    scene.fail(failure);
    let Reply { payloads, meta } = reply(&scene);
    assert_eq!(payloads.last(), Some(&Payload::Error { text: "no such parameter".to_owned() }));
    let error = meta.error.expect("an error");
    assert_eq!((meta.stop_reason, error.kind), (ReplyStop::Error, FailureClass::InvalidRequest));
    let reasons: Vec<_> = meta.attempts.iter().map(|attempt| attempt.reason.as_deref()).collect();
    assert_eq!(reasons, [Some("crash"), Some("invalid_request")]);
    assert_eq!((meta.attempts[1].status, meta.attempts[1].code.as_deref()), (Some(400), Some("bad_parameter")));
}
