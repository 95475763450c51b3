//! Fills the index for searches while a service has nothing else to do, so that a search need not.

use std::time::Duration;

/// The first time after the start of a service, and the interval while there is nothing to add.
const EACH: Duration = Duration::from_mins(1);
/// The pause between two pieces.
const PAUSE: Duration = Duration::from_secs(1);

/// Adds a piece at a time on a thread that may block, for as long as the future is polled. `fill` returns whether nothing is
/// left for now.
pub(crate) async fn supervise(fill: impl Fn() -> bool + Clone + Send + 'static) {
    let mut pause = EACH;
    loop {
        tokio::time::sleep(pause).await;
        let fill = fill.clone();
        let is_done = tokio::task::spawn_blocking(fill).await.unwrap_or(true);
        pause = if is_done { EACH } else { PAUSE };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The clock is paused; it advances when the test waits.
    #[tokio::test(start_paused = true)]
    async fn r21_a_service_fills_the_index_a_piece_each_second_until_nothing_is_left() {
        let pieces = Arc::new(AtomicUsize::new(0));
        let filled = Arc::clone(&pieces);
        let mut task = Box::pin(supervise(move || filled.fetch_add(1, Ordering::SeqCst) >= 3));
        // Never at the moment of a piece.
        for (passes, expected) in [(59_000, 0), (1_500, 1), (3_000, 4), (50_000, 4), (11_000, 5)] {
            assert!(
                tokio::time::timeout(Duration::from_millis(passes), &mut task).await.is_err(),
                "it runs until it is dropped"
            );
            assert_eq!(pieces.load(Ordering::SeqCst), expected, "after {passes} ms more");
        }
    }
}
