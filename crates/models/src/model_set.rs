//! All adapters in one place: a request goes to the one for its endpoint's API.

use crate::endpoint::Api;
use crate::model::{Model, Request, SaidStream};
use crate::offline::Offline;
use crate::openai_chat::OpenAiChat;

/// Every adapter that is built in. Making one costs nothing: clients are made by the first request that needs them.
#[derive(Debug, Default)]
pub struct ModelSet {
    offline: Offline,
    openai_chat: OpenAiChat,
}

impl ModelSet {
    /// The set with the built-in model's own pace.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same set with another built-in model.
    pub fn with_offline(self, offline: Offline) -> Self {
        Self { offline, ..self }
    }

    /// The adapter for an API.
    pub fn model(&self, api: Api) -> &dyn Model {
        match api {
            Api::Offline => &self.offline,
            Api::OpenAiChat => &self.openai_chat,
        }
    }
}

impl Model for ModelSet {
    fn stream(&self, request: Request) -> SaidStream {
        self.model(request.endpoint.api).stream(request)
    }
}
