//! What runs changed in files: shown, taken back, and made once more. The examples of docs/undo.md are executed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use model_server::ModelServer;

use crate::support::{Finished, Home, Terminal, examples, is_as_shown, until, with_names};

/// A message that makes one call.
fn call(tool: &str, arguments: &serde_json::Value) -> String {
    format!("call:{tool} {arguments}\ntokens=2")
}

fn write(path: &str, content: &str) -> String {
    call("write", &serde_json::json!({ "path": path, "content": content }))
}

fn patch(lines: &str) -> String {
    call("apply_patch", &serde_json::json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch") }))
}

fn served(server: &ModelServer) -> Home {
    Home::new().served_by(server)
}

fn says(home: &Home, message: &str) {
    home.run(&["agent", "-m", message]).expect_code(0);
}

/// A run that adds, changes and removes files: `new/deep/b.txt`, `a.txt`, `run.sh`.
fn changed(home: &Home) {
    home.put("a.txt", "one\ntwo\nthree\n");
    home.put("run.sh", "#!/bin/sh\n");
    fs::set_permissions(home.file("run.sh"), fs::Permissions::from_mode(0o750)).expect("its mode is set");
    says(
        home,
        &patch(
            "*** Add File: new/deep/b.txt\n+fresh\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Delete File: run.sh",
        ),
    );
    assert_eq!((home.text("a.txt").as_str(), home.text("new/deep/b.txt").as_str()), ("one\n2\nthree\n", "fresh\n"));
    assert!(!home.file("run.sh").exists());
}

fn is_as_before(home: &Home) {
    assert_eq!((home.text("a.txt").as_str(), home.text("run.sh").as_str()), ("one\ntwo\nthree\n", "#!/bin/sh\n"));
    assert_eq!(fs::metadata(home.file("run.sh")).expect("it is back").mode() & 0o7777, 0o750);
    assert!(!home.file("new").exists(), "the folders that it created are gone");
}

/// R17: the diff of a run that was undone says so, and when; nothing of it is there any more.
#[test]
pub(crate) fn r17_the_diff_of_a_run_that_was_undone_says_so() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    changed(&home);
    assert!(home.json(&["diff"])["undone"].is_null());
    home.put("a.txt", "mine\n");
    home.run(&["undo", "--skip"]).expect_code(0);
    let part = home.run(&["diff"]).expect_code(0);
    assert!(part.out.contains("4 of 5 files of run ") && part.out.contains(" were undone at "), "{part:?}");
    home.run(&["undo", "--force", home.json(&["diff"])["runIds"][0].as_str().unwrap()]).expect_code(0);
    let whole = home.run(&["diff"]).expect_code(0);
    assert!(whole.out.contains(" was undone at ") && whole.out.contains("`limulus redo "), "{whole:?}");
    assert!(home.run(&["/diff"]).expect_code(0).out.contains(" was undone at "));
    let undone = &home.json(&["diff"])["undone"][0];
    assert_eq!((&undone["files"], &undone["of"]), (&5.into(), &5.into()), "{undone}");
    assert!(undone["undoneAt"].as_i64().is_some_and(|at| at > 0) && undone["runId"].is_string(), "{undone}");
    home.run(&["redo"]).expect_code(0);
    assert!(!home.run(&["diff"]).expect_code(0).out.contains("undone"));
    assert!(home.json(&["diff"])["undone"].is_null());
}

