//! The plan of a session, as long as a step of it is open.

use engine::{Session, plan_items};
use journal::Read;
use protocol::event::PlanStep;

use crate::error::Error;

/// All steps of the plan; none if it has no open step, or was erased.
pub fn open_plan(read: &dyn Read, session: &Session) -> Result<Vec<PlanStep>, Error> {
    let Some(plan) = &session.conversation.plan else { return Ok(vec![]) };
    let items = plan_items(&read.body(&plan.items.hash)?.unwrap_or_default());
    let is_open = items.iter().any(engine::PlanItem::is_open);
    Ok(if is_open { items.into_iter().map(Into::into).collect() } else { vec![] })
}
