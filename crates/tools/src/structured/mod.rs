//! Answers that are to fit a JSON schema. Schema and answer are compared in a small process of its own: what a schema costs is not
//! known before, the library that compares them cannot be interrupted, and a process can be ended.
//!
//! ```text
//! job (schema, answer) → `limulus schema-check` → how far does it expand? → compile → the value in the answer → compare
//!                        ended at its limit of time, processor time or memory: "too expensive to check"
//! ```

mod answer;
mod check;
mod document;
mod expansion;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::limits::{
    SCHEMA_BYTES, SCHEMA_CHECK_JOB_BYTES, SCHEMA_CHECK_MS, SCHEMA_CHECKS, SCHEMA_CPU_S, SCHEMA_HEAP_BYTES,
    SCHEMA_VERDICT_BYTES, STRUCTURED_BYTES,
};
use crate::paths::THIS_PROGRAM;

/// The word of the hidden subcommand that is [`schema_check_main`].
pub const SCHEMA_CHECK: &str = "schema-check";

/// Checks that are made at once, in this process.
static CHECKS: Semaphore = Semaphore::const_new(SCHEMA_CHECKS);

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StructuredError {
    /// The answer does not fit the schema, or is no JSON. In one line.
    #[error("{0}")]
    Mismatch(String),
    /// Nobody knows whether it fits. In one line.
    #[error("{0}")]
    Unchecked(String),
}

/// The schema in a file. A key that comes twice is an error: one of its values would be forgotten.
///
/// # Errors
/// Returns why it is no JSON.
pub fn parse_schema(json: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(json).map_err(|error| error.to_string())?;
    answer::parsed(text).map_err(|error| error.to_string())
}

/// Checks schemas, and answers that are to fit one.
#[derive(Debug, Clone)]
pub struct SchemaChecker {
    program: PathBuf,
}

/// What is to be checked.
#[derive(Debug)]
struct Job {
    schema: Value,
    /// None if only the schema is to be checked.
    answer: Option<String>,
}

impl SchemaChecker {
    /// That of a program whose subcommand [`SCHEMA_CHECK`] is [`schema_check_main`].
    pub fn new(program: &Path) -> Self {
        Self { program: program.to_owned() }
    }

    /// That of this program, if it is `limulus`.
    pub fn of_this_program() -> Self {
        Self::new(Path::new(THIS_PROGRAM))
    }

    /// Checks that a value is a JSON schema that answers can be checked against.
    ///
    /// # Errors
    /// Returns an error that says in one line why it is not.
    pub async fn check_schema(&self, schema: Value) -> Result<(), String> {
        let verdict = self.verdict(Job { schema, answer: None }).await;
        verdict.map(drop).map_err(|error| error.to_string())
    }

    /// The value that an answer is, if it fits the schema: on one line, each part as the model wrote it.
    ///
    /// # Errors
    /// Returns why it does not, or why nobody knows.
    pub async fn structured(&self, schema: Value, answer: String) -> Result<String, StructuredError> {
        if answer.len() > STRUCTURED_BYTES {
            return Err(StructuredError::Mismatch(format!("it has more than {} MiB", STRUCTURED_BYTES >> 20)));
        }
        self.verdict(Job { schema, answer: Some(answer) }).await
    }

