//! A second terminal: one process owns the home, others connect to it and continue when it goes away. The output is the
//! same with every owner.

use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Finished, Home, PROGRAM, Process, Terminal, is_alive, is_state, pids, until};

const TOUCH: &str = "run `echo ran >> ledger`";

/// A command that runs until the file `go` exists.
const HOLD: &str = "run `echo $$ >> pids; until test -e go; do sleep 0.02; done`";

/// An answer that takes longer than anything that is done meanwhile.
const STORY: &str = "tokens=300 Tell me a story.";

/// Waits for so many commands that hold.
fn holding(home: &Home, commands: usize) {
    until("commands that hold", || pids(&home.file("pids")).len() == commands);
}

/// An owner without a terminal.
fn serve(home: &Home) -> Process {
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    owner
}

/// What is the same for two runs of one command: names of ids and times are not.
fn settled(text: &str) -> String {
    let mut ids: Vec<String> = vec![];
    let mut settled = String::new();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let id = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if id.len() == 36 && id.matches('-').count() == 4 {
            let at = ids.iter().position(|known| known == id).unwrap_or_else(|| {
                ids.push(id.to_owned());
                ids.len() - 1
            });
            settled.push_str(&word.replace(id, &format!("id{at}")));
        } else {
            settled.push_str(word);
        }
    }
    settled
}

/// Lines of JSON without the fields that differ between runs of the test.
fn lines(finished: &Finished) -> Vec<String> {
    let bare = |mut line: Value| {
        if let Some(line) = line.as_object_mut() {
            line.remove("at");
            line.remove("until");
            // It holds the folder.
            line.remove("fingerprint");
        }
        settled(&line.to_string())
    };
    finished.lines().into_iter().map(bare).collect()
}

/// stderr without times.
fn said(finished: &Finished) -> Vec<String> {
    let is_time = |part: &&str| {
        part.strip_suffix("ms")
            .or_else(|| part.strip_suffix('s'))
            .is_some_and(|time| time.trim().parse::<f64>().is_ok())
    };
    let bare = |line: &str| {
        let words = line.split(" · ").filter(|part| !is_time(part));
        settled(&words.collect::<Vec<_>>().join(" · "))
    };
    finished.err.lines().map(bare).collect()
}

