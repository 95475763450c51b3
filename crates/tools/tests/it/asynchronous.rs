//! What a model sends is not worked on by the thread of an actor: that thread serves every session of the home.

use std::sync::Arc;
use std::time::Duration;

use engine::Policy;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tools::CallRequest;

use crate::support::{GRACE, World, request};

/// Bytes of the arguments: as many as an answer of a model can have.
const BYTES: usize = 7 << 20;

/// The CPU time that this thread spends on some work.
fn spent<T>(work: impl FnOnce() -> T) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    drop(work());
    now().saturating_sub(before)
}

fn calls() -> Vec<CallRequest> {
    let long = |unit: &str| unit.repeat(BYTES / unit.len());
    let patch = |lines: String| json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch") });
    let mut calls: Vec<CallRequest> = [
        ("read", json!({ "path": long("x/") })),
        ("ls", json!({ "path": long("../") })),
        ("grep", json!({ "pattern": long("a|"), "path": "." })),
        ("find", json!({ "pattern": long("*"), "path": "." })),
        ("write", json!({ "path": "w", "content": long("\u{fc}\n") })),
        ("edit", json!({ "path": "gone", "old_text": long("a\n"), "new_text": long("b\n") })),
        ("apply_patch", patch(format!("*** Add File: p\n{}", long("+x\n")))),
        ("apply_patch", patch(long("*** Delete File: d\n"))),
        ("exec", json!({ "command": long("true; ") })),
        ("process", json!({ "action": "poll", "id": long("p") })),
        ("process", json!({ "action": "write", "id": "p1", "text": long("y\n") })),
        ("web_fetch", json!({ "url": format!("https://{}", long("a.")) })),
        ("read", json!({ "path": "a", "unknown": vec![Value::Null; BYTES / 5] })),
        ("no-such-tool", json!({ "path": long("x") })),
    ]
    .map(|(tool, arguments)| request(tool, arguments))
    .into();
    let mut broken = request("read", json!({}));
    broken.arguments = [b"{\"path\": [".as_slice(), &b"[],".repeat(BYTES / 3)].concat().into();
    calls.push(broken);
    calls
}

/// R41: each tool, with arguments of 7 MB, checked, run, looked up and ended.
#[test]
fn r41_no_call_is_parsed_rendered_or_hashed_on_the_thread_of_an_actor() {
    let mut world = World::new();
    world.settings.exec = Policy::Allow;
    world.settings.web_fetch = Policy::Allow;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = Arc::new(world.settings.clone());
    for call in calls() {
        let parsed = spent(|| serde_json::from_slice::<Value>(&call.arguments));
        let hashed = spent(|| engine::Hash::of(&call.arguments));
        // A command of 7 MB is copied into the pipe of its supervisor.
        let most = (parsed / 2).max(hashed).max(Duration::from_millis(12));
        let name = &call.tool;
        let checked = spent(|| {
            let (settings, context) = (Arc::clone(&settings), world.context.clone());
            runtime.block_on(tools::check(settings, context, call.clone()))
        });
        assert!(checked < most, "{name} is checked: {checked:?} of {most:?}");
        let ran = spent(|| runtime.block_on(tools::run(&world.context, &call, |_, _| {})));
        assert!(ran < most, "{name} runs: {ran:?} of {most:?}");
        let found = spent(|| runtime.block_on(tools::find(&world.context, &call)));
        assert!(found < most, "{name} is looked up: {found:?} of {most:?}");
        let ended = spent(|| runtime.block_on(tools::end(&world.context, &call, GRACE)));
        assert!(ended < most, "{name} is ended: {ended:?} of {most:?}");
    }
}

/// R41: what has more bytes than any answer is refused before it is parsed.
#[tokio::test]
async fn r41_arguments_that_no_answer_can_have_are_refused_before_they_are_parsed() {
    let world = World::new();
    for tool in ["read", "write", "exec", "process", "apply_patch", "web_fetch"] {
        let mut call = request(tool, json!({}));
        // Not JSON: whoever parses it says so.
        call.arguments = vec![b'['; (8 << 20) + 1].into();
        for message in [world.check(&call).reason.unwrap(), crate::support::output(&world.run(&call).await)] {
            assert!(message.contains("split the call") && !message.contains("JSON"), "{tool}: {message}");
        }
    }
}

/// R41: a pattern that takes minutes to compile, and cannot be cancelled while it does, is refused before.
#[tokio::test]
async fn r41_a_pattern_that_nobody_writes_is_not_compiled() {
    let world = World::new();
    for (tool, arguments) in [
        ("grep", json!({ "pattern": "a|".repeat(1 << 20) })),
        ("grep", json!({ "pattern": "((((a{99}){99}){99}){99}){99}" })),
        ("grep", json!({ "pattern": "a", "glob": "*".repeat(4 << 20) })),
        ("find", json!({ "pattern": "*".repeat(4 << 20) })),
        ("find", json!({ "pattern": "{a,".repeat(1 << 20) })),
    ] {
        let before = std::time::Instant::now();
        let result = crate::support::output(&world.run(&request(tool, arguments)).await);
        assert!(result.contains("is not a"), "{tool}: {result}");
        assert!(result.len() < 10_000 && before.elapsed() < Duration::from_secs(5), "{tool}: {:?}", before.elapsed());
    }
}
