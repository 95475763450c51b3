//! The layer of a project: its files, each of which can only make things stricter. It belongs to the workspace of a run, not to
//! the process, and is read when a run starts and when a call begins.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use toml::Value;

use super::concealed::shown_path;
use super::error::{ConfigError, ValueOrigin};
use super::layers::{Layers, is_of_rule};
use super::places::{self, ProjectFile};
use super::settings;
use super::stricter::{self, rule};
use super::{Config, Values};

/// What the files of a project say.
#[derive(Debug, Default)]
pub(super) struct ProjectLayer {
    files: Vec<Layers>,
    pub(super) wrong: Vec<ConfigError>,
}

impl ProjectLayer {
    /// Reads the files of the project of a workspace.
    pub(super) fn of(config: &Config, workspace: &Path) -> Self {
        let mut layer = Self::default();
        for ProjectFile { path, text } in places::of_project(workspace, &config.home, &config.environment) {
            match text {
                Ok(text) => layer.add(&text, &path),
                Err(error) => layer.wrong.push(ConfigError::ProjectFile { path, detail: error.to_string() }),
            }
        }
        layer
    }

    fn add(&mut self, text: &str, path: &Path) {
        let file = Layers::of_project(text, path);
        self.wrong.extend_from_slice(file.wrong());
        // A rule of a project can ask and deny; what it would allow is its owner's to say.
        let may_stand = |path: &[String], value: &Value| {
            let allows = path.last().is_some_and(|key| key == "decision") && value.as_str() == Some("allow");
            is_of_rule(path) && !allows || rule(path).is_some()
        };
        let refused = file.values().filter(|(path, value, _)| !may_stand(path, value));
        let refused = refused
            .map(|(path, _, origin)| ConfigError::NotForProject { origin: origin.clone(), key: shown_path(path) });
        self.wrong.extend(refused);
        self.files.push(file);
    }

    /// Whether the project says nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.wrong.is_empty()
    }

    /// A warning for each old name in the files.
    pub(super) fn deprecated(&self) -> impl Iterator<Item = &String> {
        self.files.iter().flat_map(Layers::deprecated)
    }

    /// The values that these layers get from the project: path, value and place.
    pub(super) fn restrictions(&self, own: &Layers) -> Vec<(Vec<String>, Value, ValueOrigin)> {
        let mut restrictions: Vec<(Vec<String>, Value, ValueOrigin)> = vec![];
        // First the policy that others without a value of their own have: they are compared with it as it is restricted.
        let exec = settings::example(stricter::EXEC);
        let (policy, others): (Vec<_>, Vec<_>) =
            self.files.iter().flat_map(Layers::values).partition(|(path, ..)| *path == exec);
        for (path, value, origin) in policy.into_iter().chain(others) {
            let Some(rule) = rule(path) else { continue };
            // What was typed for this process is stronger than the project.
            if own.origin(path).is_some_and(|origin| matches!(origin, ValueOrigin::Variable { .. })) {
                continue;
            }
            let known = restrictions.iter().position(|(known, ..)| known == path);
            let now = known.map(|at| &restrictions[at].1).or_else(|| own.value(path));
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
            let row = (path.to_vec(), merged, origin.clone());
            match known {
                Some(at) => restrictions[at] = row,
                None => restrictions.push(row),
            }
        }
        restrictions.extend(self.rules(own));
        restrictions
    }

    /// The rules of the project, with numbers after those of these layers.
    fn rules(&self, own: &Layers) -> Vec<(Vec<String>, Value, ValueOrigin)> {
        let (mut rules, mut before) = (vec![], own.rules());
        for file in &self.files {
            let renumbered = |path: &[String]| {
                let number = path.get(1).and_then(|number| number.parse().ok()).unwrap_or(0_usize) + before;
                [&[path[0].clone(), number.to_string()], &path[2..]].concat()
            };
            let of_file = file.values().filter(|(path, ..)| is_of_rule(path));
            rules.extend(of_file.map(|(path, value, origin)| (renumbered(path), value.clone(), origin.clone())));
            before += file.rules();
        }
        rules
    }
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
