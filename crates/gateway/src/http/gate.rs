//! Who is let in: a request needs the token, names this service as its host, and comes from no other page. A page that a browser shows
//! can send requests to this machine, also under a name of its own that leads here, but it has no token and says where it is from.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use engine::policy::matches_host;
use futures_util::StreamExt as _;
use protocol::{Scope, Scopes};
use tokio::sync::watch;

use super::access::{Access, AccessError, Asked, Grant, Keyring, KeyringError, Pairing};
use super::peer::Peer;
use super::problem::Problem;
use super::webhooks::{self, Webhooks};
use super::{App, HttpOptions};

/// Requests without the right token from one address within [`WINDOW`], after which it has to wait for [`LOCKED`].
const FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_mins(1);
const LOCKED: Duration = Duration::from_mins(5);
/// How soon a token that is revoked closes what it has opened.
const REVOKING: Duration = Duration::from_secs(1);
/// Addresses that are counted.
const ADDRESSES: usize = 1_024;
/// What needs no token: whether the service is there.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];
/// Where a client may show its token later, in its first frame.
const WEBSOCKET: [&str; 2] = ["/", "/ws"];

/// Decides who is let in.
#[derive(Debug)]
pub(super) struct Gate {
    options: HttpOptions,
    keyring: Keyring,
    /// Changes when a token may have been revoked or may have expired.
    revoked: watch::Sender<()>,
    failures: Mutex<BTreeMap<IpAddr, Failures>>,
}

/// What came from an address without the right token.
#[derive(Debug, Clone, Copy)]
struct Failures {
    since: Instant,
    count: u32,
}

/// Who sends a request.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) peer: Arc<Peer>,
    /// Who it is by the token that it has shown; none if it has shown none, where none is needed.
    pub(super) grant: Option<Grant>,
}

impl Caller {
    /// What it may do.
    pub(super) fn scopes(&self) -> Scopes {
        self.grant.as_ref().map(|grant| grant.scopes).unwrap_or_default()
    }

    /// An error if it may not do this.
    pub(super) fn must(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes().allow(scope) {
            return Ok(());
        }
        let message = format!("this token may not do that: it needs the scope `{scope}`");
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", message))
    }
}

/// Lets a request in, or answers it, and counts the answer.
pub(super) async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = admitted(&app, request, next).await;
    let (route, status) = (route.as_ref().map_or("none", MatchedPath::as_str), response.status().as_u16());
    app.service.telemetry().metrics().http(route, status);
    let duration_ms = began.elapsed().as_millis() as u64;
    if response.status() == StatusCode::UNAUTHORIZED {
        tracing::warn!(target: "limulus::http", %method, route, status, "a request without the right token");
    } else {
        tracing::debug!(target: "limulus::http", %method, route, status, duration_ms, "answered");
    }
    response
}

async fn admitted(app: &Arc<App>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let connection = peer.clone();
    let path = request.uri().path();
    // A webhook has a secret of its own.
    let is_open = OPEN.contains(&path) || path.starts_with(webhooks::PATH);
    let is_websocket = WEBSOCKET.contains(&path);
    let admitted = app.gate.knows(request.headers()).and_then(|()| {
        let peer =
            peer.ok_or_else(|| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bug", "the client has no address"))?;
        let given = bearer(request.headers());
        let grant = match given {
            _ if is_open => None,
            None if is_websocket => None,
            given => Some(app.gate.check(&peer, given)?),
        };
        // Its client has to show in its first frame that it is that device.
        if !is_websocket && grant.as_ref().is_some_and(|grant| grant.device().is_some()) {
            let message = "the token of a device opens a WebSocket of that device alone";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message));
        }
        Ok(Caller { peer, grant })
    });
    match admitted {
        Ok(caller) => {
            let grant = caller.grant.clone().filter(|_| !is_websocket);
            request.extensions_mut().insert(caller);
            match grant {
                Some(grant) => until_revoked(app, grant, next.run(request)).await,
                None => next.run(request).await,
            }
        }
        Err(problem) => refused(problem, connection.as_deref()),
    }
}

/// A refusal. Who has no right token has no place that it keeps from others.
fn refused(problem: Problem, peer: Option<&Peer>) -> Response {
    let is_unknown = problem.status == StatusCode::UNAUTHORIZED;
    let mut response = problem.into_response();
    if is_unknown {
        if let Some(peer) = peer {
            peer.place.distrust();
        }
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The response to a request, as long as its token opens something: what is still to come of it ends with that.
async fn until_revoked(app: &Arc<App>, grant: Grant, response: impl Future<Output = Response>) -> Response {
    let response = tokio::select! {
        response = response => response,
        () = app.gate.until_revoked(&grant) => {
            let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "this token opens nothing any more");
            return refused(problem, None);
        }
    };
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == b"text/event-stream");
    if !is_stream {
        return response;
    }
    let app = Arc::clone(app);
    response.map(|body| {
        let revoked = async move { app.gate.until_revoked(&grant).await };
        Body::from_stream(body.into_data_stream().take_until(revoked))
    })
}

