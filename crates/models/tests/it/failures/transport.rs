//! Faults below the answer, each on a real socket and in every format: the class is `network`, and the message names
//! the server and what to check. Also errors after text.

use engine::FailureClass;
use models::{Api, Model, ModelSet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::KEY;
use crate::support::{Answer, CLOSED, Reply, answer, ask, read, request_of, until_close};

const FORMATS: [Api; 5] = [Api::OpenAiChat, Api::OpenAiResponses, Api::Anthropic, Api::Gemini, Api::Ollama];

/// A server that accepts each connection and then does this with it.
async fn serve<F: Future<Output = ()> + Send + 'static>(act: fn(TcpStream) -> F) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 4 << 10];
            if socket.read(&mut request).await.is_ok() {
                tokio::spawn(act(socket));
            }
        }
    });
    address.to_string()
}

/// Sends a request in every format; each ends with a network failure that contains this text.
async fn check(base_url: &str, says: &str) {
    for api in FORMATS {
        let answer = read(ModelSet::new().stream(request_of(api, base_url))).await;
        let failure = answer.failure();
        assert_eq!((failure.class, failure.status), (FailureClass::Network, None), "{api:?}: {failure:?}");
        assert!(failure.message.contains(says), "{api:?}: {}", failure.message);
        assert!(
            failure.message.contains("\nIs the server running? Check the network, and `base_url`"),
            "{}",
            failure.message
        );
        assert_eq!(failure.message.lines().count(), 2);
        assert!(!format!("{failure:?}").contains(KEY), "{failure:?}");
    }
}

#[tokio::test]
async fn r51_no_server_listens() {
    check(&format!("http://{CLOSED}/v1"), &format!("acme could not be reached at http://{CLOSED}/v1/")).await;
}

#[tokio::test]
async fn r51_a_name_that_does_not_resolve() {
    // The label is too long to be sent to any name server.
    let host = format!("{}.invalid", "x".repeat(64));
    check(&format!("http://{host}:1/v1"), &format!("acme could not be reached at http://{host}:1/v1/")).await;
}

#[tokio::test]
async fn r51_a_server_without_tls() {
    let address = serve(|mut socket| async move {
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    });
    let address = address.await;
    check(&format!("https://{address}/v1"), &format!("acme could not be reached at https://{address}/v1/")).await;
}

#[tokio::test]
async fn r51_closed_before_the_first_byte() {
    let address = serve(|socket| async move { drop(socket) }).await;
    check(&format!("http://{address}/v1"), &format!("acme did not answer at http://{address}/v1/")).await;
}

#[tokio::test]
async fn r51_another_protocol() {
    let address = serve(|mut socket| async move {
        let _ = socket.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").await;
    });
    let address = address.await;
    check(&format!("http://{address}/v1"), &format!("acme did not answer at http://{address}/v1/")).await;
}

#[tokio::test]
async fn r51_reset_in_mid_answer() {
    let address = serve(|mut socket| async move {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n").await;
        // Closing without lingering resets the connection.
        let _ = socket.set_zero_linger();
    });
    check(&format!("http://{}/v1", address.await), "acme ended the stream before its end mark").await;
}

#[tokio::test]
async fn r51_a_body_shorter_than_its_length() {
    let address = serve(|mut socket| async move {
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n\n").await;
    });
    check(&format!("http://{}/v1", address.await), "acme ended the stream before its end mark").await;
}

async fn answer_to(events: &str) -> Answer {
    let bytes = until_close(events.as_bytes());
    ask(&ModelSet::new(), move || Reply::Close(bytes.clone())).await
}

#[tokio::test]
async fn r51_comments_of_a_relay_do_not_count_and_its_error_is_reported_after_text() {
    const WAITING: &str = ": OPENROUTER PROCESSING\n\n";
    let waited = answer_to(&WAITING.repeat(3)).await;
    assert_eq!((waited.opened, waited.failure().class), (false, FailureClass::Network));

    let words = r#"data: {"choices":[{"delta":{"content":"So far"}}]}"#;
    let of_frame = r#"data: {"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"slow down, try again in 3s\"}}"}},"choices":[{"finish_reason":"error"}]}"#;
    let of_choice =
        r#"data: {"choices":[{"finish_reason":"error","error":{"code":429,"message":"slow down, try again in 3s"}}]}"#;
    for error in [of_frame, of_choice] {
        let answer = answer_to(&format!("{WAITING}{words}\n\n{WAITING}{error}\n\ndata: [DONE]\n\n")).await;
        let failure = answer.failure();
        assert_eq!((answer.text.as_str(), failure.class), ("So far", FailureClass::RateLimit));
        assert_eq!((failure.status, failure.retry_after_ms), (Some(429), Some(3_000)));
        assert!(failure.message.contains("slow down"), "{}", failure.message);
    }
    let mute = answer_to(&format!("{words}\n\ndata: {{\"choices\":[{{\"finish_reason\":\"error\"}}]}}\n\n")).await;
    assert_eq!(mute.failure().class, FailureClass::Server);
}

#[tokio::test]
async fn r51_headers_outrank_the_body_in_every_format() {
    const SPENT: &str = "x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 6m0s\r\n";
    let sentence = r#"{"error":{"message":"Please try again in 20s."}}"#;
    let table = [
        (429, format!("retry-after-ms: 1500\r\nretry-after: 9\r\n{SPENT}"), sentence, Some(1_500)),
        (429, format!("retry-after: 9\r\n{SPENT}"), sentence, Some(9_000)),
        (
            429,
            "date: Wed, 21 Oct 2026 07:28:00 GMT\r\nretry-after: Wed, 21 Oct 2026 07:28:30 GMT\r\n".to_owned(),
            sentence,
            Some(30_000),
        ),
        (429, format!("retry-after: soon\r\n{SPENT}"), sentence, Some(20_000)),
        (429, SPENT.to_owned(), "", Some(360_000)),
        (503, SPENT.to_owned(), "", None),
        (
            429,
            "date: Wed, 21 Oct 2026 07:28:00 GMT\r\nretry-after: Wed, 21 Oct 2026 07:27:00 GMT\r\n".to_owned(),
            "",
            Some(0),
        ),
        (429, "retry-after: 0\r\n".to_owned(), sentence, Some(0)),
        (429, "retry-after: 1000000000\r\n".to_owned(), "", Some(24 * 60 * 60 * 1000)),
        (429, "retry-after: -1\r\n".to_owned(), "", None),
    ];
    for (status, headers, body, expected) in table {
        let bytes = answer(status, &format!("{headers}connection: close\r\n"), body.as_bytes());
        let server = crate::support::serve(move |_| Reply::Close(bytes.clone())).await;
        for api in FORMATS {
            let answer = read(ModelSet::new().stream(request_of(api, &server.base_url))).await;
            let failure = answer.failure();
            assert_eq!((failure.status, failure.retry_after_ms), (Some(status), expected), "{api:?}: {headers}");
        }
    }
}
