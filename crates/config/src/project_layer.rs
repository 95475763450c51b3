//! The layer of a project: its files, each of which can only make things stricter until the user trusts it. It belongs to the
//! workspace of a run, not to the process, and is read when a run starts and when a call begins.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Hash;
use toml::Value;

use super::concealed::shown_path;
use super::error::{ConfigError, ValueOrigin};
use super::layers::{Layers, is_of_rule};
use super::places::{self, ProjectFile};
use super::settings;
use super::stricter::{self, rule};
use super::trust::{FileTrust, ProjectTrust, TrustedAllowance, TrustedFiles};
use super::{Config, Values};

/// The table of a rule, as a file has it.
const RULE: &str = "[[policy]] ";

/// What the files of a project say.
#[derive(Debug, Default)]
pub(super) struct ProjectLayer {
    /// The nearest to the workspace first.
    files: Vec<ProjectText>,
    pub(super) wrong: Vec<ConfigError>,
}

/// A file of a project that was read.
#[derive(Debug)]
struct ProjectText {
    /// Without links.
    path: PathBuf,
    content: String,
    trust: FileTrust,
    layers: Layers,
}

impl ProjectLayer {
    /// Reads the files of the project of a workspace.
    pub(super) fn of(config: &Config, workspace: &Path) -> Self {
        let mut layer = Self::default();
        let mut trusted = None;
        for ProjectFile { path, text } in places::of_project(workspace, &config.home, &config.environment) {
            let trusted = trusted.get_or_insert_with(|| TrustedFiles::of(&config.home));
            match text {
                Ok(text) => layer.add(&text, &path, trusted),
                Err(error) => layer.wrong.push(ConfigError::ProjectFile { path, detail: error.to_string() }),
            }
        }
        layer
    }

    fn add(&mut self, text: &str, path: &Path, trusted: &TrustedFiles) {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let content = Hash::of(text.as_bytes()).to_string();
        let trust = trusted.about(&real, &content);
        let layers = Layers::of_project(text, path, trust == FileTrust::Trusted);
        self.wrong.extend_from_slice(layers.wrong());
        let refused = layers.values().filter(|(path, ..)| !is_of_rule(path) && rule(path).is_none());
        let refused = refused
            .map(|(path, _, origin)| ConfigError::NotForProject { origin: origin.clone(), key: shown_path(path) });
        self.wrong.extend(refused);
        self.files.push(ProjectText { path: real, content, trust, layers });
    }

    /// Whether the project says nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.wrong.is_empty()
    }

    /// A warning for each old name in the files.
    pub(super) fn deprecated(&self) -> impl Iterator<Item = &String> {
        self.files.iter().flat_map(|file| file.layers.deprecated())
    }

    /// The files, with what each allows beyond these layers.
    pub(super) fn trust(&self, own: &Layers) -> Vec<ProjectTrust> {
        let of = |file: &ProjectText| {
            let ProjectText { path, content, trust, layers } = file;
            ProjectTrust {
                path: path.clone(),
                trust: *trust,
                allows: allowances(layers, own),
                content: content.clone(),
            }
        };
        self.files.iter().map(of).collect()
    }

    /// The values that these layers get from the project: path, value and place.
    pub(super) fn restrictions(&self, own: &Layers) -> Vec<(Vec<String>, Value, ValueOrigin)> {
        let mut restrictions: Vec<(Vec<String>, Value, ValueOrigin)> = vec![];
        // What was typed for this process is stronger than the project.
        let is_typed = |path: &[String]| matches!(own.origin(path), Some(ValueOrigin::Variable { .. }));
        let (trusted, others): (Vec<_>, Vec<_>) = self.files.iter().partition(|file| file.is_trusted());
        // Of the files that the user trusts the nearest counts. None of them takes a command out of its sandbox.
        for (path, value, origin) in trusted.iter().rev().flat_map(|file| file.layers.values()) {
            if rule(path).is_some() && !is_typed(path) && !is_of_sandbox(path) {
                put(&mut restrictions, (path.to_vec(), value.clone(), origin.clone()));
            }
        }
        let stricter = others.iter().flat_map(|file| file.layers.values());
        let modes = trusted.iter().flat_map(|file| file.layers.values()).filter(|(path, ..)| is_of_sandbox(path));
        // First the policy that others without a value of their own have: they are compared with it as it is restricted.
        let exec = settings::example(stricter::EXEC);
        let (policy, others): (Vec<_>, Vec<_>) = stricter.chain(modes).partition(|(path, ..)| *path == exec);
        for (path, value, origin) in policy.into_iter().chain(others) {
            let Some(rule) = rule(path) else { continue };
            if is_typed(path) {
                continue;
            }
            let known = restrictions.iter().find(|(known, ..)| known == path);
            let now = known.map(|(_, value, _)| value).or_else(|| own.value(path));
            let merged = match now {
                Some(now) => rule.stricter(now, value),
                // The same policy as that of commands is a restriction too: it stays if theirs does not.
                None => match stricter::unset(rule, |key| {
                    let restricted = restrictions.iter().find(|(known, ..)| known == key);
                    restricted.map(|(_, value, _)| value).or_else(|| own.value(key))
                }) {
                    Some(now) if rule.stricter(value, now).is_some() => None,
                    _ => Some(value.clone()),
                },
            };
            let Some(merged) = merged else { continue };
            put(&mut restrictions, (path.to_vec(), merged, origin.clone()));
        }
        restrictions.extend(self.rules(own));
        restrictions
    }

    /// The rules of the project, with numbers after those of these layers. What a rule of a file that nobody trusts would allow
    /// does not count.
    fn rules(&self, own: &Layers) -> Vec<(Vec<String>, Value, ValueOrigin)> {
        let (mut rules, mut before) = (vec![], own.rules());
        for file in &self.files {
            let layers = &file.layers;
            let counts = |path: &[String]| file.is_trusted() || !is_allowing(layers, path);
            let renumbered = |path: &[String]| {
                let number = path.get(1).and_then(|number| number.parse().ok()).unwrap_or(0_usize) + before;
                [&[path[0].clone(), number.to_string()], &path[2..]].concat()
            };
            let of_file = layers.values().filter(|(path, ..)| is_of_rule(path) && counts(path));
            rules.extend(of_file.map(|(path, value, origin)| (renumbered(path), value.clone(), origin.clone())));
            before += layers.rules();
        }
        rules
    }
}

