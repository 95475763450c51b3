//! `deliver`: sends something to its route, once.

use std::sync::Arc;

use engine::{Delivery, DeliveryFault, Report, SessionId};

use super::Reporter;
use crate::crashpoint;
use crate::runtime::{DeliveryRequest, DeliveryTrouble, Shared};

/// What is sent, and from where.
pub(super) struct Order {
    pub(super) delivery: Delivery,
    pub(super) session: SessionId,
    pub(super) key: String,
    pub(super) text: Option<Arc<str>>,
}

/// Sends it. When dropped, the outcome is unknown, and the next owner reports that.
pub(super) async fn perform(shared: Arc<Shared>, order: Order, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("deliver_started");
    let report = match send(&shared, order).await {
        Ok(()) => Report::Delivered { effect },
        Err(DeliveryTrouble { why, fault }) => Report::DeliveryFailed { effect, why, fault },
    };
    crashpoint::hit("deliver_done");
    reporter.report(report).await;
}

async fn send(shared: &Arc<Shared>, order: Order) -> Result<(), DeliveryTrouble> {
    let Order { delivery, session, key, text } = order;
    let refused = |why: String| DeliveryTrouble { why, fault: DeliveryFault::Refused };
    let Some(deliver) = &shared.deliver else { return Err(refused("this process sends nothing out".to_owned())) };
    let (resolving, channel) = (Arc::clone(shared), delivery.to.channel.clone());
    let target = tokio::task::spawn_blocking(move || resolving.resolver.route(&channel)).await;
    let target = target.unwrap_or_else(|error| Err(format!("its route cannot be read: {error}")));
    let request = DeliveryRequest {
        effect: delivery.effect,
        kind: delivery.kind,
        session,
        key,
        target: target.map_err(refused)?,
        text,
        wanted_at: delivery.wanted_at,
        may_be_there: delivery.effect.try_no > 1,
        journal: Arc::clone(&shared.journal),
        to: *delivery.to,
    };
    deliver.deliver(request).await
}