#[test]
pub(crate) fn r17_what_a_run_changed_in_files_is_shown_taken_back_and_made_once_more() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    changed(&home);
    let diff = home.run(&["diff"]).expect_code(0);
    for part in [
        "--- a/a.txt\n+++ b/a.txt\n",
        "\n-two\n+2\n",
        "--- /dev/null\n+++ b/new/deep/b.txt",
        "+++ /dev/null",
        "5 files changed, +2 −2",
    ] {
        assert!(diff.out.contains(part), "{part}: {diff:?}");
    }
    let shown = home.json(&["diff"]);
    assert_eq!((&shown["files"][0]["path"], &shown["files"][0]["act"]), (&"a.txt".into(), &"changed".into()));
    // Without a terminal it does not ask.
    let undone = home.run(&["undo"]).expect_code(0);
    assert!(undone.out.contains("5 files, done") && undone.out.contains("restore a.txt"), "{undone:?}");
    is_as_before(&home);
    home.run(&["undo"]).expect_code(3).expect_err("no changes of files");
    home.run(&["redo"]).expect_code(0);
    assert_eq!((home.text("a.txt").as_str(), home.text("new/deep/b.txt").as_str()), ("one\n2\nthree\n", "fresh\n"));
    assert!(!home.file("run.sh").exists());
    home.run(&["redo"]).expect_code(3);
    let run = shown["runIds"][0].as_str().unwrap().to_owned();
    let dry = home.json(&["undo", &run, "--dry-run"]);
    assert_eq!((&dry["done"], dry["files"].as_array().unwrap().len()), (&false.into(), 5));
    home.run(&["undo", &run]).expect_code(0);
    is_as_before(&home);
    assert!(home.run(&["runs", "trace", &run]).expect_code(0).out.contains("changed: a.txt"));
    home.run(&["audit", "--verify"]).expect_code(0);
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
pub(crate) fn r17_an_undo_overwrites_nothing_that_was_changed_since_unless_it_is_forced() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    home.put("a.txt", "one\n");
    home.put("b.txt", "one\n");
    says(&home, &patch("*** Update File: a.txt\n@@\n-one\n+2\n*** Update File: b.txt\n@@\n-one\n+2"));
    home.put("a.txt", "mine\n");
    home.run(&["undo"]).expect_code(3).expect_err("changed since").expect_err("a.txt");
    assert_eq!((home.text("a.txt").as_str(), home.text("b.txt").as_str()), ("mine\n", "2\n"));
    home.run(&["undo", "--files", "b.txt"]).expect_code(0);
    assert_eq!((home.text("a.txt").as_str(), home.text("b.txt").as_str()), ("mine\n", "one\n"));
    home.run(&["undo", "--force"]).expect_code(0);
    assert_eq!(home.text("a.txt"), "one\n");
    // What was overwritten is not lost either.
    home.run(&["redo", "--files", "a.txt"]).expect_code(0);
    assert_eq!((home.text("a.txt").as_str(), home.text("b.txt").as_str()), ("mine\n", "one\n"));
}

#[test]
pub(crate) fn r17_undo_goes_back_run_by_run() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    for content in ["1\n", "2\n", "3\n"] {
        says(&home, &write("a.txt", content));
    }
    says(&home, "tokens=3 nothing to do");
    let diff = home.run(&["diff", "--last", "2"]).expect_code(0);
    assert!(diff.out.contains("-1\n+3\n") && diff.out.contains("by 2 runs"), "{diff:?}");
    for content in ["2\n", "1\n"] {
        home.run(&["undo"]).expect_code(0);
        assert_eq!(home.text("a.txt"), content);
    }
    home.run(&["undo"]).expect_code(0);
    assert!(!home.file("a.txt").exists());
    for content in ["1\n", "2\n", "3\n"] {
        home.run(&["redo"]).expect_code(0);
        assert_eq!(home.text("a.txt"), content);
    }
}

#[test]
pub(crate) fn r17_contents_before_are_kept_once_and_for_their_user_alone() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    home.put("a.txt", "the same\n");
    home.put("b.txt", "the same\n");
    says(&home, &write("a.txt", "other\n"));
    says(&home, &write("b.txt", "other\n"));
    let files: Vec<_> = fs::read_dir(home.path().join("files")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let modes = [&home.path().join("files"), &files[0]].map(|path| fs::metadata(path).unwrap().mode() & 0o777);
    assert_eq!(modes, [0o700, 0o600]);
    assert_eq!(fs::read_to_string(&files[0]).unwrap(), "the same\n");
    home.run(&["doctor"]).expect_code(0);
}

