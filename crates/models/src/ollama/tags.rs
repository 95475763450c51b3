//! Lists the models of a local Ollama.

use std::time::Duration;

use reqwest::{Url, redirect};
use serde::Deserialize;

use crate::wire::tls;

/// The timeout: the server is on this machine or near it, so without a response in this time there is none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of the list; a model takes about 400.
const LIST_BYTES: usize = 1 << 20;

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

/// The names of the models of the Ollama at this address, the one changed last first. None if no Ollama responds.
pub async fn local_models(base_url: &str) -> Option<Vec<String>> {
    let url = Url::parse(base_url).ok()?.join("/api/tags").ok()?;
    let builder = tls::client_builder().no_proxy().redirect(redirect::Policy::none()).timeout(PATIENCE);
    let builder = if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
    let mut response = builder.build().ok()?.get(url).send().await.ok()?.error_for_status().ok()?;
    let mut bytes = vec![];
    while let Some(chunk) = response.chunk().await.ok()? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LIST_BYTES {
            return None;
        }
    }
    let tags: Tags = serde_json::from_slice(&bytes).ok()?;
    Some(tags.models.into_iter().map(|tag| tag.name).collect())
}
