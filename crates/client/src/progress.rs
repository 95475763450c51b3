//! Whether new connections bring anything new. An owner may close each of them at once, for a reason that the next
//! connection does not change.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Connections in a row that may bring nothing.
const MOST: u32 = 8;
/// The pause after the first of them; doubled each time.
const PAUSE: Duration = Duration::from_millis(50);
/// A connection that lasted this long was not closed for what it was to receive.
const LONG: Duration = Duration::from_secs(5);

/// The connections since the last new line.
#[derive(Debug)]
pub(crate) struct Progress {
    connected: Instant,
    /// The cursors of the last connection's end.
    cursors: Vec<String>,
    without: u32,
}

impl Default for Progress {
    fn default() -> Self {
        Self { connected: Instant::now(), cursors: vec![], without: 0 }
    }
}

impl Progress {
    /// A connection has ended with these cursors. Waits before the next one if it brought nothing; an error if none of
    /// several did.
    pub(crate) async fn closed(&mut self, cursors: Vec<String>) -> Result<(), Error> {
        match self.pause(cursors, Instant::now()) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => {
                return Err(Error::NothingNew { connections: MOST });
            }
        }
        self.connected = Instant::now();
        Ok(())
    }

    /// How long to wait before the next connection; none if there were enough.
    fn pause(&mut self, cursors: Vec<String>, now: Instant) -> Option<Duration> {
        let is_new = cursors != self.cursors || now.duration_since(self.connected) >= LONG;
        self.cursors = cursors;
        self.without = if is_new { 0 } else { self.without + 1 };
        match self.without {
            0 => Some(Duration::ZERO),
            MOST.. => None,
            again => Some(PAUSE * 2_u32.pow(again - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r43_connections_that_bring_nothing_become_rarer_and_end_with_an_error() {
        let (mut progress, now) = (Progress::default(), Instant::now());
        let at = |cursor: &str| vec![cursor.to_owned()];
        assert_eq!(progress.pause(at("1.1"), now), Some(Duration::ZERO));
        let pauses: Vec<_> = (0..MOST).map(|_| progress.pause(at("1.1"), now)).collect();
        assert_eq!(pauses[..3], [50, 100, 200].map(|ms| Some(Duration::from_millis(ms))));
        assert_eq!(pauses[MOST as usize - 1], None);
        assert!(pauses[..MOST as usize - 1].iter().all(Option::is_some));
        for (cursor, later) in [("1.2", Duration::ZERO), ("1.2", LONG)] {
            assert_eq!(progress.pause(at(cursor), now + later), Some(Duration::ZERO), "{cursor} {later:?}");
        }
    }
}
