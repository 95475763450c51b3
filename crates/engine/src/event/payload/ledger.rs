//! The ledger, and what a session reports to it.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::failure::FailureClass;
use crate::ids::{BranchId, EffectId, Timestamp};

payload! {
    /// The ledger has recorded what failed: it is owed no more.
    Reported {
        /// The request that failed.
        request: EffectId,
    }
    /// The home's ledger begins, on a branch of its own.
    LedgerBegun {
        /// That branch.
        branch: BranchId,
    }
    /// A profile failed: no session asks it before a time.
    ProfileCooled {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
        /// The model that it is left alone with; none = all of them.
        model: Option<String>,
        /// Why.
        class: FailureClass,
        /// Until when.
        until: Timestamp,
        /// How often in a row: each time it is for longer.
        strikes: u32,
        /// The request that failed: it counts once.
        request: EffectId,
    }
    /// A profile answered that was not the last that did, or was left alone.
    ProfileAnswered {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
        /// The model that answered.
        model: String,
        /// When it was asked: what it was left alone for since then still holds.
        since: Timestamp,
    }
    /// A profile is to be asked first.
    ProfilePreferred {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = no more than the others.
        profile: Option<String>,
    }
    /// A profile may be asked again, whatever failed.
    ProfileCleared {
        /// The provider's name in the configuration.
        provider: String,
        /// The profile's name; none = it has none.
        profile: Option<String>,
    }
}
