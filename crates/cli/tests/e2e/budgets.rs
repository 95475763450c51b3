//! Budgets: limits at which a run waits, ends, and continues after an increase.

use model_server::ModelServer;
use serde_json::Value;

use crate::support::{Finished, Home, until};

/// Three calls and an answer.
const WORK: &str = "rounds=3 tool=ls tokens=2";

/// A home in which a run may start one call.
fn one_call(server: &ModelServer) -> Home {
    Home::new().served_by(server).with("LIMULUS_BUDGET__RUN__CALLS", "1")
}

fn budget(home: &Home) -> Value {
    home.json(&["budget", "show"])
}

fn until_it_waits(home: &Home) {
    let waits = || {
        let shown = home.run(&["budget", "show", "--json"]);
        serde_json::from_str::<Value>(&shown.out).is_ok_and(|shown| shown["waits"] == true)
    };
    until("the wait for more", waits);
}

/// A run at its limit: without a terminal the command ends, and its run waits.
fn at_its_limit(home: &Home, words: &[&str]) -> Finished {
    let left = home.run(words).expect_code(69);
    until_it_waits(home);
    left
}

/// The command that the error of another one names, run as it is.
fn as_advised(home: &Home, left: &Finished) {
    let (_, named) = left.err.rsplit_once("hint: `limulus ").expect("a hint");
    let words: Vec<&str> = named.split_once('`').expect("its end").0.split(' ').collect();
    home.run(&words).expect_code(0);
    // Whoever owned the home meanwhile has left it.
    home.run(&["resume"]).expect_code(0);
}

#[test]
pub(crate) fn r23_a_run_that_has_used_up_its_calls_waits_and_continues_when_the_limit_is_raised() {
    let server = ModelServer::start().unwrap();
    let home = one_call(&server);
    let left = at_its_limit(&home, &["agent", "-m", WORK]);
    let lines = budget(&home)["lines"].as_array().cloned().expect("lines");
    let calls = lines.iter().find(|line| line["scope"] == "run" && line["of"] == "calls").expect("the run's calls");
    assert_eq!((&calls["used"], &calls["limit"]), (&1.into(), &1.into()));
    let explained = home.run(&["runs", "explain"]).expect_code(0);
    assert!(
        explained.out.contains("what this run may spend is used up: 1 of 1 calls")
            && explained.out.contains("limulus budget show"),
        "{explained:?}"
    );
    assert_eq!(home.json(&["sessions", "show"])["flags"]["isBlocked"], true);
    let asked = server.seen().len();
    assert_eq!(asked, 2, "the second request is the one that says what was done");
    for expected in [
        "what this run may spend is used up (1 of 1 calls)",
        "waits for more; `limulus budget set agent:main:main --run --calls 2` raises it",
        "what this run may spend is used up: 1 of 1 calls; the run of agent:main:main waits",
    ] {
        assert!(left.err.contains(expected), "{expected}: {left:?}");
    }
    // A second message waits behind the first, and says so too.
    let behind = home.run(&["agent", "--mode", "followup", "-m", "tokens=1"]).expect_code(69);
    assert!(behind.verdict().contains("1 of 1 calls"), "{behind:?}");
    home.run(&["budget", "set", "main", "--run", "--calls", "none"]).expect_code(0);
    home.run(&["resume"]).expect_code(0);
    assert!(states(&home).iter().all(|state| state == "completed"), "{:?}", states(&home));
    assert_eq!(server.violations(), [""; 0]);
    assert_eq!(budget(&home)["waits"], false);
}

