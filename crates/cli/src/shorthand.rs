//! A message without a command: `limulus "fix the bug"` and `limulus --yes -p "fix it"` are read as `limulus agent …`. A single
//! word where a command is expected is never a message, so that a mistyped command starts no run.

use std::ffi::{OsStr, OsString};

use clap::{Args as _, CommandFactory as _};

use crate::args::Cli;
use crate::commands::agent::AgentArgs;
use crate::commands::message;
use crate::error::CliError;

const AGENT: &str = "agent";

/// What stands where a command is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// A command, or what may be a mistyped one, at this index; whether options of `agent` come before it.
    Word { at: usize, has_options: bool },
    /// A message, or options of `agent` only.
    Message,
    /// A request for the help or the version.
    Help,
    /// Nothing.
    Nothing,
}

/// The words of the command line with the command that they leave out. With no words, a text on stdin is the message.
pub(crate) fn completed(words: Vec<OsString>) -> Result<Vec<OsString>, CliError> {
    if beginning(&words) == Beginning::Nothing
        && let Some(text) = message::piped()?
    {
        let message = format!("--message={text}");
        return Ok(words.into_iter().chain([AGENT.into(), "--no-stdin".into(), message.into()]).collect());
    }
    Ok(with_agent(words))
}

/// The same without a look at stdin. The first word is the program.
fn with_agent(mut words: Vec<OsString>) -> Vec<OsString> {
    match beginning(&words) {
        Beginning::Message => words.insert(1, AGENT.into()),
        // The mistake is the word, not the options before it.
        Beginning::Word { at, has_options: true } if !is_command(&words[at]) => {
            words.drain(1..at);
        }
        Beginning::Word { .. } | Beginning::Help | Beginning::Nothing => {}
    }
    words
}

fn beginning(words: &[OsString]) -> Beginning {
    let mut options = None;
    let (mut at, mut has_options, mut has_message) = (1, false, false);
    while let Some(word) = words.get(at) {
        let is_end = word == "--";
        if is_end || !word.as_encoded_bytes().starts_with(b"-") {
            let at = at + usize::from(is_end);
            return match words.get(at) {
                Some(word) if has_blank(word) || is_chat_command(word) || has_message => Beginning::Message,
                Some(_) => Beginning::Word { at, has_options },
                None if has_options => Beginning::Message,
                None => Beginning::Nothing,
            };
        }
        if matches!(word.to_str(), Some("-h" | "--help" | "-V" | "--version")) && !has_options {
            return Beginning::Help;
        }
        let option = options.get_or_insert_with(Options::of_agent).find(word);
        has_options |= option.is_agents;
        has_message |= option.is_message;
        at += 1 + usize::from(option.takes_next);
    }
    if has_options { Beginning::Message } else { Beginning::Nothing }
}

fn has_blank(word: &OsStr) -> bool {
    word.to_string_lossy().contains(char::is_whitespace)
}

/// A word such as `/undo`: no command begins with a slash, and no path is one.
fn is_chat_command(word: &OsStr) -> bool {
    let name = word.to_str().and_then(|word| word.strip_prefix('/'));
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'))
}

fn is_command(word: &OsStr) -> bool {
    let is_named = |command: &clap::Command| command.get_name_and_visible_aliases().iter().any(|name| word == *name);
    word == "help" || Cli::command().get_subcommands().any(is_named)
}

/// The options of `agent`.
struct Options(clap::Command);

/// A word of options.
#[derive(Debug, Clone, Copy, Default)]
struct Flag {
    is_agents: bool,
    is_message: bool,
    /// Whether the next word is its value.
    takes_next: bool,
}

impl Options {
    fn of_agent() -> Self {
        Self(AgentArgs::augment_args(clap::Command::new(AGENT)))
    }

