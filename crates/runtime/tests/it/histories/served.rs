//! The models that answer in a history and that its request is rendered for: for each wire format, the models whose
//! requests differ.

use std::sync::Arc;

use engine::{Candidate, Thinking, ToolSpec};
use models::{Api, Cached, Endpoint, Message, ModelSet, Request};
use serde_json::Value;

/// A model at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) api: Api,
    pub(crate) provider: &'static str,
    pub(crate) model: &'static str,
    pub(crate) base_url: &'static str,
    pub(crate) thinking: Option<Thinking>,
}

const fn served(
    api: Api,
    provider: &'static str,
    model: &'static str,
    base_url: &'static str,
    thinking: Option<Thinking>,
) -> Served {
    Served { api, provider, model, base_url, thinking }
}

/// All models of the histories.
pub(crate) const SERVED: [Served; 9] = [
    served(Api::Anthropic, "anthropic", "claude-sonnet-5", "https://api.anthropic.com/v1", Some(Thinking::Medium)),
    served(Api::Anthropic, "anthropic", "claude-haiku-4-5", "https://api.anthropic.com/v1", Some(Thinking::Low)),
    served(Api::OpenAiChat, "openai", "gpt-4.1", "https://api.openai.com/v1", None),
    served(Api::OpenAiChat, "deepseek", "deepseek-reasoner", "https://api.deepseek.com/v1", None),
    served(Api::OpenAiResponses, "openai", "gpt-5.4", "https://api.openai.com/v1", Some(Thinking::High)),
    served(Api::OpenAiResponses, "openai", "gpt-4.1-mini", "https://api.openai.com/v1", None),
    served(Api::Gemini, "google", "gemini-2.5-flash", "https://generativelanguage.googleapis.com/v1beta", None),
    served(
        Api::Gemini,
        "google",
        "gemini-3.5-flash",
        "https://generativelanguage.googleapis.com/v1beta",
        Some(Thinking::High),
    ),
    served(Api::Ollama, "ollama", "qwen3:8b", "http://localhost:11434", Some(Thinking::Low)),
];

impl Served {
    /// The model as a candidate of a run.
    pub(crate) fn candidate(&self) -> Candidate {
        Candidate {
            provider: self.provider.to_owned(),
            model: self.model.to_owned(),
            profile: None,
            context_window: 200_000,
            max_output: 8_192,
            thinking: self.thinking,
            images: self.provider != "deepseek",
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        }
    }

    /// Its name in signatures: `PROVIDER/MODEL`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }

    /// The request that it receives.
    pub(crate) fn sent(&self, system: &str, messages: &[Cached<Message>], tools: &Cached<Arc<[ToolSpec]>>) -> Sent {
        let request = Request {
            candidate: self.candidate(),
            system: Cached::from(Arc::from(system)),
            messages: messages.to_vec(),
            tools: tools.clone(),
            endpoint: Endpoint::new(self.api, self.base_url, None),
            continues: false,
            cache_key: None,
            output_schema: None,
        };
        let body = serde_json::from_slice(&ModelSet::body(&request)).expect("a body is JSON");
        Sent { served: *self, body }
    }
}

/// The body of a request, and its model.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) served: Served,
    pub(crate) body: Value,
}
