//! What sessions and users report to the ledger, and what a run receives from it.

use super::{Account, Cooldown, CooldownLifted, CooldownSet, FailureReport, Ledger};
use crate::approval::ApprovalGrant;
use crate::budget_pool::SharedScope;
use crate::event::ThinkingLowered;
use crate::ids::{CallId, RunId, Seq, Timestamp};
use crate::input::Report;
use crate::settings::Candidate;
use crate::tables::budget::Allowance;

/// What the ledger decides on.
#[derive(Debug, Clone, PartialEq)]
pub enum LedgerInput {
    /// A request failed in a way that concerns other sessions.
    Failed(FailureReport),
    /// A request was answered completely.
    Answered {
        /// The candidate that it was sent to.
        candidate: Candidate,
        /// Whether the run has no other profile of that provider to ask.
        alone: bool,
        /// When it was sent.
        since: Timestamp,
    },
    /// A model refused a thinking level and answered at a lower one.
    Lowered(ThinkingLowered),
    /// A user sets the preferred profile of a provider.
    Prefer {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = no preference.
        profile: Option<String>,
    },
    /// A user clears cooldowns, whatever failed.
    Clear {
        /// The provider's name in the configuration; none = all providers.
        provider: Option<String>,
        /// The profile's name; none = all profiles.
        profile: Option<String>,
    },
    /// A user has allowed something once and for all.
    Grant(ApprovalGrant),
    /// A user revokes what was allowed.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Revoke {
        grant: CallId,
        /// Who revokes it.
        by: String,
    },
    /// A user sets a limit that sessions share.
    Allow {
        /// What it limits.
        of: SharedScope,
        /// The limit of each resource that is named.
        change: Allowance,
    },
}

/// What the caller of a [`LedgerInput`] receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerAnswer {
    /// The input is recorded.
    Done,
    /// Whether it is in force now: a question gives one grant.
    Granted(bool),
    /// Whether there was such a grant.
    Revoked(bool),
    /// These profiles were in cooldown, and may be asked again.
    Lifted(Vec<(Account, Cooldown)>),
}

/// What has changed in the ledger for a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerUpdate {
    /// The candidates that are in cooldown now.
    pub cooling: Vec<CooldownSet>,
    /// The candidates that were cleared; none of the others.
    pub cleared: Vec<CooldownLifted>,
    /// Whether a user has limited what sessions share: the run asks the pool before its requests from now on.
    pub limited: bool,
}

impl LedgerUpdate {
    /// The reports for the session. A request may follow from the last.
    pub fn reports(self) -> impl Iterator<Item = Report> {
        let Self { cooling, cleared, limited } = self;
        let limited = limited.then_some(Report::BudgetShared);
        let cooling = (!cooling.is_empty()).then_some(Report::CooldownSet { cooling });
        limited.into_iter().chain(cooling).chain((!cleared.is_empty()).then_some(Report::CooldownLifted { cleared }))
    }
}

impl Ledger {
    /// The update for a run that last looked when the branch ended at `seen` (none = it has not looked).
    pub fn update(&self, seen: &mut Option<Seq>, chain: &[Candidate], run: RunId, now: Timestamp) -> LedgerUpdate {
        if seen.replace(self.head) == Some(self.head) {
            return LedgerUpdate::default();
        }
        self.standing(chain, run, now)
    }
}
