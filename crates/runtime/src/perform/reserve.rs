//! `reserve`: leave for a request of those who spend with its run. One that is denied is asked for again whenever something
//! has changed, until it is granted.

use std::sync::Arc;
use std::time::Duration;

use engine::{BudgetRequest, Failure, FailureClass, Grant, Report};

use super::Reporter;
use crate::runtime::Shared;

/// Between two looks at what nobody tells of: the configuration, and the next day.
const LOOK: Duration = Duration::from_secs(2);

pub(super) async fn perform(shared: Arc<Shared>, request: BudgetRequest, reporter: Reporter) {
    let effect = reporter.effect();
    let mut is_told = false;
    loop {
        let changed = shared.budget_pool.changed();
        match shared.ask_to_go_on(&request) {
            Ok(Grant::Granted { near }) => return reporter.report(Report::Reserved { effect, near }).await,
            Ok(Grant::Denied { limit, until }) => {
                if !is_told {
                    is_told = true;
                    reporter.report(Report::Denied { effect, limit, until }).await;
                }
            }
            Err(error) => {
                let failure = Failure::new(FailureClass::Store, error.to_string());
                return reporter.report(Report::Escalated { failure }).await;
            }
        }
        // Either way it is asked again.
        let _ = tokio::time::timeout(LOOK, changed).await;
    }
}
