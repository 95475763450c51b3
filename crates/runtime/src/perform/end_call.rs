//! `end_call`: ends a running call with every process of it.

use std::time::Duration;

use engine::{BodyKind, CallOutcome, Content, EndingCause, Report};
use tools::{CallRequest, Context};

use super::Reporter;
use crate::crashpoint;

/// How long a call gets to end before it is told as unended: a second less than the engine waits.
pub(super) const GRACE: Duration = Duration::from_secs(4);

pub(super) async fn perform(context: Context, request: CallRequest, why: EndingCause, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("ending_call");
    let mut given = tools::end(&context, &request, GRACE).await;
    // A command that was done before it could be ended has passed no limit.
    if why == EndingCause::Limit && given.outcome != CallOutcome::Done {
        let limit = format!("[its limit was reached: {} s for one call (tools.timeout_s)]\n", context.call_ms / 1000);
        let text = String::from_utf8_lossy(&given.output.bytes).into_owned() + &limit;
        given.output = Content::text(BodyKind::Output, &text);
    }
    reporter.report(Report::CallEnded { effect, given }).await;
}
