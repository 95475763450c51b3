//! `profiles.list`: the state of the home's ledger.

use engine::{Account, Cooldown, Ledger};
use protocol::method::{CooldownView, LoweredLevelView, NoParams, ProfilesList, ProfilesListed, ProviderOrder};
use views::Source;

use super::Reads;
use crate::error::Error;

impl Reads for ProfilesList {
    fn read(source: &Source<'_>, _: NoParams) -> Result<ProfilesListed, Error> {
        Ok(listed(&runtime::ledger(source.read)?))
    }
}

fn listed(ledger: &Ledger) -> ProfilesListed {
    let turns = ledger.providers().map(|(provider, turns)| ProviderOrder {
        provider: provider.to_owned(),
        preferred: turns.preferred.clone(),
        last_good: turns.last_good.clone().flatten(),
    });
    let lowered = ledger.lowered().map(|(provider, model, asked, of)| LoweredLevelView {
        provider: provider.to_owned(),
        model: model.to_owned(),
        asked,
        accepted: of.accepted,
        until: of.until,
    });
    let cooldown_until = ledger.cooldowns().map(cooldown_view).collect();
    ProfilesListed { cooldown_until, turns: turns.collect(), lowered: lowered.collect() }
}

/// A cooldown in the shape of the protocol.
pub(in crate::methods) fn cooldown_view((account, rest): (&Account, &Cooldown)) -> CooldownView {
    let Account { provider, profile, model } = account.clone();
    let Cooldown { class, since, until, failures, .. } = *rest;
    CooldownView { provider, profile, model, class, since, until, failures }
}
