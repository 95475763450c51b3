//! The program: its version, where it is, others of its name, and the completions of the shell.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use config::Environment;

use super::{Level, Section};

/// Folders of PATH that are looked at.
const FOLDERS: usize = 256;

pub(super) fn look(environment: &Environment) -> Section {
    let mut section = Section::new("program");
    let version = env!("CARGO_PKG_VERSION");
    let Ok(own) = std::env::current_exe() else {
        section.add("version", Level::Warning, format!("limulus {version}, and nobody knows where it is"));
        return section;
    };
    section.add("version", Level::Ok, format!("limulus {version} at {}", own.display()));
    if own.to_string_lossy().ends_with(" (deleted)") {
        let hint = "start limulus again; a running service: `systemctl --user restart limulus`";
        section.hint("replaced", Level::Warning, "its file was replaced since it was started", hint);
        return section;
    }
    in_path(&mut section, environment, &own);
    completions(&mut section, environment);
    section
}

/// Says which `limulus` a shell starts.
fn in_path(section: &mut Section, environment: &Environment, own: &Path) {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let found = programs(environment.get("PATH").unwrap_or_default());
    match found.first() {
        None => {
            let hint = "add its folder to PATH, or install it: `cargo install --locked --path crates/cli`";
            section.hint("path", Level::Note, "no `limulus` is in PATH", hint);
        }
        Some(first) if real(first) == real(own) => section.add("path", Level::Ok, "a shell starts this one"),
        Some(first) => {
            let text = format!("a shell starts another limulus: {}", first.display());
            section.hint("path", Level::Warning, text, "remove one of them, or change their order in PATH");
        }
    }
    let mut known = vec![real(own)];
    for other in found.iter().skip(1).filter(|other| {
        let other = real(other);
        !known.contains(&other) && {
            known.push(other);
            true
        }
    }) {
        section.add("second", Level::Note, format!("PATH has one more limulus: {}", other.display()));
    }
}

/// The files named `limulus` that can be executed, in the order of PATH.
fn programs(path: &str) -> Vec<PathBuf> {
    let is_program =
        |file: &PathBuf| fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path).take(FOLDERS).map(|folder| folder.join("limulus")).filter(is_program).collect()
}

/// Says whether the completions of the user's shell are where it looks for them.
fn completions(section: &mut Section, environment: &Environment) {
    let shell = environment.get("SHELL").and_then(|shell| Path::new(shell).file_name()?.to_str()).unwrap_or_default();
    let in_user = |variable: &str, default: &str| match (environment.get(variable), environment.get("HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, Some(user)) => Path::new(user).join(default),
        (None, None) => PathBuf::new(),
    };
    let places: [PathBuf; 3] = match shell {
        "bash" => {
            let file = "bash-completion/completions/limulus";
            [
                in_user("XDG_DATA_HOME", ".local/share").join(file),
                Path::new("/usr/share").join(file),
                "/etc/bash_completion.d/limulus".into(),
            ]
        }
        "zsh" => {
            let folders = [
                "/usr/local/share/zsh/site-functions",
                "/usr/share/zsh/site-functions",
                "/usr/share/zsh/vendor-completions",
            ];
            folders.map(|folder| Path::new(folder).join("_limulus"))
        }
        "fish" => {
            let own = in_user("XDG_CONFIG_HOME", ".config").join("fish/completions/limulus.fish");
            [
                own,
                "/usr/share/fish/vendor_completions.d/limulus.fish".into(),
                "/usr/share/fish/completions/limulus.fish".into(),
            ]
        }
        _ => return,
    };
    if let Some(place) = places.iter().find(|place| place.exists()) {
        return section.add("completions", Level::Ok, format!("completions of {shell}: {}", place.display()));
    }
    let text = format!("no completions of {shell} are in the usual places");
    section.hint("completions", Level::Note, text, "`limulus completions --help` says how to install them");
}
