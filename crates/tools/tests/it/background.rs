//! Background commands with real processes: started, polled, written to, ended, found again.

use std::fs;
use std::path::Path;

use engine::tables::limits::RUNNING_PROCESSES;
use engine::{CallOutcome, Found, Policy, Timestamp, ToolResult};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tools::{CallRequest, HeldProcess};

use crate::support::{GRACE, SECRET, World, lives, output, pid_in, request, supervisor_of, until};

/// Starts a background command; returns its name and the result of the call.
async fn put(world: &mut World, command: &str) -> (CallRequest, String, ToolResult) {
    let request = request("exec", json!({ "command": command, "background": true }));
    let ended = world.run(&request).await;
    hold(world, &request, command);
    let name = request.id.process_name();
    (request, name, ended)
}

/// Does the same and waits until the output begins with `begin`. It retries with longer waits on a slow machine.
async fn put_saying(world: &mut World, command: &str, begin: &str) -> (CallRequest, String, ToolResult) {
    for yield_ms in [500, 4_000, 32_000] {
        let request = request("exec", json!({ "command": command, "yield_ms": yield_ms }));
        let ended = world.run(&request).await;
        if output(&ended).starts_with(begin) {
            hold(world, &request, command);
            let name = request.id.process_name();
            return (request, name, ended);
        }
        tools::end(&world.context, &request, GRACE).await;
    }
    panic!("{command} never wrote {begin:?}");
}

/// Adds the command to the processes of the session, as the runtime does.
fn hold(world: &mut World, request: &CallRequest, command: &str) {
    let process = HeldProcess {
        effect: request.id,
        arguments: json!({ "command": command }).to_string().into(),
        started_at: Timestamp(0),
        ended: None,
    };
    world.context.processes.push(process);
}

async fn process(world: &World, arguments: Value) -> ToolResult {
    world.call("process", arguments).await
}

async fn poll(world: &World, id: &str, offset: u64) -> String {
    output(&process(world, json!({ "action": "poll", "id": id, "offset": offset, "wait_ms": 60_000 })).await)
}

/// The offset at which the next poll continues, from the result of a poll.
fn next(polled: &str) -> u64 {
    polled.rsplit_once("offset=").unwrap().1.trim_end_matches("]\n").parse().unwrap()
}

#[tokio::test]
async fn r13_a_command_in_the_background_outlives_its_call_and_is_polled_to_its_end() {
    let mut world = World::new();
    let (request, id, ended) =
        put_saying(&mut world, "echo ready; until [ -e go ]; do sleep 0.01; done; echo done; exit 3", "ready\n").await;
    assert!(ended.in_background && ended.outcome == CallOutcome::Done, "{ended:?}");
    let result = output(&ended);
    assert!(result.starts_with("ready\n[it continues in the background as ") && result.contains(&id), "{result}");
    assert!(result.contains("for at most 24 h") && next(&result) == 6, "{result}");

    let listed = output(&process(&world, json!({ "action": "list" })).await);
    assert!(listed.starts_with(&format!("{id} [running for ")) && listed.contains("echo ready"), "{listed}");
    let again = output(&process(&world, json!({ "action": "poll", "id": id, "offset": 0 })).await);
    assert_eq!(again, "ready\n[running; continue with offset=6]\n");
    let quiet = output(&process(&world, json!({ "action": "poll", "id": id, "offset": 6, "wait_ms": 50 })).await);
    assert_eq!(quiet, "[running; continue with offset=6]\n");

    let processes = world.processes();
    let holding = tools::hold_process(&processes, request.id);
    let ending = async {
        world.put("go", "");
        let polled = poll(&world, &id, 6).await;
        assert!(polled.starts_with("done\n"), "{polled}");
        polled
    };
    let (end, polled) = tokio::join!(holding, ending);
    assert_eq!((end.outcome, end.how.as_str()), (CallOutcome::Failed, "exit status 3"));
    assert_eq!(poll(&world, &id, next(&polled)).await, "[ended: exit status 3; continue with offset=11]\n");
    let listed = output(&process(&world, json!({ "action": "list" })).await);
    assert!(listed.contains("[ended: exit status 3]"), "{listed}");
    // The runtime first learns that the command ended, and only then removes its record.
    tools::forget_process(&world.context.calls, request.id).unwrap();
    assert!(!world.folder(&request).exists());
}

#[tokio::test]
async fn r13_a_command_that_ends_before_yield_ms_is_an_ordinary_call() {
    let world = World::new();
    for arguments in [
        json!({ "command": "echo no; exit 3", "background": true }),
        json!({ "command": "echo no; exit 3", "yield_ms": 60_000 }),
    ] {
        let mut ended = world.run(&request("exec", arguments.clone())).await;
        // Half a second may not suffice on a busy machine.
        for _ in 0..20 {
            if ended.in_background {
                ended = world.run(&request("exec", arguments.clone())).await;
            }
        }
        assert!(!ended.in_background);
        assert_eq!((ended.outcome, output(&ended).as_str()), (CallOutcome::Failed, "no\n[exit status 3]\n"));
    }
}

