//! The editor of the user, for a text that is edited in a file of its own.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use config::Globals;

use crate::error::{CliError, Exit};

/// The editor of this user: a command of the shell. `example` is a command that needs one.
pub(crate) fn of(globals: &Globals, example: &str) -> Result<String, CliError> {
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| globals.environment.get(name));
    named.filter(|name| !name.trim().is_empty()).map(str::to_owned).ok_or_else(|| CliError::Refused {
        exit: Exit::Refused,
        what: "neither VISUAL nor EDITOR names an editor".to_owned(),
        hint: format!("set one, such as {example}"),
    })
}

/// Waits for the editor to end. Returns why it did not end well.
pub(crate) fn open(editor: &str, path: &Path) -> Result<(), String> {
    match Command::new("sh").args(["-c", &format!("{editor} \"$@\""), editor]).arg(path).status() {
        Ok(ended) if ended.success() => Ok(()),
        Ok(ended) => Err(format!("the editor `{editor}` ended with {ended}")),
        Err(error) => Err(format!("the editor `{editor}` cannot be started ({error})")),
    }
}

/// Lets the user edit a text. `command` is the one that asks for it.
pub(crate) fn edit(globals: &Globals, text: &str, suffix: &str, command: &str) -> Result<String, CliError> {
    let editor = of(globals, &format!("`EDITOR=nano {command}`"))?;
    let failed = |what: String| CliError::Refused {
        exit: Exit::Refused,
        what,
        hint:
            "nothing was changed: try again, or set VISUAL or EDITOR to a command that waits until the file is closed"
                .to_owned(),
    };
    let file = tempfile::Builder::new().prefix("limulus-").suffix(suffix).tempfile();
    let mut file = file.map_err(|error| failed(format!("no file for the editor: {error}")))?;
    file.write_all(text.as_bytes()).map_err(|error| failed(format!("no file for the editor: {error}")))?;
    open(&editor, file.path()).map_err(failed)?;
    fs::read_to_string(file.path()).map_err(|error| failed(format!("what was edited cannot be read: {error}")))
}
