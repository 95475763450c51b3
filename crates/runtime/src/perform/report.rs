//! `report`: the ledger is told what failed, until it has recorded it.

use std::sync::Arc;
use std::time::Duration;

use engine::{LedgerInput, Report, Strike};

use super::Reporter;
use crate::ledger;
use crate::runtime::Shared;

/// Between two looks at a disk that is full.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn perform(shared: Arc<Shared>, strike: Strike, reporter: Reporter) {
    let effect = reporter.effect();
    loop {
        match ledger::record(&shared, LedgerInput::Failed(strike.clone())).await {
            Ok(_) => return reporter.report(Report::Reported { effect }).await,
            Err(journal::Error::Full { .. }) => tokio::time::sleep(LOOK).await,
            // The next owner tells it: the session owes it until it is recorded.
            Err(_) => return,
        }
    }
}
