//! The handshake: which version is spoken, what the client may do, and what it is shown first.

use protocol::limits::{BUFFERED_BYTES, FRAME_BYTES, TICK_MS};
use protocol::{PROTOCOL, Scope, Scopes};
use serde::Deserialize;
use serde_json::{Value, json};

use super::device::{Device, Signed};
use super::methods;
use super::server;
use super::trouble::{INVALID, Trouble, UNAVAILABLE};
use crate::http::App;
use crate::http::access::{Asked, Grant, Pairing};
use crate::http::gate::Caller;

/// The versions of its protocol, the newest first.
const VERSIONS: [u32; 2] = [4, 3];
/// Bytes of an attachment, and of one that is an image.
const ATTACHMENT_BYTES: usize = 20 << 20;
const IMAGE_BYTES: usize = 6 << 20;

/// The events that a client may receive.
const EVENTS: [&str; 14] = [
    "connect.challenge",
    "agent",
    "chat",
    "sessions.changed",
    "exec.approval.requested",
    "exec.approval.resolved",
    "plugin.approval.requested",
    "plugin.approval.resolved",
    "question.requested",
    "question.resolved",
    "events.line",
    "health",
    "tick",
    "shutdown",
];

/// Each scope with its name there.
const SCOPES: [(&str, Scope); 4] = [
    ("operator.read", Scope::Read),
    ("operator.write", Scope::Write),
    ("operator.approvals", Scope::Approve),
    ("operator.admin", Scope::Admin),
];

/// The parameters of `connect`. Those of nodes and others are of no use here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Hello {
    min_protocol: u32,
    max_protocol: u32,
    client: Program,
    #[serde(default)]
    caps: Vec<String>,
    role: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    device: Option<Device>,
    auth: Option<Credentials>,
}

/// The program at the other end.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Program {
    id: String,
    mode: String,
    platform: String,
    device_family: Option<String>,
    display_name: Option<String>,
}

/// What a client shows to be let in.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credentials {
    token: Option<String>,
    device_token: Option<String>,
}

impl Credentials {
    /// The token that counts: that of a user or a program, else that of the device.
    fn shown(&self) -> Option<&str> {
        let is_there = |token: &Option<String>| token.as_ref().is_some_and(|token| !token.is_empty());
        [&self.token, &self.device_token].into_iter().find(|token| is_there(token))?.as_deref()
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

/// A client that is let in.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) protocol: u32,
    /// Who it is, with the scopes that it asked for.
    pub(super) grant: Grant,
    role: String,
    /// The token that its device can use from now on.
    device_token: Option<String>,
    /// Whether it shows calls of tools.
    pub(super) shows_tools: bool,
    /// Whether it takes every approval request as one of a plugin: it knows no others.
    pub(super) takes_plugin_approvals: bool,
}

/// The name of a scope there.
pub(super) fn scope_name(scope: Scope) -> &'static str {
    SCOPES.iter().find(|(_, of)| *of == scope).map_or("operator.admin", |(name, _)| name)
}

/// Whether the parameters of `connect` are of a client of OpenClaw and not of our own.
pub(in crate::http) fn is_of_openclaw(params: &Value) -> bool {
    let version = |name: &str| params[name].as_u64().unwrap_or_default();
    let (from, to) = (version("minProtocol"), version("maxProtocol"));
    to >= 3 && !(from..=to).contains(&u64::from(PROTOCOL))
}

impl Hello {
    /// Lets the client in, or says why not.
    pub(super) async fn admit(
        self,
        (app, caller): (&App, &Caller),
        (challenge, now): (&str, i64),
    ) -> Result<Admitted, Trouble> {
        let token = self.auth.as_ref().and_then(Credentials::shown);
        let grant = caller.grant.clone().map_or_else(|| app.gate.check(&caller.peer, token), Ok);
        let grant = grant.map_err(|problem| {
            let code = if token.is_some() { "AUTH_TOKEN_MISMATCH" } else { "AUTH_TOKEN_MISSING" };
            let step = json!({ "code": code, "recommendedNextStep": "update_auth_credentials" });
            Trouble::from(problem).with_details(step)
        })?;
        let spoken = VERSIONS.into_iter().find(|version| (self.min_protocol..=self.max_protocol).contains(version));
        let protocol = spoken.ok_or_else(|| {
            let (from, to) = (self.min_protocol, self.max_protocol);
            let details = json!({ "code": "PROTOCOL_MISMATCH", "expectedProtocol": VERSIONS[0] });
            let message = format!("protocol mismatch: 3 and 4 are spoken here, not {from} to {to}");
            Trouble::new(INVALID, message).with_details(details)
        })?;
        let role = self.role.as_deref().unwrap_or("operator");
        if role != "operator" {
            return Err(Trouble::invalid("invalid role: limulus has no nodes, only operators connect"));
        }
        let known = |name: &String| SCOPES.iter().find(|(known, _)| known == name).map(|(_, scope)| *scope);
        let grant = grant.within(self.scopes.iter().filter_map(known).collect());
        if let Some(device) = &self.device {
            let signed = Signed {
                client: &self.client.id,
                mode: &self.client.mode,
                role,
                scopes: &self.scopes,
                token: token.unwrap_or_default(),
                platform: &self.client.platform,
                family: self.client.device_family.as_deref().unwrap_or_default(),
            };
            device.check(signed, (challenge, now))?;
        }
        let device_token = self.pair((app, caller), &grant, now).await?;
        // What is revoked of the device closes this connection, whatever token it has shown.
        let grant = if device_token.is_some() {
            self.device.iter().fold(grant, |grant, device| grant.of_device(&device.id))
        } else {
            grant
        };
        let has = |cap: &str| self.caps.iter().any(|known| known == cap);
        Ok(Admitted {
            protocol,
            grant,
            role: role.to_owned(),
            device_token,
            shows_tools: has("tool-events"),
            takes_plugin_approvals: has("plugin-approvals"),
        })
    }

