//! `limulus config set`, `get` and `unset`: single keys.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use config::{Config, FlagValues, Globals, KeyPath, KeyValue, Remark, Setting, file_of};
use serde::Serialize;
use toml::Value;

use super::{file, remarks, text};
use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::output::say_text;
use crate::show::human::printable;
use crate::show::{json, print, worded};

/// A changed key.
#[derive(Debug, Serialize)]
struct KeyChange {
    key: String,
    /// Absent if it was taken out. Secrets are masked.
    value: Option<Value>,
    /// The value that the file had.
    before: Option<Value>,
}

/// A change of the file.
#[derive(Debug, Serialize)]
struct FileChange {
    file: String,
    changed: bool,
    keys: Vec<KeyChange>,
    /// The next moment from which it counts, such as `run`.
    counts_from: &'static str,
    /// The variable, or the place in another file, that has the value in force, if one does.
    overridden_by: Option<String>,
    /// What keeps runs from starting since this change.
    errors: Vec<Remark>,
    warnings: Vec<Remark>,
}

/// Reads a key of the command line.
pub(super) fn key(text: &str) -> Result<KeyPath, CliError> {
    let key = KeyPath::parse(text).map_err(|error| usage(&error))?;
    deprecation::warn(&key.deprecated().map(str::to_owned).into_iter().collect::<Vec<_>>());
    Ok(key)
}

fn usage(error: &config::ConfigError) -> CliError {
    CliError::Usage { what: error.to_string(), hint: error.hint() }
}

pub(super) fn set(globals: &Globals, name: &str, value: &str, as_json: bool) -> Result<(), CliError> {
    let key = key(name)?;
    let value = full_models(globals, &key, value)?;
    let values = key.values(&value).map_err(|error| usage(&error))?;
    let changed = change(globals, &key, |before| {
        let mut after = before.to_owned();
        for KeyValue { path, value, .. } in &values {
            after = text::set(&after, path, value)?;
        }
        let keys = values.iter().map(|value| {
            let old = text::value(before, &value.path).map(|old| value.masked(&old));
            KeyChange { key: value.name(), value: Some(value.shown()), before: old }
        });
        Some((after, keys.collect()))
    });
    let mut changed = changed?;
    changed.warnings.extend(values.iter().filter_map(KeyValue::in_the_open));
    changed.print(as_json)
}

/// The value with the full name of a model that is named without its provider: a file names both.
fn full_models<'a>(globals: &Globals, key: &KeyPath, value: &'a str) -> Result<Cow<'a, str>, CliError> {
    let bare = value.trim().trim_matches(['"', '\'']);
    let is_bare = key.is_model() && !bare.is_empty() && !bare.contains('/') && !bare.contains(char::is_whitespace);
    // What keeps the configuration from being read is said where the value is checked.
    let config = is_bare.then(|| globals.load(FlagValues::default()).ok()).flatten();
    match config {
        Some(config) => Ok(Cow::Owned(config.full_name(bare).map_err(|error| usage(&error))?.into_owned())),
        None => Ok(Cow::Borrowed(value)),
    }
}

pub(super) fn unset(globals: &Globals, name: &str, as_json: bool) -> Result<(), CliError> {
    let key = key(name)?;
    let changed = change(globals, &key, |before| {
        let (mut after, mut keys) = (before.to_owned(), vec![]);
        for path in key.paths().iter().filter(|path| text::has(before, path)) {
            after = text::unset(&after, path)?;
            let old = text::value(before, path).map(|old| key.masked(&old));
            keys.push(KeyChange { key: key.name(), value: None, before: old });
        }
        Some((after, keys))
    });
    changed?.print(as_json)
}

/// Changes the text of the file that this key is in. `edit` gives the new text, or none if the old one is written in a way that it
/// cannot change.
fn change(
    globals: &Globals,
    key: &KeyPath,
    edit: impl FnOnce(&str) -> Option<(String, Vec<KeyChange>)>,
) -> Result<FileChange, CliError> {
    let file = file_of(globals, key);
    let changed = file::change(&file, |before| {
        let before = before.unwrap_or_default();
        is_toml(globals, &file, before)?;
        let (after, keys) = edit(before).ok_or_else(|| by_hand(&file, key))?;
        let changed = FileChange::of(globals, key, &file, (before, &after), keys);
        Ok(((after != before).then_some(after), changed))
    });
    let mut changed = changed?;
    changed.overridden_by = changed.overridden_by.or_else(|| elsewhere(globals, key, &file));
    Ok(changed)
}

