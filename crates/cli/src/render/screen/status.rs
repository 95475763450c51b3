//! What the status line says: what the run does or waits for, for how long, and what it has used.

use std::time::{Duration, Instant};

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Flags, RunId, Usage, WaitFor};
use protocol::Event;
use protocol::event::{QueueLine, StateLine, Stream, ToolLine, UsageLine};
use protocol::method::BudgetLine;
use protocol::show::LaneWait;

use crate::language::word;
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
    wait: Wait,
}

/// A wait of the run that is shown.
#[derive(Default)]
struct Wait {
    run: Option<RunId>,
    /// The state in which it waits, and since when.
    state: Option<(RunState, Flags, Instant)>,
    /// When somebody was asked what for.
    asked: Option<Instant>,
    /// What for, in the words of `runs explain`.
    explained: Option<String>,
}

/// How long a run waits before its status line says what for.
const LONG_WAIT: Duration = Duration::from_secs(20);
/// How often that is asked.
const ASK_AGAIN: Duration = Duration::from_secs(5);

impl Wait {
    fn see(&mut self, event: &Event) {
        self.run = event.run.or(self.run);
        match &event.what {
            Stream::State(StateLine::Changed { state, flags, .. }) => self.see_state(*state, *flags),
            // What it waits for begins again with each piece of an answer and with each call.
            Stream::Assistant(_)
            | Stream::Reasoning(_)
            | Stream::Tool(ToolLine::Start { .. } | ToolLine::End { .. }) => {
                if let Some((state, flags, _)) = self.state {
                    self.begin(Some((state, flags)));
                }
            }
            Stream::State(_)
            | Stream::Queue(_)
            | Stream::Lifecycle(_)
            | Stream::Compaction(_)
            | Stream::Tool(_)
            | Stream::Plan(_)
            | Stream::Delivery(_)
            | Stream::Usage(_) => {}
        }
    }

    fn see_state(&mut self, state: RunState, flags: Flags) {
        let waits = match state {
            RunState::Preparing | RunState::Idle => flags.is_waiting,
            RunState::Awaiting | RunState::Retry | RunState::Compacting | RunState::Streaming | RunState::ToolExec => {
                true
            }
            RunState::Error | RunState::Paused | RunState::Completed => false,
        };
        if self.state.is_none_or(|(before, flags_before, _)| !waits || (before, flags_before) != (state, flags)) {
            self.begin(waits.then_some((state, flags)));
        }
    }

    fn begin(&mut self, state: Option<(RunState, Flags)>) {
        let state = state.map(|(state, flags)| (state, flags, Instant::now()));
        *self = Self { run: self.run, state, ..Self::default() };
    }

    /// Whether it has lasted so long that it is said what for.
    fn is_long(&self) -> bool {
        self.state.is_some_and(|(.., since)| since.elapsed() >= LONG_WAIT)
    }
}

impl Status {
    /// Takes a line in. Returns the wait in a lane that begins with it.
    pub(super) fn see(&mut self, event: &Event) -> Option<LaneWait> {
        let what = &event.what;
        self.wait.see(event);
        let begins = self.see_queue(what);
        match what {
            Stream::State(StateLine::Waiting { on: WaitFor::Quota, until, .. }) => {
                self.begin_wait(vocabulary::waits_for_a_model(*until));
            }
            Stream::State(StateLine::Waiting { on: WaitFor::Budget, budget, .. }) => {
                let figures =
                    budget.as_ref().and_then(BudgetLine::as_limit).map(|limit| format!(": {}", limit.figures()));
                self.begin_wait(format!("waits for more to spend{}", figures.unwrap_or_default()));
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
            | Stream::Plan(_)
            | Stream::Delivery(_)
            | Stream::Tool(_) => {}
        }
        begins
    }

    fn begin_wait(&mut self, what: String) {
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
            | Stream::Plan(_)
            | Stream::Delivery(_)
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
            word(vocabulary::queued_behind(wait, (*waited + reported.elapsed()).as_millis() as u64))
        });
        let explained = self.wait.explained.as_ref().map(|words| self.with_figures(&format!("waits for {words}")));
        let waits_for = || self.waits_for.as_ref().map(word);
        self.disk_full.as_ref().map(word).or(explained).or(queued).or_else(waits_for).or_else(|| self.busy(running))
    }

    /// The run to ask about, if it is time to ask what it waits for.
    pub(super) fn wants_explanation(&mut self) -> Option<RunId> {
        let is_due = self.wait.is_long() && self.wait.asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN);
        let run = self.wait.run.filter(|_| is_due)?;
        self.wait.asked = Some(Instant::now());
        Some(run)
    }

    /// Takes in what a run waits for, if it still does: what came meanwhile may have begun another wait.
    pub(super) fn explained(&mut self, run: RunId, waits_for: Option<String>) {
        if self.wait.run == Some(run) && self.wait.is_long() {
            self.wait.explained = waits_for;
        }
    }

    /// What the run does, for how long it has been busy, and what it has used.
    fn busy(&self, running: Option<&str>) -> Option<String> {
        let state = self.state.clone()?;
        Some(self.with_figures(&running.map_or(state, |sentence| excerpt(sentence, STATUS_CHARS))))
    }

    /// A status with its time and its tokens.
    fn with_figures(&self, state: &str) -> String {
        let seconds = self.busy_since.map(|since| since.elapsed().as_secs()).filter(|seconds| *seconds > 0);
        let time = seconds.map(|seconds| format!(" · {}", human::duration(seconds * 1_000))).unwrap_or_default();
        let used = self.used.map(|usage| usage.prompt().saturating_add(usage.output)).filter(|tokens| *tokens > 0);
        let tokens = used.map(|tokens| word(format!("{} tokens", human::rounded(tokens))));
        let tokens = tokens.map(|tokens| format!(" · {tokens}")).unwrap_or_default();
        format!("{}{time}{tokens}", word(state))
    }
}
