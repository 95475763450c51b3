//! What is shown of runs, from scenes driven through the real machine.

use engine::{CallOutcome, Failure, FailureClass, Found, ResumeMode};

use super::*;
use crate::show::run::RunStory;
use crate::show::scene::Scene;
use crate::show::trace::TraceLine;

fn show(scene: &Scene, choice: &RunChoice) -> RunStory {
    story(&scene.journal, &choice.find(&scene.journal).unwrap(), &texts(&scene.journal)).unwrap()
}

fn lines(scene: &Scene) -> Vec<TraceLine> {
    let found = RunChoice::default().find(&scene.journal).unwrap();
    trace(&scene.journal, &found, &texts(&scene.journal)).unwrap()
}

fn by_id(id: &str) -> RunChoice {
    RunChoice { run: Some(id.to_owned()), session: None }
}

#[test]
fn r10_the_open_stream_is_shown_as_far_as_it_came() {
    let mut scene = Scene::new();
    scene.start("hello");
    scene.stream("Hel");
    scene.stream("lo.");
    let run = show(&scene, &RunChoice::default());
    assert_eq!((run.text.as_str(), run.open_text.as_str()), ("", "Hello."));
    assert_eq!(run.open_request.unwrap().to_string(), "00000000-0000-0000-0000-000000000101/request/1/1");
    scene.end_stream();
    let run = show(&scene, &RunChoice::default());
    assert_eq!((run.text.as_str(), run.open_text.as_str(), run.open_request), ("Hello.", "", None));
    assert_eq!(run.summary.outcome, Some(engine::Outcome::Completed));
    assert_eq!((run.summary.usage.input, run.summary.usage.output), (100, 20));
}

#[test]
fn r12_struck_text_is_not_shown_and_kept_text_is() {
    let mut scene = Scene::new();
    scene.start("hello");
    scene.stream("Half");
    scene.crash();
    let run = show(&scene, &RunChoice::default());
    assert_eq!((run.text.as_str(), run.steps.len(), run.open_text.as_str()), ("", 0, ""));
    scene.stream("Whole");
    scene.end_stream();
    let run = show(&scene, &RunChoice::default());
    assert_eq!((run.text.as_str(), run.steps.len()), ("Whole", 1));
    assert_eq!((run.steps[0].request.ordinal, run.steps[0].request.try_no), (1, 2));

    let mut scene = Scene::new();
    scene.message("hello");
    scene.enter_lane(ResumeMode::Continue);
    scene.stream("First, ");
    scene.crash();
    assert_eq!(show(&scene, &RunChoice::default()).text, "First, ");
    scene.stream("second.");
    let run = show(&scene, &RunChoice::default());
    assert_eq!((run.text.as_str(), run.open_text.as_str()), ("First, ", "second."));
    scene.end_stream();
    let run = show(&scene, &RunChoice::default());
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
        let run = show(scene, &RunChoice::default());
        assert_eq!((run.steps.len(), run.steps[0].calls.len()), (1, 1));
        let call = &run.steps[0].calls[0];
        (call.stage, call.outcome)
    };
    assert_eq!(stage(&scene), ("guarding", None));
    scene.allow_and_start();
    assert_eq!(stage(&scene), ("started", None));
    scene.crash();
    assert_eq!(stage(&scene), ("lost", None));
    scene.found(Found::Unknown);
    assert_eq!(stage(&scene), ("settled", Some(CallOutcome::Interrupted)));
}

#[test]
fn the_shape_of_a_run_is_as_documented() {
    let mut scene = Scene::new();
    scene.start("list it");
    scene.call("ls", "{}");
    scene.end_stream();
    scene.allow_and_start();
    scene.settle("a.txt");
    scene.stream("One file.");
    scene.end_stream();
    insta::assert_snapshot!("run_json", json(&show(&scene, &RunChoice::default())));
    let run = show(&scene, &RunChoice::default());
    insta::assert_snapshot!("run_text", lay_out(&run, &Zone::utc()));
    insta::assert_snapshot!("runs_text", lay_out_list(&list(&scene.journal, None).unwrap(), &Zone::utc()));
    let listed = serde_json::to_value(list(&scene.journal, Some("main")).unwrap()).unwrap();
    assert!(listed[0].get("text").is_none() && listed[0].get("steps").is_none(), "lists have no text: {listed}");
}

