//! The effects on what the sessions of a home share: its lanes, its budgets and its ledger.

use std::sync::Arc;
use std::time::Duration;

use engine::policy::Principal;
use engine::{
    BudgetRequest, Effect, EffectId, Failure, FailureClass, FailureReport, Grant, LedgerInput, MessageId, Overrides,
    RepairPolicy, Report, RunId, Session, Settings, SharedBudget, Thinking,
};

use super::Reporter;
use crate::lanes::{LaneTicket, Of};
use crate::ledger;
use crate::runtime::{SessionContext, Shared};

/// The interval between checks of what sends no notice: the configuration, and the next day.
const LOOK: Duration = Duration::from_secs(2);
/// The interval between checks of a full disk.
const LOOK_FOR_SPACE: Duration = Duration::from_secs(1);

/// What decides the settings of the next run.
pub(crate) struct SettingsRequest {
    pub(crate) session: String,
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    pub(crate) thinking: Option<Thinking>,
    pub(crate) overrides: Overrides,
}

impl SettingsRequest {
    pub(super) fn new(session: &Session, message: MessageId) -> Self {
        let queued = session.conversation.queue.iter().find(|queued| queued.message == message);
        let overrides = queued.map(|queued| queued.overrides.clone()).unwrap_or_default();
        Self {
            session: session.account.key.clone(),
            agent: session.account.agent.clone(),
            model: session.account.model.clone(),
            thinking: session.account.thinking,
            overrides,
        }
    }
}

/// `lane`: gets a slot of the lane for the head of the queue, then the settings of its run.
pub(super) async fn lane(shared: Arc<Shared>, (request, ticket): (SettingsRequest, LaneTicket), reporter: Reporter) {
    let effect = reporter.effect();
    ticket.admitted().await;
    reporter.report(entered(&shared, request, effect)).await;
}

/// `lane` of a run whose wait is over: gets its slot again. Its settings stay.
pub(super) async fn lane_again(
    shared: Arc<Shared>,
    (settings, ticket): (Arc<Settings>, LaneTicket),
    reporter: Reporter,
) {
    let effect = reporter.effect();
    ticket.admitted().await;
    let cooling = shared.ledger.cooling(&settings.candidates, effect.run, shared.clock.now());
    reporter.report(Report::LaneEntered { effect, settings, cooling }).await;
}

/// A free lane answers within the offer of the message: its acceptance and the start of its run are one batch.
pub(crate) fn enter_free(shared: &Shared, request: SettingsRequest, message: MessageId) -> Option<Report> {
    let run = RunId::from(message);
    let is_admitted = shared.enter_free_lane(run, Of { session: &request.session, agent: &request.agent });
    is_admitted.then(|| entered(shared, request, Effect::lane(message).id()))
}

fn entered(shared: &Shared, request: SettingsRequest, effect: EffectId) -> Report {
    let SettingsRequest { session, agent, model, thinking, overrides } = &request;
    // A command of a call sends no messages, so every run is begun by the user.
    let principal = Some(Principal::Local);
    let session = SessionContext { key: Some(session), principal, model: model.as_deref(), thinking: *thinking };
    match shared.resolver.settings_again(agent, session, overrides) {
        Ok(mut settings) => {
            // A limit that was set is shared like one that is configured: the run asks the pool only if it has one.
            let set = SharedBudget::from(&settings.budget).with(&settings.agent, |of| shared.ledger.allowance(of));
            (settings.budget.agent, settings.budget.day, settings.budget.home) = (set.agent, set.day, set.home);
            shared.ledger.order(&mut settings.candidates);
            ledger::apply_accepted_levels(shared, &mut settings.candidates);
            let cooling = shared.ledger.cooling(&settings.candidates, effect.run, shared.clock.now());
            Report::LaneEntered { effect, settings: shared.latest.settings(settings), cooling }
        }
        Err(failure) => {
            let reply = shared.resolver.reply(overrides);
            let settings = Settings { agent: request.agent, reply, ..Settings::default() };
            Report::LaneRefused { effect, settings: Arc::new(settings), failure }
        }
    }
}

/// `reserve`: gets a grant for a request from the budgets of its run. A denied request is repeated whenever something
/// has changed, until it is granted.
pub(super) async fn reserve(shared: Arc<Shared>, request: BudgetRequest, reporter: Reporter) {
    let effect = reporter.effect();
    let mut is_reported = false;
    loop {
        let changed = shared.budget_pool.changed();
        match shared.ask_to_continue(&request) {
            Ok(Grant::Granted { near }) => return reporter.report(Report::Reserved { effect, near }).await,
            Ok(Grant::Denied { limit, until }) => {
                if !is_reported {
                    is_reported = true;
                    reporter.report(Report::Denied { effect, limit, until }).await;
                }
            }
            Err(error) => {
                let failure = Failure::new(FailureClass::Store, error.to_string());
                return reporter.report(Report::Escalated { failure, repair: RepairPolicy::AsConfigured }).await;
            }
        }
        // Either way the request is repeated.
        let _ = tokio::time::timeout(LOOK, changed).await;
    }
}

/// `report`: reports a failure to the ledger until the ledger has recorded it.
pub(super) async fn report(shared: Arc<Shared>, failure_report: FailureReport, reporter: Reporter) {
    let effect = reporter.effect();
    loop {
        match ledger::record(&shared, LedgerInput::Failed(failure_report.clone())).await {
            Ok(_) => return reporter.report(Report::Reported { effect }).await,
            Err(journal::Error::Full { .. }) => tokio::time::sleep(LOOK_FOR_SPACE).await,
            // The next owner reports it: it is pending in the session until it is recorded.
            Err(_) => return,
        }
    }
}
