//! What a command leaves whose supervisor was killed, and whose owner too: nobody has inherited it. This process stands for
//! the next owner; what is left goes to the system, because the test is no subreaper.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use engine::{CallOutcome, Found};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tools::{CallRequest, ProcessOrigin};

use crate::commands::spawn_supervisor;
use crate::support::{GRACE, World, exec, lives, output, pid_in, supervisor_of, token, until};

/// The folder of the cgroup of this process, if it may create another below it.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let own = PathBuf::from(mount).join(path);
    let tried = own.join(format!("limulus-test-{}", std::process::id()));
    fs::create_dir(&tried).ok()?;
    fs::remove_dir(&tried).ok()?;
    Some(own)
}

/// What a command does to leave its cgroup, if it has one.
fn leave_cgroup() -> String {
    own_cgroup().map_or("true".to_owned(), |own| format!("echo $$ > {}/cgroup.procs", own.display()))
}

/// Starts the command under a supervisor, kills that, and returns the process whose number the command wrote into `pid`.
async fn left(world: &World, request: &CallRequest, command: &str) -> i32 {
    let mut supervisor = spawn_supervisor(world, request, 60_000, command);
    let pid = pid_in(&world.path("pid")).await;
    let killed = Pid::from_raw(supervisor_of(&world.folder(request)).unwrap()).unwrap();
    kill_process(killed, Signal::KILL).unwrap();
    supervisor.wait().unwrap();
    assert!(lives(pid), "it outlives its supervisor: {command}");
    pid
}

fn end(pid: i32) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

/// R15: the next owner finds it by its session, by the pipe of its output, or below such a process, without a mark.
#[tokio::test]
async fn r15_the_next_owner_ends_what_has_no_mark_by_session_output_and_parent() {
    let leave = leave_cgroup();
    for command in [
        "LEAVE; exec env -i sh -c 'echo $$ > pid; while :; do sleep 0.1; done'",
        "LEAVE; env -i sh -c 'echo $$ > pid; exec sleep 300' & sleep 300",
        // No output, other group.
        "LEAVE; env -i bash -mc 'sh -c \"echo \\$\\$ > pid; exec sleep 300\" > /dev/null 2>&1 & wait' & sleep 300",
        // Another session, with the output of the command.
        "LEAVE; env -i setsid sh -c 'echo $$ > pid; exec sleep 300' & sleep 300",
        // Another session and no output, below a process of the session.
        "LEAVE; env -i sh -c 'setsid sh -c \"echo \\$\\$ > pid; exec sleep 300\" > /dev/null 2>&1; :' & sleep 300",
        "LEAVE; trap '' TERM INT HUP; env -i sh -c 'echo $$ > pid; while :; do sleep 0.1; done' & sleep 300",
    ] {
        let world = World::new();
        let request = exec("unused");
        let pid = left(&world, &request, &command.replace("LEAVE", &leave)).await;
        let found = tools::find(&world.context, &request).await;
        assert_eq!(found.found, Found::Unknown, "{command}");
        until(command, || !lives(pid)).await;
    }
}

/// R15: the mark alone is enough, without a cgroup, a trace, a session, an output or a parent.
#[tokio::test]
async fn r15_the_next_owner_ends_what_has_only_the_mark() {
    let world = World::new();
    let request = exec("unused");
    let hidden = "(setsid sh -c 'echo $$ > pid; exec sleep 300' > /dev/null 2>&1 &); sleep 300";
    let trace = world.folder(&request).join("trace.json");
    let pid = left(&world, &request, &format!("{}; rm {}; {hidden}", leave_cgroup(), trace.display())).await;
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
    until("it is found", || !lives(pid)).await;
}

/// R15: a command that takes away the pipe by which its supervisor is asked is ended by the owner itself.
#[tokio::test]
async fn r15_a_command_whose_supervisor_cannot_be_asked_is_ended() {
    let world = World::new();
    let request = exec("unused");
    let control = world.folder(&request).join("control");
    let command = format!(
        "rm {0}; mkfifo {0}; exec 3<>{0}; trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done",
        control.display()
    );
    let mut supervisor = spawn_supervisor(&world, &request, 60_000, &command);
    let pid = pid_in(&world.path("pid")).await;
    let ended = tools::end(&world.context, &request, GRACE).await;
    assert!(!lives(pid) && ended.outcome != CallOutcome::Unended, "{}", output(&ended));
    supervisor.wait().unwrap();
}

/// R15: a supervisor that its command has stopped is continued, and records the end.
#[tokio::test]
async fn r15_a_stopped_supervisor_is_continued_and_records_the_end() {
    let world = World::new();
    let request = exec("unused");
    let mut supervisor = spawn_supervisor(&world, &request, 60_000, "kill -STOP $PPID; echo $$ > pid; sleep 300");
    pid_in(&world.path("pid")).await;
    let ended = tools::end(&world.context, &request, GRACE).await;
    assert!(!output(&ended).contains("outcome is unknown"), "{}", output(&ended));
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Ended);
    supervisor.wait().unwrap();
}

/// R60: what is inside a call is known by its owner above it, by a supervisor above it, or by its mark; each by itself.
#[tokio::test]
async fn r60_what_is_inside_a_call_is_known_by_each_of_three_signs() {
    let world = World::new();
    world.put("inner", "echo $$ > pid; exec sleep 300");
    // Its command line is that of a supervisor.
    world.put("supervise", "sh ./inner; :");
    for (command, expected) in [
        ("exec sh ./inner", true),
        ("(SUPERVISED_CALL=one setsid sh ./inner &)", true),
        ("(setsid bash -c 'exec -a call-supervisor bash supervise' &)", true),
        ("(setsid sh ./inner &)", false),
    ] {
        let mut shell = Command::new("bash");
        shell.env_clear().env("PATH", "/usr/bin:/bin").current_dir(&world.context.workspace);
        let mut shell = shell.args(["-c", command]).spawn().unwrap();
        let pid = pid_in(&world.path("pid")).await;
        if !command.starts_with("exec") {
            shell.wait().unwrap();
        }
        let is_inside = tools::is_in_call(pid.unsigned_abs());
        end(pid);
        assert_eq!(is_inside, expected, "{command}");
        shell.wait().unwrap();
        fs::remove_file(world.path("pid")).unwrap();
    }
}

