//! Lanes: a queued run shows what it waits for, and can be cancelled.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, Process, Terminal, pids, until};

/// A command that runs until the file `go` exists.
const HOLD: &str = "run `echo $$ >> pids; until test -e go; do sleep 0.02; done`";

/// One run at a time: the run of session `a` executes until the file `go` exists.
fn one_place(home: &Home) -> (Process, Process) {
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let first = home.start(&["agent", "--session", "a", "--yes", "-m", HOLD]);
    until("the command that holds", || pids(&home.file("pids")).len() == 1);
    (owner, first)
}

fn waits(line: &Value) -> bool {
    line["stream"] == "queue" && line["type"] == "waiting"
}

/// R35: a wait is reported when it starts, after 2 s, and at its end. It is shown by `status`, by `runs` and on stderr
/// of the waiting command.
#[test]
fn r35_a_queued_run_shows_what_it_waits_behind() {
    let home = Home::new().with("LIMULUS_LANES__MAIN", "1");
    let (owner, first) = one_place(&home);
    let second = home.start(&["agent", "--session", "b", "--json", "-m", "tokens=3 Who are you?"]);
    let wait_line = second.until_line("the wait", waits);
    assert_eq!(
        (&wait_line["lane"], &wait_line["behind"][0]["session"]),
        (&"main".into(), &"agent:main:a".into()),
        "{wait_line}"
    );
    second.until_line("a long wait", |line| waits(line) && line["waited_ms"].as_u64() >= Some(2_000));
    let third = home.start(&["agent", "--session", "c", "-m", "tokens=3 Who are you?"]);
    third.until_err("queued behind agent:main:a\n");
    third.until_err("queued behind agent:main:a, 2 s");

    let status = home.json(&["status"]);
    let unfinished = status["unfinished"].as_array().expect("a list");
    let of = |key: &str| unfinished.iter().find(|session| session["key"] == key).expect("it is unfinished").clone();
    let waits_for = of("agent:main:c")["waits_for"].as_str().map(str::to_owned).expect("words");
    assert!(waits_for.contains("lane main: queued behind agent:main:a, 1 before it, since "), "{waits_for}");
    assert_eq!(
        (&of("agent:main:b")["lane_wait"]["ahead"], &of("agent:main:a")["lane_wait"]),
        (&0.into(), &Value::Null)
    );
    let runs = home.json(&["runs", "list"]);
    let waiting: Vec<_> = runs.as_array().expect("a list").iter().filter(|run| run["lane_wait"].is_object()).collect();
    assert_eq!(waiting.iter().map(|run| run["key"].clone()).collect::<Vec<_>>(), ["agent:main:b", "agent:main:c"]);
    assert!(home.run(&["runs", "list"]).expect_code(0).out.contains("queued behind agent:main:a"));
    let shown = home.run(&["runs", "show", "--session", "b"]).expect_code(0).out;
    assert!(
        shown.contains("for a slot in the lane main") && shown.contains("its slots are held by: agent:main:a (run "),
        "{shown}"
    );
    // A late watcher receives it as well.
    let run = waiting[0]["run"].as_str().expect("an id");
    let watch = home.start(&["runs", "watch", run, "--json"]);
    watch.until_line("the wait", waits);

    home.put("go", "");
    for waited in [second, watch] {
        waited.until_line("its end", |line| line["stream"] == "queue" && line["type"] == "entered");
        waited.finish().expect_code(0);
    }
    third.finish().expect_code(0).expect_err("for a slot in the lane main");
    first.finish().expect_code(0);
    assert!(home.json(&["status"])["unfinished"].as_array().is_some_and(Vec::is_empty));
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}

/// R23: one run of an agent at once, across a kill; those of other agents do not wait behind it.
#[test]
fn r23_a_run_past_the_bound_of_its_agent_waits_says_for_what_and_continues_by_itself() {
    let home =
        Home::new().with("LIMULUS_BUDGET__AGENT__CONCURRENT_RUNS", "1").with("LIMULUS_AGENTS__OTHER__WORKSPACE", ".");
    let (mut owner, first) = one_place(&home);
    home.run(&["send", "--session", "b", "Who are you?"]).expect_code(0);
    home.run(&["agent", "--session", "agent:other:c", "-m", "Who are you?"]).expect_code(0);
    let waits_for = |home: &Home| {
        let status = home.json(&["status"]);
        let waiting = status["unfinished"].as_array().and_then(|all| all.iter().find(|of| of["key"] == "agent:main:b"));
        waiting.and_then(|of| of["waits_for"].as_str()).map(str::to_owned).unwrap_or_default()
    };
    let place = "a slot of the agent main in the lane main: queued behind agent:main:a";
    assert!(waits_for(&home).starts_with(place), "{}", waits_for(&home));
    let explained = home.run(&["runs", "explain", "--session", "b"]).expect_code(0);
    assert!(explained.out.contains(place), "{explained:?}");
    // A command that loses its owner would be the next one.
    first.kill();
    owner.kill();
    owner = home.start(&["serve"]);
    owner.until_err("serving");
    until("the wait of the second run", || waits_for(&home).starts_with(place));
    home.put("go", "");
    home.run(&["runs", "wait", "--session", "b"]).expect_code(0);
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}

