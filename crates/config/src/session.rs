//! `[session]`: the time before which a conversation is stale, so that a message starts a new one. The engine starts
//! it.

use engine::Timestamp;
use jiff::{ToSpan as _, Zoned};
use serde::Deserialize;

use super::declared::Reset;

/// The default of `idle_minutes` for the mode `idle`.
const IDLE_MINUTES: u32 = 60;

/// When a conversation becomes stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResetMode {
    None,
    Daily,
    Idle,
}

impl Reset {
    /// A conversation is stale if its last activity is before this time; none = never. If an hour and a number of
    /// minutes are set, the later time counts.
    pub(super) fn stale_before(self, now: &Zoned) -> Option<Timestamp> {
        let idle_minutes = self.idle_minutes.or((self.mode == ResetMode::Idle).then_some(IDLE_MINUTES));
        let idle = idle_minutes.map(|minutes| now.timestamp().as_millisecond() - i64::from(minutes) * 60_000);
        match self.mode {
            ResetMode::None => None,
            ResetMode::Daily => self.last_hour(now).max(idle).map(Timestamp),
            ResetMode::Idle => idle.map(Timestamp),
        }
    }

    /// The last time at which this hour of the day began, milliseconds. An hour that daylight saving time skips is the
    /// one after it.
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

    /// `stale_before` for this time and policy.
    fn before(now: &str, mode: ResetMode, idle_minutes: Option<u32>) -> Option<String> {
        let now: Zoned = now.parse().unwrap();
        let stale = Reset { mode, at_hour: 4, idle_minutes }.stale_before(&now)?;
        let at = jiff::Timestamp::from_millisecond(stale.0).unwrap().to_zoned(now.time_zone().clone());
        Some(at.strftime("%m-%d %H:%M").to_string())
    }

    #[test]
    fn r21_a_conversation_is_stale_after_an_hour_of_the_day_or_after_minutes_of_idleness() {
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
