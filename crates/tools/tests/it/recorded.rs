//! What commands change is recorded with their results (R17): the workspace is compared before and after them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, Instant};

use engine::{Attribution, CallOutcome, ChangedFile, FileKind, Found, Hash, NotKept};
use serde_json::json;
use tools::{FileStore, StoreLimits, WorkspaceLimits};

use crate::support::{GRACE, World, exec, output, request, supervisor_of, until};

/// A line for each change: its path, what was there before and is there after, and what is said of it.
fn lines(changes: &[ChangedFile]) -> Vec<String> {
    let side = |content: Option<engine::FileContent>, mode: Option<u32>| {
        let Some(content) = content else { return "-".to_owned() };
        let kind = match content.kind {
            FileKind::File => "file",
            FileKind::Link => "link",
            FileKind::Folder => "folder",
        };
        let mode = mode.map(|mode| format!(" {mode:o}")).unwrap_or_default();
        format!("{kind}{mode}{}", if content.hash.is_some() { "" } else { " ?" })
    };
    let line = |change: &ChangedFile| {
        let (before, after) = (side(change.before, change.mode.before), side(change.after, change.mode.after));
        let why = change.not_kept.map(|why| format!(" {why:?}")).unwrap_or_default();
        let who =
            if change.attribution == Attribution::Call { String::new() } else { format!(" {:?}", change.attribution) };
        format!("{}: {before} → {after}{why}{who}", change.path)
    };
    changes.iter().map(line).collect()
}

fn limited(world: &mut World, limits: StoreLimits) {
    world.context.files = FileStore::new(world.home.path().join("files"), limits);
}

#[tokio::test]
async fn r17_a_command_records_everything_that_it_changes_and_keeps_what_was_there() {
    let world = World::new();
    for (name, text) in
        [("changed", "1"), ("removed", "2"), ("moved", "3"), ("mode", "4"), ("sub/same", "5"), ("old/x", "6")]
    {
        world.put(name, text);
    }
    fs::create_dir(world.path("empty")).unwrap();
    symlink("same", world.path("sub/link")).unwrap();
    symlink("sub", world.path("folder-link")).unwrap();
    let command = "printf changed > changed; rm removed; mv moved sub/there; chmod 700 mode; rmdir empty; mkdir -p new/deep; \
                   printf new > new/deep/f; ln -sfn elsewhere sub/link; mv old sub/old; ln -s a fresh-link; touch sub/same";
    let ended = world.run(&exec(command)).await;
    assert_eq!(ended.outcome, CallOutcome::Done, "{}", output(&ended));
    assert_eq!(
        lines(&ended.changes),
        [
            "changed: file 644 → file 644",
            "empty: folder 755 ? → -",
            "fresh-link: - → link",
            "mode: file 644 → file 700",
            "moved: file 644 → -",
            "new: - → folder 755 ?",
            "new/deep: - → folder 755 ?",
            "new/deep/f: - → file 644",
            "old: folder 755 ? → -",
            "old/x: file 644 → -",
            "removed: file 644 → -",
            "sub/link: link → link",
            "sub/old: - → folder 755 ?",
            "sub/old/x: - → file 644",
            "sub/there: - → file 644",
        ]
    );
    for before in ["1", "2", "3", "same", "6", "new"] {
        assert_eq!(world.context.files.content(&Hash::of(before.as_bytes())).as_deref(), Some(before.as_bytes()));
    }
    assert_eq!(world.run(&exec("ls -la")).await.changes, []);
}

