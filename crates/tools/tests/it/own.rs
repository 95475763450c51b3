//! What belongs to limulus itself: its home, its configuration and files of keys. No tool reads or writes it, by any
//! name and under any policy.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use engine::{CallOutcome, Policy, Sandbox, SandboxMode};
use serde_json::{Value, json};
use tools::Protected;

use crate::support::{World, exec, output, request};

/// What only the home and the key contain.
const OWN: &str = "the-content-that-is-not-for-tools";

/// The names of the home that somebody could guess. None of them may appear in a result.
const NAMES: [&str; 4] = ["journal.db-wal", "journal.mark", "owner.lock", "exit.json"];

/// A workspace that contains the home in `.limulus`, a key in `secrets/key`, and a configuration behind a link.
fn world() -> World {
    let mut world = World::new();
    for name in ["journal.db", "journal.db-wal", "journal.db-shm", "journal.mark", "owner.lock", "calls/1/exit.json"] {
        world.put(&format!(".limulus/{name}"), OWN);
    }
    world.put("secrets/key", OWN);
    world.put("dotfiles/limulus.toml", OWN);
    symlink(world.path("dotfiles/limulus.toml"), world.path(".limulus/config.toml")).unwrap();
    world.put("notes.txt", "for everybody");
    let files = [world.path("secrets/key"), world.path("secrets/key.new"), world.path(".limulus/config.toml")];
    world.context.protected = Protected::files(files).and(&Protected::folder(world.path(".limulus")));
    world.context.calls = world.path(".limulus/calls");
    // The most generous policies that there are.
    world.settings.exec = Policy::Allow;
    world.settings.outside = Policy::Allow;
    world
}

fn patch(lines: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch") })
}

/// A call of every tool that takes a path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({ "path": path })),
        ("ls", json!({ "path": path })),
        ("grep", json!({ "pattern": ".", "path": path })),
        ("find", json!({ "pattern": "**", "path": path })),
        ("write", json!({ "path": path, "content": "x" })),
        ("edit", json!({ "path": path, "old_text": "not-for", "new_text": "x" })),
        ("apply_patch", patch(&format!("*** Add File: {path}\n+x"))),
        ("apply_patch", patch(&format!("*** Delete File: {path}"))),
        ("apply_patch", patch(&format!("*** Update File: {path}\n@@\n-{OWN}\n+x"))),
        ("apply_patch", patch(&format!("*** Update File: notes.txt\n*** Move to: {path}\n@@\n-for everybody\n+x"))),
    ]
}

/// All files below a folder with their content.
fn tree(folder: &Path) -> Vec<(PathBuf, Option<String>)> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(tree(&path));
        }
        found.push((path.clone(), fs::read_to_string(&path).ok()));
    }
    found.sort();
    found
}

/// Tries every tool on a path: the check denies it, and the run alone, with evidence that allows it, refuses it too.
async fn refused(world: &World, path: &str) {
    refused_because(world, path, "belongs to limulus itself").await;
}

async fn refused_because(world: &World, path: &str, why: &str) {
    let before = tree(&world.context.workspace);
    let real = world.path(path).canonicalize().unwrap_or_else(|_| world.path(path));
    for (tool, arguments) in calls(path) {
        let mut call = request(tool, arguments);
        let checked = world.check(&call);
        assert_eq!(checked.decision, Policy::Deny, "{tool} {path}");
        let reason = checked.reason.unwrap();
        assert!(reason.contains(why), "{tool} {path}: {reason}");
        call.evidence = Some(json!({ "outside": [real] }).to_string());
        let ended = world.run(&call).await;
        let result = output(&ended);
        assert_eq!(ended.outcome, CallOutcome::Failed, "{tool} {path}: {result}");
        let leaks = result.contains(OWN) || NAMES.iter().any(|name| result.contains(name) && !path.contains(name));
        assert!(!leaks, "{tool} {path}: {result}");
    }
    assert_eq!(tree(&world.context.workspace), before, "{path}: something was written");
}