/// What is used, reserved and free, and what the next request needs, is the same wherever it is shown.
#[test]
pub(crate) fn r21_r23_a_run_that_stops_far_from_its_limit_shows_what_is_reserved_and_what_its_next_request_needs() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_BUDGET__RUN__TOKENS", "3000");
    let left = at_its_limit(&home, &["agent", "-m", WORK]);
    let shown = budget(&home);
    let is_tokens = |line: &&Value| line["scope"] == "run" && line["of"] == "tokens";
    let lines = |of: &Value| of.as_array().cloned().expect("lines");
    let line = lines(&shown["lines"]).iter().find(is_tokens).cloned().expect("the run's tokens");
    let figures = ["used", "reserved", "free", "limit"].map(|of| line[of].as_u64().expect("a number"));
    assert_eq!(figures, [0, 150, 2_850, 3_000], "a twentieth is for the final report");
    let needs = line["needs"].as_u64().expect("a number");
    assert!(needs > 4_096, "the answer is a part of it: {needs}");
    let sentence = format!(
        "what this run may spend is too little for the next request: 0 of 3000 tokens used, 150 reserved, 2850 free; \
         the next request needs {needs} with its answer"
    );
    for words in [&["budget", "show"][..], &["status"], &["runs", "explain"]] {
        let said = home.run(words).expect_code(0);
        assert!(said.out.contains(&sentence), "{words:?}: {}", said.out);
    }
    let run = home.run(&["runs", "show"]).expect_code(0);
    assert!(run.out.contains("budget of the run: 0 of 3000 tokens used, 150 reserved, 2850 free"), "{}", run.out);
    assert_eq!(lines(&home.json(&["runs", "show"])["budget"]).iter().find(is_tokens), Some(&line));
    assert_eq!(home.json(&["status"])["unfinished"][0]["budget"], line);
    assert_eq!(home.json(&["runs", "explain"])["budget"], line);
    let trace = home.run(&["runs", "trace", "--json"]).expect_code(0);
    let limit = trace.lines().into_iter().find_map(|line| line["fields"].get("limit").cloned()).expect("its wait");
    assert_eq!((&limit["used"], &limit["reserved"], &limit["needs"]), (&0.into(), &150.into(), &needs.into()));
    let trace = home.run(&["runs", "trace"]).expect_code(0).out;
    assert!(trace.contains("for budget: 0 of 3000 tokens used, 150 reserved, 2850 free"), "{trace}");
    assert!(left.err.contains(&format!("… {sentence}: waits for more")), "{}", left.err);
    // The command that it names raises the limit far enough for the next request.
    as_advised(&home, &left);
    let run = home.json(&["runs", "show"]);
    assert!(run["usage"]["input"].as_u64() > Some(0), "{run}");
}

#[test]
fn r23_a_wait_for_more_outlives_kill_9() {
    let server = ModelServer::start().unwrap();
    let home = one_call(&server);
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    at_its_limit(&home, &["agent", "-m", WORK]);
    owner.kill();
    let asked = server.seen().len();
    let resumed = home.run(&["resume"]).expect_code(69).expect_err("waits for a larger budget");
    assert!(resumed.err.contains("`limulus budget set agent:main:main --run --calls 2` raises it"), "{resumed:?}");
    assert_eq!(server.seen().len(), asked, "nothing is asked while it waits");
    // Nobody else owns the home, so this process does the work, and shows it.
    let set = home.run(&["budget", "set", "main", "--run", "--calls", "9"]).expect_code(0);
    assert!(set.out.contains("SCOPE") && set.err.contains("ls"), "{set:?}");
    assert_eq!(home.json(&["runs", "show"])["outcome"], "completed");
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
pub(crate) fn r23_a_run_ends_at_its_limit_where_that_is_configured() {
    let server = ModelServer::start().unwrap();
    let home = one_call(&server).with("LIMULUS_BUDGET__AT_LIMIT", "end");
    let ended = home.run(&["agent", "-m", WORK]).expect_code(1);
    let verdict = ended.verdict();
    assert!(verdict.contains("used up (1 of 1 calls; `budget.run`"), "{verdict}");
    assert_eq!(server.seen().len(), 1);
    home.assert_usable("main");
}

#[test]
pub(crate) fn r23_near_a_limit_the_model_is_asked_to_finish() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_BUDGET__RUN__CALLS", "4");
    let home = home.with("LIMULUS_BUDGET__WRAP_UP_PERCENT", "50");
    let done = home.run(&["agent", "-m", WORK]).expect_code(0);
    assert_eq!(done.err.matches("50 % of what this run may spend is used up (2 of 4 calls)").count(), 1, "{done:?}");
}

/// A home in which each token costs a tenth of a cent.
fn with_a_price(server: &ModelServer) -> Home {
    priced(server, 1_000)
}

/// A home in which a million tokens cost so many dollars.
fn priced(server: &ModelServer, dollars: u32) -> Home {
    let home = Home::new().served_by(server);
    std::fs::create_dir_all(home.path()).expect("a home");
    let price = format!("[models.\"acme/scripted\"]\nprice = {{ input = {dollars}, output = {dollars} }}\n");
    std::fs::write(home.path().join("config.toml"), price).expect("its configuration");
    home
}

