//! Every key of the configuration and what it may hold: one table. What may not live here: what a key means.

use toml::Value;

use super::endpoints::KeySource;

/// What a key may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text that is not empty.
    Text,
    /// A key of a provider. Its value never reaches a message.
    Secret,
    /// `PROVIDER/MODEL`.
    Model,
    /// Several of these.
    Models,
    /// A whole number in this range, both ends included.
    Number(i64, i64),
    /// True or false.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Several of them, or none.
    Words(&'static [&'static str]),
    /// US dollars for a million tokens, not less than nothing.
    Dollars,
    /// US dollars, not less than nothing.
    Money,
    /// An address that begins with `http://` or `https://`.
    Address,
    /// One that secrets may be sent to: `https://`, or `http://` on this machine.
    SafeAddress,
    /// `file:PATH` of a secret that is written anew. A value that is something else never reaches a message.
    SecretFile,
}

/// A year: nothing that a person waits for is longer.
const YEAR_S: i64 = 366 * 24 * 3600;
/// More than any model has by far; it bounds what is calculated with it.
const TOKENS: i64 = 1_000_000_000;
/// More of anything than is counted in a lifetime; it bounds what is calculated with it.
const AMOUNT: i64 = 1_000_000_000_000;
/// More than any token costs by far; it bounds what is calculated with it.
pub(super) const MOST_DOLLARS: f64 = 100_000.0;
const POLICIES: Kind = Kind::Word(&["allow", "ask", "deny"]);
const LEVELS: &[&str] = &["off", "minimal", "low", "medium", "high", "xhigh"];
const THINKING: Kind = Kind::Word(LEVELS);
const MODES: Kind = Kind::Word(&["steer", "followup", "collect", "steer_backlog", "interrupt"]);

