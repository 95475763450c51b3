//! A session is named in the same ways by every command.

use crate::support::Home;

/// A home with a run in `main`, which is the session of its folder, and one in `review`.
fn home() -> Home {
    let home = Home::new();
    for session in ["main", "review"] {
        home.run(&["agent", "--session", session, "-m", "tokens=2 Who are you?"]).expect_code(0);
    }
    home
}

#[test]
pub(crate) fn r61_a_session_is_named_in_its_place_or_by_a_flag() {
    let home = home();
    for command in [
        "sessions show",
        "sessions context",
        "sessions export",
        "audit",
        "events",
        "usage",
        "budget show",
        "runs list",
        "runs show",
        "runs trace",
        "runs explain",
        "runs wait",
        "runs watch",
        "queue list",
        "queue clear",
        "diff",
        "resume",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let by = |more: &[&str]| {
            let ended = home.run(&[&words[..], more, &["--json"]].concat());
            let text = format!("{:?} {}", ended.code, ended.out);
            // What differs from one command to the next: times, and the memory of the process.
            let differs = |line: &str| ["_ms", "since", "memory_usage"].iter().any(|name| line.contains(name));
            text.lines().filter(|line| !differs(line)).collect::<Vec<_>>().join("\n")
        };
        let (place, flag) = (by(&["review"]), by(&["--session", "review"]));
        assert_eq!(place, flag, "{command}");
        assert!(!place.contains("Some(2)"), "{command}: {place}");
        home.run(&[&words[..], &["review", "--session", "review"]].concat()).expect_code(2);
    }
    for words in [
        &["queue", "mode", "review", "collect"][..],
        &["queue", "mode", "--session", "review", "steer"],
        &["sessions", "rename", "review", "A", "title"],
        &["sessions", "rename", "--session", "review", "The", "title"],
        &["sessions", "archive", "--session", "review"],
        &["budget", "set", "--session", "review", "--tokens", "5000000"],
        &["sessions", "end", "--session", "The title"],
        &["sessions", "delete", "--session", "review", "--yes"],
    ] {
        home.run(words).expect_code(0);
    }
    for words in [&["queue", "mode", "collect"][..], &["sessions", "end"], &["sessions", "rename", "review"]] {
        home.run(words).expect_code(2);
    }
}

#[test]
pub(crate) fn r61_a_command_for_runs_that_names_none_means_that_of_the_folder() {
    let home = home();
    let run = |words: &[&str]| home.json(words)["run"].clone();
    let (main, review) = (run(&["runs", "show", "--session", "main"]), run(&["runs", "show", "review"]));
    assert_ne!(main, review);
    for command in ["show", "explain"] {
        assert_eq!(run(&["runs", command]), main);
        assert_eq!(run(&["runs", command, "agent:main:review"]), review);
    }
    home.run(&["runs", "show", "nowhere"]).expect_code(4).expect_err("no run");
    let id = main.as_str().unwrap_or_default();
    for words in [&["Stop"][..], &["review", "Stop"], &["--session", "review", "Stop"], &[id, "Stop"]] {
        let of = if words.contains(&"review") { &review } else { &main };
        let steered = home.run(&[&["runs", "steer"], words].concat()).expect_code(3);
        assert!(steered.err.contains(&format!("run {} is not active", of.as_str().unwrap_or_default())), "{steered:?}");
    }
    home.run(&["runs", "steer", id]).expect_code(2).expect_err("is a run, and there is no text for it");
    home.run(&["runs", "steer", "--session", "review", id, "Stop"]).expect_code(2);
}
