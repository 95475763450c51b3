//! What `limulus doctor` says about the surroundings of a home.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use model_server::ModelServer;
use serde_json::Value;

use crate::support::{Home, PROGRAM};

/// What was looked at under this name.
fn named<'a>(report: &'a Value, name: &str) -> Vec<(&'a str, &'a str)> {
    let looks = report["checks"].as_array().expect("what was looked at").iter().filter(|look| look["name"] == name);
    looks.map(|look| (look["level"].as_str().expect("a text"), look["text"].as_str().expect("a text"))).collect()
}

fn levels(report: &Value) -> Vec<&str> {
    report["checks"].as_array().expect("a list").iter().map(|look| look["level"].as_str().expect("a text")).collect()
}

#[test]
pub(crate) fn r18_a_new_home_is_no_failure_and_each_part_is_looked_at() {
    let home = Home::new();
    let page = home.run(&["doctor"]).expect_code(0).out;
    let sections: Vec<&str> = page.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase())).collect();
    for section in ["program", "configuration", "keys", "terminal", "disk", "home", "journal"] {
        assert!(sections.contains(&section), "{section}: {page}");
    }
    let version = format!("✓ limulus {} at {PROGRAM}", env!("CARGO_PKG_VERSION"));
    assert!(
        page.contains(&version) && page.contains("stdout is no terminal") && page.contains(" are free\n"),
        "{page}"
    );
    assert!(!page.contains("  ! ") && !page.contains("  ✗ "), "{page}");
    assert_eq!(home.run(&["doctor", "--quiet"]).expect_code(0).out, "");
    home.assert_usable("main");
    let (all, data) = (home.json(&["doctor"]), home.json(&["doctor", "--data"]));
    assert!(data.get("checks").is_none() && all["healthy"] == true && data["checked"]["sessions"] == 1, "{data}");
    assert_eq!(named(&all, "mode"), [("ok", "it is yours alone (mode 700)")]);
    assert!(named(&all, "place")[0].1.starts_with(&home.path().display().to_string()), "{all}");
    assert!(named(&all, "model")[0].1.contains("the built-in offline model answers"), "{all}");
    let data = home.run(&["doctor", "--data"]).expect_code(0).out;
    assert!(data.starts_with("home ") && home.run(&["doctor"]).out.contains("\njournal\nhome "), "{data}");
}

#[test]
pub(crate) fn r18_what_is_wrong_around_a_home_is_a_warning_and_only_damaged_data_a_failure() {
    let home = Home::new();
    home.assert_usable("main");
    let other = home.user().join("bin/limulus");
    fs::create_dir(home.user().join("bin")).unwrap();
    fs::write(&other, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let own = fs::canonicalize(PROGRAM).unwrap();
    let path = format!("{}:{}", home.user().join("bin").display(), own.parent().unwrap().display());
    fs::write(home.path().join("config.toml"), "[runs]\ndedline_s = 5\n").unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = home.with("PATH", &path).with("SHELL", "/bin/bash").with("LANG", "POSIX");
    let report = home.json(&["doctor"]);
    assert_eq!(named(&report, "path"), [("warning", &*format!("a shell starts another limulus: {}", other.display()))]);
    assert_eq!(named(&report, "second"), [], "the one that runs is no other");
    assert_eq!(named(&report, "mode"), [("warning", "it is yours, and others can enter it (mode 755)")]);
    let error = named(&report, "error");
    assert!(
        error.len() == 1 && error[0].0 == "error" && error[0].1.contains("config.toml:2:1: unknown key"),
        "{report}"
    );
    assert_eq!(named(&report, "completions"), [("note", "no completions of bash are in the usual places")]);
    assert!(named(&report, "characters")[0].1.starts_with("LANG is POSIX"), "{report}");
    let quiet = home.run(&["doctor", "--quiet"]).expect_code(0).out;
    assert!(
        quiet.contains("  ! a shell starts another") && quiet.contains("  ✗ ") && quiet.contains("    hint: "),
        "{quiet}"
    );
    assert!(!quiet.contains("  ✓ ") && !quiet.contains("  · ") && !quiet.contains("journal.db"), "{quiet}");
    assert_eq!(home.run(&["doctor", "--quiet", "--data"]).expect_code(0).out, "");
    let completions = home.user().join(".local/share/bash-completion/completions");
    fs::create_dir_all(&completions).unwrap();
    fs::write(completions.join("limulus"), "").unwrap();
    assert_eq!(named(&home.json(&["doctor"]), "completions")[0].0, "ok");
}

#[test]
pub(crate) fn r18_r50_providers_are_asked_if_wanted_and_no_key_is_shown() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let home = home.with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "env:ACME_KEY");
    let missing = home.json(&["doctor"]);
    assert_eq!(named(&missing, "key"), [("warning", "acme has no key: the variable ACME_KEY is not set")]);
    assert!(levels(&home.json(&["doctor", "--online"])).contains(&"warning") && server.seen().is_empty());
    let home = home.with("ACME_KEY", "sk-the-key-of-acme");
    let silent = home.json(&["doctor"]);
    assert_eq!(named(&silent, "key"), [("ok", "acme: env:ACME_KEY is there")]);
    assert!(named(&silent, "answer").is_empty() && server.seen().is_empty(), "{silent}");
    let asked = home.run(&["doctor", "--online"]).expect_code(0);
    assert!(asked.out.contains("\nonline\n  ✓ acme/scripted answers ("), "{asked:?}");
    assert_eq!(server.seen().len(), 1);
    assert!(!format!("{asked:?}{silent}").contains("sk-the-key"), "{asked:?}");
    let home = home.with("LIMULUS_PROVIDERS__ACME__BASE_URL", "http://127.0.0.1:9/v1");
    let refused = home.run(&["doctor", "--online", "--quiet"]).expect_code(0).out;
    assert!(
        refused.contains("online\n  ! acme/scripted does not answer: ") && refused.contains("    hint: "),
        "{refused}"
    );
}