/// Every key. `*` stands for a name, or for the number of an entry of a list.
pub(super) const KEYS: &[(&[&str], Kind)] = &[
    (&["agents", "*", "model"], Kind::Model),
    (&["agents", "*", "fallbacks"], Kind::Models),
    (&["agents", "*", "workspace"], Kind::Text),
    (&["agents", "*", "thinking"], THINKING),
    (&["agents", "*", "queue"], MODES),
    (&["runs", "deadline_s"], Kind::Number(1, YEAR_S)),
    (&["runs", "poison_after"], Kind::Number(0, 1_000_000)),
    (&["runs", "repeats_told"], Kind::Number(0, 1_000_000)),
    (&["runs", "repeats_most"], Kind::Number(0, 1_000_000)),
    (&["runs", "resume"], Kind::Word(&["restart", "continue"])),
    (&["requests", "first_byte_s"], Kind::Number(1, YEAR_S)),
    (&["requests", "silent_s"], Kind::Number(1, YEAR_S)),
    (&["requests", "retries"], Kind::Number(0, 1_000)),
    (&["requests", "max_wait_s"], Kind::Number(0, YEAR_S)),
    (&["tools", "call_s"], Kind::Number(1, YEAR_S)),
    (&["tools", "exec", "policy"], POLICIES),
    (&["tools", "outside", "policy"], POLICIES),
    (&["tools", "web_fetch", "policy"], POLICIES),
    (&["tools", "web_fetch", "allow_private"], Kind::Flag),
    (&["compaction", "auto"], Kind::Flag),
    (&["compaction", "model"], Kind::Model),
    (&["compaction", "reserve"], Kind::Number(0, TOKENS)),
    (&["compaction", "keep"], Kind::Number(1, TOKENS)),
    (&["compaction", "memory_flush"], Kind::Flag),
    (&["compaction", "memory_flush_soft"], Kind::Number(0, TOKENS)),
    (&["compaction", "limit_s"], Kind::Number(1, YEAR_S)),
    (&["budget", "at_limit"], Kind::Word(&["wait", "end"])),
    (&["budget", "wrap_up_percent"], Kind::Number(0, 100)),
    (&["budget", "run", "tokens"], Kind::Number(1, AMOUNT)),
    (&["budget", "run", "cost"], Kind::Money),
    (&["budget", "run", "calls"], Kind::Number(1, AMOUNT)),
    (&["budget", "run", "wall_s"], Kind::Number(1, YEAR_S)),
    (&["budget", "run", "bytes"], Kind::Number(1, AMOUNT)),
    (&["budget", "session", "tokens"], Kind::Number(1, AMOUNT)),
    (&["budget", "session", "cost"], Kind::Money),
    (&["budget", "session", "calls"], Kind::Number(1, AMOUNT)),
    (&["budget", "session", "wall_s"], Kind::Number(1, YEAR_S)),
    (&["budget", "session", "bytes"], Kind::Number(1, AMOUNT)),
    (&["budget", "agent", "concurrent_runs"], Kind::Number(1, 10_000)),
    (&["budget", "agent", "tokens"], Kind::Number(1, AMOUNT)),
    (&["budget", "agent", "cost"], Kind::Money),
    (&["budget", "agent", "calls"], Kind::Number(1, AMOUNT)),
    (&["budget", "agent", "wall_s"], Kind::Number(1, YEAR_S)),
    (&["budget", "day", "tokens"], Kind::Number(1, AMOUNT)),
    (&["budget", "day", "cost"], Kind::Money),
    (&["budget", "day", "calls"], Kind::Number(1, AMOUNT)),
    (&["budget", "day", "wall_s"], Kind::Number(1, YEAR_S)),
    (&["budget", "process", "memory_mb"], Kind::Number(1, AMOUNT / 1_000_000)),
    (&["session", "idle_timeout_s"], Kind::Number(0, YEAR_S)),
    (&["session", "reset", "mode"], Kind::Word(&["none", "daily", "idle"])),
    (&["session", "reset", "at_hour"], Kind::Number(0, 23)),
    (&["session", "reset", "idle_minutes"], Kind::Number(1, YEAR_S / 60)),
    (&["retention", "keep_days"], Kind::Number(0, 100_000)),
    (&["retention", "journal_mb"], Kind::Number(1, AMOUNT / 1_000_000)),
    (&["queue", "mode"], MODES),
    (&["queue", "debounce_ms"], Kind::Number(0, 1_000 * YEAR_S)),
    (&["queue", "cap"], Kind::Number(1, 10_000)),
    (&["queue", "drop"], Kind::Word(&["old", "new", "summarize"])),
    (&["queue", "cut"], Kind::Flag),
    (&["queue", "interrupt"], Kind::Word(&["replace", "suspend"])),
    (&["queue", "mark"], Kind::Text),
    (&["lanes", "main"], Kind::Number(1, 10_000)),
    (&["lanes", "subagent"], Kind::Number(1, 10_000)),
    (&["lanes", "cron"], Kind::Number(1, 10_000)),
    (&["serve", "drain_s"], Kind::Number(0, 3_600)),
    (&["providers", "*", "api"], Kind::Word(&["anthropic", "openai-chat", "openai-responses", "gemini", "ollama"])),
    (&["providers", "*", "base_url"], Kind::Address),
    (&["providers", "*", "proxy"], Kind::Address),
    (&["providers", "*", "headers", "*"], Kind::Secret),
    (&["providers", "*", "profiles", "*", "name"], Kind::Text),
    (&["providers", "*", "profiles", "*", "kind"], Kind::Word(&["key", "oauth"])),
    (&["providers", "*", "profiles", "*", "key"], Kind::Secret),
    (&["providers", "*", "profiles", "*", "token_url"], Kind::SafeAddress),
    (&["providers", "*", "profiles", "*", "client_id"], Kind::Text),
    (&["providers", "*", "profiles", "*", "refresh"], Kind::SecretFile),
    (&["models", "*", "context_window"], Kind::Number(1_000, TOKENS)),
    (&["models", "*", "max_output"], Kind::Number(1, TOKENS)),
    (&["models", "*", "thinking"], THINKING),
    (&["models", "*", "thinking_levels"], Kind::Words(LEVELS)),
    (&["models", "*", "images"], Kind::Flag),
    (&["models", "*", "price", "input"], Kind::Dollars),
    (&["models", "*", "price", "cached"], Kind::Dollars),
    (&["models", "*", "price", "cache_written"], Kind::Dollars),
    (&["models", "*", "price", "output"], Kind::Dollars),
    (&["offline", "pace_ms"], Kind::Number(0, 60_000)),
];

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPath {
    /// A key.
    Key(Kind),
    /// Something with keys in it.
    Table,
    /// Nothing.
    Unknown,
}

/// What stands at this path.
pub(super) fn place(path: &[String]) -> KeyPath {
    let fits = |pattern: &[&str]| pattern.iter().zip(path).all(|(known, part)| *known == "*" || known == part);
    let mut under = KEYS.iter().filter(|(pattern, _)| pattern.len() >= path.len() && fits(pattern));
    match under.next() {
        Some((pattern, kind)) if pattern.len() == path.len() => KeyPath::Key(*kind),
        Some(_) => KeyPath::Table,
        None => KeyPath::Unknown,
    }
}

