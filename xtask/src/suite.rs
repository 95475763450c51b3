//! The whole proof as a list of stages. What may not live here: what a stage checks; that is its own program.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::log_tail::LogTail;
use crate::{Tally, faults, requirements, tidy};

/// One stage. The order of the list is the order in which they run; each also runs alone, by `--only`.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    about: &'static str,
    action: Action,
}

enum Action {
    Tidy,
    Requirements,
    FaultBuild,
    /// Cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// A program of the fault build. `{ci}` stands for the folder of the plain programs.
    Fault {
        program: &'static str,
        arguments: &'static [&'static str],
    },
    /// A program of the plain build.
    Plain {
        program: &'static str,
        arguments: &'static [&'static str],
    },
    /// `limulus demo` of the fault build with this bug in it: it must end with exit 1.
    RedDemo {
        mutant: &'static str,
    },
}

pub(crate) const STAGES: &[Stage] = &[
    Stage { name: "tidy", about: "the rules of the house", action: Action::Tidy },
    Stage { name: "requirements", about: "each listed requirement has a test", action: Action::Requirements },
    Stage {
        name: "tests",
        about: "all tests of the workspace",
        action: Action::Cargo(&[
            "test",
            "--workspace",
            "--profile",
            "ci",
            "--no-fail-fast",
            "--",
            "--skip",
            "third_party_",
        ]),
    },
    Stage {
        name: "third-parties",
        about: "programs of others judge the adapters: official clients, model servers for tests",
        action: Action::Cargo(&[
            "test",
            // All of it, so that what was built for the tests is what is run.
            "--workspace",
            "--profile",
            "ci",
            "--no-fail-fast",
            "third_party_",
        ]),
    },
    Stage { name: "faults", about: "the build with crash points and planted bugs", action: Action::FaultBuild },
    Stage {
        name: "simulator",
        about: "a crash at every operation, over the memory journal, and second ones after each",
        // Of each two places, four of the eleven pairs of forms that there are on average, others from place to place: a
        // quarter of a million cases. All of them are `simulator check`.
        action: Action::Fault { program: "simulator", arguments: &["check", "--pairs", "4"] },
    },
    Stage {
        name: "random",
        about: "drawn workloads, several faults each",
        action: Action::Fault { program: "simulator", arguments: &["random", "--seconds", "30"] },
    },
    Stage {
        name: "liveness",
        about: "storms of faults, then peace: all must come to rest",
        action: Action::Fault { program: "simulator", arguments: &["liveness", "--seconds", "30"] },
    },
    Stage {
        name: "queue",
        about: "messages of every mode in any interleaving, and a second model of the routing that agrees",
        action: Action::Fault { program: "simulator", arguments: &["queue", "--cases", "100000"] },
    },
    Stage {
        name: "shared",
        about: "sessions that share one ledger, with a crash after every operation",
        action: Action::Fault { program: "simulator", arguments: &["shared", "--seconds", "10"] },
    },
    Stage {
        name: "disk",
        about: "the real journal, with every harm at every operation of its disk, and drawn ones",
        action: Action::Fault { program: "simulator", arguments: &["disk", "--seconds", "15"] },
    },
    Stage {
        name: "mutants",
        about: "each planted bug is found",
        action: Action::Fault { program: "simulator", arguments: &["mutants"] },
    },
    Stage {
        name: "kills",
        about: "SIGKILL of the real binary at named and at random points",
        action: Action::Fault {
            program: "kills",
            arguments: &["--binary", "{ci}/faults/limulus", "--plain", "{ci}/limulus"],
        },
    },
    Stage {
        name: "journal-kills",
        about: "SIGKILL of a journal's owner for a minute: nothing acknowledged is lost",
        action: Action::Plain { program: "journal-kills", arguments: &["--seconds", "60"] },
    },
    Stage {
        name: "serve-kills",
        about: "SIGKILL of `limulus serve` for a minute, with clients attached: what they were told is what the journal says",
        action: Action::Plain { program: "serve-kills", arguments: &["--seconds", "60"] },
    },
    Stage {
        name: "red-demo",
        about: "the demonstration sees a bug in recovery",
        action: Action::RedDemo { mutant: "lost_call_run_again" },
    },
];

/// The stages, for the help text.
pub(crate) fn stage_help() -> String {
    let stages = STAGES.iter().map(|stage| format!("  {:<14} {}\n", stage.name, stage.about));
    format!("\nStages of `test`:\n{}", stages.collect::<String>())
}

