//! Notices that the thread of all tasks is held: one task works there for so long that no other one runs, no client is
//! answered and no signal is heard. A thread of its own looks, and says what was being polled.
//!
//! It looks only while the thread has something to do. The runtime tells when the thread goes to wait and when it is woken
//! ([`announce`]); a thread that works through two looks is asked to do a little task, since it may only be busy. After a
//! second in which the thread was not woken once, nobody looks until it is: a service at rest has no timer here.

mod judge;

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::Timestamp;
use tokio::runtime::{Builder, Handle};

use judge::{Finding, Judge, Verdict};

/// The interval of looks.
const TICK: Duration = Duration::from_millis(250);

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

/// What the thread does, as the runtime and the tasks say it. A process has one thread of all tasks.
struct Watched {
    /// Whether it waits for something to do.
    is_waiting: AtomicBool,
    /// How often it was woken.
    woken: AtomicU64,
    /// How often it did what it was asked for.
    done: AtomicU64,
    /// Whether the looking thread rests, so that whoever wakes the watched one wakes it as well.
    is_resting: AtomicBool,
    looking: Mutex<Option<Thread>>,
    held_ms: AtomicU64,
    polled: Mutex<Option<Arc<str>>>,
    latest: Mutex<Option<Stall>>,
}

static WATCHED: Watched = Watched {
    is_waiting: AtomicBool::new(false),
    woken: AtomicU64::new(0),
    done: AtomicU64::new(0),
    is_resting: AtomicBool::new(false),
    looking: Mutex::new(None),
    held_ms: AtomicU64::new(0),
    polled: Mutex::new(None),
    latest: Mutex::new(None),
};

impl Watched {
    fn woke(&self) {
        self.is_waiting.store(false, Ordering::Relaxed);
        // Before the look at who rests: whoever goes to rest looks at this afterwards (`rest`), so one of the two sees the other.
        self.woken.fetch_add(1, Ordering::SeqCst);
        if self.is_resting.load(Ordering::SeqCst) {
            self.end_rest();
        }
    }

    fn end_rest(&self) {
        if self.is_resting.swap(false, Ordering::SeqCst)
            && let Some(looking) = &*lock(&self.looking)
        {
            looking.unpark();
        }
    }
}

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

/// Makes the runtime of this builder, which has one thread, tell when the thread goes to wait and when it is woken. Without
/// that a watched thread counts as one that always works.
pub fn announce(builder: &mut Builder) -> &mut Builder {
    builder.on_thread_park(|| WATCHED.is_waiting.store(true, Ordering::Relaxed)).on_thread_unpark(|| WATCHED.woke())
}

/// Watches the thread that drives this tokio runtime, until the runtime ends. `report` is called on the watching thread.
pub fn watch(report: impl Fn(&Stall) + Send + 'static) -> std::io::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    let alive = Alive(Arc::clone(&ended));
    let runtime = Handle::current();
    let looking = move || {
        look(&ended, &runtime, &report);
        WATCHED.held_ms.store(0, Ordering::Relaxed);
    };
    let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(looking)?;
    *lock(&WATCHED.looking) = Some(thread.thread().clone());
    // The thread ends when this task is dropped.
    tokio::spawn(async move {
        let _alive = alive;
        std::future::pending::<()>().await;
    });
    Ok(())
}

/// A task of the runtime holds it for as long as the runtime lives.
struct Alive(Arc<AtomicBool>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        WATCHED.end_rest();
    }
}

fn look(ended: &AtomicBool, runtime: &Handle, report: &impl Fn(&Stall)) {
    let (mut judge, mut last) = (Judge::default(), Looked::default());
    while !ended.load(Ordering::SeqCst) {
        let began = Instant::now();
        thread::sleep(TICK);
        let verdict = judge.look(last.again(runtime), began.elapsed());
        WATCHED.held_ms.store(judge.held.as_millis() as u64, Ordering::Relaxed);
        if let Some(stall) = stall(&verdict, judge.held) {
            *lock(&WATCHED.latest) = Some(stall.clone());
            report(&stall);
        }
        if judge.may_rest() {
            rest(last.woken, ended);
            judge.rested();
        }
    }
}

