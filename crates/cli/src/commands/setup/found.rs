//! Finds usable models: providers by the variables of their keys, and the models of a local Ollama.

use config::{Config, Environment};
use serde::Serialize;

use super::choice::{Choice, Key};
use super::questions::is_model;

/// At most this many models of one Ollama are offered; others can be written into the file by hand.
const LOCAL_MODELS: usize = 8;

/// A model that `setup` can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    /// `PROVIDER/MODEL`.
    pub(super) model: String,
    pub(super) by: By,
}

/// How it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum By {
    /// By the variable of its key.
    Variable(&'static str),
    /// By the address of its server.
    Address(String),
}

impl Found {
    pub(super) fn provider(&self) -> &str {
        self.model.split_once('/').map_or("", |(provider, _)| provider)
    }

    /// What is set up if this is chosen: the configuration gets what it lacks.
    pub(super) fn choice(&self, config: &Config) -> Choice {
        let (provider, model) = self.model.split_once('/').unwrap_or((&self.model, ""));
        let is_configured = config.is_configured(provider);
        let (base_url, key) = match &self.by {
            By::Variable(_) if config.has_profiles(provider) => (None, None),
            By::Variable(variable) => (None, Some(Key::Reference(format!("env:{variable}")))),
            By::Address(address) if !is_configured && address != DEFAULT_OLLAMA => (Some(address.clone()), None),
            By::Address(_) => (None, None),
        };
        Choice { provider: provider.to_owned(), model: model.to_owned(), base_url, key }
    }
}

/// The default address of an Ollama, which needs no line.
const DEFAULT_OLLAMA: &str = "http://127.0.0.1:11434";

/// Checks the variables first, then for an Ollama.
pub(super) async fn look(config: &Config, environment: &Environment) -> Vec<Found> {
    let by_variable = config.by_variable().into_iter();
    let mut found: Vec<Found> = by_variable
        .map(|(provider, variable, model)| Found { model: format!("{provider}/{model}"), by: By::Variable(variable) })
        .collect();
    let address = match config.endpoint("ollama", None) {
        Ok(endpoint) if config.is_configured("ollama") => endpoint.base_url,
        _ => ollama_address(environment.get("OLLAMA_HOST")),
    };
    let models = models::local_models(&address).await.unwrap_or_default();
    found.extend(
        models
            .into_iter()
            .filter(|model| is_model(model))
            .take(LOCAL_MODELS)
            .map(|model| Found { model: format!("ollama/{model}"), by: By::Address(address.clone()) }),
    );
    found
}

/// The address that `OLLAMA_HOST` means to a client: scheme and port are optional, and a wildcard listen address means
/// this machine.
fn ollama_address(host: Option<&str>) -> String {
    let host = host.unwrap_or_default().trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_port = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => (name, port),
        _ => (authority, ""),
    };
    let port = match (port, host.contains("://"), scheme) {
        ("", true, "http") => "80",
        ("", true, "https") => "443",
        ("", ..) => "11434",
        (port, ..) => port,
    };
    let name = if matches!(name, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { name };
    format!("{scheme}://{name}:{port}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_is_where_its_variable_says() {
        for (host, address) in [
            (None, "http://127.0.0.1:11434"),
            (Some("0.0.0.0"), "http://127.0.0.1:11434"),
            (Some(":8080"), "http://127.0.0.1:8080"),
            (Some("box"), "http://box:11434"),
            (Some("box:80"), "http://box:80"),
            (Some("http://box"), "http://box:80"),
            (Some("https://box/api/"), "https://box:443/api"),
            (Some("[::1]:9"), "http://[::1]:9"),
            (Some("[::1]"), "http://[::1]:11434"),
        ] {
            assert_eq!(ollama_address(host), address, "{host:?}");
        }
    }
}
