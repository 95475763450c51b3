//! Performs a stage: runs its program, passes on the output, and counts the results in it.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::stages::Action;
use crate::{Tally, requirements, tidy};

/// Performs the action of a stage and counts its checks.
pub(super) fn perform(action: &Action, root: &Path, out: &mut dyn Write) -> io::Result<Tally> {
    match action {
        Action::Tidy => tidy::run(root, out),
        Action::Requirements => requirements::run(root, requirements::Output::Check, out).map(Tally::of),
        Action::CargoTest(arguments) => follow(cargo_test(root).args(*arguments), out),
        Action::Fuzz { seconds } => {
            let mut cargo = cargo_test(root);
            cargo.args(["--no-fail-fast", "--lib", "--bins", "--test", "it", "fuzz_"]);
            follow(cargo.env("BOLERO_RANDOM_TEST_TIME_MS", (u64::from(*seconds) * 1_000).to_string()), out)
        }
        Action::Program { program, arguments } => {
            let folder = programs_folder()?;
            let Some(path) = built(&folder, program, out)? else { return Ok(Tally::of(false)) };
            let arguments = arguments.iter().map(|argument| argument.replace("{ci}", &folder.to_string_lossy()));
            follow(Command::new(path).current_dir(root).args(arguments), out)
        }
        Action::RedDemo { mutant } => red_demo(mutant, out).map(Tally::of),
    }
}

/// The folder of the programs with the profile `ci`. This program is in such a folder, possibly of another profile.
fn programs_folder() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).expect("cargo puts a program two folders below the root of the file system");
    Ok(target.join("ci"))
}

/// One build is behind the whole proof. Its crash points and mutants do nothing until a variable of the environment
/// chooses one; what is shipped does not have them, and clippy is what compiles it so.
fn cargo_test(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["test", "--locked", "--workspace", "--profile", "ci"]);
    cargo.args(["--features", "limulus/faults,simulator/faults"]);
    // What the outer cargo has set about this package: build scripts that depend on such a variable would run again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The path of a program in this folder. If it is not built, prints how to build it and returns none.
fn built(folder: &Path, program: &str, out: &mut dyn Write) -> io::Result<Option<PathBuf>> {
    let path = folder.join(program);
    if !path.exists() {
        writeln!(out, "{} is not built: `cargo xtask test --only build`", path.display())?;
        return Ok(None);
    }
    Ok(Some(path))
}

/// Whether the demonstration fails with this mutant. Its files stay beside the program.
fn red_demo(mutant: &str, out: &mut dyn Write) -> io::Result<bool> {
    let programs = programs_folder()?;
    let Some(path) = built(&programs, "limulus", out)? else { return Ok(false) };
    let mut demo = Command::new(path);
    demo.arg("demo").env("LIMULUS_MUTANT", mutant).env("TMPDIR", programs).stdin(Stdio::null());
    let demo = demo.output()?;
    out.write_all(&demo.stdout)?;
    out.write_all(&demo.stderr)?;
    let is_red = demo.status.code() == Some(1) && String::from_utf8_lossy(&demo.stdout).contains('✗');
    writeln!(
        out,
        "with the mutant `{mutant}` it ends with {}: {}",
        demo.status,
        if is_red { "detected" } else { "NOT DETECTED" }
    )?;
    Ok(is_red)
}

/// Runs a program, passes on its output line by line, and counts the results in it. A program without results is one
/// check, which holds if it exits with 0. Another exit code counts as a failure, whatever the results.
fn follow(command: &mut Command, out: &mut dyn Write) -> io::Result<Tally> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().expect("stdout was asked for as a pipe"));
    let mut tally = Tally::default();
    let mut line = vec![];
    while lines.read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        out.flush()?;
        tally += counted(&String::from_utf8_lossy(&line));
        line.clear();
    }
    let is_good = child.wait()?.success();
    if tally == Tally::default() {
        return Ok(Tally::of(is_good));
    }
    if !is_good && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}

/// The results in a line: those of a test program, or a line `N passed, N failed`.
fn counted(line: &str) -> Tally {
    let line = line.trim();
    let counts: Vec<&str> = match line.split_once("test result: ") {
        Some((_, result)) => result.split(['.', ';']).map(str::trim).collect(),
        None => line.split(", ").collect(),
    };
    let count = |what: &str| counts.iter().find_map(|count| count.strip_suffix(what)?.trim().parse().ok());
    match (count("passed"), count("failed")) {
        (Some(passed), Some(failed)) if line.contains("test result: ") || counts.len() == 2 => Tally { passed, failed },
        _ => Tally::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{counted, follow};
    use crate::Tally;

    fn shell(script: &str) -> (Tally, String) {
        let mut out = vec![];
        let tally = follow(Command::new("sh").args(["-c", script]), &mut out).unwrap();
        (tally, String::from_utf8(out).unwrap())
    }

    #[test]
    fn results_are_counted_and_other_lines_are_not() {
        let result =
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(counted(result), Tally { passed: 12, failed: 3 });
        assert_eq!(counted("60 passed, 1 failed\n"), Tally { passed: 60, failed: 1 });
        for line in ["", "7 passed", "3 passed, 4 failed, 5 unknown", "test a ... ok", "x passed, y failed"] {
            assert_eq!(counted(line), Tally::default(), "{line}");
        }
    }

    #[test]
    fn a_program_is_its_counts_or_its_exit() {
        for (script, passed, failed) in [
            ("echo fine", 1, 0),
            ("exit 3", 0, 1),
            ("echo 2 passed, 0 failed; echo 3 passed, 1 failed; exit 1", 5, 1),
            ("echo 2 passed, 0 failed; exit 1", 2, 1),
            ("echo 2 passed, 0 failed; kill -9 $$", 2, 1),
        ] {
            assert_eq!(shell(script).0, Tally { passed, failed }, "{script}");
        }
        assert_eq!(shell("printf 'one\\ntwo'").1, "one\ntwo");
    }
}
