//! What sessions and the ledger report to each other.

use serde::{Deserialize, Serialize};

use super::Account;
use crate::failure::{Failure, FailureClass};
use crate::ids::{EffectId, Timestamp};
use crate::settings::Candidate;
use crate::tables::failover::{Cools, rule_of};

/// A request that failed in a way that concerns other sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct FailureReport {
    /// The failed request: it counts once.
    pub request: EffectId,
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// The profile's name; none = it has none.
    pub profile: Option<String>,
    pub class: FailureClass,
    /// The end of the cooldown that its own run has set, if that has a time.
    pub until: Option<Timestamp>,
    /// Whether it was a probe.
    pub probe: bool,
}

impl FailureReport {
    /// The report to other sessions; none if the failure says nothing about their requests, or names no candidate.
    pub(crate) fn of(request: EffectId, failure: &Failure, until: Option<Timestamp>, probe: bool) -> Option<Self> {
        let (provider, model) = failure.provider.clone().zip(failure.model.clone())?;
        let (class, profile) = (failure.class, failure.profile.clone());
        let concerns_others = rule_of(class).cools != Cools::Nothing;
        concerns_others.then_some(Self { request, provider, model, profile, class, until, probe })
    }

    pub(super) fn account(&self, cools: Cools) -> Account {
        let model = (cools == Cools::Pair).then(|| self.model.clone());
        Account { provider: self.provider.clone(), profile: self.profile.clone(), model }
    }
}

impl Account {
    /// Whether a candidate is covered by its cooldown.
    pub(super) fn holds(&self, candidate: &Candidate) -> bool {
        let model = self.model.as_ref().is_none_or(|model| *model == candidate.model);
        model && (&self.provider, &self.profile) == (&candidate.provider, &candidate.profile)
    }
}

/// A candidate of a run whose cooldown a user has cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CooldownLifted {
    /// Its place in the settings.
    pub candidate: u32,
    /// When: failures after this count.
    pub at: Timestamp,
}

/// A candidate of a run that is in cooldown when the run starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct CooldownSet {
    /// Its place in the settings.
    pub candidate: u32,
    pub until: Timestamp,
    pub class: FailureClass,
}
