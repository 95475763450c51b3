//! What is around the data of a home: the program, its configuration, keys, terminal, disk and folder. Each is looked at without a
//! change, and nothing of it changes the exit code: only damaged data does.

mod disk;
mod folder;
mod keys;
mod online;
mod program;
mod settings;
mod terminal;

use config::{Config, FlagValues, Globals, Remark};
use serde::Serialize;

pub(crate) use online::ask;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Look {
    /// The part of the report that it is in.
    pub(crate) section: &'static str,
    /// What it is, for programs.
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Something may not work.
    Warning,
    /// No run can start.
    Error,
}

impl Level {
    /// The mark at the beginning of a line.
    pub(crate) fn mark(self) -> char {
        match self {
            Self::Ok => '✓',
            Self::Note => '·',
            Self::Warning => '!',
            Self::Error => '✗',
        }
    }

    /// Whether something is wrong.
    pub(crate) fn is_wrong(self) -> bool {
        matches!(self, Self::Warning | Self::Error)
    }
}

/// Collects what was looked at in one section.
struct Section {
    name: &'static str,
    looks: Vec<Look>,
}

impl Section {
    fn new(name: &'static str) -> Self {
        Self { name, looks: vec![] }
    }

    fn add(&mut self, name: &'static str, level: Level, text: impl Into<String>) {
        self.looks.push(Look { section: self.name, name, level, text: text.into(), hint: None });
    }

    fn hint(&mut self, name: &'static str, level: Level, text: impl Into<String>, hint: impl Into<String>) {
        let hint = Some(hint.into());
        self.looks.push(Look { section: self.name, name, level, text: text.into(), hint });
    }

    fn remark(&mut self, name: &'static str, level: Level, remark: Remark) {
        self.hint(name, level, remark.what, remark.hint);
    }
}

/// Looks at everything, section by section. `answers` are those of models that were asked.
pub(super) fn look(globals: &Globals, answers: Vec<Look>) -> Vec<Look> {
    let config = Config::load(&globals.home, &globals.environment, FlagValues::default());
    let sections = [
        program::look(&globals.environment),
        settings::look(globals),
        keys::look(config.as_ref().ok()),
        Section { name: "online", looks: answers },
        terminal::look(&globals.environment),
        disk::look(&globals.home),
        folder::look(&globals.home),
    ];
    sections.into_iter().flat_map(|section| section.looks).collect()
}
