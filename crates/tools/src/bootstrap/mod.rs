//! Bootstrap files: what a user and a project keep in files for the agents that work there. `AGENTS.md` (else `CLAUDE.md`) holds
//! from the root of the project down to the workspace; the others are those of the workspace and of the user. They are read as the
//! tools read files: no pipe, no link out of the project, nothing that belongs to limulus itself.

mod read;

use std::path::{Path, PathBuf};

use engine::Sandbox;

use crate::guard::Protected;
use crate::limits::{BOOTSTRAP_BYTES, BOOTSTRAP_FILE_BYTES, BOOTSTRAP_FOLDERS};
use crate::paths::Workspace;
use crate::project::project_root;

use read::Reading;

/// The names of the instructions of a project; the first one that is there counts.
const INSTRUCTIONS: &[&str] = &["AGENTS.md", "CLAUDE.md"];
/// What an agent of the user has beside them, in the order in which the model receives it. What changes most often is last.
const OF_AGENT: [&[&str]; 7] = [
    &["SOUL.md"],
    &[TOOLS],
    &["IDENTITY.md"],
    &["USER.md"],
    &["HEARTBEAT.md"],
    &[FIRST_SESSION],
    &["MEMORY.md", "memory.md"],
];
/// Notes on tools and machines.
const TOOLS: &str = "TOOLS.md";
/// What only the first session of an agent receives.
const FIRST_SESSION: &str = "BOOTSTRAP.md";

/// Bootstrap files that are there. Finding them reads no content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bootstrap {
    files: Vec<Found>,
    /// The folder out of which no link of the project may lead.
    root: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    path: PathBuf,
    /// It is the user's own, in the home.
    is_own: bool,
    is_instructions: bool,
}

/// One bootstrap file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapFile {
    /// Its path.
    pub path: PathBuf,
    /// Its text, with the files that it includes and without the middle of what is too long; or why it cannot be used.
    pub text: Result<String, String>,
    /// What of it is not as it was written: a part that is left out, a file that could not be included.
    pub problems: Vec<String>,
}

impl Bootstrap {
    /// Finds those of the user in `own`, and those of the project of `workspace`: instructions from the root of the project to the
    /// workspace, else only in the workspace, where the others are too.
    pub fn find(workspace: &Path, own: &Path, user: Option<&Path>) -> Self {
        let root = project_root(workspace, user).unwrap_or(workspace);
        let mut folders: Vec<_> =
            workspace.ancestors().take_while(|folder| folder.starts_with(root)).take(BOOTSTRAP_FOLDERS).collect();
        folders.reverse();
        let of_project = folders.iter().filter_map(|folder| found(folder, INSTRUCTIONS, (false, true)));
        let mut files: Vec<Found> = found(own, INSTRUCTIONS, (true, true)).into_iter().chain(of_project).collect();
        for names in OF_AGENT {
            files.extend(
                [(own, true), (workspace, false)]
                    .into_iter()
                    .filter_map(|(folder, is_own)| found(folder, names, (is_own, false))),
            );
        }
        Self { files, root: root.to_owned() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether one of them is for the first session of an agent alone.
    pub fn has_first_session(&self) -> bool {
        self.files.iter().any(Found::is_for_first_session)
    }

    /// The same without those.
    #[must_use]
    pub fn without_first_session(mut self) -> Self {
        self.files.retain(|file| !file.is_for_first_session());
        self
    }

    /// Only instructions, and notes on tools.
    #[must_use]
    pub fn only_instructions_and_tools(mut self) -> Self {
        self.files.retain(|file| file.is_instructions || file.path.file_name().is_some_and(|name| name == TOOLS));
        self
    }

    /// Reads them, in the order in which the model receives them, without what is hidden from commands. All of them have at most
    /// `most` bytes; instructions are kept longest, of these what is nearest to the workspace.
    pub fn read(self, protected: &Protected, sandbox: &Sandbox, most: usize) -> Vec<BootstrapFile> {
        let protected = &protected.clone().and(&crate::sandbox::hidden(sandbox));
        // Once for all files: what is protected is looked for each time.
        let opened = Workspace::open(&self.root, protected).ok();
        let mut left = most.min(BOOTSTRAP_BYTES);
        let mut files: Vec<(usize, BootstrapFile)> = vec![];
        let instructions = self.files.iter().enumerate().filter(|(_, file)| file.is_instructions).rev();
        let others = self.files.iter().enumerate().filter(|(_, file)| !file.is_instructions);
        for (place, Found { path, is_own, .. }) in instructions.chain(others) {
            let reading = Reading::new(&self.root, opened.clone(), protected, left.min(BOOTSTRAP_FILE_BYTES));
            let text = if *is_own { reading.own_file(path) } else { reading.file(path) };
            let (text, problems) = match text {
                Ok(text) => (Ok(text.0), text.1),
                Err(why) => (Err(why), vec![]),
            };
            left -= text.as_ref().map_or(0, String::len).min(left);
            files.push((place, BootstrapFile { path: path.clone(), text, problems }));
        }
        files.sort_by_key(|(place, _)| *place);
        let says_something = |file: &BootstrapFile| file.text.as_ref().map_or(true, |text| !text.is_empty());
        files.into_iter().map(|(_, file)| file).filter(says_something).collect()
    }
}

impl Found {
    fn is_for_first_session(&self) -> bool {
        self.path.file_name().is_some_and(|name| name == FIRST_SESSION)
    }
}

/// The first of these names that is in the folder, and is not an empty file.
fn found(folder: &Path, names: &[&str], (is_own, is_instructions): (bool, bool)) -> Option<Found> {
    let says_something =
        |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| !found.is_file() || found.len() > 0);
    let path = names.iter().map(|name| folder.join(name)).find(says_something)?;
    Some(Found { path, is_own, is_instructions })
}

#[cfg(test)]
mod tests;
