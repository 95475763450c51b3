//! Script tests: inputs, then the events and effects that they lead to. `UPDATE=1 cargo test -p engine` rewrites what
//! is expected; every change of it is reviewed by hand. After every step the state is rebuilt from the recorded events
//! and compared (support/invariants.rs).

use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use crate::support::World;

#[test]
fn r03_r10_r11_scripts() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = vec![];
    let paths = scripts();
    assert!(paths.len() >= 25, "scripts are missing: only {} are there", paths.len());
    for path in paths {
        let expected = std::fs::read_to_string(&path).unwrap();
        let mut out = String::new();
        // A script that breaks an invariant is reported with its last line; the others are still played.
        if std::panic::catch_unwind(AssertUnwindSafe(|| played(&path, &expected, &mut out))).is_err() {
            let last = out.lines().rfind(|line| line.starts_with("> ")).unwrap_or_default();
            wrong.push(format!("{}\n  broke an invariant at `{last}`; the panic is above", path.display()));
            continue;
        }
        let actual = out;
        if expected == actual {
            continue;
        }
        if update {
            std::fs::write(&path, &actual).unwrap();
        } else {
            wrong.push(format!("{}\n{}", path.display(), first_difference(&expected, &actual)));
        }
    }
    assert!(wrong.is_empty(), "{}\n(UPDATE=1 rewrites what is expected)", wrong.join("\n\n"));
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let entries = std::fs::read_dir(folder).expect("the scripts").map(|entry| entry.expect("a script").path());
    let mut paths: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "txt")).collect();
    paths.sort();
    paths
}

/// Plays a script into its full text: comments, inputs (`> …`), and their results, indented.
fn played(path: &Path, script: &str, out: &mut String) {
    let mut world = World::new();
    for line in script.lines().filter(|line| !line.starts_with("    ")) {
        writeln!(out, "{line}").expect("a string takes all");
        let Some(input) = line.strip_prefix("> ") else {
            assert!(line.is_empty() || line.starts_with('#'), "{}: not a line of a script: {line}", path.display());
            continue;
        };
        world.lines.clear();
        crate::support::script::run_line(&mut world, input);
        for line in &world.lines {
            writeln!(out, "    {line}").expect("a string takes all");
        }
    }
    crate::support::invariants::check_snapshots(&world);
}

fn first_difference(expected: &str, actual: &str) -> String {
    let mut input = "";
    for (at, (e, a)) in expected.lines().chain(["(end)"]).zip(actual.lines().chain(["(end)"])).enumerate() {
        if e.starts_with("> ") {
            input = e;
        }
        if e != a {
            return format!("  line {}, after `{input}`\n  expected {e}\n  got      {a}", at + 1);
        }
    }
    String::new()
}