/// R22, R61: the same output, embedded and through an owner.
#[test]
fn r22_r61_a_command_prints_the_same_whoever_owns_the_home() {
    // Where it is not configured, a command that runs its message by itself denies what a service lets wait.
    let home = || Home::new().with("LIMULUS_APPROVALS__UNATTENDED", "deny");
    let (here, there) = (home(), home());
    let owner = serve(&there);
    for words in [
        &["agent", "-m", "Who are you?"][..],
        &["agent", "-m", TOUCH],
        &["agent", "--yes", "-m", TOUCH],
        &["agent", "--session", "other", "-m", "list nothing/here"],
        &["agent", "--key", "k", "-m", "tokens=4 Who are you?"],
        &["agent", "--key", "k", "-m", "tokens=4 Who are you?"],
        &["agent", "--key", "k", "-m", "something else"],
        &["agent", "--model", "nobody/nothing", "-m", "x"],
        &["agent", "--session", "a/b:c:d", "-m", "x"],
        &["resume"],
        &["resume", "nobody"],
        &["runs", "abort", "--session", "other"],
        &["runs", "wait", "--timeout", "0"],
    ] {
        let (embedded, served) = (here.run(words), there.run(words));
        assert_eq!(settled(&embedded.out), settled(&served.out), "{words:?}");
        assert_eq!((said(&embedded), embedded.code), (said(&served), served.code), "{words:?}");
    }
    for words in [
        &["agent", "--session", "json", "--json", "-m", "Who are you?"][..],
        &["agent", "--session", "json", "--json", "-m", TOUCH],
        &["events", "--session", "json", "--json"],
        &["runs", "watch", "--session", "json", "--json"],
    ] {
        let (embedded, served) = (here.run(words), there.run(words));
        let of_runs = |finished: &Finished| -> Vec<String> {
            // How often a home was opened is not the same for an owner that stays.
            let lines = lines(finished).into_iter().filter(|line| !line.contains(r#""type":"opened""#));
            // Nor is how much was recorded at once, which decides where these stand.
            let at_once = [r#""type":"delta""#, r#""type":"changed""#, r#""stream":"usage""#];
            let lines = lines.filter(|line| !at_once.iter().any(|kind| line.contains(kind)));
            lines.map(|line| without_cursor(&line)).collect()
        };
        assert_eq!(of_runs(&embedded), of_runs(&served), "{words:?}");
        assert_eq!(text_of(&embedded.lines()), text_of(&served.lines()), "{words:?}");
        assert_eq!(embedded.code, served.code, "{words:?}");
    }
    assert_eq!(there.json(&["status"])["owner"]["pid"].as_u64(), Some(u64::from(owner.pid())));
}

/// A line without its cursor: it counts the owners too.
fn without_cursor(line: &str) -> String {
    let mut line: Value = serde_json::from_str(line).expect("it was JSON before");
    line.as_object_mut().expect("an object").remove("cursor");
    line.to_string()
}

/// The joined pieces of an answer that is not retracted.
fn text_of(lines: &[Value]) -> String {
    let mut text = String::new();
    for line in lines.iter().filter(|line| line["stream"] == "assistant") {
        match line["type"].as_str() {
            Some("delta") => text.push_str(line["text"].as_str().expect("a text")),
            Some("struck") => text.clear(),
            _ => {}
        }
    }
    text
}

/// Checks that no entry and no byte of an answer is sent twice.
#[track_caller]
fn assert_once(lines: &[Value]) {
    let mut seen = std::collections::BTreeSet::new();
    for line in lines.iter().filter(|line| !is_state(line)) {
        let mut line = line.clone();
        line.as_object_mut().expect("an object").remove("cursor");
        assert!(seen.insert(line.to_string()), "sent twice: {line}");
    }
}

/// R11, R43, R61: `kill -9` of the owner. The command becomes the owner, and its output continues where it was.
#[test]
fn r11_r43_when_the_owner_is_killed_the_command_continues_from_its_cursor() {
    let home = Home::new().paced(30);
    let owner = serve(&home);
    let agent = home.start(&["agent", "--json", "-m", STORY]);
    agent.until_text(3);
    owner.kill();
    let ended = agent.finish().expect_code(0).expect_err("this process continues");
    let lines = ended.lines();
    assert_once(&lines);
    let end = lines.last().expect("an end");
    assert_eq!((&end["type"], end["text"].as_str()), (&"end".into(), Some(text_of(&lines).as_str())));
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1), "it was sent once");
    assert_eq!(home.json(&["runs", "show"])["text"], end["text"]);
}

/// R11, R43: what others did while it was not connected comes from the journal, once.
#[test]
fn r11_r43_a_command_that_slept_through_two_owners_receives_what_it_missed() {
    let home = Home::new();
    let owner = serve(&home);
    let agent = home.start(&["agent", "--yes", "--json", "-m", HOLD]);
    agent.until_line("its command", |line| line["stream"] == "tool" && line["type"] == "start");
    agent.signal(Signal::STOP);
    owner.kill();
    home.put("go", "");
    home.run(&["resume"]).expect_code(0);
    agent.signal(Signal::CONT);
    let lines = agent.finish().expect_code(0).lines();
    assert_once(&lines);
    let count =
        |stream: &str, kind: &str| lines.iter().filter(|line| line["stream"] == stream && line["type"] == kind).count();
    assert_eq!((count("tool", "end"), count("lifecycle", "end"), count("queue", "accepted")), (1, 1, 1));
    assert_eq!(lines.last().and_then(|line| line["text"].as_str()), Some(text_of(&lines).as_str()));
}

/// R11, R61: the owner is another command, which is killed; this terminal continues with its own run.
#[test]
fn r11_when_a_command_that_owns_the_home_is_killed_another_takes_over() {
    let home = Home::new();
    let first = home.start(&["agent", "--session", "first", "--yes", "-m", HOLD]);
    holding(&home, 1);
    let second = home.start(&["agent", "--session", "second", "--yes", "--json", "-m", HOLD]);
    holding(&home, 2);
    first.kill();
    second.until_err("this process continues");
    home.put("go", "");
    let lines = second.finish().expect_code(0).lines();
    assert_once(&lines);
    assert_eq!(pids(&home.file("pids")).len(), 2, "no command was run again");
    home.run(&["resume"]).expect_code(0);
    assert_eq!(home.json(&["runs", "show", "--session", "first"])["outcome"], "completed");
}

/// R61: an owner whose run is done shuts down, and the remaining command continues.
#[test]
fn r61_after_an_orderly_shutdown_of_the_owner_the_others_continue() {
    let home = Home::new();
    let command = "run `until test -e first; do sleep 0.02; done`";
    let owner = home.start(&["agent", "--session", "first", "--yes", "--json", "-m", command]);
    owner.until_line("its command", |line| line["stream"] == "tool" && line["type"] == "start");
    let second = home.start(&["agent", "--session", "second", "--yes", "--json", "-m", HOLD]);
    holding(&home, 1);
    home.put("first", "");
    owner.finish().expect_code(0);
    second.until_err("this process continues");
    home.put("go", "");
    let lines = second.finish().expect_code(0).lines();
    assert_once(&lines);
    assert_eq!(lines.iter().filter(|line| line["stream"] == "tool" && line["type"] == "end").count(), 1);
}

/// R43, R61: a second terminal sees the whole run, and the run continues whatever the terminal does.
#[test]
fn r43_a_watcher_sees_what_the_command_itself_sees() {
    let home = Home::new().paced(20);
    let agent = home.start(&["agent", "--json", "-m", STORY]);
    agent.until_text(3);
    let gone = home.start(&["runs", "watch", "--json"]);
    gone.until_text(1);
    drop(gone);
    let watch = home.start(&["runs", "watch", "--json"]);
    let (agent, watch) = (agent.finish().expect_code(0).lines(), watch.finish().expect_code(0).lines());
    assert_once(&watch);
    assert_eq!(text_of(&watch), text_of(&agent));
    let entries = |lines: &[Value]| -> Vec<String> {
        let of_run = lines.iter().filter(|line| !line["run"].is_null() && line["type"] != "delta");
        // It was accepted before it began.
        let events = of_run.filter(|line| !is_state(line) && line["stream"] != "queue");
        events.map(|line| without_cursor(&line.to_string())).collect()
    };
    assert_eq!(entries(&watch), entries(&agent));
}

/// R43: without an owner a watcher shows what is recorded and waits for the next owner.
#[test]
fn r43_a_watcher_outlives_the_owner() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "--json", "-m", HOLD]);
    holding(&home, 1);
    let watch = home.start(&["runs", "watch", "--json"]);
    watch.until_line("the call", |line| line["stream"] == "tool" && line["type"] == "start");
    agent.kill();
    watch.until_err("limulus resume agent:main:main");
    home.put("go", "");
    home.run(&["resume"]).expect_code(0);
    let lines = watch.finish().expect_code(0).lines();
    assert_once(&lines);
    assert_eq!(lines.last().and_then(|line| line["text"].as_str()), Some(text_of(&lines).as_str()));
    let starts = lines.iter().filter(|line| line["stream"] == "tool" && line["type"] == "start").count();
    let ends = lines.iter().filter(|line| line["stream"] == "tool" && line["type"] == "end").count();
    assert!(starts >= 1 && ends == 1, "{lines:?}");
}

