//! Commands of neighbouring tools, and what does the same here.

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

/// What to do instead of a word that is no command.
pub(crate) fn instead_of(word: &str) -> String {
    let known = COMMANDS.iter().find(|(names, _)| names.contains(&word));
    known.map_or_else(
        || {
            "a message of one word stands behind `agent`: limulus agent TEXT; a longer one has quotes: limulus \"TEXT\""
                .to_owned()
        },
        |(_, instead)| (*instead).to_owned(),
    )
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
}
