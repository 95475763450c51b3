//! Commands under the real supervisor: real processes, real signals.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use engine::{CallOutcome, Found};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tools::Outputs;

use crate::support::{GRACE, Observed, SECRET, World, exec, lives, output, pid_in, supervisor_of, token, until};

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn a_command_gives_its_output_and_status() {
    let world = World::new();
    world.put("a.txt", "hello");
    let ended = world.run(&exec("cat a.txt; echo; echo wrong >&2; pwd")).await;
    assert_eq!(ended.outcome, CallOutcome::Done);
    let workspace = world.context.workspace.display();
    assert_eq!(output(&ended), format!("hello\nwrong\n{workspace}\n[exit status 0]\n"));
    assert!(ended.whole.is_none());

    let ended = world.run(&exec("echo no; exit 3")).await;
    assert_eq!((ended.outcome, output(&ended).as_str()), (CallOutcome::Failed, "no\n[exit status 3]\n"));
    let ended = world.run(&exec("kill -9 $$")).await;
    assert_eq!((ended.outcome, output(&ended).as_str()), (CallOutcome::Failed, "[ended by signal 9 (SIGKILL)]\n"));
    // Standard input is empty, not the terminal.
    let ended = world.run(&exec("cat; echo end")).await;
    assert_eq!(output(&ended), "end\n[exit status 0]\n");
}

#[tokio::test]
async fn a_command_that_cannot_begin_says_why() {
    let world = World::new();
    let huge = exec(&format!("true {}", "x".repeat(3 << 20)));
    let ended = world.run(&huge).await;
    assert_eq!(ended.outcome, CallOutcome::Failed);
    assert!(output(&ended).contains("could not be started: Argument list too long"), "{}", output(&ended));

    let mut context = world.context.clone();
    context.supervisor = world.home.path().join("gone");
    let ended = tools::run(&context, &exec("true"), |_, _| {}).await;
    assert_eq!(ended.outcome, CallOutcome::Failed);
    assert!(output(&ended).contains("gone did not start"), "{}", output(&ended));

    // The supervisor exits before it claims the folder: its message is reported, and it cannot begin later.
    context.supervisor = "/bin/echo".into();
    let request = exec("true");
    let ended = tools::run(&context, &request, |_, _| {}).await;
    assert!(output(&ended).starts_with("the command could not be started: supervise"), "{}", output(&ended));
    assert!(world.folder(&request).is_file());
}

#[tokio::test]
async fn r15_a_command_that_hangs_is_ended() {
    let world = World::new();
    let request = exec("echo $$ > pid; sleep 1000");
    let running = world.run(&request);
    let ending = async {
        let pid = pid_in(&world.path("pid")).await;
        assert!(lives(pid));
        let ended = tools::end(&world.context, &request, GRACE).await;
        assert!(!lives(pid));
        ended
    };
    let (ran, ended) = tokio::join!(running, ending);
    assert_eq!(ended.outcome, CallOutcome::Failed);
    assert!(output(&ended).contains("on request"), "{}", output(&ended));
    assert_eq!(ran, ended);
}

#[tokio::test]
async fn r15_a_command_that_ignores_sigterm_is_killed_with_all_it_started() {
    let world = World::new();
    let request = exec(
        "trap '' TERM INT HUP; echo $$ > main; \
         (setsid sh -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 0.05; done' &) ; \
         while :; do sleep 0.05; done",
    );
    let ending = async {
        let pids = [pid_in(&world.path("main")).await, pid_in(&world.path("daemon")).await];
        let ended = tools::end(&world.context, &request, GRACE).await;
        assert_eq!(pids.map(lives), [false, false]);
        ended
    };
    let (_, ended) = tokio::join!(world.run(&request), ending);
    assert!(output(&ended).contains("on request"), "{}", output(&ended));
}

#[tokio::test]
async fn r15_a_daemon_that_forks_away_ends_with_its_command() {
    let world = World::new();
    let request =
        exec("(setsid sh -c 'echo $$ > daemon; exec sleep 1000' &); until [ -s daemon ]; do sleep 0.01; done");
    let ended = world.run(&request).await;
    assert_eq!((ended.outcome, output(&ended).as_str()), (CallOutcome::Done, "[exit status 0]\n"));
    assert!(!lives(pid_in(&world.path("daemon")).await));
}

