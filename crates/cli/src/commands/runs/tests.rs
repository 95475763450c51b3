//! Tests of the pages of `limulus runs`, with runs of the real machine.

use engine::{Failure, FailureClass, Found};
use gateway::methods::reading::Reads as _;
use protocol::method::RunParams;
use views::Source;
use views::scene::Scene;

use super::*;

fn show(scene: &Scene) -> RunStory {
    RunsShow::read(&Source::of(&scene.journal), RunParams::default()).unwrap()
}

fn list(scene: &Scene, session: Option<&str>) -> Vec<RunSummary> {
    let params = RunsListParams { session_key: session.map(str::to_owned), ..RunsListParams::default() };
    RunsList::read(&Source::of(&scene.journal), params).unwrap().runs
}

fn lines(scene: &Scene) -> Vec<TraceLine> {
    RunsTrace::read(&Source::of(&scene.journal), RunParams::default()).unwrap().lines
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
    insta::assert_snapshot!("run_json", json(&show(&scene)));
    let run = show(&scene);
    insta::assert_snapshot!("run_text", lay_out(&run, &Zone::utc()));
    insta::assert_snapshot!("runs_text", lay_out_list(&list(&scene, None), &Zone::utc()));
    let listed = serde_json::to_value(list(&scene, Some("main"))).unwrap();
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
    let call = show(&scene).steps[0].calls[0].id;
    scene.offer(engine::Command::Answer {
        call,
        fingerprint: engine::Hash::of(b"call"),
        decision: engine::Decision::ONCE,
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
    for line in &lines {
        let payload = serde_json::to_vec(&line.fields).unwrap();
        assert_eq!(
            engine::Event::decode(&line.event, 1, &payload).unwrap().kind(),
            line.event,
            "its fields are the entry's"
        );
    }
    // Every entry of the branch after those that created and opened the session.
    let before = scene.kinds().iter().position(|kind| *kind == "message_accepted").unwrap();
    let kinds: Vec<&str> = lines.iter().map(|line| line.event.as_str()).collect();
    assert_eq!(kinds, scene.kinds()[before..], "the trace has every entry");
    for pair in lines.windows(2) {
        let idle_again = pair[0].to.name() == "completed" && pair[1].from.name() == "idle";
        assert!(pair[0].to == pair[1].from || idle_again, "{pair:?}");
    }
}
