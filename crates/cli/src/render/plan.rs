//! A plan in lines: each step with the mark of its status.

use engine::PlanStatus;
use protocol::event::PlanStep;

use crate::show::human::printable_line;

/// The mark and the text of each step, which shows nothing that a terminal would obey.
pub(crate) fn plan_lines(steps: &[PlanStep]) -> impl Iterator<Item = (&'static str, String)> {
    steps.iter().map(|PlanStep { step, status }| (mark(*status), printable_line(step).into_owned()))
}

fn mark(status: PlanStatus) -> &'static str {
    match status {
        PlanStatus::Pending => "☐",
        PlanStatus::InProgress => "▸",
        PlanStatus::Done => "✔",
    }
}
