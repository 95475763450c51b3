//! How a setting is declared, and what can be asked of all of them. The declarations are in `declared`; the built-in
//! defaults, the file to begin with, the JSON Schema, the page of the documentation, the check for unknown keys and the
//! types that the program reads are all made from them.

use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use super::declared::SECTIONS;
use super::kind::Kind;

/// A table of the file.
#[derive(Debug)]
pub(super) struct Section {
    /// Its path; `*` stands for a name, or for the number of an entry of a list.
    pub(super) path: &'static [&'static str],
    /// What it is about; empty where its settings say it.
    pub(super) about: &'static str,
    /// In the order in which they are listed.
    pub(super) settings: &'static [Setting],
}

/// A setting.
#[derive(Debug)]
pub(super) struct Setting {
    /// Its path, with `*` as in a [`Section`].
    pub(super) path: &'static [&'static str],
    /// What it may hold, bounds included.
    pub(super) kind: Kind,
    /// What holds where nobody sets it.
    pub(super) value: Preset,
    /// What it is for, for the user.
    pub(super) doc: &'static str,
    /// From when on a change of the file counts.
    pub(super) counts: Counts,
}

/// What stands beside a key before anyone has set it, as TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    /// The default.
    Default(&'static str),
    /// There is no default; this is an example.
    Example(&'static str),
}

/// From when on a changed file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// Settings of a run are taken when it starts, and kept in the journal.
    Run,
    Message,
    Request,
    Call,
    /// Within an hour; a service looks again by itself.
    Check,
    /// Only a new process reads it.
    Start,
}

impl Counts {
    /// The next what, for the documentation.
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

/// Declares one section: the type that the program reads and the rows that everything else is made from.
///
/// `name: Type = DEFAULT, KIND, "doc";`, or `name: Type => EXAMPLE, …` where there is no default; `from Counts` before the
/// doc where a setting counts from another moment than its section. `name.*` takes any name.
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
            pub(super) const SECTION: $crate::config::settings::Section = $crate::config::settings::Section {
                path: &$path,
                about: $about,
                settings: &[$($crate::config::settings::Setting {
                    path: $crate::config::settings::key_path!($path $field $($any)?),
                    kind: $kind,
                    value: $($crate::config::settings::Preset::Default(stringify!($default)))?
                        $($crate::config::settings::Preset::Example(stringify!($example)))?,
                    doc: $doc,
                    counts: [
                        $($crate::config::settings::Counts::$own,)?
                        $crate::config::settings::Counts::$counts,
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

/// Every setting.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A key.
    Key(Kind),
    /// Something with keys in it.
    Table,
    /// Nothing.
    Unknown,
}

/// What stands at this path.
pub(super) fn at(path: &[String]) -> Entry {
    let fits = |pattern: &[&str]| pattern.iter().zip(path).all(|(known, part)| *known == "*" || known == part);
    let mut under = all().filter(|setting| setting.path.len() >= path.len() && fits(setting.path));
    match under.next() {
        Some(setting) if setting.path.len() == path.len() => Entry::Key(setting.kind),
        Some(_) => Entry::Table,
        None => Entry::Unknown,
    }
}

/// The path with a name of an example for each `*`.
pub(super) fn example(pattern: &[&str]) -> Vec<String> {
    let name = |at: usize| match pattern[at - 1] {
        "agents" => "main",
        "headers" => "x-team",
        "models" => "acme/some-model",
        "profiles" => "0",
        _ => "acme",
    };
    pattern.iter().enumerate().map(|(at, part)| if *part == "*" { name(at) } else { part }.to_owned()).collect()
}

/// The value of a text that the program itself holds.
pub(super) fn toml_value(text: &str) -> Value {
    let mut table: Table = toml::from_str(&format!("value = {text}")).expect("a declared value is TOML");
    table.remove("value").expect("it was just written")
}

impl Preset {
    /// As it stands in a file.
    pub(super) fn text(self) -> &'static str {
        let (Self::Default(text) | Self::Example(text)) = self;
        text
    }

    /// The value itself.
    pub(super) fn value(self) -> Value {
        toml_value(self.text())
    }
}

/// An upper limit, or none: a number or `"off"` in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit<T>(Option<T>);

impl<T: Copy + Default> Limit<T> {
    /// The limit; none where it is switched off.
    pub(super) fn get(self) -> Option<T> {
        self.0
    }

    /// As the engine's settings write it: 0 where it is switched off.
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
            /// The check of its kind lets no other text through.
            Off(#[allow(dead_code, reason = "there is one such text")] String),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Number(number) => Self(Some(number)),
            Written::Off(_) => Self(None),
        })
    }
}
