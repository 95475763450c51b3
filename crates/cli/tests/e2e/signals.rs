//! Ctrl-C, SIGTERM and limits: what ends, what is kept, and that nothing keeps running that should not.

use model_server::ModelServer;
use rustix::process::Signal;

use crate::support::{Home, Process, Terminal, is_alive, pids, until};

/// A command with a child of its own, both waiting; their pids are in `pids`.
const WAIT: &str = "run `sleep 300 & echo $$ $! >> pids; wait`";

fn waiting_pids(home: &Home) -> Vec<u32> {
    until("both pids", || pids(&home.file("pids")).len() == 2);
    pids(&home.file("pids"))
}

fn assert_gone(pids: &[u32]) {
    let left: Vec<&u32> = pids.iter().filter(|pid| is_alive(**pid)).collect();
    assert!(left.is_empty(), "still running: {left:?}");
}

#[test]
pub(crate) fn r15_an_interrupt_ends_the_run_with_every_process_of_its_command() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", WAIT]);
    let pids = waiting_pids(&home);
    agent.signal(Signal::INT);
    let ended = agent.finish().expect_code(130);
    assert!(ended.verdict().contains("aborted"), "{ended:?}");
    assert_gone(&pids);
    let run = home.json(&["runs", "show"]);
    assert_eq!((&run["outcome"], &run["steps"][0]["calls"][0]["outcome"]), (&"aborted".into(), &"aborted".into()));
    home.run(&["resume"]).expect_code(0).expect_err("nothing is unfinished");
    home.assert_usable("main");
}

#[test]
pub(crate) fn r15_an_interrupt_keeps_the_text_that_has_come() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let agent = home.start(&["agent", "--json", "-m", "stall=3x1 tokens=12"]);
    let seen = agent.until_said("word2");
    agent.signal(Signal::INT);
    let lines = agent.finish().expect_code(130).lines();
    let end = lines.last().expect("an end");
    assert_eq!((&end["type"], &end["outcome"]), (&"error".into(), &"aborted".into()));
    let text = home.json(&["runs", "show"])["text"].as_str().map(str::to_owned).expect("a text");
    assert!(text.starts_with(&seen) && end["text"] == *text, "{text}");
    home.assert_usable("main");
}

#[test]
fn r15_a_second_interrupt_quits_at_once() {
    let home = Home::new();
    // The command ignores SIGTERM, so the abort waits for its SIGKILL.
    let stays = "run `trap '' TERM; echo $$ $PPID >> pids; while :; do sleep 0.05; done`";
    let agent = home.start(&["agent", "--yes", "--json", "-m", stays]);
    waiting_pids(&home);
    agent.signal(Signal::INT);
    agent.until_err("aborting");
    agent.until_line("the abort in the journal", |line| line["type"] == "ending");
    agent.signal(Signal::INT);
    let ended = agent.finish().expect_code(130);
    assert!(!ended.err.contains("the text so far is kept"), "it did not wait for the end: {ended:?}");
    // The abort is recorded: the next owner completes it.
    home.run(&["resume"]).expect_code(130);
    // The supervisor exits after it has recorded the end of its command.
    until("the end of both", || !pids(&home.file("pids")).into_iter().any(is_alive));
    assert_eq!(home.json(&["runs", "show"])["outcome"], "aborted");
}

#[test]
pub(crate) fn r15_ctrl_c_on_a_terminal_ends_the_run_cleanly() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let terminal = Terminal::run(&home, &["agent", "--yes", "-m", WAIT]);
    let pids = waiting_pids(&home);
    terminal.type_keys(&["C-c"]);
    terminal.until("exit=130");
    assert_gone(&pids);
    assert_eq!(home.json(&["runs", "show"])["outcome"], "aborted");
}

