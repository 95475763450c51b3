//! Converts a file of a message for a model.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::{File, Message};
use crate::rendering::Cached;

/// The form in which a format can send the file.
pub(crate) enum Shown<'a> {
    /// As text.
    Text(String),
    /// As an image.
    Image(&'a File),
    /// As a document that the provider reads itself (PDF).
    Document(&'a File),
}

impl File {
    /// As an image or a document if the format supports it, else as text: the file's text, or a note that describes the file.
    pub(crate) fn shown(&self) -> Shown<'_> {
        let name = &self.name;
        match &*self.media_type {
            media_type if media_type.starts_with("image/") => Shown::Image(self),
            "application/pdf" => Shown::Document(self),
            media_type => Shown::Text(match std::str::from_utf8(&self.bytes) {
                Ok(text) => format!("<file name=\"{name}\">\n{text}\n</file>"),
                Err(_) => format!("[file {name}, {media_type}, {} bytes: it cannot be shown]", self.bytes.len()),
            }),
        }
    }

    /// The text for a format that cannot send the file.
    pub(crate) fn note(&self) -> String {
        format!("[{} {}, {} bytes: this API cannot show it]", self.media_type, self.name, self.bytes.len())
    }

    /// Its bytes in base64.
    pub(crate) fn base64(&self) -> String {
        STANDARD.encode(&self.bytes)
    }

    /// Its bytes as a `data:` address.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64())
    }
}

/// The text before the files of results, for formats whose results are text only.
pub(crate) const SHOWN_BY_TOOLS: &str = "What the tools have shown:";

/// The files of a group of adjacent results, if this is the last of the group: nothing may come between the results.
pub(crate) fn files_of_results(messages: &[Cached<Message>], at: usize) -> Vec<File> {
    let files = |message: &'_ Cached<Message>| match &**message {
        Message::Result { files, .. } => Some(files.clone()),
        Message::User { .. } | Message::Assistant(_) => None,
    };
    if messages.get(at + 1).is_some_and(|next| matches!(&**next, Message::Result { .. })) {
        return vec![];
    }
    let mut groups: Vec<_> = messages[..=at].iter().rev().map_while(files).collect();
    groups.reverse();
    groups.concat()
}
