//! Lists the auth profiles that are configured. Their cooldowns are in the ledger.

use std::collections::BTreeSet;

use super::Config;

impl Config {
    /// Every profile with its provider, including those that a variable provides. Providers are ordered by name, the
    /// profiles of each as configured.
    pub fn profiles(&self) -> Vec<(String, String)> {
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
