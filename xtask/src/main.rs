//! The tasks of the project, run as `cargo xtask COMMAND`: the whole proof, the project's own rules, and the list of
//! requirements with their tests. What may not live here: anything that the shipped binary needs.

mod log_tail;
mod manifest;
mod package;
mod requirements;
mod rust_source;
mod scratch;
mod suite;
mod tidy;
mod tree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Run the tasks of the project.

Usage: cargo xtask COMMAND [FLAGS]

  test [--only STAGE]...         Run the whole proof: tidy, requirements, all tests, simulator, kills
  soak [NAME]...                 Run the long forms of stages, minutes each; without a name all of them
  tidy                           Check the project's own rules: arrows, purity, sizes, docs
  package [--binary FILE] [--out DIR] [--texts-from FILE] [--url ADDRESS]
                                 Make an archive, a Debian package, installer and checksums of a built program
  requirements [--check|--json]  Print which test proves which requirement, and the command that shows it
";

/// A command of the command line.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Help,
    Test { only: Vec<String> },
    Soak { only: Vec<String> },
    Tidy,
    Requirements(requirements::Output),
    Package(package::Wanted),
}

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let task = match parse(&arguments) {
        Ok(task) => task,
        Err(what) => {
            let _ = write!(io::stderr(), "xtask: {what}\n\n{HELP}{}", suite::help());
            return ExitCode::from(2);
        }
    };
    match perform(&task, &root(), &mut io::stdout()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader has closed the pipe (`| head`): nobody would read a message.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a task. Returns whether every check held.
fn perform(task: &Task, root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    match task {
        Task::Help => write!(out, "{HELP}{}", suite::help()).map(|()| true),
        Task::Test { only } => suite::run(root, suite::STAGES, suite::STAGE_LIMIT, only, out),
        Task::Soak { only } => suite::run(root, suite::SOAKS, suite::SOAK_LIMIT, only, out),
        Task::Tidy => tidy::run(root, out).map(|tally| tally.failed == 0),
        Task::Requirements(output) => requirements::run(root, *output, out),
        Task::Package(wanted) => package::run(root, wanted, out),
    }
}

fn parse(arguments: &[String]) -> Result<Task, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Err("a command is missing".into()),
        words if words.iter().any(|word| matches!(*word, "--help" | "-h")) => Ok(Task::Help),
        ["help"] => Ok(Task::Help),
        ["test", flags @ ..] => parse_only(flags).map(|only| Task::Test { only }),
        ["soak", names @ ..] => parse_soak(names).map(|only| Task::Soak { only }),
        ["package", flags @ ..] => package::parse(flags).map(Task::Package),
        ["tidy"] => Ok(Task::Tidy),
        ["requirements"] => Ok(Task::Requirements(requirements::Output::Table)),
        ["requirements", "--check"] => Ok(Task::Requirements(requirements::Output::Check)),
        ["requirements", "--json"] => Ok(Task::Requirements(requirements::Output::Json)),
        ["tidy" | "requirements", rest @ ..] => Err(format!("unknown arguments: {}", rest.join(" "))),
        [unknown, ..] => Err(format!("there is no command `{unknown}`")),
    }
}

fn parse_only(flags: &[&str]) -> Result<Vec<String>, String> {
    let mut only = vec![];
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let "--only" = *flag else { return Err(format!("`test` has no flag `{flag}`")) };
        let stage = flags.next().ok_or("--only needs the name of a stage")?;
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

/// The root of the project: the parent of this crate's folder.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("the crate xtask lies in the workspace's root").to_owned()
}

/// The target folder of cargo. This program is in a folder of it, of any profile.
fn target_folder() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.ancestors().nth(2).expect("cargo puts a program two folders below the root of the file system").to_owned())
}

/// The number of checks that held and of those that did not.
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
    use super::{Task, parse, requirements};

    fn parsed(line: &str) -> Result<Task, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_and_flags_are_parsed() {
        assert_eq!(parsed("tidy"), Ok(Task::Tidy));
        assert_eq!(parsed("requirements --check"), Ok(Task::Requirements(requirements::Output::Check)));
        assert_eq!(parsed("test --only tidy"), Ok(Task::Test { only: vec!["tidy".into()] }));
        assert_eq!(parsed("test --help"), Ok(Task::Help));
        assert_eq!(parsed("soak random"), Ok(Task::Soak { only: vec!["random".into()] }));
    }

    #[test]
    fn an_unknown_argument_is_reported() {
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
