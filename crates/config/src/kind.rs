//! The kinds of values: how each is checked, read from a variable and shown in a message.

use std::net::SocketAddr;

use engine::policy::Principal;
use toml::Value;

use super::concealed::{self, HIDDEN};
use super::endpoints::KeySource;

/// The values that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text that is not empty.
    Text,
    /// A key of a provider. Its value never appears in a message.
    Secret,
    /// `PROVIDER/MODEL`.
    Model,
    /// A list of `PROVIDER/MODEL`.
    Models,
    /// A list of names of variables; a `*` at the end stands for any end.
    Variables,
    /// A program with its arguments: a list of texts, of which the first is not empty.
    Command,
    /// A whole number in this range, both ends included.
    Number(i64, i64),
    /// A whole number in this range, both ends included, or `"off"`.
    Limit(i64, i64),
    /// A boolean.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of these words, possibly empty.
    Words(&'static [&'static str]),
    /// A pattern, or a list of some, of what a rule of the policy is about.
    Patterns(PatternOf),
    /// US dollars per million tokens, not negative.
    Dollars,
    /// US dollars, not negative, or `"off"`.
    MoneyLimit,
    /// An address that begins with `http://` or `https://`.
    Address,
    /// An address that may receive secrets: `https://`, or `http://` on this machine.
    SafeAddress,
    /// `IP:PORT` where a service listens, or `"off"`.
    Listen,
    /// The path of a file, absolute or below the home folder (`~/`).
    File,
    /// `file:PATH` of a secret that limulus replaces. Another value never appears in a message: it may be the secret.
    SecretFile,
}

/// What a pattern of a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternOf {
    /// The name of a tool, or of a class of tools.
    Tool,
    /// The words of a command.
    Command,
    /// A glob of files.
    Path,
    /// The name of a host.
    Host,
    /// The name of an agent.
    Agent,
    /// The name of a session.
    Session,
    /// The name of a skill.
    Skill,
    /// Who began a run.
    Principal,
    /// The path of a file or folder, absolute or below the home folder (`~/`).
    Place,
}

impl PatternOf {
    fn fits(self, text: &str) -> bool {
        let is_word = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        match self {
            Self::Tool => tools::tools_of(text).is_ok(),
            Self::Command => !text.trim().is_empty() && !text.contains(char::is_control),
            Self::Path => !text.trim().is_empty() && tools::is_glob(text),
            Self::Host => {
                let name = text.strip_prefix("*.").unwrap_or(text);
                // Without one it stands for these two.
                let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| ![0, 80, 443].contains(&port));
                let name = name.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(name, |(name, _)| name);
                text == "*" || is_word(name) && name.is_ascii() && !name.contains(['/', ':', '*', '@', '?'])
            }
            Self::Agent | Self::Session | Self::Skill => is_word(text),
            Self::Principal => Principal::ALL.iter().any(|principal| principal.name() == text),
            Self::Place => {
                let path = text.strip_prefix("~/").map_or(text.starts_with('/'), |rest| !rest.is_empty());
                path && !text.contains(char::is_control) && !text.split('/').any(|part| part == "..")
            }
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Tool => {
                "the name of a tool, such as \"exec\", or a list of them; `edit` and `exec` stand for all of their class"
            }
            Self::Command => "the words of a command, such as \"git diff *\", or a list of such",
            Self::Path => "a glob of files, such as \"src/**\", or a list of them",
            Self::Host => {
                "the name of a host in ASCII (xn--…), such as \"example.org\", \"*.example.org\" or \"example.org:22\", or a list of them"
            }
            Self::Agent => "the name of an agent, or a list of them",
            Self::Session => "the name of a session, such as \"main\" or \"review-*\", or a list of them",
            Self::Skill => "the name of a skill, or a list of them, possibly empty",
            Self::Principal => "local (the user began the run) or agent (an agent did), or a list of them",
            Self::Place => "an absolute path, or one that begins with ~/, or a list of them",
        }
    }
}

/// Upper bound of a price, far above any real one, so that calculations cannot overflow.
pub(super) const MOST_DOLLARS: f64 = 100_000.0;

/// The value that switches a limit off.
pub(super) const OFF: &str = "off";

