//! Spans in the wire format of OpenTelemetry (OTLP over HTTP, protobuf; opentelemetry.io/docs/specs/otlp). The numbers of the fields
//! are those of opentelemetry/proto/trace/v1/trace.proto.

use engine::Timestamp;
use prost::{Message, Oneof};

/// What a span is to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Work of this program.
    Internal = 1,
    /// A request to another.
    Client = 3,
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) trace: [u8; 16],
    pub(super) id: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Its beginning and its end.
    pub(super) time: (Timestamp, Timestamp),
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// The class of what went wrong.
    pub(super) error: Option<String>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// The status of a span that went wrong.
const ERROR: i32 = 2;

/// The body of a request with these spans of a service.
pub(super) fn body(spans: Vec<Span>, version: &str) -> Vec<u8> {
    let text = |key: &str, value: &str| key_value(key, value.into());
    let resource = Resource { attributes: vec![text("service.name", "limulus"), text("service.version", version)] };
    let scope = Scope { name: "limulus".to_owned(), version: version.to_owned() };
    let spans = spans.into_iter().map(Into::into).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    Export { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] }.encode_to_vec()
}

impl From<Span> for SpanMessage {
    fn from(span: Span) -> Self {
        let Span { trace, id, parent, name, kind, time, attributes, error } = span;
        let nanos = |at: Timestamp| u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000);
        Self {
            trace_id: trace.to_vec(),
            span_id: id.to_vec(),
            parent_span_id: parent.map(|parent| parent.to_vec()).unwrap_or_default(),
            name,
            kind: kind as i32,
            start: nanos(time.0),
            end: nanos(time.1),
            attributes: attributes.into_iter().map(|(key, value)| key_value(key, value)).collect(),
            status: error.map(|message| Status { message, code: ERROR }),
        }
    }
}

fn key_value(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => AnyOf::Text(text),
        Value::Number(number) => AnyOf::Number(number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AnyOf", tags = "1, 3")]
    value: Option<AnyOf>,
}

#[derive(Clone, PartialEq, Oneof)]
enum AnyOf {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}
