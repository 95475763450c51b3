//! Others create links on the path of a call: between its check and its run, and while it runs. The tools read and
//! write nothing that the policy has not judged.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use engine::{CallOutcome, Policy};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::support::{World, output, request};

/// The content of the file in the folder outside.
const OUTSIDE: &str = "not for the agent";

/// How often each call is made while the link is created and removed.
const ROUNDS: u32 = 300;

/// A workspace with the folder `d`, and a folder outside it with the same names but other content.
fn world() -> (World, PathBuf) {
    let world = World::new();
    let away = world.home.path().join("away");
    fs::create_dir_all(away.join("only-outside")).unwrap();
    fs::write(away.join("a.txt"), OUTSIDE).unwrap();
    fs::write(away.join("b.txt"), OUTSIDE).unwrap();
    world.put("d/a.txt", "inside");
    (world, away)
}

/// A call of every tool that takes a path.
fn calls(round: u32) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({ "path": "d/a.txt" })),
        ("ls", json!({ "path": "d" })),
        ("grep", json!({ "pattern": "agent", "path": "." })),
        ("grep", json!({ "pattern": "agent", "path": "d/a.txt" })),
        ("find", json!({ "pattern": "**/*", "path": "d" })),
        ("find", json!({ "pattern": "*outside*", "path": "." })),
        ("edit", json!({ "path": "d/a.txt", "old_text": "agent", "new_text": "user" })),
        ("write", json!({ "path": "d/a.txt", "content": format!("inside {round}") })),
        ("edit", json!({ "path": "d/a.txt", "old_text": "inside", "new_text": "still inside" })),
        ("apply_patch", patch(&format!("*** Add File: d/patched/{round}.txt\n+inside"))),
        ("apply_patch", patch("*** Delete File: d/b.txt")),
        ("write", json!({ "path": format!("d/new/{round}.txt"), "content": "inside" })),
    ]
}

fn patch(lines: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch") })
}

/// Replaces the folder `d` by a link to `away` and back, until it is stopped.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU32>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(world: &World, away: PathBuf) -> Self {
        let (place, link) = (world.path("d"), world.path("link"));
        symlink(away, &link).unwrap();
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&swaps));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                renameat_with(CWD, &place, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { stop, swaps, thread: Some(thread) }
    }

    fn stop(&mut self) -> u32 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
        self.swaps.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn escape_4_a_link_that_comes_and_goes_leads_no_call_out_of_the_workspace() {
    let (world, away) = world();
    let before = tree(&away);
    let mut swapper = Swapper::start(&world, away.clone());
    let mut done = 0;
    for round in 0..ROUNDS {
        for (tool, arguments) in calls(round) {
            let ended = world.call(tool, arguments).await;
            done += u32::from(ended.outcome == CallOutcome::Done);
            let result = output(&ended);
            assert!(!result.contains(OUTSIDE) && !result.contains("only-outside"), "{tool}: {result}");
        }
    }
    let swaps = swapper.stop();
    assert_eq!(tree(&away), before, "nothing was written outside");
    assert!(swaps > 2 * ROUNDS && done > 0, "{swaps} swaps, {done} calls done: then nothing was tried");
}

#[tokio::test]
async fn what_was_checked_inside_is_not_run_outside() {
    for (tool, arguments) in calls(0) {
        let (mut world, away) = world();
        // No approval was requested.
        world.settings.outside = Policy::Ask;
        let mut request = request(tool, arguments);
        let checked = world.check(&request);
        assert_eq!(checked.decision, Policy::Allow);
        request.evidence = checked.evidence;
        fs::rename(world.path("d"), world.path("aside")).unwrap();
        symlink(&away, world.path("d")).unwrap();
        let before = tree(&away);
        let result = output(&world.run(&request).await);
        assert!(!result.contains(OUTSIDE) && !result.contains("only-outside"), "{tool}: {result}");
        assert_eq!(tree(&away), before, "{tool}");
        if request.arguments.windows(2).any(|bytes| bytes == b"d/") && tool != "find" {
            assert!(result.contains("outside the workspace"), "{tool}: {result}");
        }
    }
}

#[tokio::test]
async fn approval_for_one_path_outside_is_not_approval_for_another() {
    let (mut world, away) = world();
    world.settings.outside = Policy::Ask;
    symlink(away.join("a.txt"), world.path("link")).unwrap();
    let mut request = request("read", json!({ "path": "link" }));
    let checked = world.check(&request);
    assert_eq!(checked.decision, Policy::Ask);
    request.evidence = checked.evidence;
    assert_eq!(output(&world.run(&request).await), OUTSIDE);
    fs::remove_file(world.path("link")).unwrap();
    symlink(away.join("b.txt"), world.path("link")).unwrap();
    let result = output(&world.run(&request).await);
    assert!(result.contains("b.txt now leads outside the workspace"), "{result}");
}

/// Everything in a folder, with its content.
fn tree(folder: &std::path::Path) -> Vec<(PathBuf, Option<String>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        }
        found.push((path.clone(), fs::read_to_string(&path).ok()));
    }
    found.sort();
    found
}
