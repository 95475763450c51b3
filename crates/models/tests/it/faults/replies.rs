//! P13: responses that are not from a model server: pages, redirects and other types.

use engine::FailureClass;
use models::{Model, ModelSet};

use super::{Fault, Is, MALFORMED, NETWORK, WIRES, check};
use crate::support::{Reply, answer, read, request_of, serve, sized};

/// The page of a captive portal.
const PORTAL: &str = "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body>data: Log in\n\n</body></html>\n";

const REPLIES: &[Fault] = &[
    ("a page, with status 200", |_| {
        Some((answer(200, "content-type: text/html\r\nconnection: close\r\n", PORTAL.as_bytes()), MALFORMED))
    }),
    ("a page that is declared as a stream", |_| {
        Some((answer(200, "content-type: text/event-stream\r\nconnection: close\r\n", PORTAL.as_bytes()), MALFORMED))
    }),
    ("a page, with status 503", |_| {
        let bytes = answer(503, "content-type: text/html\r\nconnection: close\r\n", PORTAL.as_bytes());
        Some((bytes, Is::Failed(FailureClass::Overloaded)))
    }),
    ("a page, with status 511", |_| {
        let bytes = answer(511, "content-type: text/html\r\nconnection: close\r\n", PORTAL.as_bytes());
        Some((bytes, Is::Failed(FailureClass::Server)))
    }),
    ("a redirect to another place", |_| {
        let headers = "location: http://portal.example/login\r\ncontent-length: 0\r\n";
        Some((answer(302, headers, b""), MALFORMED))
    }),
    ("a redirect that keeps the body", |_| {
        let headers = "location: http://127.0.0.1:1/v1\r\ncontent-length: 0\r\n";
        Some((answer(307, headers, b""), MALFORMED))
    }),
    ("no content", |_| Some((answer(204, "content-length: 0\r\n", b""), NETWORK))),
    ("plain text", |_| {
        Some((answer(200, "content-type: text/plain\r\nconnection: close\r\n", b"It works!"), MALFORMED))
    }),
    ("a stream that is declared as text", |wire| {
        let headers = "content-type: text/plain\r\nconnection: close\r\n";
        Some((answer(200, headers, wire.body.as_bytes()), Is::Whole))
    }),
    ("a stream that is declared as a page", |wire| {
        let headers = "content-type: text/html\r\nconnection: close\r\n";
        Some((answer(200, headers, wire.body.as_bytes()), Is::Whole))
    }),
    ("a stream without a type", |wire| Some((answer(200, "connection: close\r\n", wire.body.as_bytes()), Is::Whole))),
    ("an interim answer first", |wire| {
        let whole = answer(200, "connection: close\r\n", wire.body.as_bytes());
        Some(([b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".to_vec(), whole].concat(), Is::Whole))
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_p13_replies_that_are_not_an_answer() {
    check(REPLIES).await;
}

/// The same answer follows the answer again, on a connection that could serve the next request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_p13_a_repeated_answer_is_not_used_for_the_next_request() {
    for wire in &WIRES {
        let whole = wire.whole().await;
        let once = sized(wire.body.as_bytes());
        let (twice, next) = ([once.clone(), once].concat(), sized(wire.error.as_bytes()));
        let server = serve(move |number| Reply::Keep(if number == 0 { twice.clone() } else { next.clone() })).await;
        let model = ModelSet::new();
        assert_eq!(read(model.stream(request_of(wire.api, &server.base_url))).await, whole, "{:?}", wire.api);
        let next = read(model.stream(request_of(wire.api, &server.base_url))).await;
        assert_eq!(next.failure().class, FailureClass::Overloaded, "{:?}", wire.api);
        assert_eq!(server.seen.requests.lock().unwrap().len(), 2);
    }
}
