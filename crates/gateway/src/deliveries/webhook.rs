//! Sends to a webhook: a POST with JSON, signed as Standard Webhooks have it, with the same key for each try.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::DeliveryFault;
use models::Secret;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{StatusCode, Url, redirect};
use ring::hmac;
use runtime::DeliveryTrouble;

use super::{refused, temporary, unknown};

/// How long one try may take: OpenClaw's limit.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long it waits for a connection: shorter, so that a host that is down is known to have got nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait that the other end may ask for, in seconds.
const MOST_WAIT_S: u64 = 24 * 3_600;
/// What the secret of a Standard Webhook begins with; base64 follows.
const ENCODED: &str = "whsec_";

/// The client of all webhooks.
#[derive(Clone)]
pub(super) struct Client(Result<reqwest::Client, String>);

impl Client {
    pub(super) fn new(version: &str) -> Self {
        let client = models::client_builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::none());
        Self(client.user_agent(format!("limulus/{version}")).build().map_err(|error| error.to_string()))
    }

    /// Sends it once.
    pub(super) async fn send(
        &self,
        url: &str,
        secret: Option<&Secret>,
        id: &str,
        body: String,
    ) -> Result<(), DeliveryTrouble> {
        let client = self.0.as_ref().map_err(|error| refused(format!("there is no HTTP client: {error}")))?;
        // The address may itself be a secret, so that no error has it.
        let url =
            Url::parse(url).map_err(|error| refused(format!("the address of its route is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("the address of its route begins with neither http:// nor https://".to_owned()));
        }
        let at = now_s().to_string();
        let mut request = client
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", &at)
            .header("idempotency-key", id);
        if let Some(secret) = secret {
            request = request.header("webhook-signature", signature(secret.reveal(), id, &at, &body)?);
        }
        let response = request.body(body).send().await.map_err(|error| unsent(&error))?;
        judged(response.status(), response.headers())
    }
}

/// `v1,` and the HMAC-SHA256 of id, time and body in base64.
fn signature(secret: &str, id: &str, at: &str, body: &str) -> Result<String, DeliveryTrouble> {
    let key = match secret.strip_prefix(ENCODED) {
        Some(encoded) => STANDARD
            .decode(encoded)
            .map_err(|_| refused(format!("its secret begins with {ENCODED} and is no base64")))?,
        None => secret.as_bytes().to_vec(),
    };
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let tag = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(tag)))
}

/// A request without a response. Only if there was no connection, nothing can have arrived.
fn unsent(error: &reqwest::Error) -> DeliveryTrouble {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_connect() {
        temporary(format!("no connection: {cause}"))
    } else if error.is_builder() {
        refused(format!("no request can be made of it: {cause}"))
    } else if error.is_timeout() {
        unknown(format!("no response within {} s", TIMEOUT.as_secs()))
    } else {
        unknown(format!("the connection broke before the response: {cause}"))
    }
}

/// What a response says of the delivery.
fn judged(status: StatusCode, headers: &HeaderMap) -> Result<(), DeliveryTrouble> {
    let why = format!("it was answered with status {status}");
    match status {
        _ if status.is_success() => Ok(()),
        // A proxy does not know what the program behind it has done.
        StatusCode::GATEWAY_TIMEOUT => Err(unknown(why)),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            Err(DeliveryTrouble { why, fault: DeliveryFault::Temporary { after_ms: retry_after(headers) } })
        }
        _ if status.is_server_error() => {
            Err(DeliveryTrouble { why, fault: DeliveryFault::Temporary { after_ms: retry_after(headers) } })
        }
        _ => Err(refused(why)),
    }
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(seconds.min(MOST_WAIT_S) * 1_000)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn r46_a_webhook_is_signed_as_standard_webhooks_are() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = r#"{"test": 2432232314}"#;
        let signed = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_ne!(signature("MfKQ", "a", "1", "").unwrap(), signature("MfKR", "a", "1", "").unwrap());
        let error = signature("whsec_no base64", "a", "1", "").unwrap_err();
        assert!(error.fault == DeliveryFault::Refused && !error.why.contains("no base64!"), "{error:?}");
    }

    #[test]
    fn r46_a_status_says_whether_it_is_sent_again() {
        let fault = |status: u16, after: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(after) = after {
                headers.insert(RETRY_AFTER, after.parse().unwrap());
            }
            judged(StatusCode::from_u16(status).unwrap(), &headers).map_err(|trouble| trouble.fault)
        };
        let temporary = |after_ms| Err(DeliveryFault::Temporary { after_ms });
        assert_eq!((fault(200, None), fault(204, None)), (Ok(()), Ok(())));
        assert_eq!(fault(503, Some("30")), temporary(Some(30_000)));
        assert_eq!(fault(429, Some("soon")), temporary(None));
        assert_eq!(fault(429, Some("99999999999999999")), temporary(Some(MOST_WAIT_S * 1_000)));
        assert_eq!(fault(504, None), Err(DeliveryFault::Unknown));
        for status in [301, 307, 400, 401, 404, 410] {
            assert_eq!(fault(status, None), Err(DeliveryFault::Refused), "{status}");
        }
    }
}
