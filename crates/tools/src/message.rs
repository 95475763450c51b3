//! The tool `message`: the model sends a message while its run goes on, to the user or to a route. The call puts it into the
//! outbox of the session, in one transaction with its result, so that it is sent once whatever becomes of the process.

use std::sync::Arc;

use engine::{BodyKind, Content, Found, Outgoing, ToolClass, ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{CallRequest, Context, FoundCall};
use crate::error::ToolError;
use crate::limits::MESSAGE_CHARS;
use crate::tool::{Act, CallSite, Needs, OnOutput, ParsedCall, Tool, ToolCall, ToolFuture, done};
use crate::tool_set::{self, spec};

const NAME: &str = "message";
/// The recipient that is whoever follows the session.
const USER: &str = "user";

/// The tool.
pub(crate) struct Message;

impl Tool for Message {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            NAME,
            ToolClass::Once,
            "Send a message now, before your answer: news that should not wait, or something for another recipient. Do not repeat it in \
             your answer; if that would say nothing more, answer NO_REPLY.",
            &json!({
                "text": { "type": "string", "minLength": 1 },
                "to": { "type": "string", "description": "The recipient. Leave it out for the one that receives your answer." },
            }),
            &["text"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::new(MessageCall::of(arguments)?))
    }

    fn needs(&self) -> Needs {
        Needs::Route
    }
}

/// The tools, where the recipients of messages are named as these routes are.
pub fn with_routes<'a>(tools: &Arc<[ToolSpec]>, routes: impl Iterator<Item = &'a str>) -> Arc<[ToolSpec]> {
    let names: Vec<&str> = std::iter::once(USER).chain(routes).collect();
    let described = tools.iter().cloned().map(|mut tool| {
        if tool.name == NAME {
            tool.schema["properties"]["to"]["enum"] = json!(names);
        }
        tool
    });
    described.collect()
}

/// A call with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageCall {
    text: String,
    #[serde(default)]
    to: Option<String>,
}

impl MessageCall {
    fn of(arguments: Value) -> Result<Self, ToolError> {
        let call = tool_set::arguments::<Self>(NAME, arguments)?;
        let wrong = |violations: String| ToolError::Arguments { tool: NAME.to_owned(), violations };
        if call.text.trim().is_empty() {
            return Err(wrong("`text`: a text of blanks says nothing".to_owned()));
        }
        if call.text.chars().nth(MESSAGE_CHARS).is_some() {
            return Err(wrong(format!("`text`: {MESSAGE_CHARS} characters are the most; put more into a file")));
        }
        Ok(call)
    }

    /// The route that it goes to; none = to the user.
    fn route<'a>(&'a self, context: &'a Context) -> Option<&'a str> {
        let named = self.to.as_deref().or_else(|| context.replies_to.first().map(String::as_str));
        named.filter(|name| *name != USER)
    }
}

impl ToolCall for MessageCall {
    fn acts(&self, site: &CallSite<'_>) -> Result<Vec<Act>, ToolError> {
        let Some(route) = self.route(site.context) else { return Ok(vec![]) };
        let is_own = site.context.replies_to.iter().any(|own| own == route);
        if !is_own && !site.context.routes.iter().any(|known| known == route) {
            let known: Vec<&str> =
                std::iter::once(USER).chain(site.context.routes.iter().map(String::as_str)).collect();
            let violations = format!("`to`: there is no recipient `{route}`; there are: {}", known.join(", "));
            return Err(ToolError::Arguments { tool: NAME.to_owned(), violations });
        }
        Ok(vec![Act::Send { route: route.to_owned(), is_own }])
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        _request: &'a CallRequest,
        _progress: &'a mut OnOutput<'a>,
    ) -> ToolFuture<'a, Result<ToolResult, ToolError>> {
        let route = self.route(context).map(str::to_owned);
        let said = match &route {
            None => "The user has it.\n".to_owned(),
            Some(route) => format!(
                "It is on its way to {route}; it is sent once, and the user is notified if it does not arrive.\n"
            ),
        };
        let text = Content::text(BodyKind::Message, &context.secrets.mask(&self.text));
        let sends = Some(Outgoing { route, text });
        Box::pin(std::future::ready(Ok(ToolResult { sends, ..done(context, &said) })))
    }

    /// It is sent with its result, or not at all.
    fn find<'a>(
        &'a self,
        _context: &'a Context,
        _request: &'a CallRequest,
    ) -> ToolFuture<'a, Result<FoundCall, ToolError>> {
        Box::pin(std::future::ready(Ok(FoundCall { found: Found::NeverStarted, ended: None })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r46_a_message_has_a_text_and_a_known_recipient() {
        let of = |arguments: Value| MessageCall::of(arguments).map_err(|error| error.to_string());
        assert_eq!(of(json!({ "text": "hi" })).unwrap().to, None);
        for (wrong, why) in [
            (json!({}), "text"),
            (json!({ "text": "  " }), "blanks"),
            (json!({ "text": "x".repeat(MESSAGE_CHARS + 1) }), "characters"),
            (json!({ "text": "hi", "cc": "ops" }), "cc"),
        ] {
            let error = of(wrong).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn r46_the_recipients_are_the_routes_of_the_configuration() {
        let tools: Arc<[ToolSpec]> = [Message.spec(1)].into();
        let named = with_routes(&tools, ["ops"].into_iter());
        assert_eq!(named[0].schema["properties"]["to"]["enum"], json!(["user", "ops"]));
    }
}
