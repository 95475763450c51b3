//! The three frames. On a stream of bytes each is one line of JSON; on a WebSocket each is one message.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorShape;

/// A frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type")]
pub enum Frame {
    /// Something asked for.
    #[serde(rename = "req")]
    Request(Request),
    /// What became of it. `agent` is answered twice: when it is accepted, and when its run has ended.
    #[serde(rename = "res")]
    Response(Response),
    /// Something that happened.
    #[serde(rename = "event")]
    Event(EventFrame),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Chosen by the client; its answers carry it.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub id: String,
    /// A name of the table of methods.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub method: String,
    /// What the method takes.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// The request's.
    pub id: String,
    /// Whether it was carried out.
    pub ok: bool,
    /// What the method gives, if it was.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorShape>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventFrame {
    /// What kind: `agent` for what happens in sessions.
    pub event: String,
    /// What happened.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// Its number on this subscription: 1, 2, 3 … within a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The subscription that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<u64>,
}

impl Response {
    /// It was carried out.
    pub fn ok(id: impl Into<String>, payload: Value) -> Self {
        Self { id: id.into(), ok: true, payload, error: None }
    }

    /// It was not.
    pub fn failed(id: impl Into<String>, error: ErrorShape) -> Self {
        Self { id: id.into(), ok: false, payload: Value::Null, error: Some(error) }
    }
}
