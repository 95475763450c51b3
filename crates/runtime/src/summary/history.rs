//! A conversation as a summary sees it: texts and calls, without reasoning, signatures and images.

use models::{Cached, Message};

use super::OPENING;

/// One message, call or result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HistoryItem {
    /// The summary of an earlier compaction.
    Summary(String),
    /// A message of the user.
    User(String),
    /// A text of the model.
    Model(String),
    /// A call: the tool, and its arguments as they were written.
    Call { tool: String, arguments: String },
    /// The result of a call.
    Result { tool: String, text: String, is_error: bool },
}

/// Converts messages to these items. `nothing` are notes of limulus, which say nothing about the conversation.
pub(crate) fn history_items(messages: &[Cached<Message>], nothing: &[&str]) -> Vec<HistoryItem> {
    messages.iter().flat_map(|message| of(message)).filter(|item| !is_nothing(item, nothing)).collect()
}

fn of(message: &Message) -> Vec<HistoryItem> {
    match message {
        Message::User { text, files } => vec![match text.strip_prefix(OPENING) {
            Some(summary) => HistoryItem::Summary(summary.to_owned()),
            None => HistoryItem::User(with_files(text, files)),
        }],
        Message::Assistant(answer) => {
            let calls = answer.calls().map(|call| {
                let (tool, arguments) = (call.tool.to_string(), call.arguments.to_string());
                HistoryItem::Call { tool, arguments }
            });
            [HistoryItem::Model(answer.text())].into_iter().chain(calls).collect()
        }
        Message::Result { tool, text, is_error, files, .. } => {
            vec![HistoryItem::Result { tool: tool.to_string(), text: with_files(text, files), is_error: *is_error }]
        }
    }
}

fn with_files(text: &str, files: &[models::File]) -> String {
    let files = files.iter().flat_map(|file| ["\n[file: ", &file.name, "]"]);
    std::iter::once(text).chain(files).collect()
}

fn is_nothing(item: &HistoryItem, nothing: &[&str]) -> bool {
    match item {
        HistoryItem::Summary(text) | HistoryItem::Model(text) => text.trim().is_empty(),
        HistoryItem::User(text) => text.trim().is_empty() || nothing.contains(&text.as_str()),
        HistoryItem::Call { .. } | HistoryItem::Result { .. } => false,
    }
}