#[tokio::test]
async fn r15_a_command_ends_at_its_own_limit_with_no_runtime_there() {
    let world = World::new();
    let request = exec("echo $$ > pid; sleep 1000");
    // The job is written by hand, since a runtime adds some seconds to the limit.
    let mut supervisor = spawn_supervisor(&world, &request, 50, "echo $$ > pid; sleep 1000");
    supervisor.wait().unwrap();
    assert!(!lives(pid_in(&world.path("pid")).await));
    let found = tools::find(&world.context, &request).await;
    let ended = found.ended.unwrap();
    assert_eq!((found.found, ended.outcome), (Found::Ended, CallOutcome::TimedOut));
}

/// A command that counts in a file, with a forked process that does the same.
const COUNTS: &str = "count() { while :; do echo x >> $1; done; }; echo $$ > main; \
    (setsid sh -c 'echo $$ > daemon; while :; do echo x >> beside; done' &); count there";

/// The state of a process: `T` is stopped.
fn process_state(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().next().map(str::to_owned)
}

fn counted(world: &World) -> [u64; 2] {
    ["there", "beside"].map(|name| fs::metadata(world.path(name)).map_or(0, |meta| meta.len()))
}

async fn until_frozen(pids: [i32; 2]) {
    until("both are stopped", || pids.map(process_state).iter().all(|state| state.as_deref() == Some("T"))).await;
}

/// R16: a frozen command and all its processes stop, also without a runtime, and continue when it is thawed.
#[tokio::test]
async fn r16_a_frozen_command_stays_frozen_without_a_runtime_and_continues_when_it_is_thawed() {
    let world = World::new();
    let request = exec(COUNTS);
    let calls = &world.context.calls;
    assert!(!tools::freeze(calls, request.id).unwrap(), "nothing runs yet");
    let watched = async {
        let pids = [pid_in(&world.path("main")).await, pid_in(&world.path("daemon")).await];
        assert!(tools::freeze(calls, request.id).unwrap());
        until_frozen(pids).await;
        pids
    };
    // The runtime that started the command is gone when it is frozen.
    let pids = tokio::select! {
        ended = world.run(&request) => panic!("it ended: {ended:?}"),
        pids = watched => pids,
    };
    let before = counted(&world);
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Running);
    assert!(tools::freeze(calls, request.id).unwrap(), "asked twice is frozen once");
    until_frozen(pids).await;
    assert_eq!(counted(&world), before);
    assert!(tools::thaw(calls, request.id).unwrap());
    until("both count on", || counted(&world).iter().zip(before).all(|(now, before)| *now > before)).await;
    let ended = tools::end(&world.context, &request, GRACE).await;
    assert!(output(&ended).contains("on request"), "{}", output(&ended));
    assert_eq!(pids.map(lives), [false, false]);
    assert!(!tools::thaw(calls, request.id).unwrap());
}

/// R15: a frozen command ends like any other, after SIGTERM if it handles that.
#[tokio::test]
async fn r15_a_frozen_command_is_ended() {
    let world = World::new();
    for (number, trap) in ["trap 'echo in order; exit 3' TERM", "trap '' TERM"].iter().enumerate() {
        let (main, daemon) = (world.path("main"), world.path("daemon"));
        let request = exec(&format!("{trap}; {COUNTS}"));
        let ending = async {
            let pids = [pid_in(&main).await, pid_in(&daemon).await];
            assert!(tools::freeze(&world.context.calls, request.id).unwrap());
            until_frozen(pids).await;
            let ended = tools::end(&world.context, &request, GRACE).await;
            assert_eq!(pids.map(lives), [false, false]);
            ended
        };
        let (_, ended) = tokio::join!(world.run(&request), ending);
        assert_eq!(output(&ended).contains("in order"), number == 0, "{}", output(&ended));
        fs::remove_file(main).unwrap();
        fs::remove_file(daemon).unwrap();
    }
}

#[tokio::test]
async fn a_command_that_prints_a_gigabyte_is_bounded() {
    let world = World::new();
    let request = exec("echo first; head -c 1073741824 /dev/zero | tr '\\0' 'x'; echo last");
    let observed = Observed::default();
    let ended = tools::run(&world.context, &request, observed.listener()).await;
    let text = output(&ended);
    assert_eq!(ended.outcome, CallOutcome::Done);
    assert!(text.starts_with("first\nxxx") && text.ends_with("xxxlast\n[exit status 0]\n"));
    assert!(text.contains(" bytes left out; to see them: read path=output:"));
    assert!(text.len() < 25_000, "{}", text.len());
    let whole = ended.whole.unwrap();
    assert!(whole.bytes.starts_with(b"first\n") && whole.bytes.ends_with(b"last\n"));
    assert!((8 << 20..(8 << 20) + 100).contains(&whole.bytes.len()), "{}", whole.bytes.len());
    assert_eq!(fs::metadata(world.folder(&request).join("output")).unwrap().len(), 8 << 20);
    assert_eq!(observed.text(0).len(), 64 << 10);
}

