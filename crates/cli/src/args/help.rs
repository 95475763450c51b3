//! The commands in groups, as `limulus --help` shows them, and examples for the help of each command.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::{StyledStr, Styles};

/// The groups: a heading starts at the beginning of its line. Made from [`GROUPS`] and the definition of the commands.
pub(crate) const LIST: &str = include_str!("help.txt");

/// Each command, in one group.
#[cfg(test)]
const GROUPS: &[(&str, &[&str])] = &[
    ("Work", &["agent", "send", "resume", "diff", "undo", "redo"]),
    ("Look", &["status", "sessions", "agents", "prompt", "receipt", "events", "usage"]),
    (
        "Control",
        &[
            "runs",
            "queue",
            "deliveries",
            "approvals",
            "answer",
            "sandbox",
            "budget",
            "profiles",
            "serve",
            "gateway",
            "backup",
            "restore",
        ],
    ),
    ("Settings", &["setup", "config", "policy", "models", "skills", "completions", "man"]),
    ("Proofs", &["doctor", "audit", "demo", "failover", "graph"]),
];

/// One to three examples of each command that can be given as it is.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "agent",
        &[
            "limulus agent -m \"What is in this folder?\"",
            "limulus agent --continue -m \"Now fix it\"",
            "limulus agent --stop-before edit,exec -m \"Fix the failing test\"",
        ],
    ),
    (
        "send",
        &[
            "limulus send \"Use the other port\"",
            "limulus send --session review --mode followup \"Then run the tests\"",
        ],
    ),
    ("resume", &["limulus resume", "limulus resume review"]),
    ("diff", &["limulus diff", "limulus diff --last 3"]),
    ("undo", &["limulus undo", "limulus undo --dry-run", "limulus undo --files src"]),
    ("redo", &["limulus redo"]),
    ("status", &["limulus status", "limulus status --json"]),
    ("sessions list", &["limulus sessions list", "limulus sessions list --search \"flaky test\""]),
    ("sessions show", &["limulus sessions show", "limulus sessions show review --json"]),
    ("sessions context", &["limulus sessions context", "limulus sessions context review --dropped"]),
    ("sessions export", &["limulus sessions export > conversation.md", "limulus sessions export review --json"]),
    ("sessions rename", &["limulus sessions rename review \"Review of the parser\""]),
    ("sessions archive", &["limulus sessions archive review"]),
    ("sessions delete", &["limulus sessions delete review"]),
    ("sessions compact", &["limulus sessions compact", "limulus sessions compact review --focus \"the open bugs\""]),
    ("sessions cleanup", &["limulus sessions cleanup", "limulus sessions cleanup --enforce"]),
    ("sessions end", &["limulus sessions end review"]),
    ("agents list", &["limulus agents list"]),
    ("prompt", &["limulus prompt", "limulus prompt --session review", "limulus prompt --check"]),
    ("skills list", &["limulus skills list"]),
    ("skills show", &["limulus skills show code-review"]),
    ("skills check", &["limulus skills check", "limulus skills check ./code-review"]),
    ("skills add", &["limulus skills add ./code-review", "limulus skills add --project ./code-review"]),
    ("approvals list", &["limulus approvals list", "limulus approvals list review --json"]),
    ("approvals show", &["limulus approvals show 3f2a"]),
    (
        "approvals approve",
        &[
            "limulus approvals approve 3f2a",
            "limulus approvals approve 3f2a --always session --pattern \"git log *\"",
            "limulus approvals approve 3f2a --edit",
        ],
    ),
    ("approvals deny", &["limulus approvals deny 3f2a --reason \"use cargo instead\""]),
    ("approvals grants", &["limulus approvals grants"]),
    ("gateway status", &["limulus gateway status"]),
    ("gateway token", &["limulus gateway token"]),
    ("gateway token rotate", &["limulus gateway token rotate"]),
    ("gateway token show", &["limulus gateway token show"]),
    (
        "gateway token create",
        &[
            "limulus gateway token create grafana --scope read",
            "limulus gateway token create ci --scope read,write --days 90",
        ],
    ),
    ("gateway token list", &["limulus gateway token list"]),
    ("gateway token revoke", &["limulus gateway token revoke grafana"]),
    ("gateway devices list", &["limulus gateway devices list"]),
    (
        "gateway devices approve",
        &["limulus gateway devices approve 1c9e5b07a2d4", "limulus gateway devices approve 3f2a --scope read"],
    ),
    ("gateway devices revoke", &["limulus gateway devices revoke 3f2a"]),
    ("backup", &["limulus backup ~/limulus.backup", "limulus backup --json ~/limulus.backup"]),
    ("restore", &["limulus restore ~/limulus.backup"]),
    ("sandbox check", &["limulus sandbox check"]),
    ("sandbox run", &["limulus sandbox run -- sh -c \"touch /etc/x\""]),
    ("answer", &["limulus answer", "limulus answer 3f2a 2", "limulus answer 3f2a --skip"]),
    ("approvals revoke", &["limulus approvals revoke 3f2a"]),
    ("policy list", &["limulus policy list"]),
    ("policy explain", &["limulus policy explain exec \"git push\"", "limulus policy explain write src/main.rs"]),
    ("policy trust", &["limulus policy trust", "limulus policy trust ~/src/proj"]),
    ("policy untrust", &["limulus policy untrust"]),
    ("receipt", &["limulus receipt deploy-42"]),
    ("events", &["limulus events --follow", "limulus events review"]),
    ("usage", &["limulus usage", "limulus usage --by day"]),
    ("runs list", &["limulus runs list --limit 10", "limulus runs list review"]),
    ("runs show", &["limulus runs show", "limulus runs show 0198 --json"]),
    ("runs trace", &["limulus runs trace", "limulus runs trace review"]),
    ("runs explain", &["limulus runs explain"]),
    ("runs pause", &["limulus runs pause", "limulus runs pause --freeze"]),
    ("runs resume", &["limulus runs resume", "limulus runs resume review"]),
    ("runs break", &["limulus runs break --before-tool exec", "limulus runs break --clear"]),
    (
        "runs steer",
        &["limulus runs steer \"Use the other port\"", "limulus runs steer --session review \"Stop after this file\""],
    ),
    ("runs abort", &["limulus runs abort", "limulus runs abort --session review --clear"]),
    ("runs watch", &["limulus runs watch", "limulus runs watch review"]),
    ("runs wait", &["limulus runs wait --timeout 600"]),
    ("queue list", &["limulus queue list", "limulus queue --table"]),
    ("queue cancel", &["limulus queue cancel 0198"]),
    ("queue clear", &["limulus queue clear review"]),
    ("queue mode", &["limulus queue mode review collect"]),
    ("deliveries list", &["limulus deliveries list"]),
    ("deliveries retry", &["limulus deliveries retry 0198"]),
    ("deliveries drop", &["limulus deliveries drop 0198"]),
    ("budget show", &["limulus budget show", "limulus budget show review"]),
    ("budget set", &["limulus budget set review --tokens 500000", "limulus budget set --day --cost 20"]),
    ("profiles list", &["limulus profiles list"]),
    ("profiles use", &["limulus profiles use openai/work"]),
    ("profiles clear", &["limulus profiles clear"]),
    ("serve", &["limulus serve", "limulus serve --unit systemd > ~/.config/systemd/user/limulus.service"]),
    ("setup", &["limulus setup", "limulus setup --provider deepseek", "limulus setup --yes"]),
    ("config show", &["limulus config show --origin", "limulus config show --changed"]),
    ("config get", &["limulus config get tools.exec.policy", "limulus config get providers.acme --json"]),
    (
        "config set",
        &[
            "limulus config set tools.exec.policy allow",
            "limulus config set agents.main.model anthropic/claude-sonnet-5",
            "limulus config set agents.main.fallbacks '[\"offline/offline\"]'",
        ],
    ),
    ("config unset", &["limulus config unset tools.exec.policy"]),
    ("config edit", &["limulus config edit"]),
    ("config check", &["limulus config check"]),
    ("config path", &["limulus config path"]),
    ("config schema", &["limulus config schema > config.schema.json"]),
    ("config init", &["limulus config init", "limulus config init --print"]),
    ("models list", &["limulus models list", "limulus models list --search \"claude haiku\""]),
    ("models check", &["limulus models check anthropic/claude-sonnet-5"]),
    (
        "completions",
        &[
            "limulus completions bash > ~/.local/share/bash-completion/completions/limulus",
            "limulus completions zsh > \"${fpath[1]}/_limulus\"",
            "limulus completions fish > ~/.config/fish/completions/limulus.fish",
        ],
    ),
    ("man", &["limulus man | man -l -", "limulus man --dir ~/.local/share/man/man1"]),
    ("doctor", &["limulus doctor", "limulus doctor --repair views"]),
    ("audit", &["limulus audit", "limulus audit review --verify"]),
    ("demo", &["limulus demo"]),
    ("failover", &["limulus failover"]),
    ("graph", &["limulus graph", "limulus graph --format dot | dot -Tsvg > graph.svg"]),
];

