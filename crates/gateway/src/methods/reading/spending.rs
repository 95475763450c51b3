//! `budget.show` and `usage`.

use protocol::method::{BudgetShow, BudgetShowParams, BudgetStory, UsageGet, UsageParams, UsageStory};
use views::{Source, budget, usage};

use super::Reads;
use crate::error::Error;

impl Reads for BudgetShow {
    fn read(source: &Source<'_>, params: BudgetShowParams) -> Result<BudgetStory, Error> {
        Ok(budget::budget(source.home, source.read, params.session_key.as_deref())?)
    }
}

impl Reads for UsageGet {
    fn read(source: &Source<'_>, params: UsageParams) -> Result<UsageStory, Error> {
        Ok(usage::usage(source.read, &params)?)
    }
}
