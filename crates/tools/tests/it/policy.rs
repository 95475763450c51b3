//! The check before a call.

use std::fs;
use std::os::unix::fs::symlink;

use engine::{CallOutcome, Policy};
use serde_json::{Value, json};
use tools::Checked;

use crate::support::{SECRET, World, exec, output, request};

fn checked(world: &World, tool: &str, arguments: Value) -> Checked {
    world.check(&request(tool, arguments))
}

fn denied(world: &World, tool: &str, arguments: Value) -> String {
    let checked = checked(world, tool, arguments);
    assert_eq!(checked.decision, Policy::Deny);
    checked.reason.unwrap()
}

#[test]
fn files_inside_the_workspace_need_no_approval() {
    let world = World::new();
    world.put("a.txt", "x");
    for (tool, arguments) in [
        ("read", json!({ "path": "a.txt" })),
        ("ls", json!({})),
        ("grep", json!({ "pattern": "x", "path": world.path("a.txt") })),
        ("find", json!({ "pattern": "*.txt" })),
        ("write", json!({ "path": "not/yet/../b.txt", "content": "" })),
        ("edit", json!({ "path": "a.txt", "old_text": "x", "new_text": "y" })),
        ("apply_patch", json!({ "input": "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch" })),
    ] {
        let checked = checked(&world, tool, arguments);
        assert_eq!((checked.decision, checked.reason), (Policy::Allow, None), "{tool}");
    }
    assert_eq!(checked(&world, "read", json!({ "path": "a.txt" })).evidence, None);
    let hash = |text: &str| json!(engine::Hash::of(text.as_bytes()));
    for (path, before) in [("b.txt", Value::Null), ("a.txt", hash("x"))] {
        let evidence = checked(&world, "write", json!({ "path": path, "content": "y" })).evidence.unwrap();
        let files = json!({ "files": [{ "before": before, "after": hash("y") }] });
        assert_eq!(serde_json::from_str::<Value>(&evidence).unwrap(), files);
    }
}

