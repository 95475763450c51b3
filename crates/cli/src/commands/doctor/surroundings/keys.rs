//! The keys of providers: where each is looked up, and whether it is there. Keys are never shown.

use config::{Config, KeyStatus};

use super::{Level, Section};

pub(super) fn look(config: Option<&Config>) -> Section {
    let mut section = Section::new("keys");
    // What keeps it from being read is in another section.
    let Some(config) = config else { return section };
    let (models, note) = config.models_of_main();
    if let Some(note) = note {
        let hint = "`limulus setup` finds a model and writes it into the configuration";
        section.hint("model", Level::Note, note, hint);
    } else if let Some(first) = models.first() {
        section.add("model", Level::Ok, format!("the agent main asks {first}"));
    }
    for provider in config.providers_in_use() {
        match config.key_status(&provider) {
            KeyStatus::NotNeeded => section.add("key", Level::Ok, format!("{provider} needs no key")),
            KeyStatus::There { source } => section.add("key", Level::Ok, format!("{provider}: {source} is there")),
            KeyStatus::AtRequest { source } => {
                let hint = "`limulus doctor --online` runs it and asks the provider";
                section.hint("key", Level::Ok, format!("{provider}: {source} prints it for each request"), hint);
            }
            KeyStatus::Missing { source, why } => {
                let hint = format!("put the key where {source} leads, or run `limulus setup`");
                section.hint("key", Level::Warning, format!("{provider} has no key: {why}"), hint);
            }
            KeyStatus::NotConfigured => {
                let hint = format!("set providers.{provider}.api and base_url, or name another model");
                section.hint("key", Level::Warning, format!("{provider} is not configured"), hint);
            }
        }
    }
    section
}
