//! Performs a stage: runs its program, passes on the output, and counts the results in it.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::stages::Action;
use crate::{Tally, package, requirements, tidy};

/// Interval of looks whether it has left.
const LOOK: Duration = Duration::from_millis(200);

/// How long the output of a program may stay open when it has left.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Performs the action of a stage and counts its checks. A program that takes longer than `limit` is ended.
pub(super) fn perform(action: &Action, root: &Path, limit: Duration, out: &mut dyn Write) -> io::Result<Tally> {
    match action {
        Action::Tidy => tidy::run(root, out),
        Action::Requirements => requirements::run(root, requirements::Output::Check, out).map(Tally::of),
        Action::CargoTest(arguments) => follow(cargo_test(root).args(arguments.concat()), limit, out),
        Action::Fuzz { seconds } => {
            let mut cargo = cargo_test(root);
            cargo.args(["--no-fail-fast", "--lib", "--bins", "--test", "it", "fuzz_"]);
            follow(cargo.env("BOLERO_RANDOM_TEST_TIME_MS", (u64::from(*seconds) * 1_000).to_string()), limit, out)
        }
        Action::Program { program, arguments } => {
            let folder = programs_folder()?;
            let Some(path) = built(&folder, program, out)? else { return Ok(Tally::of(false)) };
            let arguments = arguments.iter().map(|argument| argument.replace("{ci}", &folder.to_string_lossy()));
            follow(Command::new(path).current_dir(root).args(arguments), limit, out)
        }
        Action::Packages => {
            let Some(limulus) = built(&programs_folder()?, "limulus", out)? else { return Ok(Tally::of(false)) };
            package::proof::run(root, &limulus, out)
        }
        Action::RedDemo { mutant } => red_demo(mutant, out).map(Tally::of),
    }
}

/// The folder of the programs with the profile `ci`.
fn programs_folder() -> io::Result<PathBuf> {
    Ok(crate::target_folder()?.join("ci"))
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
/// check, which holds if it exits with 0. Another exit code counts as a failure, whatever the results; so does a program
/// that is ended because it has not left within the limit, of which the output so far is passed on.
fn follow(command: &mut Command, limit: Duration, out: &mut dyn Write) -> io::Result<Tally> {
    let began = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let lines = lines_of(&mut child);
    let mut tally = Tally::default();
    let mut left_at: Option<Instant> = None;
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                out.write_all(&line)?;
                out.flush()?;
                tally += counted(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => match left_at {
                Some(left_at) if left_at.elapsed() > LAST_WORDS => {
                    writeln!(out, "something that it started still has its output")?;
                    break;
                }
                None if child.try_wait()?.is_some() => left_at = Some(Instant::now()),
                None if began.elapsed() > limit => {
                    writeln!(out, "it has not left within {} s: ended", limit.as_secs())?;
                    end(&mut child)?;
                }
                _ => {}
            },
        }
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

/// The lines that it prints. They end when nothing has its output open any more.
fn lines_of(child: &mut Child) -> Receiver<Vec<u8>> {
    let mut output = BufReader::new(child.stdout.take().expect("stdout was asked for as a pipe"));
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        loop {
            let mut line = vec![];
            match output.read_until(b'\n', &mut line) {
                Ok(1..) if sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    lines
}

/// Ends a program and what it has started. It has no group of its own: Ctrl-C is to reach all of it.
fn end(child: &mut Child) -> io::Result<()> {
    let mut tree = vec![child.id()];
    let parents = parents()?;
    while let Some((pid, _)) = parents.iter().find(|(pid, parent)| tree.contains(parent) && !tree.contains(pid)) {
        tree.push(*pid);
    }
    Command::new("kill").arg("-KILL").args(tree.iter().map(u32::to_string)).status()?;
    Ok(())
}

/// Each process with its parent.
fn parents() -> io::Result<Vec<(u32, u32)>> {
    let pair = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name come the state and the parent.
        let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, parent))
    };
    Ok(std::fs::read_dir("/proc")?.flatten().filter_map(pair).collect())
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
    use std::time::{Duration, Instant};

    use super::{LOOK, counted, follow};
    use crate::Tally;

    fn shell(script: &str) -> (Tally, String) {
        let mut out = vec![];
        let tally = follow(Command::new("sh").args(["-c", script]), Duration::from_mins(1), &mut out).unwrap();
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

    #[test]
    fn a_program_that_does_not_leave_is_ended_with_what_it_started_and_counts_as_failed() {
        let folder = crate::tree::made_up::Folder::new(&[("pids", "")]);
        let script = "echo 2 passed, 0 failed; sleep 600 & echo $! >> pids; echo $$ >> pids; wait";
        let mut out = vec![];
        let mut shell = Command::new("sh");
        let tally =
            follow(shell.current_dir(&folder.0).args(["-c", script]), Duration::from_secs(1), &mut out).unwrap();
        assert_eq!(tally, Tally { passed: 2, failed: 1 });
        assert_eq!(String::from_utf8(out).unwrap(), "2 passed, 0 failed\nit has not left within 1 s: ended\n");
        let pids = std::fs::read_to_string(folder.0.join("pids")).unwrap();
        assert_eq!(pids.lines().count(), 2);
        for pid in pids.lines() {
            let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let (is_over, began) = (|stat: &str| stat.is_empty() || stat.contains(") Z "), Instant::now());
            while !is_over(&stat()) {
                assert!(began.elapsed() < Duration::from_mins(1), "{}", stat());
                // waits: what SIGKILL ends may take a moment to go, and nobody is notified when it has.
                std::thread::sleep(LOOK);
            }
        }
    }

    #[test]
    fn a_program_has_left_although_something_that_it_started_goes_on() {
        let (tally, out) = shell("sleep 20 2>/dev/null & echo 2 passed, 0 failed");
        assert_eq!(tally, Tally { passed: 2, failed: 0 });
        assert_eq!(out, "2 passed, 0 failed\nsomething that it started still has its output\n");
    }
}
