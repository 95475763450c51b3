//! The one walk over a request that all wire formats share: its tools, its system prompt and its messages, each rendered
//! once. What may not live here: how an API writes one of them; that is its [`BodyFormat`].

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::ToolSpec;
use serde::Serialize;

use crate::endpoint::Api;
use crate::files::{SHOWN_BY_TOOLS, files_of_results};
use crate::model::{AssistantMessage, File, Message, Request};
use crate::normalize;
use crate::rendering::{Dialect, List, Object, items};

/// How one API writes the parts of a conversation, each as items of a list. What is written may depend on the part,
/// [`BodyFormat::details`] and `repeat` ([`normalize::repeats`]) only, because it is kept for later requests.
pub(crate) trait BodyFormat {
    const API: Api;
    /// Where the files of a tool's results go.
    const RESULT_FILES: ResultFiles;

    /// All else that affects the rendering, such as the model whose signatures are known.
    fn details(&self) -> String;
    fn tools(&self, tools: &[ToolSpec], list: &mut List<'_>);
    /// The system prompt, if it is an item of a list.
    fn system(&self, _system: &str, _list: &mut List<'_>) {}
    fn user(&self, text: &str, files: &[File], list: &mut List<'_>);
    fn assistant(&self, answer: &AssistantMessage, repeat: usize, list: &mut List<'_>);
    fn result(&self, result: &ResultMessage<'_>, repeat: usize, list: &mut List<'_>);
}

/// Where a format takes the images and files of a tool's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultFiles {
    /// In the result: [`BodyFormat::result`] writes them.
    InResult,
    /// In a user's message after the last of adjacent results, because a result is text only.
    AfterResults,
}

/// The result of a call ([`Message::Result`]).
pub(crate) struct ResultMessage<'a> {
    /// The id of the call, as its provider wrote it.
    pub(crate) provider_id: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) text: &'a str,
    pub(crate) is_error: bool,
    pub(crate) files: &'a [File],
}

/// A request whose parts are rendered.
pub(crate) struct Conversation {
    pub(crate) tools: Arc<[u8]>,
    pub(crate) system: Arc<[u8]>,
    /// One for each message of the request; empty if the format has nothing to write for it.
    pub(crate) messages: Vec<Arc<[u8]>>,
    /// By the index of the message that they follow.
    files: BTreeMap<usize, Arc<[u8]>>,
}

impl Conversation {
    pub(crate) fn render<F: BodyFormat>(format: &F, request: &Request) -> Self {
        let dialect = Dialect::new(F::API, &format.details());
        let write = |(message, repeat): (&crate::Cached<Message>, usize)| {
            message.items(&dialect.of_repeat(repeat), |message, list| write_message(format, message, repeat, list))
        };
        let repeats = normalize::repeats(&request.messages);
        Self {
            tools: request.tools.items(&dialect, |tools, list| format.tools(tools, list)),
            system: request.system.items(&dialect, |system, list| format.system(system, list)),
            messages: request.messages.iter().zip(repeats).map(write).collect(),
            files: match F::RESULT_FILES {
                ResultFiles::InResult => BTreeMap::new(),
                ResultFiles::AfterResults => files_after_results(format, request),
            },
        }
    }

    /// A document of `head`, the tools, and system prompt and messages as the list `name`. What changes least comes first, for
    /// the providers' caches.
    pub(crate) fn document(&self, head: &impl Serialize, name: &str) -> Vec<u8> {
        Object::document(head, &self.messages, |body| {
            self.write_tools(body);
            body.list(name, |list| {
                list.items(&self.system);
                for (at, message) in self.messages.iter().enumerate() {
                    list.items(message);
                    self.files.get(&at).into_iter().for_each(|files| list.items(files));
                }
            });
        })
    }

    /// The list of tools; an empty one is left out, because some providers refuse it.
    pub(crate) fn write_tools(&self, body: &mut Object<'_>) {
        if !self.tools.is_empty() {
            body.list("tools", |list| list.items(&self.tools));
        }
    }
}

fn write_message(format: &impl BodyFormat, message: &Message, repeat: usize, list: &mut List<'_>) {
    match message {
        Message::User { text, files } => format.user(text, files, list),
        Message::Assistant(answer) => format.assistant(answer, repeat, list),
        Message::Result { provider_id, tool, text, is_error, files } => {
            format.result(&ResultMessage { provider_id, tool, text, is_error: *is_error, files }, repeat, list);
        }
    }
}

fn files_after_results(format: &impl BodyFormat, request: &Request) -> BTreeMap<usize, Arc<[u8]>> {
    let files = (0..request.messages.len()).map(|at| (at, files_of_results(&request.messages, at)));
    let write = |(at, files): (usize, Vec<File>)| (at, items(|list| format.user(SHOWN_BY_TOOLS, &files, list)));
    files.filter(|(_, files)| !files.is_empty()).map(write).collect()
}
