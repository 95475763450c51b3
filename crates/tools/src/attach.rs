//! Files that a user sends with a message: images, PDF, text. The bytes of a file decide its type, not its name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use engine::Attached;
use rustix::fs::{FileType, OFlags};

use crate::images::{Image, ImageError, media_type};
use crate::kinds;
use crate::limits::{ATTACHED_BYTES, ATTACHED_FILES, ATTACHED_TEXT_BYTES, IMAGE_FILE_BYTES, PDF_BYTES};
use crate::masking::Secrets;
use crate::size::size;

/// Why a file cannot be sent. `path` is always the path as the caller gave it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub enum AttachError {
    /// The file does not exist or cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable { path: String, source: io::Error },
    /// The path is a folder, a pipe or a device.
    #[error("{path} is not a file")]
    NoFile { path: String },
    /// The file has no bytes.
    #[error("{path} is empty")]
    Empty { path: String },
    /// The file has more bytes than a file of its type may have.
    #[error("{path} is {what} of more than {most}", most = size(*most))]
    TooLarge { path: String, what: &'static str, most: u64 },
    /// The file is neither an image, nor PDF, nor text.
    #[error("{path} is {what}, which models cannot read")]
    NotAllowed { path: String, what: &'static str },
    /// The file is an image that cannot be shown.
    #[error("{path} {reason}")]
    Image {
        path: String,
        /// The rest of the message, after the path.
        reason: String,
    },
    /// There are more files than a message may have.
    #[error("{files} files are too many for one message: at most {ATTACHED_FILES}")]
    TooMany { files: usize },
    /// The files together have more bytes than a message may have.
    #[error("the files are too large for one message: at most {most} in all", most = size(ATTACHED_BYTES))]
    TooMuch,
}

impl AttachError {
    /// What the user can do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::NoFile { .. } | Self::Empty { .. } => "check the path after --attach",
            Self::TooLarge { .. } | Self::Image { .. } | Self::TooMany { .. } | Self::TooMuch => {
                "put it into the workspace and name it in the message: the agent then reads it piece by piece"
            }
            Self::NotAllowed { .. } => "PNG, JPEG, GIF and WebP images, PDF and UTF-8 text can be attached",
        }
    }
}

/// Reads these files for a message, all or none. Decodes images and encodes them anew; masks secrets in text. It may
/// block.
pub fn attach<P: AsRef<Path>>(paths: &[P], secrets: &Secrets) -> Result<Vec<Attached>, AttachError> {
    let files = paths.iter().map(|path| {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bytes = content(path, &shown)?;
        Ok(InlineFile { shown, name, bytes })
    });
    all(paths.len(), files, secrets)
}

/// Does the same as [`attach`] with files whose names and bytes a client sent.
pub fn attach_sent(files: Vec<(String, Vec<u8>)>, secrets: &Secrets) -> Result<Vec<Attached>, AttachError> {
    let sent = |(path, bytes): (String, Vec<u8>)| {
        let name = Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
        if bytes.is_empty() {
            return Err(AttachError::Empty { path });
        }
        Ok(InlineFile { name: name.unwrap_or_default(), shown: path, bytes })
    };
    all(files.len(), files.into_iter().map(sent), secrets)
}

/// A file whose bytes are in memory.
struct InlineFile {
    /// The name for error messages.
    shown: String,
    name: String,
    bytes: Vec<u8>,
}

fn all(
    count: usize,
    files: impl Iterator<Item = Result<InlineFile, AttachError>>,
    secrets: &Secrets,
) -> Result<Vec<Attached>, AttachError> {
    if count > ATTACHED_FILES {
        return Err(AttachError::TooMany { files: count });
    }
    let mut attached = Vec::with_capacity(count);
    let mut bytes = 0;
    for file in files {
        let file = read(file?, secrets)?;
        bytes += file.content.body.bytes;
        if bytes > ATTACHED_BYTES {
            return Err(AttachError::TooMuch);
        }
        attached.push(file);
    }
    Ok(attached)
}

fn read(file: InlineFile, secrets: &Secrets) -> Result<Attached, AttachError> {
    let InlineFile { shown, name, bytes } = file;
    let too_large = |what, most| AttachError::TooLarge { path: shown.clone(), what, most };
    let within = |what, most| if bytes.len() as u64 > most { Err(too_large(what, most)) } else { Ok(()) };
    if media_type(&bytes).is_some() {
        within("an image", IMAGE_FILE_BYTES)?;
        let broken = |error: ImageError| AttachError::Image { path: shown.clone(), reason: error.to_string() };
        return Ok(Image::of(&bytes).map_err(broken)?.attached(&name));
    }
    if bytes.starts_with(b"%PDF-") {
        within("a PDF document", PDF_BYTES)?;
        return Ok(Attached::new("application/pdf", &name, bytes));
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => {
            if text.len() as u64 > ATTACHED_TEXT_BYTES {
                return Err(too_large("text", ATTACHED_TEXT_BYTES));
            }
            Ok(Attached::new("text/plain", &name, secrets.mask(&text).as_bytes()))
        }
        Ok(_) => Err(AttachError::NotAllowed { path: shown, what: "binary" }),
        Err(error) => {
            let what = kinds::name(error.as_bytes()).or_else(|| kinds::not_text(error.as_bytes()));
            Err(AttachError::NotAllowed { path: shown, what: what.unwrap_or("text in another encoding") })
        }
    }
}

/// Reads a file, at most one byte more than the largest limit, so that the caller notices a file that is too large. It
/// never waits for a pipe or a device.
fn content(path: &Path, shown: &str) -> Result<Vec<u8>, AttachError> {
    let unreadable = |source| AttachError::Unreadable { path: shown.to_owned(), source };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|errno| unreadable(errno.into()))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| unreadable(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(AttachError::NoFile { path: shown.to_owned() });
    }
    let mut bytes = vec![];
    File::from(file).take(IMAGE_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.is_empty() { Err(AttachError::Empty { path: shown.to_owned() }) } else { Ok(bytes) }
}
