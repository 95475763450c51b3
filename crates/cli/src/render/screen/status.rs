//! What the status line says: what the run does or waits for, for how long, and what it has used.

use std::time::{Duration, Instant};

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Usage, WaitFor};
use protocol::event::{QueueLine, StateLine, Stream, UsageLine};
use protocol::method::BudgetLine;
use protocol::show::LaneWait;

use crate::render::vocabulary;
use crate::show::human::{self, excerpt};

/// Maximum characters of what a run does, in the status line.
const STATUS_CHARS: usize = 60;

/// What a run does, as far as its lines say.
#[derive(Default)]
pub(super) struct Status {
    state: Option<String>,
    /// What the run waits for without a human.
    waits_for: Option<String>,
    /// The status while sessions wait for space.
    disk_full: Option<String>,
    /// The wait in a lane, and how long it had lasted when it was reported.
    queued: Option<(LaneWait, Duration, Instant)>,
    /// When the run that is shown began to be busy, and what it has used since.
    busy_since: Option<Instant>,
    used: Option<Usage>,
}

impl Status {
    /// Takes a line in. Returns the wait in a lane that begins with it.
    pub(super) fn see(&mut self, what: &Stream) -> Option<LaneWait> {
        let begins = self.see_queue(what);
        match what {
            Stream::State(StateLine::Waiting { on: WaitFor::Quota, until, .. }) => {
                self.wait(vocabulary::waits_for_a_model(*until));
            }
            Stream::State(StateLine::Waiting { on: WaitFor::Budget, budget, .. }) => {
                let figures =
                    budget.as_ref().and_then(BudgetLine::as_limit).map(|limit| format!(": {}", limit.figures()));
                self.wait(format!("waits for more to spend{}", figures.unwrap_or_default()));
            }
            Stream::State(StateLine::Changed { state, lifecycle, flags, .. }) => {
                let is_idle = matches!(lifecycle, LifecycleKind::Idle | LifecycleKind::Ready) && !flags.is_waiting;
                // A question on the screen already shows what the run waits for.
                let quiet = is_idle || flags.is_blocked;
                self.waits_for = self.waits_for.take().filter(|_| *state == RunState::Awaiting);
                let waits_for = self.waits_for.clone();
                self.state = waits_for.or_else(|| (!quiet).then(|| vocabulary::state(*state, *flags).to_owned()));
                if is_idle {
                    (self.busy_since, self.used) = (None, None);
                } else {
                    self.busy_since.get_or_insert_with(Instant::now);
                }
            }
            Stream::Usage(UsageLine::Run { usage, .. }) => self.used = Some(*usage),
            Stream::State(_)
            | Stream::Queue(_)
            | Stream::Lifecycle(_)
            | Stream::Assistant(_)
            | Stream::Reasoning(_)
            | Stream::Compaction(_)
            | Stream::Tool(_) => {}
        }
        begins
    }

    fn wait(&mut self, what: String) {
        self.state = Some(what.clone());
        self.waits_for = Some(what);
    }

    /// Whether the run is queued.
    fn see_queue(&mut self, what: &Stream) -> Option<LaneWait> {
        match what {
            Stream::Queue(QueueLine::Waiting { waited_ms, wait, .. }) => {
                let begins = self.queued.is_none() && *waited_ms < 1_000;
                self.queued = Some((wait.clone(), Duration::from_millis(*waited_ms), Instant::now()));
                return begins.then(|| wait.clone());
            }
            Stream::Queue(QueueLine::Entered { .. }) | Stream::State(StateLine::Changed { .. }) => self.queued = None,
            // Another message of the session does not change this wait.
            Stream::Queue(QueueLine::Accepted { .. } | QueueLine::Settled { .. } | QueueLine::Shows)
            | Stream::Lifecycle(_)
            | Stream::Assistant(_)
            | Stream::Reasoning(_)
            | Stream::Compaction(_)
            | Stream::Tool(_)
            | Stream::Usage(_)
            | Stream::State(_) => {}
        }
        None
    }

    /// Sets what is said while sessions wait for space. Returns whether they did before.
    pub(super) fn set_disk_full(&mut self, waits: Option<String>) -> bool {
        std::mem::replace(&mut self.disk_full, waits).is_some()
    }

    /// The current status line; `running` is the call that runs, if no line right above names it.
    pub(super) fn line(&self, running: Option<&str>) -> Option<String> {
        let queued = self.queued.as_ref().map(|(wait, waited, reported)| {
            vocabulary::queued_behind(wait, (*waited + reported.elapsed()).as_millis() as u64)
        });
        self.disk_full.clone().or(queued).or_else(|| self.waits_for.clone()).or_else(|| self.busy(running))
    }

    /// What the run does, for how long it has been busy, and what it has used.
    fn busy(&self, running: Option<&str>) -> Option<String> {
        let state = self.state.clone()?;
        let state = running.map_or(state, |sentence| excerpt(sentence, STATUS_CHARS));
        let seconds = self.busy_since.map(|since| since.elapsed().as_secs()).filter(|seconds| *seconds > 0);
        let time = seconds.map(|seconds| format!(" · {}", human::duration(seconds * 1_000))).unwrap_or_default();
        let used = self.used.map(|usage| usage.prompt() + usage.output).filter(|tokens| *tokens > 0);
        let tokens = used.map(|tokens| format!(" · {} tokens", human::rounded(tokens))).unwrap_or_default();
        Some(format!("{state}{time}{tokens}"))
    }
}
