//! Runs that work in a copy of the workspace: what changed in it is shown, taken over, or discarded.

use std::fs;
use std::path::{Path, PathBuf};

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::{Finished, Home};

/// A home whose runs work in a copy.
fn copying(server: &ModelServer) -> Home {
    Home::new().served_by(server).with("LIMULUS_SANDBOX__ROOT", "copy")
}

fn call(tool: &str, arguments: &Value) -> String {
    format!("call:{tool} {arguments}\ntokens=2")
}

fn write(path: &str, content: &str) -> String {
    call("write", &json!({ "path": path, "content": content }))
}

fn says(home: &Home, message: &str) -> Finished {
    home.run(&["agent", "--yes", "-m", message]).expect_code(0)
}

/// The copy of the last run.
fn copy(home: &Home) -> Value {
    home.json(&["diff"])["copy"].clone()
}

/// A file in the copy.
fn in_copy(home: &Home, name: &str) -> PathBuf {
    Path::new(copy(home)["folder"].as_str().expect("it works in a copy")).join(name)
}

/// R41: the workspace changes when the changes are taken over, and not before; the next run goes on in the copy.
#[test]
pub(crate) fn r41_what_a_run_changes_in_a_copy_is_taken_over() {
    let server = ModelServer::start().unwrap();
    let home = copying(&server);
    home.put("a.txt", "one\n");
    home.put("gone.txt", "x");
    says(&home, &write("a.txt", "two\n"));
    says(
        &home,
        &call("exec", &json!({ "command": "cat a.txt > b.txt; rm gone.txt; mkdir d; ln -s b.txt l; chmod 700 b.txt" })),
    );
    assert_eq!((home.text("a.txt").as_str(), home.text("gone.txt").as_str()), ("one\n", "x"));
    assert!(!home.file("b.txt").exists());
    assert_eq!(copy(&home)["state"], "open");
    assert_eq!(
        fs::read_to_string(in_copy(&home, "b.txt")).unwrap(),
        "two\n",
        "the second run saw the first one's work"
    );
    let shown = home.run(&["diff"]).expect_code(0);
    assert!(shown.out.contains("--apply` takes the changes over, `--discard` removes the copy"), "{shown:?}");
    let dry = home.run(&["diff", "--apply", "--dry-run"]).expect_code(0);
    assert!(dry.out.contains("change  a.txt") && !home.file("b.txt").exists(), "{dry:?}");
    let folder = in_copy(&home, "");
    let done = home.run(&["diff", "--apply"]).expect_code(0);
    assert!(done.out.contains("into ") && done.out.contains(": 5 files, done"), "{done:?}");
    assert_eq!((home.text("a.txt").as_str(), home.text("b.txt").as_str()), ("two\n", "two\n"));
    assert!(!home.file("gone.txt").exists() && home.file("d").is_dir());
    assert_eq!(fs::read_link(home.file("l")).unwrap(), Path::new("b.txt"));
    assert!(!folder.exists(), "the copy is removed");
    assert_eq!(copy(&home)["state"], "applied");
    home.run(&["diff", "--apply"]).expect_code(3).expect_err("already taken over");
    home.run(&["undo"]).expect_code(0);
    assert_eq!((home.text("a.txt").as_str(), home.text("gone.txt").as_str()), ("one\n", "x"));
    assert!(!home.file("b.txt").exists() && !home.file("d").exists());
    home.run(&["redo"]).expect_code(0);
    assert_eq!(home.text("b.txt"), "two\n");
    // The next run has a new copy, of the workspace as it is now.
    says(&home, &call("exec", &json!({ "command": "cat b.txt > c.txt" })));
    assert_eq!(fs::read_to_string(in_copy(&home, "c.txt")).unwrap(), "two\n");
    home.assert_usable("main");
}

/// R41: what was changed in the workspace meanwhile is named and not overwritten.
#[test]
pub(crate) fn r41_a_conflict_with_the_workspace_is_named_and_nothing_is_lost() {
    let server = ModelServer::start().unwrap();
    let home = copying(&server);
    home.put("a.txt", "one\n");
    home.put("b.txt", "one\n");
    says(&home, &write("a.txt", "by the run\n"));
    says(&home, &write("b.txt", "by the run\n"));
    says(&home, &write("new.txt", "by the run\n"));
    home.put("a.txt", "by me\n");
    home.put("new.txt", "by me\n");
    let refused = home.run(&["diff", "--apply"]).expect_code(3).expect_err("a.txt, new.txt; nothing was changed");
    assert!(refused.err.contains("--skip") && home.text("b.txt") == "one\n", "{refused:?}");
    home.run(&["diff", "--apply", "--files", "b.txt"]).expect_code(0);
    assert_eq!((home.text("a.txt").as_str(), home.text("b.txt").as_str()), ("by me\n", "by the run\n"));
    assert_eq!(copy(&home)["state"], "open", "it has more");
    let left = home.run(&["diff", "--apply", "--skip"]);
    left.expect_code(3).expect_err("there is nothing to do");
    let forced = home.run(&["diff", "--apply", "--force"]).expect_code(0);
    assert!(forced.out.contains("change  a.txt"), "{forced:?}");
    assert_eq!((home.text("a.txt").as_str(), copy(&home)["state"].clone()), ("by the run\n", json!("applied")));
    home.run(&["undo", "--skip"]).expect_code(0);
    assert_eq!(home.text("a.txt"), "by me\n", "what was overwritten is kept");
}

