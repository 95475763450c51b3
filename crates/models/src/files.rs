//! How a file in a message is shown to a model.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::model::{File, Message};
use crate::rendering::Cached;

/// What a format has for it.
pub(crate) enum Shown<'a> {
    /// Told as text.
    Text(String),
    /// An image.
    Image(&'a File),
    /// A document that the provider reads itself (PDF).
    Document(&'a File),
}

impl File {
    /// As an image, as a document, or else as text: its own, or a note of what it is.
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

    /// What is told where a format cannot show it.
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

/// ModelEvent before the files of results, where results are text alone.
pub(crate) const SHOWN_BY_TOOLS: &str = "What the tools have shown:";

/// What the results up to this one show, if it is the last of those that stand together: nothing may come between them.
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
