//! Which files of projects the user trusts. What a project file allows counts only while it is trusted: the answer is stored by the
//! path and the content of the file, so a change of the file takes the trust away.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{self, make_private};
use super::project_layer::ProjectLayer;
use super::{Config, ConfigError};

/// The file with the answers, in the home.
const TRUST: &str = "trust.json";
/// A file that is locked while the answers are changed.
const LOCK: &str = "trust.lock";
/// Bytes of the file with the answers: tens of thousands of projects.
const TRUST_BYTES: u64 = 8 << 20;

/// Whether what a project file allows counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileTrust {
    /// It counts: the user trusts this content.
    Trusted,
    /// The user has refused this content.
    Refused,
    /// The user trusted or refused an earlier content.
    Changed,
    /// The user was never asked.
    New,
}

/// A project file, and what it would allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProjectTrust {
    /// The file, without links.
    pub path: PathBuf,
    /// Whether what it allows counts.
    pub trust: FileTrust,
    /// What it allows beyond the configuration of the user; counts only if it is trusted.
    pub allows: Vec<TrustedAllowance>,
    /// The hash of the content that was read, which an answer is about.
    #[serde(skip)]
    pub(super) content: String,
}

impl ProjectTrust {
    /// The same after this answer of the user.
    #[must_use]
    pub fn answered(self, trusted: bool) -> Self {
        Self { trust: if trusted { FileTrust::Trusted } else { FileTrust::Refused }, ..self }
    }

    /// Whether the user has to answer before what it allows counts.
    pub fn is_open(&self) -> bool {
        !self.allows.is_empty() && matches!(self.trust, FileTrust::New | FileTrust::Changed)
    }
}

/// Something that a project file allows and the configuration of the user does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrustedAllowance {
    /// The line of the file, counted from 1.
    pub line: usize,
    /// The setting or the rule, as the file says it.
    pub what: String,
    /// The value without the file; none for a rule.
    pub now: Option<String>,
}

/// The answers of the user.
#[derive(Debug, Default)]
pub(super) struct TrustedFiles {
    answers: BTreeMap<PathBuf, TrustAnswer>,
}

/// An answer about a file.
#[derive(Debug, Serialize, Deserialize)]
struct TrustAnswer {
    /// The hash of the content that was shown.
    content: String,
    trusted: bool,
}

impl TrustedFiles {
    /// Reads the answers of a home; none if there is no file.
    fn read(home: &Path) -> io::Result<Self> {
        match files::read(&home.join(TRUST), TRUST_BYTES) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Self::default())
            }
            text => Ok(Self { answers: serde_json::from_str(&text?)? }),
        }
    }

    /// The same for a run: nothing is trusted if they cannot be read.
    pub(super) fn of(home: &Path) -> Self {
        Self::read(home).unwrap_or_default()
    }

    /// Whether a file with this content is trusted.
    pub(super) fn about(&self, path: &Path, content: &str) -> FileTrust {
        match self.answers.get(path) {
            None => FileTrust::New,
            Some(answer) if answer.content != content => FileTrust::Changed,
            Some(TrustAnswer { trusted: true, .. }) => FileTrust::Trusted,
            Some(TrustAnswer { trusted: false, .. }) => FileTrust::Refused,
        }
    }

    fn write(&self, home: &Path) -> io::Result<()> {
        let mut written = tempfile::NamedTempFile::new_in(home)?;
        serde_json::to_writer_pretty(&mut written, &self.answers)?;
        written.write_all(b"\n")?;
        written.as_file().sync_all()?;
        written.persist(home.join(TRUST)).map_err(|error| error.error)?;
        File::open(home)?.sync_all()
    }
}

impl Config {
    /// The project files of a workspace, from the workspace up to the root of the project, with what each allows.
    ///
    /// # Errors
    /// Returns the first error of a project file.
    pub fn project_trust(&self, workspace: &Path) -> Result<Vec<ProjectTrust>, ConfigError> {
        let layer = ProjectLayer::of(self, workspace);
        match layer.wrong.first() {
            Some(error) => Err(error.clone()),
            None => Ok(layer.trust(&self.layers)),
        }
    }

    /// Stores whether the user trusts these files, with the content that they had when they were read: what is written there
    /// later is not trusted.
    ///
    /// # Errors
    /// Returns why that could not be stored.
    pub fn answer_trust(&self, files: &[ProjectTrust], trusted: bool) -> Result<(), ConfigError> {
        let failed = |error: io::Error| ConfigError::Trust { path: self.home.join(TRUST), detail: error.to_string() };
        make_private(&self.home).map_err(failed)?;
        let lock = File::create(self.home.join(LOCK)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut known = TrustedFiles::read(&self.home).map_err(failed)?;
        // What allows nothing more today may do so once the user's own configuration is stricter: nobody has seen that.
        let files = files.iter().filter(|file| !trusted || !file.allows.is_empty());
        let answer = |file: &ProjectTrust| (file.path.clone(), TrustAnswer { content: file.content.clone(), trusted });
        known.answers.extend(files.map(answer));
        known.write(&self.home).map_err(failed)
    }
}
