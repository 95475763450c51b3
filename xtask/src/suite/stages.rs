//! The stages of the proof, and their long forms, as two lists.

use std::time::Duration;

/// How long a stage of the proof may take: several times what it needs, so that it only bounds a hang.
pub(crate) const STAGE_LIMIT: Duration = Duration::from_mins(30);

/// The same of a long form.
pub(crate) const SOAK_LIMIT: Duration = Duration::from_hours(4);

/// A stage of the proof. Stages start in the order of the list; `--only` runs one alone.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) cores: Cores,
    pub(crate) action: Action,
}

/// The number of cores that a stage uses. One stage more than there are cores runs in parallel, since many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    /// It has one thread, or waits half of its time.
    One,
    /// It has a thread for each core, or measures time: it runs alone.
    All,
}

/// The work of a stage.
pub(crate) enum Action {
    Tidy,
    Requirements,
    /// Run `cargo test` for the whole workspace with these arguments.
    CargoTest(&'static [&'static [&'static str]]),
    /// Run every test `fuzz_…` of the workspace, each for so many seconds.
    Fuzz {
        seconds: u32,
    },
    /// Run a program that the stage `build` has built. `{ci}` in an argument is the folder of the program.
    Program {
        program: &'static str,
        arguments: &'static [&'static str],
    },
    /// Pack the program that the stage `build` has built, install and remove it.
    Packages,
    /// Run `limulus demo` with this mutant: it must exit with 1.
    RedDemo {
        mutant: &'static str,
    },
}

/// All tests but those of `e2e`. Every stage that runs some of them names all: if Cargo is to build fewer, it counts some crates that
/// all share as others, and compiles half of the workspace once more.
const TESTS_OF_CRATES: &[&str] =
    &["--no-fail-fast", "--lib", "--bins", "--test", "it", "--test", "disk", "--test", "faults", "--test", "slice"];

/// What begins the names of tests that take a core for a minute. They are a stage of their own, which runs beside the other tests.
const LONG_TESTS: &[&str] = &["properties::", "ledger::r50_what_one_session", "r10_r11_every_fault", "histories::"];

/// The same, left out.
const SKIPS_LONG_TESTS: &[&str] = &[
    "--skip",
    "properties::",
    "--skip",
    "ledger::r50_what_one_session",
    "--skip",
    "r10_r11_every_fault",
    "--skip",
    "histories::",
];

/// The stages of the proof. Everything is compiled first; then programs run in parallel while cores are free.
pub(crate) const STAGES: &[Stage] = &[
    Stage { name: "tidy", about: "the project's own rules", cores: Cores::One, action: Action::Tidy },
    Stage {
        name: "requirements",
        about: "each listed requirement has a test",
        cores: Cores::One,
        action: Action::Requirements,
    },
    Stage {
        name: "build",
        about: "all programs and tests, with crash points and mutants compiled in",
        cores: Cores::All,
        action: Action::CargoTest(&[&["--quiet", "--no-run"]]),
    },
    Stage {
        name: "tests",
        about: "the tests of each crate",
        cores: Cores::One,
        action: Action::CargoTest(&[TESTS_OF_CRATES, &["--", "--skip", "third_party_"], SKIPS_LONG_TESTS]),
    },
    Stage {
        name: "long-tests",
        about: "those of them that take a core for a minute",
        cores: Cores::One,
        action: Action::CargoTest(&[TESTS_OF_CRATES, &["--", "--skip", "third_party_"], LONG_TESTS]),
    },
    Stage {
        name: "e2e",
        about: "the tests of the program from outside",
        cores: Cores::One,
        // Its tests wait for other processes most of the time: more of them than there are cores run at once.
        action: Action::CargoTest(&[&["--no-fail-fast", "--test", "e2e", "--", "--test-threads", "4"]]),
    },
    Stage {
        name: "packages",
        about: "packages and installer: installed from a local server, replaced, removed without a trace",
        cores: Cores::One,
        action: Action::Packages,
    },
    Stage {
        name: "mutants",
        about: "each mutant is found",
        cores: Cores::One,
        action: Action::Program { program: "simulator", arguments: &["mutants"] },
    },
    Stage {
        name: "third-parties",
        about: "official clients and model servers judge the adapters",
        cores: Cores::One,
        action: Action::CargoTest(&[TESTS_OF_CRATES, &["third_party_"]]),
    },
    Stage {
        name: "kills",
        about: "SIGKILL of the real binary at named and at random points",
        cores: Cores::One,
        action: Action::Program { program: "kills", arguments: &["--binary", "{ci}/limulus"] },
    },
    Stage {
        name: "journal-kills",
        about: "SIGKILL of a journal's owner for a minute: nothing acknowledged is lost",
        cores: Cores::One,
        action: Action::Program { program: "journal-kills", arguments: &["--seconds", "60"] },
    },
    Stage {
        name: "serve-kills",
        about: "SIGKILL of `limulus serve` for a minute, with clients attached: they received what the journal has",
        cores: Cores::One,
        action: Action::Program { program: "serve-kills", arguments: &["--seconds", "60"] },
    },
    Stage {
        name: "red-demo",
        about: "the demonstration detects a mutant in recovery",
        cores: Cores::One,
        action: Action::RedDemo { mutant: "lost_call_run_again" },
    },
    Stage {
        name: "simulator",
        about: "a crash at every operation of the in-memory journal, and a second crash after each",
        cores: Cores::All,
        // Four of the eleven pairs of crash forms (on average) for each pair of crash points, varying from point to
        // point: a quarter of a million cases. `cargo xtask soak simulator` runs all of them.
        action: Action::Program { program: "simulator", arguments: &["check", "--pairs", "4"] },
    },
    Stage {
        name: "random",
        about: "random workloads, several faults each",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["random", "--seconds", "30"] },
    },
    Stage {
        name: "liveness",
        about: "many faults, then none: every session must become idle",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["liveness", "--seconds", "30"] },
    },
    Stage {
        name: "queue",
        about: "messages of every mode in any interleaving, compared with an oracle of the routing",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["queue", "--cases", "100000"] },
    },
    Stage {
        name: "shared",
        about: "sessions that share one ledger, with a crash after every operation",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["shared", "--seconds", "10"] },
    },
    Stage {
        name: "disk",
        about: "the real journal, with every fault at every disk operation, and random faults",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["disk", "--seconds", "15"] },
    },
];

