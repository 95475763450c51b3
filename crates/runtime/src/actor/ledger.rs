//! What an actor reports to its session from the ledger, and when.

use engine::{Input, LedgerUpdate, Moment, Report, Seq, Session};
use tokio::sync::watch;

use super::{Actor, Caller};

/// The ledger state of an actor.
pub(super) struct LedgerSide {
    /// The end of the ledger's branch when the run last looked at it; `None` if it has not looked.
    seen: Option<Seq>,
    /// Changes when a user has cleared a cooldown.
    pub(super) cleared: watch::Receiver<()>,
}

impl LedgerSide {
    pub(super) fn new(cleared: watch::Receiver<()>) -> Self {
        Self { seen: None, cleared }
    }
}

impl Actor<'_> {
    /// The ledger's state comes before everything that may lead to a request; an opening carries it along.
    pub(super) fn offer_with_ledger(&mut self, input: Input, caller: Option<Caller>, moment: Moment) {
        match input {
            Input::Report(Report::Opened { epoch, .. }) => {
                self.ledger.seen = None;
                let LedgerUpdate { cleared, cooling, limited } = self.update(moment);
                // Its run may send again as soon as it is opened.
                self.offer_update(LedgerUpdate { limited, ..LedgerUpdate::default() }, moment);
                self.pump.offer(Report::Opened { epoch, cooling }, moment, caller);
                self.offer_update(LedgerUpdate { cleared, ..LedgerUpdate::default() }, moment);
            }
            Input::Report(Report::OpenedToWait { .. }) => self.pump.offer(input, moment, caller),
            input => {
                self.observe_ledger(moment);
                self.pump.offer(input, moment, caller);
            }
        }
    }

    pub(super) fn observe_ledger(&mut self, moment: Moment) {
        let update = self.update(moment);
        self.offer_update(update, moment);
    }

    fn offer_update(&mut self, update: LedgerUpdate, moment: Moment) {
        for report in update.reports() {
            self.pump.offer(report, moment, None);
        }
    }

    /// What the ledger reports to the session's run, if it has changed since the run last looked.
    fn update(&mut self, moment: Moment) -> LedgerUpdate {
        let run = self.pump.session().and_then(Session::run).map(|run| run.id);
        let Some((run, settings)) = run.zip(self.pump.machine().settings()) else { return LedgerUpdate::default() };
        self.shared.ledger.update(&mut self.ledger.seen, &settings.candidates, run, moment.now)
    }
}