/// The home, the key and the configuration, in every spelling, existing or not.
#[tokio::test]
async fn r61_no_tool_reads_or_writes_the_home_a_key_or_the_configuration() {
    let world = world();
    let absolute = world.path(".limulus/journal.mark").display().to_string();
    for path in [
        ".limulus",
        ".limulus/",
        "./notes/../.limulus",
        ".limulus//config.toml",
        ".limulus/journal.db",
        ".limulus/journal.db-wal",
        ".limulus/journal.db-shm",
        ".limulus/journal.mark",
        ".limulus/owner.lock",
        ".limulus/calls/1/exit.json",
        ".limulus/not/yet/there",
        ".limulus/limulus.sock",
        "secrets/key",
        "secrets/./../secrets//key",
        "secrets/key.new",
        "dotfiles/limulus.toml",
        absolute.as_str(),
        "/proc/self/cwd/../../../../../../../../../../../../..",
    ] {
        if path.starts_with("/proc") {
            // The root itself is not protected; what is reached through it is.
            refused(&world, &format!("{path}{absolute}")).await;
        } else {
            refused(&world, path).await;
        }
    }
}

#[tokio::test]
async fn r61_no_link_leads_to_the_home_or_a_key() {
    let world = world();
    symlink(".limulus", world.path("near")).unwrap();
    symlink("near/journal.mark", world.path("file")).unwrap();
    symlink("near", world.path("far")).unwrap();
    symlink(world.path("secrets/key"), world.path("innocent.txt")).unwrap();
    symlink(world.path(".limulus/made-by-a-tool"), world.path("dangling")).unwrap();
    for path in
        ["near", "near/owner.lock", "file", "far/calls", "innocent.txt", "dangling", "far/../.limulus/journal.db"]
    {
        refused(&world, path).await;
    }
}

/// A hard link has another path, and is the same file. To write it replaces the link and leaves the file as it was.
#[tokio::test]
async fn r61_no_hard_link_leads_to_the_home_or_a_key() {
    let world = world();
    fs::create_dir(world.path("src")).unwrap();
    for (number, own) in [
        ".limulus/journal.db",
        ".limulus/journal.db-wal",
        ".limulus/calls/1/exit.json",
        "secrets/key",
        "dotfiles/limulus.toml",
    ]
    .iter()
    .enumerate()
    {
        let link = format!("src/copy-{number}.txt");
        fs::hard_link(world.path(own), world.path(&link)).unwrap();
        refused(&world, &link).await;
    }
    // A file with two names that is not limulus' own is like any other.
    fs::hard_link(world.path("notes.txt"), world.path("src/notes.txt")).unwrap();
    assert_eq!(output(&world.call("read", json!({ "path": "src/notes.txt" })).await), "for everybody");
    let found = output(&world.call("grep", json!({ "pattern": OWN, "path": "." })).await);
    assert_eq!(found, "no matches\n");
}

/// Walks leave out what belongs to limulus and do not say that there was anything.
#[tokio::test]
async fn r61_a_walk_passes_the_home_by() {
    let world = world();
    fs::rename(world.path(".limulus"), world.path("home")).unwrap();
    let mut world = world;
    world.context.protected = Protected::files([world.path("secrets/key")]).and(&Protected::folder(world.path("home")));
    for path in [".", "secrets", "/"] {
        let arguments = json!({ "pattern": "not-for-tools", "path": path, "glob": "**/*e*" });
        if path != "/" {
            let found = output(&world.call("grep", arguments).await);
            assert!(!found.contains("home/") && !found.contains("could not be read"), "{path}: {found}");
        }
    }
    let found = output(&world.call("grep", json!({ "pattern": "everybody" })).await);
    assert_eq!(found, "notes.txt:1: for everybody\n");
    let found = output(&world.call("find", json!({ "pattern": "**/*" })).await);
    assert_eq!(found, "dotfiles/\ndotfiles/limulus.toml\nnotes.txt\nsecrets/\n");
    let listed = output(&world.call("ls", json!({})).await);
    assert_eq!(listed, "dotfiles/\nhome (of limulus itself)\nnotes.txt  13 bytes\nsecrets/\n");
    let listed = output(&world.call("ls", json!({ "path": "secrets" })).await);
    assert_eq!(listed, "key (of limulus itself)\n", "its size is not shown");
}

