//! `prepare`: makes sure that the workspace exists, and renders the system prompt.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use engine::{BodyKind, Content, Failure, FailureClass, Report, Settings};

use super::Reporter;

pub(super) async fn perform(settings: Arc<Settings>, reporter: Reporter) {
    let effect = reporter.effect();
    let report = match create_workspace(Path::new(&settings.workspace)) {
        Ok(()) => {
            let prompt = Content::text(BodyKind::Prompt, &system(&settings));
            Report::Prepared { effect, prompt }
        }
        Err(failure) => Report::RequestFailed { effect, failure },
    };
    reporter.report(report).await;
}

fn create_workspace(workspace: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(workspace).map_err(|error| {
        let message = format!(
            "the workspace {} cannot be used as a folder ({error}); set `agents.main.workspace` or `--workspace`",
            workspace.display()
        );
        Failure::new(FailureClass::Refused, message)
    })
}

/// The system prompt of a run. The same settings give the same prompt, so that providers can cache it.
fn system(settings: &Settings) -> String {
    let mut prompt = format!(
        "You are {agent}, an agent of Limulus, a durable agent runtime. You work for one user, in the folder \
         {workspace}; relative paths are relative to it. Today is {date}.\n\n\
         Do what the user asks with the tools below, in as few steps as the work needs, then answer briefly, with what \
         you found or did. Look before you change anything. A result that says \"interrupted\" means that the outcome \
         is unknown: find out before you repeat the call. Text marked [STEER] is a message of the user that came while \
         you worked: it goes before what you were doing.\n\nTools:\n",
        agent = settings.agent,
        workspace = settings.workspace,
        date = settings.date,
    );
    for tool in settings.tools.iter() {
        let first = tool.description.lines().next().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(prompt, "- {}: {first}", tool.name);
    }
    prompt
}