#[test]
pub(crate) fn r21_contents_of_files_are_erased_with_old_content() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    home.put("a.txt", "before\n");
    says(&home, &write("a.txt", "after\n"));
    let kept = || fs::read_dir(home.path().join("files")).unwrap().count();
    home.run(&["sessions", "cleanup", "--days", "1", "--enforce"]).expect_code(0);
    assert_eq!(kept(), 1);
    home.run(&["sessions", "cleanup", "--days", "0", "--enforce"]).expect_code(0);
    assert_eq!(kept(), 0);
    home.run(&["undo"]).expect_code(3).expect_err("not kept");
    assert_eq!(home.text("a.txt"), "after\n");
}

/// Nothing is changed through a link that somebody put on the path since, and the home is out of reach.
#[test]
pub(crate) fn r17_an_undo_never_leaves_the_workspace_through_a_link() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    fs::create_dir(home.file("sub")).unwrap();
    home.put("sub/a.txt", "before\n");
    says(&home, &write("sub/a.txt", "after\n"));
    let outside = home.user().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.txt"), "after\n").unwrap();
    fs::remove_dir_all(home.file("sub")).unwrap();
    symlink(&outside, home.file("sub")).unwrap();
    home.run(&["undo", "--force"]).expect_code(3);
    assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "after\n");
    // A link in place of the file itself is replaced, not followed.
    fs::remove_file(home.file("sub")).unwrap();
    fs::create_dir(home.file("sub")).unwrap();
    symlink(outside.join("a.txt"), home.file("sub/a.txt")).unwrap();
    home.run(&["undo"]).expect_code(3).expect_err("changed since");
    home.run(&["undo", "--force"]).expect_code(0);
    assert_eq!(home.text("sub/a.txt"), "before\n");
    assert!(home.file("sub/a.txt").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "after\n");
}

#[test]
pub(crate) fn r17_what_an_undo_cannot_take_back_is_listed() {
    let server = ModelServer::start().unwrap();
    let home = served(&server).with("LIMULUS_UNDO__FILE_MB", "1");
    home.put("big.txt", "x".repeat(2 << 20));
    home.put("a.txt", "one\n");
    let message = format!(
        "call:write {}\ncall:write {}\nexec:touch made\ntokens=2",
        serde_json::json!({ "path": "big.txt", "content": "small\n" }),
        serde_json::json!({ "path": "a.txt", "content": "2\n" }),
    );
    home.run(&["agent", "--yes", "-m", &message]).expect_code(0);
    let undone = home.run(&["undo"]).expect_code(0);
    for part in [
        "2 files, done",
        "stays as it is:\n  big.txt: its content is not kept",
        "1 command ran: what it did outside this folder, and in ignored files, stays",
    ] {
        assert!(undone.out.contains(part), "{part}: {undone:?}");
    }
    assert_eq!((home.text("a.txt").as_str(), home.text("big.txt").as_str()), ("one\n", "small\n"));
    assert!(!home.file("made").exists());
    let run = home.json(&["runs", "show"])["run"].as_str().expect("a run").to_owned();
    let refused = home.run(&["undo", &run]).expect_code(3);
    refused.expect_err("big.txt: its content is not kept");
}

