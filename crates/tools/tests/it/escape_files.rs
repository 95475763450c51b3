//! Escapes by the tools that work in this process, and by what happens between a question and its answer. The numbers are those of
//! docs/escapes.md.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use engine::{CallOutcome, Policy};
use serde_json::{Value, json};

use crate::support::{World, exec, output, request};

/// A call of each tool that changes a file.
fn writers(path: &str) -> [(&'static str, Value); 4] {
    let patched = |lines: &str| json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch") });
    [
        ("write", json!({ "path": path, "content": "evil" })),
        ("edit", json!({ "path": path, "old_text": "precious", "new_text": "evil" })),
        ("apply_patch", patched(&format!("*** Update File: {path}\n@@\n-precious\n+evil"))),
        ("apply_patch", patched(&format!("*** Delete File: {path}"))),
    ]
}

/// A link that a command left in the workspace leads no tool of the host outside: it is resolved before it is judged.
#[tokio::test]
async fn escape_3_a_link_of_a_command_leads_no_tool_outside() {
    let world = World::new();
    let outside = world.home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "precious\n").unwrap();
    symlink(&outside, world.path("folder")).unwrap();
    symlink(outside.join("file"), world.path("file")).unwrap();
    symlink(outside.join("new"), world.path("new")).unwrap();
    for path in ["folder/file", "file", "new", "folder/new", "folder/../outside/file"] {
        for (tool, arguments) in writers(path) {
            let checked = world.check(&request(tool, arguments.clone()));
            assert_eq!(checked.decision, Policy::Deny, "{tool} {path}");
            // Nor does a call that was never checked.
            let ended = world.run(&request(tool, arguments)).await;
            assert_eq!(ended.outcome, CallOutcome::Failed, "{tool} {path}: {}", output(&ended));
        }
    }
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "precious\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

/// On a file system that ignores case these are the same names.
#[test]
fn escape_20_another_spelling_of_a_trusted_name_is_asked_about() {
    let world = World::new();
    for path in [
        ".GIT/hooks/pre-commit",
        ".Git/CONFIG",
        ".ENVRC",
        ".VSCode/Tasks.JSON",
        ".envrc.",
        ".git /config",
        ".g\u{200c}it/config",
    ] {
        let checked = world.check(&request("write", json!({ "path": path, "content": "evil" })));
        assert_eq!(checked.decision, Policy::Ask, "{path}");
    }
}

/// A folder whose name begins like that of the workspace is another one.
#[test]
fn escape_21_a_folder_that_begins_alike_is_outside() {
    let world = World::new();
    let name = world.context.workspace.file_name().unwrap().to_str().unwrap().to_owned();
    for sibling in [format!("{name}-evil"), format!("{name}2"), format!("{name}.")] {
        let folder = world.context.workspace.with_file_name(&sibling);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), "precious\n").unwrap();
        for path in [format!("../{sibling}/file"), folder.join("file").display().to_string()] {
            for (tool, arguments) in writers(&path).into_iter().chain([("read", json!({ "path": path }))]) {
                let checked = world.check(&request(tool, arguments));
                assert_eq!(checked.decision, Policy::Deny, "{tool} {path}");
            }
        }
    }
}

/// A call names no folder to start in: its command begins in the workspace, whatever else it says.
#[tokio::test]
async fn escape_22_a_call_chooses_no_folder_to_start_in() {
    let mut world = World::new();
    world.settings.exec = Policy::Allow;
    for name in ["cwd", "workdir", "working_directory", "workspace", "folder", "dir"] {
        let asked = request("exec", json!({ "command": "pwd", name: "/" }));
        let checked = world.check(&asked);
        let ended = world.run(&asked).await;
        let is_ignored = output(&ended).trim() == world.context.workspace.to_str().unwrap();
        assert!(checked.decision == Policy::Deny || is_ignored, "{name}: {}", output(&ended));
    }
}

