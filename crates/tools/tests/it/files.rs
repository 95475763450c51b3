//! The tools that work on files, called as the runtime calls them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use engine::{CallOutcome, Found, Hash};
use serde_json::{Value, json};

use crate::support::{GRACE, SECRET, World, output, request};

async fn text(world: &World, tool: &str, arguments: Value) -> String {
    let ended = world.call(tool, arguments).await;
    assert_eq!(ended.outcome, CallOutcome::Done, "{}", output(&ended));
    output(&ended)
}

async fn error(world: &World, tool: &str, arguments: Value) -> String {
    let ended = world.call(tool, arguments).await;
    assert_eq!(ended.outcome, CallOutcome::Failed, "{}", output(&ended));
    output(&ended)
}

#[tokio::test]
async fn read_returns_text_and_says_how_to_continue() {
    let world = World::new();
    world.put("a.txt", "one\ntwo ü\nthree");
    world.put("empty", "");
    assert_eq!(text(&world, "read", json!({ "path": "a.txt" })).await, "one\ntwo ü\nthree");
    assert_eq!(
        text(&world, "read", json!({ "path": "a.txt", "offset": 2, "limit": 1 })).await,
        "two ü\n[more lines follow; continue with offset=3]\n"
    );
    assert_eq!(text(&world, "read", json!({ "path": "a.txt", "offset": 3 })).await, "three");
    assert_eq!(text(&world, "read", json!({ "path": "a.txt", "offset": 3, "limit": 1 })).await, "three");
    assert_eq!(text(&world, "read", json!({ "path": "empty" })).await, "empty is empty\n");
    for offset in [4, 9, u64::MAX] {
        let result = error(&world, "read", json!({ "path": "a.txt", "offset": offset })).await;
        assert!(result.contains("only 3 lines"), "{result}");
    }
    world.put("ends.txt", "one\n");
    let result = error(&world, "read", json!({ "path": "ends.txt", "offset": 2 })).await;
    assert!(result.contains("only 1 lines"), "{result}");
}

#[tokio::test]
async fn read_in_pieces_gives_the_whole_file() {
    let world = World::new();
    let lines: Vec<String> = (0..5_000).map(|n| format!("line {n} {}\n", "ü".repeat(n % 40))).collect();
    let whole = lines.concat();
    world.put("long.txt", &whole);
    let (mut read, mut offset) = (String::new(), 1);
    loop {
        let piece = text(&world, "read", json!({ "path": "long.txt", "offset": offset })).await;
        assert!(piece.len() < 52_000);
        let Some((lines, note)) = piece.split_once("[more lines follow; continue with offset=") else {
            read.push_str(&piece);
            break;
        };
        read.push_str(lines);
        offset = note.trim_end_matches("]\n").parse().unwrap();
    }
    assert!(read == whole);
}

#[tokio::test]
async fn read_truncates_a_very_long_line() {
    let world = World::new();
    world.put("line.txt", format!("x{}\nnext\n", "ü".repeat(100_000)));
    let result = text(&world, "read", json!({ "path": "line.txt" })).await;
    assert!(
        result.starts_with("xü") && result.contains("was truncated") && result.contains("offset=2"),
        "{}",
        &result[51_000..]
    );
    assert_eq!(text(&world, "read", json!({ "path": "line.txt", "offset": 2 })).await, "next\n");
}

#[tokio::test]
async fn read_names_the_type_of_binary_files() {
    let world = World::new();
    world.put("latin1.txt", b"caf\xe9\n");
    world.put("binary", b"\x7fELF\0\0\0");
    rustix::fs::mkfifoat(rustix::fs::CWD, world.path("pipe"), rustix::fs::Mode::RUSR).unwrap();
    let cases = [
        ("latin1.txt", "not UTF-8 text (5 bytes, another encoding)"),
        ("binary", "not UTF-8 text (7 bytes, an ELF program)"),
        ("pipe", "neither a file nor a folder"),
        (".", "is a folder; use `ls`"),
        ("gone.txt", "cannot read gone.txt: No such file"),
        ("latin1.txt/x", "cannot read latin1.txt/x: Not a directory"),
    ];
    for (path, words) in cases {
        let result = error(&world, "read", json!({ "path": path })).await;
        assert!(result.contains(words), "{path}: {result}");
    }
}

