//! Commands and options of neighbouring tools, and what does the same here.

/// Each with what is done here instead.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["chat"],
        "`limulus -c \"TEXT\"` continues the conversation of this folder; a chat on the whole terminal is not there yet",
    ),
    (&["login", "auth"], "`limulus setup` connects a model with its key"),
    (&["mcp"], "MCP servers are not there yet"),
    (&["logs", "log"], "`limulus runs trace` shows every step of a run, `limulus events` every event of the home"),
    (
        &["run", "ask", "exec"],
        "`limulus \"TEXT\"` sends a message and follows its run; `--yes` approves what it asks for",
    ),
    (&["init"], "`limulus setup` connects a model, `limulus config init` writes a configuration"),
    (&["update", "upgrade"], "Limulus does not update itself: install the new version as you installed this one"),
];

/// Options of neighbouring tools, each with what does the same here.
const OPTIONS: &[(&[&str], &str)] = &[
    (
        &[
            "--yolo",
            "--full-auto",
            "--auto-approve",
            "--allow-all-tools",
            "--dangerously-skip-permissions",
            "--dangerously-bypass-approvals-and-sandbox",
        ],
        "`--yes` approves what the run asks for; what is denied stays denied",
    ),
    (
        &["--api-key"],
        "a key does not belong on a command line: `limulus setup` takes it, or the variable of the provider",
    ),
    (&["--provider"], "`--model PROVIDER/MODEL` names both"),
    (
        &["--think", "--effort", "--reasoning-effort"],
        "`--thinking LEVEL` is for one message, `/think LEVEL` in a message for its session, `agents.main.thinking` for new ones",
    ),
    (&["--output-format"], "`--json` prints one JSON object a line"),
    (
        &["--message-file", "--prompt-file"],
        "a file is piped (limulus < FILE); `--attach FILE` sends one with a message",
    ),
    (&["--resume"], "`limulus resume` resumes what is unfinished, `-c` continues the conversation of this folder"),
    (&["--cd", "--cwd", "--dir", "--directory", "-C"], "`--workspace DIR` is the folder to work in"),
    (&["--print"], "`limulus \"TEXT\"` prints the answer and ends, and so does `-p TEXT`"),
    (&["--append-system-prompt"], "`--append-system TEXT` adds to the system prompt; instructions are in AGENTS.md"),
    (
        &["--system-prompt", "--system-prompt-file"],
        "`--system FILE` has a system prompt of your own; instructions are in AGENTS.md",
    ),
    (&["--sandbox"], "commands have a sandbox: `sandbox.mode` says which, `--no-sandbox` leaves it out"),
];

/// What to do instead of a word that is no command, and whether this answers a neighbouring tool. The words after it may be the
/// rest of a message.
pub(crate) fn instead_of(word: &str, rest: &[&str]) -> (String, bool) {
    if let Some((_, instead)) = COMMANDS.iter().find(|(names, _)| names.contains(&word)) {
        return ((*instead).to_owned(), true);
    }
    let instead = if !rest.is_empty() && rest.iter().all(|word| !word.starts_with('-')) {
        format!("a message has quotes: limulus \"{word} {}\"", rest.join(" "))
    } else {
        "a message of one word stands behind `agent`: limulus agent TEXT; a longer one has quotes: limulus \"TEXT\""
            .to_owned()
    };
    (instead, false)
}

/// What to do instead of an option that is not here.
pub(crate) fn instead_of_option(option: &str) -> Option<&'static str> {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    OPTIONS.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn r24_no_command_of_a_neighbouring_tool_is_one_here() {
        let here = Cli::command();
        for name in COMMANDS.iter().flat_map(|(names, _)| *names) {
            assert!(here.find_subcommand(name).is_none(), "{name}");
        }
    }

    #[test]
    fn r24_no_option_of_a_neighbouring_tool_is_one_here() {
        let here = Cli::command();
        let agent = here.find_subcommand("agent").expect("there is such a command");
        for name in OPTIONS.iter().flat_map(|(names, _)| *names) {
            let is_it = |arg: &clap::Arg| {
                arg.get_long().is_some_and(|long| format!("--{long}") == *name)
                    || arg.get_short().is_some_and(|short| format!("-{short}") == *name)
            };
            assert!(!agent.get_arguments().any(is_it), "{name}");
        }
    }
}