/// What cannot be resolved is refused, and not taken as it stands.
#[tokio::test]
async fn escape_23_a_path_that_cannot_be_resolved_is_refused() {
    let mut world = World::new();
    world.settings.outside = Policy::Allow;
    symlink("b", world.path("a")).unwrap();
    symlink("a", world.path("b")).unwrap();
    let long = "x/".repeat(3_000);
    for path in ["a", "a/file", "b/../file", "file\0/etc/passwd", "", &long] {
        for (tool, arguments) in writers(path).into_iter().chain([("read", json!({ "path": path }))]) {
            assert_eq!(world.check(&request(tool, arguments.clone())).decision, Policy::Deny, "{tool} {path:?}");
            assert_eq!(world.run(&request(tool, arguments)).await.outcome, CallOutcome::Failed, "{tool} {path:?}");
        }
    }
    assert!(!world.path("file").exists());
}

/// A program in a folder.
fn program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // In one step: a program that is open for writing cannot be executed.
    let new = path.with_extension("new");
    fs::write(&new, script).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, path).unwrap();
}

/// What happens between a question and its answer.
type Swap = fn(&World);

/// Asks about a line, lets something happen, and runs it as approved. Whether it planted anything.
async fn approved(line: &str, prepare: Swap, meanwhile: Swap) -> (bool, String) {
    let world = World::new();
    program(&world.path("tool"), "#!/bin/sh\necho original\n");
    fs::write(world.path("script.sh"), "echo original\n").unwrap();
    fs::create_dir(world.path("sub")).unwrap();
    program(&world.path("sub/tool"), "#!/bin/sh\necho original\n");
    prepare(&world);
    let mut request = exec(line);
    let checked = world.check(&request);
    assert_eq!(checked.decision, Policy::Ask, "{line}");
    request.evidence = checked.evidence;
    meanwhile(&world);
    let ended = world.run(&request).await;
    (world.home.path().join("planted").exists() || world.path("planted").exists(), output(&ended))
}

const EVIL: &str = "#!/bin/sh\ntouch planted ../planted\n";

/// The program of an approved command is the one that was there when it was asked about.
#[tokio::test]
async fn escape_93_a_program_that_is_replaced_after_the_question_does_not_run() {
    let swap: Swap = |world| program(&world.path("tool"), EVIL);
    let link: Swap = |world| {
        program(&world.path("evil"), EVIL);
        fs::remove_file(world.path("tool")).unwrap();
        symlink("evil", world.path("tool")).unwrap();
    };
    for line in [
        "./tool",
        "./tool --check",
        "echo a && ./tool",
        "X=1 ./tool",
        "for x in 1; do ./tool; done",
        "env ./tool",
        "sh ./tool",
    ] {
        for meanwhile in [swap, link] {
            let (planted, said) = approved(line, |_| {}, meanwhile).await;
            assert!(!planted && said.contains("is not what it was"), "{line}: {said}");
        }
        let (planted, said) = approved(line, |_| {}, |_| {}).await;
        assert!(!planted && said.contains("original"), "{line}: {said}");
    }
    let (planted, said) = approved("cd sub && ./tool", |_| {}, |world| program(&world.path("sub/tool"), EVIL)).await;
    assert!(!planted && said.contains("is not what it was"), "{said}");
}

/// The same for a script that an approved command gives to an interpreter.
#[tokio::test]
async fn escape_94_a_script_that_is_edited_after_the_question_does_not_run() {
    let edit: Swap = |world| fs::write(world.path("script.sh"), EVIL).unwrap();
    for line in [
        "sh script.sh",
        "bash ./script.sh a",
        ". ./script.sh",
        "env sh script.sh",
        "A=b sh script.sh",
        "cat x; sh script.sh",
    ] {
        let (planted, said) = approved(line, |_| {}, edit).await;
        assert!(!planted && said.contains("is not what it was"), "{line}: {said}");
        let (_, said) = approved(line, |_| {}, |_| {}).await;
        assert!(said.contains("original"), "{line}: {said}");
    }
    // A file that is only read may change meanwhile.
    let text: Swap = |world| fs::write(world.path("script.sh"), "touch planted\n").unwrap();
    let (_, said) = approved("cat script.sh", |_| {}, text).await;
    assert!(said.contains("touch planted"), "{said}");
    // So may a script that was there with the same content.
    let same: Swap = |world| fs::write(world.path("script.sh"), "echo original\n").unwrap();
    assert!(approved("sh script.sh", |_| {}, same).await.1.contains("original"));
}

