//! Calls that only read files begin with their check.

use std::sync::Arc;

use engine::Policy;
use serde_json::{Value, json};
use tools::{CallAhead, Checked};

use crate::support::{World, output, request};

async fn check(world: &World, tool: &str, arguments: Value) -> (Checked, Option<CallAhead>) {
    tools::check(Arc::new(world.settings.clone()), world.context.clone(), request(tool, arguments)).await
}

/// R13: it gives what the call gives that runs after its check.
#[tokio::test]
async fn r13_a_call_that_only_reads_files_begins_with_its_check() {
    let world = World::new();
    world.put("notes.txt", "one\ntwo\n");
    for (tool, arguments) in [
        ("read", json!({ "path": "notes.txt" })),
        ("read", json!({ "path": "missing.txt" })),
        ("ls", json!({})),
        ("grep", json!({ "pattern": "tw." })),
        ("find", json!({ "pattern": "*.txt" })),
    ] {
        let (checked, begun) = check(&world, tool, arguments.clone()).await;
        assert_eq!(checked.decision, Policy::Allow, "{tool}");
        assert_eq!(begun.expect(tool).ended().await, world.call(tool, arguments).await, "{tool}");
    }
}

/// R13: what the policy does not allow outright does not begin, and nothing else does that is more than reading files.
#[tokio::test]
async fn r13_nothing_else_begins_with_its_check() {
    let mut world = World::new();
    world.settings.exec = Policy::Allow;
    world.settings.web_fetch = Policy::Allow;
    world.settings.outside = Policy::Ask;
    world.put("a.txt", "one\n");
    for (tool, arguments, decision) in [
        ("write", json!({ "path": "new.txt", "content": "x" }), Policy::Allow),
        ("edit", json!({ "path": "a.txt", "old_text": "one", "new_text": "two" }), Policy::Allow),
        ("exec", json!({ "command": "touch ran" }), Policy::Allow),
        ("process", json!({ "action": "list" }), Policy::Allow),
        ("web_fetch", json!({ "url": "http://127.0.0.1:1/" }), Policy::Allow),
        ("read", json!({ "path": "/etc/hostname" }), Policy::Ask),
        ("ls", json!({ "path": "/" }), Policy::Ask),
        ("read", json!({ "path": 7 }), Policy::Deny),
        ("none", json!({}), Policy::Deny),
    ] {
        let (checked, begun) = check(&world, tool, arguments).await;
        assert_eq!((checked.decision, begun.is_none()), (decision, true), "{tool}: {:?}", checked.reason);
    }
    assert_eq!(output(&world.call("ls", json!({})).await), "a.txt  4 bytes\n");
    assert_eq!(std::fs::read_to_string(world.path("a.txt")).unwrap(), "one\n");
}

/// R15: a call that takes long is checked before it has ended, so that its limit begins; and it ends with its future.
#[tokio::test]
async fn r15_a_long_call_is_checked_while_it_runs_and_ends_when_nobody_waits_for_it() {
    let world = World::new();
    world.put("long.txt", "a\n".repeat(8 << 20));
    let arguments = json!({ "path": "long.txt", "offset": 9 << 20 });
    let (checked, begun) = check(&world, "read", arguments.clone()).await;
    assert_eq!(checked.decision, Policy::Allow);
    let begun = begun.expect("a call that began");
    assert!(format!("{begun:?}").contains("Runs"), "{begun:?}");
    assert_eq!(begun.ended().await, world.call("read", arguments.clone()).await);
    // A dropped call lets its thread go: the end of a runtime waits for it.
    let (checked, begun) = check(&world, "read", arguments).await;
    assert_eq!(checked.decision, Policy::Allow);
    drop(begun);
}
