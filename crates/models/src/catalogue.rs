//! What is known of models: window, output limit, prices, thinking, images. The data is `catalogue.toml`, read when it is first asked for.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use engine::Price;
use serde::{Deserialize, Deserializer, Serialize};

use crate::levels::Levels;

/// What is known of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Tokens that it can see, its answer included.
    pub context_window: u64,
    /// Tokens that it may write in one answer.
    pub max_output: u64,
    /// What it costs, where that is known.
    #[serde(default, deserialize_with = "in_dollars")]
    pub price: Option<Price>,
    /// How it can be asked to think, where that is known.
    pub thinking: Option<Levels>,
    /// Whether it sees images; for one that is not known no, since a server that refuses one refuses the conversation ever after.
    pub images: bool,
    /// Where these figures come from.
    #[serde(skip)]
    pub origin: Origin,
}

/// Where the figures of a model come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The catalogue.
    #[default]
    Catalogue,
    /// Safe figures for a model that is not known.
    Default,
    /// The model is a part of the program.
    BuiltIn,
}

/// As it stands in the file: dollars per million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DollarPrice {
    input: f64,
    cached: Option<f64>,
    cache_written: Option<f64>,
    output: f64,
}

impl From<DollarPrice> for Price {
    fn from(price: DollarPrice) -> Self {
        let micro = |dollars: f64| (dollars * 1e6).round() as u64;
        let or_input = |dollars: Option<f64>| micro(dollars.unwrap_or(price.input));
        Self {
            input: micro(price.input),
            cached: or_input(price.cached),
            cache_written: or_input(price.cache_written),
            output: micro(price.output),
        }
    }
}

fn in_dollars<'de, D: Deserializer<'de>>(price: D) -> Result<Option<Price>, D::Error> {
    DollarPrice::deserialize(price).map(|price| Some(price.into()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    date: String,
    defaults: BTreeMap<String, String>,
    models: BTreeMap<String, ModelInfo>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    toml::from_str(include_str!("catalogue.toml")).expect("the catalogue is part of the program and a test reads it")
});

/// For a model that is not known: nearly all that are served today have this much.
const UNKNOWN: ModelInfo = ModelInfo {
    context_window: 128_000,
    max_output: 8_192,
    price: None,
    thinking: None,
    images: false,
    origin: Origin::Default,
};

/// The built-in model reads whatever there is and writes little.
const OFFLINE: ModelInfo =
    ModelInfo { context_window: 1_000_000, thinking: Some(Levels::NONE), origin: Origin::BuiltIn, ..UNKNOWN };

/// For a model on this machine: what fits into the memory of most. The server makes room for the whole window.
const LOCAL: ModelInfo = ModelInfo { context_window: 32_768, ..UNKNOWN };

/// All that these makers serve today sees images.
const SEEING: &[&str] = &["anthropic", "gemini", "openai"];

/// What is known of this model, or safe figures without a price. The file is not read for the offline model. A model is the
/// same on both APIs of its maker, `openai` and `openai-responses`.
pub fn lookup(provider: &str, model: &str) -> ModelInfo {
    if provider == "offline" {
        return OFFLINE;
    }
    let maker = provider.strip_suffix("-responses").unwrap_or(provider);
    let unknown = ModelInfo { images: SEEING.contains(&maker), ..if provider == "ollama" { LOCAL } else { UNKNOWN } };
    CATALOGUE.models.get(&format!("{maker}/{model}")).copied().unwrap_or(unknown)
}

/// Every model of the catalogue, `MAKER/MODEL`, in the order of their names.
pub fn known_models() -> impl Iterator<Item = &'static str> {
    CATALOGUE.models.keys().map(String::as_str)
}

/// The model that stands for a provider when none is named.
pub fn default_model(provider: &str) -> Option<&'static str> {
    CATALOGUE.defaults.get(provider).map(String::as_str)
}

/// When its figures were taken, `YYYY-MM-DD`.
pub fn catalogue_date() -> &'static str {
    &CATALOGUE.date
}

/// Tokens that families of models make of a text, for each thousand that it is taken to have: the first whose name is in that of the
/// model. What a provider counts corrects it from its first answer on.
const TOKEN_RATES: &[(&str, u32)] =
    &[("claude", 1_150), ("gpt-4.1", 1_000), ("gpt-4o", 1_000), ("gpt-5", 1_000), ("gpt-oss", 1_000), ("", 1_080)];

/// How many tokens of its own a model makes of each thousand that a text is taken to have.
pub fn token_rate(model: &str) -> u32 {
    let model = model.to_ascii_lowercase();
    TOKEN_RATES.iter().find(|(family, _)| model.contains(family)).map_or(1_000, |(_, rate)| *rate)
}

#[cfg(test)]
mod tests {
    use engine::Usage;

    use super::*;

    #[test]
    fn r41_families_of_models_count_differently() {
        assert_eq!(token_rate("anthropic/claude-sonnet-4-5"), 1_150);
        assert_eq!((token_rate("GPT-5-mini"), token_rate("llama3.2")), (1_000, 1_080));
    }

    #[test]
    fn every_default_is_a_model_of_its_provider() {
        assert!(CATALOGUE.defaults.contains_key("openai"));
        for (provider, model) in &CATALOGUE.defaults {
            assert!(CATALOGUE.models.contains_key(&format!("{provider}/{model}")), "{provider}/{model}");
        }
    }

    #[test]
    fn every_model_has_room_for_its_answer_and_a_price() {
        for (name, info) in &CATALOGUE.models {
            assert!(info.max_output <= info.context_window, "{name}");
            let price = info.price.unwrap();
            assert!(0 < price.cached && price.cached <= price.input && price.input <= price.output, "{name}");
        }
        assert_eq!(catalogue_date().len(), "2026-07-24".len());
    }

    #[test]
    fn an_unknown_model_has_safe_figures() {
        assert_eq!(lookup("acme", "some-model"), UNKNOWN);
        assert!(lookup("anthropic", "claude-of-tomorrow").images && !lookup("deepseek", "deepseek-v4-pro").images);
        assert_eq!(lookup("ollama", "some-model").context_window, 32_768);
        assert_eq!(lookup("openai", "gpt-4.1").max_output, 32_768);
        assert_eq!(lookup("openai-responses", "gpt-4.1"), lookup("openai", "gpt-4.1"));
    }

    #[test]
    fn cost_counts_each_kind_once() {
        let price = lookup("openai", "gpt-5.6").price.unwrap();
        let usage = Usage { input: 1_000_000, cached: 100_000, cache_written: 10_000, output: 1_000, reasoning: 500 };
        assert_eq!(price.cost(&usage), 5_000_000 + 50_000 + 62_500 + 30_000);
        assert_eq!(price.cost(&Usage { input: 1, ..Usage::default() }), 5);
    }
}