#[tokio::test]
async fn secrets_are_masked_in_files() {
    let world = World::new();
    world.put("key.txt", format!("a {SECRET} b\n"));
    assert_eq!(text(&world, "read", json!({ "path": "key.txt" })).await, "a [secret] b\n");
    assert_eq!(text(&world, "grep", json!({ "pattern": "a " })).await, "key.txt:1: a [secret] b\n");
}

#[tokio::test]
async fn ls_lists_in_order() {
    let world = World::new();
    world.put("b.txt", "12345");
    world.put("a/x", "");
    symlink("/etc", world.path("c")).unwrap();
    assert_eq!(text(&world, "ls", json!({})).await, "a/\nb.txt  5 bytes\nc -> /etc\n");
    assert_eq!(text(&world, "ls", json!({ "path": "a" })).await, "x  0 bytes\n");
    assert!(error(&world, "ls", json!({ "path": "b.txt" })).await.contains("is a file"));
    fs::remove_file(world.path("a/x")).unwrap();
    assert_eq!(text(&world, "ls", json!({ "path": "a" })).await, "a is empty\n");
    for n in 0..510 {
        world.put(&format!("a/{n:03}"), "");
    }
    let listed = text(&world, "ls", json!({ "path": "a" })).await;
    assert!(listed.starts_with("000  0 bytes\n") && listed.contains("499  0 bytes\n[10 more entries"), "{listed}");
}

#[tokio::test]
async fn grep_finds_in_order_and_honours_gitignore() {
    let world = World::new();
    world.put("src/b.rs", "fn two() {}\nFN THREE\n");
    world.put("src/a.rs", "fn one() {}\r\n");
    world.put("notes.md", "a fn\n");
    world.put("target/x.rs", "fn ignored() {}\n");
    world.put(".gitignore", "target\n");
    world.put("image", b"fn \0\n");
    let all = "notes.md:1: a fn\nsrc/a.rs:1: fn one() {}\nsrc/b.rs:1: fn two() {}\n";
    assert_eq!(text(&world, "grep", json!({ "pattern": "fn" })).await, all);
    let some = text(&world, "grep", json!({ "pattern": "^fn", "ignore_case": true, "glob": "*b.rs" })).await;
    assert_eq!(some, "src/b.rs:1: fn two() {}\nsrc/b.rs:2: FN THREE\n");
    assert_eq!(
        text(&world, "grep", json!({ "pattern": "one", "path": "src/a.rs" })).await,
        "src/a.rs:1: fn one() {}\n"
    );
    assert_eq!(text(&world, "grep", json!({ "pattern": "nowhere" })).await, "no matches\n");
    assert!(error(&world, "grep", json!({ "pattern": "(" })).await.contains("not a regular expression"));
    assert!(error(&world, "grep", json!({ "pattern": "x", "glob": "{" })).await.contains("not a glob"));
    assert!(error(&world, "grep", json!({ "pattern": "x", "path": "gone" })).await.contains("cannot search gone"));
}

#[tokio::test]
async fn grep_is_bounded() {
    let world = World::new();
    world.put("many", format!("{}\n", "ü".repeat(1_000)).repeat(300));
    let found = text(&world, "grep", json!({ "pattern": "ü" })).await;
    assert_eq!(found.lines().count(), 201);
    assert!(found.lines().next().unwrap().ends_with("ü […]"));
    assert!(found.ends_with("[stopped after 200 matches; narrow the pattern, the path or the glob]\n"));
}