/// R17: a file that cannot be restored, or was changed since, does not keep the runs before it from being taken back.
#[test]
pub(crate) fn r17_an_undo_goes_further_back_than_what_it_cannot_restore() {
    let server = ModelServer::start().unwrap();
    let home = served(&server).with("LIMULUS_UNDO__FILE_MB", "1");
    let written = |name: &str| says(&home, &write(name, "2\n"));
    for name in ["a.txt", "b.txt", "c.txt"] {
        home.put(name, "one\n");
        written(name);
    }
    home.put("big.txt", "x".repeat(2 << 20));
    says(
        &home,
        &format!(
            "call:write {}\n{}",
            serde_json::json!({ "path": "d.txt", "content": "2\n" }),
            write("big.txt", "2\n")
        ),
    );
    let undone = home.run(&["undo"]).expect_code(0).out;
    assert!(undone.contains("big.txt: its content") && undone.contains("the next undo goes further back"), "{undone}");
    assert!(home.run(&["undo"]).expect_code(0).out.contains("restore c.txt"), "the run before it is next");

    home.put("big.txt", "x".repeat(2 << 20));
    written("big.txt");
    let stuck = home.run(&["undo"]).expect_code(3);
    stuck.expect_err("big.txt: its content is not kept").expect_err("--skip goes one run further back");
    assert!(home.run(&["undo", "--skip"]).expect_code(0).out.contains("restore b.txt"));
    home.put("a.txt", "mine\n");
    if Terminal::is_there() {
        let terminal = Terminal::run(&home, &["undo"]);
        terminal.until("can be restored: go one run further back [y/N]");
        terminal.type_keys(&["y", "Enter"]);
        terminal.until("a.txt: it was changed since");
        terminal.type_keys(&["o", "Enter"]);
        terminal.until("take these changes back [y/N]");
        terminal.type_keys(&["n", "Enter"]);
        terminal.until("exit=3");
    }
    home.run(&["undo", "--skip"]).expect_code(3).expect_err("no changes of files");
    assert_eq!(["a.txt", "b.txt", "c.txt"].map(|name| home.text(name)), ["mine\n", "one\n", "one\n"]);

    says(&home, &patch("*** Update File: b.txt\n@@\n-one\n+3\n*** Update File: c.txt\n@@\n-one\n+3"));
    home.put("b.txt", "mine\n");
    home.run(&["undo"]).expect_code(3).expect_err("--skip leaves them");
    let undone = home.run(&["undo", "--skip"]).expect_code(0).out;
    assert!(undone.contains("stays as it is:\n  b.txt: it was changed since"), "{undone}");
    assert_eq!((home.text("b.txt").as_str(), home.text("c.txt").as_str()), ("mine\n", "one\n"));
}

/// Runs a command in a run of its own.
fn runs(home: &Home, command: &str) -> Finished {
    home.run(&["agent", "--yes", "-m", &format!("exec:{command}\ntokens=2")])
}

#[test]
pub(crate) fn r17_what_a_command_changed_is_shown_taken_back_and_made_once_more() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    home.put("a.txt", "one\n");
    home.put("gone.txt", "gone\n");
    fs::create_dir(home.file("old")).unwrap();
    home.put("old/b.txt", "b\n");
    fs::create_dir(home.file("empty")).unwrap();
    symlink("a.txt", home.file("link")).unwrap();
    let command =
        "echo 2 > a.txt; rm gone.txt; mv old new; rmdir empty; ln -sfn new link; chmod 700 new/b.txt; touch fresh";
    runs(&home, command).expect_code(0);
    let diff = home.run(&["diff"]).expect_code(0);
    for part in [
        "-one\n+2\n",
        "+++ /dev/null",
        "1 command ran: what it did outside this folder, and in ignored files, is not shown",
    ] {
        assert!(diff.out.contains(part), "{part}: {diff:?}");
    }
    let is_before = || {
        assert_eq!(["a.txt", "gone.txt", "old/b.txt"].map(|name| home.text(name)), ["one\n", "gone\n", "b\n"]);
        assert_eq!(fs::read_link(home.file("link")).unwrap(), Path::new("a.txt"));
        assert!(home.file("empty").is_dir() && !home.file("new").exists() && !home.file("fresh").exists());
        assert_eq!(fs::metadata(home.file("old/b.txt")).unwrap().mode() & 0o777, 0o644);
    };
    home.run(&["undo"]).expect_code(0);
    is_before();
    home.run(&["redo"]).expect_code(0);
    assert_eq!((home.text("a.txt").as_str(), home.text("new/b.txt").as_str()), ("2\n", "b\n"));
    assert_eq!(fs::read_link(home.file("link")).unwrap(), Path::new("new"));
    assert!(!home.file("gone.txt").exists() && !home.file("empty").exists());
    home.run(&["undo"]).expect_code(0);
    is_before();
    assert!(!home.file(".git").exists());
    home.run(&["doctor"]).expect_code(0);
    home.run(&["audit", "--verify"]).expect_code(0);
    assert_eq!(server.violations(), [""; 0]);
}