#[tokio::test]
async fn r17_what_cannot_be_taken_back_is_named() {
    let mut world = World::new();
    limited(&mut world, StoreLimits { file_bytes: 20, ..StoreLimits::default() });
    world.put(".gitignore", "ignored\ntarget/\n");
    for (name, text) in [
        ("large", "more than twenty bytes"),
        ("ignored", "1"),
        ("target/x", "1"),
        (".git/HEAD", "ref: a"),
        ("sub/.git/HEAD", "b"),
    ] {
        world.put(name, text);
    }
    let odd = world.context.workspace.join(OsStr::from_bytes(b"odd\xff"));
    fs::write(&odd, "1").unwrap();
    let command = "echo and more > large; echo 2 > ignored; echo 2 > target/x; echo 2 > .git/HEAD; echo 2 > sub/.git/HEAD; \
                   mkfifo pipe; rm odd*; echo 2 > tracked";
    let ended = world.run(&exec(command)).await;
    let expected = [
        "ignored: file 644 ? → file 644 ? Ignored",
        "large: file 644 ? → file 644 TooLarge",
        "odd\u{fffd}: file 644 ? → - Name",
        "pipe: - → file 644 ? Special",
        "tracked: - → file 644",
    ];
    assert_eq!(lines(&ended.changes), expected, "{}", output(&ended));
    // What was ignored is not new when the rule goes, and what was not is not gone when one comes.
    let ended = world.run(&exec("printf 'tracked\\n' > .gitignore")).await;
    assert_eq!(lines(&ended.changes), [".gitignore: file 644 → file 644"]);
    let ended = world.run(&exec("rm -r .gitignore target")).await;
    assert_eq!(
        lines(&ended.changes),
        [".gitignore: file 644 → -", "target: folder 755 ? → -", "target/x: file 644 → -"]
    );
}

#[tokio::test]
async fn r17_the_limits_of_a_workspace_hold_and_one_that_is_not_recorded_says_why() {
    let mut world = World::new();
    let workspace = Some(WorkspaceLimits { files: 3, bytes: 6 });
    limited(&mut world, StoreLimits { workspace, ..StoreLimits::default() });
    for name in ["a", "b", "c", "d"] {
        world.put(name, "12");
    }
    let ended = world.run(&exec("for f in *; do echo longer > $f; done")).await;
    let line = |name: &str, rest: &str| format!("{name}: file 644{rest}");
    assert_eq!(
        lines(&ended.changes),
        [
            line("a", " → file 644 ? PastLimits"),
            line("b", " → file 644 ? PastLimits"),
            line("c", " → file 644 ? PastLimits"),
            line("d", " ? → file 644 ? PastLimits"),
        ]
    );
    limited(&mut world, StoreLimits { workspace: None, ..StoreLimits::default() });
    let whole = |why: &str| vec![format!(".: - → - {why}")];
    assert_eq!(lines(&world.run(&exec("touch e")).await.changes), whole("SwitchedOff"));
    limited(&mut world, StoreLimits::default());
    let workspace = std::mem::replace(&mut world.context.workspace, "/".into());
    assert_eq!(lines(&world.run(&exec("true")).await.changes), whole("HomeFolder"));
    world.context.workspace = workspace;
    let many = world.run(&exec("seq -f f%g 5000 | xargs touch")).await.changes;
    assert_eq!((many.len(), many[0].not_kept), (5_000, None));
    assert_eq!(lines(&world.run(&exec("seq -f g%g 50001 | xargs touch")).await.changes), whole("TooManyChanges"));
}