/// The long forms of stages, run by `cargo xtask soak NAME`. They use the programs that `cargo xtask test --only
/// build` has built.
pub(crate) const SOAKS: &[Stage] = &[
    Stage {
        name: "simulator",
        about: "every pair of crashes in every pair of forms: five minutes",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["check"] },
    },
    Stage {
        name: "random",
        about: "random workloads with several faults each, for ten minutes",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["random", "--seconds", "600"] },
    },
    Stage {
        name: "liveness",
        about: "many faults, then none, for ten minutes",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["liveness", "--seconds", "600"] },
    },
    Stage {
        name: "queue",
        about: "two million interleavings of messages",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["queue", "--cases", "2000000"] },
    },
    Stage {
        name: "shared",
        about: "sessions that share one ledger, for ten minutes",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["shared", "--seconds", "600"] },
    },
    Stage {
        name: "disk",
        about: "the real journal on a failing disk, for ten minutes",
        cores: Cores::All,
        action: Action::Program { program: "simulator", arguments: &["disk", "--seconds", "600"] },
    },
    Stage {
        name: "kills",
        about: "twice as many kills of the real binary, from another seed",
        cores: Cores::All,
        action: Action::Program {
            program: "kills",
            arguments: &["--binary", "{ci}/limulus", "--kills", "200", "--random", "100", "--seed", "2"],
        },
    },
    Stage {
        name: "journal-kills",
        about: "SIGKILL of a journal's owner for ten minutes",
        cores: Cores::All,
        action: Action::Program { program: "journal-kills", arguments: &["--seconds", "600"] },
    },
    Stage {
        name: "serve-kills",
        about: "SIGKILL of `limulus serve` for ten minutes",
        cores: Cores::All,
        action: Action::Program { program: "serve-kills", arguments: &["--seconds", "600"] },
    },
    Stage {
        name: "fuzz",
        about: "every test `fuzz_…` with random bytes, for two minutes each",
        cores: Cores::All,
        action: Action::Fuzz { seconds: 120 },
    },
];

/// The stages and the long forms, for the help text.
pub(crate) fn help() -> String {
    let list = |stages: &[Stage]| {
        let lines: Vec<String> = stages.iter().map(|stage| format!("  {:<14} {}\n", stage.name, stage.about)).collect();
        lines.concat()
    };
    let (stages, soaks) = (list(STAGES), list(SOAKS));
    format!("\nStages of `test`:\n{stages}\nNames for `soak`:\n{soaks}")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Action, LONG_TESTS, SKIPS_LONG_TESTS, SOAKS, STAGES};

    #[test]
    fn stages_have_names_of_their_own() {
        for list in [STAGES, SOAKS] {
            for (index, stage) in list.iter().enumerate() {
                assert!(list[index + 1..].iter().all(|other| other.name != stage.name), "{}", stage.name);
            }
        }
    }

    #[test]
    fn the_long_tests_are_left_out_where_the_others_run() {
        let skipped: Vec<&str> = LONG_TESTS.iter().flat_map(|name| ["--skip", name]).collect();
        assert_eq!(skipped, SKIPS_LONG_TESTS);
    }

    /// A test program that no stage names would never run.
    #[test]
    fn every_test_program_has_a_stage() {
        let named: Vec<&str> = STAGES
            .iter()
            .filter_map(|stage| if let Action::CargoTest(arguments) = stage.action { Some(arguments) } else { None })
            .flatten()
            .flat_map(|arguments| arguments.windows(2).filter(|pair| pair[0] == "--test").map(|pair| pair[1]))
            .collect();
        let mut found = 0;
        for tests in test_programs() {
            found += 1;
            assert!(named.contains(&tests.as_str()), "no stage runs the test program `{tests}`");
        }
        assert!(found > 8, "{found}");
    }

    /// The names of the test programs of all crates, from the folders `tests`.
    fn test_programs() -> Vec<String> {
        let folder = |path: &Path| std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path());
        let crates = folder(&crate::root().join("crates"));
        let targets = crates.flat_map(|own| folder(&own.join("tests")).collect::<Vec<_>>());
        let is_program = |path: &PathBuf| path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").exists();
        targets.filter(is_program).map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    }

    /// Each long form has a short form of the same name in the proof; that of `fuzz` is a second within `tests`.
    #[test]
    fn every_long_form_has_a_stage() {
        for soak in SOAKS.iter().filter(|soak| soak.name != "fuzz") {
            assert!(STAGES.iter().any(|stage| stage.name == soak.name), "{}", soak.name);
        }
    }
}
