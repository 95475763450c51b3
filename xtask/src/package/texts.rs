//! What the program prints for its packages: manual pages, completions, the unit of its service.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::programs::{output, program, text};
use crate::scratch::Scratch;

/// The texts, as the program prints them.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    pub(super) version: String,
    pub(super) bash: Vec<u8>,
    pub(super) zsh: Vec<u8>,
    pub(super) fish: Vec<u8>,
    /// The manual pages by file name, in order.
    pub(super) pages: Vec<(String, Vec<u8>)>,
    /// The unit with which systemd starts the service for each user.
    pub(super) unit: String,
}

impl Texts {
    /// Asks the program. It must run on this machine; it writes into a folder of its own only.
    pub(super) fn of(limulus: &Path) -> io::Result<Self> {
        let home = Scratch::new()?;
        let says = text(asked(limulus, &home).arg("--version"))?;
        let version = says.trim().strip_prefix("limulus ").unwrap_or_default().to_owned();
        let completions = |shell: &str| output(asked(limulus, &home).args(["completions", shell]), &[]);
        let pages = home.path().join("man");
        output(asked(limulus, &home).arg("man").arg("--dir").arg(&pages), &[])?;
        let unit = text(asked(limulus, &home).args(["serve", "--unit", "systemd"]))?;
        Ok(Self {
            version,
            bash: completions("bash")?,
            zsh: completions("zsh")?,
            fish: completions("fish")?,
            pages: files(&pages)?,
            unit: for_everybody(&unit)?,
        })
    }
}

/// The program, with none of the user's settings.
fn asked(limulus: &Path, home: &Scratch) -> Command {
    let mut command = program(limulus);
    command.current_dir(home.path()).env_clear().env("HOME", home.path()).env("LC_ALL", "C").env("TZ", "UTC");
    command
}

fn files(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = vec![];
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

/// The unit of one user as that of all: the packaged program, and the home that it has by itself.
fn for_everybody(unit: &str) -> io::Result<String> {
    let mut lines = vec![];
    for line in unit.lines().filter(|line| !line.starts_with("Environment=\"LIMULUS_HOME=")) {
        lines.push(if line.starts_with("ExecStart=") { "ExecStart=/usr/bin/limulus serve" } else { line });
    }
    if !lines.contains(&"ExecStart=/usr/bin/limulus serve") || lines.len() + 1 != unit.lines().count() {
        return Err(io::Error::other(format!(
            "`limulus serve --unit systemd` prints another unit than expected:\n{unit}"
        )));
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::for_everybody;

    #[test]
    fn the_unit_of_a_package_names_no_user() {
        let unit = "[Service]\nExecStart=\"/a b/limulus\" serve\nEnvironment=\"LIMULUS_HOME=/h\"\nDelegate=yes\n";
        assert_eq!(for_everybody(unit).unwrap(), "[Service]\nExecStart=/usr/bin/limulus serve\nDelegate=yes\n");
        for other in ["", "[Service]\nExecStart=x\n", "[Service]\nEnvironment=\"LIMULUS_HOME=/h\"\n"] {
            assert!(for_everybody(other).is_err(), "{other}");
        }
    }
}