    /// The token of the device, if the client has one and it may do what it asks for.
    async fn pair(&self, (app, caller): (&App, &Caller), grant: &Grant, now: i64) -> Result<Option<String>, Trouble> {
        let Some(device) = &self.device else {
            return match grant.device() {
                None => Ok(None),
                Some(_) => Err(not_paired("device identity required", json!({ "code": "DEVICE_IDENTITY_REQUIRED" }))),
            };
        };
        if grant.device().is_some_and(|id| id != device.id) {
            let details = json!({ "code": "AUTH_DEVICE_TOKEN_MISMATCH" });
            return Err(Trouble::new(INVALID, "device token mismatch").with_details(details));
        }
        let known = |name: &String| SCOPES.iter().find(|(known, _)| known == name).map(|(_, scope)| *scope);
        // A device asks for what it wants, of which the token that it has shown may have only a part.
        let wanted =
            if grant.device().is_some() { self.scopes.iter().filter_map(known).collect() } else { grant.scopes };
        if wanted == Scopes::default() {
            return Ok(None);
        }
        let asked = Asked {
            id: device.id.clone(),
            name: self.client.display_name.clone().unwrap_or_else(|| self.client.id.clone()),
            platform: self.client.platform.clone(),
            scopes: wanted,
            by: grant.hash().map(str::to_owned),
            now,
        };
        let pairing = app.gate.pair(asked, &caller.peer, grant.device().is_some()).await;
        match pairing.map_err(|error| Trouble::new(UNAVAILABLE, format!("{error}; {}", error.hint())))? {
            Pairing::Approved { token } => Ok(Some(token)),
            Pairing::Asking { request, is_known } => {
                let reason = if is_known { "scope-upgrade" } else { "not-paired" };
                let message = format!(
                    "pairing required: the user of the home approves this device with `limulus gateway devices approve {request}` (requestId: {request})"
                );
                let details = json!({ "code": "PAIRING_REQUIRED", "reason": reason, "requestId": request });
                Err(not_paired(message, details))
            }
            Pairing::Full => {
                let message = "pairing required, and too many devices ask: `limulus gateway devices list` shows them";
                Err(not_paired(message, json!({ "code": "PAIRING_REQUIRED", "reason": "not-paired" })))
            }
        }
    }
}

fn not_paired(message: impl Into<String>, details: Value) -> Trouble {
    Trouble::new("NOT_PAIRED", message).with_details(details)
}

/// What a client is shown first: what there is, what it may do, and the limits of the connection.
pub(super) fn hello(app: &App, of: &Admitted, connection: &str) -> Value {
    let scopes: Vec<_> = of.grant.scopes.iter().map(scope_name).collect();
    let mut auth = json!({ "method": "token", "role": of.role, "scopes": scopes });
    if let Some(token) = &of.device_token {
        auth["deviceToken"] = token.as_str().into();
        auth["issuedAtMs"] = app.service.runtime.clock().now().0.into();
    }
    let methods: Vec<_> = methods::names().collect();
    json!({
        "type": "hello-ok",
        "protocol": of.protocol,
        "server": { "version": app.service.version, "connId": connection },
        "features": { "methods": methods, "events": EVENTS, "capabilities": [] },
        "snapshot": {
            "presence": [],
            "health": server::health(app),
            "stateVersion": { "presence": 0, "health": 0 },
            "uptimeMs": app.service.uptime_ms(),
            "sessionDefaults": server::session_defaults(),
            "authMode": "token",
        },
        "auth": auth,
        "policy": {
            "maxPayload": FRAME_BYTES,
            "maxBufferedBytes": BUFFERED_BYTES,
            "tickIntervalMs": TICK_MS,
            "attachments": { "maxBytes": ATTACHMENT_BYTES, "maxImageBytes": IMAGE_BYTES },
        },
    })
}
