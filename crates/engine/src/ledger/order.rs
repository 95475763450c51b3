//! The order in which the profiles of a model are asked: the preferred one, the last that answered, then in rotation.

use super::{Ledger, ProfileOrder};
use crate::settings::Candidate;

impl Ledger {
    /// Orders a chain: models stay where they are, the profiles of each are put in their order.
    pub fn order(&self, chain: &mut [Candidate]) {
        for of_model in chain.chunk_by_mut(|a, b| (&a.provider, &a.model) == (&b.provider, &b.model)) {
            if let [Candidate { provider, .. }, _, ..] = of_model
                && let Some(turns) = self.providers.get(provider)
            {
                of_model.sort_by_key(|candidate| turns.place(candidate.profile.as_ref()));
            }
        }
    }
}

impl ProfileOrder {
    fn place(&self, profile: Option<&String>) -> impl Ord + use<> {
        let preferred = profile.is_some() && self.preferred.as_ref() == profile;
        let last_good = self.last_good.as_ref().is_some_and(|last| last.as_ref() == profile);
        (!preferred, !last_good, self.used.get(&profile.cloned()).copied())
    }
}
