//! What a message asks of its run beside its text: to stop before calls, to plan only, to answer in JSON.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use engine::{PROMPT_BYTES, RunId, Settings, check_prompt};
use journal::{Read as _, Reader};
use serde_json::Value;
use tools::{SchemaChecker, StructuredError};

use crate::error::{CliError, Exit};
use crate::output::say;

/// What a message asks of its run. Such a message joins no other run.
#[derive(Debug, Default, Args)]
pub(crate) struct TaskArgs {
    /// Stop before the first call of each of these: edit (write, edit, apply_patch), exec (exec, process) or the name of a
    /// tool; the run then waits, exit code 6, until `limulus runs resume` resumes it
    #[arg(long, value_name = "CLASSES", value_delimiter = ',', value_parser = class)]
    pub(super) stop_before: Vec<String>,
    /// Only read, change nothing, and answer with a plan
    #[arg(long)]
    pub(super) plan: bool,
    /// Answer with JSON that fits the JSON schema in this file; stdout then has that value and nothing else
    #[arg(long, value_name = "FILE")]
    pub(super) output_schema: Option<PathBuf>,
    /// Use the text of this file in the system prompt instead of who the agent is and how it works
    #[arg(long, value_name = "FILE")]
    pub(super) system: Option<PathBuf>,
    /// Add this text to the system prompt
    #[arg(long, value_name = "TEXT")]
    pub(super) append_system: Option<String>,
}

/// After this it is said what is waited for.
const SILENCE: Duration = Duration::from_secs(1);

impl TaskArgs {
    /// The first of these options that is there.
    pub(super) fn option(&self) -> Option<&'static str> {
        let options = [
            (!self.stop_before.is_empty(), "--stop-before"),
            (self.plan, "--plan"),
            (self.output_schema.is_some(), "--output-schema"),
            (self.system.is_some(), "--system"),
            (self.append_system.is_some(), "--append-system"),
        ];
        options.into_iter().find_map(|(is_there, name)| is_there.then_some(name))
    }

    /// The schema in the file of `--output-schema`, checked.
    pub(super) async fn schema(&self) -> Result<Option<Value>, CliError> {
        let Some(path) = &self.output_schema else { return Ok(None) };
        let name = path.display().to_string();
        let schema = read(path, tools::SCHEMA_BYTES)
            .await
            .and_then(|bytes| tools::parse_schema(&bytes).map_err(|error| format!("{name} is not JSON: {error}")));
        let checked = match schema {
            Ok(schema) => {
                let checked = SchemaChecker::of_this_program().check_schema(schema.clone()).await;
                checked.map(|()| schema).map_err(|why| format!("{name}: {why}"))
            }
            Err(why) => Err(why),
        };
        checked.map(Some).map_err(|why| CliError::Usage {
            what: format!("--output-schema: {why}"),
            hint: "name a file with a JSON schema, for example {\"type\":\"object\"} (docs/scripting.md)".into(),
        })
    }

    /// The text in the file of `--system`. That of `--append-system` is checked with it.
    pub(super) async fn system(&self) -> Result<Option<Box<str>>, CliError> {
        let wrong = |what: &str, why: String| CliError::Usage {
            what: format!("{what}: {why}"),
            hint: "docs/prompt.md says what a prompt of your own replaces".into(),
        };
        if let Some(text) = &self.append_system {
            check_prompt(text).map_err(|why| wrong("--append-system", why))?;
        }
        let Some(path) = &self.system else { return Ok(None) };
        let name = path.display();
        let text = read(path, PROMPT_BYTES).await.and_then(|bytes| {
            let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not text in UTF-8"))?;
            check_prompt(&text).map(|()| text).map_err(|why| format!("{name}: {why}"))
        });
        text.map(|text| Some(text.into())).map_err(|why| wrong("--system", why))
    }
}

/// Reads a file that may have so many bytes, on a thread that may block: a pipe may never be written to.
async fn read(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let (name, path) = (path.display().to_string(), path.to_owned());
    let mut reading = tokio::task::spawn_blocking(move || read_at_most(&path, most));
    let read = if let Ok(read) = tokio::time::timeout(SILENCE, &mut reading).await {
        read
    } else {
        say!("limulus: waiting for the text in {name}");
        reading.await
    };
    read.unwrap_or_else(|error| Err(format!("it could not be read: {error}")))
}

fn read_at_most(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let name = path.display();
    let file = File::open(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let mut bytes = vec![];
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|error| format!("{name} cannot be read: {error}"))?;
    if bytes.len() > most {
        return Err(format!("{name} has more than {} KiB", most >> 10));
    }
    Ok(bytes)
}

/// The value that an answer is, on one line as the model wrote it, if it fits the schema; else an error with exit code 7.
pub(super) async fn structured(schema: &Value, text: &str) -> Result<String, CliError> {
    let checked = SchemaChecker::of_this_program().structured(schema.clone(), text.to_owned()).await;
    checked.map_err(|error| CliError::Failed {
        exit: Exit::SchemaMismatch,
        what: match error {
            StructuredError::Mismatch(why) => {
                format!("the answer does not fit the schema of --output-schema: {why}")
            }
            StructuredError::Unchecked(why) => {
                format!("nobody knows whether the answer fits the schema of --output-schema: {why}")
            }
        },
        hint: "the answer is on stdout as it came; send another message, or use another model".into(),
    })
}

/// One of a list, with or without blanks around it.
fn class(name: &str) -> Result<String, String> {
    let name = name.trim();
    tools::tools_of(name).map(|_| name.to_owned())
}

/// The schema that the answer of this run is to fit; none if it is to fit none, or if its settings were erased.
pub(super) fn schema_of(reader: &Reader, run: RunId) -> Result<Option<Value>, CliError> {
    let Some(row) = reader.run(run)? else { return Ok(None) };
    let settings = reader.body(&row.settings)?.and_then(|bytes| Settings::from_bytes(&bytes).ok());
    Ok(settings.and_then(|settings| settings.output_schema))
}

/// Returns an error with exit code 7 if the answer of a run that completed does not fit the schema that its message names.
pub(super) async fn must_fit(reader: &Reader, run: RunId, text: &str) -> Result<(), CliError> {
    match schema_of(reader, run)? {
        Some(schema) => structured(&schema, text).await.map(drop),
        None => Ok(()),
    }
}
