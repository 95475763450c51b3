//! The tools that a runtime has: the specification of each for the model, and its calls.

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use engine::{ToolClass, ToolSpec};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use strsim::osa_distance;

use crate::apply_patch::ApplyPatch;
use crate::ask_user::AskUser;
use crate::edit::Edit;
use crate::error::ToolError;
use crate::exec::Exec;
use crate::fetch::WebFetch;
use crate::find::Find;
use crate::fitting::certainly_fits;
use crate::grep::Grep;
use crate::limits::{ARGUMENTS_BYTES, DEFAULT_TIMEOUT_S};
use crate::ls::Ls;
use crate::memory::{GetMemory, SearchMemory};
use crate::message::Message;
use crate::plan::Plan;
use crate::process::Process;
use crate::read::Read;
use crate::schema_validator::SchemaValidator;
use crate::search::WebSearch;
use crate::skills::SkillTool;
use crate::tool::{Needs, ParsedCall, Tool};
use crate::write::Write;

/// The built-in tools, in the order in which the model receives them.
fn built_in() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Read),
        Arc::new(Ls),
        Arc::new(Grep),
        Arc::new(Find),
        Arc::new(Write),
        Arc::new(Edit),
        Arc::new(ApplyPatch),
        Arc::new(Exec),
        Arc::new(Process),
        Arc::new(WebFetch),
        Arc::new(AskUser),
        Arc::new(Plan),
        Arc::new(WebSearch),
        Arc::new(SkillTool),
        Arc::new(SearchMemory),
        Arc::new(GetMemory),
        Arc::new(Message),
    ]
}

/// Built once: the settings of all runs share the specifications.
static BUILT_IN: LazyLock<ToolSet> = LazyLock::new(|| ToolSet::of(built_in().into_iter().map(Entry::new).collect()));

/// The tools that a runtime has.
#[derive(Clone)]
pub struct ToolSet {
    entries: Arc<[Entry]>,
    specs: Arc<[ToolSpec]>,
}

#[derive(Clone)]
struct Entry {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
    /// Compiled at the first call whose arguments do not fit at a glance.
    validator: Arc<OnceLock<Result<SchemaValidator, String>>>,
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Default for ToolSet {
    /// The built-in tools.
    fn default() -> Self {
        BUILT_IN.clone()
    }
}

impl ToolSet {
    fn of(entries: Vec<Entry>) -> Self {
        let always = entries.iter().filter(|entry| entry.is_always_there());
        let specs = always.map(|entry| entry.spec.clone()).collect();
        Self { entries: entries.into(), specs }
    }

    /// The same with one tool more. It takes the place of one that has its name.
    #[must_use]
    pub fn with(&self, tool: impl Tool + 'static) -> Self {
        let entry = Entry::new(Arc::new(tool));
        let mut entries: Vec<Entry> =
            self.entries.iter().filter(|known| known.spec.name != entry.spec.name).cloned().collect();
        entries.push(entry);
        Self::of(entries)
    }

    /// What the model receives of those that every run has, in this order.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// Whether the calls of this tool run commands, which may change any file of the workspace.
    pub fn runs_commands(&self, tool: &str) -> bool {
        self.entry(tool).is_some_and(|entry| entry.tool.runs_commands())
    }

    /// Whether there is a tool of this name.
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.entry(tool).is_some()
    }

    /// The call with these arguments, as the model wrote them. Empty input counts as no arguments, since some models send
    /// that. It may take a second, so it runs on a thread that may block.
    pub(crate) fn parse(&self, tool: &str, arguments: &[u8]) -> Result<ParsedCall, ToolError> {
        if arguments.len() > ARGUMENTS_BYTES {
            return Err(ToolError::LargeArguments { bytes: arguments.len(), most: ARGUMENTS_BYTES });
        }
        let arguments = if arguments.trim_ascii().is_empty() { b"{}" } else { arguments };
        let entry = self.entry(tool).ok_or_else(|| unknown(tool, self.names()))?;
        let arguments =
            serde_json::from_slice::<Value>(arguments).map_err(|source| ToolError::BrokenJson { source })?;
        let violations = entry.violations(&arguments);
        if !violations.is_empty() {
            return Err(ToolError::Arguments { tool: tool.to_owned(), violations: violations.join("; ") });
        }
        entry.tool.call(arguments)
    }

    fn entry(&self, tool: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.spec.name == tool)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.spec.name.as_str())
    }
}

