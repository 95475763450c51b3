//! The mistakes, as a table.

/// What is there before the command is typed.
pub(super) enum Given {
    /// A variable of the environment.
    Variable(&'static str, &'static str),
    /// A file of the project.
    File(&'static str, &'static [u8]),
    /// The configuration file.
    Config(&'static str),
    /// The configuration file, which is no text.
    NoText,
    /// A folder is where the configuration file should be.
    FolderAsConfig,
    /// A file is where the home should be.
    FileAsHome,
    /// A provider that answers so: a status and a body.
    Answers(u16, &'static str),
    /// A provider that is a web page.
    Page,
    /// A provider at an address where nothing listens.
    Nobody,
    /// An earlier command.
    Ran(&'static [&'static str]),
    /// A service that owns the home.
    Served,
    /// What is piped.
    Piped(fn() -> Vec<u8>),
}

use Given::*;

/// One of them.
pub(super) struct Mistake {
    pub(super) what: &'static str,
    pub(super) given: &'static [Given],
    pub(super) typed: &'static [&'static str],
    pub(super) code: i32,
    /// What the output must contain: the cause, and what to do.
    pub(super) says: &'static [&'static str],
}

/// A row of the table.
const fn row(
    what: &'static str,
    given: &'static [Given],
    typed: &'static [&'static str],
    code: i32,
    says: &'static [&'static str],
) -> Mistake {
    Mistake { what, given, typed, code, says }
}

const KEY: Given = Variable("ACME_API_KEY", "sk-of-a-first-day-4711");
const HI: &str = "What is in this folder?";

