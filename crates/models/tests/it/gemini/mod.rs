//! The wire adapter for Google Gemini against canned bytes, through real sockets. The frames are written after the
//! pages ai.google.dev/api/generate-content (fields, finish reasons, usage),
//! ai.google.dev/gemini-api/docs/thought-signatures (where signatures are) and
//! ai.google.dev/gemini-api/docs/function-calling (ids, results with images).

mod conversation;
mod failures;

use engine::Usage;
use models::{Api, BlockContent, CallOf, ContentBlock, File, Model, ModelSet, Request};

use crate::support::cuts::{Canned, check_cuts, check_pieces};

use crate::support::{Answer, Reply, read, request_of, serve, sized};

const CALLS: &str = include_str!("calls.txt");
const INTERLEAVED: &str = include_str!("interleaved.txt");
const IMAGE: &str = include_str!("image.txt");

/// The bytes of the image in the answer.
const PNG_BYTES: usize = 70;

fn request(base_url: &str) -> Request {
    let mut request = request_of(Api::Gemini, base_url);
    "gemini-3-flash-preview".clone_into(&mut request.candidate.model);
    request
}

async fn replied(bytes: Vec<u8>) -> Answer {
    let server = serve(move |_| Reply::Close(bytes.clone())).await;
    read(ModelSet::new().stream(request(&server.base_url))).await
}

async fn answer_to(body: &str) -> Answer {
    replied(sized(body.as_bytes())).await
}

fn block(held: BlockContent, signature: Option<&str>) -> ContentBlock {
    ContentBlock { held, signature: signature.map(Into::into) }
}

fn call(id: &str, tool: &str, arguments: &str) -> BlockContent {
    BlockContent::Call(CallOf { provider_id: id.into(), tool: tool.into(), arguments: arguments.into() })
}

#[tokio::test]
async fn r69_reasoning_text_and_parallel_calls_come_with_their_signatures_and_usage() {
    let answer = answer_to(CALLS).await;
    let expected = [
        block(BlockContent::Reasoning("**Looking**\n\nFirst the 潮汐 folder.".into()), None),
        block(BlockContent::Text("I look into both.".into()), None),
        block(call("q1w2e3", "ls", r#"{"path":"src","deep":1.0}"#), Some("0 c2lnbmVkLW9uZQ==")),
        block(call("r4t5y6", "grep", r#"{"pattern":"TODO"}"#), None),
    ];
    assert_eq!(answer.blocks, expected);
    let usage = Usage { input: 176, cached: 1024, cache_written: 0, output: 95, reasoning: 64 };
    assert_eq!(answer.usage(), usage);
}

#[tokio::test]
async fn r69_alternating_blocks_keep_their_order_and_their_signatures() {
    let answer = answer_to(INTERLEAVED).await;
    let expected = [
        block(BlockContent::Reasoning("Read it.".into()), Some("8 dGhvdWdodA==")),
        block(BlockContent::Text("One more: ".into()), Some("6 dGV4dA==")),
        block(call("u7i8o9", "read", "{}"), Some("0 c2lnbmVkLXR3bw==")),
        block(BlockContent::Text("and that.".into()), None),
    ];
    assert_eq!(answer.blocks, expected);
}

#[tokio::test]
async fn r69_an_image_is_complete_beside_the_text() {
    let answer = answer_to(IMAGE).await;
    assert_eq!(answer.text, "Here 🦀 it is.\n");
    let File { media_type, name, bytes } = image(&answer);
    assert_eq!((&*media_type, &*name, bytes.len()), ("image/png", "image-1.png", PNG_BYTES));
    assert!(bytes.starts_with(b"\x89PNG"));
}

fn image(answer: &Answer) -> File {
    let image =
        |block: &ContentBlock| if let BlockContent::Image(file) = &block.held { Some(file.clone()) } else { None };
    answer.blocks.iter().find_map(image).unwrap()
}

/// The API has no end mark: the answer is complete with the line of the finish reason.
fn canned(body: &str) -> Canned<'_> {
    let finish = body.find(r#""finishReason""#).unwrap();
    Canned { body, whole_at: Some(finish + body[finish..].find('\n').unwrap() + 1) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_c3_p09_an_answer_interrupted_at_every_byte() {
    for body in [CALLS, INTERLEAVED, IMAGE] {
        check_cuts(&canned(body), request).await;
    }
}

#[tokio::test]
async fn c5_pieces_of_any_size_give_the_same_answer() {
    for body in [CALLS, INTERLEAVED, IMAGE] {
        check_pieces(body, request).await;
    }
}

#[tokio::test]
async fn unknown_parts_and_fields_are_skipped() {
    let body = r#"data: {"candidates":[{"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"1"}},{"text":"a","more":[1]},{"inlineData":{"mimeType":"audio/wav","data":"AA=="}},{"thought":true,"inlineData":{"mimeType":"image/png","data":"AA=="}}]},"safetyRatings":[],"finishReason":"SOMETHING_NEW"}],"promptFeedback":{},"news":{}}

data: [DONE]

"#;
    let answer = answer_to(body).await;
    assert_eq!(answer.blocks, [block(BlockContent::Text("a".into()), None)]);
    assert!(answer.usage().input > 0, "estimated");
}

#[tokio::test]
async fn a_call_needs_neither_id_nor_arguments_and_an_image_of_a_megabyte_fits() {
    let body = r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"ls"}}]},"finishReason":"STOP"}]}"#;
    let answer = answer_to(&format!("{body}\n\n")).await;
    assert_eq!(answer.blocks, [block(call("", "ls", "{}"), None)]);
    let data = "A".repeat(2 << 20);
    let part = format!(r#"{{"inlineData":{{"mimeType":"image/webp","data":"{data}"}}}}"#);
    let body = format!(r#"data: {{"candidates":[{{"content":{{"parts":[{part}]}},"finishReason":"STOP"}}]}}"#);
    assert_eq!(image(&answer_to(&format!("{body}\n\n")).await).bytes.len(), 3 << 19);
}
