//! Parameters and results of the methods on auth profiles. Names are camelCase.

use engine::{FailureClass, Thinking, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result of `profiles.list`: cooldowns and order of profiles in this home. The configuration defines the profiles.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProfilesListed {
    /// The profiles in cooldown, including those whose cooldown has expired since.
    pub cooldown_until: Vec<CooldownView>,
    /// The providers whose profiles have an order.
    pub turns: Vec<ProviderOrder>,
    /// The thinking levels that models have refused, including those that are asked for again since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lowered: Vec<LoweredLevelView>,
}

/// A thinking level that a model has refused, and the one that runs ask for instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoweredLevelView {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// The refused level.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub asked: Thinking,
    /// The level that it accepted.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub accepted: Thinking,
    /// When the refused level is asked for again, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub until: Timestamp,
}

/// A profile in cooldown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CooldownView {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The name of the profile; none if it has no name.
    pub profile: Option<String>,
    /// The model to which the cooldown applies; none means all models.
    pub model: Option<String>,
    /// The class of the failure that caused it.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: FailureClass,
    /// The begin of the cooldown, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// The end of the cooldown, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub until: Timestamp,
    /// The number of failures in a row: each one makes the cooldown longer.
    #[serde(rename = "strikes")]
    pub failures: u32,
}

/// The order of a provider's profiles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProviderOrder {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The profile that the user put first.
    pub preferred: Option<String>,
    /// The profile that answered last; none if the provider has only one.
    pub last_good: Option<String>,
}

/// Parameters of `profiles.use`: the profile that comes first from the next run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileUseParams {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The name of the profile; without it the preference is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// Result of `profiles.use`: the profile that comes first from the next run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProfileUsed {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The profile that comes first; none means the configured order, with the profile that answered last before the
    /// others.
    pub profile: Option<String>,
}

/// Parameters of `profiles.clear`: the profiles whose cooldowns to clear; without parameters all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileClearParams {
    /// Only profiles of this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Only profiles of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// Result of `profiles.clear`: the profiles that are tried again at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProfilesCleared {
    /// The cooldowns that were cleared.
    pub cleared: Vec<CooldownView>,
}
