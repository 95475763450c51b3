//! `find_call`: what became of a call that a crash cut off.

use engine::Report;
use tools::{CallRequest, Context};

use super::Reporter;

pub(super) async fn perform(context: Context, request: CallRequest, reporter: Reporter) {
    let effect = reporter.effect();
    let found = tools::find(&context, &request).await;
    reporter.report(Report::CallFound { effect, found: found.found, ended: found.ended }).await;
}
