//! Old names on the command line are read as those of today, and each old name is warned about once by a process.

use std::ffi::{OsStr, OsString};

use config::{Config, ConfigError, FlagValues, Globals, fresh};
use protocol::deprecated::{Deprecated, Surface};

use crate::output::say;

/// Loads the configuration of this command and warns about old names in it.
pub(crate) fn load(globals: &Globals, flags: FlagValues) -> Result<Config, ConfigError> {
    let config = globals.load(flags)?;
    warn(config.deprecated());
    Ok(config)
}

/// Prints warnings on stderr, each once.
pub(crate) fn warn(warnings: &[String]) {
    for warning in fresh(warnings) {
        say!("limulus: {warning}");
    }
}

/// The words of this process by the names of today; warns about each old name among them.
pub(crate) fn arguments() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    // The help repeats the name of the program, which is any text that whoever started it wrote.
    words.splice(..words.len().min(1), [OsString::from("limulus")]);
    let (words, old) = renamed(words);
    warn(&old.iter().map(ToString::to_string).collect::<Vec<_>>());
    words
}

/// The words by the names of today, with the rows of those that were old. The first word is the program.
fn renamed(mut words: Vec<OsString>) -> (Vec<OsString>, Vec<&'static Deprecated>) {
    let mut old = vec![];
    for row in Deprecated::of(Surface::Command) {
        let (from, to): (Vec<&str>, Vec<&str>) = (row.old.split(' ').collect(), row.new.split(' ').collect());
        if starts_with(&words[1..], &from) {
            words.splice(1..=from.len(), to.into_iter().map(OsString::from));
            old.push(row);
        }
    }
    for row in Deprecated::of(Surface::Flag).chain(Deprecated::of(Surface::Argument)) {
        // `COMMAND --FLAG` or `COMMAND --FLAG ARGUMENT`.
        let parts = |text: &'static str| text.split_once(" --").expect("a row of a flag names its command");
        let ((command, from), (_, to)) = (parts(row.old), parts(row.new));
        let command: Vec<&str> = command.split(' ').collect();
        if !starts_with(&words[1..], &command) {
            continue;
        }
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        for at in command.len() + 1..end {
            old.extend(rename(&mut words[at..end], from, to).then_some(row));
        }
    }
    (words, old)
}

fn starts_with(words: &[OsString], command: &[&str]) -> bool {
    words.len() >= command.len() && words.iter().zip(command).all(|(word, part)| word == part)
}

/// Renames the flag that the first of these words is, or the argument that follows it; says whether it did.
fn rename(words: &mut [OsString], from: &str, to: &str) -> bool {
    let Some((flag, value)) = words[0].to_str().and_then(|word| word.strip_prefix("--")).map(|word| {
        word.split_once('=').map_or((word.to_owned(), None), |(flag, value)| (flag.to_owned(), Some(value.to_owned())))
    }) else {
        return false;
    };
    match (from.split_once(' '), to.split_once(' ')) {
        (Some((old_flag, old)), Some((_, new))) if flag == old_flag => match value {
            Some(value) if value == old => words[0] = format!("--{flag}={new}").into(),
            None if words.get(1).is_some_and(|word| word == OsStr::new(old)) => words[1] = new.into(),
            _ => return false,
        },
        (None, None) if flag == from => {
            words[0] = value.map_or(format!("--{to}"), |value| format!("--{to}={value}")).into();
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn old_commands_flags_and_arguments_are_read_as_those_of_today() {
        let check = |typed: &str, meant: &str, number: usize| {
            let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            let (found, old) = renamed(words(typed));
            assert_eq!((found.clone(), old.len()), (words(meant), number), "{typed}");
            Cli::try_parse_from(found).unwrap();
        };
        check("limulus recovery --table", "limulus failover --table", 1);
        check("limulus doctor --mend wal --yes", "limulus doctor --repair wal --yes", 1);
        check("limulus doctor --json --mend=rescue", "limulus doctor --json --repair=export", 2);
        check("limulus doctor --mend rescue --yes", "limulus doctor --repair export --yes", 2);
        check("limulus doctor --repair rescue", "limulus doctor --repair export", 1);
        check("limulus agent -m recovery", "limulus agent -m recovery", 0);
        check("limulus agent -m x --session rescue", "limulus agent -m x --session rescue", 0);
        check("limulus status", "limulus status", 0);
    }
}
