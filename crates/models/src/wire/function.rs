//! A tool in the form of OpenAI's chat completions and Ollama, which call it a function.

use engine::ToolSpec;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
pub(crate) struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> From<&'a ToolSpec> for Tool<'a> {
    fn from(tool: &'a ToolSpec) -> Self {
        let function = Function { name: &tool.name, description: &tool.description, parameters: &tool.schema };
        Self { r#type: "function", function }
    }
}
