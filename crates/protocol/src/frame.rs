//! The three kinds of frame. On a byte stream each frame is one line of JSON; on a WebSocket each is one message.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorShape;

/// A frame: a request, a response or an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "type")]
pub enum Frame {
    /// A request of the client.
    #[serde(rename = "req")]
    Request(Request),
    /// A response to a request. `agent` has two: when the message is accepted, and when its run has ended.
    #[serde(rename = "res")]
    Response(Response),
    /// An event, which answers no request.
    #[serde(rename = "event")]
    Event(EventFrame),
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The id of the request, chosen by the client; its responses repeat it.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub id: String,
    /// The name of the method.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub method: String,
    /// The parameters of the method.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
}

/// A response to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// The id of the request.
    pub id: String,
    /// Whether the request succeeded.
    pub ok: bool,
    /// The result of the method, if it succeeded.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorShape>,
}

/// An event, with its number on its subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventFrame {
    /// The name of the event: `agent` for events in sessions.
    pub event: String,
    /// The data of the event.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// The number of the event on its subscription: 1, 2, 3 … within a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The subscription that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<u64>,
}

impl Response {
    /// The response to a request that succeeded.
    pub fn ok(id: impl Into<String>, payload: Value) -> Self {
        Self { id: id.into(), ok: true, payload, error: None }
    }

    /// The response to a request that failed.
    pub fn failed(id: impl Into<String>, error: ErrorShape) -> Self {
        Self { id: id.into(), ok: false, payload: Value::Null, error: Some(error) }
    }
}
