//! The collector that receives traces: its address and its headers.

use std::fmt;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};

/// The longest time of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The path of traces at a collector.
const PATH: [&str; 2] = ["v1", "traces"];

/// Where spans are sent.
#[derive(Debug, Clone)]
pub struct Collector {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) client: Client,
    pub(super) version: String,
}

/// A collector that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorError(String);

impl fmt::Display for CollectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CollectorError {}

impl Collector {
    /// The collector at this address, such as `http://127.0.0.1:4318`, to which `v1/traces` is added. `headers` are `NAME=VALUE`,
    /// separated by commas, as in OTEL_EXPORTER_OTLP_HEADERS; they may be secret.
    pub fn new(address: &str, headers: Option<&str>, version: &str) -> Result<Self, CollectorError> {
        let bad = |why: String| CollectorError(why);
        let none = |why: &str| bad(format!("the address of the collector is none: {why}"));
        let mut url = Url::parse(address).map_err(|error| none(&error.to_string()))?;
        // What is behind a `?` stays there.
        url.path_segments_mut()
            .map_err(|()| none("it begins with neither http:// nor https://"))?
            .pop_if_empty()
            .extend(PATH);
        let mut map = HeaderMap::new();
        for header in headers.unwrap_or_default().split(',').map(str::trim).filter(|header| !header.is_empty()) {
            // What is wrong with it is said without its value.
            let no_header = || bad("OTEL_EXPORTER_OTLP_HEADERS is not NAME=VALUE,NAME=VALUE".to_owned());
            let (name, value) = header.split_once('=').ok_or_else(no_header)?;
            let name: HeaderName = name.trim().parse().map_err(|_| no_header())?;
            let mut value: HeaderValue = value.trim().parse().map_err(|_| no_header())?;
            value.set_sensitive(true);
            map.insert(name, value);
        }
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let client = models::client_builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none()).build();
        let client = client.map_err(|error| bad(format!("no HTTP client: {error}")))?;
        Ok(Self { url, headers: map, client, version: version.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r68_an_address_and_its_headers() {
        let url = |address: &str| Collector::new(address, None, "1").map(|collector| collector.url.to_string());
        assert_eq!(url("http://127.0.0.1:4318").unwrap(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(url("https://o.example/otlp/").unwrap(), "https://o.example/otlp/v1/traces");
        assert_eq!(url("https://o.example/otlp?key=x").unwrap(), "https://o.example/otlp/v1/traces?key=x");
        let error = url("mailto:someone").unwrap_err().to_string();
        assert!(error.ends_with("it begins with neither http:// nor https://"), "{error}");
        assert!(url("nowhere").unwrap_err().to_string().contains("address of the collector"));
        let of = Collector::new("http://h", Some("api-key=s3cret, x-a = b"), "1").unwrap();
        assert!(of.headers["api-key"] == "s3cret" && of.headers["x-a"] == "b", "{of:?}");
        assert!(!format!("{of:?}").contains("s3cret"));
        let error = Collector::new("http://h", Some("s3cret"), "1").unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
