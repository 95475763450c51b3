//! The plan of a conversation on the screen: each time that a call has set it, all of its steps.

use engine::CallId;
use protocol::Event;
use protocol::event::PlanStep;

use super::Screen;
use crate::language::word;
use crate::output::Output;
use crate::render::{plan_lines, rows};

impl Screen {
    /// Shows the plan. On a terminal it stands below the line of its call, of whose end nothing more is shown.
    pub(super) fn plan_set(&mut self, event: &Event, call: CallId, steps: &[PlanStep]) {
        self.calls.sets_plan(call);
        if steps.is_empty() {
            return self.note(event, &format!("  {}", word("the plan is cleared")));
        }
        if !self.live {
            return plan_lines(steps).for_each(|(mark, step)| self.note(event, &format!("  {mark} {step}")));
        }
        let width = Output::Stderr.width();
        let rows = plan_lines(steps).flat_map(|(mark, step)| rows::rows(&format!("  {mark} "), &step, width));
        self.say_rows(&rows.collect::<Vec<_>>());
    }
}
