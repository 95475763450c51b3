//! The JSON Schema of config.toml, generated from the declarations.

use protocol::deprecated::Deprecated;
use serde_json::{Map, Value, json};

use super::deprecated::old_names;
use super::kind::{Kind, MOST_DOLLARS, OFF};
use super::layers::is_list;
use super::settings::{self, Preset, Setting};

/// The schema, in the draft of 2020-12.
pub fn schema() -> Value {
    let mut schema = node(&[]);
    let head = [
        ("$schema", json!("https://json-schema.org/draft/2020-12/schema")),
        ("title", json!("limulus config.toml")),
        ("description", json!("What `limulus config schema` prints: every key of the configuration file.")),
    ];
    let object = schema.as_object_mut().expect("the root is a table");
    object.extend(head.map(|(key, value)| (key.to_owned(), value)));
    schema
}

/// The schema of the value at this path.
fn node(prefix: &[&str]) -> Value {
    let under = || settings::all().filter(|setting| setting.path.starts_with(prefix));
    if let Some(setting) = under().find(|setting| setting.path.len() == prefix.len()) {
        return leaf(setting);
    }
    let mut parts: Vec<&str> = vec![];
    for setting in under() {
        if !parts.contains(&setting.path[prefix.len()]) {
            parts.push(setting.path[prefix.len()]);
        }
    }
    let inner = |part: &str| node(&[prefix, &[part]].concat());
    match parts[..] {
        ["*"] if is_list(prefix) => json!({"type": "array", "items": inner("*")}),
        ["*"] => json!({"type": "object", "additionalProperties": inner("*")}),
        _ => {
            let mut properties: Map<String, Value> =
                parts.iter().map(|part| ((*part).to_owned(), inner(part))).collect();
            properties.extend(old_names(prefix).map(|(name, row)| (name.to_owned(), old(row))));
            json!({"type": "object", "properties": properties, "additionalProperties": false})
        }
    }
}

fn leaf(setting: &Setting) -> Value {
    let mut schema = kind_schema(setting.kind);
    let object = schema.as_object_mut().expect("the schema of a kind is an object");
    object.insert("description".to_owned(), json!(described(setting)));
    if let Preset::Default(_) = setting.value {
        object.insert("default".to_owned(), json!(setting.value.value()));
    }
    schema
}

fn described(setting: &Setting) -> String {
    format!("{}. A change counts from the next {}.", setting.doc, setting.counts.name())
}

/// The schema of an old name: that of the new name, marked as deprecated.
fn old(row: &Deprecated) -> Value {
    let mut schema = node(&row.new.split('.').collect::<Vec<_>>());
    let object = schema.as_object_mut().expect("a schema is an object");
    object.insert("description".to_owned(), json!(row.to_string()));
    object.insert("deprecated".to_owned(), json!(true));
    schema
}

fn kind_schema(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::Secret => json!({"type": "string", "pattern": r"\S"}),
        Kind::Model => json!({"type": "string", "pattern": r"^[^/\s]+/\S+$"}),
        Kind::Variables => json!({"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9_]+\\*?$"}}),
        Kind::Command => json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        Kind::Models => json!({"type": "array", "items": kind_schema(Kind::Model)}),
        Kind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Limit(least, most) => json!({"anyOf": [kind_schema(Kind::Number(least, most)), {"const": OFF}]}),
        Kind::MoneyLimit => json!({"anyOf": [kind_schema(Kind::Dollars), {"const": OFF}]}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Word(words) => json!({"enum": words}),
        Kind::Words(words) => json!({"type": "array", "items": kind_schema(Kind::Word(words))}),
        Kind::Patterns(_) => {
            let text = kind_schema(Kind::Text);
            json!({"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]})
        }
        Kind::Dollars => json!({"type": "number", "minimum": 0, "maximum": MOST_DOLLARS}),
        Kind::Address => json!({"type": "string", "pattern": "^https?://"}),
        // Loading the file checks more precisely which hosts are this machine.
        Kind::SafeAddress => json!({"type": "string", "pattern": r"^(https://|http://(localhost|127\.|\[::1\]))"}),
        Kind::File => json!({"type": "string", "pattern": "^(~?)/."}),
        Kind::Listen => json!({"type": "string", "pattern": r"^(off|[0-9.]+:\d+|\[[0-9A-Fa-f:.]+\]:\d+)$"}),
        Kind::SecretFile => json!({"type": "string", "pattern": r"^file:\s*\S"}),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use super::super::{Config, Environment, FILE, FlagValues, reference, template};
    use super::*;

    fn docs() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    /// The violations of the schema in a file.
    fn wrong(text: &str) -> Vec<String> {
        let file: toml::Table = toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let validator = tools::SchemaValidator::new(&schema()).unwrap();
        validator.violations(&serde_json::to_value(file).unwrap()).into_iter().map(|found| found.message).collect()
    }

    /// Whether the program accepts this file.
    fn is_taken(text: &str) -> bool {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), text).unwrap();
        Config::load(home.path(), &Environment::of(&[("HOME", "/u")], "/now"), FlagValues::default()).is_ok()
    }

    /// `UPDATE=1` writes it.
    #[test]
    fn the_published_schema_is_the_one_that_is_printed() {
        let file = docs().join("config.schema.json");
        let printed = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        if env::var_os("UPDATE").is_some() {
            fs::write(&file, &printed).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap_or_default(), printed, "UPDATE=1 writes it");
    }

    #[test]
    fn the_defaults_and_every_documented_example_keep_to_the_schema() {
        let mut pages = vec![docs().join("../README.md"), docs().join("../README.zh-CN.md")];
        for folder in [docs(), docs().join("providers")] {
            let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            pages.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "md")));
        }
        let mut examples = vec![reference::defaults(), template()];
        for page in pages {
            let text = fs::read_to_string(page).unwrap();
            let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
            examples.extend(blocks.map(str::to_owned));
        }
        assert!(examples.len() > 6, "{}", examples.len());
        for example in examples {
            assert_eq!(wrong(&example), [""; 0], "{example}");
            assert!(is_taken(&example), "{example}");
        }
    }

    #[test]
    fn what_the_schema_refuses_is_refused() {
        for text in [
            "[runs]\ndeadline = 5",
            "[runs]\ndeadline_s = 0",
            "[runs]\ndeadline_s = \"ten\"",
            "[tools.exec]\npolicy = \"maybe\"",
            "[agents.main]\nmodel = \"gpt\"",
            "[agents.main]\nfallbacks = [\"a b/c\"]",
            "[providers.openai]\nbase_url = \"ftp://x\"",
            "[providers.openai]\nprofiles = \"x\"",
            "[[providers.openai.profiles]]\nkye = \"x\"",
            "[[providers.openai.profiles]]\nkind = \"login\"\nkey = \"x\"",
            "[[providers.openai.profiles]]\nkind = \"oauth\"\nclient_id = \"c\"\nrefresh = \"x\"",
            "[[providers.openai.profiles]]\nkind = \"oauth\"\nclient_id = \"c\"\nrefresh = \"file:x\"\ntoken_url = \"http://h/t\"",
            "[queue]\ncut = 1\nsteer_prefix = \" \"",
        ] {
            assert_ne!(wrong(text), [""; 0], "{text}");
            assert!(!is_taken(text), "{text}");
        }
    }
}