/// R23: one agent at once: a run of another agent waits until the first agent has none, and later runs of the first wait
/// behind it.
#[test]
fn r23_a_run_of_one_agent_too_many_waits_says_for_what_and_continues_by_itself() {
    let home =
        Home::new().with("LIMULUS_BUDGET__HOME__CONCURRENT_AGENTS", "1").with("LIMULUS_AGENTS__OTHER__WORKSPACE", ".");
    let (_owner, first) = one_place(&home);
    let second = home.start(&["agent", "--session", "agent:other:b", "--json", "-m", "Who are you?"]);
    let wait_line = second.until_line("the wait", waits);
    assert_eq!((&wait_line["for_agents"], &wait_line["agent"]), (&true.into(), &Value::Null), "{wait_line}");
    let explained = home.run(&["runs", "explain", "--session", "agent:other:b"]).expect_code(0);
    let place = "a slot for another agent in the lane main: queued behind agent:main:a";
    assert!(explained.out.contains(place), "{explained:?}");
    let third = home.start(&["agent", "--session", "c", "--json", "-m", "Who are you?"]);
    assert_eq!(third.until_line("its wait", waits)["for_agents"], true);
    home.put("go", "");
    for run in [first, second, third] {
        run.finish().expect_code(0);
    }
}

/// R15, R35: a queued run is cancelled by a command or by Ctrl-C. It never starts, and nothing else is cancelled.
#[test]
fn r15_r35_a_run_that_waits_for_its_place_can_be_aborted() {
    let home = Home::new().with("LIMULUS_LANES__MAIN", "1");
    let (_owner, first) = one_place(&home);
    let second = home.start(&["agent", "--session", "b", "--json", "-m", "tokens=3 Who are you?"]);
    second.until_line("the wait", waits);
    let third = home.start(&["agent", "--session", "c", "--json", "-m", "tokens=3 Who are you?"]);
    third.until_line("the wait", waits);
    let last = home.start(&["agent", "--session", "d", "--json", "-m", "tokens=3 Who are you?"]);
    last.until_line("the wait", waits);
    home.run(&["runs", "abort", "--session", "b"]).expect_code(0).expect_err("is cancelled");
    third.signal(Signal::INT);
    for taken_back in [second, third] {
        let lines = taken_back.finish().lines();
        assert!(!lines.iter().any(|line| line["stream"] == "lifecycle" && line["type"] == "start"), "{lines:?}");
    }
    home.put("go", "");
    first.finish().expect_code(0);
    last.finish().expect_code(0);
    let runs = home.json(&["runs", "list"]);
    let keys: Vec<_> = runs.as_array().expect("a list").iter().map(|run| run["key"].clone()).collect();
    assert_eq!(keys, ["agent:main:a", "agent:main:d"]);
}

/// R11, R16, R35: the owner is killed with three unfinished runs, and the next one executes one at a time. The queued
/// runs accept messages and settings, can be paused, and show what they wait for.
#[test]
fn r11_r35_a_run_that_queues_after_a_restart_accepts_commands() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    for (nth, session) in ["a", "b", "c"].into_iter().enumerate() {
        home.run(&["send", "--session", session, HOLD]).expect_code(0);
        until("a command that holds", || pids(&home.file("pids")).len() == nth + 1);
    }
    owner.kill();
    let home = home.with("LIMULUS_LANES__MAIN", "1");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let explained = |session: &str| home.json(&["runs", "explain", "--session", session]);
    let waits = |session: &str| {
        explained(session)["waits_for"].as_str().is_some_and(|what| what.contains("a slot in the lane main"))
    };
    until("two that wait", || waits("b") && waits("c"));

    let sent = home.json(&["send", "--session", "b", "Who are you?"]);
    assert_eq!((&sent["state"], &sent["mode"]), (&"queued".into(), &"steer".into()), "{sent}");
    assert!(waits("b"), "{}", explained("b"));
    let message = sent["message"].as_str().expect("a text");
    let explained_message = home.json(&["runs", "explain", message]);
    let what = explained_message["waits_for"].as_str().expect("words");
    assert!(what.contains("which waits for a slot in the lane main"), "{what}");
    home.run(&["queue", "mode", "b", "followup"]).expect_code(0);
    home.run(&["queue", "cancel", home.json(&["send", "--session", "b", "no"])["message"].as_str().expect("a text")])
        .expect_code(0);
    home.run(&["runs", "pause", "--session", "c"]).expect_code(0);
    assert_eq!(explained("c")["state"], "paused");
    home.run(&["runs", "resume", "--session", "c"]).expect_code(0);
    until("it to continue without waiting", || !waits("c"));
    assert!(waits("b"), "{}", explained("b"));

    home.put("go", "");
    for session in ["a", "b", "c"] {
        home.run(&["runs", "wait", "--session", session]).expect_code(0);
    }
    let shown = home.json(&["runs", "show", "--session", "b"]);
    assert!(
        shown["text"].as_str().is_some_and(|text| text.contains("offline model")),
        "it is steered into it: {shown}"
    );
    assert_eq!(pids(&home.file("pids")).len(), 3, "each command ran once");
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}