#[tokio::test]
async fn r13_an_interrupted_call_is_found_in_the_background() {
    let world = World::new();
    let command = "echo $$ > pid; echo ready; sleep 1000";
    let cut = request("exec", json!({ "command": command, "yield_ms": 60_000 }));
    let path = world.path("pid");
    let pid = tokio::select! {
        ended = world.run(&cut) => panic!("it ended: {ended:?}"),
        pid = pid_in(&path) => pid,
    };
    let found = tools::find(&world.context, &cut).await;
    let ended = found.ended.unwrap();
    assert!(found.found == Found::Running && ended.in_background && ended.outcome == CallOutcome::Done);
    assert!(output(&ended).contains(&cut.id.process_name()), "{}", output(&ended));
    // The runtime attaches to an ordinary call.
    let plain = request("exec", json!({ "command": command }));
    tokio::select! {
        ended = world.run(&plain) => panic!("it ended: {ended:?}"),
        () = until("it runs", || supervisor_of(&world.folder(&plain)).is_some() && world.folder(&plain).is_dir()) => {}
    }
    let found = tools::find(&world.context, &plain).await;
    assert_eq!((found.found, found.ended), (Found::Running, None));
    for request in [&cut, &plain] {
        tools::end(&world.context, request, GRACE).await;
    }
    assert!(!lives(pid));
}

#[tokio::test]
async fn r13_text_reaches_the_input_of_a_process_and_its_end_does() {
    let mut world = World::new();
    let (request, id, _) = put(&mut world, "while read line; do echo \"got $line\"; done; echo over").await;
    let wrote = process(&world, json!({ "action": "write", "id": id, "text": "one\ntwo\n" })).await;
    assert_eq!(wrote.outcome, CallOutcome::Done, "{}", output(&wrote));
    let (mut result, mut at) = (String::new(), 0);
    while !result.contains("got two") {
        let polled = poll(&world, &id, at).await;
        at = next(&polled);
        result.push_str(polled.rsplit_once('[').unwrap().0);
    }
    assert_eq!(result, "got one\ngot two\n");
    let wrote = process(&world, json!({ "action": "write", "id": id, "text": "three", "eof": true })).await;
    assert!(output(&wrote).contains("5 bytes") && output(&wrote).contains("and ended"), "{}", output(&wrote));
    let end = tools::hold_process(&world.processes(), request.id).await;
    assert_eq!(end.how, "exit status 0");
    let polled = poll(&world, &id, 0).await;
    assert!(polled.contains("over\n"), "{polled}");
    let late = process(&world, json!({ "action": "write", "id": id, "text": "four\n" })).await;
    assert_eq!(late.outcome, CallOutcome::Failed);
    assert!(output(&late).contains("it has ended (exit status 0)"), "{}", output(&late));
}

#[tokio::test]
async fn r13_writing_to_a_process_that_does_not_read_times_out() {
    let mut world = World::new();
    let (request, id, _) = put(&mut world, "exec 0<&-; echo $$ > pid; exec sleep 1000").await;
    pid_in(&world.path("pid")).await;
    let wrote = process(&world, json!({ "action": "write", "id": id, "text": "x" })).await;
    assert!(output(&wrote).contains("none of its processes reads input"), "{}", output(&wrote));
    let (deaf, deaf_id, _) = put(&mut world, "exec sleep 1000").await;
    let wrote = process(&world, json!({ "action": "write", "id": deaf_id, "text": "x".repeat(100_000) })).await;
    assert!(output(&wrote).contains("it read 65536 of 100000 bytes"), "{}", output(&wrote));
    for request in [request, deaf] {
        tools::end(&world.context, &request, GRACE).await;
    }
}

#[tokio::test]
async fn r15_a_process_is_ended_with_all_that_it_started() {
    let mut world = World::new();
    let (request, id, _) = put(
        &mut world,
        "trap '' TERM; echo $$ > main; (setsid sh -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 0.05; done' &); \
         while :; do sleep 0.05; done",
    )
    .await;
    let pids = [pid_in(&world.path("main")).await, pid_in(&world.path("daemon")).await];
    assert_eq!(pids.map(lives), [true, true]);
    let ended = process(&world, json!({ "action": "end", "id": id })).await;
    assert_eq!(pids.map(lives), [false, false]);
    assert_eq!(output(&ended), format!("[{id} has ended: ended before it was done, on request]\n"));
    let again = process(&world, json!({ "action": "end", "id": id })).await;
    assert!(output(&again).contains("had ended already"), "{}", output(&again));
    let ended = tools::end_process(&world.processes(), request.id, GRACE).await;
    assert_eq!(ended.outcome, CallOutcome::Failed);
}