/// The home beside or above the workspace is refused as well, and an editor that replaces a key changes nothing.
#[tokio::test]
async fn r61_the_home_outside_the_workspace_is_refused_though_paths_outside_are_allowed() {
    let mut world = World::new();
    let home = world.home.path().canonicalize().unwrap().join("own");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("journal.db"), OWN).unwrap();
    let key = home.parent().unwrap().join("key");
    fs::write(&key, OWN).unwrap();
    world.context.protected = Protected::files([key.clone()]).and(&Protected::folder(home.clone()));
    world.settings.outside = Policy::Allow;
    for path in ["../own", "../own/journal.db", "../key", home.to_str().unwrap(), key.to_str().unwrap()] {
        refused(&world, path).await;
    }
    // Another file takes the place of the key between the check and the run.
    let mut call = request("read", json!({ "path": "../key" }));
    fs::write(home.with_file_name("fresh"), OWN).unwrap();
    fs::rename(home.with_file_name("fresh"), &key).unwrap();
    call.evidence = Some(json!({ "outside": [key] }).to_string());
    let result = output(&world.run(&call).await);
    assert!(result.contains("belongs to limulus itself"), "{result}");
}

/// What a call found at a protected path is kept for the next one only as long as it is still there.
#[tokio::test]
async fn r61_a_protected_path_that_leads_elsewhere_since_the_last_call_is_protected_there() {
    let mut world = World::new();
    for (name, text) in [("one/key", OWN), ("two/key", OWN), ("home-1/journal.db", OWN), ("home-2/journal.db", OWN)] {
        world.put(name, text);
    }
    world.context.protected = Protected::files([world.path("keys/key")]).and(&Protected::folder(world.path("home")));
    symlink(world.path("one"), world.path("keys")).unwrap();
    symlink(world.path("home-1"), world.path("home")).unwrap();
    for path in ["one/key", "keys/key", "home-1/journal.db"] {
        refused(&world, path).await;
    }
    let lead = |name: &str, to: &str| {
        fs::remove_file(world.path(name)).unwrap();
        symlink(world.path(to), world.path(name)).unwrap();
    };
    lead("keys", "two");
    lead("home", "home-2");
    for path in ["two/key", "keys/key", "home-2/journal.db", "home/journal.db"] {
        refused(&world, path).await;
    }
    assert_eq!(output(&world.call("read", json!({ "path": "one/key" })).await), OWN);
    // The key appears, the home is replaced.
    fs::rename(world.path("two/key"), world.path("two/old")).unwrap();
    assert_eq!(output(&world.call("read", json!({ "path": "two/old" })).await), OWN);
    world.put("two/key", OWN);
    fs::rename(world.path("home-2"), world.path("aside")).unwrap();
    world.put("home-2/journal.db", OWN);
    for path in ["two/key", "home-2/journal.db"] {
        refused(&world, path).await;
    }
    assert_eq!(output(&world.call("read", json!({ "path": "aside/journal.db" })).await), OWN);
}

/// A link that appears after the check leads nowhere either.
#[tokio::test]
async fn r61_what_was_checked_does_not_become_the_home_before_it_runs() {
    for (tool, arguments) in calls("d/journal.db") {
        let world = world();
        world.put("d/journal.db", format!("{OWN} of nobody"));
        let mut call = request(tool, arguments);
        call.evidence = world.check(&call).evidence;
        fs::rename(world.path("d"), world.path("aside")).unwrap();
        symlink(world.path(".limulus"), world.path("d")).unwrap();
        let before = tree(&world.path(".limulus"));
        let result = output(&world.run(&call).await);
        assert!(result.contains("belongs to limulus itself"), "{tool}: {result}");
        assert_eq!(tree(&world.path(".limulus")), before, "{tool}");
        // The folder itself, moved into the place.
        fs::remove_file(world.path("d")).unwrap();
        fs::rename(world.path(".limulus"), world.path("d")).unwrap();
        let mut moved = world;
        moved.context.protected = Protected::folder(moved.path("d"));
        let result = output(&moved.run(&call).await);
        assert!(!result.contains(OWN) && result.contains("belongs to limulus itself"), "{tool}: {result}");
    }
}

