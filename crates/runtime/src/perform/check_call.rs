//! `check_call`: do the arguments fit, and may it run.

use std::sync::Arc;

use engine::{Report, Settings, ToolClass};
use tools::{CallRequest, Checked, Context};

use super::Reporter;

pub(super) async fn perform(settings: Arc<Settings>, context: Context, request: CallRequest, reporter: Reporter) {
    let effect = reporter.effect();
    let read_only = settings.tool(&request.tool).is_some_and(|tool| tool.class == ToolClass::ReadOnly);
    // A check of a read-only call is a few look-ups of microseconds, less than a hop to another thread; others may hash
    // a file.
    let checked =
        if read_only { tools::check(&settings, &context, &request) } else { aside(settings, context, request).await };
    let report = Report::CallChecked {
        effect,
        decision: checked.decision,
        fingerprint: checked.fingerprint,
        evidence: checked.evidence,
        reason: checked.reason,
    };
    reporter.report(report).await;
}

async fn aside(settings: Arc<Settings>, context: Context, request: CallRequest) -> Checked {
    let check = tokio::task::spawn_blocking(move || tools::check(&settings, &context, &request));
    check.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
