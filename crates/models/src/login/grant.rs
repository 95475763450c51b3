//! One exchange with a token server (RFC 6749, section 6): the request, the grant, and the meaning of a refusal.

use std::time::{Duration, SystemTime};

use engine::FailureClass;
use reqwest::{Response, Url, header};
use serde_json::Value;
use tokio::time::timeout;

use super::{Login, may_hold_tokens};
use crate::endpoint::Secret;
use crate::fault::Fault;
use crate::limits::{BODY_BYTES, TOKEN_EARLY};
use crate::wire::{Clients, broken, refusal, unreachable};

/// An access token and its time of last use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccessToken {
    pub(super) token: Secret,
    /// When to stop using it; none means until the provider refuses it.
    until: Option<SystemTime>,
}

impl AccessToken {
    pub(super) fn new(token: Secret, asked_at: SystemTime, lifetime: Option<Duration>) -> Self {
        // A token with a shorter life than twice this margin would never be used.
        let used_for = |lifetime: Duration| lifetime.saturating_sub(TOKEN_EARLY.min(lifetime / 2));
        Self { token, until: lifetime.and_then(|lifetime| asked_at.checked_add(used_for(lifetime))) }
    }

    pub(super) fn is_usable(&self, now: SystemTime) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The grant of a token server.
#[derive(Debug)]
pub(super) struct Granted {
    /// The access token, or why it cannot be used.
    pub(super) access: Result<AccessToken, Fault>,
    /// The new refresh token, if the server replaced it.
    pub(super) refresh: Option<Secret>,
}

/// Requests an access token with this refresh token.
pub(super) async fn ask(clients: &Clients, login: &Login, refresh: &Secret) -> Result<Granted, Fault> {
    let asked_at = SystemTime::now();
    let exchange = async {
        let mut response = send(clients, login, refresh).await?;
        if !response.status().is_success() {
            return Err(refused(refusal(response).await));
        }
        // Unlike elsewhere, the message does not quote the body: it may contain a token.
        granted(&read(&mut response).await?, asked_at)
            .ok_or_else(|| malformed("answered with something else than tokens"))
    };
    let late = format!("did not answer within {} s", login.limit.as_secs());
    let granted = timeout(login.limit, exchange).await;
    granted
        .unwrap_or_else(|_| Err(Fault::new(FailureClass::Timeout, late)))
        .map_err(|fault| reported(login, refresh, fault))
}

async fn send(clients: &Clients, login: &Login, refresh: &Secret) -> Result<Response, Fault> {
    let unfit = || Fault::new(FailureClass::AuthPermanent, "has an address that is neither https nor on this machine");
    let url =
        Url::parse(login.token_url.trim()).ok().filter(|_| may_hold_tokens(&login.token_url)).ok_or_else(unfit)?;
    let proxy = login.proxy.as_deref();
    let request = clients.client(&url, proxy)?.post(url.clone()).header(header::ACCEPT, "application/json");
    let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(form(login, refresh));
    request.send().await.map_err(|error| unreachable(&url, proxy, &error))
}

fn form(login: &Login, refresh: &Secret) -> String {
    // Only the form encoding of `Url` is used, not the address.
    let mut form = Url::parse("http://form").expect("it is an address");
    form.query_pairs_mut()
        .append_pair("grant_type", "refresh_token")
        .append_pair("refresh_token", refresh.reveal())
        .append_pair("client_id", &login.client_id);
    form.query().unwrap_or_default().to_owned()
}

async fn read(response: &mut Response) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| broken(&error))? {
        body.extend_from_slice(&bytes);
        if body.len() > BODY_BYTES {
            return Err(malformed(&format!("sent more than {BODY_BYTES} bytes")));
        }
    }
    Ok(body)
}

/// Parses a success; none if it contains neither an access token nor a refresh token.
fn granted(body: &[u8], asked_at: SystemTime) -> Option<Granted> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let token = |name: &str| {
        let token = value.get(name)?.as_str()?;
        // Other characters cannot be sent in a header.
        (!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Secret::new(token))
    };
    let refresh = token("refresh_token");
    let kind = value.get("token_type").and_then(Value::as_str).unwrap_or("bearer");
    let access = match token("access_token") {
        Some(_) if !kind.eq_ignore_ascii_case("bearer") => Err("gave an access token of another type than `bearer`"),
        Some(access) => Ok(AccessToken::new(access, asked_at, value.get("expires_in").and_then(lifetime))),
        None if refresh.is_none() => return None,
        None => Err("gave no access token"),
    };
    Some(Granted { access: access.map_err(malformed), refresh })
}

