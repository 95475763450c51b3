//! The chores of the project, run as `cargo xtask COMMAND`: the whole proof, the rules of the house, and which test
//! shows which requirement. What may not live here: anything that the shipped binary needs.

mod faults;
mod log_tail;
mod manifest;
mod requirements;
mod rust_source;
mod suite;
mod tidy;
mod tree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The chores of Limulus.

Usage: cargo xtask COMMAND [FLAGS]

  test [--only STAGE]...         the whole proof: tidy, requirements, all tests, the fault build, simulator, kills
  soak [NAME]...                 the long forms of stages, minutes each; without a name all of them
  tidy                           the rules of the house: arrows, purity, sizes, docs
  requirements [--check|--json]  which test proves which requirement, and the command that shows it
";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Chore {
    Help,
    Test { only: Vec<String> },
    Soak { only: Vec<String> },
    Tidy,
    Requirements(requirements::Output),
}

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let chore = match parse(&arguments) {
        Ok(chore) => chore,
        Err(what) => {
            let _ = write!(io::stderr(), "xtask: {what}\n\n{HELP}{}", suite::help());
            return ExitCode::from(2);
        }
    };
    match perform(&chore, &root(), &mut io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader has left (`| head`): nothing to say, and nobody to say it to.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does it; true if all is well.
fn perform(chore: &Chore, root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    match chore {
        Chore::Help => write!(out, "{HELP}{}", suite::help()).map(|()| true),
        Chore::Test { only } => suite::run(root, suite::STAGES, only, out),
        Chore::Soak { only } => suite::run(root, suite::SOAKS, only, out),
        Chore::Tidy => tidy::run(root, out).map(|tally| tally.failed == 0),
        Chore::Requirements(output) => requirements::run(root, *output, out),
    }
}

fn parse(arguments: &[String]) -> Result<Chore, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Err("a command is missing".into()),
        words if words.iter().any(|word| matches!(*word, "--help" | "-h")) => Ok(Chore::Help),
        ["help"] => Ok(Chore::Help),
        ["test", flags @ ..] => parse_only(flags).map(|only| Chore::Test { only }),
        ["soak", names @ ..] => parse_soak(names).map(|only| Chore::Soak { only }),
        ["tidy"] => Ok(Chore::Tidy),
        ["requirements"] => Ok(Chore::Requirements(requirements::Output::Table)),
        ["requirements", "--check"] => Ok(Chore::Requirements(requirements::Output::Check)),
        ["requirements", "--json"] => Ok(Chore::Requirements(requirements::Output::Json)),
        ["tidy" | "requirements", rest @ ..] => Err(format!("not understood: {}", rest.join(" "))),
        [unknown, ..] => Err(format!("there is no command `{unknown}`")),
    }
}

fn parse_only(flags: &[&str]) -> Result<Vec<String>, String> {
    let mut only = vec![];
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let "--only" = *flag else { return Err(format!("`test` has no flag `{flag}`")) };
        let stage = flags.next().ok_or("--only wants the name of a stage")?;
        if !suite::STAGES.iter().any(|known| known.name == *stage) {
            return Err(format!("there is no stage `{stage}`"));
        }
        only.push((*stage).to_owned());
    }
    Ok(only)
}

fn parse_soak(names: &[&str]) -> Result<Vec<String>, String> {
    let unknown = names.iter().find(|name| !suite::SOAKS.iter().any(|known| known.name == **name));
    match unknown {
        Some(name) => Err(format!("`soak` has no `{name}`")),
        None => Ok(names.iter().map(|name| (*name).to_owned()).collect()),
    }
}

/// The project's root: the folder that holds the one of this crate.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("the crate xtask lies in the workspace's root").to_owned()
}

/// How many checks held and how many did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// The tally of one check.
    fn of(holds: bool) -> Self {
        Self { passed: u64::from(holds), failed: u64::from(!holds) }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

#[cfg(test)]
mod tests {
    use super::{Chore, parse, requirements};

    fn parsed(line: &str) -> Result<Chore, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_and_flags_are_understood() {
        assert_eq!(parsed("tidy"), Ok(Chore::Tidy));
        assert_eq!(parsed("requirements --check"), Ok(Chore::Requirements(requirements::Output::Check)));
        assert_eq!(parsed("test --only tidy"), Ok(Chore::Test { only: vec!["tidy".into()] }));
        assert_eq!(parsed("test --help"), Ok(Chore::Help));
        assert_eq!(parsed("soak random"), Ok(Chore::Soak { only: vec!["random".into()] }));
    }

    #[test]
    fn what_is_unknown_is_named() {
        for (line, named) in [
            ("", "missing"),
            ("polish", "`polish`"),
            ("tidy --fast", "--fast"),
            ("requirements --yaml", "--yaml"),
            ("test --quick", "`--quick`"),
            ("test --only", "--only"),
            ("test --only nothing", "`nothing`"),
            ("soak tidy", "`tidy`"),
        ] {
            let error = parsed(line).expect_err(line);
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
