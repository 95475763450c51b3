//! Asks for a tool call, without which an agent can do nothing.

use serde_json::Value;

use super::ask::{Asker, ProbeRequest};
use super::{Finding, Verdict};
use crate::show::human::excerpt;

/// The tool that is offered.
const TOOL: &str = "ls";

pub(super) async fn probe(asker: &Asker) -> Finding {
    let tools = tools::specs().iter().filter(|spec| spec.name == TOOL).cloned().collect();
    let text = "List the files of this folder: call the tool `ls` with the path \".\".";
    let observed = asker.ask(ProbeRequest { text, tools, ..ProbeRequest::default() }).await;
    let finding = |verdict, says: String| Finding::essential("tools", verdict, says, observed.ms);
    if let Some(refusal) = observed.refusal() {
        return finding(Verdict::Fails, refusal).of(&observed);
    }
    match observed.calls.first() {
        Some((name, arguments)) if name == TOOL && is_object(arguments) => {
            finding(Verdict::Works, format!("called {name} {}", excerpt(arguments, 60)))
        }
        Some((name, arguments)) => {
            finding(Verdict::Fails, format!("called {} {}", excerpt(name, 40), excerpt(arguments, 60)))
        }
        None => finding(Verdict::Unclear, format!("it did not call the tool, and said {}", observed.quoted())),
    }
}

/// Missing arguments count as an empty object.
fn is_object(arguments: &str) -> bool {
    arguments.is_empty() || serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object())
}