/// R41: what cannot be taken over is named, and its copy is not removed.
#[test]
pub(crate) fn r41_what_cannot_be_taken_over_stays_in_its_copy() {
    let server = ModelServer::start().unwrap();
    let home = copying(&server);
    home.put("a.txt", "one\n");
    says(&home, &call("exec", &json!({ "command": "mkfifo pipe; truncate -s 5G large; echo two > a.txt" })));
    let done = home.run(&["diff", "--apply", "--skip"]).expect_code(0);
    for said in ["pipe: it is a pipe", "large: over 4 GiB changed", "the copy stays"] {
        assert!(done.out.contains(said), "{said}: {done:?}");
    }
    assert_eq!(home.text("a.txt"), "two\n");
    assert!(!home.file("large").exists() && in_copy(&home, "large").exists());
    assert_eq!(copy(&home)["state"], "open");
    home.run(&["diff", "--apply"]).expect_code(3).expect_err("there is nothing to do");
    home.run(&["diff", "--discard"]).expect_code(0);
    assert_eq!(copy(&home)["state"], "discarded");
}

/// R41: a copy that nobody wants goes with its changes, and the workspace stays as it is.
#[test]
pub(crate) fn r41_a_copy_is_discarded() {
    let server = ModelServer::start().unwrap();
    let home = copying(&server);
    home.put("a.txt", "one\n");
    says(&home, &write("a.txt", "two\n"));
    let folder = in_copy(&home, "");
    let dry = home.run(&["diff", "--discard", "--dry-run"]).expect_code(0);
    assert!(dry.out.contains("1 file changed") && folder.exists(), "{dry:?}");
    home.run(&["diff", "--discard"]).expect_code(0);
    assert!(!folder.exists() && home.text("a.txt") == "one\n");
    assert_eq!(copy(&home)["state"], "discarded");
    home.run(&["diff", "--apply"]).expect_code(3).expect_err("already discarded");
    home.run(&["undo"]).expect_code(3);
    let audit = home.run(&["audit", "main"]).expect_code(0);
    assert!(audit.out.contains("is discarded"), "{audit:?}");
}

/// R41: a worktree has what git does not ignore, and git works in it.
#[test]
pub(crate) fn r41_a_run_works_in_a_worktree() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("a.txt", "one\n");
    home.put(".gitignore", "ignored\n");
    home.put("ignored", "x");
    home.run(&["agent", "--root", "worktree", "-m", "hello"]).expect_err("no git repository");
    let git =
        "git init -q && git add a.txt .gitignore && git -c user.name=a -c user.email=a@example.org commit -qm one";
    home.shell(git).expect_code(0);
    let command = call("exec", &json!({ "command": "ls; git status --short; echo two > a.txt; git diff --stat" }));
    let answer = home.run(&["agent", "--root", "worktree", "--verbose", "--yes", "-m", &command]).expect_code(0);
    assert!(answer.err.contains("1 file changed, 1 insertion") && !answer.err.contains("ignored\n"), "{answer:?}");
    home.run(&["diff", "--apply"]).expect_code(0);
    assert_eq!((home.text("a.txt").as_str(), home.text("ignored").as_str()), ("two\n", "x"));
    let list = home.shell("git worktree list").expect_code(0);
    assert_eq!(list.out.lines().count(), 1, "{list:?}");
}

/// R41, R69: a rule on a path of the workspace is one on the same path of its copy.
#[test]
pub(crate) fn r41_a_rule_on_a_path_holds_in_a_copy() {
    let server = ModelServer::start().unwrap();
    let home = copying(&server);
    home.put("secret.txt", "PRIVATE");
    fs::create_dir_all(home.path()).unwrap();
    let path = fs::canonicalize(home.file("secret.txt")).unwrap();
    let rule = format!("[[policy]]\ndecision = \"deny\"\npath = [\"{}\"]\n", path.display());
    fs::write(home.path().join("config.toml"), rule).unwrap();
    let answer = home.run(&["agent", "--yes", "--verbose", "-m", &call("read", &json!({ "path": "secret.txt" }))]);
    assert!(!answer.err.contains("PRIVATE") && !answer.out.contains("PRIVATE"), "{answer:?}");
    assert!(answer.err.contains("config.toml"), "the rule names itself: {answer:?}");
}

/// R41: what only reads needs no copy, and a project may ask for one.
#[test]
pub(crate) fn r41_a_plan_has_no_copy_and_a_project_may_want_one() {
    let server = ModelServer::start().unwrap();
    let home = copying(&server);
    home.run(&["agent", "--plan", "-m", "hello"]).expect_code(0);
    assert!(copy(&home).is_null());
    let home = home.without("LIMULUS_SANDBOX__ROOT");
    fs::create_dir_all(home.file(".limulus")).unwrap();
    fs::write(home.file(".limulus/config.toml"), "sandbox.root = \"copy\"\n").unwrap();
    says(&home, &write("a.txt", "two\n"));
    assert!(!home.file("a.txt").exists() && copy(&home)["state"] == "open");
}

/// R13, R41: taking over a copy is completed by the next owner, wherever it was killed.
#[test]
fn r13_r41_taking_over_is_completed_after_a_kill() {
    for point in ["undo_started", "undo_done"] {
        let server = ModelServer::start().unwrap();
        let home = copying(&server);
        home.put("a.txt", "one\n");
        says(&home, &write("a.txt", "two\n"));
        let folder = in_copy(&home, "");
        let killed = home.with("LIMULUS_CRASHPOINT", point);
        assert_ne!(killed.run(&["diff", "--apply"]).code, Some(0), "{point}");
        let home = killed.without("LIMULUS_CRASHPOINT");
        home.run(&["resume"]).expect_code(0);
        assert_eq!((home.text("a.txt").as_str(), copy(&home)["state"].clone()), ("two\n", json!("applied")), "{point}");
        assert!(!folder.exists(), "{point}");
    }
}
