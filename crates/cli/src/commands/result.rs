//! What a program gets of a message: the last line of `--json`, and the file of `--output-last`.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use engine::{Outcome, RunId, SessionId, Usage};
use protocol::Client;
use protocol::method::{AgentWait, DiffParams, FileAct, RunDiff, RunsDiff, WaitParams};
use serde::Serialize;

use crate::error::{CliError, Exit};
use crate::show::json_line;

/// The last line of `agent --json`. A field that is not known, or of which there is nothing, is absent.
#[derive(Debug, Serialize)]
pub(crate) struct ResultLine<'a> {
    stream: &'static str,
    /// The key of the session.
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    /// The whole text of the answer, or what there is of it.
    text: &'a str,
    /// The value that the answer is, if it was to fit a schema and does, as the model wrote it: JSON on one line.
    #[serde(skip)]
    structured: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    /// Micro-dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<ChangedFile>>,
    /// The exit code of the command.
    exit: u8,
}

/// A file that the run changed.
#[derive(Debug, Serialize)]
struct ChangedFile {
    path: String,
    act: FileAct,
    /// Lines.
    added: usize,
    removed: usize,
}

impl<'a> ResultLine<'a> {
    /// That of a message without a run.
    pub(super) fn of_command(session: &'a str, text: &'a str, exit: u8) -> Self {
        Self {
            stream: "result",
            session,
            session_id: None,
            run: None,
            outcome: None,
            text,
            structured: None,
            usage: None,
            cost: None,
            duration_ms: None,
            files: None,
            exit,
        }
    }

    /// The same with the value of an answer that was to fit a schema.
    pub(super) fn with(self, structured: Option<String>) -> Self {
        Self { structured, ..self }
    }

    /// The line. A parsed value would be written with its numbers rounded, so that of the answer is put in as it is.
    pub(crate) fn line(&self) -> String {
        let line = json_line(self);
        match (&self.structured, line.strip_suffix("}\n")) {
            (Some(value), Some(begin)) => format!("{begin},\"structured\":{value}}}\n"),
            _ => line,
        }
    }

    /// That of a run that has ended.
    pub(super) async fn of_run(
        client: &Client,
        (session, run): (&'a str, RunId),
        (outcome, text): (Outcome, &'a str),
        exit: u8,
    ) -> Self {
        let ended = client.call::<AgentWait>(WaitParams { run_id: run, timeout_ms: 0 }).await.ok();
        let meta = ended.and_then(|ended| ended.reply).map(|reply| reply.meta);
        let params = DiffParams { run_id: Some(run.to_string()), ..DiffParams::default() };
        let files = client.call::<RunsDiff>(params).await.ok().map(changed_files);
        Self {
            session_id: meta.as_ref().map(|meta| meta.session),
            run: Some(run),
            outcome: Some(outcome),
            usage: meta.as_ref().map(|meta| meta.usage),
            cost: meta.as_ref().map(|meta| meta.cost),
            duration_ms: meta.as_ref().map(|meta| meta.duration_ms),
            files,
            ..Self::of_command(session, text, exit)
        }
    }
}

fn changed_files(diff: RunDiff) -> Vec<ChangedFile> {
    let changed = diff.files.into_iter().map(|file| ChangedFile {
        path: file.path,
        act: file.act,
        added: file.added,
        removed: file.removed,
    });
    changed.collect()
}

/// The file that gets the text of an answer.
#[derive(Debug)]
pub(super) struct OutputFile {
    /// With no link in it.
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A file with these permissions, or none yet: it is replaced in one step.
    File(Option<u32>),
    /// A device or a pipe: it is written to.
    Stream,
}

impl OutputFile {
    /// Finds out where it is, before a run starts that would end without it.
    pub(super) fn find(path: &Path) -> Result<Self, CliError> {
        let refused = |what: String| CliError::Usage { what, hint: "name a file in a folder that is there".into() };
        let name = path.display();
        // A link stays one: what it leads to is replaced.
        match fs::canonicalize(path) {
            Ok(path) => {
                let meta = fs::metadata(&path).map_err(|error| refused(format!("--output-last {name}: {error}")))?;
                let kind = meta.file_type();
                if kind.is_dir() {
                    return Err(refused(format!("--output-last {name} is a folder")));
                }
                let is_stream = kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket();
                let kind = if is_stream { Kind::Stream } else { Kind::File(Some(meta.permissions().mode() & 0o777)) };
                Ok(Self { path, kind })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = folder_of(path);
                let found = fs::canonicalize(folder);
                let folder = found.map_err(|error| refused(format!("the folder of --output-last {name}: {error}")))?;
                let file = path.file_name().ok_or_else(|| refused(format!("--output-last {name} names no file")))?;
                Ok(Self { path: folder.join(file), kind: Kind::File(None) })
            }
            Err(error) => Err(refused(format!("--output-last {name}: {error}"))),
        }
    }

    /// Replaces what it holds.
    pub(super) fn write(&self, text: &str) -> Result<(), CliError> {
        self.try_write(text).map_err(|error| CliError::Failed {
            exit: Exit::Store,
            what: format!("the answer could not be written to {} ({error})", self.path.display()),
            hint: "the run is recorded: `limulus runs show` has its answer".into(),
        })
    }

    fn try_write(&self, text: &str) -> io::Result<()> {
        let mode = match self.kind {
            Kind::Stream => return OpenOptions::new().write(true).open(&self.path)?.write_all(text.as_bytes()),
            Kind::File(mode) => mode,
        };
        // The umask holds for a new file.
        let permissions = Permissions::from_mode(mode.unwrap_or(0o666));
        let mut file =
            tempfile::Builder::new().prefix(".limulus-").permissions(permissions).tempfile_in(folder_of(&self.path))?;
        file.write_all(text.as_bytes())?;
        if let Some(mode) = mode {
            file.as_file().set_permissions(Permissions::from_mode(mode))?;
        }
        file.as_file().sync_all()?;
        file.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
