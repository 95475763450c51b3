//! Pausing and resuming a run, now or at a breakpoint, and its explanation meanwhile.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Busy, HOLD, Home, is_alive, pids, until};

/// Counts in a file until the file `go` is there.
const COUNT: &str = "run `echo $$ >> pids; until test -e go; do echo x >> count; sleep 0.01; done`";

/// Whether a process is stopped, or waits for a child that was stopped before its `exec`. A shell that uses `vfork`
/// cannot be stopped before that, but does not run either.
fn is_stopped(pid: u32) -> bool {
    let of = |pid: &str, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let state = |pid: &str| {
        let stat = of(pid, "stat");
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next().map(str::to_owned))
    };
    let pid = pid.to_string();
    let children = of(&pid, &format!("task/{pid}/children"));
    match state(&pid).as_deref() {
        Some("T") => true,
        Some("D") => children.split_whitespace().any(|child| state(child).as_deref() == Some("T")),
        _ => false,
    }
}

fn outcomes(home: &Home) -> Vec<Value> {
    let runs = home.json(&["runs", "list"]);
    runs.as_array().expect("a list").iter().map(|run| run["outcome"].clone()).collect()
}

/// R16: a paused run does nothing until it is resumed, with any owner; its command runs once.
#[test]
fn r16_a_frozen_run_stays_stopped_across_the_death_of_its_owner_and_continues_when_it_is_resumed() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    home.run(&["send", COUNT]).expect_code(0);
    until("a command that counts", || !home.text("count").is_empty());
    let pid = pids(&home.file("pids"))[0];
    let paused = home.run(&["runs", "pause", "--freeze"]).expect_code(0);
    assert!(paused.out.contains("its commands are stopped"), "{}", paused.out);
    until("a command that stands still", || is_stopped(pid));
    let counted = home.text("count");
    owner.kill();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let explained = home.json(&["runs", "explain"]);
    assert_eq!(explained["state"], "paused", "{explained}");
    assert!(explained["until"].is_null(), "its limits stand still: {explained}");
    assert!(is_stopped(pid));
    assert_eq!(home.text("count"), counted);
    home.run(&["runs", "resume"]).expect_code(0);
    until("a command that counts again", || home.text("count") > counted);
    home.put("go", "");
    home.run(&["runs", "wait"]).expect_code(0);
    assert_eq!(pids(&home.file("pids")), [pid], "it ran once");
}

/// R16: the next owner continues a frozen command of a killed owner, also if the run was resumed meanwhile.
#[test]
fn r16_without_an_owner_a_run_is_paused_and_resumed_too() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    agent.kill();
    home.run(&["runs", "pause", "--freeze"]).expect_code(0);
    let pid = pids(&home.file("pids"))[0];
    let again = home.run(&["runs", "pause"]).expect_code(3);
    assert!(again.err.contains("runs resume"), "it says what to do: {}", again.err);
    home.put("go", "");
    let resumed = home.run(&["runs", "resume"]).expect_code(0);
    assert!(resumed.out.contains("exit status 0"), "this process has done the work: {}", resumed.out);
    assert_eq!(outcomes(&home), ["completed"]);
    assert_eq!(pids(&home.file("pids")), [pid], "it ran once");
    home.run(&["runs", "resume"]).expect_code(4);
}

/// R11, R16: a command that waits for an owner which is killed owns the home then. Its request resumes the run of the
/// session, which no other process executes: the command does not leave it unfinished.
#[test]
fn r11_r16_a_command_that_takes_a_home_over_finishes_the_run_that_it_resumed() {
    let changes = [
        (&["runs", "break", "--on", "compacting", "--wait"][..], "pauses in `compacting`\n"),
        (&["queue", "mode", "main", "followup", "--wait"][..], "followup"),
    ];
    for (change, says) in changes {
        let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
        let owner = home.start(&["serve"]);
        owner.until_err("serving");
        home.run(&["send", HOLD]).expect_code(0);
        until("a command that holds", || pids(&home.file("pids")).len() == 1);
        // An owner that does not answer.
        owner.signal(Signal::STOP);
        let asked = home.start(change);
        asked.until_err("waiting");
        owner.kill();
        asked.until_err("continues until nothing of agent:main:main is unfinished");
        home.put("go", "");
        let done = asked.finish().expect_code(0);
        assert!(done.out.contains(says) && done.out.lines().count() == 1, "its own answer alone: {done:?}");
        assert_eq!(outcomes(&home), ["completed"], "{done:?}");
        assert_eq!(pids(&home.file("pids")).len(), 1, "it ran once");
    }
}

