//! The folder of the home: its place, size, owner and mode.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use config::size;

use super::{Level, Section};
use crate::home_size::HomeSize;

pub(super) fn look(home: &Path) -> Section {
    let mut section = Section::new("home");
    let shown = home.display();
    let meta = match fs::metadata(home) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            section.add("place", Level::Note, format!("{shown} is not there yet: the first message makes it"));
            return section;
        }
        Err(error) => {
            section.hint(
                "place",
                Level::Error,
                format!("{shown} cannot be read ({error})"),
                "set LIMULUS_HOME to another folder",
            );
            return section;
        }
    };
    if !meta.is_dir() {
        section.hint("place", Level::Error, format!("{shown} is no folder"), "set LIMULUS_HOME to another folder");
        return section;
    }
    section.add("place", Level::Ok, format!("{shown}, {}", HomeSize::of(home).shown()));
    let (own, mode) = (rustix::process::geteuid().as_raw(), meta.mode() & 0o7777);
    if meta.uid() != own {
        let text = format!("it belongs to another user (uid {}); you are uid {own}", meta.uid());
        section.hint("owner", Level::Warning, text, "use a home of your own: set LIMULUS_HOME to another folder");
    } else if mode & 0o077 != 0 {
        let text = format!("it is yours, and others can enter it (mode {mode:o})");
        section.hint("mode", Level::Warning, text, format!("`chmod 700 '{shown}'`"));
    } else {
        section.add("mode", Level::Ok, format!("it is yours alone (mode {mode:o})"));
    }
    let calls = HomeSize::of(&home.join("calls"));
    if calls.bytes > 0 {
        section.add("outputs", Level::Ok, format!("{} of it are outputs of calls", size(calls.bytes)));
    }
    section
}
