//! `request`: sent to a model, its stream reported piece by piece. Dropped, it is cancelled.

use std::sync::Arc;

use engine::{Candidate, Failure, FailureClass, Report, ToolSpec};
use futures_util::StreamExt as _;
use models::{Cached, Message, Model as _, Request, Said};

use super::Reporter;
use crate::crashpoint;
use crate::runtime::Shared;

/// A request, all but the place that it goes to: keys are looked up when it is sent and are in no record.
pub(super) struct Order {
    pub(super) candidate: Candidate,
    pub(super) system: Cached<Arc<str>>,
    pub(super) messages: Vec<Cached<Message>>,
    pub(super) tools: Cached<Arc<[ToolSpec]>>,
    pub(super) cache_key: Arc<str>,
}

pub(super) async fn perform(shared: Arc<Shared>, order: Order, reporter: Reporter) {
    let effect = reporter.effect();
    let Order { candidate, system, messages, tools, cache_key } = order;
    let (provider, model, profile) = (candidate.provider.clone(), candidate.model.clone(), candidate.profile.clone());
    // Every failure names its candidate, whoever it comes from.
    let named = |mut failure: Failure| {
        failure.provider = Some(provider.clone());
        failure.model = Some(model.clone());
        failure.profile.clone_from(&profile);
        failure
    };
    let endpoint = match shared.resolver.endpoint(&candidate) {
        Ok(endpoint) => endpoint,
        Err(failure) => return reporter.report(Report::RequestFailed { effect, failure: named(failure) }).await,
    };
    let request = Request { candidate, system, messages, tools, endpoint, cache_key: Some(cache_key) };
    let mut stream = shared.models.stream(request);
    crashpoint::hit("request_sent");
    while let Some(said) = stream.next().await {
        let report = match said {
            Ok(Said::Opened) => Report::RequestOpened { effect },
            Ok(Said::Part(part)) => Report::Said { effect, part },
            Ok(Said::Ended { usage, .. }) => return reporter.report(Report::RequestEnded { effect, usage }).await,
            Err(failure) => return reporter.report(Report::RequestFailed { effect, failure: named(failure) }).await,
        };
        reporter.report(report).await;
    }
    let failure = Failure::new(FailureClass::Network, "the answer stopped before its end mark");
    reporter.report(Report::RequestFailed { effect, failure: named(failure) }).await;
}
