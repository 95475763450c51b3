//! Lists the models that a server has: an Ollama by its own API, others by that of OpenAI.

use std::time::Duration;

use reqwest::{Url, redirect};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::Endpoint;
use crate::wire::tls;

/// The timeout: the server is on this machine or near it, so without a response in this time there is none.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of the list; a model takes about 400.
const LIST_BYTES: usize = 1 << 20;

#[derive(Deserialize)]
struct Tags {
    #[serde(deserialize_with = "known")]
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

#[derive(Deserialize)]
struct Served {
    #[serde(deserialize_with = "known")]
    data: Vec<ServedModel>,
}

#[derive(Deserialize)]
struct ServedModel {
    id: String,
}

/// The entries of a list that have the expected shape; another one costs the list nothing.
fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let entries = Vec::<Value>::deserialize(deserializer)?;
    Ok(entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect())
}

/// The names of the models of the Ollama at this address, the one changed last first. None if no Ollama responds.
pub async fn local_models(base_url: &str) -> Option<Vec<String>> {
    let tags: Tags = get(Url::parse(base_url).ok()?.join("/api/tags").ok()?, None).await?;
    Some(tags.models.into_iter().map(|tag| tag.name).collect())
}

/// The names of the models that a server with the API of OpenAI lists, in its order. None if it lists none.
pub async fn served_models(endpoint: &Endpoint) -> Option<Vec<String>> {
    let address = format!("{}/models", endpoint.base_url.trim_end_matches('/'));
    let key = endpoint.key.as_ref().map(crate::Secret::reveal);
    let served: Served = get(Url::parse(&address).ok()?, key).await?;
    Some(served.data.into_iter().map(|model| model.id).collect())
}

/// The object at this address. It follows no redirect: the key would go along.
async fn get<T: DeserializeOwned>(url: Url, key: Option<&str>) -> Option<T> {
    let builder = tls::client_builder().no_proxy().redirect(redirect::Policy::none()).timeout(PATIENCE);
    let builder = if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
    let request = builder.build().ok()?.get(url);
    let request = key.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
    let mut response = request.send().await.ok()?.error_for_status().ok()?;
    let mut bytes = vec![];
    while let Some(chunk) = response.chunk().await.ok()? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LIST_BYTES {
            return None;
        }
    }
    serde_json::from_slice(&bytes).ok()
}
