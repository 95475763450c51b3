//! The stages of the proof and its long forms, as two lists. What may not live here: how a stage is run.

/// One stage of the proof. The list's order is the order in which stages begin; each also runs alone, by `--only`.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// How many cores it keeps busy. Stages run beside each other as long as there are cores for them.
    pub(crate) cores: Cores,
    pub(crate) action: Action,
}

/// How many cores a stage keeps busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    /// It waits for much of its time, or has one thread.
    One,
    /// It has a thread for each core, or must not be disturbed: it runs alone.
    All,
}

/// What a stage does.
pub(crate) enum Action {
    Tidy,
    Requirements,
    FaultBuild,
    /// Cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// A program of the fault build.
    Fault {
        program: &'static str,
        arguments: &'static [&'static str],
    },
    /// A program of the plain build. `{ci}` stands for the folder that it is in.
    Plain {
        program: &'static str,
        arguments: &'static [&'static str],
    },
    /// `limulus demo` of the fault build with this bug in it: it must end with exit 1.
    RedDemo {
        mutant: &'static str,
    },
}

/// Everything is compiled first; the programs then run beside each other where they leave a core free.
pub(crate) const STAGES: &[Stage] = &[
    Stage { name: "tidy", about: "the rules of the house", cores: Cores::One, action: Action::Tidy },
    Stage {
        name: "requirements",
        about: "each listed requirement has a test",
        cores: Cores::One,
        action: Action::Requirements,
    },
    Stage {
        name: "faults",
        about: "the build with crash points and planted bugs",
        cores: Cores::All,
        action: Action::FaultBuild,
    },
    Stage {
        name: "build",
        about: "the test programs of the workspace",
        cores: Cores::All,
        action: Action::Cargo(&["test", "--locked", "--quiet", "--workspace", "--profile", "ci", "--no-run"]),
    },
    Stage {
        name: "tests",
        about: "all tests of the workspace",
        cores: Cores::One,
        action: Action::Cargo(&[
            "test",
            "--locked",
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
        name: "mutants",
        about: "each planted bug is found",
        cores: Cores::One,
        action: Action::Fault { program: "simulator", arguments: &["mutants"] },
    },
    Stage {
        name: "third-parties",
        about: "programs of others judge the adapters: official clients, model servers for tests",
        cores: Cores::One,
        action: Action::Cargo(&[
            "test",
            "--locked",
            // The workspace, so that what was built for the tests is what is run; of it the programs that have such tests.
            "--workspace",
            "--profile",
            "ci",
            "--no-fail-fast",
            "--test",
            "it",
            "third_party_",
        ]),
    },
    Stage {
        name: "kills",
        about: "SIGKILL of the real binary at named and at random points",
        cores: Cores::One,
        action: Action::Plain {
            program: "kills",
            arguments: &["--binary", "{ci}/faults/limulus", "--plain", "{ci}/limulus"],
        },
    },
    Stage {
        name: "journal-kills",
        about: "SIGKILL of a journal's owner for a minute: nothing acknowledged is lost",
        cores: Cores::One,
        action: Action::Plain { program: "journal-kills", arguments: &["--seconds", "60"] },
    },
    Stage {
        name: "serve-kills",
        about: "SIGKILL of `limulus serve` for a minute, with clients attached: what they were told is what the journal says",
        cores: Cores::One,
        action: Action::Plain { program: "serve-kills", arguments: &["--seconds", "60"] },
    },
    Stage {
        name: "red-demo",
        about: "the demonstration sees a bug in recovery",
        cores: Cores::One,
        action: Action::RedDemo { mutant: "lost_call_run_again" },
    },
    Stage {
        name: "simulator",
        about: "a crash at every operation, over the memory journal, and second ones after each",
        cores: Cores::All,
        // Of each two places, four of the eleven pairs of forms that there are on average, others from place to place: a
        // quarter of a million cases. All of them are `cargo xtask soak simulator`.
        action: Action::Fault { program: "simulator", arguments: &["check", "--pairs", "4"] },
    },
    Stage {
        name: "random",
        about: "drawn workloads, several faults each",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["random", "--seconds", "30"] },
    },
    Stage {
        name: "liveness",
        about: "storms of faults, then peace: all must come to rest",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["liveness", "--seconds", "30"] },
    },
    Stage {
        name: "queue",
        about: "messages of every mode in any interleaving, and a second model of the routing that agrees",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["queue", "--cases", "100000"] },
    },
    Stage {
        name: "shared",
        about: "sessions that share one ledger, with a crash after every operation",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["shared", "--seconds", "10"] },
    },
    Stage {
        name: "disk",
        about: "the real journal, with every harm at every operation of its disk, and drawn ones",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["disk", "--seconds", "15"] },
    },
];

/// The long forms of stages, for a person who has the time: `cargo xtask soak NAME`. They use the programs that
/// `cargo xtask test --only faults` has built.
pub(crate) const SOAKS: &[Stage] = &[
    Stage {
        name: "simulator",
        about: "every pair of crashes in every pair of forms: five minutes",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["check"] },
    },
    Stage {
        name: "random",
        about: "drawn workloads with several faults each, for ten minutes",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["random", "--seconds", "600"] },
    },
    Stage {
        name: "liveness",
        about: "storms of faults, then peace, for ten minutes",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["liveness", "--seconds", "600"] },
    },
    Stage {
        name: "queue",
        about: "two million interleavings of messages",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["queue", "--cases", "2000000"] },
    },
    Stage {
        name: "shared",
        about: "sessions that share one ledger, for ten minutes",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["shared", "--seconds", "600"] },
    },
    Stage {
        name: "disk",
        about: "the real journal on a disk that fails, for ten minutes",
        cores: Cores::All,
        action: Action::Fault { program: "simulator", arguments: &["disk", "--seconds", "600"] },
    },
    Stage {
        name: "kills",
        about: "twice as many kills of the real binary, drawn from another seed",
        cores: Cores::All,
        action: Action::Plain {
            program: "kills",
            arguments: &[
                "--binary",
                "{ci}/faults/limulus",
                "--plain",
                "{ci}/limulus",
                "--kills",
                "200",
                "--random",
                "100",
                "--seed",
                "2",
            ],
        },
    },
    Stage {
        name: "journal-kills",
        about: "SIGKILL of a journal's owner for ten minutes",
        cores: Cores::All,
        action: Action::Plain { program: "journal-kills", arguments: &["--seconds", "600"] },
    },
    Stage {
        name: "serve-kills",
        about: "SIGKILL of `limulus serve` for ten minutes",
        cores: Cores::All,
        action: Action::Plain { program: "serve-kills", arguments: &["--seconds", "600"] },
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
    use super::{SOAKS, STAGES};

    #[test]
    fn stages_have_names_of_their_own() {
        for list in [STAGES, SOAKS] {
            for (index, stage) in list.iter().enumerate() {
                assert!(list[index + 1..].iter().all(|other| other.name != stage.name), "{}", stage.name);
            }
        }
    }

    /// What a long form proves the proof has in short, under the same name.
    #[test]
    fn every_long_form_has_a_stage() {
        for soak in SOAKS {
            assert!(STAGES.iter().any(|stage| stage.name == soak.name), "{}", soak.name);
        }
    }
}
