//! `owner.handover`: a service asks for the home. The owner decides what it then does; see `Service::handing_over`.

use protocol::method::HandoverAccepted;

use crate::connection::Caller;
use crate::error::Error;

pub(in crate::methods) fn hand_over(caller: &Caller) -> Result<HandoverAccepted, Error> {
    let drain = caller.service.hand_over()?;
    Ok(HandoverAccepted { drain_ms: u64::try_from(drain.as_millis()).unwrap_or(u64::MAX) })
}
