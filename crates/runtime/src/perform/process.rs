//! `hold_process` and `end_process`: a command in the background is followed until it has ended, or ended. Dropped, either
//! leaves the command to its supervisor.

use std::sync::Arc;

use engine::{EffectId, Report};
use tools::ProcessEnd;

use super::Reporter;
use super::end_call::GRACE;
use crate::runtime::Shared;

pub(super) async fn hold(shared: Arc<Shared>, process: EffectId, reporter: Reporter) {
    let end = tools::hold_process(&shared.calls(), &shared.resolver.redaction().secrets, process).await;
    ended(end, reporter).await;
}

pub(super) async fn end(shared: Arc<Shared>, process: EffectId, reporter: Reporter) {
    let end = tools::end_process(&shared.calls(), &shared.resolver.redaction().secrets, process, GRACE).await;
    ended(end, reporter).await;
}

async fn ended(end: ProcessEnd, reporter: Reporter) {
    let effect = reporter.effect();
    let ProcessEnd { outcome, how } = end;
    reporter.report(Report::ProcessEnded { effect, outcome, how }).await;
}