/// Seconds; some servers write them as text.
fn lifetime(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

fn malformed(what: &str) -> Fault {
    Fault::new(FailureClass::Malformed, what)
}

/// The class of a refusal. If it does not pass by itself, the user must act.
fn refused(mut fault: Fault) -> Fault {
    use FailureClass as Class;
    let passes = matches!(
        fault.class,
        Class::RateLimit | Class::Overloaded | Class::Timeout | Class::Network | Class::Server | Class::Malformed
    );
    if fault.says("temporarily_unavailable") {
        fault.class = Class::Server;
        return fault;
    }
    let is_redirect = fault.status.is_some_and(|status| (300..400).contains(&status));
    if !passes || is_redirect {
        fault.class = Class::AuthPermanent;
    }
    fault
}

/// Whether the refresh token itself is refused.
pub(super) fn is_of_token(fault: &Fault) -> bool {
    fault.says("invalid_grant")
}

/// The fault as it is reported to the user of the model.
pub(super) fn reported(login: &Login, refresh: &Secret, fault: Fault) -> Fault {
    let remedy = match fault.class {
        FailureClass::AuthPermanent if is_of_token(&fault) => login.remedy(),
        FailureClass::AuthPermanent => login.remedy_of_server(),
        _ => format!("Try again later, or check `token_url` of {}.", login.shown()),
    };
    fault.behind("was not asked: the token server").without(refresh).with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Option<Granted> {
        granted(body.as_bytes(), SystemTime::UNIX_EPOCH)
    }

    fn until(expires_in: &str) -> Option<u64> {
        let granted = of(&format!(r#"{{"access_token":"a","expires_in":{expires_in}}}"#)).unwrap();
        Some(granted.access.unwrap().until?.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64)
    }

    #[test]
    fn r50_a_token_is_used_until_a_minute_before_its_end() {
        for (expires_in, expected) in [
            ("3600", Some(3_540_000)),
            ("\"3600\"", Some(3_540_000)),
            ("100.5", Some(50_250)),
            ("2", Some(1_000)),
            ("0", Some(0)),
            ("-5", Some(0)),
            ("null", None),
            ("\"soon\"", None),
            ("1e300", None),
        ] {
            assert_eq!(until(expires_in), expected, "{expires_in}");
        }
        let moment = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let token = of(r#"{"access_token":"a","expires_in":3600}"#).unwrap().access.unwrap();
        assert!(token.is_usable(moment(3_539)) && !token.is_usable(moment(3_540)));
        assert!(of(r#"{"access_token":"a"}"#).unwrap().access.unwrap().is_usable(moment(1 << 40)));
    }

    #[test]
    fn r50_what_is_no_token_is_not_taken_for_one_and_a_new_refresh_token_is_never_lost() {
        for body in
            ["", "<html>", "[]", "{}", r#"{"access_token":7}"#, r#"{"access_token":""}"#, r#"{"access_token":"a b"}"#]
        {
            assert!(of(body).is_none(), "{body}");
        }
        for (body, what) in [
            (r#"{"access_token":"a","token_type":"mac","refresh_token":"r"}"#, "another type"),
            (r#"{"access_token":"","refresh_token":"r"}"#, "no access token"),
        ] {
            let granted = of(body).unwrap();
            assert_eq!(granted.refresh.unwrap().reveal(), "r");
            let fault = granted.access.unwrap_err();
            assert!(fault.class == FailureClass::Malformed && format!("{fault:?}").contains(what), "{fault:?}");
        }
        assert!(of(r#"{"access_token":"a","token_type":"Bearer"}"#).unwrap().access.is_ok());
    }

    #[test]
    fn r50_a_form_is_written_as_forms_are() {
        let login = Login {
            provider: "acme".into(),
            profile: "work".into(),
            token_url: "https://h/token".into(),
            client_id: "a client".into(),
            place: "/t".into(),
            proxy: None,
            limit: Duration::ZERO,
        };
        let expected = "grant_type=refresh_token&refresh_token=r%2F%2B%3D%26&client_id=a+client";
        assert_eq!(form(&login, &Secret::new("r/+=&")), expected);
    }

    #[test]
    fn h5_tokens_leave_this_machine_by_https_alone() {
        for address in
            ["https://h/token", "http://127.0.0.1:1/t", "http://[::1]:1/t", "http://localhost/t", "http://127.9.9.9/"]
        {
            assert!(may_hold_tokens(address), "{address}");
        }
        for address in
            ["http://h/t", "http://127.0.0.1.evil.dev/", "http://localhost.evil.dev", "ftp://localhost", "", "h/t"]
        {
            assert!(!may_hold_tokens(address), "{address}");
        }
    }
}