/// The states of all runs.
fn states(home: &Home) -> Vec<String> {
    let runs = home.json(&["runs", "list", "--limit", "100"]);
    let state = |run: &Value| run["state"].as_str().map(str::to_owned);
    runs.as_array().into_iter().flatten().filter_map(state).collect()
}

/// The cost of all runs, in micro-dollars.
fn cost(home: &Home) -> u64 {
    home.json(&["usage"])["all"]["costMicros"].as_u64().expect("a number")
}

#[test]
pub(crate) fn r23_usage_is_shown_by_model_session_and_day() {
    let server = ModelServer::start().unwrap();
    let home = with_a_price(&server);
    for session in ["one", "two", "two"] {
        home.run(&["agent", "--session", session, "-m", "tokens=3"]).expect_code(0);
    }
    let runs = home.json(&["runs", "list"]);
    let tokens = |run: &Value| ["input", "output"].map(|kind| run["usage"][kind].as_u64().expect("a number"));
    let all: u64 = runs.as_array().expect("runs").iter().flat_map(tokens).sum();
    let usage = home.json(&["usage"]);
    assert_eq!((&usage["rows"][0]["name"], &usage["all"]["runs"]), (&"acme/scripted".into(), &3.into()));
    assert_eq!(usage["all"]["costMicros"], all * 1_000, "a tenth of a cent a token");
    let by_session = home.json(&["usage", "--by", "session"]);
    let runs: Vec<_> = by_session["rows"].as_array().expect("rows").iter().map(|row| row["runs"].clone()).collect();
    assert_eq!(runs, [1, 2]);
    let of_one = home.json(&["usage", "--by", "day", "--session", "one"]);
    assert_eq!(of_one["all"]["runs"], 1);
    assert_eq!(of_one["rows"][0]["name"].as_str().map(str::len), Some("2026-01-01".len()));
    let printed = home.run(&["usage"]).expect_code(0).out;
    assert!(printed.starts_with("MODEL") && printed.contains("acme/scripted") && printed.contains('$'), "{printed}");
}

#[test]
pub(crate) fn r23_a_session_that_has_spent_its_money_sends_nothing_until_it_has_more() {
    let server = ModelServer::start().unwrap();
    let home = with_a_price(&server);
    home.run(&["agent", "-m", "tokens=3"]).expect_code(0);
    home.run(&["budget", "set", "main", "--cost", "0.01"]).expect_code(0);
    let asked = server.seen().len();
    at_its_limit(&home, &["agent", "-m", "tokens=3"]);
    assert_eq!(server.seen().len(), asked);
    home.run(&["budget", "set", "main", "--cost", "none"]).expect_code(0);
    home.run(&["resume"]).expect_code(0);
    assert_eq!(server.seen().len(), asked + 1);
}

/// Runs that share a dollar.
const RUNS: usize = 50;

#[test]
fn r23_fifty_runs_at_once_do_not_pass_the_dollar_that_they_share_whatever_is_killed() {
    let server = ModelServer::start().unwrap();
    let home = priced(&server, 10).with("LIMULUS_LANES__MAIN", "50").with("LIMULUS_BUDGET__DAY__COST", "1");
    let mut owner = home.start(&["serve"]);
    owner.until_err("serving");
    for at in 0..RUNS {
        let key = format!("s{at}");
        home.run(&["send", "--session", &key, "rounds=1 tool=ls tokens=2900"]).expect_code(0);
        if at % 20 == 19 {
            owner.kill();
            owner = home.start(&["serve"]);
            owner.until_err("serving");
        }
    }
    let waits = |home: &Home| states(home).iter().filter(|state| *state == "awaiting").count();
    until("the end of the dollar", || waits(&home) > 0);
    owner.kill();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    until("that all wait or are done", || {
        let states = states(&home);
        states.len() == RUNS && states.iter().all(|state| state == "awaiting" || state == "completed")
    });
    assert!(waits(&home) > 0, "the dollar was enough for all: {:?}", states(&home));
    let (spent, asked) = (cost(&home), server.seen().len());
    assert!((700_000..=1_000_000).contains(&spent), "{spent} of 1,000,000");
    let shown = home.json(&["budget", "show", "s49"]);
    let lines = shown["lines"].as_array().cloned().expect("lines");
    let day = lines.iter().find(|line| line["scope"] == "day" && line["of"] == "cost").expect("the day's money");
    assert_eq!((&day["used"], &day["limit"]), (&spent.into(), &1_000_000.into()));
    // No request is sent until the limit is raised; then all runs continue by themselves.
    assert_eq!(server.seen().len(), asked);
    home.run(&["budget", "set", "--day", "--cost", "none"]).expect_code(0);
    until("the end of all", || states(&home).iter().all(|state| state == "completed"));
    assert_eq!(server.violations(), [""; 0]);
    owner.kill();
}

