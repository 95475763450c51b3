//! `prepare`: makes sure that the workspace exists, and makes the system prompt.

use std::path::Path;
use std::sync::Arc;

use engine::{BodyKind, Content, Failure, FailureClass, Report, Settings};

use super::Reporter;
use crate::prompt::{self, PromptPlaces, PromptSources};
use crate::runtime::{Redaction, Shared};

pub(super) async fn perform(shared: Arc<Shared>, settings: Arc<Settings>, key: String, reporter: Reporter) {
    let effect = reporter.effect();
    let report = if let Err(why) = copied(&shared, &settings).await {
        Report::RequestFailed { effect, failure: Failure::new(FailureClass::Refused, why) }
    } else if Path::new(&settings.workspace).is_dir() {
        let prompt = Content::text(BodyKind::Prompt, &system(shared, settings, key).await);
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

async fn system(shared: Arc<Shared>, settings: Arc<Settings>, key: String) -> String {
    let making = move || {
        let Redaction { secrets, protected, .. } = shared.resolver.redaction();
        let (user, protected) = (shared.resolver.user_folder(), protected.and(&shared.own));
        let places = PromptPlaces { home: &shared.home, user: user.as_deref(), protected: &protected };
        let sources = PromptSources::read(&settings, places, || is_first_session(&shared, &settings.agent, &key));
        prompt::system(&settings, &sources, user.as_deref(), &secrets)
    };
    // Files may be on a disk that is slow.
    tokio::task::spawn_blocking(making).await.expect("it neither panics nor is cancelled")
}

/// Whether this is the first session of its agent. The row of one that has just begun may not be there yet.
fn is_first_session(shared: &Shared, agent: &str, key: &str) -> bool {
    let all = shared.journal.sessions().unwrap_or_default();
    let first = all.iter().filter(|row| row.agent == agent).min_by_key(|row| row.created_at);
    first.is_none_or(|first| first.key == key)
}