/// R61.
#[test]
fn r61_waiting_for_a_run_has_its_own_limit() {
    let home = Home::new();
    let owner = serve(&home);
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    holding(&home, 1);
    home.run(&["runs", "wait", "--timeout", "0"]).expect_code(124).expect_err("continues");
    home.run(&["runs", "wait", "--timeout", "1"]).expect_code(124);
    let waiting = home.start(&["runs", "wait", "--json"]);
    owner.kill();
    agent.until_err("this process continues");
    home.put("go", "");
    let waited: Value = serde_json::from_str(&waiting.finish().expect_code(0).out).expect("one object");
    assert_eq!(waited["status"], "ok");
    agent.finish().expect_code(0);
    home.run(&["runs", "wait", "nothing"]).expect_code(4);
}

/// R15, R61: an abort goes to the owner of the home, and Ctrl-C ends the run there.
#[test]
fn r15_a_run_is_aborted_through_its_owner() {
    let home = Home::new().paced(40);
    let owner = serve(&home);
    let agent = home.start(&["agent", "--json", "-m", STORY]);
    agent.until_text(2);
    home.run(&["runs", "abort", "--session", "main"]).expect_code(0).expect_err("is aborted");
    agent.finish().expect_code(130);
    let agent = home.start(&["agent", "--json", "-m", STORY]);
    agent.until_text(2);
    agent.signal(Signal::INT);
    let lines = agent.finish().expect_code(130).lines();
    assert_eq!(lines.last().map(|end| end["outcome"].clone()), Some("aborted".into()));
    // SIGTERM ends the command alone.
    let agent = home.start(&["agent", "--session", "goes-on", "--json", "-m", STORY]);
    agent.until_text(1);
    agent.signal(Signal::TERM);
    agent.finish().expect_code(143);
    home.run(&["runs", "wait", "--session", "goes-on"]).expect_code(0);
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}

