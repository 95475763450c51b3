//! A session that found no disk space: it waits until there is some, and accepts only an abort. How the journal makes
//! space is the journal's matter.

use std::time::{Duration, Instant};

use engine::{Command, Input, Refusal, Report, Timestamp};

use crate::actor::{Mailboxes, Offer};
use crate::runtime::Shared;
use crate::sessions::Leaving;

/// A session that waits for disk space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFullWait {
    /// The error of the journal.
    pub error: journal::Error,
    /// The time since when it waits.
    pub since: Timestamp,
    /// The time of the next check for space.
    pub next_look: Timestamp,
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The pause between two checks: longer each time, also across failed attempts.
#[derive(Debug)]
pub(crate) struct Pause {
    next: Duration,
    last: Instant,
}

impl Default for Pause {
    fn default() -> Self {
        Self { next: FIRST_PAUSE, last: Instant::now() }
    }
}

impl Pause {
    /// The next pause. After a while without failures it starts from the shortest one.
    fn take(&mut self) -> Duration {
        if self.last.elapsed() > 2 * LONGEST_PAUSE {
            self.next = FIRST_PAUSE;
        }
        let pause = self.next;
        (self.next, self.last) = (LONGEST_PAUSE.min(2 * pause), Instant::now());
        pause
    }
}

/// Waits until there is space, or until a run is to be aborted, which is recorded from the reserve. Returns the
/// commands for the recovered session; `None` if the session is to be left as it is.
pub(crate) async fn wait_for_space(
    shared: &Shared,
    key: &str,
    mail: &mut Mailboxes,
    error: &journal::Error,
    pause: &mut Pause,
) -> Option<Vec<Offer>> {
    // The reports of its effects were not recorded. They are looked up again, as after a crash.
    while mail.data.try_recv().is_ok() {}
    let mut leaving = shared.sessions.leaving();
    loop {
        let pause = pause.take();
        let next_look = Timestamp(shared.clock.now().0 + pause.as_millis() as i64);
        shared.record_disk_full(key, error, next_look);
        let look = tokio::time::sleep(pause);
        tokio::pin!(look);
        loop {
            tokio::select! {
                biased;
                Ok(_) = leaving.wait_for(|leaving| *leaving != Leaving::No) => {
                    shared.clear_disk_full(key);
                    return None;
                }
                offer = mail.control.recv() => match handle(shared, offer?, error) {
                    Handling::Record(offers) => return Some(offers),
                    Handling::Refused => {}
                    Handling::Close => {
                        shared.clear_disk_full(key);
                        return None;
                    }
                },
                () = &mut look => break,
            }
        }
        if shared.journal.has_space() {
            return Some(vec![]);
        }
    }
}

/// What happens to an input that is offered during the wait.
enum Handling {
    /// It may be recorded: there is space again, or the reserve is there for it.
    Record(Vec<Offer>),
    /// Its caller was refused.
    Refused,
    /// The process shuts down, and nothing can be recorded of the input.
    Close,
}

fn handle(shared: &Shared, offer: Offer, error: &journal::Error) -> Handling {
    match &*offer.input {
        Input::Report(Report::Closing) => Handling::Close,
        Input::Command(Command::Abort { .. }) => Handling::Record(vec![offer]),
        Input::Command(_) if shared.journal.has_space() => Handling::Record(vec![offer]),
        Input::Command(_) | Input::Report(_) => {
            if let Some(caller) = offer.caller {
                // A caller that is gone needs no answer.
                let _ = caller.send(Err(Refusal::Unavailable { reason: error.to_string() }));
            }
            Handling::Refused
        }
    }
}