    fn find(&self, word: &OsStr) -> Flag {
        let word = word.to_string_lossy();
        let Some(long) = word.strip_prefix("--") else { return self.short(&word[1..]) };
        let (name, has_value) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
        // `--color` belongs to every command.
        if name == "color" {
            return Flag { takes_next: !has_value, ..Flag::default() };
        }
        let is_it = |arg: &&clap::Arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
        };
        self.0.get_arguments().find(is_it).map_or_else(Flag::default, |arg| of(arg, has_value))
    }

    /// The letters of `-vm TEXT` or `-vmTEXT`.
    fn short(&self, letters: &str) -> Flag {
        let mut found = Flag::default();
        for (at, letter) in letters.char_indices() {
            let is_it = |arg: &&clap::Arg| {
                let aliases = arg.get_all_short_aliases();
                arg.get_short() == Some(letter) || aliases.is_some_and(|aliases| aliases.contains(&letter))
            };
            let Some(arg) = self.0.get_arguments().find(is_it) else { break };
            found = of(arg, letters.len() > at + letter.len_utf8());
            // What follows is its value.
            if arg.get_action().takes_values() {
                break;
            }
        }
        found
    }
}

fn of(arg: &clap::Arg, has_value: bool) -> Flag {
    let takes_next = arg.get_action().takes_values() && !has_value;
    Flag { is_agents: true, is_message: arg.get_id() == "message", takes_next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<OsString> {
        ["limulus"].iter().chain(line).map(OsString::from).collect()
    }

    #[test]
    fn r61_a_message_needs_no_command() {
        for line in [
            &["fix the bug"][..],
            &["修复 这个错误"],
            &["a\u{3000}b"],
            &["two\nlines"],
            &["--yes", "fix it"],
            &["fix it", "--yes"],
            &["-c", "go on"],
            &["-vc", "go on"],
            &["--color", "never", "fix it"],
            &["--color=never", "fix it"],
            &["--model", "acme/large", "fix it"],
            &["--model=acme/large", "fix it"],
            &["--attach", "a", "--attach", "b c", "fix it"],
            &["--", "- fix it"],
            &["--bogus", "fix it"],
            &["-p", "fix"],
            &["-pfix"],
            &["-vp", "fix"],
            &["--prompt=fix"],
            &["--prompt", "fix"],
            &["-m", "fix", "--yes"],
            &["--yes", "-p", "fix"],
            &["-p", "fix it", "status"],
            &["--stdin"],
            &["-c"],
            &["-c", "--help"],
            &["/undo"],
            &["--json", "/exit"],
        ] {
            let meant = [&["agent"], line].concat();
            assert_eq!(with_agent(words(line)), words(&meant), "{line:?}");
        }
    }

    #[test]
    fn r24_a_single_word_is_never_a_message() {
        for line in [
            &[][..],
            &["status"],
            &["fix"],
            &["sttaus", "two words"],
            &["修复这个错误"],
            &[""],
            &["agent", "fix it"],
            &["help", "agent"],
            &["--help"],
            &["-V", "fix it"],
            &["--color", "never"],
            &["--color", "never", "status"],
            &["--color", "never", "fix"],
            &["--", "fix"],
            &["--yes", "status"],
            &["--"],
            &["/"],
            &["/etc/hosts"],
        ] {
            assert_eq!(with_agent(words(line)), words(line), "{line:?}");
        }
        // The options are not what is wrong.
        assert_eq!(with_agent(words(&["--yes", "--model", "a b", "fix", "it"])), words(&["fix", "it"]));
        assert_eq!(beginning(&words(&["--color", "never"])), Beginning::Nothing);
    }

    #[cfg(unix)]
    #[test]
    fn r24_a_word_that_is_not_utf8_is_left_to_the_parser() {
        use std::os::unix::ffi::OsStringExt as _;
        let odd = OsString::from_vec(b"-\xff\xfe".to_vec());
        let line = vec!["limulus".into(), odd.clone(), "status".into()];
        assert_eq!(with_agent(line.clone()), line);
        assert_eq!(beginning(&[OsString::from("limulus"), odd]), Beginning::Nothing);
    }
}
