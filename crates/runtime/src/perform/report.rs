//! `report`: the ledger is told what failed, until it has recorded it.

use std::sync::Arc;
use std::time::Duration;

use engine::{FailureReport, Report};

use super::Reporter;
use crate::ledger;
use crate::runtime::Shared;

/// Between two looks at a disk that is full.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn perform(shared: Arc<Shared>, failure_report: FailureReport, reporter: Reporter) {
    let effect = reporter.effect();
    loop {
        let failure_report = failure_report.clone();
        match ledger::record(&shared, move |ledger, now| ledger.record_failure(&failure_report, now)).await {
            Ok(()) => return reporter.report(Report::Reported { effect }).await,
            Err(journal::Error::Full { .. }) => tokio::time::sleep(LOOK).await,
            // The next owner tells it: the session owes it until it is recorded.
            Err(_) => return,
        }
    }
}
