//! The configuration: the files that are read, and what is wrong with it.

use config::{Config, FlagValues, Globals, places};

use super::{Level, Section};
use crate::show::human::count;

pub(super) fn look(globals: &Globals) -> Section {
    let mut section = Section::new("configuration");
    let review = Config::review(&globals.home, &globals.environment, FlagValues::default());
    for place in places(globals).into_iter().filter(|place| place.exists) {
        let of = if place.layer == "project" { " (of the project: it only limits runs)" } else { "" };
        let path = place.path.display().to_string();
        let is_wrong = review.errors.iter().any(|error| error.what.starts_with(&path));
        section.add("file", if is_wrong { Level::Error } else { Level::Ok }, format!("{path}{of}"));
    }
    match review.set {
        0 => section.add("keys", Level::Note, "the defaults are in force"),
        set => section.add("keys", Level::Ok, format!("{} set", count(set, "key"))),
    }
    for error in review.errors {
        section.remark("error", Level::Error, error);
    }
    for warning in review.warnings {
        section.remark("warning", Level::Warning, warning);
    }
    section
}
