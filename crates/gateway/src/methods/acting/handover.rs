//! `owner.handover`: a service asks for the home. The owner decides what it then does; see `Service::handing_over`. A command
//! that a model runs may not ask: it would end the process that runs its own call.

use protocol::method::HandoverAccepted;

use crate::connection::Caller;
use crate::error::Error;

pub(in crate::methods) fn hand_over(caller: &Caller) -> Result<HandoverAccepted, Error> {
    if caller.is_in_call() {
        return Err(Error::State {
            what: "a process inside a tool call may not take over the home that the call belongs to".to_owned(),
            hint: "start the service outside of the agent, for example from a terminal".to_owned(),
        });
    }
    let drain = caller.service.hand_over()?;
    Ok(HandoverAccepted { drain_ms: u64::try_from(drain.as_millis()).unwrap_or(u64::MAX) })
}
