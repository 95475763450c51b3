//! The HTTP side of a request: clients, address, headers, and the faults of a failed send or an error response.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use engine::FailureClass;
use jiff::Timestamp;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Proxy, Response, Url, redirect, retry};
use tokio::time::timeout;

use super::{BEARER, Format, Framing, tls};
use crate::endpoint::Endpoint;
use crate::fault::{Fault, Subject};
use crate::limits;
use crate::wait;

const USER_AGENT: &str = concat!("limulus/", env!("CARGO_PKG_VERSION"));

/// The HTTP clients. The first request that needs one creates it; later ones share its connections. A client for plain
/// HTTP loads no root certificates, which would take longer than a whole local request. A client for this machine uses no
/// proxy of the environment: the proxy would receive the key and the conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clients {
    /// By whether they are for plain HTTP, and for this machine.
    direct: Arc<[[OnceLock<Client>; 2]; 2]>,
    /// By the address of the proxy.
    proxied: Arc<Mutex<BTreeMap<String, Arc<OnceLock<Client>>>>>,
}

impl Clients {
    pub(crate) fn client(&self, url: &Url, proxy: Option<&str>) -> Result<Client, Fault> {
        let (is_secure, is_here) = (url.scheme() == "https" || proxy.is_some(), is_this_machine(url));
        let proxied = proxy.map(|proxy| self.place_of(proxy));
        let place = proxied.as_deref().unwrap_or(&self.direct[usize::from(!is_secure)][usize::from(is_here)]);
        if let Some(client) = place.get() {
            return Ok(client.clone());
        }
        let builder = tls::client_builder()
            .tcp_nodelay(true)
            .connect_timeout(limits::CONNECT)
            .user_agent(USER_AGENT)
            // A redirected POST would lose its body or send the key elsewhere; and the caller decides about retries.
            .redirect(redirect::Policy::none())
            .retry(retry::never());
        let builder = if is_secure { builder } else { builder.tls_certs_only([]) };
        let builder = match proxy {
            Some(address) => builder.proxy(Proxy::all(address).map_err(|error| no_proxy(&error))?),
            None if is_here => builder.no_proxy(),
            None => builder,
        };
        let client = builder.build().map_err(|error| unsent(&error))?;
        Ok(place.get_or_init(|| client).clone())
    }

    fn place_of(&self, proxy: &str) -> Arc<OnceLock<Client>> {
        let mut proxied = self.proxied.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(proxied.entry(proxy.to_owned()).or_default())
    }

    /// Sends a request; returns a response whose status is a success.
    pub(super) async fn send(&self, format: &dyn Format, subject: &Subject, body: Vec<u8>) -> Result<Response, Fault> {
        let endpoint = subject.endpoint();
        let (path, query) = format.path(subject.candidate());
        let url = address(&endpoint.base_url, &path, query)?;
        let request =
            self.client(&url, endpoint.proxy.as_deref())?.post(url.clone()).headers(headers(format, endpoint)?);
        let response =
            request.body(body).send().await.map_err(|error| unreachable(&url, endpoint.proxy.as_deref(), &error))?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        match encoding(&response) {
            Some(encoding) => Err(encoded(&encoding)),
            None => Ok(response),
        }
    }
}

/// Whether the host of an address names this machine by itself; a name that merely resolves to it does not.
fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().map(|ip| ip.to_canonical());
    host == "localhost" || host.ends_with(".localhost") || ip.is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// The address of the call: the base with its query, if it has one (Azure), and the path.
fn address(base_url: &str, path: &str, query: Option<&str>) -> Result<Url, Fault> {
    let wrong = |why: &str| Fault::new(FailureClass::InvalidRequest, format!("has a `base_url` that {why}"));
    let mut url =
        Url::parse(base_url.trim()).map_err(|error| wrong("is not a valid address").with_detail(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("begins with neither http:// nor https://"));
    }
    if !url.path().trim_end_matches('/').ends_with(&format!("/{path}")) {
        let mut segments = url.path_segments_mut().expect("http addresses have a path");
        segments.pop_if_empty().extend(path.split('/'));
    }
    if let Some((name, value)) = query.and_then(|query| query.split_once('=')) {
        url.query_pairs_mut().append_pair(name, value);
    }
    Ok(url)
}

/// The headers of the format, the key, and the headers of the endpoint, which take precedence.
fn headers(format: &dyn Format, endpoint: &Endpoint) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static(accepted(format.framing())));
    // A proxy that compresses a stream delays it until it has enough data.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for (name, value) in format.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = endpoint.key.as_ref().filter(|key| !key.reveal().is_empty()) {
        // Access tokens always use the standard header (RFC 6750), whatever header the format has for keys.
        let (name, before) = if endpoint.login.is_some() { BEARER } else { format.key_header() };
        headers.insert(HeaderName::from_static(name), secret(&format!("{before}{}", key.reveal()), "the key")?);
    }
    for (name, value) in &endpoint.headers {
        let what = format!("the header `{name}`");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable(&what))?;
        headers.insert(name, secret(value.reveal(), &what)?);
    }
    Ok(headers)
}

fn accepted(framing: Framing) -> &'static str {
    match framing {
        Framing::Events => "text/event-stream",
        Framing::Lines => "application/x-ndjson",
    }
}

