//! The tools that change files in place: `edit` and `apply_patch`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use engine::{CallOutcome, Found};
use serde_json::{Value, json};
use tools::CallRequest;

use crate::support::{GRACE, World, output, request};

async fn called(world: &World, tool: &str, arguments: Value, outcome: CallOutcome) -> String {
    let ended = world.call(tool, arguments).await;
    assert_eq!(ended.outcome, outcome, "{}", output(&ended));
    output(&ended)
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "path": path, "old_text": old, "new_text": new })
}

fn patch(lines: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch\n") })
}

fn checked(world: &World, tool: &str, arguments: Value) -> CallRequest {
    let mut request = request(tool, arguments);
    request.evidence = world.check(&request).evidence;
    request
}

/// Every file of the workspace.
fn files(world: &World) -> Vec<(String, String)> {
    let walk = ignore::WalkBuilder::new(&world.context.workspace).standard_filters(false).build();
    let paths = walk.map(|entry| entry.unwrap().into_path()).filter(|path| path.is_file());
    let name = |path: &std::path::Path| path.strip_prefix(&world.context.workspace).unwrap().display().to_string();
    let mut files: Vec<_> = paths.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect();
    files.sort();
    files
}

fn are(world: &World, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    assert_eq!(files(world), expected);
}

