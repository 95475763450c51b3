//! What is decided about an act of a call that no rule matches: a row for each class of acts. The checks of calls obey the table,
//! `limulus policy list` and `limulus policy explain` name its rows, and docs/policy.md shows it.

use super::transitions::named;
use crate::settings::{Policy, Settings};
use serde::{Deserialize, Serialize};

named! {
    /// What an act of a call is to the policy: what it does, and where.
    ActClass {
        /// It reads a file inside the workspace.
        ReadInside = "read_inside",
        /// It changes a file inside the workspace.
        ChangeInside = "change_inside",
        /// It reads or changes a file outside the workspace.
        Outside = "outside",
        /// It changes a file that other programs run or load. That is decided beside where the file is; the stricter decision counts.
        ExecutedFile = "executed_file",
        /// It runs a command in a sandbox that holds.
        RunConfined = "run_confined",
        /// It runs a command in any other way, or writes to one that runs.
        Run = "run",
        /// A command reaches something beyond its sandbox.
        Exit = "exit",
        /// It requests something from the web.
        Fetch = "fetch",
        /// It does something else, by a tool that changes nothing in the world.
        Harmless = "harmless",
        /// It does something else.
        Other = "other",
        /// It sends a message to a route.
        Message = "message",
        /// It calls a tool of an MCP server of the user, which says that the tool only reads. Reserved.
        McpRead = "mcp_read",
        /// It calls another tool of an MCP server. Reserved.
        Mcp = "mcp",
    }
}

/// What is decided about a class of acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyDefault {
    /// The class.
    pub class: ActClass,
    /// Its acts, for people.
    pub acts: &'static str,
    /// What is decided if nobody has set anything.
    pub decision: Policy,
    /// The setting that replaces it, or why there is none.
    pub setting: &'static str,
    /// The capability that will need it, if no tool does this yet.
    pub reserved: Option<&'static str>,
}

const fn row(class: ActClass, acts: &'static str, decision: Policy, setting: &'static str) -> PolicyDefault {
    PolicyDefault { class, acts, decision, setting, reserved: None }
}

impl PolicyDefault {
    const fn reserved(mut self, capability: &'static str) -> Self {
        self.reserved = Some(capability);
        self
    }
}

use ActClass as Class;
use Policy::{Allow, Ask};

/// The table, in the order of [`ActClass`].
pub const DEFAULTS: &[PolicyDefault] = &[
    row(Class::ReadInside, "read files inside the workspace", Allow, BUILT_IN),
    row(Class::ChangeInside, "change files inside the workspace", Allow, BUILT_IN),
    row(Class::Outside, "read or change files outside the workspace", Ask, "tools.outside_workspace.policy"),
    row(Class::ExecutedFile, "change files that other programs run or load", Ask, "tools.executed_files.policy"),
    row(Class::RunConfined, "run commands in a sandbox that holds", Allow, COMMANDS),
    row(Class::Run, "run commands outside of a sandbox that holds", Ask, COMMANDS),
    row(Class::Exit, "reach hosts, and write outside the workspace, from the sandbox", Ask, "the sandbox"),
    row(Class::Fetch, "fetch from the web", Ask, "tools.web_fetch.policy"),
    row(Class::Harmless, "use a tool that changes nothing in the world", Allow, TOOL),
    row(Class::Other, "use any other tool", Ask, TOOL),
    row(Class::Message, "send a message", Ask, "routes.NAME.policy"),
    row(Class::McpRead, "use a tool of your own MCP server that only reads", Allow, SERVER).reserved("MCP"),
    row(Class::Mcp, "use any other tool of an MCP server", Ask, SERVER).reserved("MCP"),
];

const BUILT_IN: &str = "built in";
const COMMANDS: &str = "tools.exec.policy";
const TOOL: &str = "the class of the tool";
const SERVER: &str = "what the server says of the tool";

impl ActClass {
    /// Its row.
    pub fn row(self) -> &'static PolicyDefault {
        // A test walks the table: each class has its row at its own place.
        &DEFAULTS[self as usize]
    }

    /// What a run with these settings decides about such an act that no rule matches.
    pub fn default_in(self, settings: &Settings) -> Policy {
        let built_in = self.row().decision;
        match self {
            Self::Outside => settings.outside,
            Self::ExecutedFile => settings.executed_files,
            // The default of commands is two rows: a setting replaces both.
            Self::RunConfined if settings.sandbox.allows && settings.exec == Ask => built_in,
            Self::RunConfined | Self::Run => settings.exec,
            Self::Fetch => settings.web_fetch,
            Self::ReadInside
            | Self::ChangeInside
            | Self::Exit
            | Self::Harmless
            | Self::Other
            | Self::Message
            | Self::McpRead
            | Self::Mcp => built_in,
        }
    }
}
