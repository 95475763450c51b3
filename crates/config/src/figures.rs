//! The figures of a model, such as its window and prices: as configured, else from the catalogue, else safe defaults.

use engine::Price;
use models::{Levels, ModelInfo};

use super::Config;
use super::declared::{ModelFigures, PriceFigures};
use super::kind::Kind;

/// The figures of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// The figures that are in force.
    pub info: ModelInfo,
    /// The keys of those that the configuration sets.
    pub configured: Vec<&'static str>,
}

impl Config {
    /// The figures of a model.
    pub fn figures(&self, provider: &str, name: &str) -> Figures {
        let mut figures = Figures { info: models::lookup(provider, name), configured: vec![] };
        // Another server under the name of a known provider need not take what that takes.
        figures.info.structured_output &= !self.is_elsewhere(provider);
        let Some(said) = self.values.models.get(&format!("{provider}/{name}")) else { return figures };
        let Figures { info, configured } = &mut figures;
        let mut set = |key, is_said: bool| configured.extend(is_said.then_some(key));
        set("context_window", said.context_window.is_some());
        set("max_output", said.max_output.is_some());
        set("thinking_levels", said.thinking_levels.is_some());
        set("images", said.images.is_some());
        set("structured_output", said.structured_output.is_some());
        set("price", said.price.is_some());
        info.context_window = said.context_window.unwrap_or(info.context_window);
        info.max_output = said.max_output.unwrap_or(info.max_output);
        info.thinking = said.thinking_levels.as_deref().map(Levels::of).or(info.thinking);
        info.images = said.images.unwrap_or(info.images);
        info.structured_output = said.structured_output.unwrap_or(info.structured_output);
        info.price = said.price.as_ref().and_then(|price| price.over(info.price)).or(info.price);
        figures
    }
}

impl Config {
    /// Whether the configuration has a known provider at another address, or with another wire format.
    fn is_elsewhere(&self, provider: &str) -> bool {
        let known = models::provider_preset(provider);
        known.zip(self.values.providers.get(provider)).is_some_and(|(known, configured)| {
            configured.base_url.as_ref().is_some_and(|address| Some(address.as_str()) != known.base_url)
                || configured.api.as_ref().is_some_and(|api| api != known.api.name())
        })
    }

    /// Every model that the configuration names.
    pub fn named_models(&self) -> impl Iterator<Item = String> {
        let agents = self.values.agents.values().flat_map(|agent| agent.model.iter().chain(&agent.fallbacks));
        agents.chain(self.values.models.keys()).cloned()
    }
}

impl ModelFigures {
    /// The missing key of a price, with the value that it takes. A price needs `input` and `output`, unless the
    /// catalogue has them.
    pub(super) fn missing(&self, model: &str) -> Option<(String, String)> {
        let price = self.price.as_ref()?;
        let known = model.split_once('/').and_then(|(provider, name)| models::lookup(provider, name).price);
        let key = match (price.over(known), price.input) {
            (Some(_), _) => return None,
            (None, None) => "input",
            (None, Some(_)) => "output",
        };
        Some((format!("models.{model:?}.price.{key}"), Kind::Dollars.expected()))
    }
}

impl PriceFigures {
    /// This price, completed with the known one. Cached input costs as much as other input if neither has a price for
    /// it.
    fn over(&self, known: Option<Price>) -> Option<Price> {
        let micro = |dollars: f64| (dollars * 1e6).round() as u64;
        let input = self.input.map(micro).or(known.map(|known| known.input))?;
        let output = self.output.map(micro).or(known.map(|known| known.output))?;
        let cached = self.cached.map(micro).or(known.map(|known| known.cached)).unwrap_or(input);
        let cache_written = self.cache_written.map(micro).or(known.map(|known| known.cache_written)).unwrap_or(input);
        Some(Price { input, cached, cache_written, output })
    }
}