impl Entry {
    fn new(tool: Arc<dyn Tool>) -> Self {
        Self { spec: tool.spec(DEFAULT_TIMEOUT_S), tool, validator: Arc::default() }
    }

    /// Whether every run has it, whatever is configured and whatever files there are.
    fn is_always_there(&self) -> bool {
        matches!(self.tool.needs(), Needs::Nothing | Needs::User)
    }

    /// The violations in these arguments, each with the name of its field. Empty if they fit.
    fn violations(&self, arguments: &Value) -> Vec<String> {
        if certainly_fits(&self.spec.schema, arguments) {
            return vec![];
        }
        match self.validator.get_or_init(|| SchemaValidator::new(&self.spec.schema)) {
            Ok(validator) => {
                let violations = validator.violations(arguments);
                violations.iter().map(|found| violation(&found.pointer, &found.message)).collect()
            }
            Err(why) => vec![format!("its own schema is not valid: {why}")],
        }
    }
}

fn violation(pointer: &str, message: &str) -> String {
    match pointer.trim_start_matches('/') {
        "" => message.to_owned(),
        field => format!("`{field}`: {message}"),
    }
}

/// The error for a tool that is not among the known ones.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> ToolError {
    let known: Vec<&str> = known.collect();
    ToolError::UnknownTool { name: name.to_owned(), known: known.join(", ") }
}

/// The specification of a tool whose arguments are an object with these properties.
pub(crate) fn spec(name: &str, class: ToolClass, description: &str, properties: &Value, required: &[&str]) -> ToolSpec {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    ToolSpec { name: name.to_owned(), class, description: description.to_owned(), schema }
}

/// The arguments of a call, which fit the schema of this tool.
pub(crate) fn arguments<T: DeserializeOwned>(tool: &str, mut arguments: Value) -> Result<T, ToolError> {
    let misfit =
        |error: serde_json::Error| ToolError::Arguments { tool: tool.to_owned(), violations: error.to_string() };
    whole_numbers(&mut arguments);
    serde_json::from_value(arguments).map_err(misfit)
}

/// Writes numbers such as `10.0`, which a schema takes for integers, as integers.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= MOST_WHOLE);
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Up to here every integer has a float of its own.
const MOST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// The default of a path: the workspace.
pub(crate) fn here() -> String {
    ".".to_owned()
}

/// The built-in tools that every run has, in the order in which the model receives them.
pub fn specs() -> Arc<[ToolSpec]> {
    BUILT_IN.specs()
}

/// The same, where a call without a limit of its own may take so many seconds.
pub fn specs_within(timeout_s: u64) -> Arc<[ToolSpec]> {
    if timeout_s == DEFAULT_TIMEOUT_S {
        return specs();
    }
    let always = BUILT_IN.entries.iter().filter(|entry| entry.is_always_there());
    always.map(|entry| entry.tool.spec(timeout_s)).collect()
}

/// The same with the tools that need this, for a run that has it.
pub fn with_tools_for(needs: Needs, specs: &Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
    let entries = BUILT_IN.entries.iter().filter(|entry| entry.tool.needs() == needs);
    specs.iter().cloned().chain(entries.map(|entry| entry.spec.clone())).collect()
}

/// The same without those that need a user who answers, for a run that nobody attends.
pub fn unattended(specs: &Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
    let needs_user =
        |spec: &&ToolSpec| BUILT_IN.entry(&spec.name).is_some_and(|entry| entry.tool.needs() == Needs::User);
    specs.iter().filter(|spec| !needs_user(spec)).cloned().collect()
}

/// The built-in tools that change nothing.
pub fn read_only_specs() -> Arc<[ToolSpec]> {
    BUILT_IN.specs.iter().filter(|spec| spec.class == ToolClass::ReadOnly).cloned().collect()
}

/// Whether this is a built-in tool that changes files by itself.
pub fn changes_files(tool: &str) -> bool {
    BUILT_IN.entry(tool).is_some_and(|entry| entry.spec.class == ToolClass::Idempotent)
}

/// Classes of tools, as users name them. Every other tool is named by its own name.
const CLASSES: [(&str, ToolClass); 2] = [("edit", ToolClass::Idempotent), ("exec", ToolClass::Once)];