impl ProjectText {
    fn is_trusted(&self) -> bool {
        self.trust == FileTrust::Trusted
    }
}

fn put(rows: &mut Vec<(Vec<String>, Value, ValueOrigin)>, row: (Vec<String>, Value, ValueOrigin)) {
    match rows.iter_mut().find(|(known, ..)| *known == row.0) {
        Some(known) => *known = row,
        None => rows.push(row),
    }
}

fn is_of_sandbox(path: &[String]) -> bool {
    path.iter().eq(["sandbox", "mode"].iter()) || path.iter().eq(["sandbox", "root"].iter())
}

/// Whether this key is one of a rule that allows.
fn is_allowing(layers: &Layers, path: &[String]) -> bool {
    let decision = [&path[..2], &["decision".to_owned()]].concat();
    layers.value(&decision).and_then(Value::as_str) == Some("allow")
}

/// What the file of a project allows beyond these layers.
fn allowances(file: &Layers, own: &Layers) -> Vec<TrustedAllowance> {
    let line = |origin: &ValueOrigin| if let ValueOrigin::Project { line, .. } = origin { *line } else { 0 };
    let shown = |path: &[String], value: &Value| format!("{} = {value}", path.last().map_or("", String::as_str));
    let mut allowances = vec![];
    for (path, value, origin) in file.values() {
        if is_of_rule(path) {
            if path.last().is_some_and(|key| key == "decision") && is_allowing(file, path) {
                let of_rule = file.values().filter(|(other, ..)| is_of_rule(other) && other[1] == path[1]);
                let parts: Vec<String> = of_rule.map(|(path, value, _)| shown(path, value)).collect();
                let what = RULE.to_owned() + &parts.join(", ");
                allowances.push(TrustedAllowance { line: line(origin), what, now: None });
            }
            continue;
        }
        // It never counts.
        let Some(rule) = rule(path).filter(|_| !is_of_sandbox(path)) else { continue };
        let now = own.value(path).or_else(|| stricter::unset(rule, |key| own.value(key)));
        if let Some(now) = now.filter(|now| stricter::is_laxer(rule, value, now)) {
            let what = format!("{} = {value}", shown_path(path));
            allowances.push(TrustedAllowance { line: line(origin), what, now: Some(now.to_string()) });
        }
    }
    // Policies that nobody has set are that of commands.
    let exec = settings::example(stricter::EXEC);
    let allows = |of: &Layers| of.value(&exec).and_then(Value::as_str) == Some("allow");
    if allows(file) && !allows(own) {
        let (line, value) = (file.origin(&exec).map_or(0, line), Value::from("allow"));
        for key in stricter::as_commands().filter(|key| own.value(key).is_none() && file.value(key).is_none()) {
            let what = format!("{} = {value}", shown_path(&key));
            allowances.push(TrustedAllowance { line, what, now: own.value(&exec).map(ToString::to_string) });
        }
    }
    allowances.sort_by_key(|allowance| allowance.line);
    allowances
}

impl Config {
    /// The configuration as the project of this workspace restricts it; itself if there is nothing to restrict. An error of a
    /// file of the project: what it forbids is not known.
    pub(super) fn within(&self, workspace: &Path) -> Result<Cow<'_, Self>, ConfigError> {
        let layer = ProjectLayer::of(self, workspace);
        if layer.is_empty() {
            return Ok(Cow::Borrowed(self));
        }
        if let Some(error) = layer.wrong.first() {
            return Err(error.clone());
        }
        Ok(Cow::Owned(self.restricted(&layer)))
    }

    /// The configuration with what this layer makes stricter.
    pub(super) fn restricted(&self, layer: &ProjectLayer) -> Self {
        let mut layers = Layers::clone(&self.layers);
        layers.restrict(layer.restrictions(&self.layers));
        let values: Values =
            Value::Table(layers.table()).try_into().expect("every value was checked against the table of keys");
        Self { values, layers: Arc::new(layers), ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
