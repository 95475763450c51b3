//! Where the files of the configuration are: that of the home, the user's own, and those of a project.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::Value;
use tools::{ancestors, project_root, real_folder};

use super::environment::Environment;
use super::files::{self, PROJECT_BYTES, PROJECT_FILES};
use super::{Config, FILE, Globals, KeyPath};

/// The folder of a project that holds its file.
const FOLDER: &str = ".limulus";

/// The files of the user, the strongest first: that of the home, and `~/.config/limulus/config.toml`, each once.
pub(super) fn of_user(home: &Path, environment: &Environment) -> Vec<PathBuf> {
    let first = home.join(FILE);
    let own = environment.config_folder().map(|folder| folder.join(FILE));
    let own = own.filter(|own| *own != first && !is_same(own, &first));
    [first].into_iter().chain(own).collect()
}

/// A file of a project.
#[derive(Debug)]
pub(super) struct ProjectFile {
    pub(super) path: PathBuf,
    pub(super) text: io::Result<String>,
}

/// The files of the project of a workspace that are there: from the workspace up to the root of the project. The home, and the
/// user's own files, are no project's. All of them have at most `PROJECT_BYTES`.
pub(super) fn of_project(workspace: &Path, home: &Path, environment: &Environment) -> Vec<ProjectFile> {
    let (workspace, user) = (real_folder(workspace), environment.real_user());
    // Bounded by the length of a path. Almost always there is none: what the root is, and what is the user's own, is looked up
    // after that.
    let folders = ancestors(&workspace, user).filter(|folder| folder.join(FOLDER).symlink_metadata().is_ok());
    let mut folders = folders.peekable();
    if folders.peek().is_none() {
        return vec![];
    }
    let folders = folders.take(PROJECT_FILES + 1).enumerate();
    let root = project_root(&workspace, user).unwrap_or(&workspace);
    let own = of_user(home, environment);
    let mut left = PROJECT_BYTES;
    let files = folders.take_while(|(_, folder)| folder.starts_with(root));
    let files = files.map(|(number, folder)| (number, folder.join(FOLDER).join(FILE)));
    files
        .filter(|(_, path)| !own.iter().any(|own| is_same(own, path)))
        .filter_map(|(number, path)| {
            if number == PROJECT_FILES {
                return Some(ProjectFile { path, text: Err(too_many()) });
            }
            let text = read(root, &path)?.and_then(|text| {
                left = left.checked_sub(text.len() as u64).ok_or_else(too_long)?;
                Ok(text)
            });
            Some(ProjectFile { path, text })
        })
        .collect()
}

fn too_many() -> io::Error {
    io::Error::other(format!("more than {PROJECT_FILES} folders of this project have one"))
}

fn too_long() -> io::Error {
    io::Error::other(format!("the files of this project have more than {PROJECT_BYTES} bytes together"))
}

/// Reads the file of a project; none if there is none. What its links name must be in the project.
fn read(root: &Path, path: &Path) -> Option<io::Result<String>> {
    let is_absent = |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    let leads_nowhere = || Some(Err(io::Error::other("it is a link to a file that is not there")));
    match path.symlink_metadata() {
        // A link to a folder that is not there yet is no folder without a file.
        Err(error) if is_absent(&error) => {
            let is_link = path.parent().is_some_and(|folder| folder.is_symlink() && !folder.exists());
            return is_link.then(leads_nowhere).flatten();
        }
        Err(error) => return Some(Err(error)),
        Ok(_) => {}
    }
    let target = match path.canonicalize() {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return leads_nowhere(),
        Err(error) => return Some(Err(error)),
    };
    if !target.starts_with(root) {
        return Some(Err(io::Error::other(format!("it is a link that leads out of {}", root.display()))));
    }
    match files::read(&target, PROJECT_BYTES) {
        // It was removed meanwhile.
        Err(error) if is_absent(&error) => None,
        text => Some(text),
    }
}

/// A file in which the configuration may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// `file` or `project`, as the layer of its values is called.
    pub layer: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
}

/// The files of the configuration, the strongest first: those of the project of the current folder that are there, that of the home,
/// and the user's own.
pub fn places(globals: &Globals) -> Vec<Place> {
    let Globals { environment, home, .. } = globals;
    let workspace = globals.look(Config::main_workspace);
    let project = workspace.map(|workspace| of_project(&workspace, home, environment)).unwrap_or_default();
    let project = project.into_iter().map(|file| Place { layer: "project", path: file.path, exists: true });
    let own = of_user(home, environment);
    let own = own.into_iter().map(|path| Place { layer: "file", exists: path.exists(), path });
    project.chain(own).collect()
}

/// The user's file that sets a key, or a key of a table, else that of the home.
pub fn file_of(globals: &Globals, key: &KeyPath) -> PathBuf {
    let Globals { environment, home, .. } = globals;
    let files = of_user(home, environment);
    let sets = |file: &PathBuf| {
        let text = files::read_config(file).unwrap_or_default();
        let table = toml::from_str(&text).map(Value::Table);
        table.is_ok_and(|table| key.paths().iter().any(|path| has(&table, path)))
    };
    files.iter().find(|file| sets(file)).unwrap_or(&files[0]).clone()
}

fn has(value: &Value, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    let inner = match (value, first.parse::<usize>()) {
        (Value::Array(values), Ok(at)) => values.get(at),
        (value, _) => value.get(first.as_str()),
    };
    inner.is_some_and(|inner| has(inner, rest))
}

/// Whether both paths lead to the same file.
fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| path.metadata().map(|meta| (meta.dev(), meta.ino()));
    a == b || matches!((id(a), id(b)), (Ok(a), Ok(b)) if a == b)
}

impl Config {
    /// The files of the user that it was read from, the strongest first, whether they are there or not.
    pub(super) fn user_files(&self) -> &[PathBuf] {
        &self.files
    }
}
