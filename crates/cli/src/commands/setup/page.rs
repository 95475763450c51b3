//! The table of docs/providers/README.md, made from the catalogue.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use models::{ProviderPreset, figures_date, lookup, provider_presets};

const HEADING: &str = "\
| name | provider | address | format | variable of the key | keys | model without a configuration | window | $ in/cached/out | of |
|---|---|---|---|---|---|---|---|---|---|
";

fn row(preset: &ProviderPreset) -> String {
    // The page of each format says what is sent of a schema.
    let ProviderPreset { name, title, api, base_url, example, key, keys_at, model, structured_output: _, .. } = preset;
    let code = |text: &str| format!("`{text}`");
    let address = match (base_url, example) {
        (Some(address), _) => code(address),
        (None, example) => format!("yours, such as {}", code(example.as_deref().unwrap_or_default())),
    };
    let page = keys_at.as_ref().map_or_else(|| "–".to_owned(), |page| format!("[page]({page})"));
    let key = key.as_deref().map_or_else(|| "none needed".to_owned(), code);
    let figures = match model {
        None => "– | – | – | –".to_owned(),
        Some(model) => {
            let info = lookup(name, model);
            let of = figures_date(&format!("{name}/{model}")).expect("a test says that the catalogue has it");
            let dollars = |micro: u64| micro as f64 / 1e6;
            let price = info.price.map_or_else(
                || "–".to_owned(),
                |price| format!("{}/{}/{}", dollars(price.input), dollars(price.cached), dollars(price.output)),
            );
            format!("{} | {} | {price} | {of}", code(model), info.context_window)
        }
    };
    format!("| {} | {title} | {address} | {} | {key} | {page} | {figures} |\n", code(name), code(api.name()))
}

#[test]
fn r61_the_page_of_providers_is_made_from_the_catalogue() {
    let table = provider_presets().iter().fold(HEADING.to_owned(), |mut table, preset| {
        let _ = table.write_str(&row(preset));
        table
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers/README.md");
    let page = fs::read_to_string(&path).unwrap();
    let from = page.find("| name |").expect("the table begins");
    let to = from + page[from..].find("\n\n").map_or(page.len() - from, |end| end + 1);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{}{table}{}", &page[..from], &page[to..])).unwrap();
    } else {
        assert_eq!(page[from..to], table, "UPDATE=1 writes it");
    }
}