#[tokio::test]
async fn r13_a_command_outlives_its_runtime_and_is_attached_to() {
    let world = World::new();
    let mut request = exec("echo one; echo x >> count; until [ -e go ]; do sleep 0.01; done; echo two ü; exit 5");
    let observed = Observed::default();
    // The runtime dies: its future is dropped in the middle.
    {
        let first = tools::run(&world.context, &request, observed.listener());
        tokio::select! {
            _ = first => panic!("it waits for `go`"),
            () = until("the first line came", || observed.text(0) == "one\n") => {}
        }
    }
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Running);
    request.already = observed.text(0).len() as u64;
    let again = Observed::default();
    let going = async {
        until("the runtime attached to it and left", || supervisor_of(&world.folder(&request)).is_some()).await;
        world.put("go", "");
    };
    let (ended, ()) = tokio::join!(tools::run(&world.context, &request, again.listener()), going);
    assert_eq!((ended.outcome, output(&ended).as_str()), (CallOutcome::Failed, "one\ntwo ü\n[exit status 5]\n"));
    assert_eq!(again.text(4), "two ü\n");
    assert_eq!(fs::read_to_string(world.path("count")).unwrap(), "x\n");

    // It is ended now: found, attached to and ended, it gives the same.
    let found = tools::find(&world.context, &request).await;
    assert_eq!((found.found, found.ended), (Found::Ended, Some(ended.clone())));
    assert_eq!(world.run(&request).await, ended);
    assert_eq!(tools::end(&world.context, &request, GRACE).await, ended);
    assert_eq!(fs::read_to_string(world.path("count")).unwrap(), "x\n");
    tools::forget(&world.context.calls, request.id).unwrap();
    assert!(!world.folder(&request).exists());
}

#[tokio::test]
async fn r13_a_command_that_was_never_started_can_never_start() {
    let world = World::new();
    let request = exec("echo x >> count");
    assert_eq!(tools::find(&world.context, &request).await.found, Found::NeverStarted);
    // A supervisor that the killed runtime started arrives late.
    let late = spawn_supervisor(&world, &request, 60_000, "echo x >> count").wait_with_output().unwrap();
    assert!(!late.status.success());
    assert!(String::from_utf8(late.stdout).unwrap().contains("cancelled before it started"));
    assert!(!world.path("count").exists());
    // A second lookup, an end and a start give the same.
    assert_eq!(tools::find(&world.context, &request).await.found, Found::NeverStarted);
    for ended in [world.run(&request).await, tools::end(&world.context, &request, GRACE).await] {
        assert_eq!(ended.outcome, CallOutcome::Failed);
        assert!(output(&ended).contains("before it started"), "{}", output(&ended));
    }
    // Removing the record does not allow the call to start.
    tools::forget(&world.context.calls, request.id).unwrap();
    assert_eq!(tools::find(&world.context, &request).await.found, Found::NeverStarted);
    assert!(!world.path("count").exists());
    assert_eq!(leftovers(&world), 0);
}

#[tokio::test]
async fn r13_an_incomplete_job_is_not_started() {
    let world = World::new();
    let request = exec("echo x >> count");
    fs::create_dir_all(&world.context.calls).unwrap();
    let mut child = supervisor(&world, &request).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"command\":\"echo x >> count\",\"folder\":").unwrap();
    let child = child.wait_with_output().unwrap();
    assert!(String::from_utf8(child.stdout).unwrap().contains("the job could not be read"));
    assert_eq!(tools::find(&world.context, &request).await.found, Found::NeverStarted);
}

#[tokio::test]
async fn r13_of_many_supervisors_of_one_call_one_runs() {
    let world = World::new();
    let request = exec("unused");
    let all: Vec<_> =
        (0..8).map(|_| spawn_supervisor(&world, &request, 60_000, "echo x >> count; sleep 0.1")).collect();
    let ended: Vec<bool> = all.into_iter().map(|mut child| child.wait().unwrap().success()).collect();
    assert_eq!(ended.iter().filter(|success| **success).count(), 1, "{ended:?}");
    assert_eq!(fs::read_to_string(world.path("count")).unwrap(), "x\n");
    assert_eq!(leftovers(&world), 0);
}