/// The supervisor is killed, the command is aborted, or its owner dies: what it changed is recorded by whoever finds it.
#[tokio::test]
async fn r13_r17_a_command_that_is_killed_ended_or_found_after_a_crash_records_its_changes() {
    let hold = "printf 2 > a; : > begun; while :; do sleep 0.01; done";
    let expected = ["a: file 644 → file 644", "begun: - → file 644"];
    for way in ["supervisor", "end", "owner", "owner and supervisor"] {
        let world = World::new();
        world.put("a", "1");
        let call = exec(if way == "owner" { "printf 2 > a; : > begun" } else { hold });
        let running = {
            let (context, call) = (world.context.clone(), call.clone());
            tokio::spawn(async move { tools::run(&context, &call, |_, _| {}).await })
        };
        until("it has begun", || world.path("begun").exists()).await;
        let kill = || {
            let pid = rustix::process::Pid::from_raw(supervisor_of(&world.folder(&call)).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        };
        let changes = match way {
            "supervisor" => {
                kill();
                running.await.unwrap().changes
            }
            "end" => {
                running.abort();
                let _ = running.await;
                tools::end(&world.context, &call, GRACE).await.changes
            }
            "owner" => {
                running.abort();
                let _ = running.await;
                let found = loop {
                    let found = tools::find(&world.context, &call).await;
                    if found.found != Found::Running {
                        break found;
                    }
                };
                assert_eq!(found.found, Found::Ended, "{way}");
                found.ended.unwrap().changes
            }
            _ => {
                running.abort();
                let _ = running.await;
                kill();
                let found = loop {
                    let found = tools::find(&world.context, &call).await;
                    if found.found != Found::Running {
                        break found;
                    }
                };
                assert_eq!(found.found, Found::Unknown, "{way}");
                found.ended.unwrap().changes
            }
        };
        assert_eq!(lines(&changes), expected, "{way}");
        tools::forget(&world.context.calls, call.id).unwrap();
        let left: Vec<_> =
            fs::read_dir(&world.context.calls).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{way}: {left:?}");
    }
}

#[tokio::test]
async fn r17_a_background_command_records_its_changes_when_it_yields_and_when_it_ends() {
    let world = World::new();
    let command = "echo 1 > first; : > begun; while ! test -e go; do sleep 0.01; done; echo 2 > second";
    let call = request("exec", json!({ "command": command, "background": true }));
    let ended = world.run(&call).await;
    assert!(ended.in_background, "{}", output(&ended));
    until("it has begun", || world.path("begun").exists()).await;
    // A command of another run works in the same folder: what it changes may be of either.
    let other = world.run(&exec("echo 3 > third")).await;
    assert!(
        lines(&other.changes).contains(&"third: - → file 644 AnotherRun".to_owned()),
        "{:?}",
        lines(&other.changes)
    );
    let written = world.call("write", json!({ "path": "fourth", "content": "4" })).await;
    assert_eq!(written.changes.len(), 1);
    world.put("go", "");
    let end = tools::hold_process(&world.processes(), call.id).await;
    let changes = lines(&end.changes);
    assert!(changes.contains(&"second: - → file 644 AnotherRun".to_owned()), "{changes:?}");
    for recorded in ["third", "fourth"] {
        assert!(
            !changes.iter().any(|line| line.starts_with(recorded)),
            "{recorded} is recorded by its own call: {changes:?}"
        );
    }
    tools::forget_process(&world.context.calls, call.id).unwrap();
}

/// What an editor changes before the command starts is not its change; what it changes after its end is marked.
#[tokio::test]
async fn r17_a_change_outside_of_the_time_of_the_command_is_not_its_own() {
    let world = World::new();
    world.put("a", "1");
    world.put("b", "1");
    world.run(&exec("true")).await;
    world.put("a", "mine");
    let ended = world.run(&exec("echo 2 > b")).await;
    assert_eq!(lines(&ended.changes), ["b: file 644 → file 644"]);
    assert_eq!(ended.changes[0].before.unwrap().hash, Some(Hash::of(b"1")));
    // The owner is gone while the command ends, and somebody works on.
    let call = exec("echo 3 > b");
    let running = {
        let (context, call) = (world.context.clone(), call.clone());
        tokio::spawn(async move { tools::run(&context, &call, |_, _| {}).await })
    };
    until("it has ended", || world.folder(&call).join("exit.json").exists()).await;
    running.abort();
    let _ = running.await;
    // waits: for the clock, until a change is later than the end of the command by more than the clock is coarse
    std::thread::sleep(Duration::from_millis(60));
    world.put("a", "mine, later");
    let found = tools::find(&world.context, &call).await;
    let changes = lines(&found.ended.unwrap().changes);
    assert_eq!(changes, ["a: file 644 → file 644 Outside", "b: file 644 → file 644"]);
}

/// Files that are known from before are compared in at most 300 ms for 50,000 of them. A debug build has fewer, but enough for
/// several threads, and is not judged by that; `LIMULUS_LARGE=1 cargo test --release -p tools large_workspace -- --nocapture`
/// prints all figures.
#[tokio::test]
async fn r17_a_large_workspace_is_compared_quickly() {
    let files = if std::env::var_os("LIMULUS_LARGE").is_some() { 50_000 } else { 6_000 };
    let world = World::new();
    for number in 0..files {
        let folder = world.path(&format!("d{}/e{}", number % 40, number % 400));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("f{number}.txt")), format!("{number}\n")).unwrap();
    }
    world.put(".gitignore", "target/\n*.log\n/build\n!keep.log\nnode_modules\n");
    let timed = async |what: &str| {
        let began = Instant::now();
        tools::list_ahead(&world.context);
        let took = began.elapsed();
        println!("{files} files, {what}: {took:?}");
        took
    };
    timed("the first look").await;
    // waits: for the clock, until what was read soon after its last change is read again
    std::thread::sleep(Duration::from_millis(60));
    timed("the second look").await;
    let again = timed("one more look").await;
    world.put("d1/e1/f1.txt", "x");
    timed("after a change").await;
    let began = Instant::now();
    let ended = world.run(&exec("echo y > d1/e1/f1.txt")).await;
    println!("{files} files, a command with both looks: {:?}", began.elapsed());
    assert_eq!(lines(&ended.changes), ["d1/e1/f1.txt: file 644 → file 644"]);
    assert!(cfg!(debug_assertions) || again < Duration::from_millis(300), "{again:?}");
    let sizes = |folder: &str| -> u64 {
        let listed = fs::read_dir(world.home.path().join(folder)).unwrap();
        listed
            .map(|entry| entry.unwrap().metadata().unwrap())
            .filter(fs::Metadata::is_file)
            .map(|file| file.len())
            .sum()
    };
    println!("contents: {} bytes, the listing: {} bytes", sizes("files"), sizes("files/listings"));
    // 50,000 listed paths take few bytes more than their names.
    assert!(sizes("files/listings") < 200 * (files + 500), "{}", sizes("files/listings"));
}