/// The token in the head of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Gate {
    pub(super) fn new(options: HttpOptions) -> Self {
        let keyring = Keyring::new(options.home.clone());
        Self { options, keyring, revoked: watch::Sender::new(()), failures: Mutex::default() }
    }

    /// Whether a request is meant for this service and comes from no page of another one.
    fn knows(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(Ok(host)), None) = (hosts.next().map(|host| host.to_str()), hosts.next()) else {
            return Err(Problem::invalid("a request has one `Host`"));
        };
        if !self.is_own_host(host) {
            let message = format!("this service is not called `{}`", host.escape_default());
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message)
                .with_hint("use its address, or name the host in `gateway.hosts`"));
        }
        let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
        let is_own = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"))
            .is_some_and(|(scheme, from)| ["http", "https"].contains(&scheme) && from.eq_ignore_ascii_case(host));
        if is_own {
            return Ok(());
        }
        let message = "a page of another origin may not use this service";
        Err(Problem::new(StatusCode::FORBIDDEN, "wrong_origin", message))
    }

    /// An address, which no name server decides about, or a name that this service has.
    fn is_own_host(&self, host: &str) -> bool {
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let name = match host.rsplit_once(':') {
            Some((name, port)) if is_port(port) && (!name.contains(':') || name.ends_with(']')) => name,
            _ => host,
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_named =
            |known: &String| [host, name].iter().any(|host| !host.ends_with('.') && matches_host(known, host));
        let known = || self.options.hosts.iter().any(is_named);
        bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || known()
    }

    /// Who a client is by its token. Each address has a few tries; this machine has all that it wants, or any program on it could
    /// lock its user out.
    pub(super) fn check(&self, peer: &Peer, given: Option<&str>) -> Result<Grant, Problem> {
        let grant = self.check_from(peer.ip(), given)?;
        peer.place.trust();
        Ok(grant)
    }

    fn check_from(&self, address: IpAddr, given: Option<&str>) -> Result<Grant, Problem> {
        self.may_try(address)?;
        let found = given.map_or(Ok(None), |given| self.keyring.holder(given, now_ms()));
        let found = found.map_err(|error| {
            let hint = error.hint();
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "no_token", error.to_string()).with_hint(hint)
        })?;
        if let Some(grant) = found {
            return Ok(grant);
        }
        self.failed(address);
        let message = if given.is_some() { "this is not the token" } else { "a request needs the token" };
        Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .with_hint("`limulus gateway token` prints it; send it as `Authorization: Bearer TOKEN`"))
    }

    /// Waits until what was granted does not hold any more.
    pub(super) async fn until_revoked(&self, grant: &Grant) {
        let mut revoked = self.revoked.subscribe();
        while self.keyring.holds(grant, now_ms()) {
            // The sender lives as long as this gate.
            let _ = revoked.changed().await;
        }
    }

    /// Has those looked at who were let in, each time that a token may have been revoked or has expired.
    pub(super) async fn watch(&self) {
        let mut before = (self.keyring.stamps(), now_ms());
        loop {
            tokio::time::sleep(REVOKING).await;
            let now = (self.keyring.stamps(), now_ms());
            if before.0 != now.0 || self.keyring.has_expired(before.1, now.1) {
                self.revoked.send_replace(());
            }
            before = now;
        }
    }

    /// What becomes of a device whose client has shown a token. `is_own`: it is the token of the device, which shows that it is known,
    /// not that its user is here.
    pub(super) async fn pair(&self, asked: Asked, peer: &Arc<Peer>, is_own: bool) -> Result<Pairing, AccessError> {
        let may_be_here = peer.ip().is_loopback() && !self.options.is_behind_proxy && !is_own;
        let (home, peer) = (self.options.home.clone(), Arc::clone(peer));
        let user = self.keyring.user().map_err(|error| match error {
            KeyringError::Access(error) => error,
            KeyringError::Token(error) => {
                AccessError::Io { act: "read", path: home.clone(), source: std::io::Error::other(error) }
            }
        })?;
        let pairing = tokio::task::spawn_blocking(move || {
            // Most are known: nothing is written for them.
            if let Some(known) = Access::read(&home)?.known(&asked, &user) {
                return Ok(known);
            }
            // What a command pairs would outlive the token that it has read.
            let is_here = may_be_here && !peer.is_in_call(&home);
            Access::change(&home, |access| access.pair(asked, is_here, &user))
        });
        pairing.await.unwrap_or_else(|error| {
            Err(AccessError::Io { act: "write", path: self.options.home.clone(), source: std::io::Error::other(error) })
        })
    }

    /// Whether this address has not shown too many wrong secrets.
    pub(super) fn may_try(&self, address: IpAddr) -> Result<(), Problem> {
        let Some(rest) = self.locked(address) else { return Ok(()) };
        let message = "too many requests without the right token came from this address";
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "locked", message);
        Err(Problem { retry_after_s: Some(rest.as_secs().max(1)), ..problem })
    }

    /// What other programs send.
    pub(super) fn webhooks(&self) -> &Webhooks {
        &self.options.webhooks
    }

    /// How long an address has to wait.
    fn locked(&self, address: IpAddr) -> Option<Duration> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let of = failures.get(&address).filter(|of| of.count >= FAILURES)?;
        LOCKED.checked_sub(of.since.elapsed()).filter(|rest| !rest.is_zero())
    }

    /// An address has shown no secret, or a wrong one. This machine has as many tries as it wants.
    pub(super) fn failed(&self, address: IpAddr) {
        if address.is_loopback() {
            return;
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|_, of| of.since.elapsed() < if of.count >= FAILURES { LOCKED } else { WINDOW });
        if failures.len() >= ADDRESSES {
            // A flood of addresses: the oldest is forgotten.
            let oldest = failures.iter().min_by_key(|(_, of)| of.since).map(|(address, _)| *address);
            oldest.map(|oldest| failures.remove(&oldest));
        }
        let of = failures.entry(address).or_insert(Failures { since: Instant::now(), count: 0 });
        of.count += 1;
        if of.count == FAILURES {
            of.since = Instant::now();
        }
    }
}

