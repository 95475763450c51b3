//! Rendering a request of 200,000 tokens: the first time, and again in a conversation that has sent the previous
//! request.

use std::sync::Arc;
use std::time::Instant;

use engine::{Candidate, estimate_tokens};
use models::{Api, AssistantMessage, Cached, CallOf, Endpoint, Message, ModelSet, Request};

use super::table::{Line, Row, Samples, Target};
use model_server::prose::Prose;

/// Length of a request, tokens of four bytes.
const TOKENS: u64 = 200_000;
/// Bytes of a message, and of the result of a call.
const TEXT_BYTES: usize = 600;
const OUTPUT_BYTES: usize = 2_000;
/// Conversations that are measured.
const TIMES: usize = 25;

/// Writes the body of a request in one wire format.
type Render = fn(&Request) -> Vec<u8>;

pub(super) fn measure() -> Vec<Line> {
    lines("openai-chat: rendering the next request of 200,000 tokens", "the same, nothing rendered yet", ModelSet::body)
}

fn lines(next: &'static str, first: &'static str, render: Render) -> Vec<Line> {
    let times: Vec<_> = (0..TIMES as u64).map(|seed| times(seed, render)).collect();
    let row = |what, target, of: &dyn Fn(&(f64, f64)) -> f64| {
        Line::from(Row { what, target, measured: Samples::new("ms", times.iter().map(of).collect()) })
    };
    vec![row(next, Target::AtMost(2.0), &|times| times.1), row(first, Target::None, &|times| times.0)]
}

/// Milliseconds of the first request of a conversation, and of the one after it, which is one round longer.
fn times(seed: u64, render: Render) -> (f64, f64) {
    let mut prose = Prose::new(seed);
    let mut request = request(&mut prose);
    while estimate_tokens(request.messages.iter().map(|message| message.bytes() as u64).sum()) < TOKENS {
        round(&mut request, &mut prose);
    }
    let first = milliseconds(&request, render);
    round(&mut request, &mut prose);
    (first, milliseconds(&request, render))
}

fn milliseconds(request: &Request, render: Render) -> f64 {
    let started = Instant::now();
    let body = render(request);
    let took = started.elapsed();
    assert!(estimate_tokens(body.len() as u64) >= TOKENS, "the whole request is rendered");
    took.as_secs_f64() * 1e3
}

/// A question, a call, its result, an answer.
fn round(request: &mut Request, prose: &mut Prose) {
    let provider_id: Arc<str> = format!("call_{}", request.messages.len()).into();
    let tool: Arc<str> = "read".into();
    let call =
        CallOf { provider_id: provider_id.clone(), tool: tool.clone(), arguments: r#"{"path":"notes.txt"}"#.into() };
    let text = prose.text(OUTPUT_BYTES).into();
    let round = [
        Message::user(prose.text(TEXT_BYTES)),
        Message::Assistant(AssistantMessage::plain(None, None, vec![call])),
        Message::Result { provider_id, tool, text, is_error: false, files: vec![] },
        Message::Assistant(AssistantMessage::plain(None, Some(prose.text(TEXT_BYTES).into()), vec![])),
    ];
    request.messages.extend(round.map(Cached::from));
}

fn request(prose: &mut Prose) -> Request {
    Request {
        candidate: Candidate {
            provider: "scripted".into(),
            model: "wire".into(),
            profile: None,
            context_window: 2 * TOKENS,
            max_output: 8_192,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        },
        system: Cached::from(Arc::from(prose.text(OUTPUT_BYTES))),
        messages: vec![],
        tools: Cached::from(tools::specs()),
        endpoint: Endpoint::new(Api::OpenAiChat, "http://localhost/v1".to_owned(), None),
        continues: false,
        cache_key: None,
        output_schema: None,
    }
}