/// R43: from a cursor on, and the whole home live.
#[test]
fn r43_events_are_printed_from_any_cursor_on() {
    let home = Home::new();
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    home.run(&["agent", "--session", "other", "-m", "Who are you?"]).expect_code(0);
    let all = home.run(&["events", "--session", "main", "--json"]).expect_code(0).lines();
    let of_home = home.run(&["events", "--json"]).expect_code(0).lines();
    assert_eq!(of_home.iter().filter(|line| line["type"] == "end").count(), 2);
    for at in [0, all.len() / 2, all.len() - 1] {
        let from = all[at]["cursor"].as_str().expect("a cursor");
        let rest = home.run(&["events", "--session", "main", "--from", from, "--json"]).expect_code(0).lines();
        let entries = |lines: &[Value]| lines.iter().filter(|line| !is_state(line)).cloned().collect::<Vec<_>>();
        assert_eq!(entries(&rest), entries(&all[at + 1..]), "from line {at}");
    }
    home.run(&["events", "--session", "main", "--from", "nowhere"]).expect_code(2).expect_err("cursor");
    home.run(&["events", "--session", "nobody"]).expect_code(4);
    let owner = serve(&home);
    let live = home.start(&["events", "--follow", "--json"]);
    // `--follow` starts when the owner has the subscription: send until a line arrives.
    until("a line", || {
        home.run(&["agent", "--session", "other", "-m", "tokens=3 Who are you?"]).expect_code(0);
        live.pieces() > 0
    });
    let session = home.start(&["events", "--follow", "--session", "main", "--json"]);
    session.until_line("the end of the run before", |line| line["type"] == "end");
    owner.kill();
    home.run(&["agent", "-m", "list this folder"]).expect_code(0);
    session.until_line("what the next owner did", |line| line["stream"] == "tool" && line["type"] == "end");
}

