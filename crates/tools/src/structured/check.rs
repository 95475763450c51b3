//! The work of a check, in the process that is there for it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Job, StructuredError, answer, expansion};
use crate::limits::{MISFIT_CHARS, MISFITS, SCHEMA_CPU_S, SCHEMA_HEAP_BYTES, SCHEMA_STACK_BYTES};
use crate::schema_validator::{SchemaValidator, Violation};

/// Limits the time and the memory of this process. What goes over ends it, without an image of its memory on disk.
pub(super) fn bound_this_process() {
    // It also ends by itself if nobody ends it any more.
    limit(Resource::Cpu, SCHEMA_CPU_S);
    limit(Resource::As, SCHEMA_STACK_BYTES as u64 + SCHEMA_HEAP_BYTES);
    limit(Resource::Core, 0);
}

/// Never raises a limit: that may be refused, and then the lower one would be lost as well.
fn limit(resource: Resource, most: u64) {
    let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
    // It fails for none of these: a limit may always be lowered.
    let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
}

/// The validator goes into a schema and a value as deep as they are, and panics at a few patterns.
pub(super) fn on_a_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, StructuredError> + Send,
) -> Result<T, StructuredError> {
    let unchecked = StructuredError::Unchecked;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(SCHEMA_STACK_BYTES);
        let thread = thread
            .spawn_scoped(scope, work)
            .map_err(|error| unchecked(format!("there is no thread to check it ({error})")))?;
        let too_large = || unchecked("a part of it cannot be checked, such as a pattern that is too large".to_owned());
        thread.join().unwrap_or_else(|_| Err(too_large()))
    })
}

/// The value of the answer, or nothing if only the schema was to be checked.
pub(super) fn checked(job: &Job) -> Result<String, StructuredError> {
    let lost = expansion::check(&job.schema).map_err(StructuredError::Unchecked)?;
    let validator = SchemaValidator::new(&job.schema);
    let validator = validator
        .map_err(|why| StructuredError::Unchecked(format!("the schema is not valid: {}", in_one_line(&why))))?;
    if let Some(reference) = lost {
        return Err(StructuredError::Unchecked(in_one_line(&format!(
            "the schema cannot be checked: nobody knows where its {reference} leads; refer to \"#/$defs/NAME\""
        ))));
    }
    let Some(text) = &job.answer else { return Ok(String::new()) };
    compared(&validator, text)
}

/// The value of this answer, if it fits.
pub(super) fn compared(validator: &SchemaValidator, answer: &str) -> Result<String, StructuredError> {
    let (text, value) = answer::value_in(answer).map_err(|why| StructuredError::Mismatch(in_one_line(&why)))?;
    let violations = validator.violations(&value);
    if let Some(endless) = violations.iter().find(|found| found.is_endless) {
        return Err(StructuredError::Unchecked(in_one_line(&format!("the schema has no end: {}", endless.message))));
    }
    match why_not(&violations) {
        None => Ok(answer::on_one_line(text)),
        Some(why) => Err(StructuredError::Mismatch(why)),
    }
}

fn why_not(violations: &[Violation]) -> Option<String> {
    let named = violations.iter().take(MISFITS).map(|found| {
        let place = if found.pointer.is_empty() { "the value" } else { &found.pointer };
        format!("{place}: {}", found.message)
    });
    (!violations.is_empty()).then(|| in_one_line(&named.collect::<Vec<_>>().join("; ")))
}

fn in_one_line(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MISFIT_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
