//! The agents of a home, each with its state over its sessions.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Busy, Home, until};

fn agents(home: &Home) -> Vec<Value> {
    home.json(&["agents", "list"]).as_array().cloned().expect("a list")
}

/// R20: without a journal, without an owner and with one; the worst session decides; a removed agent is still shown.
#[test]
fn r20_the_state_of_an_agent_is_that_of_its_worst_session() {
    let home = Home::new();
    fs::create_dir_all(home.path()).expect("a home");
    let configure = |text: &str| fs::write(home.path().join("config.toml"), text).expect("its configuration");
    configure("[agents.helper]\nqueue = \"followup\"\n");
    let new = agents(&home);
    let states = |agents: &[Value]| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        agents.iter().map(|agent| (text(&agent["agent"]), text(&agent["state"]))).collect()
    };
    let expect = |pairs: [(&str, &str); 2]| pairs.map(|(agent, state)| (agent.to_owned(), state.to_owned()));
    assert_eq!(states(&new), expect([("helper", "ready"), ("main", "ready")]));
    assert_eq!((&new[0]["sessions"], &new[0]["last_activity"]), (&json!({}), &Value::Null));

    home.run(&["agent", "--session", "agent:helper:one", "-m", "Who are you?"]).expect_code(0);
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    home.run(&["agent", "--session", "two", "-m", "Who are you?"]).expect_code(0);
    home.run(&["sessions", "end", "two"]).expect_code(0);
    let idle = agents(&home);
    assert_eq!(states(&idle), expect([("helper", "idle"), ("main", "idle")]));
    assert_eq!(idle[1]["sessions"], json!({ "idle": 1, "terminated": 1 }));
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    assert_eq!(agents(&home), idle, "the owner says the same");
    owner.kill();

    configure("");
    let removed = agents(&home);
    assert_eq!((&removed[0]["agent"], &removed[0]["configured"]), (&json!("helper"), &json!(false)));
    let list = home.run(&["agents", "list"]).expect_code(0);
    assert!(list.out.contains("helper (not configured)") && list.out.contains("1 idle, 1 terminated"), "{}", list.out);
}

/// R20, R21: an active session with a message behind it, then a paused one; an idle session of the agent does not matter.
#[test]
fn r20_r21_an_agent_with_a_paused_session_is_suspended() {
    let mut busy = Busy::new();
    busy.home.run(&["agent", "--session", "other", "-m", "Who are you?"]).expect_code(0);
    busy.send("followup", "Who are you?");
    let main = || agents(&busy.home).into_iter().find(|agent| agent["agent"] == "main").expect("it is there");
    let active = main();
    assert_eq!((&active["state"], &active["waiting"], &active["queued"]), (&json!("active"), &json!(1), &json!(1)));
    assert_eq!(active["sessions"], json!({ "active": 1, "idle": 1 }));
    busy.home.run(&["runs", "pause", "--session", "main"]).expect_code(0);
    until("the pause", || main()["state"] == "suspended");
    busy.home.run(&["runs", "resume", "--session", "main"]).expect_code(0);
    busy.let_go();
    busy.finish().expect_code(0);
}
