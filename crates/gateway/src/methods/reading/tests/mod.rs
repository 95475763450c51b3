//! Results of the reading methods, from scenes driven through the real machine.

mod answers;
mod approvals;
mod receipts;
mod reply;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{CallOutcome, Found, ResumeMode};
use protocol::method::RunParams;
use protocol::show::{CallStage, Owner, RunStory, Status, TraceLine};
use views::lookup;
use views::scene::Scene;

use super::status::gather;
use super::*;

fn show(scene: &Scene, choice: &RunParams) -> RunStory {
    RunsShow::read(&Source::of(&scene.journal), choice.clone()).unwrap()
}

fn lines(scene: &Scene) -> Vec<TraceLine> {
    trace(scene, &RunParams::default())
}

fn trace(scene: &Scene, choice: &RunParams) -> Vec<TraceLine> {
    RunsTrace::read(&Source::of(&scene.journal), choice.clone()).unwrap().lines
}

fn by_id(id: &str) -> RunParams {
    RunParams { run: Some(id.to_owned()), session: None }
}

/// With this owner, if there is one.
fn status(scene: &Scene, owner: Option<u32>) -> Status {
    gather(&Source::of(&scene.journal), owner.map(|pid| Owner { pid, since: None, resident_bytes: None, held: None }))
        .unwrap()
}

#[test]
fn r21_an_unfinished_session_says_what_it_waits_for() {
    let mut scene = Scene::new();
    scene.start("look around");
    scene.stream("Here is ");
    assert_eq!(status(&scene, Some(7)).unfinished[0].waits_for, "the rest of an answer");
    scene.crash();
    scene.crash();
    scene.crash();
    let held = status(&scene, Some(7));
    assert_eq!(held.unfinished[0].lifecycle, LifecycleKind::Error);
    assert!(held.unfinished[0].waits_for.ends_with("repair it with `limulus resume agent:main:main --force`"));
}

#[test]
fn r21_until_when_a_session_waits_is_a_time() {
    let mut scene = Scene::new();
    scene.start("look around");
    let mut failure = engine::Failure::new(engine::FailureClass::RateLimit, "too many requests");
    (failure.status, failure.retry_after_ms) = (Some(429), Some(60_000));
    scene.fail(failure);
    let waits = |owner: Option<u32>| {
        let unfinished = status(&scene, owner).unfinished.remove(0);
        (unfinished.waits_for, unfinished.waits_until.map(|until| until.since(unfinished.last_activity)))
    };
    assert_eq!(waits(Some(7)), ("its next try".to_owned(), Some(60_000)));
    let (waits_for, until) = waits(None);
    assert!(waits_for.starts_with("an owner") && waits_for.ends_with("; it waits for its next try"), "{waits_for}");
    assert_eq!(until, Some(60_000), "the time does not depend on whether anybody is there");
}