/// Runs the stages that are named, or all. What failed is told once more at the end, as a long log may be cut at its
/// beginning; the last line says how many checks held and how many did not.
pub(crate) fn run(root: &Path, only: &[String], out: &mut dyn Write) -> io::Result<bool> {
    let mut total = Tally::default();
    let mut failures: Vec<String> = vec![];
    for stage in STAGES.iter().filter(|stage| only.is_empty() || only.iter().any(|name| name == stage.name)) {
        let started = Instant::now();
        writeln!(out, "== {}: {}", stage.name, stage.about)?;
        let mut observed = LogTail::new(out);
        let tally = match perform(&stage.action, root, &mut observed) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                writeln!(observed, "{} cannot be run: {error}", stage.name)?;
                Tally::of(false)
            }
            outcome => outcome?,
        };
        total += tally;
        let Tally { passed, failed } = tally;
        if failed > 0 {
            failures.push(format!("what did not hold in {}:", stage.name));
            failures.extend(observed.failures().iter().map(|line| format!("  {line}")));
        }
        writeln!(out, "-- {}: {passed} held, {failed} did not, {:.1} s", stage.name, started.elapsed().as_secs_f64())?;
    }
    for line in failures {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{} passed, {} failed", total.passed, total.failed)?;
    Ok(total.failed == 0)
}

fn perform(action: &Action, root: &Path, out: &mut dyn Write) -> io::Result<Tally> {
    match action {
        Action::Tidy => tidy::run(root, out),
        Action::Requirements => requirements::run(root, requirements::Output::Check, out).map(Tally::of),
        Action::FaultBuild => faults::build(root, out).map(Tally::of),
        Action::Cargo(arguments) => follow(faults::cargo(root).args(*arguments), out),
        Action::Fault { program, arguments } => {
            let programs = faults::programs_folder()?;
            let Some(path) = fault_program(&programs, program, out)? else { return Ok(Tally::of(false)) };
            let arguments = arguments.iter().map(|argument| argument.replace("{ci}", &programs.to_string_lossy()));
            follow(Command::new(path).current_dir(root).args(arguments), out)
        }
        Action::Plain { program, arguments } => {
            let path = faults::programs_folder()?.join(program);
            if !path.exists() {
                writeln!(out, "{} is not built: `cargo xtask test --only faults`", path.display())?;
                return Ok(Tally::of(false));
            }
            follow(Command::new(path).current_dir(root).args(*arguments), out)
        }
        Action::RedDemo { mutant } => red_demo(mutant, out).map(Tally::of),
    }
}

/// Where a program of the fault build is; none, and a word about it, if it is not built.
fn fault_program(programs: &Path, program: &str, out: &mut dyn Write) -> io::Result<Option<PathBuf>> {
    let path = programs.join("faults").join(program);
    if !path.exists() {
        writeln!(out, "{} is not built: `cargo xtask test --only faults`", path.display())?;
        return Ok(None);
    }
    Ok(Some(path))
}

/// Whether the demonstration ends red with this bug planted. What it keeps for a look stays beside the program.
fn red_demo(mutant: &str, out: &mut dyn Write) -> io::Result<bool> {
    let programs = faults::programs_folder()?;
    let Some(path) = fault_program(&programs, "limulus", out)? else { return Ok(false) };
    let mut demo = Command::new(path);
    demo.arg("demo").env("LIMULUS_MUTANT", mutant).env("TMPDIR", programs.join("faults")).stdin(Stdio::null());
    let demo = demo.output()?;
    out.write_all(&demo.stdout)?;
    out.write_all(&demo.stderr)?;
    let is_red = demo.status.code() == Some(1) && String::from_utf8_lossy(&demo.stdout).contains('✗');
    writeln!(
        out,
        "with `{mutant}` planted it ends with {}: {}",
        demo.status,
        if is_red { "seen" } else { "NOT SEEN" }
    )?;
    Ok(is_red)
}

/// Runs a program, passes on what it prints line by line, and counts what it says it has checked. One that says nothing
/// is one check, by its exit; one that ends badly has failed whatever it says.
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

/// What a line counts: a test program's result, or a line that is nothing but `N passed, N failed`.
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

    use super::{STAGES, counted, follow, run};
    use crate::Tally;
    use crate::tree::made_up::Folder;

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

    #[test]
    fn stages_have_names_of_their_own() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert!(STAGES[index + 1..].iter().all(|other| other.name != stage.name), "{}", stage.name);
        }
    }

    #[test]
    fn the_last_line_is_the_sum() {
        let folder = Folder::new(&[("a.rs", "fn a() {}\n")]);
        let mut out = vec![];
        let only = ["tidy".to_owned(), "requirements".to_owned()];
        let is_good = run(&folder.0, &only, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(!is_good && out.ends_with("\n13 passed, 4 failed\n"), "{out}");
    }
}
