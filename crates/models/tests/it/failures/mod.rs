//! Real errors of servers and the resulting failures: each record of the tables beside this file is served from a real
//! socket in its wire format, requested through the public client, and compared.
//!
//! A record is a body, or events of a stream, from a public page, with the address of the page and the day on which it
//! was written (`dated = "looked at"`: the page has no date, so this is the day on which it was read). A value of
//! Python or JavaScript, or text within JSON, is converted to the original JSON, and ids of requests and accounts are
//! shortened. A message without its body is put into `{"error": {"message": …}}` (in `misread.toml` only). Nothing else
//! is changed, and nothing is invented.

mod transport;

use std::collections::{BTreeMap, BTreeSet};

use engine::{Failure, FailureClass};
use models::{Api, Model, ModelSet};
use serde::Deserialize;

use crate::support::{Reply, answer, read, request_of, serve, until_close};

const TABLES: [(&str, &str); 7] = [
    ("anthropic.toml", include_str!("anthropic.toml")),
    ("gemini.toml", include_str!("gemini.toml")),
    ("misread.toml", include_str!("misread.toml")),
    ("ollama.toml", include_str!("ollama.toml")),
    ("openai_chat.toml", include_str!("openai_chat.toml")),
    ("openai_responses.toml", include_str!("openai_responses.toml")),
    ("openrouter.toml", include_str!("openrouter.toml")),
];

/// The key of every request (`support`).
const KEY: &str = "canary-key-1234";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    format: String,
    failure: Vec<Record>,
}

/// One failure from a page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    source: String,
    date: String,
    #[serde(default)]
    dated: Option<String>,
    provider: String,
    /// None: the error is inside a stream.
    status: Option<u16>,
    #[serde(default)]
    headers: Vec<String>,
    body: Option<String>,
    /// Events of a stream as on the wire.
    event: Option<String>,
    class: FailureClass,
    code: Option<String>,
    retry_after_ms: Option<u64>,
    /// A part of the message for people.
    says: Option<String>,
}

impl Record {
    fn bytes(&self) -> Vec<u8> {
        if let Some(event) = &self.event {
            return until_close(event.as_bytes());
        }
        let body = self.body.as_deref().unwrap();
        let kind = if body.trim_start().starts_with('<') { "text/html" } else { "application/json" };
        let mut headers = format!("content-type: {kind}\r\nconnection: close\r\n");
        for header in &self.headers {
            headers += header;
            headers += "\r\n";
        }
        answer(self.status.unwrap(), &headers, body.as_bytes())
    }

    /// Describes the differences from the expected failure.
    fn differences(&self, failure: &Failure) -> Vec<String> {
        let mut wrong = vec![];
        let mut check = |what: &str, is: String, should: String| {
            if is != should {
                wrong.push(format!("{what} is {is}, not {should}"));
            }
        };
        check("class", format!("{:?}", failure.class), format!("{:?}", self.class));
        check("code", format!("{:?}", failure.code), format!("{:?}", self.code));
        check("wait", format!("{:?}", failure.retry_after_ms), format!("{:?}", self.retry_after_ms));
        if let Some(status) = self.status.filter(|status| *status != 200) {
            check("status", format!("{:?}", failure.status), format!("{:?}", Some(status)));
        }
        let message = &failure.message;
        let lines: Vec<_> = message.lines().collect();
        let is_readable = (1..=2).contains(&lines.len())
            && lines.iter().all(|line| !line.trim().is_empty() && line.chars().count() < 600)
            && !message.contains("{\"");
        check(
            "message",
            message.clone(),
            if is_readable { message.clone() } else { "a readable line or two".to_owned() },
        );
        if let Some(says) = self.says.as_ref().filter(|says| !message.contains(*says)) {
            wrong.push(format!("message does not say {says:?}: {message}"));
        }
        if format!("{failure:?}").contains(KEY) {
            wrong.push(format!("the key is in it: {failure:?}"));
        }
        wrong
    }
}

