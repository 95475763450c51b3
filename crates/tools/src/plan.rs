//! The tool `plan`: the model keeps a list of what it means to do. The result of a call has the list, and the engine keeps it
//! with the conversation: nothing is done to the world.

use engine::{PlanItem, PlanStatus, ToolClass, ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{CallRequest, Context};
use crate::error::ToolError;
use crate::limits::{NOTE_CHARS, STEP_CHARS, STEPS};
use crate::tool::{Act, CallSite, OnOutput, ParsedCall, Tool, ToolCall, ToolFuture, done};
use crate::tool_set::{self, spec};

const NAME: &str = "plan";

/// The tool.
pub(crate) struct Plan;

impl Tool for Plan {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            NAME,
            ToolClass::ReadOnly,
            "Show the user your plan for a task of several steps, and keep it up to date. Each call gives the whole list.",
            &json!({
                "items": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "step": { "type": "string", "minLength": 1 },
                            "status": { "enum": ["pending", "in_progress", "done"] },
                        },
                        "required": ["step", "status"],
                        "additionalProperties": false,
                    },
                    "description": "Every step, in order; at most one in_progress. An empty list clears the plan.",
                },
                "note": { "type": "string", "description": "Why the plan changed." },
            }),
            &["items"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::new(PlanCall::of(arguments)?))
    }
}

/// A call with its arguments.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanCall {
    items: Vec<PlanItem>,
    #[serde(default)]
    note: Option<String>,
}

impl PlanCall {
    fn of(arguments: Value) -> Result<Self, ToolError> {
        let mut call = tool_set::arguments::<Self>(NAME, arguments)?;
        for item in &mut call.items {
            // A step is one line, whatever the model wrote.
            item.step = item.step.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        match call.contradiction() {
            None => Ok(call),
            Some(violations) => Err(ToolError::Arguments { tool: NAME.to_owned(), violations }),
        }
    }

    fn contradiction(&self) -> Option<String> {
        let Self { items, note } = self;
        let is_long = |text: &str, most: usize| text.chars().nth(most).is_some();
        let is_twice = |(at, item): (usize, &PlanItem)| items[..at].iter().any(|earlier| earlier.step == item.step);
        if items.len() > STEPS {
            return Some(format!("`items`: {STEPS} are the most; put several small steps into one"));
        }
        if items.iter().any(|item| item.step.is_empty()) {
            return Some("`step`: a text of blanks says nothing; say what is to be done".to_owned());
        }
        if items.iter().any(|item| is_long(&item.step, STEP_CHARS)) {
            return Some(format!("`step`: {STEP_CHARS} characters are the most; say it in one line"));
        }
        if items.iter().enumerate().any(is_twice) {
            return Some("`items`: a step comes twice; give each one text of its own".to_owned());
        }
        if items.iter().filter(|item| item.status == PlanStatus::InProgress).count() > 1 {
            return Some("`items`: several are in_progress; leave one, and make the others pending or done".to_owned());
        }
        if note.as_deref().is_some_and(|note| is_long(note, NOTE_CHARS)) {
            return Some(format!("`note`: {NOTE_CHARS} characters are the most"));
        }
        None
    }

    /// What the model receives.
    fn saved(&self) -> String {
        let done = self.items.iter().filter(|item| !item.is_open()).count();
        match self.items.len() {
            0 => "Plan cleared.\n".to_owned(),
            steps => format!("Plan saved: {done} of {steps} done.\n"),
        }
    }
}

impl ToolCall for PlanCall {
    fn acts(&self, _site: &CallSite<'_>) -> Result<Vec<Act>, ToolError> {
        Ok(vec![Act::Other { question: "set the plan".to_owned() }])
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        _request: &'a CallRequest,
        _progress: &'a mut OnOutput<'a>,
    ) -> ToolFuture<'a, Result<ToolResult, ToolError>> {
        let masked = |item: &PlanItem| PlanItem { step: context.secrets.mask(&item.step), status: item.status };
        let plan = Some(self.items.iter().map(masked).collect());
        Box::pin(std::future::ready(Ok(ToolResult { plan, ..done(context, &self.saved()) })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: &str, status: &str) -> Value {
        json!({ "step": step, "status": status })
    }

    /// R13: what contradicts itself is refused with what to do.
    #[test]
    fn r13_a_plan_that_contradicts_itself_is_refused_with_what_to_do() {
        let long = "x".repeat(STEP_CHARS + 1);
        let many: Vec<Value> = (0..=STEPS).map(|at| step(&at.to_string(), "pending")).collect();
        for (arguments, part) in [
            (json!({ "items": [step("a", "in_progress"), step("b", "in_progress")] }), "leave one"),
            (json!({ "items": [step(" \n", "pending")] }), "say what is to be done"),
            (json!({ "items": [step(&long, "pending")] }), "200 characters are the most"),
            (json!({ "items": many }), "50 are the most"),
            (json!({ "items": [step("a  b", "done"), step("a\nb", "pending")] }), "comes twice"),
            (json!({ "items": [], "note": "x".repeat(NOTE_CHARS + 1) }), "are the most"),
            (json!({ "items": [step("a", "later")] }), "unknown variant"),
        ] {
            let error = PlanCall::of(arguments.clone()).unwrap_err().to_string();
            assert!(error.contains(part), "{arguments}: {error}");
        }
    }

    #[test]
    fn r13_a_step_is_one_line_and_the_result_is_counted() {
        let call = PlanCall::of(json!({ "items": [step(" read\n  it ", "done"), step("write", "pending")] })).unwrap();
        assert_eq!(call.items[0].step, "read it");
        assert_eq!(call.saved(), "Plan saved: 1 of 2 done.\n");
        let longest = "é".repeat(STEP_CHARS);
        assert!(PlanCall::of(json!({ "items": [step(&longest, "in_progress")] })).is_ok());
        let cleared = PlanCall::of(json!({ "items": [], "note": "all is done" })).unwrap();
        assert_eq!(cleared.saved(), "Plan cleared.\n");
    }
}