    async fn verdict(&self, job: Job) -> Result<String, StructuredError> {
        let rendering = tokio::task::spawn_blocking(move || job.rendered());
        let job = rendering.await.unwrap_or_else(|error| Err(error.to_string())).map_err(StructuredError::Unchecked)?;
        let _permit = CHECKS.acquire().await.map_err(|error| StructuredError::Unchecked(error.to_string()))?;
        match tokio::time::timeout(Duration::from_millis(SCHEMA_CHECK_MS), self.ask(job.as_bytes())).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => Err(StructuredError::Unchecked(format!("it could not be checked: {error}"))),
            Err(_) => Err(too_expensive()),
        }
    }

    /// Runs the process. It is ended if this future is dropped.
    async fn ask(&self, job: &[u8]) -> std::io::Result<Result<String, StructuredError>> {
        let mut command = Command::new(&self.program);
        // A group of its own: Ctrl-C ends no check of an owner. It needs nothing of the environment, which may hold keys.
        command.arg(SCHEMA_CHECK).env_clear().process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().expect("the input was asked to be a pipe");
        let stdout = child.stdout.take().expect("the output was asked to be a pipe");
        // If it has exited meanwhile, its end says why.
        let _ = stdin.write_all(job).await;
        drop(stdin);
        let mut verdict = vec![];
        stdout.take(SCHEMA_VERDICT_BYTES).read_to_end(&mut verdict).await?;
        let status = child.wait().await?;
        Ok(match String::from_utf8(verdict).ok().filter(|_| status.success()) {
            Some(verdict) => read_verdict(&verdict),
            // A limit ends it by a signal: its processor time, or memory that it is refused.
            None if status.code().is_none() => Err(too_expensive()),
            None => Err(StructuredError::Unchecked(format!("it could not be checked: the check ended with {status}"))),
        })
    }
}

impl Job {
    /// As the process reads it: the schema on one line, then [`ANSWER`] and the answer, if there is one. Refuses a schema that is
    /// too long to be looked at.
    fn rendered(&self) -> Result<String, String> {
        if !self.schema.is_object() {
            return Err("a schema is a JSON object".to_owned());
        }
        let mut job = self.schema.to_string();
        if job.len() > SCHEMA_BYTES {
            let (has, most) = (job.len().div_ceil(1 << 10), SCHEMA_BYTES >> 10);
            return Err(format!("the schema has {has} KiB, at most {most} KiB are taken"));
        }
        job.push('\n');
        if let Some(answer) = &self.answer {
            job.push(ANSWER);
            job += answer;
        }
        Ok(job)
    }

    fn read(text: &str) -> Option<Self> {
        let (schema, answer) = text.split_once('\n')?;
        Some(Self {
            schema: serde_json::from_str(schema).ok()?,
            answer: answer.strip_prefix(ANSWER).map(str::to_owned),
        })
    }
}

fn too_expensive() -> StructuredError {
    StructuredError::Unchecked(format!(
        "the schema is too expensive to check: it took more than {SCHEMA_CPU_S} s of processor time or {} MiB of memory; refer \
         to the same definition fewer times within a definition, and make patterns shorter",
        SCHEMA_HEAP_BYTES >> 20
    ))
}

/// Stands before the answer in a job.
const ANSWER: char = '=';

/// How a verdict begins; what follows is its text.
const FITS: char = '+';
const MISMATCH: char = '-';
const UNCHECKED: char = '?';

fn write_verdict(verdict: &Result<String, StructuredError>) -> String {
    match verdict {
        Ok(value) => format!("{FITS}{value}"),
        Err(StructuredError::Mismatch(why)) => format!("{MISMATCH}{why}"),
        Err(StructuredError::Unchecked(why)) => format!("{UNCHECKED}{why}"),
    }
}

fn read_verdict(text: &str) -> Result<String, StructuredError> {
    let of = |mark: char| text.strip_prefix(mark).map(str::to_owned);
    if let Some(value) = of(FITS) {
        return Ok(value);
    }
    if let Some(why) = of(MISMATCH) {
        return Err(StructuredError::Mismatch(why));
    }
    Err(StructuredError::Unchecked(of(UNCHECKED).unwrap_or_else(|| "the check said nothing".to_owned())))
}

/// The body of the hidden subcommand `limulus schema-check`: reads a job from its standard input and writes the verdict.
pub fn schema_check_main() -> ExitCode {
    // A command of the model runs as the same user.
    crate::protection::hide_from_commands();
    check::bound_this_process();
    let mut job = String::new();
    let read = std::io::stdin().lock().take(SCHEMA_CHECK_JOB_BYTES).read_to_string(&mut job);
    let Some(job) = read.ok().and_then(|_| Job::read(&job)) else {
        return ExitCode::from(2);
    };
    let verdict = write_verdict(&check::on_a_large_stack(|| check::checked(&job)));
    let written = std::io::Write::write_all(&mut std::io::stdout().lock(), verdict.as_bytes());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests;