#[tokio::test]
async fn find_gives_paths_in_order_and_honours_gitignore() {
    let world = World::new();
    for name in ["src/b.rs", "src/a.rs", "src/deep/c.rs", "notes.md", "target/x.rs", ".github/ci.yml", ".git/x.rs"] {
        world.put(name, "");
    }
    world.put(".gitignore", "target\n");
    symlink("/etc", world.path("away.rs")).unwrap();
    for (pattern, path, found) in [
        ("*.rs", ".", "away.rs\nsrc/a.rs\nsrc/b.rs\nsrc/deep/c.rs\n"),
        ("*.rs", "src/deep", "src/deep/c.rs\n"),
        ("src/*.rs", ".", "src/a.rs\nsrc/b.rs\n"),
        ("**/{c.rs,notes*}", ".", "notes.md\nsrc/deep/c.rs\n"),
        ("d??p", ".", "src/deep/\n"),
        (".github/**", ".", ".github/ci.yml\n"),
        ("*.yml", ".", "nothing matches\n"),
        ("passwd", ".", "nothing matches\n"),
    ] {
        assert_eq!(text(&world, "find", json!({ "pattern": pattern, "path": path })).await, found, "{pattern}");
    }
    assert!(error(&world, "find", json!({ "pattern": "{" })).await.contains("not a glob"));
    assert!(error(&world, "find", json!({ "pattern": "*", "path": "gone" })).await.contains("cannot search gone"));
    assert!(error(&world, "find", json!({ "pattern": "*", "path": "notes.md" })).await.contains("is a file"));
}

#[tokio::test]
async fn find_is_bounded_and_says_so() {
    let world = World::new();
    (0..500).for_each(|n| world.put(&format!("d/{n:03}"), ""));
    assert_eq!(text(&world, "find", json!({ "pattern": "???" })).await.lines().count(), 500);
    world.put("d/zzz", "");
    let found = text(&world, "find", json!({ "pattern": "???" })).await;
    assert_eq!(found.lines().count(), 501);
    assert!(found.ends_with("499\n[more follow after these 500; narrow the pattern or the path]\n"), "{found}");
}

/// A tree that several threads walk gives what one thread gives: all, in order, without what rules leave out, and no more than its bound.
#[tokio::test]
async fn find_in_a_large_tree_is_complete_and_in_order() {
    let world = World::new();
    let mut expected = vec![];
    for folder in 0..60 {
        for file in 0..60 {
            world.put(&format!("d{folder:02}/e/f{file:02}"), "");
        }
        expected.push(format!("d{folder:02}/e/f42\n"));
    }
    world.put("d07/e/.gitignore", "f42\n");
    world.put("d08/.gitignore", "e\n");
    world.put(".ignore", "d09\n");
    // A name that sorts between a folder and what is in it, byte by byte.
    world.put("d10/e.f42/f42", "");
    expected.retain(|path| !["d07", "d08", "d09"].iter().any(|left_out| path.starts_with(left_out)));
    expected.push("d10/e.f42/f42\n".to_owned());
    expected.sort_by(|one, other| std::path::Path::new(one).cmp(std::path::Path::new(other)));
    assert_eq!(text(&world, "find", json!({ "pattern": "f42" })).await, expected.concat());
    let many = text(&world, "find", json!({ "pattern": "f*" })).await;
    let lines: Vec<&str> = many.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[499]), (501, "d00/e/f00", "d10/e/f20"), "{}", lines[500]);
    let few = text(&world, "find", json!({ "pattern": "{d5*,f1?}" })).await;
    assert!(few.starts_with("d00/e/f10\n") && few.contains("d11/e/f10\n") && few.contains("more follow"), "{few}");
}

#[tokio::test]
async fn write_creates_and_replaces_files() {
    let world = World::new();
    let result = text(&world, "write", json!({ "path": "new/deep/a.txt", "content": "ü1" })).await;
    assert_eq!(result, "wrote 3 bytes to new/deep/a.txt (a new file)\n");
    fs::set_permissions(world.path("new/deep/a.txt"), fs::Permissions::from_mode(0o751)).unwrap();
    let result = text(&world, "write", json!({ "path": "new/deep/a.txt", "content": "" })).await;
    assert_eq!(result, "wrote 0 bytes to new/deep/a.txt (replaced)\n");
    assert_eq!(fs::read(world.path("new/deep/a.txt")).unwrap(), b"");
    assert_eq!(fs::metadata(world.path("new/deep/a.txt")).unwrap().permissions().mode() & 0o777, 0o751);
    // A link stays, and its target is written.
    symlink("new/deep/a.txt", world.path("link")).unwrap();
    text(&world, "write", json!({ "path": "link", "content": "through" })).await;
    assert!(fs::symlink_metadata(world.path("link")).unwrap().is_symlink());
    assert_eq!(fs::read(world.path("new/deep/a.txt")).unwrap(), b"through");
    assert!(error(&world, "write", json!({ "path": "new", "content": "" })).await.contains("is a folder"));
    assert!(error(&world, "write", json!({ "path": "link/x", "content": "" })).await.contains("cannot write"));
    // No temporary file is left.
    assert_eq!(fs::read_dir(world.path("new/deep")).unwrap().count(), 1);
}

