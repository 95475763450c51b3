//! Plays seeds on every core, until one breaks a rule or the limit is reached.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Plays this many seeds starting with this one, within this time; returns the counts, and the broken case with the
/// lowest seed. `play` can ask whether another case broke or the time is over, and then stop early.
pub(crate) fn sweep<C, B>(
    seed: u64,
    (seeds, time): (u64, Duration),
    play: impl Fn(u64, &mut C, &dyn Fn() -> bool) -> Result<(), B> + Sync,
) -> (C, Option<B>)
where
    C: Default + AddAssign + Send,
    B: Send,
{
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let began = Instant::now();
    let (next, found) = (AtomicU64::new(0), AtomicBool::new(false));
    let is_over = || found.load(Ordering::Relaxed) || began.elapsed() >= time;
    let work = || {
        let mut counts = C::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= seeds || is_over() {
                return (counts, None);
            }
            if let Err(broken) = play(seed.wrapping_add(at), &mut counts, &is_over) {
                found.store(true, Ordering::Relaxed);
                return (counts, Some((at, broken)));
            }
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let (mut all, mut first) = (C::default(), None);
    for (counts, broken) in results {
        all += counts;
        first = first.into_iter().chain(broken).min_by_key(|(at, _)| *at);
    }
    (all, first.map(|(_, broken)| broken))
}
