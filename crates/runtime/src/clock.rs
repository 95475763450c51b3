//! The sources of time and randomness: the wall clock when the process starts, the monotonic clock from then on.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::{Moment, Timestamp};

/// A clock that never jumps while the process lives.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    wall_ms: i64,
    draws: AtomicU64,
}

impl Clock {
    /// Set from the wall clock once, but never to a time before `latest`, which the previous owner had reached. If the
    /// wall clock was set back, waits would otherwise become longer by as much, and idle time would count as time of a
    /// run.
    pub fn after(latest: Timestamp) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = RandomState::new().hash_one(wall);
        let wall_ms = (wall.as_millis() as i64).max(latest.0);
        Self { started: Instant::now(), wall_ms, draws: AtomicU64::new(seed) }
    }

    /// Set from the wall clock once.
    pub fn new() -> Self {
        Self::after(Timestamp::default())
    }

    /// The current time, with a fresh random number for jitter.
    pub fn moment(&self) -> Moment {
        let drawn = self.draws.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        Moment { now: self.now(), random: mix(drawn) }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.wall_ms + self.started.elapsed().as_millis() as i64)
    }

    /// The duration until this time; zero if it is past.
    pub fn until(&self, time: Timestamp) -> Duration {
        Duration::from_millis(time.since(self.now()))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): neighbouring counters give unrelated numbers.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_a_wall_clock_that_was_set_back_does_not_take_the_home_back() {
        let wall = Clock::new().now();
        let ahead = wall.plus(3_600_000);
        assert!(Clock::after(ahead).now() >= ahead);
        assert!(Clock::after(Timestamp(5)).now() >= wall);
    }
}
