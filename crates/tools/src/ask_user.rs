//! The tool `ask_user`: asks the user a question. The engine waits for the answer, which is the result of the call: it never
//! runs.

use engine::{AnswerForm, ToolClass, ToolResult, ToolSpec, UserQuestion};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{CallRequest, Context};
use crate::error::ToolError;
use crate::limits::{CHOICE_CHARS, CHOICES, QUESTION_CHARS};
use crate::tool::{Act, CallSite, Needs, OnOutput, ParsedCall, Tool, ToolCall, ToolFuture};
use crate::tool_set::{self, spec};

const NAME: &str = "ask_user";

/// The tool.
pub(crate) struct AskUser;

impl Tool for AskUser {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            NAME,
            ToolClass::ReadOnly,
            "Ask the user a question and wait for the answer. Only ask what you cannot find out yourself and must not assume.",
            &json!({
                "question": { "type": "string", "minLength": 1, "description": "The question, with all that is needed to answer it." },
                "choices": {
                    "type": "array",
                    "items": { "type": "string", "minLength": 1 },
                    "minItems": 2,
                    "description": "Answers to choose from, your recommendation first.",
                },
                "several": { "type": "boolean", "description": "Whether several of the choices may be taken." },
                "free_text": { "type": "boolean", "description": "Whether the user may answer in other words than the choices; true if left out." },
                "schema": { "type": "object", "description": "Instead of choices: a JSON schema that the answer must fit." },
            }),
            &["question"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::new(AskedQuestion::of(arguments)?))
    }

    fn needs(&self) -> Needs {
        Needs::User
    }
}

/// A question of the model, as the arguments of its call give it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedQuestion {
    /// The question.
    pub question: String,
    /// Answers to choose from; may be empty.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Whether several of them may be taken.
    #[serde(default)]
    pub several: bool,
    /// Whether other words are an answer too.
    #[serde(default = "yes")]
    pub free_text: bool,
    /// The JSON schema that the answer must fit.
    #[serde(default)]
    pub schema: Option<Value>,
}

fn yes() -> bool {
    true
}

impl AskedQuestion {
    /// The question in the arguments of a call.
    ///
    /// # Errors
    /// Returns what is wrong with them, for the model.
    pub fn parse(arguments: &[u8]) -> Result<Self, ToolError> {
        Self::of(serde_json::from_slice(arguments).map_err(|source| ToolError::BrokenJson { source })?)
    }

    fn of(arguments: Value) -> Result<Self, ToolError> {
        let asked = tool_set::arguments::<Self>(NAME, arguments)?;
        match asked.contradiction() {
            None => Ok(asked),
            Some(violations) => Err(ToolError::Arguments { tool: NAME.to_owned(), violations }),
        }
    }

    fn contradiction(&self) -> Option<String> {
        let Self { question, choices, several, free_text, schema } = self;
        let is_long = |text: &str, most: usize| text.chars().nth(most).is_some();
        let is_twice = |(at, choice): (usize, &String)| choices[..at].iter().any(|one| one.trim() == choice.trim());
        if question.trim().is_empty() || choices.iter().any(|choice| choice.trim().is_empty()) {
            return Some("`question` and `choices`: a text of blanks asks nothing".to_owned());
        }
        if is_long(question, QUESTION_CHARS) {
            return Some(format!("`question`: {QUESTION_CHARS} characters are the most"));
        }
        if choices.len() > CHOICES || choices.iter().any(|choice| is_long(choice, CHOICE_CHARS)) {
            return Some(format!("`choices`: {CHOICES} of {CHOICE_CHARS} characters are the most"));
        }
        if choices.iter().enumerate().any(is_twice) {
            return Some("`choices`: one of them comes twice".to_owned());
        }
        if schema.is_some() && !choices.is_empty() {
            return Some("`schema` and `choices`: give one of them".to_owned());
        }
        if choices.is_empty() && (*several || !free_text) {
            return Some("`several` and `free_text` are for `choices`".to_owned());
        }
        None
    }

    /// What it takes as the answer.
    pub fn takes(&self) -> AnswerForm {
        match (&self.schema, self.choices.is_empty()) {
            (Some(_), _) => AnswerForm::Json,
            (None, false) if !self.free_text => AnswerForm::Choice,
            (None, _) => AnswerForm::Text,
        }
    }
}

impl ToolCall for AskedQuestion {
    fn acts(&self, _site: &CallSite<'_>) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Other { question: "ask the user".to_owned() }])
    }

    fn question(&self) -> Option<UserQuestion> {
        Some(UserQuestion { text: self.question.clone(), takes: self.takes() })
    }

    fn run<'a>(
        &'a self,
        _context: &'a Context,
        _request: &'a CallRequest,
        _progress: &'a mut OnOutput<'a>,
    ) -> ToolFuture<'a, Result<ToolResult, ToolError>> {
        // The engine settles it with its answer.
        Box::pin(std::future::ready(Err(ToolError::Defect { tool: NAME })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R60: what contradicts itself is refused with what to do, and never asked.
    #[test]
    fn r60_a_question_that_nobody_can_answer_is_refused() {
        for (arguments, part) in [
            (json!({ "question": " " }), "blanks"),
            (json!({ "question": "?", "choices": ["a", " "] }), "blanks"),
            (json!({ "question": "?", "choices": ["a", "a "] }), "twice"),
            (json!({ "question": "?", "choices": vec!["x"; CHOICES + 1] }), "are the most"),
            (json!({ "question": "x".repeat(QUESTION_CHARS + 1) }), "are the most"),
            (json!({ "question": "?", "choices": ["a", "b"], "schema": {} }), "one of them"),
            (json!({ "question": "?", "several": true }), "for `choices`"),
            (json!({ "question": "?", "free_text": false }), "for `choices`"),
        ] {
            let error = AskedQuestion::of(arguments.clone()).unwrap_err().to_string();
            assert!(error.contains(part), "{arguments}: {error}");
        }
    }
}
