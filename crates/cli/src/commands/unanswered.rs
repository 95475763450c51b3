//! How long a home has had no owner that answers, which is worth a line only if it lasts: a process that takes the home over
//! has its lock first, then changes the journal, and answers last.

use std::path::Path;
use std::time::{Duration, Instant};

/// Interval between two looks for an owner.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// How long a process that has the lock of the home may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// The looks in a row that found no owner that answers.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    since: Option<Instant>,
    is_said: bool,
}

impl Unanswered {
    /// Counts a look that found none. Whether it is to be said now: once, if it has lasted since the look before, or, while
    /// some process owns the home, for 5 s.
    pub(super) fn is_news(&mut self, home: &Path) -> bool {
        let Some(since) = self.since else {
            self.since = Some(Instant::now());
            return false;
        };
        let lasts = since.elapsed() >= SILENCE || views::owner(home).is_none();
        lasts && !std::mem::replace(&mut self.is_said, true)
    }

    /// An owner answers, or what is waited for needs none. Returns whether the absence had been said.
    pub(super) fn reset(&mut self) -> bool {
        std::mem::take(self).is_said
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn r22_an_owner_that_does_not_answer_is_said_once_it_lasts() {
        let home = tempfile::tempdir().unwrap();
        let mut looks = Unanswered::default();
        assert_eq!([looks.is_news(home.path()), looks.is_news(home.path())], [false, true]);
        assert!(!looks.is_news(home.path()), "it was said");
        assert!(looks.reset() && !looks.reset());

        let lock = home.path().join("owner.lock");
        std::fs::write(&lock, format!("{}\n", std::process::id())).unwrap();
        let _lock = File::open(&lock).unwrap();
        let looks_in_a_row: Vec<bool> = (0..4).map(|_| looks.is_news(home.path())).collect();
        assert_eq!(looks_in_a_row, [false; 4], "this process owns the home and may answer yet");
        looks.since = Instant::now().checked_sub(SILENCE);
        assert!(looks.is_news(home.path()) && !looks.is_news(home.path()));
    }
}
