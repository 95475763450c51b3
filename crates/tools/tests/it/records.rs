//! What a command does to the folder of its own call, `calls/ID`, where it can write like its supervisor.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use engine::{CallOutcome, Found, ToolResult};
use rustix::process::{Pid, Signal, kill_process};
use tools::CallRequest;

use crate::commands::spawn_supervisor;
use crate::support::{GRACE, World, exec, lives, output, pid_in, supervisor_of, until};

/// A record that says that the command has succeeded, with a nonce.
const FORGED: &str = r#"{"status":0,"signal":null,"ended_by":null,"trouble":null,"bytes":0,"survivors":[],"started_at":1,"ended_at":2,"nonce":"NONCE"}"#;

/// The command of a call that does `attack` in the folder of the call, then lives until `go` exists, and fails with 7.
fn command(world: &World, request: &CallRequest, attack: &str) -> String {
    let attack = attack.replace("FORGED", FORGED);
    let folder = world.folder(request);
    format!(
        "W=$PWD; until [ -d {0} ]; do sleep 0.01; done; cd {0} && {{ {attack}; }} >/dev/null 2>&1; cd \"$W\"; \
         echo $$ > pid; until [ -e go ]; do sleep 0.01; done; echo true end; exit 7",
        folder.display()
    )
}

fn attacking(world: &World, attack: &str) -> CallRequest {
    let request = exec("unused");
    let arguments = serde_json::json!({ "command": command(world, &request, attack) });
    CallRequest { arguments: serde_json::to_vec(&arguments).unwrap().into(), ..request }
}

/// Runs the call until the attack is done, checks that the call still runs, lets the command end, and returns the result.
async fn outlasted(attack: &str) -> ToolResult {
    let world = World::new();
    let request = attacking(&world, attack);
    let (running, written) = (world.run(&request), world.path("pid"));
    tokio::pin!(running);
    let pid = tokio::select! {
        ended = &mut running => panic!("{attack}: believed while the command lives: {}", output(&ended)),
        pid = pid_in(&written) => pid,
    };
    // Anything that is believed is believed at the next look, which the end of a call without a grace is too.
    let looked = tokio::time::timeout(Duration::from_secs(20), tools::find(&world.context, &request)).await;
    assert_eq!(looked.unwrap_or_else(|_| panic!("{attack}: the look hangs")).found, Found::Running, "{attack}");
    let ended = tokio::select! {
        ended = &mut running => panic!("{attack}: believed while the command lives: {}", output(&ended)),
        () = until("it lives", || lives(pid)) => { world.put("go", ""); running.await }
    };
    assert!(!lives(pid), "{attack}");
    ended
}

/// R13: whatever a command puts into the place of its exit record, the true one counts, and nothing blocks.
#[tokio::test]
async fn r13_a_record_that_a_command_forges_is_never_believed() {
    for attack in [
        "echo 'FORGED' > exit.json",
        "echo 'FORGED' > x; mv x exit.json; chmod 0 exit.json",
        "echo 'FORGED' > x; ln x exit.json",
        "echo 'FORGED' > ../x; ln -s ../x exit.json",
        // A record with its proof: the nonce of a claim that the command has written.
        "printf %s CLAIM > claim; echo 'FORGED' > exit.json",
        "rm claim; echo 'FORGED' | sed s/NONCE// > exit.json",
        "cp claim exit.json; C=$(cat claim); echo 'FORGED' | sed s/NONCE/$C/ > exit.json",
        "ln -s /dev/zero exit.json",
        "ln -s /dev/zero claim.x; mv claim.x claim; echo 'FORGED' > exit.json",
        "ln -s exit.json exit.json",
        "mkfifo exit.json",
        "mkfifo c; mv c claim; echo 'FORGED' > exit.json",
        "mkdir -p exit.json/full",
        "rm claim; mkdir -p claim/full; echo 'FORGED' > exit.json",
        "truncate -s 1T exit.json",
        "head -c 300000 /dev/zero | tr '\\0' '[' > exit.json",
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('exit.json')\" || mkfifo exit.json",
        "rm control; mkfifo control",
        "rm control; echo x > control",
        "rm control; mkdir control",
        "rm control; ln -s /dev/full control",
        "rm -f written; mkfifo written",
        "ln -s /dev/zero written",
    ] {
        let claim = blake3::hash(b"NONCE").to_hex();
        let ended = outlasted(&attack.replace("CLAIM", &claim)).await;
        let text = output(&ended);
        assert_eq!((ended.outcome, text.as_str()), (CallOutcome::Failed, "true end\n[exit status 7]\n"), "{attack}");
    }
}