/// Nothing that a project or a command puts into the folder makes the look at it hang or read what it must not.
#[tokio::test]
async fn r17_a_hostile_folder_is_listed_without_harm() {
    let world = World::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.path("pipe"), rustix::fs::Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.path("socket")).unwrap();
    symlink("/proc/self/fd/0", world.path("proc")).unwrap();
    symlink("/proc", world.path("proc-folder")).unwrap();
    symlink("loop-b", world.path("loop-a")).unwrap();
    symlink("loop-a", world.path("loop-b")).unwrap();
    symlink(".", world.path("self")).unwrap();
    world.put("locked/x", "1");
    fs::set_permissions(world.path("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    let mut deep = world.path("deep");
    for _ in 0..600 {
        deep = deep.join("d");
    }
    fs::create_dir_all(&deep).unwrap();
    let ended = world.run(&exec("while :; do date >> log; done & echo 1 > a; mkfifo other")).await;
    let changes = lines(&ended.changes);
    assert!(changes.contains(&"a: - → file 644".to_owned()), "{changes:?}");
    assert!(changes.contains(&"other: - → file 644 ? Special".to_owned()), "{changes:?}");
    fs::set_permissions(world.path("locked"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn r17_contents_go_with_the_listing_that_names_them() {
    let mut world = World::new();
    world.put("a", "12345678");
    world.run(&exec("true")).await;
    let kept = |world: &World| world.context.files.has(&Hash::of(b"12345678"));
    assert!(kept(&world));
    // Old or not: a content that a listing names stays.
    limited(&mut world, StoreLimits { keep_ms: 60_000, ..StoreLimits::default() });
    world.context.files.trim().unwrap();
    assert!(kept(&world));
    limited(&mut world, StoreLimits { most_bytes: 4, ..StoreLimits::default() });
    world.context.files.trim().unwrap();
    assert!(!kept(&world));
    limited(&mut world, StoreLimits::default());
    let ended = world.run(&exec("rm a")).await;
    assert_eq!(lines(&ended.changes), ["a: file 644 → -"]);
    assert!(kept(&world), "it was read again, as nothing was known of it");
}

#[test]
fn the_reasons_are_of_a_path_or_of_a_workspace() {
    assert!(NotKept::HomeFolder.is_of_workspace() && !NotKept::Ignored.is_of_workspace());
}
