//! `prepare`: the workspace stands, the system prompt is made.

use std::path::Path;
use std::sync::Arc;

use engine::{BodyKind, Content, Failure, FailureClass, Report, Settings};

use super::Reporter;
use crate::prompt;

pub(super) async fn perform(settings: Arc<Settings>, reporter: Reporter) {
    let effect = reporter.effect();
    let report = match stand(Path::new(&settings.workspace)) {
        Ok(()) => {
            let prompt = Content::text(BodyKind::Prompt, &prompt::system(&settings));
            Report::Prepared { effect, prompt }
        }
        Err(failure) => Report::RequestFailed { effect, failure },
    };
    reporter.report(report).await;
}

fn stand(workspace: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(workspace).map_err(|error| {
        let message = format!(
            "the workspace {} is not a folder that can be used ({error}); set `agents.main.workspace` or `--workspace`",
            workspace.display()
        );
        Failure::new(FailureClass::Refused, message)
    })
}