impl Kind {
    /// Whether a value is of this kind.
    pub(super) fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text, Value::String(text)) => !text.trim().is_empty() && !concealed::has_key(text),
            (Self::Secret, Value::String(text)) => !text.trim().is_empty() && KeySource::of(text).is_plausible(),
            (Self::Model, Value::String(text)) => is_model(text) && !concealed::has_key(text),
            (Self::Models, Value::Array(values)) => values.iter().all(|value| Self::Model.fits(value)),
            (Self::Variables, Value::Array(values)) => {
                values.iter().all(|value| value.as_str().is_some_and(is_variable))
            }
            (Self::Command, Value::Array(values)) => {
                let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.contains('\0'));
                let is_program = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
                values.iter().all(is_text) && values.first().is_some_and(is_program)
            }
            (Self::Number(least, most) | Self::Limit(least, most), Value::Integer(number)) => {
                (least..=most).contains(number)
            }
            (Self::Limit(..) | Self::MoneyLimit, Value::String(text)) => text == OFF,
            (Self::Flag, Value::Boolean(_)) => true,
            (Self::Word(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::Words(words), Value::Array(values)) => values.iter().all(|value| Self::Word(words).fits(value)),
            (Self::Patterns(of), Value::String(text)) => of.fits(text) && !concealed::has_key(text),
            (Self::Patterns(of), Value::Array(values)) => {
                !values.is_empty() && values.iter().all(|value| value.is_str() && Self::Patterns(of).fits(value))
            }
            (Self::Dollars | Self::MoneyLimit, Value::Float(dollars)) => (0.0..=MOST_DOLLARS).contains(dollars),
            (Self::Dollars | Self::MoneyLimit, Value::Integer(dollars)) => (0..=MOST_DOLLARS as i64).contains(dollars),
            (Self::Address, Value::String(text)) => concealed::is_address(text),
            (Self::SafeAddress, Value::String(text)) => models::may_hold_tokens(text),
            (Self::File, Value::String(text)) => PatternOf::Place.fits(text),
            (Self::Listen, Value::String(text)) => text == OFF || text.parse::<SocketAddr>().is_ok(),
            (Self::SecretFile, Value::String(text)) => is_file(text),
            _ => false,
        }
    }

    /// Describes the values of this kind, for a message.
    pub(super) fn expected(self) -> String {
        match self {
            Self::Text => "text that is not empty and no key".to_owned(),
            Self::Secret => "env:NAME, file:PATH, cmd:COMMAND or the key itself, as text".to_owned(),
            Self::Model => "PROVIDER/MODEL, such as \"acme/some-model\"".to_owned(),
            Self::Models => "a list of PROVIDER/MODEL, such as [\"acme/some-model\"]".to_owned(),
            Self::Variables => "a list of names of variables, such as [\"EDITOR\", \"GIT_*\"]".to_owned(),
            Self::Command => "a program with its arguments, such as [\"notify-send\", \"limulus\"]".to_owned(),
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Limit(least, most) => format!("a whole number from {least} to {most}, or \"off\""),
            Self::Flag => "true or false".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Words(words) => format!("a list of {}", words.join(", ")),
            Self::Patterns(of) => of.expected().to_owned(),
            Self::Dollars => "US dollars per million tokens, such as 2.5".to_owned(),
            Self::MoneyLimit => "US dollars, such as 2.5, or \"off\"".to_owned(),
            Self::Address => "an address that begins with http:// or https://".to_owned(),
            Self::SafeAddress => "an address that begins with https://, or with http:// on this machine".to_owned(),
            Self::File => "an absolute path, or one that begins with ~/".to_owned(),
            Self::Listen => "IP:PORT, such as \"127.0.0.1:18789\", or \"off\"".to_owned(),
            Self::SecretFile => {
                "file:PATH, of a file that holds the refresh token and nothing else; new ones are written there"
                    .to_owned()
            }
        }
    }

    /// Parses the text of a variable. Text that does not parse stays text, so that the check reports it.
    pub(super) fn parse(self, text: &str) -> Value {
        let as_text = || Value::String(text.to_owned());
        match self {
            Self::Text
            | Self::Model
            | Self::Word(_)
            | Self::Address
            | Self::SafeAddress
            | Self::File
            | Self::Listen
            | Self::Secret
            | Self::SecretFile
            | Self::Patterns(_) => as_text(),
            Self::Number(..) | Self::Limit(..) => text.trim().parse().map_or_else(|_| as_text(), Value::Integer),
            Self::Flag => text.trim().parse().map_or_else(|_| as_text(), Value::Boolean),
            Self::Dollars | Self::MoneyLimit => text.trim().parse().map_or_else(|_| as_text(), Value::Float),
            Self::Models | Self::Variables | Self::Command | Self::Words(_) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Value::Array(parts.map(|part| Value::String(part.to_owned())).collect())
            }
        }
    }

    /// The value with secrets masked: a literal key, or a password or a key in an address.
    pub(super) fn masked(self, value: &Value) -> Value {
        match (self, value) {
            (Self::Secret | Self::SecretFile, Value::String(text)) => Value::String(KeySource::of(text).shown()),
            (Self::Secret | Self::SecretFile, _) => Value::String(HIDDEN.to_owned()),
            (Self::Address | Self::SafeAddress, Value::String(text)) => Value::String(concealed::address(text)),
            _ => value.clone(),
        }
    }

    /// The value as a message quotes it.
    pub(super) fn shown(self, value: &Value) -> String {
        // A message quotes no text in which a key may be, whatever its name is.
        let hidden = || "what it holds".to_owned();
        match (self, &self.masked(value)) {
            (Self::Secret | Self::SecretFile, _) => hidden(),
            (_, Value::Table(_)) => "a table".to_owned(),
            // A word of the list has no digit in it.
            (Self::Word(_) | Self::Words(_), value)
                if value.to_string().contains(|c: char| c.is_ascii_digit() && value.is_str()) =>
            {
                hidden()
            }
            (Self::Address | Self::SafeAddress, Value::String(text)) if !text.contains(['.', ':', '/']) => hidden(),
            (_, Value::String(text)) => concealed::quoted(text).unwrap_or_else(hidden),
            (_, Value::Array(_)) if concealed::may_have_key(&value.to_string()) => hidden(),
            (_, value) => value.to_string().chars().take(60).collect(),
        }
    }

    /// The value as a message quotes it where a table belongs.
    pub(super) fn shown_for_table(value: &Value) -> String {
        match value {
            Value::String(_) => "text".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            other => other.to_string(),
        }
    }
}

fn is_file(text: &str) -> bool {
    text.strip_prefix("file:").is_some_and(|path| !path.trim().is_empty())
}

/// Whether a text names variables: letters, digits and `_`, with a `*` at the end for any end.
fn is_variable(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_model(text: &str) -> bool {
    text.split_once('/').is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty())
        && !text.contains(char::is_whitespace)
}
