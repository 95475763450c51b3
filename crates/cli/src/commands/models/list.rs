//! `limulus models list`: what is known about every model, and the origin of its figures.

use std::collections::BTreeSet;

use config::{Config, Figures, FlagValues, Globals, KeyStatus, Subject, today};
use engine::Price;
use models::{Levels, Origin, catalogue_date, known_models};
use serde::Serialize;

use crate::deprecation;
use crate::error::CliError;
use crate::language::word;
use crate::show::human::{columns, heading, printable};
use crate::show::{json, print, worded};

/// A row: what is known about one model.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    /// `PROVIDER/MODEL`.
    model: String,
    context_window: u64,
    max_output: u64,
    price: Option<Dollars>,
    /// The thinking levels; null if unknown.
    thinking: Option<Levels>,
    images: bool,
    /// The origin of the figures that are not configured.
    from: Origin,
    /// The keys of the figures that the configuration sets.
    configured: Vec<&'static str>,
    key: KeyStatus,
    /// Whether it is the first model of the agent `main`.
    is_default: bool,
}

/// US dollars per million tokens.
#[derive(Debug, PartialEq, Serialize)]
struct Dollars {
    input: f64,
    cached: f64,
    cache_written: f64,
    output: f64,
}

impl From<Price> for Dollars {
    fn from(price: Price) -> Self {
        let dollars = |micro: u64| micro as f64 / 1e6;
        let Price { input, cached, cache_written, output } = price;
        let [input, cached, cache_written, output] = [input, cached, cache_written, output].map(dollars);
        Self { input, cached, cache_written, output }
    }
}

pub(super) fn run(search: Option<&str>, as_json: bool, globals: &Globals) -> Result<(), CliError> {
    let config = deprecation::load(globals, FlagValues::default())?;
    let mut rows = rows(&config);
    let Some(search) = search else { return print(&if as_json { json(&rows) } else { lay_out(&rows) }) };
    rows.retain(|row| is_found(&row.model, search));
    if rows.is_empty() && !as_json {
        let nearest = config.nearest_models(search);
        let near = if nearest.is_empty() { String::new() } else { format!("; near it are {}", nearest.join(", ")) };
        return print(&worded(format!("no model has `{}` in its name{}\n", printable(search), printable(&near))));
    }
    print(&if as_json { json(&rows) } else { lay_out(&rows) })
}

/// Whether a name has each word of a text in it.
fn is_found(model: &str, search: &str) -> bool {
    let model = model.to_lowercase();
    search.to_lowercase().split_whitespace().all(|word| model.contains(word))
}

fn rows(config: &Config) -> Vec<Row> {
    let overrides = engine::Overrides::default();
    let subject =
        Subject { agent: "main", overrides: &overrides, session: runtime::SessionContext::default(), date: &today() };
    // List what is known even if no run can start with this configuration.
    let first = config.resolve(subject).ok().and_then(|resolved| resolved.settings.candidates.into_iter().next());
    let first = first.map(|candidate| format!("{}/{}", candidate.provider, candidate.model));
    let mut names: BTreeSet<String> = known_models().map(str::to_owned).collect();
    names.extend(config.named_models());
    names.extend(first.clone());
    names.insert("offline/offline".to_owned());
    let row = |model: &String| {
        let (provider, name) = model.split_once('/')?;
        let Figures { info, configured } = config.figures(provider, name);
        Some(Row {
            model: model.clone(),
            context_window: info.context_window,
            max_output: info.max_output,
            price: info.price.map(Dollars::from),
            thinking: info.thinking,
            images: info.images,
            from: info.origin,
            configured,
            key: config.key_status(provider),
            is_default: first.as_ref() == Some(model),
        })
    };
    names.iter().filter_map(row).collect()
}

fn lay_out(rows: &[Row]) -> String {
    let heading = heading(["MODEL", "WINDOW", "OUTPUT", "$ IN/CACHED/OUT", "THINKING", "IMAGES", "FIGURES", "KEY"]);
    let lines = rows.iter().map(|row| {
        let mark = if row.is_default { "*" } else { "" };
        [
            format!("{}{mark}", row.model),
            row.context_window.to_string(),
            row.max_output.to_string(),
            row.price.as_ref().map_or_else(|| "–".to_owned(), price),
            row.thinking.map_or_else(|| "?".to_owned(), |levels| levels.to_string()),
            word(if row.images { "yes" } else { "no" }),
            word(figures(row)),
            word(row.key.to_string()),
        ]
    });
    let table = columns(&std::iter::once(heading).chain(lines).collect::<Vec<_>>());
    let notes = format!(
        "\n* answers the agent main. The catalogue is of {}; prices are US dollars per million tokens. \
         [models.\"PROVIDER/MODEL\"] in config.toml says otherwise.\n",
        catalogue_date()
    );
    table + &worded(notes)
}

fn price(price: &Dollars) -> String {
    format!("{}/{}/{}", price.input, price.cached, price.output)
}

fn figures(row: &Row) -> String {
    let from = match row.from {
        Origin::Catalogue => "catalogue",
        Origin::Default => "assumed",
        Origin::BuiltIn => "built in",
    };
    if row.configured.is_empty() {
        from.to_owned()
    } else {
        format!("{from}, configured: {}", row.configured.join(" "))
    }
}
