//! What an actor tells its session of the ledger, and when.

use engine::{Input, Moment, News, Report, Seq, Session};
use tokio::sync::watch;

use super::{Actor, Caller};

/// What an actor has of the ledger.
pub(super) struct LedgerSide {
    /// Where the ledger's branch ended when the run last looked at it; none = it has not.
    seen: Option<Seq>,
    /// Changes when a user has cleared a profile.
    pub(super) cleared: watch::Receiver<()>,
}

impl LedgerSide {
    pub(super) fn new(cleared: watch::Receiver<()>) -> Self {
        Self { seen: None, cleared }
    }
}

impl Actor<'_> {
    /// Whatever a request may follow from comes after what the ledger says then; an opening brings it along.
    pub(super) fn offer_with_ledger(&mut self, input: Input, caller: Option<Caller>, moment: Moment) {
        match input {
            Input::Report(Report::Opened { epoch, .. }) => {
                self.ledger.seen = None;
                let News { cleared, cooling } = self.news(moment);
                self.pump.offer(Report::Opened { epoch, cooling }, moment, caller);
                self.offer_news(News { cleared, cooling: vec![] }, moment);
            }
            Input::Report(Report::OpenedToWait { .. }) => self.pump.offer(input, moment, caller),
            input => {
                self.observe_ledger(moment);
                self.pump.offer(input, moment, caller);
            }
        }
    }

    pub(super) fn observe_ledger(&mut self, moment: Moment) {
        let news = self.news(moment);
        self.offer_news(news, moment);
    }

    fn offer_news(&mut self, news: News, moment: Moment) {
        for report in news.reports() {
            self.pump.offer(report, moment, None);
        }
    }

    /// What the ledger says to its run, where that has changed since it last looked.
    fn news(&mut self, moment: Moment) -> News {
        let run = self.pump.session().and_then(Session::run).map(|run| run.id);
        let Some((run, settings)) = run.zip(self.pump.machine().settings()) else { return News::default() };
        self.shared.ledger.news(&mut self.ledger.seen, &settings.candidates, run, moment.now)
    }
}
