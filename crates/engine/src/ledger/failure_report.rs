//! What sessions and the ledger tell each other.

use serde::{Deserialize, Serialize};

use super::Account;
use crate::failure::{Failure, FailureClass};
use crate::ids::{EffectId, Timestamp};
use crate::settings::Candidate;
use crate::tables::recovery::{Cools, rule_of};

/// A request that failed in a way that concerns other sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// Which: it counts once.
    pub request: EffectId,
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// The profile's name; none = it has none.
    pub profile: Option<String>,
    /// Why.
    pub class: FailureClass,
    /// Until when its own run leaves it alone, where that has a time.
    pub until: Option<Timestamp>,
    /// Whether it was a probe.
    pub probe: bool,
}

impl FailureReport {
    /// What others are to know of a failure; none where it says nothing of their requests, or names no candidate.
    pub(crate) fn of(request: EffectId, failure: &Failure, until: Option<Timestamp>, probe: bool) -> Option<Self> {
        let (provider, model) = failure.provider.clone().zip(failure.model.clone())?;
        let (class, profile) = (failure.class, failure.profile.clone());
        let told = rule_of(class).cools != Cools::Nothing;
        told.then_some(Self { request, provider, model, profile, class, until, probe })
    }

    pub(super) fn account(&self, cools: Cools) -> Account {
        let model = (cools == Cools::Pair).then(|| self.model.clone());
        Account { provider: self.provider.clone(), profile: self.profile.clone(), model }
    }
}

impl Account {
    /// Whether a candidate is left alone with it.
    pub(super) fn holds(&self, candidate: &Candidate) -> bool {
        let model = self.model.as_ref().is_none_or(|model| *model == candidate.model);
        model && (&self.provider, &self.profile) == (&candidate.provider, &candidate.profile)
    }
}

/// A candidate of a run of which a user has said that it may be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CooldownLifted {
    /// Its place in the settings.
    pub candidate: u32,
    /// When: what was found out since counts.
    pub at: Timestamp,
}

/// A candidate of a run that is to be left alone when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CooldownSet {
    /// Its place in the settings.
    pub candidate: u32,
    /// Until when.
    pub until: Timestamp,
    /// Why.
    pub class: FailureClass,
}
