//! Which auth profiles there are. What may not live here: keys, and what became of a profile.

use std::collections::BTreeSet;

use super::Config;

impl Config {
    /// Every profile that is configured or there by its variable, with its provider: providers by name, the profiles of each
    /// as they are configured.
    pub(crate) fn profiles(&self) -> Vec<(String, String)> {
        let mut providers: BTreeSet<&str> = self.values.providers.keys().map(String::as_str).collect();
        providers.extend(self.by_variable().into_iter().map(|(provider, ..)| provider));
        let of = |provider: &str| {
            let profiles = self.route(provider).map(|route| route.profiles).unwrap_or_default();
            let named = |name: &str| (provider.to_owned(), name.to_owned());
            profiles.iter().map(|(name, ..)| named(name)).collect::<Vec<_>>()
        };
        providers.into_iter().flat_map(of).collect()
    }
}