fn secret(value: &str, what: &str) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::from_str(value).map_err(|_| unsendable(what))?;
    value.set_sensitive(true);
    Ok(value)
}

fn unsendable(what: &str) -> Fault {
    Fault::new(FailureClass::Auth, format!("was not asked: {what} holds characters that cannot be sent in a header"))
}

fn unsent(error: &reqwest::Error) -> Fault {
    Fault::new(FailureClass::Network, "could not be asked: there is no HTTP client").with_detail(causes(error))
}

fn no_proxy(error: &reqwest::Error) -> Fault {
    Fault::new(FailureClass::InvalidRequest, "has a `proxy` that is not a valid address").with_detail(causes(error))
}

pub(crate) fn unreachable(url: &Url, proxy: Option<&str>, error: &reqwest::Error) -> Fault {
    let what = if error.is_connect() || error.is_timeout() { "could not be reached" } else { "did not answer" };
    let proxy = proxy.and_then(|address| Url::parse(address).ok());
    let through = proxy.map(|proxy| format!(" through the proxy {}", shown(&proxy))).unwrap_or_default();
    Fault::new(FailureClass::Network, format!("{what} at {}{through}", shown(url))).with_detail(causes(error))
}

/// The content encoding of a response, if it has one.
fn encoding(response: &Response) -> Option<String> {
    let value = response.headers().get(header::CONTENT_ENCODING)?;
    let value = String::from_utf8_lossy(value.as_bytes()).trim().to_lowercase();
    Some(value).filter(|value| !value.is_empty() && value != "identity")
}

fn encoded(encoding: &str) -> Fault {
    let what = format!("answered in an encoding that was not requested ({encoding})");
    Fault::new(FailureClass::Malformed, what)
}

/// The fault of a connection that broke during a response.
pub(crate) fn broken(error: &reqwest::Error) -> Fault {
    Fault::interrupted().with_detail(causes(error))
}

/// The innermost cause is the most specific (`Connection refused`); the outer ones repeat the address.
fn causes(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    // Without a cause only the error itself is left; it names the address with its query.
    let mut text = if cause.is_some() { String::new() } else { "the request failed".to_owned() };
    while let Some(next) = cause {
        text = next.to_string();
        cause = next.source();
    }
    text
}

/// The address without user name, password and query.
fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// The fault of an error response. It reads the body within the limits.
pub(crate) async fn refusal(mut response: Response) -> Fault {
    let status = response.status();
    if status.is_redirection() {
        let target =
            response.headers().get(header::LOCATION).map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
        let what = format!("answered HTTP {}: a redirect, which is not followed", status.as_u16());
        // A proxy in front of the provider sent it, or it concerns the address; it says nothing about the request.
        let mut fault = Fault::new(FailureClass::Malformed, what).with_detail(target.unwrap_or_default());
        fault.status = Some(status.as_u16());
        return fault;
    }
    let asked = wait::of_headers(response.headers(), Timestamp::now());
    let mut body = Vec::new();
    // An encoded body is not used, only the status.
    let is_readable = encoding(&response).is_none();
    let reading = async {
        while is_readable && body.len() < limits::BODY_BYTES {
            let Ok(Some(bytes)) = response.chunk().await else { return };
            body.extend_from_slice(&bytes[..bytes.len().min(limits::BODY_BYTES - body.len())]);
        }
    };
    // The part of the body that has arrived suffices.
    let _ = timeout(limits::ERROR_BODY, reading).await;
    Fault::of_status(status.as_u16(), &body, asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_keeps_the_base_its_query_and_a_path_that_is_there() {
        let cases = [
            ("http://h/v1", "http://h/v1/chat/completions"),
            ("http://h/v1/", "http://h/v1/chat/completions"),
            ("http://h", "http://h/chat/completions"),
            ("https://h/d/m?api-version=1", "https://h/d/m/chat/completions?api-version=1"),
            ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ];
        for (base_url, expected) in cases {
            assert_eq!(address(base_url, "chat/completions", None).unwrap().as_str(), expected);
        }
        for base_url in ["", "h/v1", "ftp://h/v1", "file:///etc"] {
            assert_eq!(
                address(base_url, "chat/completions", None).unwrap_err().class,
                FailureClass::InvalidRequest,
                "{base_url}"
            );
        }
    }

    #[test]
    fn r50_this_machine_is_known_in_every_spelling() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "127.0.0.1",
            "127.9.8.7",
            "127.1",
            "0x7f.1",
            "2130706433",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "[::]",
            "me:pass@127.0.0.1",
        ] {
            assert!(is_this_machine(&Url::parse(&format!("http://{host}:1/v1")).unwrap()), "{host}");
        }
        for host in
            ["127.0.0.1.evil.dev", "localhost.evil.dev", "notlocalhost", "10.0.0.1", "[::2]", "127.0.0.1@evil.dev"]
        {
            assert!(!is_this_machine(&Url::parse(&format!("http://{host}:1/v1")).unwrap()), "{host}");
        }
    }

    #[test]
    fn h5_a_password_in_the_address_is_not_shown() {
        assert_eq!(
            shown(&address("http://me:pass@h:1/v1?key=k", "chat/completions", None).unwrap()),
            "http://h:1/v1/chat/completions"
        );
    }
}
