//! `end_call`: ends a running call with every process of it.

use std::time::Duration;

use engine::Report;
use tools::{CallRequest, Context};

use super::Reporter;
use crate::crashpoint;

/// How long a call gets to end before it is told as unended: a second less than the engine waits.
const GRACE: Duration = Duration::from_secs(4);

pub(super) async fn perform(context: Context, request: CallRequest, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("ending_call");
    let tools::Ended { outcome, output, whole } = tools::end(&context, &request, GRACE).await;
    reporter.report(Report::CallEnded { effect, outcome, output, whole }).await;
}
