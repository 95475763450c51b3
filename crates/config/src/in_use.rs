//! The models and providers that runs may ask as things are: what is configured, and what a variable makes available.

use std::collections::BTreeSet;

use super::Config;

impl Config {
    /// The models that the agent `main` may ask, the first one first, with a note if none is configured.
    pub fn models_of_main(&self) -> (Vec<String>, Option<String>) {
        let Some(agent) = self.values.agents.get("main") else { return (vec![], None) };
        let first = agent.model.clone().map_or_else(|| self.default_model(), |model| (model, None));
        (std::iter::once(first.0).chain(agent.fallbacks.iter().cloned()).collect(), first.1)
    }

    /// The providers that are configured, whose variable is set, or that a model of an agent names, in order. The built-in offline
    /// model has none.
    pub fn providers_in_use(&self) -> BTreeSet<String> {
        let by_variable = self.by_variable().into_iter().map(|(provider, ..)| provider.to_owned());
        let models: Vec<String> = self.agents_models().collect();
        let named = models.iter().filter_map(|model| model.split_once('/')).map(|(provider, _)| provider.to_owned());
        let mut providers: BTreeSet<String> =
            self.values.providers.keys().cloned().chain(by_variable).chain(named).collect();
        providers.remove("offline");
        providers
    }

    /// A model of each provider in use: the first that an agent names, else the provider's default. A provider of which no model is
    /// known is left out.
    pub fn models_to_try(&self) -> Vec<String> {
        let named: Vec<String> = self.agents_models().chain(self.values.models.keys().cloned()).collect();
        let of = |provider: String| {
            let start = format!("{provider}/");
            let first = named.iter().find(|model| model.starts_with(&start)).cloned();
            first.or_else(|| models::default_model(&provider).map(|model| start + model))
        };
        self.providers_in_use().into_iter().filter_map(of).collect()
    }

    fn agents_models(&self) -> impl Iterator<Item = String> {
        let others = self.values.agents.values().flat_map(|agent| agent.model.iter().chain(&agent.fallbacks).cloned());
        self.models_of_main().0.into_iter().chain(others)
    }
}
