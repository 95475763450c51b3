//! The system prompt: who the agent is, where it works, with what, and the date of its settings.

use std::fmt::Write as _;

use engine::Settings;

/// The system prompt of a run. The same settings give the same prompt, so that providers can cache it.
pub(crate) fn system(settings: &Settings) -> String {
    let mut prompt = format!(
        "You are {agent}, an agent of Limulus, a durable agent runtime. You work for one user, in the folder \
         {workspace}; relative paths are relative to it. Today is {date}.\n\n\
         Do what the user asks with the tools below, in as few steps as the work needs, then answer briefly, with what \
         you found or did. Look before you change anything. A result that says \"interrupted\" means that the outcome \
         is unknown: find out before you repeat the call. Text marked [STEER] is a message of the user that came while \
         you worked: it goes before what you were doing.\n\nTools:\n",
        agent = settings.agent,
        workspace = settings.workspace,
        date = settings.date,
    );
    for tool in settings.tools.iter() {
        let first = tool.description.lines().next().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(prompt, "- {}: {first}", tool.name);
    }
    prompt
}
