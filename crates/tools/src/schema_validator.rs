//! Checks a JSON value against a JSON Schema.

use boon::{CompileError, Compiler, ErrorKind, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

/// The name under which the schema is compiled; nothing is ever read from it.
pub(crate) const NAME: &str = "schema:arguments";

/// A compiled JSON Schema (draft 2020-12). It reads no other documents: a reference to one is an error.
pub struct SchemaValidator {
    schemas: Schemas,
    index: SchemaIndex,
}

/// Why a value does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The JSON pointer of the value that is wrong; empty for the whole value.
    pub pointer: String,
    /// Why the value is wrong.
    pub message: String,
    /// Whether it is the schema that is wrong: it refers to itself without an end.
    pub is_endless: bool,
}

struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is another document").into())
    }
}

impl std::fmt::Debug for SchemaValidator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchemaValidator").finish_non_exhaustive()
    }
}

impl SchemaValidator {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Returns an error that says why the schema is not valid.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.use_loader(Box::new(NoLoader));
        compiler.add_resource(NAME, schema.clone()).map_err(|error| format!("{error:#}"))?;
        let index = compiler.compile(NAME, &mut schemas).map_err(|error| why(&error))?;
        Ok(Self { schemas, index })
    }

    /// All violations of a value; empty if it matches.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        let mut found = vec![];
        if let Err(error) = self.schemas.validate(value, self.index) {
            collect(&error, &mut found);
        }
        found
    }
}

/// The library knows a pattern that is too large only as a bug of its own.
fn why(error: &CompileError) -> String {
    match error {
        CompileError::Bug(source) => format!("a pattern in it cannot be used: {source}"),
        error => format!("{error:#}"),
    }
}

/// Collects the leaves of the tree of errors: the nodes above only say that something below them is wrong.
fn collect(error: &ValidationError<'_, '_>, found: &mut Vec<Violation>) {
    if error.causes.is_empty() {
        let is_endless = matches!(error.kind, ErrorKind::RefCycle { .. });
        let (pointer, message) = (error.instance_location.to_string(), error.kind.to_string());
        found.push(Violation { pointer, message, is_endless });
    }
    for cause in &error.causes {
        collect(cause, found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::SchemaValidator;

    #[test]
    fn a_schema_that_names_another_document_is_refused_and_nothing_is_read() {
        let error = SchemaValidator::new(&json!({ "$ref": "file:///etc/hostname" })).unwrap_err();
        assert!(error.contains("/etc/hostname") && error.contains("another document"), "{error}");
        assert!(SchemaValidator::new(&json!({ "type": "nothing" })).is_err());
    }

    /// R61: a pattern that is too large is what its author can change, and is called that.
    #[test]
    fn r61_a_pattern_that_is_too_large_is_no_bug_of_the_program() {
        let error = SchemaValidator::new(&json!({ "pattern": "^.{1,100000}$" })).unwrap_err();
        assert!(error.starts_with("a pattern in it cannot be used: ") && error.contains("size limit"), "{error}");
        assert!(!error.contains("bug"), "{error}");
    }
}