/// The owner is killed before the command starts, while it runs, and before its result is recorded: the next owner completes
/// the comparison.
/// R17: names of one file are that again, whatever a command did to them, and a restored file is new to a build tool.
#[test]
pub(crate) fn r17_a_file_with_several_names_has_them_again() {
    let server = ModelServer::start().unwrap();
    let commands = [
        "echo 2 >> a",
        "echo 2 > new; mv new a",
        "echo 2 > new; mv new sub/b",
        "rm a",
        "rm a sub/b",
        "mv a moved; chmod 600 moved",
        "rm -r sub; echo 2 > a",
    ];
    for command in commands {
        let home = served(&server);
        fs::create_dir(home.file("sub")).expect("a folder");
        home.put("a", "1\n");
        fs::hard_link(home.file("a"), home.file("sub/b")).expect("a link");
        let inode = |name: &str| fs::metadata(home.file(name)).expect("it is there").ino();
        runs(&home, command);
        let built = fs::metadata(home.file("")).expect("a folder").modified().expect("its time");
        let shared = || {
            fs::metadata(home.file("a"))
                .ok()
                .zip(fs::metadata(home.file("sub/b")).ok())
                .map(|(a, b)| a.ino() == b.ino())
        };
        let after = (home.text("a"), home.text("sub/b"), shared());
        let undone = home.run(&["undo"]).expect_code(0);
        assert_eq!((home.text("a").as_str(), home.text("sub/b").as_str()), ("1\n", "1\n"), "{command}: {undone:?}");
        assert_eq!(inode("a"), inode("sub/b"), "{command}: {undone:?}");
        let restored = fs::metadata(home.file("a")).expect("it is there").modified().expect("its time");
        assert!(restored >= built, "{command}: a build tool must see that it is another one");
        home.run(&["redo"]).expect_code(0);
        assert_eq!((home.text("a"), home.text("sub/b"), shared()), after, "{command}");
    }
}

#[test]
pub(crate) fn r13_r17_a_kill_around_a_command_loses_no_change_of_it() {
    let server = ModelServer::start().unwrap();
    for point in ["intent_synced", "mid_call", "call_ended"] {
        let home = served(&server);
        home.put("a.txt", "one\n");
        home.put("b.txt", "one\n");
        let home = home.with("LIMULUS_CRASHPOINT", point);
        let killed = runs(&home, "echo 2 > a.txt; echo shown; sleep 0.3; rm b.txt");
        assert_ne!(killed.code, Some(0), "{killed:?}");
        let home = home.without("LIMULUS_CRASHPOINT");
        home.run(&["resume"]).expect_code(0);
        assert!(!home.file("b.txt").exists(), "{point}");
        home.run(&["undo"]).expect_code(0);
        assert_eq!((home.text("a.txt").as_str(), home.text("b.txt").as_str()), ("one\n", "one\n"), "{point}");
        home.run(&["doctor"]).expect_code(0);
    }
}

#[test]
pub(crate) fn r17_a_path_that_the_run_did_not_change_is_refused_by_name() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    home.put("a.txt", "one\n");
    home.put("b.txt", "one\n");
    says(&home, &write("a.txt", "2\n"));
    home.run(&["undo", "--files", "b.txt"]).expect_code(3).expect_err("did not change").expect_err("b.txt");
    home.run(&["undo", "--files", "a.txt", "not-there"]).expect_code(3).expect_err("not-there");
    assert_eq!(home.text("a.txt"), "2\n");
    home.run(&["undo", "--files", "a.txt"]).expect_code(0);
    let run = home.json(&["diff"])["runIds"][0].as_str().unwrap().to_owned();
    home.run(&["undo", &run, "--files", "a.txt"]).expect_code(3);
}