#[test]
pub(crate) fn r23_a_budget_that_is_none_is_refused_with_what_to_say() {
    let home = Home::new();
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    for (words, hint) in [
        (&["budget", "set", "main"][..], "--tokens"),
        (&["budget", "set", "main", "--cost", "-1"], "--cost"),
        (&["budget", "set", "main", "--tokens", "many"], "whole number"),
    ] {
        let refused = home.run(words).expect_code(2);
        assert!(refused.err.contains(hint), "{words:?}: {refused:?}");
    }
    home.run(&["budget", "set", "main", "--run", "--tokens", "9"]).expect_code(3).expect_err("no run under way");
    home.run(&["budget", "set", "nobody", "--tokens", "9"]).expect_code(4);
    home.run(&["budget", "show", "nobody"]).expect_code(4);
}

/// R23: the limit of the whole home, and the part of it that is kept for recovery.
#[test]
pub(crate) fn r23_the_home_has_a_limit_that_no_day_renews_and_a_reserve() {
    let server = ModelServer::start().unwrap();
    let home = Home::new()
        .served_by(&server)
        .with("LIMULUS_BUDGET__HOME__RESERVE__CALLS", "50")
        .with("LIMULUS_BUDGET__HOME__CALLS", "2")
        .with("LIMULUS_BUDGET__HOME__TOKENS", "1000000");
    home.run(&["agent", "-m", "tokens=2"]).expect_code(0);
    let line = |of: &str| {
        let lines = budget(&home)["lines"].as_array().cloned().expect("lines");
        lines.into_iter().find(|line| line["scope"] == "home" && line["of"] == of).expect("the line of the home")
    };
    let spent = home.json(&["sessions", "show"])["resources"]["token_usage"].clone();
    assert_eq!((&line("tokens")["used"], &line("tokens")["kept"]), (&spent, &50_000.into()));
    // Half of the calls are kept, so the second one waits.
    home.run(&["agent", "--session", "other", "-m", WORK]).expect_code(69);
    until("a run that waits for more", || home.json(&["status"])["unfinished"][0]["budget"]["scope"] == "home");
    assert_eq!(
        (&line("calls")["used"], &line("calls")["reserved"], &line("calls")["free"]),
        (&1.into(), &1.into(), &0.into())
    );
    let explained = home.run(&["runs", "explain", "--session", "other"]).expect_code(0);
    assert!(explained.out.contains("the whole home, in all of its time,"), "{explained:?}");
    assert!(!explained.out.contains("until"), "no day ends this wait: {explained:?}");
    home.run(&["budget", "set", "--home", "--calls", "none"]).expect_code(0);
    home.run(&["resume"]).expect_code(0);
}

/// R23: a limit of all runs that is set while a run is at work, which began when there was none, holds for its next request.
#[test]
pub(crate) fn r23_a_limit_of_the_day_that_is_set_later_holds_for_a_run_at_work() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let work = "tokens=2\nexec: touch at-work; until test -e go; do sleep 0.02; done\nexec: true";
    let agent = home.start(&["agent", "--yes", "-m", work]);
    until("its command", || home.file("at-work").exists());
    home.run(&["budget", "set", "--day", "--calls", "1"]).expect_code(0);
    home.put("go", "");
    agent.finish().expect_code(69);
    until_it_waits(&home);
    let explained = home.run(&["runs", "explain"]).expect_code(0);
    assert!(explained.out.contains("what the whole home today may spend is used up"), "{explained:?}");
    home.run(&["budget", "set", "--day", "--calls", "none"]).expect_code(0);
    home.run(&["resume"]).expect_code(0);
}
