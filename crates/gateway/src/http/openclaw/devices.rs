//! The devices of a home, for its administrators.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::connect::scope_name;
use super::trouble::{Trouble, UNAVAILABLE};
use super::{INVALID, Operator};
use crate::http::access::{Access, AccessError, PairedDevice};

/// Those that are known, and those that ask.
pub(super) async fn list(operator: &Operator) -> Result<Value, Trouble> {
    let access = with_file(operator, Access::read).await?;
    let asking = access.devices.iter().filter_map(|device| {
        let request = device.request.as_ref()?;
        let scopes: Vec<_> = request.scopes.iter().copied().map(scope_name).collect();
        Some(json!({
            "requestId": request.id, "deviceId": device.id, "displayName": device.name, "platform": device.platform,
            "role": "operator", "roles": ["operator"], "scopes": scopes, "ts": request.at,
        }))
    });
    let known = access.devices.iter().filter(|device| device.approved_at.is_some()).map(shown);
    Ok(json!({ "pending": asking.collect::<Vec<_>>(), "paired": known.collect::<Vec<_>>() }))
}

/// Approves what a device asks for.
pub(super) async fn approve(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let (request, now) = (named(params, "requestId")?, operator.now());
    let device = change(operator, move |access| {
        let id = access.approve_device(&request, None, now)?;
        let device = access.devices.iter().find(|device| device.id == id);
        Ok(device.map(shown).unwrap_or_default())
    });
    Ok(json!({ "requestId": params["requestId"], "device": device.await? }))
}

/// Refuses what a device asks for, or revokes a device.
pub(super) async fn revoke(operator: &Operator, params: &Value, name: &str) -> Result<Value, Trouble> {
    let named = named(params, name)?;
    let id = change(operator, move |access| access.revoke_device(&named)).await?;
    Ok(json!({ "requestId": params["requestId"], "deviceId": id }))
}

fn shown(device: &PairedDevice) -> Value {
    let scopes: Vec<_> = device.scopes.iter().copied().map(scope_name).collect();
    json!({
        "deviceId": device.id, "displayName": device.name, "platform": device.platform, "role": "operator",
        "roles": ["operator"], "scopes": scopes, "approvedAtMs": device.approved_at,
    })
}

fn named(params: &Value, name: &str) -> Result<String, Trouble> {
    let given = params[name].as_str().filter(|given| !given.is_empty());
    given.map(str::to_owned).ok_or_else(|| Trouble::invalid(format!("invalid params: `{name}` is missing")))
}

/// Changes the file, for a client that is inside no call: who is approved there stays.
async fn change<T: Send + 'static>(
    operator: &Operator,
    change: impl FnOnce(&mut Access) -> Result<T, AccessError> + Send + 'static,
) -> Result<T, Trouble> {
    let peer = Arc::clone(&operator.peer);
    with_file(
        operator,
        move |home| if peer.is_in_call(home) { Ok(None) } else { Access::change(home, change).map(Some) },
    )
    .await?
    .ok_or_else(|| Trouble::new(UNAVAILABLE, "a process inside a tool call may not approve or revoke devices"))
}

/// Reads or changes the file, on a thread that may block.
async fn with_file<T: Send + 'static>(
    operator: &Operator,
    act: impl FnOnce(&Path) -> Result<T, AccessError> + Send + 'static,
) -> Result<T, Trouble> {
    let home = Arc::clone(operator.app.service.home());
    let done = tokio::task::spawn_blocking(move || act(&home)).await;
    let done = done.map_err(|error| Trouble::new(UNAVAILABLE, error.to_string()))?;
    done.map_err(|error| {
        let is_input = matches!(error, AccessError::Unknown { .. } | AccessError::Ambiguous { .. });
        Trouble::new(if is_input { INVALID } else { UNAVAILABLE }, error.to_string())
    })
}
