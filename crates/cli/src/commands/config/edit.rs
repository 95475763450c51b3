//! `limulus config edit`: a copy of the file in an editor. The file is replaced once its new text is valid, or if the user wants it
//! anyway; what was written and not taken stays in the copy.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use config::{Config, Globals, Remark, read_config, template};
use serde::Serialize;

use super::{file, remarks, set};
use crate::editor;
use crate::error::{CliError, Exit};
use crate::output::say_text;
use crate::prompt;
use crate::show::{json, print, worded};

/// The result of an edit.
#[derive(Debug, Serialize)]
struct Edited {
    file: String,
    changed: bool,
    errors: Vec<Remark>,
    warnings: Vec<Remark>,
}

/// What becomes of a text with errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Again,
    Back,
    Write,
}

pub(super) fn run(globals: &Globals, key: Option<&str>, as_json: bool) -> Result<(), CliError> {
    let key = key.map(set::key).transpose()?;
    let file = key.map_or_else(|| file::of_user(globals), |key| config::file_of(globals, &key));
    let example = format!("`EDITOR=nano limulus config edit`; the file is {}", file.display());
    let editor = editor::of(globals, &example)?;
    let before = file::read(&file)?;
    let start = before.clone().unwrap_or_else(template);
    let copy = Copy::new(&file, &start)?;
    let (text, errors, warnings) = loop {
        copy.open(&editor, &start)?;
        let text = copy.text()?;
        let review = Config::review_text(&globals.home, &globals.environment, (&file, &text));
        if text == start || review.errors.is_empty() {
            break (text, review.errors, review.warnings);
        }
        say_text(&remarks(&review.errors, &[]));
        match choose() {
            Some(Choice::Again) => {}
            Some(Choice::Write) => break (text, review.errors, review.warnings),
            Some(Choice::Back) => return Err(copy.kept(Exit::Refused, "you went back")),
            None => return Err(copy.kept(Exit::Config, "what the editor left has errors")),
        }
    };
    let changed = text != start;
    if changed {
        file::change(&file, |now| {
            if now == before.as_deref() {
                return Ok((Some(text), ()));
            }
            Err(copy.kept(Exit::Refused, "another command changed the file meanwhile"))
        })?;
    }
    copy.remove();
    let edited = Edited { file: file.display().to_string(), changed, errors, warnings };
    if as_json {
        return print(&json(&edited));
    }
    say_text(&worded(remarks(&[], &edited.warnings)));
    print(&worded(if changed {
        format!("{} was changed; a service that is running takes it from its next run\n", edited.file)
    } else {
        format!("{} was not changed\n", edited.file)
    }))
}

/// Asks what to do. None without a terminal.
fn choose() -> Option<Choice> {
    if !prompt::is_possible() {
        return None;
    }
    loop {
        let answer =
            prompt::ask("Edit it again (e), go back to the file as it was (b), or write it as it is (w)?", " [e] ")?;
        match answer.trim().to_lowercase().as_str() {
            "" | "e" => return Some(Choice::Again),
            "b" => return Some(Choice::Back),
            "w" => return Some(Choice::Write),
            _ => {}
        }
    }
}

/// What is edited, beside the file and for its user alone.
struct Copy {
    file: PathBuf,
    path: PathBuf,
}

impl Copy {
    fn new(file: &Path, text: &str) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| file::failed(file, &error);
        let folder = file.parent().expect("a file has a folder");
        config::make_private(folder).map_err(failed)?;
        let copy = tempfile::Builder::new().prefix("config-edit-").suffix(".toml").tempfile_in(folder);
        let mut copy = copy.map_err(failed)?;
        copy.write_all(text.as_bytes()).map_err(failed)?;
        // It stays also if this process is killed beside the editor.
        let (_, path) = copy.keep().map_err(|error| failed(error.error))?;
        Ok(Self { file: file.to_owned(), path })
    }

    /// Waits for the editor to end.
    fn open(&self, editor: &str, start: &str) -> Result<(), CliError> {
        editor::open(editor, &self.path).map_err(|why| self.kept_if_changed(start, &why))
    }

    fn text(&self) -> Result<String, CliError> {
        read_config(&self.path).map_err(|error| file::failed(&self.path, &error))
    }

    fn remove(&self) {
        // A copy that is left costs its bytes.
        let _ = fs::remove_file(&self.path);
    }

    fn kept_if_changed(&self, start: &str, why: &str) -> CliError {
        if self.text().is_ok_and(|text| text != start) {
            return self.kept(Exit::Refused, why);
        }
        self.remove();
        CliError::Refused {
            exit: Exit::Refused,
            what: format!("{why}; {} was not changed", self.file.display()),
            hint: "set VISUAL or EDITOR to a command that waits until the file is closed".to_owned(),
        }
    }

    /// The error that says where the edited text is.
    fn kept(&self, exit: Exit, why: &str) -> CliError {
        let what = format!("{why}; {} was not changed", self.file.display());
        let hint = format!("what you wrote is in {}", self.path.display());
        match exit {
            Exit::Config => CliError::Config { what, hint },
            _ => CliError::Refused { exit: Exit::Refused, what, hint },
        }
    }
}
