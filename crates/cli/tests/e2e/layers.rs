//! The layers of the configuration: the user's own file, that of the home, and those of a project, which only make things stricter.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Finished, Home};

fn put(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().expect("a file has a folder")).expect("a folder");
    fs::write(file, text).expect("a file");
}

/// Files in the workspace.
fn of_project(home: &Home) -> PathBuf {
    home.file(".limulus/config.toml")
}

/// The user's own file.
fn own(home: &Home) -> PathBuf {
    home.user().join(".config/limulus/config.toml")
}

/// A run that makes this file by a command, in this folder.
fn makes(home: &Home, folder: &Path, name: &str) -> Finished {
    let message = format!("run `echo x > {name}`");
    home.run(&["agent", "--workspace", folder.to_str().expect("UTF-8"), "--session", name, "--yes", "-m", &message])
}

#[test]
pub(crate) fn r24_a_project_limits_the_runs_in_it_and_no_others() {
    let home = Home::new();
    let (strict, other) = (home.user().join("strict"), home.user().join("other"));
    fs::create_dir_all(strict.join(".git")).unwrap();
    fs::create_dir_all(strict.join("deep")).unwrap();
    fs::create_dir(&other).unwrap();
    put(&strict.join(".limulus/config.toml"), "[tools.exec]\npolicy = \"deny\"\n");
    makes(&home, &strict.join("deep"), "one").expect_code(0);
    makes(&home, &other, "two").expect_code(0);
    assert!(!strict.join("deep/one").exists() && other.join("two").exists());
    // The owner stays, and what the project says has changed.
    put(&strict.join(".limulus/config.toml"), "[tools.exec]\npolicy = \"allow\"\n");
    makes(&home, &strict.join("deep"), "three").expect_code(0);
    assert!(strict.join("deep/three").exists());
}

#[test]
pub(crate) fn r24_what_a_project_may_not_set_starts_no_run_in_it() {
    let home = Home::new();
    let file = of_project(&home);
    for (text, expected) in [
        ("\n[agents.main]\nmodel = \"evil/m\"\n", "config.toml:3:1: a project may not set `agents.main.model`"),
        (
            "[providers.acme]\nbase_url = \"http://evil\"\n",
            "config.toml:2:1: a project may not set `providers.acme.base_url`",
        ),
        ("tools.exec.policy = \"alow\"\n", "config.toml:1:12: `tools.exec.policy` cannot be \"alow\""),
        ("[tools\n", "config.toml:1:7 is not valid TOML"),
    ] {
        put(&file, text);
        home.run(&["agent", "-m", "hi"]).expect_code(78).expect_err(expected);
        home.run(&["config", "check"]).expect_code(78);
    }
    let runs = home.run(&["runs", "list", "--json"]).out;
    assert!(matches!(runs.trim(), "" | "[]"), "{runs}");
    fs::remove_file(&file).unwrap();
    home.shell("mkfifo .limulus/config.toml").expect_code(0);
    home.run(&["agent", "-m", "hi"]).expect_code(78).expect_err("it is not a regular file");
    fs::remove_file(&file).unwrap();
    home.run(&["agent", "-m", "hi"]).expect_code(0);
}

#[test]
pub(crate) fn r24_what_an_agent_writes_into_the_file_of_its_project_gives_it_nothing() {
    let home = Home::new();
    let laxer = "mkdir -p .limulus; echo 'tools.exec.policy = \"allow\"' > .limulus/config.toml";
    home.run(&["agent", "--yes", "-m", &format!("run `{laxer}`")]).expect_code(0);
    assert_eq!(home.text(".limulus/config.toml"), "tools.exec.policy = \"allow\"\n");
    home.run(&["agent", "-m", "run `echo x > made`"]).expect_code(3);
    assert!(!home.file("made").exists());
    let policy = home.json(&["config", "get", "tools.exec.policy"]);
    assert_eq!((&policy["value"], &policy["layer"]), (&"sandbox".into(), &"defaults".into()));
}

#[test]
fn r24_the_layer_and_the_place_of_every_value_are_shown() {
    let home = Home::new();
    put(&own(&home), "runs.stall_s = 5\nruns.deadline_s = 60\n");
    put(&home.path().join("config.toml"), "runs.deadline_s = 50\n");
    put(&of_project(&home), "runs.deadline_s = 40\nruns.stall_s = 6\n");
    let shown = home.run(&["config", "show", "--origin", "--changed"]).expect_code(0).out;
    let row = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
    let line = row("runs.deadline_s");
    assert!(
        line.starts_with("runs.deadline_s = 40 ") && line.ends_with("/workspace/.limulus/config.toml:1"),
        "{shown}"
    );
    let line = row("runs.stall_s");
    assert!(line.starts_with("runs.stall_s = 5 ") && line.ends_with("/.config/limulus/config.toml:1"), "{shown}");
    let shown = home.json(&["config", "get", "runs.deadline_s"]);
    assert_eq!((&shown["value"], &shown["layer"]), (&40.into(), &"project".into()));
    let files = home.json(&["config", "path"]);
    let files = files["files"].as_array().unwrap();
    let layers: Vec<_> =
        files.iter().map(|file| (file["layer"].as_str().unwrap(), file["exists"].as_bool().unwrap())).collect();
    assert_eq!(layers, [("project", true), ("file", true), ("file", true)]);
    let checked = home.run(&["config", "check"]).expect_code(0).out;
    assert!(
        checked.contains(".config/limulus/config.toml") && checked.contains("workspace/.limulus/config.toml"),
        "{checked}"
    );
}

#[test]
fn r24_a_change_is_written_into_the_file_that_the_key_came_from() {
    let home = Home::new();
    let file = home.path().join("config.toml");
    put(&own(&home), "# mine\n[runs]\nstall_s = 5\n");
    let set = home.json(&["config", "set", "runs.stall_s", "7"]);
    assert_eq!(set["file"], own(&home).display().to_string());
    assert_eq!(fs::read_to_string(own(&home)).unwrap(), "# mine\n[runs]\nstall_s = 7\n");
    let set = home.json(&["config", "set", "runs.deadline_s", "60"]);
    assert_eq!((&set["file"], &set["overridden_by"]), (&file.display().to_string().into(), &serde_json::Value::Null));
    put(&of_project(&home), "runs.deadline_s = 40\n");
    let set = home.run(&["config", "set", "runs.deadline_s", "50"]).expect_code(0).out;
    assert!(
        set.contains("but the value in force is that of ") && set.contains("/workspace/.limulus/config.toml:1"),
        "{set}"
    );
    home.run(&["config", "set", "runs.deadline_s", "30"]).expect_code(0);
    assert_eq!(home.run(&["config", "get", "runs.deadline_s"]).expect_code(0).out, "30\n");
    let editor = home.file("editor");
    put(&editor, "#!/bin/sh\necho '# edited' >> \"$1\"\n");
    let home = home.with("EDITOR", &format!("sh {}", editor.display()));
    home.run(&["config", "edit", "runs.stall_s"]).expect_code(0);
    assert!(fs::read_to_string(own(&home)).unwrap().ends_with("# edited\n"));
    home.run(&["config", "edit"]).expect_code(0);
    assert!(fs::read_to_string(&file).unwrap().ends_with("# edited\n"));
    home.run(&["config", "unset", "runs.stall_s"]).expect_code(0);
    assert_eq!(home.run(&["config", "get", "runs.stall_s"]).expect_code(0).out, "1800\n");
    // A broken file of a project keeps nobody from changing their own.
    put(&of_project(&home), "[");
    home.run(&["config", "set", "runs.stall_s", "8"]).expect_code(0);
}
