//! A session that found no space: it waits until there is some, and lets only an abort through. What may not live here:
//! how the journal makes space.

use std::time::{Duration, Instant};

use engine::{Command, Input, Refusal, Report, Timestamp};

use crate::actor::{Mailboxes, Offer};
use crate::runtime::Shared;
use crate::sessions::Leaving;

/// A session that waits for space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFullWait {
    /// What the journal said.
    pub error: journal::Error,
    /// Since when.
    pub since: Timestamp,
    /// When it is looked for space next.
    pub next_look: Timestamp,
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How long to wait between two looks: longer each time, also over tries that came to nothing.
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
    /// The next pause. What went well for a while begins anew.
    fn take(&mut self) -> Duration {
        if self.last.elapsed() > 2 * LONGEST_PAUSE {
            self.next = FIRST_PAUSE;
        }
        let pause = self.next;
        (self.next, self.last) = (LONGEST_PAUSE.min(2 * pause), Instant::now());
        pause
    }
}

/// Waits until there is space, or a run is to be aborted, which is recorded from the reserve. Gives what is asked for when
/// the session is taken up again; none when it is to be left as it is.
pub(crate) async fn park(
    shared: &Shared,
    key: &str,
    mail: &mut Mailboxes,
    error: &journal::Error,
    pause: &mut Pause,
) -> Option<Vec<Offer>> {
    // What its effects had to say was not recorded. They are looked up again, like after a crash.
    while mail.data.try_recv().is_ok() {}
    let mut leaving = shared.sessions.leaving();
    loop {
        let pause = pause.take();
        let next_look = Timestamp(shared.clock.now().0 + pause.as_millis() as i64);
        shared.park(key, error, next_look);
        let look = tokio::time::sleep(pause);
        tokio::pin!(look);
        loop {
            tokio::select! {
                biased;
                Ok(_) = leaving.wait_for(|leaving| *leaving != Leaving::No) => {
                    shared.unpark(key);
                    return None;
                }
                offer = mail.control.recv() => match aside(shared, offer?, error) {
                    Aside::GoOn(offers) => return Some(offers),
                    Aside::Refused => {}
                    Aside::Leave => {
                        shared.unpark(key);
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

/// What becomes of something that is offered meanwhile.
enum Aside {
    /// It may be recorded: there is space again, or the reserve is there for it.
    GoOn(Vec<Offer>),
    /// Its caller was told.
    Refused,
    /// The process leaves, and nothing can be recorded of it.
    Leave,
}

fn aside(shared: &Shared, offer: Offer, error: &journal::Error) -> Aside {
    match &*offer.input {
        Input::Report(Report::Closing) => Aside::Leave,
        Input::Command(Command::Abort { .. }) => Aside::GoOn(vec![offer]),
        Input::Command(_) if shared.journal.has_space() => Aside::GoOn(vec![offer]),
        Input::Command(_) | Input::Report(_) => {
            if let Some(caller) = offer.caller {
                // A caller that has gone away needs no answer.
                let _ = caller.send(Err(Refusal::Unavailable { reason: error.to_string() }));
            }
            Aside::Refused
        }
    }
}