/// A workspace in the home could only be a mistake or an attack: no tool works there, and no command starts there.
#[tokio::test]
async fn r61_no_tool_and_no_command_works_in_the_home() {
    let world = world();
    for folder in [".limulus", ".limulus/calls", ".limulus/calls/1"] {
        let mut inner = World::new();
        inner.context.protected = world.context.protected.clone();
        inner.context.workspace = world.path(folder);
        inner.settings.exec = Policy::Allow;
        for call in [exec("cat journal.db"), request("ls", json!({})), request("read", json!({ "path": "journal.db" }))]
        {
            let ended = inner.run(&call).await;
            let result = output(&ended);
            assert_eq!(ended.outcome, CallOutcome::Failed, "{folder}: {result}");
            assert!(result.contains("belongs to limulus itself"), "{folder}: {result}");
        }
    }
}

/// Everything else in a workspace that contains the home works as ever, commands included.
#[tokio::test]
async fn r61_a_workspace_around_the_home_works() {
    let world = world();
    for (tool, arguments, expected) in [
        ("write", json!({ "path": "a/b/c.txt", "content": "one\n" }), "a/b/c.txt"),
        ("edit", json!({ "path": "a/b/c.txt", "old_text": "one", "new_text": "two" }), "edited"),
        (
            "apply_patch",
            patch("*** Add File: limulus/new.txt\n+three\n*** Delete File: a/b/c.txt"),
            "A limulus/new.txt",
        ),
        ("read", json!({ "path": "limulus/new.txt" }), "three"),
        ("write", json!({ "path": "secrets/other", "content": "four" }), "secrets/other"),
        ("exec", json!({ "command": "cat secrets/other" }), "four"),
    ] {
        let ended = world.call(tool, arguments).await;
        let result = output(&ended);
        assert!(ended.outcome == CallOutcome::Done && result.contains(expected), "{tool}: {result}");
    }
}

/// R67: what the sandbox hides from commands is hidden from every tool that takes a path, whatever it is called.
#[tokio::test]
async fn r67_no_tool_reads_or_writes_what_the_sandbox_hides() {
    let mut world = World::new();
    world.put("kept/deep/id", OWN);
    world.put("kept.txt", OWN);
    world.put("notes.txt", "for everybody");
    fs::hard_link(world.path("kept.txt"), world.path("copy.txt")).unwrap();
    symlink("kept", world.path("near")).unwrap();
    world.settings.outside = Policy::Allow;
    let hidden = ["kept", "kept.txt", "absent"].map(|name| world.path(name).display().to_string());
    let sandbox = Sandbox { mode: SandboxMode::Workspace, hidden: hidden.to_vec(), ..Sandbox::default() };
    (world.settings.sandbox, world.context.sandbox) = (sandbox.clone(), sandbox);
    for path in ["kept", "kept/deep/id", "kept/new", "kept.txt", "copy.txt", "near/deep/id", "absent", "absent/new"] {
        refused_because(&world, path, "the sandbox hides it").await;
    }
    let found = output(&world.call("grep", json!({ "pattern": OWN, "path": "." })).await);
    assert_eq!(found, "no matches\n");
    let listed = output(&world.call("ls", json!({ "path": "." })).await);
    assert!(listed.contains("kept (hidden by the sandbox)\n") && listed.contains("notes.txt"), "{listed}");
    // Without a sandbox commands see it, and so do tools.
    world.context.sandbox = Sandbox::default();
    assert_eq!(output(&world.call("read", json!({ "path": "kept.txt" })).await), OWN);
}

/// R67: where commands cannot write in the workspace, tools for files ask.
#[test]
fn r67_tools_for_files_ask_where_the_sandbox_is_read_only() {
    let mut world = World::new();
    world.put("notes.txt", "for everybody");
    world.settings.sandbox.mode = SandboxMode::ReadOnly;
    let decided = |world: &World, tool: &str, arguments: Value| world.check(&request(tool, arguments));
    let write = json!({ "path": "notes.txt", "content": "x" });
    let asked = decided(&world, "write", write.clone());
    assert_eq!(asked.decision, Policy::Ask);
    assert_eq!(asked.reason.unwrap(), "write notes.txt, while the sandbox is read-only");
    assert_eq!(decided(&world, "read", json!({ "path": "notes.txt" })).decision, Policy::Allow);
    world.settings.sandbox.mode = SandboxMode::Workspace;
    assert_eq!(decided(&world, "write", write).decision, Policy::Allow);
}
