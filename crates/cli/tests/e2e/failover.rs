//! What a run does when a model fails: other keys, other models, a wait that outlives its process.

use bench::model_server::ModelServer;

use crate::support::{Home, until};

/// A model with two keys, and another to fall back to, all at one server.
fn home(server: &ModelServer) -> Home {
    Home::new()
        .served_by(server)
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__NAME", "first")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "not-a-secret")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__NAME", "second")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__KEY", "nor-is-this")
        .with("LIMULUS_AGENTS__MAIN__FALLBACKS", "acme/other")
        .with("LIMULUS_REQUESTS__RETRIES", "0")
}

#[test]
pub(crate) fn r50_r51_a_key_that_is_refused_gives_way_to_the_next_and_a_model_to_its_fallback() {
    let server = ModelServer::start().unwrap();
    let home = home(&server);
    for (refusals, asked) in [(1, "(second)"), (2, "acme/other (first)")] {
        let answer = home.run(&["agent", "-m", &format!("fail=401x{refusals} tokens=2")]).expect_code(0);
        assert_eq!(answer.out, "word0 word1\n");
        assert!(answer.err.contains("401") && answer.err.contains(&format!("{asked}\n")), "{}", answer.err);
        let trace = home.run(&["runs", "trace"]).expect_code(0).out;
        assert!(trace.contains(asked) && trace.contains("is not asked before another has answered"), "{trace}");
        let shown = home.json(&["runs", "show"]);
        assert_eq!(shown["model"].as_str().map(|model| model.contains("other")), Some(refusals == 2), "{shown}");
    }
    // The next run begins with the model that was chosen.
    home.run(&["agent", "-m", "tokens=1"]).expect_code(0);
    let shown = home.json(&["runs", "show"]);
    assert!(!shown["model"].as_str().unwrap().contains("other"), "{shown}");
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
pub(crate) fn r51_when_all_have_failed_each_is_named() {
    let server = ModelServer::start().unwrap();
    let home = home(&server);
    let failed = home.run(&["agent", "-m", "fail=401x9 Hello"]).expect_code(1);
    assert!(failed.err.contains("All models failed (4)"), "{}", failed.err);
    assert!(failed.err.contains("acme/other (second): "), "{}", failed.err);
    assert_eq!(server.seen().len(), 4);
    home.assert_usable("main");
}

#[test]
fn r42_a_model_that_sees_too_little_is_refused_before_anything_is_sent() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let config = home.path().join("config.toml");
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(&config, "[models.\"acme/scripted\"]\ncontext_window = 15999\nmax_output = 1000\n").unwrap();
    let refused = home.run(&["agent", "-m", "Hello"]).expect_code(1);
    assert!(refused.err.contains("15999") && refused.err.contains("16000"), "{}", refused.err);
    assert_eq!(server.seen().len(), 0);
    std::fs::write(&config, "[models.\"acme/scripted\"]\ncontext_window = 16000\nmax_output = 1000\n").unwrap();
    let answered = home.run(&["agent", "-m", "tokens=1"]).expect_code(0);
    assert!(answered.err.contains("sees only 16000 tokens"), "{}", answered.err);
}

/// R11: what is waited for is in the journal: neither a kill nor the next owner shortens it, and an abort ends it.
#[test]
fn r50_a_wait_for_a_limit_outlives_a_kill_and_can_be_aborted() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_REQUESTS__RETRIES", "0");
    let agent = home.start(&["agent", "-m", "fail=429x9 Hello"]);
    agent.until_err("goes on by itself");
    let explained = home.json(&["runs", "explain", "--session", "main"]);
    assert_eq!(explained["state"], "awaiting", "{explained}");
    assert!(explained["waits_for"].as_str().unwrap().contains("quota"), "{explained}");
    let wait_until = explained["until"].clone();
    assert!(wait_until.is_number(), "{explained}");
    agent.kill();
    let resumed = home.start(&["resume"]);
    until("another owner took it up", || {
        let trace = home.run(&["runs", "trace", "--json"]).expect_code(0);
        trace.lines().iter().any(|line| line["event"] == "opened")
    });
    assert_eq!(home.json(&["runs", "explain", "--session", "main"])["until"], wait_until);
    home.run(&["runs", "abort", "--session", "main"]).expect_code(0);
    let ended = resumed.finish();
    assert_eq!(server.seen().len(), 1, "nothing was sent meanwhile: {}", ended.err);
    assert_eq!(home.json(&["runs", "show"])["outcome"], "aborted");
    home.assert_usable("main");
}
