//! What a conversation consists of, as a summary looks at it: texts and calls, without reasoning, signatures and images.

use models::{Cached, Message};

use super::OPENING;

/// One thing that was said or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// An earlier summary.
    Summary(String),
    /// The user.
    User(String),
    /// The model.
    Model(String),
    /// A call: the tool, its arguments as they were written.
    Call { tool: String, arguments: String },
    /// What a call gave back.
    Result { tool: String, text: String, is_error: bool },
}

/// A conversation as a list of these. `nothing` are texts of ours that say nothing of it.
pub(crate) fn told(messages: &[Cached<Message>], nothing: &[&str]) -> Vec<Told> {
    messages.iter().flat_map(|message| of(message)).filter(|told| !is_nothing(told, nothing)).collect()
}

fn of(message: &Message) -> Vec<Told> {
    match message {
        Message::User { text, files } => vec![match text.strip_prefix(OPENING) {
            Some(summary) => Told::Summary(summary.to_owned()),
            None => Told::User(with_files(text, files)),
        }],
        Message::Assistant(answer) => {
            let calls = answer.calls().map(|call| {
                let (tool, arguments) = (call.tool.to_string(), call.arguments.to_string());
                Told::Call { tool, arguments }
            });
            [Told::Model(answer.text())].into_iter().chain(calls).collect()
        }
        Message::Result { tool, text, is_error, files, .. } => {
            vec![Told::Result { tool: tool.to_string(), text: with_files(text, files), is_error: *is_error }]
        }
    }
}

fn with_files(text: &str, files: &[models::File]) -> String {
    let files = files.iter().flat_map(|file| ["\n[file: ", &file.name, "]"]);
    std::iter::once(text).chain(files).collect()
}

fn is_nothing(told: &Told, nothing: &[&str]) -> bool {
    match told {
        Told::Summary(text) | Told::Model(text) => text.trim().is_empty(),
        Told::User(text) => text.trim().is_empty() || nothing.contains(&text.as_str()),
        Told::Call { .. } | Told::Result { .. } => false,
    }
}
