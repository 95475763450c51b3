//! The ledger, and what a session reports to it.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::approval::ApprovalGrant;
use crate::failure::FailureClass;
use crate::ids::{BranchId, CallId, EffectId, Hash, Timestamp};
use crate::settings::Thinking;

payload! {
    /// The ledger has recorded the failure: the report is no longer pending.
    Reported {
        /// The request that failed.
        request: EffectId,
    }
    /// The home's ledger begins, on a branch of its own.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    LedgerBegun {
        branch: BranchId,
    }
    /// A profile failed: it is in cooldown until a time.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ProfileCooldownSet {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
        /// The model that is in cooldown with it; none = all models.
        model: Option<String>,
        class: FailureClass,
        until: Timestamp,
        /// How often in a row: each time the cooldown is longer.
        #[serde(rename = "strikes")]
        failures: u32,
        /// The request that failed: it counts once.
        request: EffectId,
    }
    /// A profile answered that was not the last to answer, or was in cooldown.
    ProfileAnswered {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
        /// The model that answered.
        model: String,
        /// When it was asked: a cooldown that began later still holds.
        since: Timestamp,
    }
    /// A model refused a thinking level and answered at a lower one.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ThinkingLowered {
        /// The provider's name in the configuration.
        provider: String,
        /// The model's name at the provider.
        model: String,
        /// The level that was asked for first.
        asked: Thinking,
        /// The level at which it answered.
        accepted: Thinking,
        /// The hash of the configuration of the model: with another one the level is asked for again.
        config: Hash,
    }
    /// A user has allowed something once and for all.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    GrantGiven {
        grant: ApprovalGrant,
    }
    /// That holds no longer.
    GrantRevoked {
        /// The id of the grant.
        grant: CallId,
        /// Who revoked it.
        by: String,
    }
    /// A profile is preferred.
    ProfilePreferred {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = no preference.
        profile: Option<String>,
    }
    /// The cooldown of a profile is cleared, whatever failed.
    ProfileCooldownLifted {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
    }
}