#[tokio::test]
async fn edit_replaces_one_occurrence_and_keeps_the_rest() {
    let world = World::new();
    world.put("a.txt", "\u{feff}one\r\ntwo\r\nthree\r\n");
    fs::set_permissions(world.path("a.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    let result = called(&world, "edit", edit("a.txt", "two\nthree", "2\n3\n4"), CallOutcome::Done).await;
    assert_eq!(result, "edited a.txt: 2 lines became 3\n");
    are(&world, &[("a.txt", "\u{feff}one\r\n2\r\n3\r\n4\r\n")]);
    assert_eq!(fs::metadata(world.path("a.txt")).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn an_edit_that_does_not_fit_changes_nothing_and_says_why() {
    let world = World::new();
    world.put("a.txt", "fn one() {}\nfn one() {}\n");
    world.put("latin1", b"caf\xe9");
    for (arguments, parts) in [
        (edit("a.txt", "fn one", "x"), ["2 times", "lines 1, 2"]),
        (edit("a.txt", "fn onw() {}", "x"), ["not in the file", "1: fn one() {}"]),
        (edit("a.txt", "one", "one"), ["cannot edit a.txt", "the same"]),
        (edit("gone", "a", "b"), ["cannot edit gone", "No such file"]),
        (edit(".", "a", "b"), ["folder", "ls"]),
        (edit("latin1", "a", "b"), ["not UTF-8 text", "4 bytes"]),
    ] {
        let result = called(&world, "edit", arguments, CallOutcome::Failed).await;
        assert!(parts.iter().all(|part| result.contains(part)), "{result}");
    }
    assert_eq!(fs::read_to_string(world.path("a.txt")).unwrap(), "fn one() {}\nfn one() {}\n");
}

/// If the file has the hash before, the call runs again; with the hash after, it is done; else somebody else changed
/// it.
#[tokio::test]
async fn r13_a_change_that_a_crash_interrupted_is_found_by_hashes() {
    let arguments = [
        ("edit", edit("a.txt", "before", "after")),
        ("apply_patch", patch("*** Update File: a.txt\n@@\n-before\n+after")),
    ];
    for (tool, arguments) in arguments {
        let world = World::new();
        world.put("a.txt", "before\n");
        let request = checked(&world, tool, arguments.clone());
        let beside = world.path(&format!(".limulus-{}.tmp", request.id.to_string().replace('/', ".")));
        fs::write(&beside, "aft").unwrap();
        assert_eq!(tools::find(&world.context, &request).await.found, Found::NeverStarted);
        assert!(!beside.exists());
        assert_eq!(tools::end(&world.context, &request, GRACE).await.outcome, CallOutcome::Failed);

        let ended = world.run(&request).await;
        assert_eq!(ended.outcome, CallOutcome::Done, "{}", output(&ended));
        are(&world, &[("a.txt", "after\n")]);
        let found = tools::find(&world.context, &request).await;
        assert_eq!((found.found, found.ended), (Found::Ended, Some(ended.clone())));
        assert_eq!(tools::end(&world.context, &request, GRACE).await, ended);
        assert_eq!(world.run(&request).await, ended, "the same call does nothing more");
        are(&world, &[("a.txt", "after\n")]);

        world.put("a.txt", "before, and theirs\n");
        assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
        let result = output(&world.run(&request).await);
        assert!(tool == "apply_patch" || result.contains("changed while this call waited"), "{result}");
        are(&world, &[("a.txt", "before, and theirs\n")]);

        // A change that did not fit at the check has changed nothing, and changes nothing.
        let request = checked(&world, tool, arguments);
        world.put("a.txt", "nothing of it\n");
        let request_unfit = CallRequest { evidence: None, ..request };
        assert_eq!(tools::find(&world.context, &request_unfit).await.found, Found::NeverStarted);
        world.put("a.txt", "before\n");
        let result = output(&world.run(&request_unfit).await);
        assert!(result.contains("Call again"), "{result}");
        are(&world, &[("a.txt", "before\n")]);
    }
}

const WHOLE: &str = "*** Add File: new/n.txt\n+new\n*** Update File: a.txt\n@@\n-a\n+A\n*** Update File: b.txt\n\
                     *** Move to: moved/b.txt\n@@ head\n b\n+more\n*** Delete File: c.txt\n*** Update File: a.txt\n@@\n+end";

fn folder() -> World {
    let world = World::new();
    for (name, text) in [("a.txt", "a\n"), ("b.txt", "head\nb\n"), ("c.txt", "c\n")] {
        world.put(name, text);
    }
    world
}

const PATCHED: [(&str, &str); 3] = [("a.txt", "A\nend\n"), ("moved/b.txt", "head\nb\nmore\n"), ("new/n.txt", "new\n")];

#[tokio::test]
async fn a_patch_changes_several_files() {
    let world = folder();
    let result = called(&world, "apply_patch", patch(WHOLE), CallOutcome::Done).await;
    assert_eq!(result, "applied the patch:\nA new/n.txt\nM a.txt\nR b.txt -> moved/b.txt\nD c.txt\nM a.txt\n");
    are(&world, &PATCHED);
}

#[tokio::test]
async fn a_patch_that_does_not_fit_whole_is_not_applied_at_all() {
    for (broken, parts) in [
        ("*** Update File: b.txt\n@@\n-nowhere\n+x", ["b.txt", "hunk 1"]),
        ("*** Update File: gone\n@@\n-x", ["gone", "does not exist"]),
        ("*** Add File: b.txt\n+x", ["b.txt", "exists already"]),
        ("*** Delete File: gone", ["gone", "does not exist"]),
        ("*** Update File: b.txt\n*** Move to: c.txt", ["c.txt", "exists already"]),
        ("*** Update File: b.txt\nx", ["line 7", "blank"]),
    ] {
        let world = folder();
        let before = files(&world);
        let arguments = patch(&format!("*** Update File: a.txt\n@@\n-a\n+A\n{broken}"));
        let ended = world.call("apply_patch", arguments).await;
        let result = output(&ended);
        assert_eq!(ended.outcome, CallOutcome::Failed, "{broken}: {result}");
        assert!(parts.iter().all(|part| result.contains(part)), "{broken}: {result}");
        assert_eq!(files(&world), before, "{broken}");
    }
}

/// If a crash comes between two files, the same call changes the rest.
#[tokio::test]
async fn r13_a_patch_that_was_interrupted_in_the_middle_is_completed() {
    let steps: [fn(&World); 5] = [
        |world| world.put("new/n.txt", "new\n"),
        |world| world.put("a.txt", "A\nend\n"),
        |world| world.put("moved/b.txt", "head\nb\nmore\n"),
        |world| fs::remove_file(world.path("b.txt")).unwrap(),
        |world| fs::remove_file(world.path("c.txt")).unwrap(),
    ];
    for done in 0..=steps.len() {
        let world = folder();
        let request = checked(&world, "apply_patch", patch(WHOLE));
        steps[..done].iter().for_each(|step| step(&world));
        let found = tools::find(&world.context, &request).await.found;
        let expected = if done == steps.len() { Found::Ended } else { Found::NeverStarted };
        assert_eq!(found, expected, "after {done} steps");
        // Run it again under another id, as the engine does.
        let mut again = request.clone();
        again.id.try_no += 1;
        let ended = world.run(&again).await;
        assert_eq!(ended.outcome, CallOutcome::Done, "after {done} steps: {}", output(&ended));
        are(&world, &PATCHED);
    }
}

#[tokio::test]
async fn r13_a_patch_does_not_overwrite_a_file_that_somebody_else_changed() {
    let world = folder();
    let request = checked(&world, "apply_patch", patch(WHOLE));
    world.put("c.txt", "theirs\n");
    let before = files(&world);
    let result = output(&world.run(&request).await);
    assert!(result.contains("c.txt was changed while this call waited"), "{result}");
    assert_eq!(files(&world), before);
    assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
}
