//! Decides from what a look finds whether the thread of all tasks is held.

use std::time::Duration;

/// How long the thread may be held without a report.
const HELD: Duration = Duration::from_secs(1);
/// A look that comes later than this says nothing of the task: the whole process was stopped, or the machine is busy.
const LATE: Duration = Duration::from_millis(750);
/// So many looks in a row that find the thread waiting, and not woken since the last one, and nobody looks any more.
const QUIET_LOOKS: u32 = 4;

/// What a look finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// The thread waits for something to do, and did so at the last look as well.
    Quiet,
    /// It was woken since the last look, it went to wait, or it did what it was asked for.
    Moved,
    /// It works on what it began before the last look, and has not done what it was asked for.
    Still,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    Held,
    /// It was held for so long.
    Over(Duration),
}

#[derive(Debug, Default)]
pub(super) struct Judge {
    /// The time in which this process ran and the thread stood still.
    pub(super) held: Duration,
    is_reported: bool,
    quiet: u32,
}

impl Judge {
    /// Judges what is found after a pause that took this long.
    pub(super) fn look(&mut self, finding: Finding, paused: Duration) -> Verdict {
        self.quiet = if finding == Finding::Quiet { self.quiet + 1 } else { 0 };
        if finding != Finding::Still {
            let before = std::mem::replace(self, Self { quiet: self.quiet, ..Self::default() });
            return if before.is_reported { Verdict::Over(before.held) } else { Verdict::Nothing };
        }
        if paused <= LATE {
            self.held += paused;
        }
        if self.held < HELD || std::mem::replace(&mut self.is_reported, true) {
            return Verdict::Nothing;
        }
        Verdict::Held
    }

    /// Whether nothing has happened for so long that nobody needs to look until something does. A thread that is woken often
    /// does not come here, so whoever wakes it does not wake the looking thread as well.
    pub(super) fn may_rest(&self) -> bool {
        self.quiet >= QUIET_LOOKS
    }

    /// Begins anew after a rest.
    pub(super) fn rested(&mut self) {
        self.quiet = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::TICK;
    use super::*;

    #[test]
    fn r21_a_thread_without_a_beat_for_a_second_is_held_and_reported_once() {
        let mut judge = Judge::default();
        assert!((1..100).all(|_| judge.look(Finding::Moved, TICK) == Verdict::Nothing));
        let looks = (0..6).map(|_| judge.look(Finding::Still, TICK)).collect::<Vec<_>>();
        assert_eq!(
            looks,
            [Verdict::Nothing, Verdict::Nothing, Verdict::Nothing, Verdict::Held, Verdict::Nothing, Verdict::Nothing]
        );
        assert_eq!(judge.look(Finding::Moved, TICK), Verdict::Over(6 * TICK));
        assert_eq!(judge.look(Finding::Moved, TICK), Verdict::Nothing);
    }

    #[test]
    fn r21_a_stopped_process_or_a_busy_machine_is_no_held_thread() {
        let mut judge = Judge::default();
        // SIGSTOP, a debugger, a machine that slept: the look itself comes late, however often.
        for paused in [Duration::from_secs(3), Duration::from_hours(9), LATE + TICK, LATE * 2] {
            assert_eq!(judge.look(Finding::Still, paused), Verdict::Nothing, "{paused:?}");
        }
        assert_eq!(judge.held, Duration::ZERO);
        assert_eq!(judge.look(Finding::Moved, TICK), Verdict::Nothing);
    }

    #[test]
    fn nobody_rests_beside_a_thread_that_works_or_is_woken() {
        let quiet = |judge: &mut Judge, times| {
            (0..times).for_each(|_| assert_eq!(judge.look(Finding::Quiet, TICK), Verdict::Nothing));
        };
        let mut judge = Judge::default();
        for finding in [Finding::Moved, Finding::Still] {
            judge.rested();
            quiet(&mut judge, QUIET_LOOKS - 1);
            assert!(!judge.may_rest());
            judge.look(finding, TICK);
            quiet(&mut judge, QUIET_LOOKS - 1);
            assert!(!judge.may_rest(), "{finding:?}");
        }
        quiet(&mut judge, 1);
        assert!(judge.may_rest());
        judge.rested();
        assert!(!judge.may_rest());
    }
}
