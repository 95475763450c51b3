//! `[session]`: when a message begins the conversation anew. What may not live here: what that does to it, which is the
//! engine's.

use engine::Timestamp;
use jiff::{ToSpan as _, Zoned};
use serde::Deserialize;

use super::declared::Reset;

/// Minutes of a session that is to be reset when it was idle, where nothing else is said.
const IDLE_MINUTES: u32 = 60;

/// By what a conversation becomes stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResetMode {
    None,
    Daily,
    Idle,
}

impl Reset {
    /// Before when the last thing must have happened for a conversation to be stale now; none if none ever is. Where there are
    /// two such times, the one that comes first in a conversation's life counts.
    pub(super) fn stale_before(self, now: &Zoned) -> Option<Timestamp> {
        let idle_minutes = self.idle_minutes.or((self.mode == ResetMode::Idle).then_some(IDLE_MINUTES));
        let idle = idle_minutes.map(|minutes| now.timestamp().as_millisecond() - i64::from(minutes) * 60_000);
        match self.mode {
            ResetMode::None => None,
            ResetMode::Daily => self.last_hour(now).max(idle).map(Timestamp),
            ResetMode::Idle => idle.map(Timestamp),
        }
    }

    /// When it was this hour of the day last, milliseconds. An hour that a clock was put forward over is the one after it.
    fn last_hour(self, now: &Zoned) -> Option<i64> {
        let of = |day: jiff::civil::Date| day.at(self.at_hour, 0, 0, 0).to_zoned(now.time_zone().clone()).ok();
        let today = of(now.date()).filter(|at| at <= now);
        let last = today.or_else(|| of(now.date().checked_sub(1.day()).ok()?))?;
        Some(last.timestamp().as_millisecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before when, for this time of a day and this policy.
    fn before(now: &str, mode: ResetMode, idle_minutes: Option<u32>) -> Option<String> {
        let now: Zoned = now.parse().unwrap();
        let stale = Reset { mode, at_hour: 4, idle_minutes }.stale_before(&now)?;
        let at = jiff::Timestamp::from_millisecond(stale.0).unwrap().to_zoned(now.time_zone().clone());
        Some(at.strftime("%m-%d %H:%M").to_string())
    }

    #[test]
    fn r21_a_conversation_is_stale_after_the_hour_of_the_day_or_after_so_many_minutes_whichever_is_first() {
        let (late, early) = ("2026-03-10T15:30[Europe/Berlin]", "2026-03-10T03:59[Europe/Berlin]");
        let check = |now, mode, minutes, expected: Option<&str>| {
            assert_eq!(before(now, mode, minutes).as_deref(), expected, "{now} {mode:?} {minutes:?}");
        };
        check(late, ResetMode::None, Some(10), None);
        check(late, ResetMode::Daily, None, Some("03-10 04:00"));
        check(early, ResetMode::Daily, None, Some("03-09 04:00"));
        check("2026-03-10T04:00[Europe/Berlin]", ResetMode::Daily, None, Some("03-10 04:00"));
        check(late, ResetMode::Idle, None, Some("03-10 14:30"));
        check(late, ResetMode::Idle, Some(5), Some("03-10 15:25"));
        check(late, ResetMode::Daily, Some(90), Some("03-10 14:00"));
        check(early, ResetMode::Daily, Some(2_000), Some("03-09 04:00"));
    }
}
