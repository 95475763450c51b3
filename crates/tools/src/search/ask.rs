//! Asks a search engine once. It follows no redirect: the key would go along.

use std::net::IpAddr;

use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect, retry};
use serde_json::json;

use super::answer::plain;
use super::{Masks, SearchApi, SearchArguments, SearchProvider, failed};
use crate::error::ToolError;
use crate::fetch::{USER_AGENT, root_cause};
use crate::limits::{SEARCH_BYTES, SEARCH_ERROR_CHARS};

/// The body of its answer, if that is a success.
pub(super) async fn ask(
    provider: &SearchProvider,
    key: Option<&str>,
    search: &SearchArguments,
    masks: &Masks,
) -> Result<Vec<u8>, ToolError> {
    let at = provider.address();
    let url = provider.url.clone();
    let url = url.ok_or_else(|| failed(format!("{at} is not a valid address; correct tools.web_search.url")))?;
    let unsent = |error: &reqwest::Error| {
        let cause = root_cause(error);
        failed(format!("{at} cannot be reached: {cause}; check the network, and tools.web_search.url"))
    };
    let client = client(&url).map_err(|error| unsent(&error))?;
    let (method, url, body) = request(provider.api, url, search);
    let request = client.request(method, url).headers(headers(provider.api, key)?).body(body);
    let mut response = request.send().await.map_err(|error| unsent(&error))?;
    let body = body_of(&mut response).await.map_err(|error| unsent(&error))?;
    match (response.status().is_success(), body) {
        (true, Body::Whole(body)) => Ok(body),
        (true, Body::TooLong) => {
            let most = SEARCH_BYTES >> 20;
            Err(failed(format!("the answer of {at} is longer than {most} MiB; ask for fewer results with `count`")))
        }
        (false, Body::Whole(body)) => Err(refused(provider, &response, &body, masks)),
        (false, Body::TooLong) => Err(refused(provider, &response, b"", masks)),
    }
}

fn client(url: &Url) -> reqwest::Result<Client> {
    // The process has one TLS provider. If another crate has installed it already, it is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().user_agent(USER_AGENT).redirect(redirect::Policy::none()).retry(retry::never());
    // A proxy of the environment would receive what is searched for on this machine. Plain HTTP needs no root certificates.
    let builder = if is_this_machine(url) { builder.no_proxy() } else { builder };
    if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder }.build()
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>().map(|ip| ip.to_canonical());
    host == "localhost" || host.ends_with(".localhost") || ip.is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

fn request(api: SearchApi, mut url: Url, search: &SearchArguments) -> (Method, Url, String) {
    let count = search.count.to_string();
    match api {
        SearchApi::Brave => {
            url.query_pairs_mut().append_pair("q", &search.query).append_pair("count", &count);
        }
        SearchApi::Searxng => {
            url.query_pairs_mut().append_pair("q", &search.query).append_pair("format", "json");
        }
        SearchApi::Tavily => {
            let body = json!({ "query": search.query, "max_results": search.count });
            return (Method::POST, url, body.to_string());
        }
    }
    (Method::GET, url, String::new())
}

fn headers(api: SearchApi, key: Option<&str>) -> Result<HeaderMap, ToolError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let secret = |value: &str| {
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| {
            failed("the key has characters that a header cannot have; correct tools.web_search.key".to_owned())
        })?;
        value.set_sensitive(true);
        Ok::<_, ToolError>(value)
    };
    match (api, key) {
        (SearchApi::Brave, Some(key)) => {
            headers.insert("x-subscription-token", secret(key)?);
        }
        (SearchApi::Tavily, Some(key)) => {
            headers.insert(header::AUTHORIZATION, secret(&format!("Bearer {key}"))?);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        (SearchApi::Searxng, _) | (_, None) => {}
    }
    Ok(headers)
}

enum Body {
    Whole(Vec<u8>),
    TooLong,
}

async fn body_of(response: &mut Response) -> reqwest::Result<Body> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if bytes.len() + piece.len() > SEARCH_BYTES {
            return Ok(Body::TooLong);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Body::Whole(bytes))
}

/// What a status that is no success means, and what to do.
fn refused(provider: &SearchProvider, response: &Response, body: &[u8], masks: &Masks) -> ToolError {
    let (status, at) = (response.status(), provider.address());
    // Masked before it is shortened: a part of a key would not be known.
    let said =
        |text: &str| -> String { masks.mask(&plain(&masks.mask(text))).chars().take(SEARCH_ERROR_CHARS).collect() };
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(said);
    let body = said(&String::from_utf8_lossy(body));
    let because = if body.is_empty() { String::new() } else { format!(": {body}") };
    // Brave says so with 422.
    let is_key = status.as_u16() == 422 && body.contains("SUBSCRIPTION_TOKEN");
    let reason = match (status, provider.api) {
        (StatusCode::FORBIDDEN, SearchApi::Searxng) => format!(
            "{at} answered 403{because}. A searxng does so if its format json is not enabled: add `json` to `search.formats` in its \
             settings.yml"
        ),
        (StatusCode::UNAUTHORIZED, SearchApi::Searxng) => {
            format!("{at} wants a login{because}. Put user and password into tools.web_search.url")
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => key_refused(status, &because),
        _ if is_key => key_refused(status, &because),
        (StatusCode::TOO_MANY_REQUESTS, _) => {
            let when = match header(header::RETRY_AFTER) {
                Some(seconds) if seconds.parse::<u64>().is_ok() => format!("after {seconds} s"),
                Some(time) => format!("after {time}"),
                None => "later".to_owned(),
            };
            format!("{at} allows no more searches now (429){because}. Try again {when}")
        }
        _ if status.is_redirection() => {
            let target = header(header::LOCATION).map(|target| format!(" to {target}")).unwrap_or_default();
            format!("{at} redirects{target} ({}), which is not followed: correct tools.web_search.url", status.as_u16())
        }
        _ if status.is_server_error() => {
            format!("{at} has an error of its own ({}){because}. Try again later", status.as_u16())
        }
        _ => format!("{at} refused the search ({}){because}. Check [tools.web_search]", status.as_u16()),
    };
    failed(reason)
}

fn key_refused(status: StatusCode, because: &str) -> String {
    format!("the key is refused ({}){because}. Check tools.web_search.key", status.as_u16())
}
