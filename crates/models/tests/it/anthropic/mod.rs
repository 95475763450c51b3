//! The wire adapter for Anthropic Messages through real sockets. The answers in `../wire/anthropic` are written after
//! the provider's pages "Streaming messages", "Extended thinking" and "Prompt caching" (platform.claude.com/docs).

mod conversation;
mod cuts;
mod failures;

use engine::Usage;
use models::{Api, BlockContent, CallOf, ContentBlock, Model, ModelSet};

use crate::support::{Answer, Reply, chunked, read, request_of, serve, sized};

const CALLS: &str = include_str!("../wire/anthropic/calls.txt");
const TEXT: &str = include_str!("../wire/anthropic/text.txt");
const OVERLOADED: &str = include_str!("../wire/anthropic/overloaded.txt");
const REFUSAL: &str = include_str!("../wire/anthropic/refusal.txt");

const ANSWER: &str = "The tide is 潮汐 and 🦀s come.\nLine \"two\".";

async fn ask(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Answer {
    let server = serve(move |_| reply()).await;
    read(ModelSet::new().stream(request_of(Api::Anthropic, &server.base_url))).await
}

async fn answer_to(body: &str) -> Answer {
    let bytes = sized(body.as_bytes());
    ask(move || Reply::Close(bytes.clone())).await
}

fn call(id: &str, tool: &str, arguments: &str) -> BlockContent {
    BlockContent::Call(CallOf { provider_id: id.into(), tool: tool.into(), arguments: arguments.into() })
}

#[tokio::test]
async fn r12_thinking_text_and_parallel_calls_arrive_in_order_with_their_signatures() {
    let answer = answer_to(CALLS).await;
    let reasoning = |text: &str| BlockContent::Reasoning(text.into());
    let expected = [
        (reasoning("Two places to look: 潮."), Some("EqQBCgIYAhIMfirst+/==")),
        (BlockContent::Text("I look at both.".into()), None),
        (call("toolu_01A", "ls", r#"{"path":"src","x":1.0}"#), None),
        (reasoning(""), Some("redacted:EmwKAhgBEgyhidden==")),
        (reasoning(""), Some("EuYBCgIYunseen==")),
        (call("toolu_01B", "look", "{}"), None),
    ];
    let expected = expected.map(|(held, signature)| ContentBlock { held, signature: signature.map(Into::into) });
    assert_eq!(answer.blocks, expected);
    assert_eq!(answer.usage(), Usage { input: 12, cached: 0, cache_written: 1800, output: 90, reasoning: 41 });
}

/// A block that the output limit cuts ends like any other. So a call without input has none, or lost it: what follows it
/// says which.
#[tokio::test]
async fn r13_a_call_without_input_is_whole_unless_the_answer_was_cut_there() {
    let cut = CALLS.replace(r#""stop_reason":"tool_use""#, r#""stop_reason":"max_tokens""#);
    let held = |answer: &Answer, at: usize| answer.blocks[at].held.clone();
    let answer = answer_to(&cut).await;
    assert_eq!(held(&answer, 2), call("toolu_01A", "ls", r#"{"path":"src","x":1.0}"#));
    assert_eq!(held(&answer, 5), call("toolu_01B", "look", ""), "the last one");
    // Another block follows it.
    let is_input = |line: &&str| line.starts_with(r#"data: {"type":"content_block_delta","index":2,"#);
    let bare = cut.lines().filter(|line| !is_input(line)).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(held(&answer_to(&bare).await, 2), call("toolu_01A", "ls", "{}"));
    // The stream broke before the provider said why the answer ends.
    let (broken, _) = CALLS.split_once("event: message_delta").unwrap();
    assert_eq!(held(&answer_to(broken).await, 5), call("toolu_01B", "look", ""));
}

#[tokio::test]
async fn r66_tokens_from_the_cache_are_counted_separately() {
    let answer = answer_to(TEXT).await;
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), (ANSWER, "Ten legs."));
    assert_eq!(answer.usage(), Usage { input: 7, cached: 1812, cache_written: 140, output: 21, reasoning: 0 });
}

#[tokio::test]
async fn c5_pieces_of_any_size_give_the_same() {
    for body in [CALLS, TEXT] {
        let whole = answer_to(body).await;
        whole.usage();
        for size in [1, 2, 3, 7, 64, body.len()] {
            let bytes = chunked(body.as_bytes(), size);
            assert_eq!(ask(move || Reply::Keep(bytes.clone())).await, whole, "chunks of {size}");
        }
    }
}

#[tokio::test]
async fn unknown_events_blocks_and_fields_are_skipped() {
    let whole = answer_to(TEXT).await;
    whole.usage();
    let unknown = [
        r#"{"type":"ping","later":null}"#,
        r#"{"type":"something_new","index":1,"delta":{"text":"no"}}"#,
        r#"{"type":"content_block_start","index":9,"content_block":{"type":"server_tool_use","id":"s","name":"web","input":{}}}"#,
        r#"{"type":"content_block_delta","index":9,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"cited_text":"no"}}}"#,
        r#"{"type":"content_block_stop","index":9}"#,
        r#"{"other":1}"#,
    ];
    let begin = TEXT.find("event: content_block_start").unwrap();
    for event in unknown {
        let body = format!("{}data: {event}\n\n{}", &TEXT[..begin], &TEXT[begin..]);
        assert_eq!(answer_to(&body).await, whole, "{event}");
    }
}

#[tokio::test]
async fn a_call_that_is_complete_at_its_start_is_emitted_once() {
    let body = CALLS.replace(r#""name":"ls","input":{}"#, r#""name":"ls","input":{"path":"a"}"#);
    assert_eq!(answer_to(&body).await.blocks[2].held, call("toolu_01A", "ls", r#"{"path":"a"}"#));
}

#[tokio::test]
async fn c3_a_stop_reason_ends_the_answer_without_the_end_mark() {
    let cut = &TEXT[..TEXT.find("event: message_stop").unwrap()];
    let answer = answer_to(cut).await;
    assert_eq!(answer, answer_to(TEXT).await);
    answer.usage();
}