/// R60: whoever cannot be found among the processes is not trusted to be outside; what moves to another parent is seen.
#[test]
fn r60_a_process_that_has_exited_counts_as_inside_and_one_that_moves_is_seen() {
    let this = std::process::id();
    assert!(!tools::is_in_call(this) && ProcessOrigin::of(this).is_some());
    assert_eq!(ProcessOrigin::of(this), ProcessOrigin::of(this));
    let mut gone = Command::new("true").spawn().unwrap();
    let before = ProcessOrigin::of(gone.id());
    gone.wait().unwrap();
    assert!(before.is_some() && ProcessOrigin::of(gone.id()).is_none() && tools::is_in_call(gone.id()));
}

/// R15: a cgroup holds what has neither mark, session, output nor parent, and what has removed the folder of its call.
#[tokio::test]
async fn r15_the_next_owner_ends_all_that_is_in_the_cgroup_of_a_call() {
    let Some(own) = own_cgroup() else { return eprintln!("skipped: no cgroup can be created here") };
    let hidden = "setsid env -i sh -c '(setsid sh -c \"DO; echo \\$\\$ > pid; exec sleep 300\" &); exit 0' > /dev/null 2>&1 < /dev/null & sleep 300";
    for what in [
        "true",
        "rm -rf FOLDER",
        "rm -f FOLDER/trace.json",
        "echo {} > FOLDER/trace.json",
        "mkdir CGROUP/inner; echo $$ > CGROUP/inner/cgroup.procs",
    ] {
        let world = World::new();
        let request = exec("unused");
        let folder = world.folder(&request);
        let cgroup = own.join(format!("limulus.{}", token(&folder)));
        let what = what.replace("FOLDER", folder.to_str().unwrap()).replace("CGROUP", cgroup.to_str().unwrap());
        let pid = left(&world, &request, &hidden.replace("DO", &what.replace('$', "\\$"))).await;
        assert!(cgroup.is_dir(), "{what}");
        let found = tools::find(&world.context, &request).await;
        assert_eq!(found.found, Found::Unknown, "{what}");
        until(&what, || !lives(pid)).await;
        assert!(!cgroup.exists(), "{what}");
    }
}

/// R15: a call that ends leaves no cgroup, and neither does one whose record is removed.
#[tokio::test]
async fn r15_no_cgroup_outlives_its_call() {
    let Some(own) = own_cgroup() else { return eprintln!("skipped: no cgroup can be created here") };
    let world = World::new();
    let of = |request: &CallRequest| own.join(format!("limulus.{}", token(&world.folder(request))));
    for command in ["true", "exit 3", "setsid sleep 300 & true", "kill -9 $$"] {
        let request = exec(command);
        world.run(&request).await;
        assert!(!of(&request).exists(), "{command}");
    }
    // One that was never entered, or left by a supervisor that was killed, goes with the record.
    let request = exec("true");
    world.run(&request).await;
    fs::create_dir(of(&request)).unwrap();
    tools::forget(&world.context.calls, request.id).unwrap();
    until("it is removed", || !of(&request).exists()).await;
}

/// R15: no process of another boot, another container or another session is meant by a trace, nor the owner itself.
#[tokio::test]
async fn r15_a_trace_of_other_processes_ends_none() {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let own: i32 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().parse().unwrap();
    for (field, value) in [
        ("boot", json!("00000000-0000-0000-0000-000000000000")),
        ("init", json!(u64::MAX)),
        ("started", json!(u64::MAX)),
        ("session", json!(own)),
        ("session", json!(0)),
        ("session", json!(-1)),
        ("forks", json!(u64::MAX)),
        ("boot", Value::Null),
        ("pipe", json!("x")),
    ] {
        let world = World::new();
        let request = exec("unused");
        let command =
            format!("{}; exec env -i sh -c 'exec >/dev/null 2>&1; echo $$ > pid; exec sleep 300'", leave_cgroup());
        let pid = left(&world, &request, &command).await;
        let file = world.folder(&request).join("trace.json");
        let mut trace: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        trace[field] = value.clone();
        fs::write(&file, trace.to_string()).unwrap();
        assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
        let outlives = lives(pid);
        end(pid);
        assert!(outlives, "{field} = {value}");
    }
}

/// A runtime of an older version names the folder in an argument.
#[tokio::test]
async fn r13_a_supervisor_takes_the_folder_of_its_call_as_an_argument_too() {
    use std::io::Write as _;
    let world = World::new();
    let request = exec("unused");
    fs::create_dir_all(&world.context.calls).unwrap();
    let mut supervisor = Command::new(&world.context.supervisor);
    supervisor.arg("supervise").arg(world.folder(&request)).stdin(std::process::Stdio::piped());
    let mut supervisor = supervisor.stdout(std::process::Stdio::null()).spawn().unwrap();
    let job = json!({ "command": "echo done > ran", "folder": world.context.workspace, "limit_ms": 60_000 });
    supervisor.stdin.take().unwrap().write_all(job.to_string().as_bytes()).unwrap();
    supervisor.wait().unwrap();
    assert_eq!(fs::read_to_string(world.path("ran")).unwrap(), "done\n");
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Ended);
}
