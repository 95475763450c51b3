//! Files that a user sends with a message: images, PDF, text. What a file is, its bytes say, not its name. What may not live
//! here: the rest of the message.

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

/// Why a file cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It is not there, or not to be read.
    #[error("{path} does not read: {source}")]
    Unreadable {
        /// The file as it was given.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A folder, a pipe, a device.
    #[error("{path} is not a file")]
    NoFile {
        /// As it was given.
        path: String,
    },
    /// Nothing is in it.
    #[error("{path} is empty")]
    Empty {
        /// As it was given.
        path: String,
    },
    /// More bytes than such a file may have.
    #[error("{path} is {what} of more than {most}", most = size(*most))]
    TooLarge {
        /// As it was given.
        path: String,
        /// What it is: `an image`.
        what: &'static str,
        /// The most that it may have, bytes.
        most: u64,
    },
    /// Neither an image, nor PDF, nor text.
    #[error("{path} is {what}, which no model reads")]
    NotAllowed {
        /// As it was given.
        path: String,
        /// What it seems to be.
        what: &'static str,
    },
    /// An image that cannot be shown.
    #[error("{path} {reason}")]
    Image {
        /// As it was given.
        path: String,
        /// Why; goes on after the path.
        reason: String,
    },
    /// More files than a message takes.
    #[error("{files} files are too many for one message: at most {ATTACHED_FILES}")]
    TooMany {
        /// How many were given.
        files: usize,
    },
    /// More bytes than a message takes.
    #[error("the files are too large for one message: at most {most} in all", most = size(ATTACHED_BYTES))]
    TooMuch,
}

impl AttachError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::NoFile { .. } | Self::Empty { .. } => "check the path after --attach",
            Self::TooLarge { .. } | Self::Image { .. } | Self::TooMany { .. } | Self::TooMuch => {
                "put it into the workspace and name it in the message: the agent reads it piece by piece"
            }
            Self::NotAllowed { .. } => "PNG, JPEG, GIF and WebP images, PDF and UTF-8 text can be attached",
        }
    }
}

/// Reads these files for a message, all or none: images decoded and encoded anew, secrets in text masked. It may block.
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

/// The same with files that were sent along, by name.
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

/// A file whose bytes are here.
struct InlineFile {
    /// What it is called in an error.
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

/// The bytes of a file, a little more than any may have at most. A pipe or a device is not waited for.
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