#[tokio::test]
async fn r13_a_killed_supervisor_leaves_an_unknown_outcome_and_no_process() {
    let world = World::new();
    let request = exec("echo $$ > main; (setsid sh -c 'echo $$ > daemon; exec sleep 1000' &); sleep 1000");
    let killing = async {
        let pids = [pid_in(&world.path("main")).await, pid_in(&world.path("daemon")).await];
        kill(supervisor_of(&world.folder(&request)).unwrap(), Signal::KILL);
        pids
    };
    let (ended, pids) = tokio::join!(world.run(&request), killing);
    assert_eq!(ended.outcome, CallOutcome::Interrupted);
    assert!(output(&ended).contains("outcome is unknown"), "{}", output(&ended));
    until("what it left has ended", || pids.map(lives) == [false, false]).await;
    let found = tools::find(&world.context, &request).await;
    // What it has changed is known all the same.
    let changes: Vec<String> = found.ended.unwrap().changes.into_iter().map(|change| change.path).collect();
    assert_eq!((found.found, changes), (Found::Unknown, vec!["daemon".to_owned(), "main".to_owned()]));
}

#[tokio::test]
async fn r15_signals_of_the_terminal_do_not_reach_a_command() {
    let world = World::new();
    let request = exec("echo $$ > pid; until [ -e go ]; do sleep 0.01; done; echo through");
    // The supervisor's stdout is closed at once, and the process group that started it gets Ctrl-C and a hang-up.
    let mut child =
        spawn_supervisor(&world, &request, 60_000, "echo $$ > pid; until [ -e go ]; do sleep 0.01; done; echo through");
    drop(child.stdout.take());
    pid_in(&world.path("pid")).await;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let session: u32 = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap().parse().unwrap();
    assert_eq!(session, child.id(), "the supervisor has a session of its own");
    world.put("go", "");
    child.wait().unwrap();
    let ended = tools::find(&world.context, &request).await.ended.unwrap();
    assert_eq!(output(&ended), "through\n[exit status 0]\n");
}

#[tokio::test]
async fn secrets_are_neither_passed_to_commands_nor_shown() {
    let mut world = World::new();
    world.put("key.txt", format!("key={SECRET}\n"));
    let observed = Observed::default();
    let ended = tools::run(&world.context, &exec("cat key.txt; exit 1"), observed.listener()).await;
    assert_eq!(output(&ended), "key=[secret]\n[exit status 1]\n");
    assert_eq!(observed.text(0), "key=[secret]\n");

    // Cargo gives these to tests.
    let seen = |ended, name| output(&ended).lines().any(|line| line.starts_with(name));
    assert!(seen(world.run(&exec("env")).await, "PATH="));
    assert!(!seen(world.run(&exec("env")).await, "CARGO_MANIFEST_DIR="), "only known variables are passed");
    world.context.passed_env.push("CARGO_M*".to_owned());
    assert!(seen(world.run(&exec("env")).await, "CARGO_MANIFEST_DIR="));
    world.context.secret_env.push("CARGO_MANIFEST_DIR".to_owned());
    assert!(!seen(world.run(&exec("env")).await, "CARGO_MANIFEST_DIR="));
}

/// What a command prints of a key file in other forms.
#[tokio::test]
async fn r50_a_command_shows_a_secret_in_no_form() {
    let world = World::new();
    world.put("key.txt", SECRET);
    for (command, shown) in [
        ("rev key.txt", "[secret]"),
        ("base64 -w0 key.txt", "[secret]A=="),
        ("printf x | cat - key.txt | base64 -w0", "e[secret]=="),
        ("printf xy | cat - key.txt | base64 -w0", "eH[secret]"),
        ("od -An -v -tx1 key.txt | tr -d ' \\n'", "[secret]"),
        ("od -An -v -tx1 key.txt | tr -d ' \\n' | tr a-f A-F", "[secret]"),
        ("cat key.txt key.txt", "[secret][secret]"),
    ] {
        let ended = world.run(&exec(command)).await;
        let text = output(&ended);
        let first = text.lines().next().unwrap_or_default();
        // Characters beside it in base64 hold bits of its first and last byte.
        assert!(first.contains("[secret]") && first.len() <= shown.len() + 4, "{command}: {text}");
    }
}

#[tokio::test]
async fn output_that_is_not_utf8_is_shown_escaped() {
    let world = World::new();
    let observed = Observed::default();
    let ended = tools::run(&world.context, &exec("printf 'a\\377b\\303'"), observed.listener()).await;
    let note = "[not all of it is text: 2 bytes stand as \\xNN]";
    assert_eq!(output(&ended), format!("a\\xffb\\xc3\n{note}\n[exit status 0]\n"));
    assert_eq!(observed.text(0), "a\u{fffd}b");
}

