//! What a skill needs to be of use: an operating system, programs, environment variables.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;

use super::front_matter::FrontMatter;

/// What there is.
#[derive(Debug, Clone)]
pub(super) struct SkillNeeds {
    /// The names of the operating system.
    systems: Vec<&'static str>,
    /// The folders of programs.
    programs: Vec<PathBuf>,
    variables: BTreeSet<String>,
}

impl SkillNeeds {
    /// What this process has.
    pub(super) fn of_this_process() -> Self {
        let variables = std::env::vars_os().filter(|(_, value)| !value.is_empty());
        Self::of(
            std::env::consts::OS,
            std::env::var_os("PATH").as_deref(),
            variables.filter_map(|(name, _)| name.into_string().ok()),
        )
    }

    pub(super) fn of(system: &'static str, path: Option<&OsStr>, variables: impl Iterator<Item = String>) -> Self {
        let other_name = (system == "macos").then_some("darwin");
        Self {
            systems: std::iter::once(system).chain(other_name).collect(),
            programs: path.into_iter().flat_map(std::env::split_paths).collect(),
            variables: variables.collect(),
        }
    }

    /// The first thing that a skill needs and that is not there.
    pub(super) fn missing(&self, matter: &FrontMatter) -> Option<String> {
        let systems = matter.needs(&["os"]);
        if !systems.is_empty() && !systems.iter().any(|name| self.systems.contains(&name.as_str())) {
            return Some(format!("it is for {}", systems.join(", ")));
        }
        if let Some(name) = matter.needs(&["requires", "bins"]).into_iter().find(|name| !self.has_program(name)) {
            return Some(format!("it needs the program `{name}`, which is not in PATH"));
        }
        let any = matter.needs(&["requires", "anyBins"]);
        if !any.is_empty() && !any.iter().any(|name| self.has_program(name)) {
            return Some(format!("it needs one of the programs {}, and none is in PATH", any.join(", ")));
        }
        let variable = matter.needs(&["requires", "env"]).into_iter().find(|name| !self.variables.contains(name));
        variable.map(|name| format!("it needs the environment variable {name}, which is not set"))
    }

    fn has_program(&self, name: &str) -> bool {
        let is_plain = !name.is_empty() && !name.contains('/');
        is_plain && self.programs.iter().any(|folder| folder.join(name).is_file())
    }
}