#[test]
fn the_settings_decide_on_reads_and_writes_outside_the_workspace() {
    let mut world = World::new();
    symlink("/etc", world.path("away")).unwrap();
    symlink("/etc/passwd", world.path("innocent.txt")).unwrap();
    let absolute = world.home.path().join("x");
    let paths = ["../x", "/etc/passwd", "~/x", "away/passwd", "innocent.txt", "a/../../x", absolute.to_str().unwrap()];
    for path in paths {
        for (tool, arguments) in [
            ("read", json!({ "path": path })),
            ("ls", json!({ "path": path })),
            ("grep", json!({ "pattern": "x", "path": path })),
            ("find", json!({ "pattern": "x", "path": path })),
            ("write", json!({ "path": path, "content": "x" })),
            ("edit", json!({ "path": path, "old_text": "x", "new_text": "y" })),
            ("apply_patch", json!({ "input": format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch") })),
            (
                "apply_patch",
                json!({ "input": format!("*** Begin Patch\n*** Update File: a.txt\n*** Move to: {path}\n*** End Patch") }),
            ),
        ] {
            let reason = denied(&world, tool, arguments.clone());
            assert!(reason.contains("outside the workspace"), "{tool} {path}: {reason}");
            for policy in [Policy::Ask, Policy::Allow] {
                world.settings.outside = policy;
                assert_eq!(checked(&world, tool, arguments.clone()).decision, policy, "{tool} {path}");
            }
            world.settings.outside = Policy::Deny;
        }
    }
}

#[test]
fn the_settings_decide_on_commands() {
    let mut world = World::new();
    let asked = checked(&world, "exec", json!({ "command": format!("echo {SECRET} \u{1b}[2J") }));
    assert_eq!(asked.decision, Policy::Ask);
    assert_eq!(asked.reason.unwrap(), "run the command `echo [secret] \u{fffd}[2J`");
    world.settings.exec = Policy::Deny;
    assert!(denied(&world, "exec", json!({ "command": "ls" })).contains("[tools.exec]"));
    world.settings.exec = Policy::Allow;
    assert_eq!(checked(&world, "exec", json!({ "command": "ls" })).decision, Policy::Allow);
}

#[test]
fn an_invalid_call_is_denied_with_a_reason() {
    let mut world = World::new();
    let mut broken = exec("ls");
    broken.arguments = b"{\"command\": \"ls".as_slice().into();
    let reason = world.check(&broken).reason.unwrap();
    assert!(reason.contains("not valid JSON") && reason.contains("column"), "{reason}");
    assert!(
        denied(&world, "raed", json!({}))
            .contains("there are: read, ls, grep, find, write, edit, apply_patch, exec, process, web_fetch")
    );
    assert!(denied(&world, "read", json!({ "file": "a" })).contains("path"));
    assert!(denied(&world, "write", json!({ "path": ".", "content": "" })).contains("is a folder"));
    // The run's settings do not have this tool, so it is unknown even if it is built in.
    world.settings.tools = tools::specs().iter().filter(|spec| spec.name != "exec").cloned().collect();
    assert!(
        denied(&world, "exec", json!({ "command": "ls" }))
            .contains("there are: read, ls, grep, find, write, edit, apply_patch, process, web_fetch")
    );
    fs::remove_dir(&world.context.workspace).unwrap();
    let reason = denied(&world, "ls", json!({}));
    assert!(reason.contains("workspace") && reason.contains("config.toml"), "{reason}");
}

#[test]
fn a_fingerprint_binds_tool_arguments_and_folder() {
    let world = World::new();
    let of = |world: &World, command: &str| checked(world, "exec", json!({ "command": command })).fingerprint;
    assert_eq!(of(&world, "ls"), of(&world, "ls"));
    assert_ne!(of(&world, "ls"), of(&world, "ls "));
    assert_ne!(of(&world, "ls"), of(&World::new(), "ls"));
    assert_ne!(checked(&world, "ls", json!({})).fingerprint, checked(&world, "read", json!({})).fingerprint);
}

#[tokio::test]
async fn arguments_are_checked_again_when_a_call_runs() {
    let world = World::new();
    let ended = world.run(&request("write", json!({ "path": "a" }))).await;
    assert_eq!(ended.outcome, CallOutcome::Failed);
    assert!(output(&ended).contains("content"));
}

/// A path of 2 MB held the owner's only thread for a minute. What is too long is refused before it is resolved.
#[test]
fn r41_a_path_that_no_file_can_have_is_refused_before_it_is_resolved() {
    let world = World::new();
    for (tool, arguments) in [
        ("read", json!({ "path": "x/".repeat(1 << 20) })),
        ("ls", json!({ "path": "/".repeat(2 << 20) })),
        ("grep", json!({ "pattern": "a", "path": "../".repeat(1 << 20) })),
        ("find", json!({ "pattern": "*", "path": "~/".repeat(1 << 20) })),
        ("write", json!({ "path": "é".repeat(1 << 20), "content": "" })),
        ("edit", json!({ "path": "./".repeat(1 << 20), "old_text": "a", "new_text": "b" })),
        (
            "apply_patch",
            json!({ "input": format!("*** Begin Patch\n*** Delete File: {}\n*** End Patch", "x/".repeat(1 << 20)) }),
        ),
    ] {
        let reason = denied(&world, tool, arguments);
        assert!(reason.contains("is not a path") || reason.contains("longer than 4096"), "{tool}: {reason}");
        assert!(reason.len() < 5_000, "{tool}: the model receives {} bytes", reason.len());
    }
}

#[test]
fn r45_a_patch_of_many_files_is_refused() {
    let world = World::new();
    let files: Vec<String> = (0..300).map(|number| format!("*** Add File: f{number}\n+x")).collect();
    let input = format!("*** Begin Patch\n{}\n*** End Patch", files.join("\n"));
    let reason = denied(&world, "apply_patch", json!({ "input": input }));
    assert!(reason.contains("more than 256 files"), "{reason}");
}