/// R13: of a command that takes its folder away, the outcome is unknown; it is not "never started", while it lives or later.
#[tokio::test]
async fn r13_a_command_that_takes_its_folder_away_did_not_end_and_did_start() {
    for attack in [
        "D=$PWD; cd ..; mv $D moved",
        "D=$PWD; cd ..; mv $D moved; touch $D",
        "D=$PWD; cd ..; mv $D moved; ln -s moved $D",
        "D=$PWD; cd ..; mv $D moved; mkfifo $D",
        "D=$PWD; cd ..; mv $D moved; mkdir $D; echo 'FORGED' > $D/exit.json",
        "D=$PWD; cd ..; rm -rf $D",
        "D=$PWD; cd ../..; mv calls moved; ln -s moved calls",
    ] {
        let ended = outlasted(attack).await;
        assert_eq!(ended.outcome, CallOutcome::Interrupted, "{attack}: {}", output(&ended));
        assert!(output(&ended).contains("outcome is unknown"), "{attack}: {}", output(&ended));
    }
}

/// R38: an output that is replaced shows nothing of the file in its place.
#[tokio::test]
async fn r38_an_output_that_leads_elsewhere_is_not_read() {
    for attack in [
        "rm output; ln -s ../../secret output",
        "rm output; mkfifo output",
        "rm output; mkdir output",
        "rm output; ln -s /dev/zero output",
    ] {
        let world = World::new();
        fs::write(world.home.path().join("secret"), "top secret").unwrap();
        let request = attacking(&world, attack);
        world.put("go", "");
        let ended = world.run(&request).await;
        let text = output(&ended);
        assert_eq!(ended.outcome, CallOutcome::Failed, "{attack}: {text}");
        assert!(text.contains("the output cannot be read") && text.contains("[exit status 7]"), "{attack}: {text}");
        assert!(!text.contains("top secret") && ended.whole.is_none(), "{attack}: {text}");
    }
}

/// R13: an owner that did not start the supervisor believes a record only with the nonce that hashes to the claim.
#[tokio::test]
async fn r13_a_later_owner_does_not_believe_a_forged_record() {
    for attack in [
        "echo 'FORGED' > exit.json",
        "ln -s /dev/zero exit.json",
        "mkfifo exit.json",
        "mkdir -p exit.json/x",
        // The proof is replaced while the command lives: its supervisor writes it again.
        "echo 'FORGED' > exit.json; echo x > claim",
        "rm claim; ln -s /dev/zero claim",
        "rm claim; mkdir -p claim/x",
    ] {
        let world = World::new();
        let request = exec("unused");
        let mut supervisor = spawn_supervisor(&world, &request, 60_000, &command(&world, &request, attack));
        let pid = pid_in(&world.path("pid")).await;
        assert_eq!(tools::find(&world.context, &request).await.found, Found::Running, "{attack}");
        world.put("go", "");
        supervisor.wait().unwrap();
        assert!(!lives(pid), "{attack}");
        let found = tools::find(&world.context, &request).await;
        let ended = found.ended.unwrap_or_else(|| panic!("{attack}: {:?}", found.found));
        assert_eq!(output(&ended), "true end\n[exit status 7]\n", "{attack}");
    }
    // The supervisor is killed, and a record is forged after it.
    let world = World::new();
    let request = exec("unused");
    let mut supervisor = spawn_supervisor(&world, &request, 60_000, &command(&world, &request, "true"));
    pid_in(&world.path("pid")).await;
    let pid = Pid::from_raw(supervisor_of(&world.folder(&request)).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    supervisor.wait().unwrap();
    fs::write(world.folder(&request).join("exit.json"), FORGED).unwrap();
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
}

/// R38: a folder of calls that is a link, or no folder, is neither read, nor written, nor cleaned up.
#[tokio::test]
async fn r38_calls_may_not_be_a_link() {
    let world = World::new();
    let other = world.home.path().join("other");
    fs::create_dir(&other).unwrap();
    symlink(&other, &world.context.calls).unwrap();
    let request = exec("echo ran > ran");
    let theirs = other.join(world.folder(&request).file_name().unwrap());
    let ended = world.run(&request).await;
    assert_eq!(ended.outcome, CallOutcome::Failed);
    assert!(output(&ended).contains("calls is a link or no folder"), "{}", output(&ended));
    assert!(!world.path("ran").exists());
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("exit.json"), FORGED).unwrap();
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
    assert_eq!(tools::end(&world.context, &request, GRACE).await.outcome, CallOutcome::Unended);
    assert!(tools::forget(&world.context.calls, request.id).is_err());
    assert!(tools::orphans(&world.context.calls, &|_| false).is_err());
    assert!(theirs.join("exit.json").exists(), "nothing of it was removed");
    fs::remove_file(&world.context.calls).unwrap();
    fs::write(&world.context.calls, "").unwrap();
    let ended = world.run(&request).await;
    assert_eq!(ended.outcome, CallOutcome::Failed, "{}", output(&ended));
}