/// All of them, by what they are about.
pub(super) const SECTIONS: &[(&str, &[Mistake])] = &[
    (
        "Commands and flags",
        &[
            row("A command is misspelled", &[], &["sttaus"], 2, &["status"]),
            row("One word is meant as a message", &[], &["fix"], 2, &["limulus agent TEXT"]),
            row("A message without quotes", &[], &["fix", "the", "bug"], 2, &["limulus \"fix the bug\""]),
            row("The chat of another tool", &[], &["chat"], 2, &["limulus -c"]),
            row("The login of another tool", &[], &["login"], 2, &["limulus setup"]),
            row("The log of another tool", &[], &["logs", "-f"], 2, &["limulus runs trace"]),
            row("MCP servers are added", &[], &["mcp", "add", "files"], 2, &["not there yet"]),
            row("The program is to update itself", &[], &["update"], 2, &["does not update itself"]),
            row("No message at all", &[], &["agent"], 2, &["limulus \"TEXT\""]),
            row("An empty message", &[], &["agent", "-m", ""], 2, &["empty"]),
            row("A flag is misspelled", &[], &["agent", "--modle", "offline", "-m", HI], 2, &["--model"]),
            row("A flag has no value", &[], &["agent", HI, "--model"], 2, &["--model"]),
            row("A flag has a value of the wrong kind", &[], &["agent", "--timeout", "soon", HI], 2, &["--timeout"]),
            row("A flag of another tool", &[], &["agent", "--effort", "high", HI], 2, &["--thinking"]),
            row("No questions, as another tool calls it", &[], &["--dangerously-skip-permissions", HI], 2, &["--yes"]),
            row("A chat command that does not exist", &[], &["/stat please"], 2, &["/status"]),
            row("Completions for a shell that does not exist", &[], &["completions", "basch"], 2, &["bash"]),
        ],
    ),
    (
        "Models and keys",
        &[
            row("A model that is none", &[], &["--model", "gpt-99", HI], 78, &["PROVIDER/MODEL"]),
            row(
                "A provider that does not exist",
                &[],
                &["--model", "opnai/gpt-5.4-mini", HI],
                78,
                &["the nearest known provider is `openai`"],
            ),
            row(
                "A provider that is misspelled for `setup`",
                &[],
                &["setup", "--provider", "deepsek", "--key-env", "DEEPSEEK_API_KEY", "--yes"],
                4,
                &["the nearest is `deepseek`"],
            ),
            row("No key", &[], &["--model", "openai/gpt-5.4-mini", HI], 78, &["OPENAI_API_KEY"]),
            row(
                "A key with a line break in it",
                &[Variable("OPENAI_API_KEY", "sk-of-a-\nfirst-day")],
                &["--model", "openai/gpt-5.4-mini", HI],
                1,
                &["env:OPENAI_API_KEY"],
            ),
            row(
                "A key that is empty",
                &[Variable("OPENAI_API_KEY", "")],
                &["--model", "openai/gpt-5.4-mini", HI],
                78,
                &["OPENAI_API_KEY"],
            ),
            row(
                "A key in the configuration file",
                &[Config("[providers.openai]\nkey = \"sk-of-a-first-day-4711\"\n")],
                &["--model", "openai/gpt-5.4-mini", HI],
                78,
                &["unknown key", "[[providers.openai.profiles]]", "limulus setup"],
            ),
            row(
                "A wrong key",
                &[KEY, Answers(401, "Incorrect API key provided")],
                &[HI],
                1,
                &["401", "env:ACME_API_KEY"],
            ),
            row(
                "A model that the provider does not have",
                &[KEY, Answers(404, "The model `large` does not exist")],
                &[HI],
                1,
                &["`large`", "/v1"],
            ),
            row("No credit left", &[KEY, Answers(402, "Insufficient credits")], &[HI], 1, &["Insufficient credits"]),
            row("A wrong port", &[KEY, Nobody], &["agent", "--timeout", "5", HI], 1, &["refused"]),
            row(
                "The address of a web page",
                &[KEY, Page],
                &["agent", "--timeout", "5", HI],
                1,
                &["web page", "base_url"],
            ),
            row(
                "An address without http",
                &[KEY, Variable("LIMULUS_PROVIDERS__OPENAI__BASE_URL", "localhost:8000")],
                &["--model", "openai/gpt-5.4-mini", HI],
                78,
                &["http"],
            ),
        ],
    ),
    (
        "Configuration",
        &[
            row("TOML that is none", &[Config("[agents.main\nmodel = \"offline\"\n")], &[HI], 78, &["config.toml:1"]),
            row("A key that is misspelled", &[Config("[agents.main]\nmodle = \"offline\"\n")], &[HI], 78, &["model"]),
            row("A value of the wrong kind", &[Config("[runs]\ndeadline_s = \"soon\"\n")], &[HI], 78, &["deadline_s"]),
            row("A table that does not exist", &[Config("[tolls]\nprofile = \"full\"\n")], &[HI], 78, &["tools"]),
            row("A key twice", &[Config("[runs]\nstall_s = 60\nstall_s = 90\n")], &[HI], 78, &["stall_s"]),
            row("A configuration file that is no text", &[NoText], &[HI], 78, &["UTF-8"]),
            row("A folder as the configuration file", &[FolderAsConfig], &[HI], 78, &["config.toml"]),
            row(
                "A variable of the wrong kind",
                &[Variable("LIMULUS_RUNS__STALL_S", "soon")],
                &[HI],
                78,
                &["LIMULUS_RUNS__STALL_S"],
            ),
            row(
                "A key for `config set` that does not exist",
                &[],
                &["config", "set", "runs.stal_s", "90"],
                2,
                &["runs.stall_s"],
            ),
            row(
                "A value for `config set` of the wrong kind",
                &[],
                &["config", "set", "runs.stall_s", "soon"],
                2,
                &["runs.stall_s"],
            ),
        ],
    ),
    (
        "Folders and files",
        &[
            row("A project that does not exist", &[], &["agent", "--workspace", "../projct", HI], 78, &["projct"]),
            row(
                "A file as the project",
                &[File("notes.txt", b"")],
                &["agent", "--workspace", "notes.txt", HI],
                78,
                &["it is a file"],
            ),
            row("A file as the home", &[FileAsHome], &[HI], 74, &["it is a file", "LIMULUS_HOME"]),
            row(
                "A file for the answer in a folder that does not exist",
                &[],
                &["agent", "--output-last", "out/answer.txt", HI],
                2,
                &["out"],
            ),
            row(
                "A message from a file, as another tool takes it",
                &[],
                &["agent", "--message-file", "task.md"],
                2,
                &["limulus < FILE"],
            ),
        ],
    ),
    (
        "Pipes and scripts",
        &[
            row("More than 1 MiB of context", &[Piped(|| vec![b'x'; (1 << 20) + 1])], &["agent", HI], 2, &["1 MiB"]),
            row(
                "A picture is piped",
                &[Piped(|| vec![0x89, b'P', b'N', b'G', 0xff, 0xfe])],
                &["agent", HI],
                2,
                &["UTF-8"],
            ),
            row("Nobody is there to be asked", &[], &["Run `touch made`"], 3, &["--yes"]),
            row(
                "The same key for another message",
                &[Ran(&["agent", "--key", "night-1", "Hello"])],
                &["agent", "--key", "night-1", HI],
                3,
                &["night-1"],
            ),
        ],
    ),
    (
        "Sessions, runs and owners",
        &[
            row("Nothing to resume", &[Ran(&["agent", "Hello"])], &["resume"], 0, &["nothing"]),
            row(
                "Nothing to take back",
                &[Ran(&["agent", "Hello"])],
                &["undo"],
                3,
                &["no changes of files", "limulus diff"],
            ),
            row(
                "A session that does not exist",
                &[Ran(&["agent", "--session", "review", "Hello"])],
                &["sessions", "show", "reveiw"],
                4,
                &["the nearest is `review`"],
            ),
            row("A run that does not exist", &[Ran(&["agent", "Hello"])], &["runs", "show", "0123"], 4, &["runs list"]),
            row(
                "Nothing to steer",
                &[Ran(&["agent", "Hello"])],
                &["runs", "steer", "Hello"],
                3,
                &["not active", "limulus send"],
            ),
            row("No home yet", &[], &["sessions", "list"], 4, &["limulus agent"]),
            row("A second service", &[Served], &["serve"], 75, &["--wait"]),
            row("A service with a relative folder", &[], &["serve", "--workspace", "."], 78, &["absolute"]),
        ],
    ),
];