/// The built-in tools of this class, as a user means it: a message is no command, though it is not repeated either.
fn of_class(class: ToolClass) -> Vec<&'static str> {
    let specs = BUILT_IN.entries.iter().map(|entry| &entry.spec);
    specs.filter(|spec| spec.class == class && spec.name != "message").map(|spec| spec.name.as_str()).collect()
}

/// The tools of a class, or the one tool of that name. The error lists the names that there are.
pub fn tools_of(name: &str) -> Result<Vec<String>, String> {
    if let Some((_, class)) = CLASSES.iter().find(|(known, _)| *known == name) {
        return Ok(of_class(*class).into_iter().map(str::to_owned).collect());
    }
    if BUILT_IN.has(name) {
        return Ok(vec![name.to_owned()]);
    }
    let classes = CLASSES.map(|(known, class)| format!("{known} ({})", of_class(class).join(", ")));
    let is_class = |name: &str| CLASSES.iter().any(|(known, _)| *known == name);
    let tools: Vec<&str> = BUILT_IN.names().filter(|name| !is_class(name)).collect();
    let nearest = nearest(name, CLASSES.iter().map(|(known, _)| *known).chain(tools.iter().copied()));
    Err(format!(
        "`{name}` is no class of tools and no tool{nearest}; there are: {}, {}",
        classes.join(", "),
        tools.join(", ")
    ))
}

/// The built-in tool of this name. The error names the nearest, and lists all.
pub fn tool_named(name: &str) -> Result<&'static str, String> {
    let tools: Vec<&'static str> = BUILT_IN.names().collect();
    let known = tools.iter().find(|known| **known == name).copied();
    let nearest = || nearest(name, tools.iter().copied());
    known.ok_or_else(|| format!("`{name}` is no tool{}; there are: {}", nearest(), tools.join(", ")))
}

/// What an error says of the name that was meant, if two keys of the keyboard slipped at most.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = name.to_lowercase();
    let near = known.map(|known| (osa_distance(&name, known), known)).filter(|(distance, _)| *distance <= 2).min();
    near.map(|(_, known)| format!("; the nearest is `{known}`")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(tool: &str, arguments: &[u8]) -> String {
        ToolSet::default().parse(tool, arguments).unwrap_err().to_string()
    }

    #[test]
    fn every_schema_is_valid_and_describes_what_it_requires() {
        for spec in specs().iter() {
            SchemaValidator::new(&spec.schema).unwrap();
            for field in spec.schema["required"].as_array().unwrap() {
                assert!(spec.schema["properties"].get(field.as_str().unwrap()).is_some(), "{}: {field}", spec.name);
            }
        }
    }

    /// R60: a number that the schema takes for an integer is one.
    #[test]
    fn r60_an_integer_that_is_written_as_a_float_is_taken() {
        assert!(ToolSet::default().parse("read", br#"{"path":"a","offset":3.0,"limit":1e2}"#).is_ok());
        assert!(ToolSet::default().parse("memory_get", br#"{"path":"a","from":2.0}"#).is_ok());
        for (number, whole) in [(json!(2.0), json!(2)), (json!(-1e3), json!(-1000)), (json!(2.5), json!(2.5))] {
            let mut arguments = json!({ "list": [number] });
            whole_numbers(&mut arguments);
            assert_eq!(arguments, json!({ "list": [whole] }));
        }
        let mut huge = json!(1e300);
        whole_numbers(&mut huge);
        assert_eq!(huge, json!(1e300));
        assert!(error("read", br#"{"path":"a","offset":2.5}"#).contains("`offset`"));
    }

    #[test]
    fn a_violation_names_its_field() {
        let violations = |tool: &str, arguments: &Value| BUILT_IN.entry(tool).unwrap().violations(arguments);
        let found = violations("read", &json!({ "path": "x", "limit": 0, "lines": 3 }));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|v| v.starts_with("`limit`")), "{found:?}");
        assert!(found.iter().any(|v| v.contains("'lines'")), "{found:?}");
        assert!(violations("write", &json!({ "path": "x" }))[0].contains("content"));
    }

    #[test]
    fn errors_of_arguments_name_the_field_and_the_defect() {
        let cases: [(&str, &[u8], &[&str]); 8] = [
            (
                "raed",
                b"{}",
                &[
                    "no tool `raed`",
                    "read, ls, grep, find, write, edit, apply_patch, exec, process, web_fetch, ask_user, plan",
                ],
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
        assert!(ToolSet::default().parse("ls", b"").is_ok());
        assert!(error("read", b"").contains("path"));
    }
}