/// The place of the value in force, if it is in another file: that of the project, or the user's other one.
fn elsewhere(globals: &Globals, key: &KeyPath, file: &Path) -> Option<String> {
    let effective = Config::effective(&globals.home, &globals.environment, FlagValues::default()).ok()?;
    let here = format!("{}:", file.display());
    let files = effective.settings.into_iter().filter(|setting| matches!(setting.layer, "file" | "project"));
    files.filter(|setting| key.covers(&setting.key)).filter_map(|setting| setting.at).find(|at| !at.starts_with(&here))
}

/// Prints the value in force of a key, or of each key of a table.
pub(super) fn get(globals: &Globals, name: &str, as_json: bool) -> Result<(), CliError> {
    let key = key(name)?;
    let effective = Config::effective(&globals.home, &globals.environment, FlagValues::default())?;
    let settings: Vec<Setting> = effective.settings.into_iter().filter(|setting| key.covers(&setting.key)).collect();
    let Some(first) = settings.first() else {
        let hint = format!("`limulus config set '{}' VALUE` sets it: it takes {}", key.name(), key.expected());
        return Err(CliError::not_found(format!("`{}` is not set", key.name()), hint));
    };
    match (key.is_table(), as_json) {
        (true, true) => print(&json(&settings)),
        (false, true) => print(&json(first)),
        (true, false) => {
            let rows = settings.iter().map(|setting| format!("{} = {}", setting.key, setting.value));
            print(&rows.map(|row| printable(&row).into_owned() + "\n").collect::<String>())
        }
        (false, false) => {
            let text = first.value.as_str().map_or_else(|| first.value.to_string(), str::to_owned);
            print(&format!("{}\n", printable(&text)))
        }
    }
}

impl FileChange {
    fn of(globals: &Globals, key: &KeyPath, file: &Path, (before, after): (&str, &str), keys: Vec<KeyChange>) -> Self {
        let review = |text: &str| Config::review_text(&globals.home, &globals.environment, (file, text));
        let (errors, warnings) = file::added(file, &review(before), review(after));
        let variable = format!("LIMULUS_{}", key.path().join("__").to_uppercase());
        Self {
            file: file.display().to_string(),
            changed: before != after,
            keys,
            counts_from: key.counts_from(),
            overridden_by: globals.environment.get(&variable).map(|_| variable),
            errors,
            warnings,
        }
    }

    fn print(&self, as_json: bool) -> Result<(), CliError> {
        if as_json {
            return print(&json(self));
        }
        say_text(&worded(remarks(&self.errors, &self.warnings)));
        print(&worded(self.lay_out()))
    }

    fn lay_out(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for KeyChange { key, value, before } in &self.keys {
            let line = match (value, before) {
                (Some(value), None) => format!("{key} = {value}"),
                (Some(value), Some(before)) if value == before => format!("{key} = {value} (as before)"),
                (Some(value), Some(before)) => format!("{key} = {value} (before: {before})"),
                (None, Some(before)) => format!("{key} is not set any more (before: {before})"),
                (None, None) => format!("{key} is not set any more"),
            };
            let _ = writeln!(text, "{}", printable(&line));
        }
        let counts = match self.counts_from {
            "start" => "counts when a process starts".to_owned(),
            "check" => "counts within an hour, also for a service that is running".to_owned(),
            next => format!("counts from the next {next}, also for a service that is running"),
        };
        let _ = if self.changed {
            writeln!(text, "{} was changed; it {counts}", self.file)
        } else {
            writeln!(text, "{} was not changed", self.file)
        };
        let _ = match &self.overridden_by {
            Some(variable) if variable.starts_with("LIMULUS_") => {
                writeln!(text, "but {variable} is set and overrides the file")
            }
            Some(place) => writeln!(text, "but the value in force is that of {}", printable(place)),
            None => Ok(()),
        };
        text
    }
}

/// A file that is no TOML is not changed.
fn is_toml(globals: &Globals, file: &Path, text: &str) -> Result<(), CliError> {
    if toml::from_str::<toml::Table>(text).is_ok() {
        return Ok(());
    }
    let review = Config::review_text(&globals.home, &globals.environment, (file, text));
    let what = review.errors.into_iter().next().map_or_else(|| file.display().to_string(), |error| error.what);
    Err(CliError::Config {
        what: format!("{what}; nothing was changed"),
        hint: "`limulus config edit` opens the file".to_owned(),
    })
}

fn by_hand(file: &Path, key: &KeyPath) -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: format!("{} is written in a way that cannot be changed; nothing was changed", file.display()),
        hint: format!("change `{}` yourself: `limulus config edit` opens the file", key.name()),
    }
}
