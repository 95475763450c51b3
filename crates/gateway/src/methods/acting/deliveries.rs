//! `deliveries.retry`, `deliveries.drop`: sends again what did not arrive, and gives up what is to go out.

use std::sync::Arc;

use engine::{Command, EffectId};
use protocol::method::{DeliveryChanged, DeliveryParams};

use crate::connection::Caller;
use crate::error::Error;

pub(in crate::methods) async fn retry(caller: &Arc<Caller>, params: DeliveryParams) -> Result<DeliveryChanged, Error> {
    change(caller, params, |delivery| Command::Redeliver { delivery }).await
}

pub(in crate::methods) async fn drop(caller: &Arc<Caller>, params: DeliveryParams) -> Result<DeliveryChanged, Error> {
    change(caller, params, |delivery| Command::DropDelivery { delivery }).await
}

async fn change(
    caller: &Arc<Caller>,
    DeliveryParams { id }: DeliveryParams,
    command: impl Fn(EffectId) -> Command,
) -> Result<DeliveryChanged, Error> {
    let service = &caller.service;
    let hint = "`limulus deliveries list` shows the ids";
    let delivery = EffectId::of_delivery(&id);
    let delivery =
        delivery.ok_or_else(|| Error::invalid(format!("`{}` is no id of a delivery", id.escape_debug()), hint))?;
    let row = super::session_of_run(service, delivery.run)?;
    let row = row.ok_or_else(|| Error::not_found(format!("there is no run {}", delivery.run), hint))?;
    super::ask(service, &row, command(delivery)).await?;
    Ok(DeliveryChanged { id, session_key: row.key })
}