/// R20: a session that is repaired recovers until it is known what its command did. The command ran once, and what the
/// session did is in the trace in this order.
#[test]
fn r20_a_repaired_session_recovers_before_its_run_continues() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow").with("LIMULUS_RUNS__POISON_AFTER", "1");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    home.run(&["send", HOLD]).expect_code(0);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    owner.kill();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let session = |what: &str| home.json(&["sessions", "show"])[what].clone();
    until("a session that needs a human", || session("lifecycle") == "error");
    assert_eq!(session("flags")["needsRecovery"], true);
    let resumed = home.start(&["resume", "main", "--force"]);
    until("a run that continues", || session("run_state") == "tool_exec");
    home.put("go", "");
    resumed.finish().expect_code(0);
    assert_eq!(pids(&home.file("pids")).len(), 1, "it ran once");
    let trace = home.run(&["runs", "trace", "--json"]).expect_code(0).lines();
    let entries = trace.iter().filter_map(|line| {
        let to = line["fields"]["to"].as_str().map(|to| format!(" {to}")).unwrap_or_default();
        Some(format!("{}{to}", line["event"].as_str()?)).filter(|entry| entry.contains("call_found") || !to.is_empty())
    });
    let entries: Vec<_> = entries.collect();
    let at = entries.iter().position(|entry| entry.ends_with(" error")).expect("it was held");
    let expected =
        ["lifecycle_changed recovering", "call_found", "lifecycle_changed ready", "lifecycle_changed active"];
    assert_eq!(entries[at + 1..at + 5], expected, "{entries:?}");
}

/// R60: a run that needs a human can be ended, with and without an owner: its command is ended, and what follows is answered.
#[test]
fn r60_a_run_that_needs_a_human_can_be_aborted() {
    for is_owned in [true, false] {
        let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow").with("LIMULUS_RUNS__POISON_AFTER", "1");
        let owner = home.start(&["serve"]);
        owner.until_err("serving");
        home.run(&["send", HOLD]).expect_code(0);
        until("a command that holds", || pids(&home.file("pids")).len() == 1);
        owner.kill();
        let held = home.run(&["resume"]).expect_code(3);
        assert!(held.err.contains("needs a human"), "{}", held.err);
        let owner = is_owned.then(|| home.start(&["serve"]));
        if let Some(owner) = &owner {
            owner.until_err("serving");
        }
        let session = home.json(&["sessions", "show"]);
        assert_eq!((&session["lifecycle"], &session["can_abort"]), (&"error".into(), &true.into()), "{session}");
        let can = home.json(&["runs", "explain"])["can"].to_string();
        assert!(can.contains("limulus runs abort"), "{can}");
        home.run(&["runs", "abort"]).expect_code(0).expect_err("which needed a human, is aborted");
        assert_eq!(home.json(&["sessions", "show"])["lifecycle"], "idle");
        assert_eq!(outcomes(&home), ["aborted"]);
        until("the end of its command", || pids(&home.file("pids")).iter().all(|pid| !is_alive(*pid)));
        home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
        home.run(&["runs", "abort"]).expect_code(4);
    }
}