/// The lines of the home for each session, without states, which come with each subscription, and without pieces of
/// text, each of which must follow the one before it.
#[track_caller]
fn of_sessions(lines: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut sessions: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut texts: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines.iter().filter(|line| !is_state(line) && line["type"] != "update") {
        if line["type"] == "delta" {
            let end = texts.entry(line["effect"].to_string()).or_default();
            assert_eq!(line["offset"], *end, "a gap, or sent twice: {line}");
            *end += line["text"].as_str().expect("a text").len() as u64;
            continue;
        }
        let mut said = line.clone();
        said.as_object_mut().expect("an object").remove("cursor");
        sessions.entry(line["session"].to_string()).or_default().push(said);
    }
    sessions
}

/// R11, R43: the whole home, also what happened between two connections.
#[test]
fn r11_r43_who_follows_the_home_misses_nothing_when_its_owners_are_killed() {
    let home = Home::new().paced(5);
    let mut owner = serve(&home);
    let follower = home.start(&["events", "--follow", "--whole", "--json"]);
    for session in ["one", "two", "three"] {
        // Pieces are sent only while their message is open, so the follower must be connected before the model sends
        // them.
        let observed = format!("observed-{session}");
        home.run(&["agent", "--session", &observed, "-m", "Who are you?"]).expect_code(0);
        follower.until_line("the owner's first end", |line| {
            line["session"] == format!("agent:main:{observed}") && line["type"] == "end"
        });
        let agent = home.start(&["agent", "--session", session, "--json", "-m", STORY]);
        let key = format!("agent:main:{session}");
        follower.until_line("text of it", |line| line["session"] == *key && line["type"] == "delta");
        owner.kill();
        home.run(&["agent", "--session", "beside", "-m", "list this folder"]).expect_code(0);
        agent.finish().expect_code(0);
        owner = serve(&home);
    }
    home.run(&["agent", "--session", "last", "-m", "Who are you?"]).expect_code(0);
    follower.until_line("the last end", |line| line["session"] == "agent:main:last" && line["type"] == "end");
    owner.kill();
    follower.signal(Signal::INT);
    let observed = follower.finish().lines();
    let recorded = home.run(&["events", "--json"]).expect_code(0).lines();
    let (observed, all) = (of_sessions(&observed), of_sessions(&recorded));
    assert_eq!(observed.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
    for (session, said) in observed {
        assert_eq!(said, all[&session], "of {session}");
    }
    // A start at any line yields the remaining lines.
    for at in [0, recorded.len() / 2, recorded.len() - 1] {
        let from = recorded[at]["cursor"].as_str().expect("a cursor");
        let rest = home.run(&["events", "--from", from]).expect_code(0).lines();
        let said = |lines: &[Value]| {
            let lines = lines.iter().filter(|line| !is_state(line));
            lines.map(|line| format!("{}{}{}", line["session"], line["stream"], line["type"])).collect::<Vec<_>>()
        };
        assert_eq!(said(&rest), said(&recorded[at + 1..]), "from line {at}");
    }
    let of_session = home.run(&["events", "--session", "one"]).expect_code(0).lines();
    let other = of_session[0]["cursor"].as_str().expect("a cursor");
    home.run(&["events", "--from", other]).expect_code(2).expect_err("whole home");
}

/// R02, R61: an approval request appears on every terminal, whichever process executes the run.
#[test]
fn r02_an_approval_request_is_answered_on_another_terminal() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let owner = serve(&home);
    let terminal = Terminal::run(&home, &["agent", "--session", "first", "-m", TOUCH]);
    terminal.until("[y/n/a/?]");
    let run = home.json(&["runs", "list", "--session", "first"])[0]["run"].as_str().map(str::to_owned).expect("a run");
    let other = Terminal::run(&home, &["runs", "watch", &run]);
    other.until("? allow: run the command");
    other.type_keys(&["y", "Enter"]);
    other.until("exit=0");
    terminal.until("it was allowed by the user");
    terminal.until("exit=0");
    assert_eq!(home.text("ledger"), "ran\n");
    drop(owner);
}