/// What is to be reported.
fn stall(verdict: &Verdict, so_far: Duration) -> Option<Stall> {
    match verdict {
        Verdict::Nothing => None,
        Verdict::Held => Some(Stall {
            what: lock(&WATCHED.polled).clone().unwrap_or_else(|| "a task without a name".into()),
            held: so_far,
            at: now(),
            is_over: false,
        }),
        Verdict::Over(held) => latest().map(|stall| Stall { held: *held, is_over: true, ..stall }),
    }
}

/// What the last look found.
#[derive(Debug, Default)]
struct Looked {
    woken: u64,
    /// How often the thread was asked to do something.
    asked: u64,
}

impl Looked {
    fn again(&mut self, runtime: &Handle) -> Finding {
        let is_waiting = WATCHED.is_waiting.load(Ordering::Relaxed);
        let woken = WATCHED.woken.load(Ordering::SeqCst);
        let is_woken = std::mem::replace(&mut self.woken, woken) != woken;
        let is_done = WATCHED.done.load(Ordering::Relaxed) >= self.asked;
        if is_done && !is_waiting {
            self.asked = WATCHED.done.load(Ordering::Relaxed) + 1;
            runtime.spawn(async { WATCHED.done.fetch_add(1, Ordering::Relaxed) });
        }
        if is_woken {
            Finding::Moved
        } else if is_waiting {
            Finding::Quiet
        } else if is_done {
            Finding::Moved
        } else {
            Finding::Still
        }
    }
}

/// Waits until the thread is woken once more than this, or the runtime ends.
fn rest(woken: u64, ended: &AtomicBool) {
    WATCHED.is_resting.store(true, Ordering::SeqCst);
    if WATCHED.woken.load(Ordering::SeqCst) != woken || ended.load(Ordering::SeqCst) {
        WATCHED.is_resting.store(false, Ordering::SeqCst);
    }
    while WATCHED.is_resting.load(Ordering::SeqCst) {
        thread::park();
    }
}

fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(now.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;

    use super::*;

    /// A process has one thread of all tasks, so one test at a time is that thread.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Waits until the looking thread rests.
    fn until_rest() {
        while !WATCHED.is_resting.load(Ordering::SeqCst) {
            // waits: for the flag itself, which nobody announces
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// R21: a service at rest does nothing, and whoever wakes it is watched all the same.
    #[test]
    fn r21_nobody_looks_at_a_thread_that_waits_and_a_woken_one_is_looked_at_again() {
        let _alone = lock(&ALONE);
        let runtime = announce(&mut Builder::new_current_thread()).enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (report, reports) = mpsc::channel();
        let tasks = thread::spawn(move || {
            runtime.block_on(async move {
                watch(move |stall| drop(report.send(stall.clone()))).unwrap();
                let _ = stopped.await;
            });
        });
        until_rest();
        // A thread that was woken and waits again is left alone again.
        handle.spawn(async {});
        until_rest();
        // Between here and the report the thread is not woken once more.
        let (release, released) = mpsc::channel::<()>();
        handle.spawn(async move {
            let mut context = Context::from_waker(std::task::Waker::noop());
            let held = pin!(async move { released.recv() });
            assert!(poll(&"a task of a test".into(), held, &mut context).is_ready());
        });
        let stall = reports.recv().unwrap();
        assert_eq!((&*stall.what, stall.is_over), ("a task of a test", false));
        assert!(is_held_for(Duration::from_secs(1)));
        release.send(()).unwrap();
        let stall = reports.recv().unwrap();
        assert_eq!((&*stall.what, stall.is_over), ("a task of a test", true));
        // Busy with many small tasks is not held: what is asked meanwhile is done.
        let busy = handle.spawn(async {
            let began = Instant::now();
            while began.elapsed() < 8 * TICK {
                tokio::task::yield_now().await;
            }
        });
        handle.block_on(busy).unwrap();
        until_rest();
        drop(stop);
        tasks.join().unwrap();
        assert!(reports.recv().is_err(), "the looking thread ends with the runtime, and reports nothing more");
    }

    #[test]
    fn a_future_is_named_while_it_is_polled_and_the_outer_one_after_it() {
        let _alone = lock(&ALONE);
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
