//! The response of a model, piece by piece, as the adapter of its format returns it. Signatures have that adapter's
//! form and contain the name of the model, so that a rule can tell where they come from.

use engine::{Attached, BlockOf, Part};
use models::Api;
use serde_json::json;

use super::served::Served;

/// A block of a response, in any format.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text {
        text: &'static str,
        is_signed: bool,
    },
    Reasoning {
        text: &'static str,
        is_signed: bool,
    },
    /// Reasoning that the provider hides.
    Hidden,
    Call {
        id: Id,
        tool: &'static str,
        arguments: &'static str,
    },
    Image {
        media_type: &'static str,
    },
}

/// The kind of id that a provider gives a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Id {
    /// In the form of its provider, unique for each call.
    Own,
    /// The call has no id.
    Missing,
    /// From the index in the response, so that the next response repeats it.
    ByIndex,
    /// With characters that other providers refuse.
    Odd,
    /// Longer than other providers accept.
    Long,
    /// The same for every call of this kind.
    Same,
}

/// A responding provider, and how many blocks of the session it has sent.
pub(crate) struct Speaker<'a> {
    pub(crate) served: Served,
    pub(crate) spoken: &'a mut u32,
    calls: u32,
    /// Whether the last item was reasoning, which the next item names.
    reasoned: bool,
}

impl<'a> Speaker<'a> {
    pub(crate) fn new(served: Served, spoken: &'a mut u32) -> Self {
        Self { served, spoken, calls: 0, reasoned: false }
    }

    /// The parts of this piece, in order. A stream may break between any two of them.
    pub(crate) fn say(&mut self, piece: &Piece) -> Vec<Part> {
        *self.spoken += 1;
        match piece {
            Piece::Text { text, is_signed } => {
                let mut parts = vec![Part::Text((*text).to_owned())];
                parts.extend(self.sign_text(text, *is_signed));
                parts
            }
            Piece::Reasoning { text, is_signed } => {
                let mut parts = vec![Part::Reasoning((*text).to_owned())];
                parts.extend(self.sign_reasoning(text, *is_signed));
                parts
            }
            Piece::Hidden => self.hidden(),
            Piece::Call { id, tool, arguments } => self.call(*id, tool, arguments),
            Piece::Image { media_type } => self.image(media_type),
        }
    }

    fn seal(&self) -> String {
        format!("{}#{}", self.served.name(), self.spoken)
    }

    fn mark(&mut self, prefix: &str) -> String {
        // An item that follows reasoning names it: the provider requires both or neither.
        let after = if std::mem::take(&mut self.reasoned) { "_reasoned" } else { "" };
        json!({ "id": format!("{prefix}_{}{after}", self.spoken) }).to_string()
    }

    fn sign_text(&mut self, text: &str, is_signed: bool) -> Option<Part> {
        let signature = match self.served.api {
            Api::OpenAiResponses => self.mark("msg"),
            Api::Gemini if is_signed => format!("{} {}", text.len(), self.seal()),
            _ => return None,
        };
        Some(Part::Signature { block: BlockOf::Text, signature })
    }

    fn sign_reasoning(&mut self, text: &str, is_signed: bool) -> Option<Part> {
        let signature = match self.served.api {
            Api::Anthropic => self.seal(),
            Api::Gemini if is_signed => format!("{} {}", text.len(), self.seal()),
            Api::OpenAiResponses => {
                self.reasoned = true;
                let summary = [json!({ "type": "summary_text", "text": text })];
                json!({ "type": "reasoning", "id": format!("rs_{}", self.spoken), "summary": summary,
                        "encrypted_content": self.seal() })
                .to_string()
            }
            _ => return None,
        };
        Some(Part::Signature { block: BlockOf::Reasoning, signature })
    }

    fn hidden(&mut self) -> Vec<Part> {
        let block = BlockOf::Reasoning;
        match self.served.api {
            Api::Anthropic => vec![Part::Signature { block, signature: format!("redacted:{}", self.seal()) }],
            _ => vec![Part::Reasoning("hm".to_owned())],
        }
    }

    fn call(&mut self, id: Id, tool: &str, arguments: &str) -> Vec<Part> {
        let index = self.calls;
        self.calls += 1;
        let provider_id = self.id(id, index);
        let part = |provider_id, name, arguments: &str| Part::Call {
            index,
            provider_id,
            name,
            arguments: arguments.to_owned(),
        };
        let name = Some(tool.to_owned());
        let block = BlockOf::Call(index);
        match self.served.api {
            Api::Gemini => {
                let mut parts = vec![part(provider_id, name, arguments)];
                let signature = format!("0 {}", self.seal());
                parts.extend((index == 0).then_some(Part::Signature { block, signature }));
                parts
            }
            Api::OpenAiResponses => {
                let signature = self.mark("fc");
                vec![part(provider_id, name, ""), part(None, None, arguments), Part::Signature { block, signature }]
            }
            _ => vec![part(provider_id, name, ""), part(None, None, arguments)],
        }
    }

    fn id(&self, id: Id, index: u32) -> Option<String> {
        let prefix = if self.served.api == Api::Anthropic { "toolu" } else { "call" };
        match id {
            Id::Own => Some(format!("{prefix}_01{}", self.spoken)),
            Id::Missing => None,
            Id::ByIndex => Some(format!("call_{index}")),
            Id::Odd => Some(format!("functions.ls:潮 {index}")),
            Id::Long => Some(format!("{prefix}_{}{}", "x".repeat(60), self.spoken)),
            Id::Same => Some("call".to_owned()),
        }
    }

    fn image(&mut self, media_type: &str) -> Vec<Part> {
        let mut parts = vec![];
        if self.served.api == Api::Gemini {
            let signature = format!("image {}", self.seal());
            parts.push(Part::Signature { block: BlockOf::Text, signature });
        }
        parts.push(Part::Image(Attached::new(media_type, "made.png", *b"image")));
        parts
    }
}