/// A home whose run needs a human; nobody owns it.
fn held_home() -> Home {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow").with("LIMULUS_RUNS__POISON_AFTER", "1");
    let agent = home.start(&["agent", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    agent.kill();
    home.run(&["resume"]).expect_code(3).expect_err("needs a human");
    home
}

/// R60: who watches a run that needs a human learns the command that works, also when its owner goes away, and both who watch and
/// who wait end with the code of the run.
#[test]
fn r60_who_watches_a_run_that_needs_a_human_learns_the_command_that_works() {
    let home = held_home();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let (watch, wait) = (home.start(&["runs", "watch"]), home.start(&["runs", "wait"]));
    watch.until_err("--force` repairs and resumes it");
    watch.until_err("✗ the run crashed");
    wait.until_err("--force` repairs and resumes it");
    owner.kill();
    // Both continue without it; whoever owns the home next shows that they have noticed.
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    owner.kill();
    let timed_out = home.run(&["runs", "wait", "--timeout", "0"]).expect_code(124);
    assert!(timed_out.err.contains("needs a human") && !timed_out.err.contains("continues"), "{timed_out:?}");
    home.run(&["runs", "abort"]).expect_code(0);
    for ended in [watch.finish().expect_code(130), wait.finish().expect_code(130)] {
        assert!(!ended.err.contains("` continues the run"), "that is refused: {}", ended.err);
    }
}

/// R60: a message to a session that needs a human is refused: that says that it was not recorded, and what to do.
#[test]
fn r60_a_message_that_is_refused_says_that_it_was_not_recorded() {
    for is_owned in [true, false] {
        let home = held_home();
        let owner = is_owned.then(|| home.start(&["serve"]));
        if let Some(owner) = &owner {
            owner.until_err("serving");
        }
        for words in [&["agent", "-m", "And?"][..], &["send", "And?"], &["agent", "--json", "-m", "And?"]] {
            let refused = home.run(words).expect_code(3);
            for part in
                ["refused and not recorded", "limulus resume agent:main:main --force", "limulus runs abort --session"]
            {
                assert!(refused.err.contains(part), "{words:?}: {part}: {}", refused.err);
            }
        }
        let line = home.run(&["agent", "--json", "-m", "And?"]).expect_code(3).err;
        let error: Value = serde_json::from_str(line.lines().last().expect("a line")).expect("JSON");
        assert_eq!((&error["kind"], &error["code"]), (&"refused".into(), &3.into()), "{error}");
        assert!(error["message"].as_str().is_some_and(|what| what.contains("not recorded")), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--force")), "{error}");
        home.run(&["runs", "abort"]).expect_code(0);
        assert_eq!(outcomes(&home), ["aborted"], "nothing was recorded that would run now");
    }
}

/// R60: the same if the command that sends the message is the owner that finds out.
#[test]
fn r60_a_message_of_the_owner_that_finds_a_run_to_need_a_human_is_not_recorded() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow").with("LIMULUS_RUNS__POISON_AFTER", "1");
    let agent = home.start(&["agent", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    agent.kill();
    let refused = home.run(&["agent", "-m", "And?"]).expect_code(3);
    let recorded = home.json(&["queue", "list"]).to_string().contains("And?");
    assert!(!recorded && refused.err.contains("refused and not recorded"), "{refused:?}");
}

/// R60, R62: `/stop` ends such a run too, and `/new` begins a new conversation.
#[test]
fn r60_the_chat_ends_a_run_that_needs_a_human() {
    for (command, says) in [("/stop", "has ended"), ("/new", "a new conversation begins")] {
        let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow").with("LIMULUS_RUNS__POISON_AFTER", "1");
        let agent = home.start(&["agent", "-m", HOLD]);
        until("a command that holds", || pids(&home.file("pids")).len() == 1);
        agent.kill();
        home.run(&["resume"]).expect_code(3);
        let said = home.run(&[command]).expect_code(0).out;
        assert!(said.contains(says), "{said}");
        home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
        assert_eq!(outcomes(&home), ["aborted", "completed"]);
    }
}

/// R10: a command whose owner goes away before it answers is not sent to the next one, which would do it a second time.
#[test]
fn r10_a_command_whose_owner_goes_away_is_not_sent_again() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let stubborn = "run `trap '' TERM; echo $$ >> pids; until test -e go; do sleep 0.02; done`";
    home.run(&["send", stubborn]).expect_code(0);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    let stop = home.start(&["/stop"]);
    let waits_for = || home.json(&["runs", "explain"])["waits_for"].to_string();
    until("a run that ends", || waits_for().contains("its calls to end"));
    owner.kill();
    let stopped = stop.finish().expect_code(1);
    assert!(stopped.err.contains("went away before it answered /stop"), "{}", stopped.err);
    home.put("go", "");
    home.run(&["resume"]).expect_code(130);
    assert_eq!(outcomes(&home), ["aborted"]);
}

/// R16: `--drop` ends the run as interrupted, with its command, and the next message is answered.
#[test]
fn r16_a_dropped_paused_run_lets_the_next_message_run() {
    let mut busy = Busy::new();
    let later = busy.send("followup", "Who are you?");
    busy.home.run(&["runs", "pause", "--session", "main"]).expect_code(0);
    assert!(pids(&busy.home.file("pids")).iter().all(|pid| is_alive(*pid)), "pausing ends no command");
    busy.home.run(&["runs", "resume", "--drop"]).expect_code(0).expect_err("ended as interrupted");
    busy.finish().expect_code(130);
    assert_eq!(busy.receipt(&later)["outcome"], "completed");
    assert_eq!(outcomes(&busy.home), ["interrupted", "completed"]);
    assert!(pids(&busy.home.file("pids")).iter().all(|pid| !is_alive(*pid)));
}

/// R16: each breakpoint pauses it once.
#[test]
fn r16_a_run_pauses_at_its_breakpoints() {
    let mut busy = Busy::new();
    busy.home.run(&["runs", "break", "--before-tool", "ls"]).expect_code(0);
    busy.send("steer", "list the files here");
    busy.let_go();
    until("the breakpoint", || busy.explained()["state"] == "paused");
    let explained = busy.explained();
    assert!(explained["waits_for"].as_str().is_some_and(|text| text.contains("before `ls`")), "{explained}");
    busy.home.run(&["runs", "resume"]).expect_code(0);
    busy.finish().expect_code(0);
    assert_eq!(outcomes(&busy.home), ["completed"]);
}

/// R16: an invalid breakpoint and an ended run are refused with a hint.
#[test]
fn r16_an_invalid_breakpoint_is_refused() {
    let mut busy = Busy::new();
    let refused = busy.home.run(&["runs", "break", "--on", "streaming"]).expect_code(3);
    assert!(refused.err.contains("tool_exec"), "it names those that there are: {}", refused.err);
    assert!(busy.home.run(&["runs", "break", "--on", "nowhere"]).expect_code(2).err.contains("awaiting"));
    busy.home.run(&["runs", "break"]).expect_code(2);
    busy.home.run(&["runs", "break", "--on", "error"]).expect_code(0);
    busy.home.run(&["runs", "break", "--clear"]).expect_code(0);
    busy.let_go();
    busy.finish().expect_code(0);
    busy.home.run(&["runs", "break", "--clear"]).expect_code(4);
    busy.home.run(&["runs", "pause"]).expect_code(4);
}

/// R22: three lines: state and since when, what it waits for and until when, what can be done.
#[test]
fn r22_a_run_explains_itself_whatever_it_does() {
    let mut busy = Busy::new();
    let text = busy.home.run(&["runs", "explain"]).expect_code(0).out;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains("is tool_exec since"), "{text}");
    assert!(lines[1].contains("waits for calls: exec (started); at the latest until"), "{text}");
    assert!(lines[2].contains("runs steer RUN TEXT") && lines[2].contains("runs abort RUN"), "{text}");
    let later = busy.send("followup", "Who are you?");
    let message = later["message"].as_str().expect("a text");
    let waiting = busy.home.json(&["runs", "explain", message]);
    assert_eq!(waiting["state"], "queued", "{waiting}");
    assert!(waiting["waits_for"].as_str().is_some_and(|text| text.contains("which is tool_exec")), "{waiting}");
    assert_eq!(waiting["can"][0]["command"], format!("limulus queue cancel {message}"));
    busy.let_go();
    busy.finish().expect_code(0);
    busy.receipt(&later);
    let ended = busy.home.json(&["runs", "explain", message]);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert!(ended["waits_for"].is_null(), "{ended}");
}

/// R32: a steer enters that run and no other.
#[test]
fn r32_an_unfinished_run_is_steered_by_its_id_and_an_ended_one_is_not() {
    let mut busy = Busy::new();
    let run = busy.explained()["run"].as_str().expect("a text").to_owned();
    let sent = busy.home.json(&["runs", "steer", &run, "Who are you?"]);
    assert_eq!((&sent["state"], &sent["mode"]), (&"queued".into(), &"steer".into()), "{sent}");
    busy.home.run(&["runs", "steer", "--session", "main", &run, "both"]).expect_code(2);
    busy.let_go();
    let ended = busy.finish().expect_code(0);
    assert!(ended.out.contains("offline model"), "{}", ended.out);
    let refused = busy.home.run(&["runs", "steer", &run, "And now?"]).expect_code(3);
    assert!(refused.err.contains("limulus send --session"), "{}", refused.err);
    assert_eq!(outcomes(&busy.home), ["completed"]);
}