#[test]
fn r18_the_story_of_a_run_killed_twice() {
    let mut scene = Scene::new();
    scene.start("build it");
    scene.stream("I will ");
    scene.crash();
    scene.call("exec", r#"{"command":"make"}"#);
    scene.end_stream();
    scene.ask("run the command `make`");
    let asked = scene.kinds();
    assert!(asked.ends_with(&["wait_began"]), "{asked:?}");
    let call = show(&scene, &RunChoice::default()).steps[0].calls[0].id;
    scene.offer(engine::Command::Answer {
        call,
        fingerprint: engine::Hash::of(b"call"),
        allow: true,
        by: "the user".to_owned(),
    });
    scene.crash();
    scene.found(Found::NeverStarted);
    scene.settle("built");
    let mut failure = Failure::new(FailureClass::RateLimit, "too many requests; wait");
    (failure.status, failure.retry_after_ms) = (Some(429), Some(0));
    scene.fail(failure);
    scene.stream("Built.");
    scene.end_stream();
    let lines = lines(&scene);
    insta::assert_snapshot!(lay_out_trace(&lines, &Zone::utc()));
    assert_eq!(lines.iter().filter(|line| line.crash).count(), 2);
    // Every entry of the branch but the two that made and opened the session, and what made it ready.
    let before = scene.kinds().iter().position(|kind| *kind == "message_accepted").unwrap();
    let told: Vec<&str> = lines.iter().map(|line| line.event).collect();
    assert_eq!(told, scene.kinds()[before..], "the story leaves nothing out");
    for pair in lines.windows(2) {
        let idle_again = pair[0].to.name() == "completed" && pair[1].from.name() == "idle";
        assert!(pair[0].to == pair[1].from || idle_again, "{pair:?}");
    }
}

#[test]
fn r18_an_orderly_restart_is_no_crash() {
    let mut scene = Scene::new();
    scene.start("hello");
    scene.restart();
    scene.stream("Hi.");
    scene.end_stream();
    let lines = lines(&scene);
    let details: Vec<&str> = lines.iter().filter_map(|line| line.detail.as_deref()).collect();
    assert!(details.contains(&"owner 1 left in order") && details.contains(&"opened by epoch 2"), "{details:?}");
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
    let told = |id: &str| {
        let found = by_id(id).find(&scene.journal).unwrap();
        let lines = trace(&scene.journal, &found, &texts(&scene.journal)).unwrap();
        lines.iter().map(|line| line.event).collect::<Vec<_>>()
    };
    let (first, second) = (told("00000000-0000-0000-0000-000000000101"), told("00000000-0000-0000-0000-000000000102"));
    let whole = |kinds: &[&'static str]| {
        (kinds.first().copied(), kinds.iter().filter(|kind| **kind == "run_ended").count(), kinds.last().copied())
    };
    assert_eq!(whole(&first), (Some("message_accepted"), 1, Some("lifecycle_changed")));
    assert_eq!(whole(&second), (Some("message_accepted"), 1, Some("lifecycle_changed")));
    assert_eq!(first.iter().filter(|kind| **kind == "message_accepted").count(), 1);
    assert_eq!(second[1], "run_started");
}

#[test]
fn a_run_is_found_by_a_unique_beginning_or_by_its_session() {
    let mut scene = Scene::new();
    let none = RunChoice::default().find(&scene.journal).unwrap_err();
    assert_eq!((none.exit() as u8, none.to_string().as_str()), (4, "the session `agent:main:main` has no run yet"));
    scene.message("first");
    let queued = RunChoice::default().find(&scene.journal).unwrap();
    assert!(queued.row.is_none());
    assert_eq!(show(&scene, &RunChoice::default()).summary.started_at, None);
    scene.enter_lane(ResumeMode::Restart);
    scene.message("second");
    let check = |choice: &RunChoice, expected: Result<&str, &str>| {
        let found = choice.find(&scene.journal).map(|found| found.run.to_string()).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    };
    check(&by_id("00000000-0000-0000-0000-000000000102"), Ok("00000000-0000-0000-0000-000000000102"));
    check(&RunChoice::default(), Ok("00000000-0000-0000-0000-000000000101"));
    check(
        &by_id("0000"),
        Err(
            "`0000` may be any of 2 runs: 00000000-0000-0000-0000-000000000101, 00000000-0000-0000-0000-000000000102 …",
        ),
    );
    check(&by_id("f00"), Err("there is no run `f00`"));
    let other = RunChoice { run: None, session: Some("other".to_owned()) };
    check(&other, Err("there is no session `agent:main:other`"));
}