#[tokio::test]
async fn r45_output_with_zero_bytes_or_in_another_encoding_is_shown_escaped() {
    let world = World::new();
    for (command, shown, escapes) in [
        ("printf 'a\\000b'", "a\\x00b", 1),
        ("printf 'one\\000two\\000'", "one\\x00two\\x00", 2),
        ("printf '\\344\\366\\374\\304\\326\\334'", "\\xe4\\xf6\\xfc\\xc4\\xd6\\xdc", 6),
        ("printf '\\377\\376h\\000'", "\\xff\\xfeh\\x00", 3),
    ] {
        let result = output(&world.run(&exec(command)).await);
        let note = format!("[not all of it is text: {escapes} bytes stand as \\xNN]");
        assert_eq!(result, format!("{shown}\n{note}\n[exit status 0]\n"));
    }
    let ended = world.run(&exec("head -c 100000 /dev/zero")).await;
    let result = output(&ended);
    assert!(result.len() < 25_000 && result.contains("100000 bytes stand as"), "{result}");
    assert!(ended.whole.unwrap().bytes.starts_with(&b"\\x00".repeat(100_000)));
}

#[tokio::test]
async fn r45_a_file_as_output_is_named_and_not_shown() {
    let world = World::new();
    let ended = world.run(&exec("printf '\\211PNG\\r\\n\\032\\n\\000'; exit 3")).await;
    let result = output(&ended);
    assert!(result.starts_with("[the output is not text, so it is not shown: 9 bytes, a PNG image"), "{result}");
    assert!(result.contains("[exit status 3]") && ended.whole.is_none(), "{result}");
}

#[tokio::test]
async fn r45_the_whole_of_a_long_output_can_be_read_page_by_page() {
    let mut world = World::new();
    let ended = world.run(&exec("seq 1 20000; printf %050000d 7")).await;
    let (result, whole) = (output(&ended), ended.whole.unwrap());
    let name = result.split_once("read path=").unwrap().1.split(',').next().unwrap().to_owned();
    assert_eq!(name, format!("output:{}", whole.body.hash));
    let kept = whole.clone();
    world.context.outputs = Outputs::new(move |hash| Ok((*hash == kept.body.hash).then(|| kept.bytes.clone())));
    let (mut offset, mut read) = (1, String::new());
    loop {
        let page = world.call("read", json!({ "path": name, "offset": offset })).await;
        assert_eq!(page.outcome, CallOutcome::Done);
        let page = output(&page);
        let Some((lines, note)) = page.split_once("[more lines follow; continue with offset=") else {
            read.push_str(&page);
            break;
        };
        read.push_str(lines);
        offset = note.trim_end_matches("]\n").parse().unwrap();
    }
    // The last line is longer than a page: it is split into pieces, and each note is on its own line.
    assert_eq!(read.replace('\n', ""), String::from_utf8(whole.bytes.to_vec()).unwrap().replace('\n', ""));
    for (path, kind) in [(format!("output:{:064}", 0), "not found"), ("output:abc".to_owned(), "64 digits")] {
        let result = output(&world.call("read", json!({ "path": path })).await);
        assert!(result.to_lowercase().contains(kind), "{result}");
    }
    world.put("output:x", "a file");
    assert_eq!(output(&world.call("read", json!({ "path": "./output:x" })).await), "a file");
}

fn supervisor(world: &World, request: &tools::CallRequest) -> Command {
    let mut command = Command::new(&world.context.supervisor);
    command.arg("supervise").arg(token(&world.folder(request))).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

pub(crate) fn spawn_supervisor(
    world: &World,
    request: &tools::CallRequest,
    limit_ms: u64,
    command: &str,
) -> std::process::Child {
    fs::create_dir_all(&world.context.calls).unwrap();
    let mut child = supervisor(world, request).spawn().unwrap();
    let (folder, call) = (&world.context.workspace, world.folder(request));
    let job = serde_json::json!({ "command": command, "folder": folder, "call": call, "limit_ms": limit_ms });
    child.stdin.take().unwrap().write_all(job.to_string().as_bytes()).unwrap();
    child
}

/// Prepared folders that were never renamed into place.
fn leftovers(world: &World) -> usize {
    let names = fs::read_dir(&world.context.calls).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".new")).count()
}
