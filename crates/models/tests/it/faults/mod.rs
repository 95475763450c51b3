//! Faults of an answer (P09 to P13 of the fault catalogue), each in every wire format through real sockets: no answer
//! counts as complete without the provider's own end mark, nothing is reported twice, and every fault has its class.
//! What may not live here: refusals, which are in `failures`, and faults that only the runtime's clock can end.

mod breaks;
mod calls;
mod connections;
mod frames;
mod replies;

use engine::FailureClass;
use models::{Api, Model, ModelSet};

use crate::support::{Answer, Reply, read, request_of, serve, sized};

/// A format with a recorded answer.
struct Wire {
    api: Api,
    /// A recorded answer with text and the provider's end mark.
    body: &'static str,
    /// A part of the first frame with text that no other frame contains.
    first: &'static str,
    /// A part of the frame with which the answer is complete.
    last: &'static str,
    /// The end of a frame.
    gap: &'static str,
    /// A frame with an error in the middle of an answer: there is no capacity.
    error: &'static str,
    /// A frame of an unknown kind.
    unknown: &'static str,
    /// Whether the format has an end mark. Gemini has none: older models send a finish reason with every frame.
    has_end_mark: bool,
}

const WIRES: [Wire; 5] = [
    Wire {
        api: Api::OpenAiChat,
        body: include_str!("../wire/text.txt"),
        first: "The tide",
        last: r#""finish_reason":"stop""#,
        gap: "\n\n",
        error: "data: {\"error\":{\"message\":\"The engine is currently overloaded\",\"type\":\"server_error\"}}\n\n",
        unknown: "event: news\ndata: {\"news\":[1]}\n\n",
        has_end_mark: true,
    },
    Wire {
        api: Api::OpenAiResponses,
        body: include_str!("../wire/responses_length.txt"),
        first: r#""delta":"Half a ""#,
        last: r#""type":"response.incomplete""#,
        gap: "\n\n",
        error: "event: error\ndata: {\"type\":\"error\",\"code\":\"server_is_overloaded\",\"message\":\"Try again later.\"}\n\n",
        unknown: "event: response.news\ndata: {\"type\":\"response.news\",\"item\":7}\n\n",
        has_end_mark: true,
    },
    Wire {
        api: Api::Anthropic,
        body: include_str!("../wire/anthropic/text.txt"),
        first: "The tide",
        last: "stop_reason\":\"end_turn",
        gap: "\n\n",
        error: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        unknown: "event: news\ndata: {\"type\":\"news\",\"index\":1}\n\n",
        has_end_mark: true,
    },
    Wire {
        api: Api::Gemini,
        body: include_str!("../gemini/interleaved.txt"),
        first: "One ",
        last: "finishReason",
        gap: "\n\n",
        error: "data: {\"error\":{\"code\":503,\"message\":\"The model is overloaded.\",\"status\":\"UNAVAILABLE\"}}\n\n",
        unknown: "event: news\ndata: {\"news\":[1]}\n\n",
        has_end_mark: false,
    },
    Wire {
        api: Api::Ollama,
        body: include_str!("../ollama/text.txt"),
        first: "Ten ",
        last: r#""done":true"#,
        gap: "\n",
        error: "{\"error\":\"model is overloaded\"}\n",
        unknown: "{\"news\":[1]}\n",
        has_end_mark: true,
    },
];

impl Wire {
    fn is_events(&self) -> bool {
        self.gap == "\n\n"
    }

    /// The number of bytes of the body from which the answer is complete: the end of the line with the finish reason.
    fn whole_at(&self) -> usize {
        let mark = self.body.find(self.last).unwrap();
        let line = self.body[mark..].find('\n').map_or(self.body.len(), |end| mark + end + 1);
        // A line with an object needs no line end.
        if self.is_events() { line } else { self.body.trim_end().len() }
    }

    /// The answer up to the end of its first frame with text, and the rest.
    fn halves(&self) -> (&'static str, &'static str) {
        let word = self.body.find(self.first).unwrap();
        let end = self.body[word..].find(self.gap).unwrap();
        self.body.split_at(word + end + self.gap.len())
    }

    async fn asked(&self, reply: impl Fn() -> Reply + Send + Sync + 'static) -> Answer {
        let server = serve(move |_| reply()).await;
        self.asked_at(&server.base_url).await
    }

    async fn asked_at(&self, base_url: &str) -> Answer {
        read(ModelSet::new().stream(request_of(self.api, base_url))).await
    }

    async fn sent(&self, bytes: Vec<u8>) -> Answer {
        self.asked(move || Reply::Close(bytes.clone())).await
    }

    /// The recorded answer without a fault.
    async fn whole(&self) -> Answer {
        let whole = self.sent(sized(self.body.as_bytes())).await;
        assert!(whole.end.as_ref().unwrap().is_ok() && !whole.text.is_empty(), "{:?}: {whole:?}", self.api);
        whole
    }
}

/// The expected result of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    /// The same answer as without the fault.
    Whole,
    /// A failure of this class, after the text before the fault.
    Failed(FailureClass),
}

const MALFORMED: Is = Is::Failed(FailureClass::Malformed);
const NETWORK: Is = Is::Failed(FailureClass::Network);

/// A fault: the bytes on the wire and the expected result; none if the format has no such fault.
type Fault = (&'static str, fn(&Wire) -> Option<(Vec<u8>, Is)>);

/// Sends every fault in every format.
async fn check(faults: &[Fault]) {
    let mut wrong = vec![];
    for wire in &WIRES {
        let whole = wire.whole().await;
        for (name, fault) in faults {
            let Some((bytes, is)) = fault(wire) else { continue };
            let answer = wire.sent(bytes).await;
            let fits = match (&answer.end, is) {
                (Some(Ok(_)), Is::Whole) => answer == whole,
                (Some(Err(failure)), Is::Failed(class)) => {
                    failure.class == class
                        && whole.text.starts_with(&answer.text)
                        && failure.message.lines().count() == 2
                        && !(name.contains("compressed") && failure.message.contains(char::REPLACEMENT_CHARACTER))
                }
                _ => false,
            };
            if !fits {
                wrong.push(format!("{:?}, {name}: {:?} after {:?}, not {is:?}", wire.api, answer.end, answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
