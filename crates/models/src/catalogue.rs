//! The catalogue of models: window, output limit, prices, thinking, images. The data is `catalogue.toml`, which is
//! parsed at its first use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use engine::Price;
use serde::{Deserialize, Deserializer, Serialize};

use crate::levels::Levels;
use crate::presets::provider_preset;

/// The figures of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelInfo {
    /// The context window in tokens, including the answer.
    pub context_window: u64,
    /// The maximum number of tokens of one answer.
    pub max_output: u64,
    /// Its prices, if known.
    pub price: Option<Price>,
    /// Its thinking levels, if known.
    pub thinking: Option<Levels>,
    /// Whether it accepts images; false for an unknown model, since a server that refuses an image also refuses every
    /// later request of the conversation.
    pub images: bool,
    /// Whether it takes the schema of an answer beside tools; false for an unknown model, since a server that does not know the
    /// field may refuse the request.
    pub structured_output: bool,
    /// Where these figures come from.
    pub origin: Origin,
}

/// Where the figures of a model come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The built-in catalogue names the model.
    #[default]
    Catalogue,
    /// The model is unknown and has safe figures.
    Default,
    /// The model is built into the program.
    BuiltIn,
}

/// Prices as in the file: dollars per million tokens.
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
    models: BTreeMap<String, Row>,
}

/// A model as in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// When its figures were taken; none = when those of the catalogue were.
    date: Option<String>,
    context_window: u64,
    max_output: u64,
    #[serde(default, deserialize_with = "in_dollars")]
    price: Option<Price>,
    thinking: Option<Levels>,
    images: bool,
}

impl Row {
    fn info(&self) -> ModelInfo {
        let Self { context_window, max_output, price, thinking, images, .. } = *self;
        let origin = Origin::Catalogue;
        ModelInfo { context_window, max_output, price, thinking, images, structured_output: false, origin }
    }
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    toml::from_str(include_str!("catalogue.toml")).expect("the catalogue is part of the program and a test reads it")
});

/// For an unknown model: nearly all models today have at least this much.
const UNKNOWN: ModelInfo = ModelInfo {
    context_window: 128_000,
    max_output: 8_192,
    price: None,
    thinking: None,
    images: false,
    structured_output: false,
    origin: Origin::Default,
};

/// The built-in model reads any amount and writes little.
const OFFLINE: ModelInfo =
    ModelInfo { context_window: 1_000_000, thinking: Some(Levels::NONE), origin: Origin::BuiltIn, ..UNKNOWN };

/// For a model on this machine: a window that fits into the memory of most machines, since the server allocates all of
/// it.
const LOCAL: ModelInfo = ModelInfo { context_window: 32_768, ..UNKNOWN };

/// All models that these makers serve today accept images.
const SEEING: &[&str] = &["anthropic", "gemini", "openai"];

/// The figures of this model, or safe figures without a price. The offline model does not need the file. A model has
/// the same figures on both APIs of its maker, `openai` and `openai-responses`.
pub fn lookup(provider: &str, model: &str) -> ModelInfo {
    if provider == "offline" {
        return OFFLINE;
    }
    let maker = provider.strip_suffix("-responses").unwrap_or(provider);
    let unknown = ModelInfo { images: SEEING.contains(&maker), ..if provider == "ollama" { LOCAL } else { UNKNOWN } };
    let info = CATALOGUE.models.get(&format!("{maker}/{model}")).map_or(unknown, Row::info);
    ModelInfo { structured_output: provider_preset(provider).is_some_and(|preset| preset.takes_schema(model)), ..info }
}

/// Every model of the catalogue, `MAKER/MODEL`, in the order of their names.
pub fn known_models() -> impl Iterator<Item = &'static str> {
    CATALOGUE.models.keys().map(String::as_str)
}

/// The default model of a provider.
pub fn default_model(provider: &str) -> Option<&'static str> {
    provider_preset(provider)?.model
}

/// When its figures were taken, `YYYY-MM-DD`.
pub fn catalogue_date() -> &'static str {
    &CATALOGUE.date
}

/// When the figures of a model of the catalogue were taken, `YYYY-MM` or `YYYY-MM-DD`; none for another model.
pub fn figures_date(model: &str) -> Option<&'static str> {
    Some(CATALOGUE.models.get(model)?.date.as_deref().unwrap_or(&CATALOGUE.date))
}

/// The tokenisers of model families: real tokens for each thousand estimated ones. The first entry whose name occurs in
/// the model's name applies. The provider's own counts correct the estimate from the first answer on.
const TOKEN_RATES: &[(&str, u32)] =
    &[("claude", 1_150), ("gpt-4.1", 1_000), ("gpt-4o", 1_000), ("gpt-5", 1_000), ("gpt-oss", 1_000), ("", 1_080)];

/// The real tokens of a model for each thousand estimated ones.
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
    fn every_model_has_space_for_its_answer_and_a_price() {
        for (name, info) in &CATALOGUE.models {
            assert!(info.max_output <= info.context_window, "{name}");
            let price = info.price.unwrap();
            assert!(0 < price.cached && price.cached <= price.input && price.input <= price.output, "{name}");
        }
        assert_eq!(catalogue_date().len(), "2026-07-24".len());
        let date = |model| figures_date(model);
        assert_eq!(
            [date("openai/gpt-5.5"), date("zhipu/glm-5.3"), date("acme/m")],
            [Some(catalogue_date()), Some("2026-11"), None]
        );
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
