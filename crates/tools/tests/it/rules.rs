//! What a walk reads by itself: `.gitignore` and the like. Anything may lie under these names.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::support::{World, output};

/// Calls a tool on a thread of its own, because a call that hangs would hang the end of the test too.
fn called(world: &World, tool: &'static str, arguments: Value) -> String {
    let (done, is_done) = mpsc::channel();
    let (context, request) = (world.context.clone(), crate::support::request(tool, arguments));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = runtime.block_on(tools::run(&context, &request, |_, _| {}));
        done.send(output(&ended))
    });
    is_done.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("{tool} hangs"))
}

/// Puts something under the name of a file of rules that is none.
type Put = fn(&Path);

const KINDS: [(&str, Put); 11] = [
    ("a pipe", |path| mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap()),
    ("a link to a pipe", |path| {
        mkfifoat(CWD, path.with_extension("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        symlink(path.with_extension("pipe"), path).unwrap();
    }),
    ("an endless device", |path| symlink("/dev/zero", path).unwrap()),
    ("a terminal", |path| symlink("/dev/tty", path).unwrap()),
    ("itself", |path| symlink(path, path).unwrap()),
    ("a file of a gigabyte", |path| fs::File::create(path).unwrap().set_len(1 << 30).unwrap()),
    ("a file of a terabyte", |path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap()),
    ("a folder", |path| fs::create_dir_all(path.join("x")).unwrap()),
    ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
    ("a file of processes", |path| symlink("/proc/self/environ", path).unwrap()),
    ("a million rules", |path| fs::write(path, "*a*b*c*\n".repeat(1 << 20)).unwrap()),
];

/// R41: whatever lies under the name of a file of rules, a walk ends and finds what is there.
#[test]
fn r41_a_file_of_rules_that_is_none_holds_up_no_walk() {
    for place in [
        ".gitignore",
        ".ignore",
        ".git/info/exclude",
        ".git",
        "sub/.gitignore",
        "sub/.git",
        "../.gitignore",
        "../.ignore",
    ] {
        for (kind, put) in KINDS {
            let world = World::new();
            world.put("sub/deep/a.txt", "word\n");
            let path = world.path(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            put(&path);
            let found = called(&world, "find", json!({ "pattern": "*.txt" }));
            assert_eq!(found, "sub/deep/a.txt\n", "{place} is {kind}");
            let found = called(&world, "grep", json!({ "pattern": "word" }));
            assert_eq!(found, "sub/deep/a.txt:1: word\n", "{place} is {kind}");
            called(&world, "ls", json!({}));
        }
    }
}

/// R41: a `.git` that names another folder leads to no file that blocks either.
#[test]
fn r41_no_work_tree_leads_a_walk_to_what_blocks() {
    for target in ["/dev/zero", "/proc/self/fd", "/dev", "pipes"] {
        let world = World::new();
        world.put("a.txt", "word\n");
        world.put(".git", format!("gitdir: {target}\n"));
        fs::create_dir(world.path("pipes")).unwrap();
        mkfifoat(CWD, world.path("pipes/commondir"), Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(called(&world, "find", json!({ "pattern": "*.txt" })), "a.txt\n", "{target}");
    }
}

/// R41: what is no file is not even opened: a program that waits for a reader of the pipe goes on waiting.
#[test]
fn r41_a_pipe_in_the_place_of_rules_is_not_opened() {
    let world = World::new();
    world.put("a.txt", "");
    let path = world.path(".gitignore");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let (opened, is_opened) = mpsc::channel();
    let waiting = path.clone();
    std::thread::spawn(move || {
        let file = fs::OpenOptions::new().write(true).open(waiting);
        opened.send(file.is_ok())
    });
    assert_eq!(called(&world, "find", json!({ "pattern": "*.txt" })), "a.txt\n");
    assert_eq!(is_opened.try_recv(), Err(mpsc::TryRecvError::Empty));
    // A reader of its own lets the thread go.
    let reader = fs::File::open(&path).unwrap();
    assert_eq!(is_opened.recv(), Ok(true));
    drop(reader);
}

/// R41: rules that cost most, in many folders: a search that is cancelled enters no more of them.
#[test]
fn r41_costly_rules_hold_up_no_cancel() {
    let world = World::new();
    let rules = (0..4_000).map(|number| format!("**/*{number}?[a-z]*{{a,b}}/**/x*\n")).collect::<Vec<_>>().concat();
    world.put("rules", &rules);
    for folder in 0..3_000 {
        fs::create_dir(world.path(&format!("d{folder}"))).unwrap();
        fs::hard_link(world.path("rules"), world.path(&format!("d{folder}/.gitignore"))).unwrap();
        fs::create_dir(world.path(&format!("d{folder}/inner"))).unwrap();
    }
    let (context, request) = (world.context.clone(), crate::support::request("grep", json!({ "pattern": "none" })));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let run = tools::run(&context, &request, |_, _| {});
        assert!(tokio::time::timeout(Duration::from_millis(300), run).await.is_err(), "it takes longer");
    });
    // It waits for the thread of the walk.
    let began = Instant::now();
    drop(runtime);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