#[tokio::test]
async fn r13_an_interrupted_write_is_found_by_its_two_hashes() {
    let world = World::new();
    for before in [None, Some("before")] {
        let _ = fs::remove_file(world.path("a.txt"));
        if let Some(before) = before {
            world.put("a.txt", before);
        }
        let mut request = request("write", json!({ "path": "a.txt", "content": "after" }));
        request.evidence = world.check(&request).evidence;
        assert!(request.evidence.is_some());
        // A crash before the rename leaves a temporary file.
        let beside = world.path(&format!(".limulus-{}.tmp", request.id.to_string().replace('/', ".")));
        fs::write(&beside, "aft").unwrap();
        assert_eq!(tools::find(&world.context, &request).await.found, Found::NeverStarted);
        assert!(!beside.exists());
        assert_eq!(tools::end(&world.context, &request, GRACE).await.outcome, CallOutcome::Failed);

        let ended = world.run(&request).await;
        let found = tools::find(&world.context, &request).await;
        assert_eq!((found.found, found.ended), (Found::Ended, Some(ended.clone())));
        assert_eq!(tools::end(&world.context, &request, GRACE).await, ended);

        world.put("a.txt", "someone else");
        assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
        assert_eq!(fs::read(world.path("a.txt")).unwrap(), b"someone else");
    }
}

#[tokio::test]
async fn r13_a_file_that_somebody_else_changed_is_not_overwritten() {
    let world = World::new();
    for (before, meanwhile) in [(None, Some("theirs")), (Some("before"), Some("theirs")), (Some("before"), None)] {
        let _ = fs::remove_file(world.path("a.txt"));
        before.inspect(|text| world.put("a.txt", text));
        let mut request = request("write", json!({ "path": "a.txt", "content": "after" }));
        request.evidence = world.check(&request).evidence;
        let _ = fs::remove_file(world.path("a.txt"));
        meanwhile.inspect(|text| world.put("a.txt", text));
        let ended = world.run(&request).await;
        let (result, now) = (output(&ended), fs::read_to_string(world.path("a.txt")).ok());
        assert_eq!((ended.outcome, now.as_deref()), (CallOutcome::Failed, meanwhile), "{result}");
        assert!(result.contains("a.txt was changed while this call waited"), "{result}");
        let state = |text: Option<&str>| text.map_or("absent".to_owned(), |t| Hash::of(t.as_bytes()).to_string());
        assert!(result.contains(&state(before)[..6]) && result.contains(&state(meanwhile)[..6]), "{result}");
        assert_eq!(tools::find(&world.context, &request).await.found, Found::Unknown);
    }
}

#[tokio::test]
async fn r13_a_call_that_only_reads_may_run_again() {
    let world = World::new();
    let request = request("read", json!({ "path": "a.txt" }));
    assert_eq!(tools::find(&world.context, &request).await.found, Found::NeverStarted);
    assert_eq!(tools::find(&world.context, &request).await.found, Found::NeverStarted);
}

#[tokio::test]
async fn r15_a_call_that_is_ended_early_says_so() {
    let world = World::new();
    world.put("a.txt", "before");
    for (tool, arguments) in
        [("read", json!({ "path": "a.txt" })), ("write", json!({ "path": "a.txt", "content": "after" }))]
    {
        let ended = tools::end(&world.context, &request(tool, arguments), GRACE).await;
        assert_eq!(ended.outcome, CallOutcome::Failed);
        assert!(output(&ended).contains("ended before it was done"), "{}", output(&ended));
    }
    assert_eq!(fs::read(world.path("a.txt")).unwrap(), b"before");
}