fn tables() -> impl Iterator<Item = (&'static str, Api, Record)> {
    TABLES.iter().flat_map(|(name, text)| {
        let table: Table = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let api = Api::from_name(&table.format).unwrap();
        table.failure.into_iter().map(move |record| (*name, api, record))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r51_every_failure_of_a_public_page_is_classified() {
    let mut wrong = vec![];
    for (table, api, record) in tables() {
        let bytes = record.bytes();
        let server = serve(move |_| Reply::Close(bytes.clone())).await;
        let answer = read(ModelSet::new().stream(request_of(api, &server.base_url))).await;
        assert_eq!(answer.text, "", "{}", record.source);
        let differences = record.differences(answer.failure());
        if !differences.is_empty() {
            wrong.push(format!("{table}: {} ({})\n  {}", record.source, record.provider, differences.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{} are misread:\n{}", wrong.len(), wrong.join("\n"));
}

/// The wire formats that a server speaks.
const FORMATS: [&str; 5] = ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r51_an_error_means_the_same_inside_the_stream_of_every_format() {
    let mut wrong = vec![];
    for (_, _, record) in tables().filter(|(table, ..)| *table == "misread.toml") {
        let body = record.body.clone().unwrap();
        for format in FORMATS {
            let frame = if format == "ollama" { format!("{body}\n") } else { format!("data: {body}\n\n") };
            let server = serve(move |_| Reply::Close(until_close(frame.as_bytes()))).await;
            let request = request_of(Api::from_name(format).unwrap(), &server.base_url);
            let answer = read(ModelSet::new().stream(request)).await;
            let (failure, expected) = (answer.failure(), (record.class, record.retry_after_ms));
            if (failure.class, failure.retry_after_ms) != expected {
                wrong.push(format!(
                    "{format}: {} is {:?}, not {:?}: {body}",
                    record.source, failure.class, record.class
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are misread:\n{}", wrong.len(), wrong.join("\n"));
}

/// The classes that a provider can cause, and the minimum number of records of each.
const CAUSED: [FailureClass; 11] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::AuthPermanent,
    FailureClass::Billing,
    FailureClass::Server,
    FailureClass::Malformed,
    FailureClass::ContextOverflow,
    FailureClass::ThinkingUnsupported,
    FailureClass::ModelNotFound,
    FailureClass::InvalidRequest,
];

#[test]
fn r51_the_table_is_real_and_wide() {
    let mut bodies = BTreeSet::new();
    let (mut by_table, mut by_class, mut in_streams) = (BTreeMap::new(), BTreeMap::new(), 0);
    for (table, _, record) in tables() {
        assert!(record.source.starts_with("https://"), "{}", record.source);
        let is_day = record.date.len() == 10
            && record
                .date
                .bytes()
                .enumerate()
                .all(|(at, b)| if [4, 7].contains(&at) { b == b'-' } else { b.is_ascii_digit() });
        assert!(is_day, "{}: {}", record.source, record.date);
        assert!(record.dated.as_deref().is_none_or(|dated| dated == "looked at"), "{}", record.source);
        assert_eq!(record.body.is_some(), record.status.is_some(), "{}: a body has a status", record.source);
        assert_ne!(record.body.is_some(), record.event.is_some(), "{}: a body or events", record.source);
        in_streams += usize::from(record.event.is_some());
        let body = record.body.or(record.event).unwrap();
        assert!(bodies.insert((table, record.status, body)), "{}: it is there twice", record.source);
        *by_table.entry(table).or_insert(0) += 1;
        *by_class.entry(record.class).or_insert(0) += 1;
    }
    assert!(bodies.len() >= 120, "{} bodies", bodies.len());
    assert!(in_streams >= 10, "{in_streams} in streams");
    for (table, _) in TABLES {
        assert!(by_table[table] >= 8, "{table} has {}", by_table[table]);
    }
    for class in CAUSED {
        let count = by_class.get(&class).copied().unwrap_or_default();
        assert!(count >= 3, "{class:?} is shown {count} times");
    }
}

#[test]
fn r51_every_class_is_documented() {
    let page = include_str!("../../../../../docs/failures.md");
    for engine::tables::failover::Rule { class, .. } in engine::tables::failover::RULES {
        let name = serde_json::to_value(class).unwrap();
        let row = format!("\n| `{}` | ", name.as_str().unwrap());
        assert!(page.contains(&row), "docs/failures.md has no row{row}");
    }
}