/// R11, R35: a run that waits for approval frees its slot, also after a kill. Once it is approved it queues for the lane.
#[test]
fn r11_r35_a_run_that_waits_for_approval_lets_others_run_and_queues_when_it_is_approved() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new().with("LIMULUS_LANES__MAIN", "1");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let terminal = Terminal::run(&home, &["agent", "--session", "asks", "-m", "run `echo ran >> ledger`"]);
    terminal.until("[y/n/a/?]");
    home.run(&["agent", "--session", "b", "-m", "Who are you?"]).expect_code(0);
    // The command that loses its owner is the next one, and asks again.
    let killed = u64::from(owner.pid());
    owner.kill();
    until("the next owner", || home.json(&["status"])["owner"]["pid"].as_u64().is_some_and(|pid| pid != killed));

    let first = home.start(&["agent", "--session", "a", "--yes", "-m", HOLD]);
    until("the command that holds", || pids(&home.file("pids")).len() == 1);
    assert!(home.json(&["runs", "list", "--session", "asks"])[0]["lane_wait"].is_null(), "it waits for a human");
    terminal.type_keys(&["y", "Enter"]);
    let place = "a slot in the lane main: queued behind agent:main:a";
    until("its wait for the lane", || {
        let explained = home.json(&["runs", "explain", "--session", "asks"]);
        explained["waits_for"].as_str().is_some_and(|what| what.contains(place))
    });
    let status = home.run(&["status"]).expect_code(0).out;
    assert!(status.contains(&format!("waits for {place}")), "{status}");
    assert_eq!(home.text("ledger"), "");

    home.put("go", "");
    terminal.until("exit=0");
    first.finish().expect_code(0);
    assert_eq!(home.text("ledger"), "ran\n");
    home.run(&["audit", "asks", "--verify"]).expect_code(0);
}

/// R21: at the memory limit of the process one run executes at a time. Evicted content is read again.
#[test]
fn r21_at_the_memory_limit_one_run_executes_at_a_time_and_the_others_follow() {
    let home = Home::new().with("LIMULUS_BUDGET__PROCESS__MEMORY_MB", "1");
    let (owner, first) = one_place(&home);
    let resident = home.json(&["status"])["owner"]["resident_bytes"].as_u64();
    assert!(resident > Some(1 << 20), "{resident:?}");
    let second = home.start(&["agent", "--session", "b", "-m", "Who are you?"]);
    second.until_err("waits for more");
    let shown = home.json(&["budget", "show", "b"]);
    let line = shown["lines"].as_array().and_then(|lines| lines.iter().find(|line| line["scope"] == "process"));
    let line = line.expect("a line of the process");
    assert_eq!((&line["of"], &line["limit"], &shown["waits"]), (&"memory".into(), &(1 << 20).into(), &true.into()));
    assert!(line["used"].as_u64() >= Some(1 << 20), "{line}");
    let words = home.run(&["budget", "show", "b"]).expect_code(0).out;
    assert!(words.contains("its run waits for others to end: the process may have 1 MiB in memory"), "{words}");
    let status = home.run(&["status"]).expect_code(0).out;
    assert!(status.contains("waits for other runs to end: the process has reached its memory limit"), "{status}");

    home.put("go", "");
    first.finish().expect_code(0);
    second.finish().expect_code(0);
    let texts = home.json(&["sessions", "show", "a"])["transcript"].to_string();
    assert!(texts.contains("until test -e go"), "{texts}");
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
    home.run(&["audit", "a", "--verify"]).expect_code(0);
}
