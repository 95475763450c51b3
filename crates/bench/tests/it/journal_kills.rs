//! The harness of the kill rate: it finds nothing if nothing is wrong, and a built-in bug at once.

use std::process::{Command, Output};

use serde_json::Value;

/// This many kills of homes in a temporary folder.
fn kills(arguments: &[&str]) -> (Output, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_journal-kills"));
    command.args(["--json", "--seconds", "600", "--folder"]).arg(folder.path()).args(arguments);
    let output = command.output().expect("the harness is built");
    let report = serde_json::from_slice(&output.stdout).expect("one JSON object");
    (output, report)
}

/// R10, R18: what was acknowledged survives SIGKILL.
#[test]
fn r10_what_was_acknowledged_survives_sigkill() {
    let (output, report) = kills(&["--kills", "24"]);
    assert!(output.status.success(), "{report} {}", String::from_utf8_lossy(&output.stderr));
    assert!(report["cycles"].as_u64() >= Some(24), "{report}");
    assert!(report["acknowledged"].as_u64() > Some(0), "{report}");
    assert_eq!((&report["lost"], &report["gaps"]), (&0.into(), &0.into()), "{report}");
}

/// The kill comes before or after the commit: the reported step is lost, or has another position than reported.
#[test]
fn an_acknowledgement_before_the_journal_has_answered_is_found() {
    let (output, report) = kills(&["--bug", "early"]);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report["violations"].as_array().is_some_and(|found| !found.is_empty()), "{report}");
}
