//! `profiles.use`, `profiles.clear`: set the preferred auth profile, and clear cooldowns.

use std::sync::Arc;

use protocol::method::{ProfileClearParams, ProfileUseParams, ProfileUsed, ProfilesCleared};

use crate::connection::Caller;
use crate::error::Error;
use crate::methods::reading::cooldown_view;

pub(in crate::methods) async fn use_profile(
    caller: &Arc<Caller>,
    params: ProfileUseParams,
) -> Result<ProfileUsed, Error> {
    let ProfileUseParams { provider, profile } = params;
    caller.service.runtime.prefer_profile(&provider, profile.as_deref()).await?;
    Ok(ProfileUsed { provider, profile })
}

pub(in crate::methods) async fn clear_profiles(
    caller: &Arc<Caller>,
    params: ProfileClearParams,
) -> Result<ProfilesCleared, Error> {
    let ProfileClearParams { provider, profile } = params;
    let cleared = caller.service.runtime.clear_profiles(provider, profile).await?;
    Ok(ProfilesCleared { cleared: cleared.iter().map(|(account, rest)| cooldown_view((account, rest))).collect() })
}
