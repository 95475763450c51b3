//! A call with checked arguments, as the tools receive it.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::ToolError;
use crate::limits::{ARGUMENTS_BYTES, BACKGROUND_MS, POLL_WAIT_MS, URL_BYTES};
use crate::specs;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ReadArguments {
    pub(crate) path: String,
    /// The first line, counted from 1.
    pub(crate) offset: Option<u64>,
    /// The maximum number of lines.
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct LsArguments {
    #[serde(default = "here")]
    pub(crate) path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct GrepArguments {
    pub(crate) pattern: String,
    #[serde(default = "here")]
    pub(crate) path: String,
    pub(crate) glob: Option<String>,
    #[serde(default)]
    pub(crate) ignore_case: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct WriteArguments {
    pub(crate) path: String,
    pub(crate) content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct EditArguments {
    pub(crate) path: String,
    pub(crate) old_text: String,
    pub(crate) new_text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct PatchArguments {
    pub(crate) input: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct FindArguments {
    pub(crate) pattern: String,
    #[serde(default = "here")]
    pub(crate) path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct FetchArguments {
    pub(crate) url: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ExecArguments {
    pub(crate) command: String,
    /// Whether the command continues in the background.
    #[serde(default)]
    pub(crate) background: bool,
    /// Milliseconds after which it continues in the background if it has not ended.
    pub(crate) yield_ms: Option<u64>,
    /// Seconds after which it is ended; none = the configured limit of a call.
    pub(crate) timeout_s: Option<u64>,
}

impl ExecArguments {
    /// The limit that the call asks for itself, milliseconds.
    pub(crate) fn timeout_ms(&self) -> Option<u64> {
        self.timeout_s.map(|seconds| seconds.saturating_mul(1_000))
    }

    /// How long the call waits before its command continues in the background; none = the command stays in the
    /// foreground. At most half of the limit of the call; `tool_timeout_ms` is the configured one.
    pub(crate) fn yields_after(&self, tool_timeout_ms: u64) -> Option<Duration> {
        let wanted = self.yield_ms.or(self.background.then_some(BACKGROUND_MS));
        wanted.map(|ms| Duration::from_millis(ms.min(self.timeout_ms().unwrap_or(tool_timeout_ms) / 2)))
    }
}

/// Arguments of `process`, checked against the schema only.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ProcessFields {
    action: ProcessAction,
    id: Option<String>,
    offset: Option<u64>,
    #[serde(default)]
    wait_ms: u64,
    text: Option<String>,
    #[serde(default)]
    eof: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProcessAction {
    List,
    Poll,
    Write,
    End,
}

/// An action of `process` with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProcessArguments {
    /// List the background commands, running and ended.
    List,
    /// Read the output from byte `offset` on, or its end. If there is no new output, wait up to `wait`.
    Poll { id: String, offset: Option<u64>, wait: Duration },
    /// Write text to the standard input; then close it if `eof`.
    Write { id: String, text: String, eof: bool },
    /// End the process.
    End { id: String },
}

impl ProcessFields {
    fn arguments(self) -> Result<ProcessArguments, ToolError> {
        let missing =
            |field: &str| ToolError::Arguments { tool: "process", violations: format!("this action needs `{field}`") };
        let id = self.id.ok_or_else(|| missing("id"));
        Ok(match self.action {
            ProcessAction::List => ProcessArguments::List,
            ProcessAction::Poll => {
                let wait = Duration::from_millis(self.wait_ms.min(POLL_WAIT_MS));
                ProcessArguments::Poll { id: id?, offset: self.offset, wait }
            }
            ProcessAction::Write if self.text.is_none() && !self.eof => return Err(missing("text")),
            ProcessAction::Write => {
                ProcessArguments::Write { id: id?, text: self.text.unwrap_or_default(), eof: self.eof }
            }
            ProcessAction::End => ProcessArguments::End { id: id? },
        })
    }
}

fn here() -> String {
    ".".to_owned()
}

/// One call of a built-in tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invocation {
    Read(ReadArguments),
    Ls(LsArguments),
    Grep(GrepArguments),
    Find(FindArguments),
    Write(WriteArguments),
    Edit(EditArguments),
    ApplyPatch(PatchArguments),
    Exec(ExecArguments),
    Process(ProcessArguments),
    WebFetch(FetchArguments),
}

impl Invocation {
    /// The name of its tool.
    pub(crate) fn tool(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Ls(_) => "ls",
            Self::Grep(_) => "grep",
            Self::Find(_) => "find",
            Self::Write(_) => "write",
            Self::Edit(_) => "edit",
            Self::ApplyPatch(_) => "apply_patch",
            Self::Exec(_) => "exec",
            Self::Process(_) => "process",
            Self::WebFetch(_) => "web_fetch",
        }
    }

    /// Whether the tool writes files, so that the files show what became of the call.
    pub(crate) fn changes_files(&self) -> bool {
        match self {
            Self::Write(_) | Self::Edit(_) | Self::ApplyPatch(_) => true,
            Self::Read(_)
            | Self::Ls(_)
            | Self::Grep(_)
            | Self::Find(_)
            | Self::Exec(_)
            | Self::Process(_)
            | Self::WebFetch(_) => false,
        }
    }

    /// Whether the tool only reads files, in this process.
    pub(crate) fn reads_files(&self) -> bool {
        match self {
            Self::Read(_) | Self::Ls(_) | Self::Grep(_) | Self::Find(_) => true,
            Self::Write(_)
            | Self::Edit(_)
            | Self::ApplyPatch(_)
            | Self::Exec(_)
            | Self::Process(_)
            | Self::WebFetch(_) => false,
        }
    }

    /// Parses the arguments as the model wrote them. Empty input counts as no arguments, since some models send that. It
    /// may take a second, so it runs on a thread that may block.
    pub(crate) fn parse(tool: &str, arguments: &[u8]) -> Result<Self, ToolError> {
        if arguments.len() > ARGUMENTS_BYTES {
            return Err(ToolError::LargeArguments { bytes: arguments.len(), most: ARGUMENTS_BYTES });
        }
        let arguments = if arguments.trim_ascii().is_empty() { b"{}" } else { arguments };
        let json =
            |arguments| serde_json::from_slice::<Value>(arguments).map_err(|source| ToolError::BrokenJson { source });
        match tool {
            "read" => checked("read", json(arguments)?).map(Self::Read),
            "ls" => checked("ls", json(arguments)?).map(Self::Ls),
            "grep" => checked("grep", json(arguments)?).map(Self::Grep),
            "find" => checked("find", json(arguments)?).map(Self::Find),
            "edit" => checked("edit", json(arguments)?).map(Self::Edit),
            "apply_patch" => checked("apply_patch", json(arguments)?).map(Self::ApplyPatch),
            "write" => checked("write", json(arguments)?).map(Self::Write),
            "exec" => checked("exec", json(arguments)?).map(Self::Exec),
            "process" => checked::<ProcessFields>("process", json(arguments)?)?.arguments().map(Self::Process),
            "web_fetch" => match checked::<FetchArguments>("web_fetch", json(arguments)?)? {
                FetchArguments { url } if url.len() > URL_BYTES => {
                    let violations = format!("`url`: it has more than {URL_BYTES} bytes");
                    Err(ToolError::Arguments { tool: "web_fetch", violations })
                }
                arguments => Ok(Self::WebFetch(arguments)),
            },
            _ => Err(unknown(tool, specs::specs().iter().map(|spec| spec.name.as_str()))),
        }
    }
}

/// The error for a tool that is not among the known ones.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> ToolError {
    let known: Vec<&str> = known.collect();
    ToolError::UnknownTool { name: name.to_owned(), known: known.join(", ") }
}

fn checked<T: DeserializeOwned>(tool: &'static str, arguments: Value) -> Result<T, ToolError> {
    let violations = specs::violations(tool, &arguments);
    if !violations.is_empty() {
        return Err(ToolError::Arguments { tool, violations: violations.join("; ") });
    }
    // This fails only for numbers such as `10.0`, which the schema accepts as an integer.
    serde_json::from_value(arguments).map_err(|error| ToolError::Arguments { tool, violations: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(tool: &str, arguments: &[u8]) -> String {
        Invocation::parse(tool, arguments).unwrap_err().to_string()
    }

    #[test]
    fn errors_of_arguments_name_the_field_and_the_defect() {
        let cases: [(&str, &[u8], &[&str]); 8] = [
            (
                "raed",
                b"{}",
                &["no tool `raed`", "read, ls, grep, find, write, edit, apply_patch, exec, process, web_fetch"],
            ),
            ("read", b"{\"path\": \"a", &["not valid JSON", "line 1 column"]),
            ("read", b"{\"path\": \"\xff\"}", &["not valid JSON"]),
            ("read", b"[1]", &["`read`", "object"]),
            ("read", b"{}", &["path", "missing"]),
            ("read", b"{\"path\": 7}", &["`path`", "string"]),
            ("read", b"{\"path\": \"a\", \"offset\": 1.5}", &["`offset`", "integer"]),
            ("exec", b"{\"cmd\": \"ls\"}", &["command", "cmd"]),
        ];
        for (tool, arguments, parts) in cases {
            let error = error(tool, arguments);
            for part in parts {
                assert!(error.contains(part), "{tool}: `{error}` lacks `{part}`");
            }
        }
    }

    #[test]
    fn no_arguments_are_an_empty_object() {
        assert_eq!(Invocation::parse("ls", b"").unwrap(), Invocation::Ls(LsArguments { path: ".".to_owned() }));
    }
}