#[tokio::test]
async fn r11_a_process_whose_supervisor_was_killed_has_an_unknown_outcome() {
    let mut world = World::new();
    let (request, id, _) = put(&mut world, "echo $$ > pid; sleep 1000").await;
    let pid = pid_in(&world.path("pid")).await;
    let supervisor = supervisor_of(&world.folder(&request)).unwrap();
    let processes = world.processes();
    let holding = tools::hold_process(&processes, request.id);
    let killing = async { kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap() };
    let (end, ()) = tokio::join!(holding, killing);
    assert_eq!(end.outcome, CallOutcome::Interrupted);
    until("what it left is ended", || !lives(pid)).await;
    let polled = poll(&world, &id, 0).await;
    assert!(polled.contains("[ended: its outcome is unknown"), "{polled}");
}

#[tokio::test]
async fn r13_only_processes_of_the_session_can_be_accessed() {
    let world = World::new();
    for (arguments, says) in [
        (
            json!({ "action": "poll", "id": "00000001-1" }),
            "there is no process `00000001-1` in this session; there are: none",
        ),
        (json!({ "action": "end" }), "this action needs `id`"),
        (json!({ "action": "write", "id": "x" }), "this action needs `text`"),
        (json!({ "action": "kill", "id": "x" }), "`action`"),
    ] {
        let ended = process(&world, arguments.clone()).await;
        assert_eq!(ended.outcome, CallOutcome::Failed, "{arguments}");
        assert!(output(&ended).contains(says), "{arguments}: {}", output(&ended));
    }
    let listed = process(&world, json!({ "action": "list" })).await;
    assert_eq!(output(&listed), "No command is in the background.\n");
}

/// R45: polling needs no approval; text for a process needs the approval of a command. The number of processes is
/// limited.
#[test]
fn r45_input_needs_the_approval_of_a_command() {
    let mut world = World::new();
    let server = request("exec", json!({ "command": "sh", "background": true }));
    hold(&mut world, &server, "sh");
    let id = server.id.process_name();
    let check = |world: &World, tool: &str, arguments: Value| world.check(&request(tool, arguments));
    for action in ["list", "poll", "end"] {
        assert_eq!(check(&world, "process", json!({ "action": action, "id": id })).decision, Policy::Allow);
    }
    let write = json!({ "action": "write", "id": id, "text": "rm -r x\n" });
    let asked = check(&world, "process", write.clone());
    assert_eq!(asked.decision, Policy::Ask);
    assert!(asked.reason.unwrap().contains("write `rm -r x\n` to the command `sh`"));
    world.settings.exec = Policy::Deny;
    assert_eq!(check(&world, "process", write).decision, Policy::Deny);

    world.settings.exec = Policy::Allow;
    let another = || json!({ "command": "sh", "background": true });
    for _ in 1..RUNNING_PROCESSES {
        assert_eq!(check(&world, "exec", another()).decision, Policy::Allow);
        let more = request("exec", another());
        hold(&mut world, &more, "sh");
    }
    let denied = check(&world, "exec", another());
    assert_eq!(denied.decision, Policy::Deny);
    assert!(denied.reason.unwrap().contains("16 commands run in the background already"));
    assert_eq!(check(&world, "exec", json!({ "command": "true" })).decision, Policy::Allow);
    world.context.processes[0].ended = Some("exit status 0".to_owned());
    assert_eq!(check(&world, "exec", another()).decision, Policy::Allow);
}

#[tokio::test]
async fn r45_the_output_of_a_process_is_masked_and_bounded() {
    let mut world = World::new();
    let long = format!("echo {SECRET}; yes {SECRET} | head -c 200000; sleep 1000");
    let (request, id, ended) = put_saying(&mut world, &long, "[secret]\n[secret]\n").await;
    assert!(ended.output.bytes.len() < 30_000);
    until("all is written", || written(&world.folder(&request)) > 200_000).await;
    let mut at = 0;
    loop {
        let polled = output(&process(&world, json!({ "action": "poll", "id": id, "offset": at })).await);
        assert!(!polled.contains("sk-") && !polled.contains("4711") && polled.len() < 30_000, "{at}");
        if next(&polled) <= at {
            break;
        }
        // No offset gives a part of a secret.
        at = next(&polled) + 1;
    }
    let listed = output(&process(&world, json!({ "action": "list" })).await);
    assert!(!listed.contains(SECRET), "{listed}");
    tools::end(&world.context, &request, GRACE).await;
}

fn written(folder: &Path) -> u64 {
    fs::metadata(folder.join("output")).map_or(0, |output| output.len())
}
