//! What the methods take and give that are about auth profiles. Names are camelCase here.

use engine::{FailureClass, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `profiles.list` gives: what the home's sessions know of profiles. Which there are, the configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProfilesListed {
    /// What is left alone, also where that time has come since.
    pub left_alone: Vec<LeftAlone>,
    /// The providers among whose profiles there is an order.
    pub turns: Vec<ProviderTurns>,
}

/// A profile that no session asks before a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LeftAlone {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The profile's name; none = it has none.
    pub profile: Option<String>,
    /// The model that it is left alone with; none = all of them.
    pub model: Option<String>,
    /// Why.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub class: FailureClass,
    /// Since when, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub since: Timestamp,
    /// Until when, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub until: Timestamp,
    /// How often in a row: each time it is for longer.
    pub strikes: u32,
}

/// Which of a provider's profiles is asked first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProviderTurns {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The one that somebody put first.
    pub preferred: Option<String>,
    /// The last one that answered, of several; none where there is but one to ask.
    pub last_good: Option<String>,
}

/// What `profiles.use` takes: the profile that comes first from the next run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileUseParams {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The profile's name; without it none comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// What `profiles.use` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProfileUsed {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The profile that comes first; none = as they are configured, the last that answered before the others.
    pub profile: Option<String>,
}

/// What `profiles.clear` takes: which profiles may be asked again at once; without anything all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileClearParams {
    /// Those of this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Those of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// What `profiles.clear` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProfilesCleared {
    /// What was left alone until now and is not any more.
    pub cleared: Vec<LeftAlone>,
}
