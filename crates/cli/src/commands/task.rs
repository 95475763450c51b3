//! What a message asks of its run beside its text: to stop before calls, to plan only, to answer in JSON.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::{PauseCause, RunId};
use journal::{Read as _, Reader};
use serde_json::Value;
use tools::{SchemaChecker, StructuredError};
use views::fold_branch;

use crate::error::{CliError, Exit};
use crate::render::call_in_words;

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
}

impl TaskArgs {
    /// The schema in the file of `--output-schema`, read on a thread that may block, and checked.
    pub(super) async fn schema(&self) -> Result<Option<Value>, CliError> {
        let Some(path) = self.output_schema.clone() else { return Ok(None) };
        let name = path.display().to_string();
        let reading = tokio::task::spawn_blocking(move || read_schema(&path));
        let read = match reading.await.unwrap_or_else(|error| Err(format!("it could not be read: {error}"))) {
            Ok(schema) => {
                let checked = SchemaChecker::of_this_program().check_schema(schema.clone()).await;
                checked.map(|()| schema).map_err(|why| format!("{name}: {why}"))
            }
            Err(why) => Err(why),
        };
        read.map(Some).map_err(|why| CliError::Usage {
            what: format!("--output-schema: {why}"),
            hint: "name a file with a JSON schema, for example {\"type\":\"object\"} (docs/scripting.md)".into(),
        })
    }
}

/// Reads no more than a schema may have.
fn read_schema(path: &Path) -> Result<Value, String> {
    let name = path.display();
    let file = File::open(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let mut bytes = vec![];
    let most = tools::SCHEMA_BYTES as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(|error| format!("{name} cannot be read: {error}"))?;
    if bytes.len() as u64 == most {
        return Err(format!("{name} has more than {} KiB", tools::SCHEMA_BYTES >> 10));
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("{name} is not JSON: {error}"))
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

fn class(name: &str) -> Result<String, String> {
    tools::tools_of(name).map(|_| name.to_owned())
}

/// Returns an error with exit code 6 if this run has stopped at a breakpoint: nobody here resumes it.
pub(super) fn must_go_on(home: &Path, key: &str, run: RunId) -> Result<(), CliError> {
    let reader = Reader::open(home)?;
    let Some(row) = reader.session(key)?.filter(|row| row.run == Some(run)) else { return Ok(()) };
    let session = fold_branch(&reader, &row)?;
    let Some(run) = session.run().filter(|known| known.id == run) else { return Ok(()) };
    let at_breakpoint = run.pause.filter(|pause| pause.cause == PauseCause::Breakpoint);
    let Some(call) = at_breakpoint.and_then(|pause| run.call(pause.call?)) else { return Ok(()) };
    let arguments = reader.body(&call.arguments.hash)?.unwrap_or_default();
    let wanted = call_in_words(&call.tool, &String::from_utf8_lossy(&arguments));
    Err(CliError::Failed {
        exit: Exit::Paused,
        what: format!("stopped before `{}`, as --stop-before says; the agent wants: {wanted}", call.tool),
        hint: format!("`limulus runs resume {0}` goes on with it, `limulus runs abort {0}` ends the run", run.id),
    })
}
