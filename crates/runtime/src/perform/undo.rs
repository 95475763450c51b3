//! `undo`: brings files into the state that a plan names.

use std::sync::Arc;

use engine::{Body, LeftFile, Report};
use tools::UndoPlan;

use super::Reporter;
use crate::crashpoint;
use crate::runtime::Shared;

/// Carries out the plan. When dropped, it stops after the current file, and the next owner continues.
pub(super) async fn perform(shared: Arc<Shared>, plan: Body, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("undo_started");
    let left = match read(&shared, plan).await {
        Ok(plan) => {
            let redaction = shared.resolver.redaction();
            let protected = redaction.protected.and(&shared.own);
            tools::undo(&shared.files(redaction.undo), &protected, effect, plan).await
        }
        Err(why) => vec![LeftFile { path: ".".to_owned(), why }],
    };
    crashpoint::hit("undo_done");
    reporter.report(Report::Undone { effect, left }).await;
}

async fn read(shared: &Arc<Shared>, plan: Body) -> Result<UndoPlan, String> {
    let journal = Arc::clone(&shared.journal);
    let read = tokio::task::spawn_blocking(move || {
        let plan = journal.body(&plan.hash).map_err(|error| error.to_string())?;
        let plan = plan.ok_or_else(|| "the plan of this undo was erased; nothing was changed".to_owned())?;
        serde_json::from_slice(&plan).map_err(|error| format!("the plan of this undo cannot be read: {error}"))
    });
    read.await.unwrap_or_else(|error| Err(format!("the plan of this undo cannot be read: {error}")))
}
