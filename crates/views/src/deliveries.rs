//! What goes out of sessions and has not arrived.

use engine::{Address, Delivery, DeliveryState, SessionRow};
use journal::Read;
use protocol::method::{DeliveryShown, DeliveryStage};

use crate::error::Error;
use crate::session::fold_branch;

/// The outbox of a session, oldest first.
pub fn of_session(read: &dyn Read, row: &SessionRow) -> Result<Vec<DeliveryShown>, Error> {
    let session = fold_branch(read, row)?;
    Ok(session.account.outbox.deliveries.iter().map(|delivery| shown(delivery, &row.key)).collect())
}

fn shown(delivery: &Delivery, session: &str) -> DeliveryShown {
    let tries = delivery.effect.try_no;
    let (state, until, tries) = match delivery.state {
        DeliveryState::Wanted => (DeliveryStage::Wanted, None, 0),
        DeliveryState::Started { .. } => (DeliveryStage::Started, None, tries),
        DeliveryState::Waiting { until } => (DeliveryStage::Waiting, Some(until), tries - 1),
        DeliveryState::Undelivered { is_unknown: false, .. } => (DeliveryStage::Failed, None, tries),
        DeliveryState::Undelivered { is_unknown: true, .. } => (DeliveryStage::Unknown, None, tries),
    };
    DeliveryShown {
        id: delivery.effect.delivery_name(),
        kind: delivery.kind,
        session: session.to_owned(),
        run: delivery.effect.run,
        to: Address::clone(&delivery.to),
        state,
        tries,
        why: delivery.why.clone(),
        until,
        wanted_at: delivery.wanted_at,
        call: delivery.call,
    }
}