/// Another folder in the place of the workspace is not the one that was asked about.
#[tokio::test]
async fn escape_95_a_folder_that_is_swapped_after_the_question_runs_nothing() {
    let away = |world: &World| {
        let workspace = world.context.workspace.clone();
        fs::rename(&workspace, workspace.with_file_name("moved")).unwrap();
        workspace
    };
    let other: Swap = |world| {
        let workspace = world.context.workspace.clone();
        fs::rename(&workspace, workspace.with_file_name("moved")).unwrap();
        fs::create_dir(&workspace).unwrap();
        program(&workspace.join("tool"), EVIL);
    };
    let (planted, said) = approved("./tool", |_| {}, other).await;
    assert!(!planted && said.contains("is not what it was"), "{said}");
    let (planted, said) = approved("touch planted", |_| {}, other).await;
    assert!(!planted && said.contains("is not what it was"), "{said}");
    // A link in its place leads elsewhere.
    let world = World::new();
    let mut request = exec("touch planted");
    request.evidence = world.check(&request).evidence;
    let workspace = away(&world);
    let elsewhere = workspace.with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &workspace).unwrap();
    let said = output(&world.run(&request).await);
    assert!(!elsewhere.join("planted").exists() && said.contains("is not what it was"), "{said}");
    assert!(!workspace.with_file_name("moved").join("planted").exists());
}

/// What is asked about is shown, or how much of it is not.
#[test]
fn escape_98_a_question_counts_what_it_does_not_show() {
    let world = World::new();
    let question = |line: &str| world.check(&exec(line)).reason.unwrap();
    let long = format!("echo {}; touch planted", "a ".repeat(10_000));
    let shown = question(&long);
    assert!(!shown.contains("planted") && shown.contains("bytes more)"), "{} bytes", shown.len());
    assert_eq!(question("echo a\u{1b}[2K\rls"), "run the command `echo a\u{fffd}[2K\u{fffd}ls`");
}

/// No argument of a call takes its command out of the sandbox, but the one that asks the user.
#[test]
fn escape_100_no_argument_switches_the_sandbox_off() {
    let mut world = World::new();
    world.settings.exec = Policy::Allow;
    world.settings.sandbox =
        engine::Sandbox { mode: engine::SandboxMode::Workspace, allows: true, ..engine::Sandbox::default() };
    world.context.sandbox = world.settings.sandbox.clone();
    let unconfined = |evidence: Option<String>| {
        evidence.is_some_and(|text| serde_json::from_str::<Value>(&text).unwrap()["unconfined"] == json!(true))
    };
    for (name, value) in [
        ("sandbox", json!("off")),
        ("sandbox", json!(false)),
        ("no_sandbox", json!(true)),
        ("unconfined", json!(true)),
        ("mode", json!("off")),
        ("dangerously_disable_sandbox", json!(true)),
        ("with_escalated_permissions", json!(true)),
        ("evidence", json!({ "unconfined": true })),
        ("policy", json!("allow")),
    ] {
        let checked = world.check(&request("exec", json!({ "command": "true", name: value })));
        let plain = world.check(&exec("true"));
        let is_same =
            (checked.decision, unconfined(checked.evidence.clone())) == (plain.decision, unconfined(plain.evidence));
        assert!(checked.decision == Policy::Deny || is_same, "{name}: {checked:?}");
    }
    let leaves = json!({ "command": "true", "outside_sandbox": "I want to" });
    assert_eq!(world.check(&request("exec", leaves)).decision, Policy::Ask);
}