/// A pipe that is full until somebody reads it, and its content.
fn full_pipe() -> (PipeReader, PipeWriter, usize) {
    let (read, mut write) = pipe().expect("a pipe");
    fcntl_setfl(&write, OFlags::NONBLOCK).expect("its flags can be set");
    let mut bytes = 0;
    loop {
        match write.write(b"\n") {
            Ok(written) => bytes += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    fcntl_setfl(&write, OFlags::empty()).expect("its flags can be set");
    (read, write, bytes)
}

/// R60, R61: nobody reads the owner's stdout, as behind a pager or after Ctrl-S. Its own run continues, and so do the
/// others.
#[test]
fn r60_r61_an_owner_whose_output_nobody_reads_holds_up_nobody() {
    let home = Home::new();
    let (mut read, write, filled) = full_pipe();
    let mut owner = home.program(PROGRAM, &["agent", "--session", "first", "--yes", "--json", "-m", HOLD]);
    owner.stdout(write);
    let owner = Process::spawn(owner);
    holding(&home, 1);
    // Its first line is older than its command, and did not go out.
    let answer = home.run(&["agent", "--session", "second", "-m", "Who are you?"]).expect_code(0);
    assert!(answer.out.contains("offline model"), "{answer:?}");
    assert_eq!(home.json(&["status"])["owner"]["pid"].as_u64(), Some(u64::from(owner.pid())));
    home.put("go", "");
    home.run(&["runs", "wait", "--session", "first"]).expect_code(0);
    let mut out = String::new();
    read.read_to_string(&mut out).expect("it is JSON");
    owner.finish().expect_code(0);
    let lines = Finished { code: None, out: out[filled..].to_owned(), err: String::new() }.lines();
    assert_once(&lines);
    assert_eq!(lines.last().and_then(|line| line["text"].as_str()), Some(text_of(&lines).as_str()));
}

/// R15: Ctrl-C twice ends such a command too, as a crash would.
#[test]
fn r15_a_command_whose_output_nobody_reads_can_be_ended() {
    let home = Home::new();
    let (read, write, _) = full_pipe();
    let mut owner = home.program(PROGRAM, &["agent", "--yes", "--json", "-m", HOLD]);
    owner.stdout(write);
    let owner = Process::spawn(owner);
    holding(&home, 1);
    // Two that come at once are one.
    until("its end", || {
        owner.signal(Signal::INT);
        !is_alive(owner.pid())
    });
    owner.finish().expect_code(130);
    drop(read);
}

/// The owner continues a run while `resume` looks for it: an end before `resume` is subscribed is reported too.
#[test]
fn r43_what_ends_while_resume_connects_to_the_owner_is_reported() {
    let home = Home::new();
    let _owner = serve(&home);
    let agent = home.start(&["agent", "--key", "k1", "--yes", "-m", HOLD]);
    holding(&home, 1);
    agent.kill();
    // Its way to the owner is longer than the run.
    let (socket, behind) = (home.path().join("limulus.sock"), home.path().join("behind.sock"));
    std::fs::rename(&socket, &behind).expect("the socket is there");
    let listener = UnixListener::bind(&socket).expect("nobody else listens");
    let resume = home.start(&["resume", "main"]);
    let (near, _) = listener.accept().expect("it looks for the owner");
    home.put("go", "");
    until("the end of the run", || home.json(&["receipt", "k1"])["state"] == "ended");
    let far = UnixStream::connect(&behind).expect("the owner listens");
    let copy = |from: &UnixStream, to: &UnixStream| {
        let (mut from, mut to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        })
    };
    let copies = [copy(&near, &far), copy(&far, &near)];
    let resumed = resume.finish().expect_code(0);
    assert!(resumed.out.contains("exit status 0"), "{resumed:?}");
    drop((near, far));
    for copied in copies {
        copied.join().expect("it ends with its connection");
    }
}
