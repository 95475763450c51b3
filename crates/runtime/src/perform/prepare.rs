//! `prepare`: makes sure that the workspace exists, and makes the system prompt.

use std::path::Path;
use std::sync::Arc;

use engine::{BodyKind, Content, Failure, FailureClass, Report, Settings};
use tools::Instructions;

use super::Reporter;
use crate::prompt;
use crate::runtime::{Redaction, Shared};

pub(super) async fn perform(shared: Arc<Shared>, settings: Arc<Settings>, reporter: Reporter) {
    let effect = reporter.effect();
    let report = if let Err(why) = copied(&shared, &settings).await {
        Report::RequestFailed { effect, failure: Failure::new(FailureClass::Refused, why) }
    } else if Path::new(&settings.workspace).is_dir() {
        let prompt = Content::text(BodyKind::Prompt, &system(shared, settings).await);
        Report::Prepared { effect, prompt }
    } else {
        Report::RequestFailed { effect, failure: no_workspace(&settings.workspace) }
    };
    reporter.report(report).await;
}

/// Makes sure that the copy is there in which the run works. Dropping the future ends the copying.
async fn copied(shared: &Arc<Shared>, settings: &Arc<Settings>) -> Result<(), String> {
    let Some(copy) = settings.sandbox.copy.clone() else { return Ok(()) };
    let protected = shared.resolver.redaction().protected.and(&shared.own);
    tools::make_copy(settings.sandbox.clone(), copy, protected).await
}

fn no_workspace(workspace: &str) -> Failure {
    let message = format!(
        "the workspace {workspace} is not a folder that exists: create it (mkdir -p '{workspace}'), or set \
         `agents.NAME.workspace` or `--workspace`"
    );
    Failure::new(FailureClass::Refused, message)
}

async fn system(shared: Arc<Shared>, settings: Arc<Settings>) -> String {
    let found = if settings.instructions {
        let user = shared.resolver.user_folder();
        Instructions::find(Path::new(&settings.workspace), &shared.home, user.as_deref())
    } else {
        Instructions::default()
    };
    if found.is_empty() {
        return prompt::system(&settings, &[], &tools::Secrets::default());
    }
    let making = move || {
        let Redaction { secrets, protected, .. } = shared.resolver.redaction();
        let files = found.read(&protected.and(&shared.own), most(&settings));
        prompt::system(&settings, &files, &secrets)
    };
    // Files may be on a disk that is slow.
    tokio::task::spawn_blocking(making).await.expect("it neither panics nor is cancelled")
}

/// Bytes that all instructions may have: a token is about four bytes, so that they take a quarter of the smallest window.
fn most(settings: &Settings) -> usize {
    let windows = settings.candidates.iter().map(|candidate| candidate.context_window);
    windows.min().map_or(0, |window| usize::try_from(window).unwrap_or(usize::MAX))
}
