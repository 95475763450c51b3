//! The types with which settings are declared, and lookups over all of them. The declarations are in `declared`; the
//! built-in defaults, the initial file, the JSON Schema, the page of the documentation, the check for unknown keys and
//! the types that the program reads are all generated from them.

use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use super::declared::SECTIONS;
use super::kind::Kind;

/// The declaration of a table of the file.
#[derive(Debug)]
pub(super) struct Section {
    /// `*` stands for a name, or for the number of an entry of a list.
    pub(super) path: &'static [&'static str],
    /// What it is about; empty if its settings say it.
    pub(super) about: &'static str,
    /// In the order of the documentation.
    pub(super) settings: &'static [Setting],
}

/// The declaration of a setting.
#[derive(Debug)]
pub(super) struct Setting {
    /// With `*` as in a [`Section`].
    pub(super) path: &'static [&'static str],
    /// The values that it takes, with bounds.
    pub(super) kind: Kind,
    pub(super) value: Preset,
    /// Its purpose, for the user.
    pub(super) doc: &'static str,
    /// When a change of the file takes effect.
    pub(super) counts: Counts,
}

/// The default of a setting, or an example of its value, as TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    Default(&'static str),
    /// An example; the setting has no default.
    Example(&'static str),
}

/// When a change of the file takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// With the next run: its settings are resolved when it starts, and stored in the journal.
    Run,
    Message,
    Request,
    Call,
    /// Within an hour: a service checks the file periodically.
    Check,
    /// With the next process.
    Start,
}

impl Counts {
    /// The event with which a change takes effect, for the documentation.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Message => "message",
            Self::Request => "request",
            Self::Call => "call",
            Self::Check => "check",
            Self::Start => "start",
        }
    }
}

/// Declares one section: the type that the program reads and the rows from which everything else is generated.
///
/// `name: Type = DEFAULT, KIND, "doc";`, or `name: Type => EXAMPLE, …` if there is no default; `from Counts` before the
/// doc if a change takes effect at another moment than for its section. `name.*` takes any name.
macro_rules! section {
    (
        $(#[$on:meta])*
        $Section:ident $path:tt $about:literal from $counts:ident {
            $(
                $(#[$attribute:meta])*
                $field:ident $(. $any:tt)?: $type:ty $(= $default:tt)? $(=> $example:tt)?,
                $kind:expr, $(from $own:ident,)? $doc:literal;
            )*
        }
        $(tables { $($(#[$inner:meta])* $table:ident: $Table:ty,)* })?
    ) => {
        #[doc = concat!("`", stringify!($path), "`. ", $about)]
        #[derive(Debug, Clone, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $(#[$on])*
        pub(super) struct $Section {
            $(
                #[doc = $doc]
                $(#[$attribute])*
                pub(super) $field: $type,
            )*
            $($($(#[$inner])* pub(super) $table: $Table,)*)?
        }

        impl $Section {
            pub(super) const SECTION: $crate::settings::Section = $crate::settings::Section {
                path: &$path,
                about: $about,
                settings: &[$($crate::settings::Setting {
                    path: $crate::settings::key_path!($path $field $($any)?),
                    kind: $kind,
                    value: $($crate::settings::Preset::Default(stringify!($default)))?
                        $($crate::settings::Preset::Example(stringify!($example)))?,
                    doc: $doc,
                    counts: [
                        $($crate::settings::Counts::$own,)?
                        $crate::settings::Counts::$counts,
                    ][0],
                },)*],
            };
        }
    };
}

macro_rules! key_path {
    ([$($part:literal),*] $field:ident) => { &[$($part,)* stringify!($field)] };
    ([$($part:literal),*] $field:ident $any:tt) => { &[$($part,)* stringify!($field), stringify!($any)] };
}

pub(super) use {key_path, section};

/// All settings, in the order of the documentation.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// The kind of thing that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Key(Kind),
    Table,
    Unknown,
}

/// Looks up a path. `*` of a declaration matches any name.
pub(super) fn at(path: &[String]) -> Entry {
    match under(path).next() {
        Some(setting) if setting.path.len() == path.len() => Entry::Key(setting.kind),
        Some(_) => Entry::Table,
        None => Entry::Unknown,
    }
}

/// The settings at or under a path, in the order of the documentation.
pub(super) fn under(path: &[String]) -> impl Iterator<Item = &'static Setting> {
    let fits = move |pattern: &[&str]| pattern.iter().zip(path).all(|(known, part)| *known == "*" || known == part);
    all().filter(move |setting| setting.path.len() >= path.len() && fits(setting.path))
}

/// The path with an example of a name for each `*`.
pub(super) fn example(pattern: &[&str]) -> Vec<String> {
    let name = |at: usize| match pattern[at - 1] {
        "agents" => "main",
        "headers" => "x-team",
        "models" => "acme/some-model",
        "skills" | "webhooks" => "deploy",
        "routes" => "ops",
        "profiles" | "policy" => "0",
        _ => "acme",
    };
    pattern.iter().enumerate().map(|(at, part)| if *part == "*" { name(at) } else { part }.to_owned()).collect()
}

/// Parses a value that is part of the program.
pub(super) fn toml_value(text: &str) -> Value {
    if let Some(value) = plain_value(text) {
        return value;
    }
    let mut table: Table = toml::from_str(&format!("value = {text}")).expect("a declared value is TOML");
    table.remove("value").expect("it was just written")
}

/// A number, a truth value or a text without escapes, which is nearly every default, without the parser for files.
fn plain_value(text: &str) -> Option<Value> {
    if let Some(quoted) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return (!quoted.contains(['"', '\\'])).then(|| Value::String(quoted.to_owned()));
    }
    text.parse().map(Value::Integer).or_else(|_| text.parse().map(Value::Boolean)).ok()
}

impl Preset {
    /// The default or example as written in a file.
    pub(super) fn text(self) -> &'static str {
        let (Self::Default(text) | Self::Example(text)) = self;
        text
    }

    /// The parsed default or example.
    pub(super) fn value(self) -> Value {
        toml_value(self.text())
    }
}

/// An upper limit, or none: a number or `"off"` in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit<T>(Option<T>);

impl<T: Copy + Default> Limit<T> {
    /// The limit; none if it is off.
    pub(super) fn get(self) -> Option<T> {
        self.0
    }

    /// The limit as in the engine's settings: 0 if it is off.
    pub(super) fn or_zero(self) -> T {
        self.0.unwrap_or_default()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Limit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written<T> {
            Number(T),
            /// Always `"off"`: [`Kind::fits`] accepts no other text.
            Off(#[allow(dead_code, reason = "there is one such text")] String),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Number(number) => Self(Some(number)),
            Written::Off(_) => Self(None),
        })
    }
}