#[test]
fn r15_a_shutdown_seals_streams_and_the_next_owner_continues() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let agent = home.start(&["agent", "--json", "-m", "stall=3x1 tokens=12"]);
    let seen = agent.until_said("word2");
    agent.signal(Signal::TERM);
    let ended = agent.finish().expect_code(143).expect_err("limulus resume");
    let cut = ended.lines().into_iter().find(|line| line["type"] == "cut").expect("the stream is sealed");
    assert_eq!(cut["cause"], "shutdown");
    let trace = home.run(&["runs", "trace"]).expect_code(0).out;
    assert!(trace.contains("closed"), "{trace}");
    let status = home.json(&["status"]);
    assert_eq!(status["unfinished"][0]["key"], "agent:main:main", "{status}");
    let resumed = home.run(&["resume"]).expect_code(0);
    assert!(resumed.out.starts_with(&seen), "{resumed:?}");
}

#[test]
fn r13_r15_a_shutdown_leaves_a_running_command_to_its_supervisor() {
    let home = Home::new();
    let slow = "run `echo $$ $$ >> pids; until test -e go; do sleep 0.05; done; echo done >> ledger`";
    let agent = home.start(&["agent", "--yes", "-m", slow]);
    let pids = waiting_pids(&home);
    agent.signal(Signal::TERM);
    agent.finish().expect_code(143);
    assert!(is_alive(pids[0]), "the command continues");
    let resuming = home.start(&["resume", "--json"]);
    resuming.until_line("the look-up", |line| line["type"] == "found" && line["found"] == "running");
    home.put("go", "");
    resuming.finish().expect_code(0);
    assert_eq!(home.text("ledger"), "done\n");
}

#[test]
fn r15_an_interrupt_of_resume_ends_its_run_and_leaves_what_waits_behind_it() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    for message in ["hang=9 first", "hang=9 second"] {
        home.run(&["send", "--mode", "followup", message]).expect_code(0);
    }
    until("the first is asked", || server.seen().len() == 1);
    owner.kill();
    let resumed = home.start(&["resume"]);
    until("it is asked again", || server.seen().len() == 2);
    resumed.signal(Signal::INT);
    let ended = resumed.finish().expect_code(130);
    let runs = home.json(&["runs", "list"]);
    let status = home.json(&["status"]);
    assert!(
        ended.err.contains("more waits: `limulus resume agent:main:main` continues with it"),
        "{} {status}",
        ended.err
    );
    let aborted = |run: &&serde_json::Value| run["outcome"] == "aborted";
    assert_eq!(runs.as_array().expect("runs").iter().filter(aborted).count(), 1, "{runs}");
}

#[test]
fn r15_leaving_in_order_does_not_count_towards_poison() {
    let home = Home::new().paced(60_000);
    for words in [
        &["agent", "--json", "-m", "Who are you?"][..],
        &["resume", "--json"],
        &["resume", "--json"],
        &["resume", "--json"],
    ] {
        let agent = home.start(words);
        agent.until_line("the request", |line| line["state"] == "preparing" && line["flags"]["isWaiting"] == true);
        agent.signal(Signal::TERM);
        agent.finish().expect_code(143);
    }
    home.paced(0).run(&["resume"]).expect_code(0);
}

/// R15: stdout is full and nobody reads it: the command blocks forever, and a signal ends it nevertheless. The next
/// owner resumes its run.
#[test]
pub(crate) fn r15_a_signal_ends_a_command_whose_stdout_nobody_reads() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    for (session, signal, code) in [("term", Signal::TERM, 143), ("int", Signal::INT, 130)] {
        let (read, write) = std::io::pipe().expect("a pipe");
        let mut command =
            home.limulus(&["agent", "--session", session, "--json", "-m", "tokens=40000 Tell me a story."]);
        command.stdout(write);
        let agent = Process::spawn(command);
        // More than a pipe holds; it is drawn before signals are handled.
        until("an answer that does not fit", || {
            let run = home.run(&["runs", "show", "--session", session, "--json"]);
            run.code == Some(0) && run.out.len() > 200 << 10
        });
        agent.signal(signal);
        agent.finish().expect_code(code);
        drop(read);
        home.run(&["resume", session]);
        let run = home.json(&["runs", "show", "--session", session]);
        assert!(["completed", "aborted"].contains(&run["outcome"].as_str().expect("it has ended")), "{run}");
    }
}