/// The time of this machine, milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::http::Token;

    fn gate(home: &std::path::Path) -> Gate {
        Gate::new(HttpOptions {
            home: home.to_owned(),
            hosts: ["box.example.org", "*.lan", "far:8443"].map(str::to_owned).into(),
            ..HttpOptions::default()
        })
    }

    /// R60: neither a page of another origin nor a name that leads here is let in.
    #[test]
    fn r60_only_its_own_host_and_origin_are_let_in() {
        let gate = gate(std::path::Path::new("/nowhere"));
        let knows = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            gate.knows(&headers).map_err(|problem| problem.code)
        };
        for host in [
            "a.lan:1",
            "A.LAN",
            "far:8443",
            "127.0.0.1:18789",
            "127.0.0.1",
            "localhost:1",
            "LOCALHOST",
            "[::1]:18789",
            "[::1]",
            "box.example.org",
        ] {
            assert_eq!(knows(host, None), Ok(()), "{host}");
        }
        for host in [
            "lan",
            "far",
            "far:1",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:18789",
            "",
            "box.example.org.",
        ] {
            assert_eq!(knows(host, None), Err("wrong_host"), "{host}");
        }
        let host = "localhost:18789";
        assert_eq!(knows(host, Some("http://localhost:18789")), Ok(()));
        for origin in
            ["http://localhost", "http://localhost:3000", "https://evil.example", "null", "file://", "localhost:18789"]
        {
            assert_eq!(knows(host, Some(origin)), Err("wrong_origin"), "{origin}");
        }
        assert_eq!(gate.knows(&HeaderMap::new()).map_err(|problem| problem.code), Err("invalid_request"));
        let twice = [(HOST, HeaderValue::from_static("localhost")), (HOST, HeaderValue::from_static("evil.example"))];
        let mut headers = HeaderMap::new();
        for (name, value) in twice {
            headers.append(name, value);
        }
        assert_eq!(gate.knows(&headers).map_err(|problem| problem.code), Err("invalid_request"));
    }

    /// R60: an address that guesses has to wait, with the right token too; others do not, nor does this machine.
    #[test]
    fn r60_an_address_that_guesses_has_to_wait() {
        let home = tempfile::tempdir().unwrap();
        let token = Token::open(home.path()).unwrap();
        let gate = gate(home.path());
        let far: IpAddr = "192.0.2.7".parse().unwrap();
        let check = |address: IpAddr, given: Option<&str>| {
            gate.check_from(address, given).map(|_| ()).map_err(|problem| problem.code)
        };
        for _ in 0..FAILURES {
            assert_eq!(check(far, Some("guess")), Err("unauthorized"));
        }
        assert_eq!(check(far, Some(token.expose())), Err("locked"));
        assert_eq!(check("192.0.2.8".parse().unwrap(), Some(token.expose())), Ok(()));
        let here: IpAddr = "127.0.0.1".parse().unwrap();
        for _ in 0..2 * FAILURES {
            assert_eq!(check(here, None), Err("unauthorized"));
        }
        assert_eq!(check(here, Some(token.expose())), Ok(()));
        for number in 0..2 * ADDRESSES as u32 {
            let _ = check(std::net::Ipv4Addr::from_bits(number + 0x0100_0000).into(), None);
        }
        assert!(gate.failures.lock().unwrap().len() <= ADDRESSES);
        std::fs::remove_file(home.path().join(super::super::TOKEN_FILE)).unwrap();
        assert_eq!(check(here, Some(token.expose())), Err("no_token"));
    }
}