/// The template of the first help.
pub(super) fn template() -> StyledStr {
    let styles = Styles::default();
    let (heading, name) = (styles.get_header(), styles.get_literal());
    let mut text = StyledStr::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n");
    // Writing to a text cannot fail.
    for line in LIST.lines() {
        let _ = match line.strip_prefix("  ").map(|line| line.split_at(line.find(' ').unwrap_or(line.len()))) {
            None => writeln!(text, "{heading}{line}{heading:#}"),
            Some(("", rest)) => writeln!(text, "  {rest}"),
            Some((command, rest)) => writeln!(text, "  {name}{command}{name:#}{rest}"),
        };
    }
    let _ = write!(text, "\n{heading}Options:{heading:#}\n{{options}}{{after-help}}");
    text
}

/// The command with its examples, and so all commands in it. Only help and manual pages show them, and every start would pay.
pub(super) fn with_examples(command: Command) -> Command {
    if !are_shown() {
        return command;
    }
    let name = command.get_name().to_owned();
    examples_under(command, &name)
}

fn are_shown() -> bool {
    cfg!(test) || std::env::args_os().any(|word| ["-h", "--help", "help", "man"].iter().any(|asks| word == *asks))
}

fn examples_under(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        examples_under(inner, &path)
    });
    let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == path) else { return command };
    let heading = if examples.len() == 1 { "Example:" } else { "Examples:" };
    let text = format!("{heading}\n  {}", examples.join("\n  "));
    let before = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    command.after_help(before + &text)
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::args::Cli;

    /// The columns of a terminal.
    const COLUMNS: usize = 80;

    fn list(program: &Command) -> String {
        let about = |name: &str| program.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        let widest = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap();
        let groups = GROUPS.iter().map(|(heading, names)| {
            let lines = names.iter().map(|name| {
                let about = about(name).unwrap_or_else(|| panic!("there is no command {name}"));
                let mut lines = vec![format!("  {name:widest$} ")];
                for word in about.split(' ') {
                    if lines.last().unwrap().chars().count() + 1 + word.chars().count() > COLUMNS {
                        lines.push(" ".repeat(widest + 3));
                    }
                    lines.last_mut().unwrap().extend([" ", word]);
                }
                lines.join("\n") + "\n"
            });
            format!("{heading}:\n{}", lines.collect::<String>())
        });
        groups.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn r61_every_command_is_in_exactly_one_group_of_the_help() {
        let program = Cli::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut all: Vec<&str> =
            program.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
        let list = list(&program);
        if env::var_os("UPDATE").is_some() {
            fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/args/help.txt"), &list).unwrap();
        } else {
            assert_eq!(LIST, list, "UPDATE=1 writes it");
        }
    }

    #[test]
    fn r61_the_short_and_the_long_help_show_the_groups() {
        for flag in ["-h", "--help"] {
            let help = Cli::try_parse_from(["limulus", flag]).unwrap_err().to_string();
            assert!(
                help.contains(LIST) && help.contains("\nOptions:\n      --color <WHEN>") && !help.contains("Commands:"),
                "{help}"
            );
            assert!(help.starts_with("Run durable AI agents") && help.contains("\nUsage: limulus "), "{help}");
        }
    }

    fn commands<'a>(of: &'a Command, path: &str, into: &mut Vec<(String, &'a Command)>) {
        for command in of.get_subcommands().filter(|command| !command.is_hide_set()) {
            let path = format!("{path} {}", command.get_name()).trim().to_owned();
            commands(command, &path, into);
            into.push((path, command));
        }
    }

    /// The words of an example up to its pipe or its file, as a shell takes them apart. What stands before a pipe into limulus is
    /// no part of it.
    fn words(example: &str) -> Vec<String> {
        let own = example.split(" | ").find(|part| part.starts_with("limulus ")).unwrap_or_else(|| panic!("{example}"));
        let own = own.split(" > ").next().unwrap();
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in own.chars() {
            match (quote, c) {
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), c) if open == c => quote = None,
                (None, ' ') => words.push(String::new()),
                (_, c) => words.last_mut().unwrap().push(c),
            }
        }
        words
    }

    #[test]
    fn r61_every_command_has_examples_that_can_be_given_as_they_are() {
        let program = Cli::command();
        let mut all = vec![];
        commands(&program, "", &mut all);
        for (path, _) in EXAMPLES {
            assert!(all.iter().any(|(of, _)| of == path), "there is no command {path}");
        }
        for (path, command) in all.iter().filter(|(_, command)| !command.has_subcommands()) {
            let examples = EXAMPLES.iter().filter(|(of, _)| of == path).flat_map(|(_, examples)| *examples);
            let examples: Vec<&str> = examples.copied().collect();
            assert!((1..=3).contains(&examples.len()), "{path} has {} examples", examples.len());
            let help = (*command).clone().render_long_help().to_string();
            for example in examples {
                assert!(help.contains(&format!("\n  {example}")), "{example} is not in the help of {path}: {help}");
                let words = words(example);
                let is_of_it = path.split(' ').zip(&words[1..]).all(|(part, word)| part == word);
                assert!(is_of_it || example == "limulus queue --table", "{example} is no example of {path}");
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
