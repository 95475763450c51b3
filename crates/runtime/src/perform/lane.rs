//! `lane`: a place in the global lane for the head of the queue, then the settings of its run.

use std::sync::Arc;

use engine::{Effect, EffectId, MessageId, Overrides, Report, RunId, Session, Settings, Thinking};

use super::Reporter;
use crate::lanes::{LaneTicket, Of};
use crate::runtime::{ModelPreferences, Shared};

/// What decides the settings of the next run.
pub(crate) struct SettingsRequest {
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    pub(crate) thinking: Option<Thinking>,
    pub(crate) overrides: Overrides,
}

impl SettingsRequest {
    pub(super) fn new(session: &Session, message: MessageId) -> Self {
        let queued = session.queue.iter().find(|queued| queued.message == message);
        let overrides = queued.map(|queued| queued.overrides.clone()).unwrap_or_default();
        Self { agent: session.agent.clone(), model: session.model.clone(), thinking: session.thinking, overrides }
    }
}

pub(super) async fn perform(shared: Arc<Shared>, (request, ticket): (SettingsRequest, LaneTicket), reporter: Reporter) {
    let effect = reporter.effect();
    ticket.come().await;
    reporter.report(entered(&shared, request, effect)).await;
}

/// A lane that is free answers within the offer of the message: its acceptance and the start of its run are one batch.
pub(crate) fn enter_free(
    shared: &Shared,
    request: SettingsRequest,
    message: MessageId,
    session: &str,
) -> Option<Report> {
    let run = RunId::from(message);
    let is_in = shared.enter_free_lane(run, Of { session, agent: &request.agent });
    is_in.then(|| entered(shared, request, Effect::lane(message).id()))
}

fn entered(shared: &Shared, request: SettingsRequest, effect: EffectId) -> Report {
    let wants = ModelPreferences { model: request.model.as_deref(), thinking: request.thinking };
    match shared.resolver.settings(&request.agent, wants, &request.overrides) {
        Ok(mut settings) => {
            shared.ledger.order(&mut settings.candidates);
            let cooling = shared.ledger.cooling(&settings.candidates, effect.run, shared.clock.now());
            Report::LaneEntered { effect, settings: shared.latest.settings(settings), cooling }
        }
        Err(failure) => {
            let settings = Settings { agent: request.agent, ..Settings::default() };
            Report::LaneRefused { effect, settings: Arc::new(settings), failure }
        }
    }
}