#[test]
fn r21_an_approval_request_is_shown_with_its_text() {
    let mut scene = Scene::new();
    scene.start("clean up");
    scene.call("exec", r#"{"command":"rm -r old"}"#);
    scene.end_stream();
    scene.ask("run the command `rm -r old`");
    assert_eq!(status(&scene, Some(7)).unfinished[0].waits_for, "approval to run the command `rm -r old`");
}

#[test]
fn r10_the_open_stream_is_shown_up_to_its_last_piece() {
    let mut scene = Scene::new();
    scene.start("hello");
    scene.stream("Hel");
    scene.stream("lo.");
    let run = show(&scene, &RunParams::default());
    assert_eq!((run.text.as_str(), run.open_text.as_str()), ("", "Hello."));
    assert_eq!(run.open_request.unwrap().to_string(), "00000000-0000-0000-0000-000000000101/request/1/1");
    scene.end_stream();
    let run = show(&scene, &RunParams::default());
    assert_eq!((run.text.as_str(), run.open_text.as_str(), run.open_request), ("Hello.", "", None));
    assert_eq!(run.summary.outcome, Some(engine::Outcome::Completed));
    assert_eq!((run.summary.usage.input, run.summary.usage.output), (100, 20));
}

#[test]
fn r12_retracted_text_is_hidden_and_kept_text_is_shown() {
    let mut scene = Scene::new();
    scene.start("hello");
    scene.stream("Half");
    scene.crash();
    let run = show(&scene, &RunParams::default());
    assert_eq!((run.text.as_str(), run.steps.len(), run.open_text.as_str()), ("", 0, ""));
    scene.stream("Whole");
    scene.end_stream();
    let run = show(&scene, &RunParams::default());
    assert_eq!((run.text.as_str(), run.steps.len()), ("Whole", 1));
    assert_eq!((run.steps[0].request.ordinal, run.steps[0].request.try_no), (1, 2));

    let mut scene = Scene::new();
    scene.message("hello");
    scene.enter_lane(ResumeMode::Continue);
    scene.stream("First, ");
    scene.crash();
    assert_eq!(show(&scene, &RunParams::default()).text, "First, ");
    scene.stream("second.");
    let run = show(&scene, &RunParams::default());
    assert_eq!((run.text.as_str(), run.open_text.as_str()), ("First, ", "second."));
    scene.end_stream();
    let run = show(&scene, &RunParams::default());
    assert_eq!(run.text, "First, second.");
    assert_eq!(run.steps.iter().map(|step| step.text.as_str()).collect::<Vec<_>>(), ["First, ", "second."]);
}

#[test]
fn r13_a_call_is_shown_at_each_stage_and_once() {
    let mut scene = Scene::new();
    scene.start("make it");
    scene.call("exec", r#"{"command":"make"}"#);
    scene.end_stream();
    let stage = |scene: &Scene| {
        let run = show(scene, &RunParams::default());
        assert_eq!((run.steps.len(), run.steps[0].calls.len()), (1, 1));
        let call = &run.steps[0].calls[0];
        (call.stage, call.outcome)
    };
    assert_eq!(stage(&scene), (CallStage::Guarding, None));
    scene.allow_and_start();
    assert_eq!(stage(&scene), (CallStage::Started, None));
    scene.crash();
    assert_eq!(stage(&scene), (CallStage::Lost, None));
    scene.found(Found::Unknown);
    assert_eq!(stage(&scene), (CallStage::Settled, Some(CallOutcome::Interrupted)));
}

#[test]
fn r18_an_orderly_restart_is_not_a_crash() {
    let mut scene = Scene::new();
    scene.start("hello");
    scene.restart();
    scene.stream("Hi.");
    scene.end_stream();
    let lines = lines(&scene);
    let details: Vec<&str> = lines.iter().filter_map(|line| line.detail.as_deref()).collect();
    assert!(details.contains(&"owner 1 shut down in order") && details.contains(&"opened by epoch 2"), "{details:?}");
    assert!(lines.iter().all(|line| !line.crash));
}

#[test]
fn the_story_of_one_run_has_nothing_of_another() {
    let mut scene = Scene::new();
    scene.start("first");
    scene.message("second");
    scene.stream("One.");
    scene.end_stream();
    scene.enter_lane(ResumeMode::Restart);
    scene.stream("Two.");
    scene.end_stream();
    for (id, text) in
        [("00000000-0000-0000-0000-000000000101", "One."), ("00000000-0000-0000-0000-000000000102", "Two.")]
    {
        let run = show(&scene, &by_id(id));
        assert_eq!((run.text.as_str(), run.steps.len(), run.steps[0].text.as_str()), (text, 1, text));
    }
    let traces = ["00000000-0000-0000-0000-000000000101", "00000000-0000-0000-0000-000000000102"]
        .map(|id| trace(&scene, &by_id(id)));
    for lines in &traces {
        let last = &lines[lines.len() - 1];
        assert_eq!((last.from, last.to), (RunState::Completed, RunState::Idle));
    }
    let kinds = |lines: Vec<TraceLine>| lines.into_iter().map(|line| line.event).collect::<Vec<_>>();
    let [first, second] = traces.map(kinds);
    let whole = |kinds: &[String]| {
        let ended = kinds.iter().filter(|kind| *kind == "run_ended").count();
        (kinds.first().cloned(), ended, kinds.last().cloned())
    };
    assert_eq!(whole(&first), (Some("message_accepted".to_owned()), 1, Some("lifecycle_changed".to_owned())));
    assert_eq!(whole(&second), (Some("message_accepted".to_owned()), 1, Some("lifecycle_changed".to_owned())));
    assert_eq!(first.iter().filter(|kind| *kind == "message_accepted").count(), 1);
    assert_eq!(second[1], "run_started");
}

#[test]
fn a_run_is_found_by_a_unique_beginning_or_by_its_session() {
    let mut scene = Scene::new();
    let none = Error::from(lookup::run(&scene.journal, &RunParams::default()).unwrap_err());
    assert_eq!(
        (none.shape().details.unwrap().exit, none.to_string().as_str()),
        (4, "the session `agent:main:main` has no run yet")
    );
    scene.message("first");
    let queued = lookup::run(&scene.journal, &RunParams::default()).unwrap();
    assert!(queued.row.is_none());
    assert_eq!(show(&scene, &RunParams::default()).summary.started_at, None);
    scene.enter_lane(ResumeMode::Restart);
    scene.message("second");
    let check = |choice: &RunParams, expected: Result<&str, &str>| {
        let found =
            lookup::run(&scene.journal, choice).map(|found| found.run.to_string()).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    };
    check(&by_id("00000000-0000-0000-0000-000000000102"), Ok("00000000-0000-0000-0000-000000000102"));
    check(&RunParams::default(), Ok("00000000-0000-0000-0000-000000000101"));
    check(
        &by_id("0000"),
        Err("`0000` matches 2 runs: 00000000-0000-0000-0000-000000000101, 00000000-0000-0000-0000-000000000102 …"),
    );
    check(&by_id("f00"), Err("there is no run `f00`"));
    let other = RunParams { run: None, session: Some("other".to_owned()) };
    check(&other, Err("there is no session `agent:main:other`"));
}