impl Kind {
    /// Whether the value is one of this kind.
    pub(super) fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text | Self::Secret, Value::String(text)) => !text.trim().is_empty(),
            (Self::Model, Value::String(text)) => is_model(text),
            (Self::Models, Value::Array(values)) => values.iter().all(|value| Self::Model.fits(value)),
            (Self::Number(least, most), Value::Integer(number)) => (least..=most).contains(number),
            (Self::Flag, Value::Boolean(_)) => true,
            (Self::Word(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::Words(words), Value::Array(values)) => values.iter().all(|value| Self::Word(words).fits(value)),
            (Self::Dollars | Self::Money, Value::Float(dollars)) => (0.0..=MOST_DOLLARS).contains(dollars),
            (Self::Dollars | Self::Money, Value::Integer(dollars)) => (0..=MOST_DOLLARS as i64).contains(dollars),
            (Self::Address, Value::String(text)) => text.starts_with("http://") || text.starts_with("https://"),
            (Self::SafeAddress, Value::String(text)) => models::may_hold_tokens(text),
            (Self::SecretFile, Value::String(text)) => is_file(text),
            _ => false,
        }
    }

    /// What it holds, for a message.
    pub(super) fn expected(self) -> String {
        match self {
            Self::Text => "text that is not empty".to_owned(),
            Self::Secret => "env:NAME, file:PATH or the key itself, as text".to_owned(),
            Self::Model => "PROVIDER/MODEL, such as \"acme/some-model\"".to_owned(),
            Self::Models => "a list of PROVIDER/MODEL, such as [\"acme/some-model\"]".to_owned(),
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Flag => "true or false".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Words(words) => format!("a list of {}", words.join(", ")),
            Self::Dollars => "US dollars per million tokens, such as 2.5".to_owned(),
            Self::Money => "US dollars, such as 2.5".to_owned(),
            Self::Address => "an address that begins with http:// or https://".to_owned(),
            Self::SafeAddress => "an address that begins with https://, or with http:// on this machine".to_owned(),
            Self::SecretFile => {
                "file:PATH, of a file that holds the refresh token and nothing else; new ones are written there"
                    .to_owned()
            }
        }
    }

    /// Reads the text of a variable. What does not read stays text, so that the check names it.
    pub(super) fn parse(self, text: &str) -> Value {
        let as_text = || Value::String(text.to_owned());
        match self {
            Self::Text
            | Self::Model
            | Self::Word(_)
            | Self::Address
            | Self::SafeAddress
            | Self::Secret
            | Self::SecretFile => as_text(),
            Self::Number(..) => text.trim().parse().map_or_else(|_| as_text(), Value::Integer),
            Self::Flag => text.trim().parse().map_or_else(|_| as_text(), Value::Boolean),
            Self::Dollars | Self::Money => text.trim().parse().map_or_else(|_| as_text(), Value::Float),
            Self::Models | Self::Words(_) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Value::Array(parts.map(|part| Value::String(part.to_owned())).collect())
            }
        }
    }

    /// The value without what nobody may see: a key that stands there itself, a password in an address.
    pub(super) fn masked(self, value: &Value) -> Value {
        match (self, value) {
            (Self::Secret, Value::String(text)) if KeySource::of(text).is_reference() => value.clone(),
            (Self::SecretFile, Value::String(text)) if is_file(text) => value.clone(),
            (Self::Secret | Self::SecretFile, _) => Value::String(MASK.to_owned()),
            (Self::Address | Self::SafeAddress, Value::String(text)) => Value::String(without_password(text)),
            _ => value.clone(),
        }
    }

    /// The value as a message quotes it.
    pub(super) fn shown(self, value: &Value) -> String {
        const MOST_CHARS: usize = 60;
        if matches!(self, Self::Secret | Self::SecretFile) {
            return "what it holds".to_owned();
        }
        let text = match &self.masked(value) {
            Value::Table(_) => return "a table".to_owned(),
            Value::String(text) => format!("{text:?}"),
            other => other.to_string(),
        };
        if text.chars().count() <= MOST_CHARS { text } else { text.chars().take(MOST_CHARS).chain(['…']).collect() }
    }
}

/// Stands where a secret is.
const MASK: &str = "…";

fn without_password(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    match host.rsplit_once('@') {
        Some((_, host)) if !scheme.is_empty() => format!("{scheme}://{MASK}@{host}{path}"),
        Some((_, host)) => format!("{MASK}@{host}{path}"),
        None => address.to_owned(),
    }
}

fn is_file(text: &str) -> bool {
    text.strip_prefix("file:").is_some_and(|path| !path.trim().is_empty())
}

fn is_model(text: &str) -> bool {
    text.split_once('/').is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty())
        && !text.contains(char::is_whitespace)
}
