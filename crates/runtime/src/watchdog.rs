//! Notices that the thread of all tasks is held: one task works there for so long that no other one runs, no client is
//! answered and no signal is heard. A thread of its own looks, and says what was being polled.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::Timestamp;

/// How long the thread may be held without a report.
const HELD: Duration = Duration::from_secs(1);
/// The interval of beats and of looks.
const TICK: Duration = Duration::from_millis(250);
/// A look that comes later than this says nothing of the task: the whole process was stopped, or the machine is busy.
const LATE: Duration = Duration::from_millis(750);

/// A time in which the thread of all tasks was held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// What was being polled.
    pub what: Arc<str>,
    /// How long it was held, so far.
    pub held: Duration,
    /// When that was noticed.
    pub at: Timestamp,
    /// Whether it is over.
    pub is_over: bool,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, held, .. } = self;
        let seconds = held.as_secs_f64();
        if self.is_over {
            write!(f, "{what} no longer holds the thread of all sessions; it did for {seconds:.1} s")
        } else {
            write!(f, "{what} holds the thread of all sessions for {seconds:.1} s now: nothing else runs meanwhile")
        }
    }
}

/// What the thread does, as the tasks say it. A process has one thread of all tasks.
struct Watched {
    beats: AtomicU64,
    held_ms: AtomicU64,
    polled: Mutex<Option<Arc<str>>>,
    latest: Mutex<Option<Stall>>,
}

static WATCHED: Watched = Watched {
    beats: AtomicU64::new(0),
    held_ms: AtomicU64::new(0),
    polled: Mutex::new(None),
    latest: Mutex::new(None),
};

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls a future under this name.
pub fn poll<F: Future + ?Sized>(what: &Arc<str>, future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    let before = lock(&WATCHED.polled).replace(Arc::clone(what));
    let polled = future.poll(context);
    *lock(&WATCHED.polled) = before;
    polled
}

/// The last time that the thread was held, if it ever was.
pub fn latest() -> Option<Stall> {
    lock(&WATCHED.latest).clone()
}

/// Whether the thread has been held for this long now.
pub fn is_held_for(time: Duration) -> bool {
    u128::from(WATCHED.held_ms.load(Ordering::Relaxed)) >= time.as_millis()
}

/// Watches the thread that drives this tokio runtime, until the runtime ends. `report` is called on the watching thread.
pub fn watch(report: impl Fn(&Stall) + Send + 'static) -> std::io::Result<()> {
    let alive = Arc::new(());
    let watched = Arc::downgrade(&alive);
    tokio::spawn(async move {
        // The thread ends when this task is dropped.
        while Arc::strong_count(&alive) > 0 {
            WATCHED.beats.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(TICK).await;
        }
    });
    thread::Builder::new().name("watchdog".to_owned()).spawn(move || look(&watched, &report)).map(drop)
}

fn look(watched: &Weak<()>, report: &impl Fn(&Stall)) {
    let mut judge = Judge::default();
    while watched.strong_count() > 0 {
        let began = Instant::now();
        thread::sleep(TICK);
        let verdict = judge.look(WATCHED.beats.load(Ordering::Relaxed), began.elapsed());
        WATCHED.held_ms.store(judge.held.as_millis() as u64, Ordering::Relaxed);
        let stall = match verdict {
            Verdict::Nothing => continue,
            Verdict::Held => Stall {
                what: lock(&WATCHED.polled).clone().unwrap_or_else(|| "a task without a name".into()),
                held: judge.held,
                at: now(),
                is_over: false,
            },
            Verdict::Over(held) => match latest() {
                Some(stall) => Stall { held, is_over: true, ..stall },
                None => continue,
            },
        };
        *lock(&WATCHED.latest) = Some(stall.clone());
        report(&stall);
    }
    WATCHED.held_ms.store(0, Ordering::Relaxed);
}

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(now.as_millis() as i64)
}

/// Decides from the beats whether the thread is held.
#[derive(Debug, Default)]
struct Judge {
    beats: u64,
    /// The time without a beat in which this process ran.
    held: Duration,
    is_reported: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Nothing,
    Held,
    /// It was held for so long.
    Over(Duration),
}

impl Judge {
    /// Looks at the beats after a pause that took this long.
    fn look(&mut self, beats: u64, paused: Duration) -> Verdict {
        if beats != self.beats {
            let before = std::mem::replace(self, Self { beats, ..Self::default() });
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
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn r21_a_thread_without_a_beat_for_a_second_is_held_and_reported_once() {
        let mut judge = Judge::default();
        let looks = |judge: &mut Judge, beats, times| (0..times).map(|_| judge.look(beats, TICK)).collect::<Vec<_>>();
        assert!((1..100).all(|beats| judge.look(beats, TICK) == Verdict::Nothing));
        assert_eq!(
            looks(&mut judge, 99, 6),
            [Verdict::Nothing, Verdict::Nothing, Verdict::Nothing, Verdict::Held, Verdict::Nothing, Verdict::Nothing]
        );
        assert_eq!(judge.look(100, TICK), Verdict::Over(6 * TICK));
        assert_eq!(judge.look(101, TICK), Verdict::Nothing);
    }

    #[test]
    fn r21_a_stopped_process_or_a_busy_machine_is_no_held_thread() {
        let mut judge = Judge::default();
        // SIGSTOP, a debugger, a machine that slept: the look itself comes late, however often.
        for paused in [Duration::from_secs(3), Duration::from_hours(9), LATE + TICK, LATE * 2] {
            assert_eq!(judge.look(0, paused), Verdict::Nothing, "{paused:?}");
        }
        assert_eq!(judge.held, Duration::ZERO);
        assert_eq!(judge.look(1, TICK), Verdict::Nothing);
    }

    #[test]
    fn a_future_is_named_while_it_is_polled_and_the_outer_one_after_it() {
        let (outer, inner): (Arc<str>, Arc<str>) = ("outer".into(), "inner".into());
        let polled = || lock(&WATCHED.polled).as_deref().map(str::to_owned);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut within = pin!(async {
            let mut context = Context::from_waker(std::task::Waker::noop());
            let first = poll(&inner, pin!(async { polled() }), &mut context);
            (first, polled())
        });
        let seen = poll(&outer, within.as_mut(), &mut context);
        assert_eq!(seen, Poll::Ready((Poll::Ready(Some("inner".to_owned())), Some("outer".to_owned()))));
    }
}