/// Between two calls somebody else changed the file: it stays, unless the user says so.
#[test]
pub(crate) fn r17_what_may_be_a_change_of_somebody_else_stays_unless_it_is_forced() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    home.put("a.txt", "one\n");
    home.put("b.txt", "one\n");
    // Another session's command works in the folder at the same time.
    let other = home.start(&[
        "agent",
        "--yes",
        "--session",
        "other",
        "-m",
        "exec:touch begun; while ! test -e go; do sleep 0.05; done\ntokens=2",
    ]);
    until("the other run works", || home.file("begun").exists());
    runs(&home, "echo 2 > a.txt").expect_code(0);
    home.put("go", "");
    other.finish().expect_code(0);
    home.run(&["undo"]).expect_code(3).expect_err("another run worked in the folder");
    assert_eq!(home.text("a.txt"), "2\n");
    home.run(&["undo", "--force"]).expect_code(0);
    assert_eq!(home.text("a.txt"), "one\n");
}

#[test]
pub(crate) fn r17_a_workspace_that_is_not_recorded_says_why() {
    let server = ModelServer::start().unwrap();
    let home = served(&server).with("LIMULUS_UNDO__COMMANDS", "false");
    home.put("a.txt", "one\n");
    runs(&home, "echo 2 > a.txt").expect_code(0);
    let why = "what commands changed in this folder is not recorded: that is switched off (undo.commands)";
    assert!(home.run(&["diff"]).expect_code(0).out.contains(why));
    home.run(&["undo"]).expect_code(3).expect_err("undo.commands");
    let workspace = home.file("").display().to_string();
    let home = home.without("LIMULUS_UNDO__COMMANDS").with("HOME", &workspace);
    runs(&home, "echo 3 > a.txt").expect_code(0);
    assert!(home.run(&["diff"]).expect_code(0).out.contains("it is your home folder"));
    assert_eq!(home.text("a.txt"), "3\n");
}

#[test]
pub(crate) fn r17_a_terminal_is_asked_about_each_file_that_was_changed_since() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    for name in ["a.txt", "b.txt", "c.txt"] {
        home.put(name, "one\n");
    }
    let change = |name: &str| format!("*** Update File: {name}\n@@\n-one\n+2\n");
    says(&home, &patch(["a.txt", "b.txt", "c.txt"].map(change).concat().trim_end()));
    home.put("a.txt", "mine\n");
    home.put("b.txt", "mine too\n");
    let terminal = Terminal::run(&home, &["undo"]);
    terminal.until("a.txt: it was changed since");
    terminal.type_keys(&["d", "Enter"]);
    terminal.until("-mine");
    terminal.until("+one");
    terminal.type_keys(&["o", "Enter"]);
    terminal.until("b.txt: it was changed since");
    terminal.type_keys(&["k", "Enter"]);
    terminal.until("take these changes back [y/N]");
    terminal.type_keys(&["y", "Enter"]);
    terminal.until("exit=0");
    assert_eq!(["a.txt", "b.txt", "c.txt"].map(|name| home.text(name)), ["one\n", "mine too\n", "one\n"]);
}

#[test]
pub(crate) fn r17_an_undo_is_refused_while_another_run_works_in_the_folder() {
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    home.put("a.txt", "one\n");
    says(&home, &write("a.txt", "2\n"));
    let other = home.start(&[
        "agent",
        "--yes",
        "--session",
        "other",
        "-m",
        "exec:touch begun; while ! test -e go; do sleep 0.1; done\ntokens=2",
    ]);
    until("the other run works", || home.file("begun").exists());
    home.run(&["undo"]).expect_code(3).expect_err("agent:main:other").expect_err("unfinished");
    assert_eq!(home.text("a.txt"), "2\n");
    home.put("go", "");
    other.finish().expect_code(0);
    home.run(&["undo"]).expect_code(0);
    assert_eq!(home.text("a.txt"), "one\n");
}

