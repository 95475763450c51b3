//! `check_call`: do the arguments fit, and may it run.

use std::sync::Arc;

use engine::{Report, Settings};
use tools::{CallRequest, Context};

use super::Reporter;

pub(super) async fn perform(settings: Arc<Settings>, context: Context, request: CallRequest, reporter: Reporter) {
    let effect = reporter.effect();
    // A few file system look-ups of microseconds: cheaper here than a hop to another thread.
    let checked = tools::check(&settings, &context, &request);
    let report = Report::CallChecked {
        effect,
        decision: checked.decision,
        fingerprint: checked.fingerprint,
        evidence: checked.evidence,
        reason: checked.reason,
    };
    reporter.report(report).await;
}
