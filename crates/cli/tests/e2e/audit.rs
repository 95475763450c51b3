//! The audit log as a user reads it: complete, ordered, verifiable, with the state at any point.

use serde_json::Value;

use crate::support::Home;

fn audit(home: &Home, words: &[&str]) -> Vec<Value> {
    home.run(&[&["audit", "--json"], words].concat()).expect_code(0).lines()
}

fn state(home: &Home, at: u64) -> String {
    home.run(&["audit", "--state", &at.to_string()]).expect_code(0).out
}

#[test]
pub(crate) fn r18_every_transition_is_in_the_log_with_time_cause_from_and_to() {
    let home = Home::new();
    home.run(&["agent", "--yes", "-m", "run `echo hi > a`"]).expect_code(0);
    let lines = audit(&home, &["--verify"]);
    let (verified, lines) = lines.split_last().expect("there are lines");
    let seqs: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=lines.len() as u64).collect::<Vec<_>>(), "no entry is left out");
    let changes = |from: &str, to: &str| {
        let is_it = |line: &&Value| (line["from"].as_str(), line["to"].as_str()) == (Some(from), Some(to));
        lines.iter().filter(is_it).map(|line| (line["event"].clone(), line["trigger"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(changes("idle", "preparing"), [("run_started".into(), "user_input".into())]);
    assert_eq!(changes("streaming", "tool_exec"), [("message_sealed".into(), "tool_call".into())]);
    assert_eq!(changes("streaming", "completed"), [("run_ended".into(), "stop_completed".into())]);
    assert_eq!(changes("completed", "idle"), [("lifecycle_changed".into(), Value::Null)]);
    let runs = |event: &str| lines.iter().filter(|line| line["event"] == event).map(|line| &line["run"]).next_back();
    assert!(runs("run_ended").is_some_and(Value::is_string) && runs("run_ended") == runs("lifecycle_changed"));
    assert!(lines.windows(2).all(|pair| pair[0]["at"].as_i64() <= pair[1]["at"].as_i64()), "in order of time");
    for pair in lines.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"], "each starts where the previous one ended");
        assert_eq!(pair[0]["lifecycle_to"], pair[1]["lifecycle_from"], "so does the lifecycle");
    }
    let verified = &verified["verified"];
    assert_eq!((verified["entries"].as_u64(), &verified["faults"]), (Some(lines.len() as u64), &serde_json::json!([])));
    // The page says the same, one line an entry.
    let page = home.run(&["audit", "main", "--verify"]).expect_code(0).out;
    assert!(page.contains("✓ payload hashes and chain of all entries"), "{page}");
    let rows = page.lines().filter(|row| row.contains("  20") && row.contains(':')).count();
    assert_eq!(rows, lines.len(), "{page}");
    assert!(page.contains("idle → preparing") && page.contains("initializing → ready"), "{page}");
    assert!(page.contains("completed → idle"), "{page}");
    assert_eq!(audit(&home, &["--from", "5"])[0]["seq"], 5);
}

#[test]
pub(crate) fn r17_the_state_at_any_point_is_the_same_bytes_whenever_it_is_asked_for() {
    let home = Home::new();
    home.run(&["agent", "--yes", "-m", "run `echo hi > a`"]).expect_code(0);
    let entries = audit(&home, &[]).len() as u64;
    let states: Vec<String> = (1..=entries).map(|at| state(&home, at)).collect();
    home.assert_usable("main");
    for (at, before) in (1..=entries).zip(&states) {
        assert_eq!(&state(&home, at), before, "the state after entry {at} is what it was");
    }
    let last: Value = serde_json::from_str(&states[states.len() - 1]).expect("a state is JSON");
    assert_eq!(
        (&last["session"]["account"]["head"], &last["session"]["conversation"]["lifecycle"]),
        (&entries.into(), &"idle".into())
    );
    let first: Value = serde_json::from_str(&states[0]).expect("a state is JSON");
    assert_eq!(first["session"]["conversation"]["lifecycle"], "initializing");
    let hashes: Vec<Value> = audit(&home, &["--verify"]);
    let after: Value = serde_json::from_str(&state(&home, hashes.len() as u64 - 1)).expect("a state is JSON");
    assert_eq!(after["state_hash"], hashes[hashes.len() - 1]["verified"]["state_hash"], "one state, one hash");
    let missing = home.run(&["audit", "--state", "9999"]).expect_code(4);
    assert!(missing.verdict().contains("has no entry 9999"), "{missing:?}");
    home.run(&["audit", "--state", "x"]).expect_code(2);
}