#[test]
pub(crate) fn r17_a_terminal_is_asked_before_files_are_taken_back() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = served(&server);
    home.put("a.txt", "one\n");
    says(&home, &write("a.txt", "2\n"));
    let terminal = Terminal::run(&home, &["undo"]);
    terminal.until("take these changes back [y/N]");
    assert_eq!(home.text("a.txt"), "2\n");
    terminal.type_keys(&["n", "Enter"]);
    terminal.until("exit=3");
    drop(terminal);
    assert_eq!(home.text("a.txt"), "2\n");
    let terminal = Terminal::run(&home, &["undo"]);
    terminal.until("take these changes back [y/N]");
    terminal.type_keys(&["y", "Enter"]);
    terminal.until("exit=0");
    assert_eq!(home.text("a.txt"), "one\n");
}

/// Kills the undo before its first file, and after its last one.
#[test]
pub(crate) fn r11_r17_a_kill_in_an_undo_is_completed_by_the_next_owner() {
    let server = ModelServer::start().unwrap();
    for point in ["undo_started", "undo_done"] {
        let home = served(&server);
        changed(&home);
        let home = home.with("LIMULUS_CRASHPOINT", point);
        let killed = home.run(&["undo"]);
        assert_ne!(killed.code, Some(0), "{killed:?}");
        let home = home.without("LIMULUS_CRASHPOINT");
        home.run(&["resume"]).expect_code(0);
        until("it is completed", || home.json(&["status"])["unfinished"].as_array().is_some_and(Vec::is_empty));
        is_as_before(&home);
        home.run(&["redo"]).expect_code(0);
        assert_eq!(home.text("a.txt"), "one\n2\nthree\n");
        home.run(&["doctor"]).expect_code(0);
    }
}

/// A kill after the files have changed, before that is recorded, and one before they have: nothing is lost.
#[test]
pub(crate) fn r13_r17_a_kill_in_a_call_loses_no_content_from_before_it() {
    let server = ModelServer::start().unwrap();
    for point in ["intent_synced", "call_ended"] {
        let home = served(&server);
        home.put("a.txt", "one\ntwo\nthree\n");
        home.put("run.sh", "#!/bin/sh\n");
        fs::set_permissions(home.file("run.sh"), fs::Permissions::from_mode(0o750)).expect("its mode is set");
        let home = home.with("LIMULUS_CRASHPOINT", point);
        let message =
            patch("*** Add File: new/b.txt\n+fresh\n*** Update File: a.txt\n@@\n-two\n+2\n*** Delete File: run.sh");
        let killed = home.run(&["agent", "-m", &message]);
        assert_ne!(killed.code, Some(0), "{killed:?}");
        let home = home.without("LIMULUS_CRASHPOINT");
        home.run(&["resume"]).expect_code(0);
        assert_eq!((home.text("a.txt").as_str(), home.text("new/b.txt").as_str()), ("one\n2\nthree\n", "fresh\n"));
        home.run(&["undo"]).expect_code(0);
        is_as_before(&home);
    }
}

/// The examples of the page, executed in order in one folder.
#[test]
pub(crate) fn the_examples_of_the_page_about_undo_are_true() {
    let home = Home::new();
    let examples = examples("undo.md");
    assert!(examples.len() > 5, "the page has examples");
    for (line, shown) in examples {
        let ended: Finished = home.shell(&line.replace("limulus", "$LIMULUS"));
        if line.contains("limulus agent") {
            continue;
        }
        let workspace = home.file("").display().to_string();
        let printed = with_names(&(ended.out + &ended.err)).replace(workspace.trim_end_matches('/'), "~/proj");
        assert!(is_as_shown(&printed, &shown), "$ {line}\nprints\n{printed}\nand not\n{shown}");
    }
}
