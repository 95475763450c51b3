//! A model server for these tests, with real sockets and canned bytes, and a reader of whole streams, for every format.

pub(crate) mod cuts;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{BlockOf, Candidate, Failure, Part};
use futures_util::StreamExt;
use models::{
    Api, BlockContent, Cached, CallOf, ContentBlock, Endpoint, File, Message, Model, ModelEvent, Request,
    ResponseStream, Secret,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// An address on which no server listens: the system never assigns this port by itself.
pub(crate) const CLOSED: &str = "127.0.0.1:1";

/// How the server answers a request.
pub(crate) enum Reply {
    /// These bytes, then the connection is closed.
    Close(Vec<u8>),
    /// These bytes; the connection stays open for the next request.
    Keep(Vec<u8>),
    /// These bytes, then nothing until the client disconnects.
    Hang(Vec<u8>),
    /// These bytes, then the connection is reset.
    Reset(Vec<u8>),
}

pub(crate) struct Server {
    pub(crate) base_url: String,
    pub(crate) seen: Arc<Seen>,
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    /// Heads and bodies of the requests.
    pub(crate) requests: Mutex<Vec<String>>,
    /// Notified when the client of a `Hang` disconnects.
    pub(crate) gone: Notify,
}

/// Starts a server; `reply` gets the number of each request, from 0.
pub(crate) async fn serve(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (seen, reply) = (Arc::new(Seen::default()), Arc::new(reply));
    let shared = seen.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(connection(socket, shared.clone(), reply.clone()));
        }
    });
    Server { base_url, seen }
}

async fn connection(mut socket: TcpStream, seen: Arc<Seen>, reply: Arc<impl Fn(usize) -> Reply>) {
    socket.set_nodelay(true).unwrap();
    while let Some(request) = request(&mut socket).await {
        let number = {
            let mut requests = seen.requests.lock().unwrap();
            requests.push(request);
            requests.len() - 1
        };
        match reply(number) {
            Reply::Keep(bytes) => socket.write_all(&bytes).await.unwrap(),
            Reply::Close(bytes) => {
                // The client may disconnect before the end, for example if the answer is too long.
                let _ = socket.write_all(&bytes).await;
                let _ = socket.shutdown().await;
                return;
            }
            Reply::Reset(bytes) => {
                let _ = socket.write_all(&bytes).await;
                // Closing without lingering resets the connection.
                let _ = socket.set_zero_linger();
                return;
            }
            Reply::Hang(bytes) => {
                socket.write_all(&bytes).await.unwrap();
                let _ = socket.read(&mut [0; 16]).await;
                seen.gone.notify_one();
                return;
            }
        }
    }
}

async fn request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text.into_owned());
            }
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

const STREAM: &str = "content-type: text/event-stream; charset=utf-8\r\n";

/// An answer that ends with its connection.
pub(crate) fn until_close(body: &[u8]) -> Vec<u8> {
    answer(200, &format!("{STREAM}connection: close\r\n"), body)
}

/// An answer with its length.
pub(crate) fn sized(body: &[u8]) -> Vec<u8> {
    answer(200, &format!("{STREAM}content-length: {}\r\n", body.len()), body)
}

/// An answer in chunks of this many bytes.
pub(crate) fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut chunks: Vec<u8> = Vec::new();
    for chunk in body.chunks(size) {
        chunks.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunks.extend_from_slice(chunk);
        chunks.extend_from_slice(b"\r\n");
    }
    chunks.extend_from_slice(b"0\r\n\r\n");
    answer(200, &format!("{STREAM}transfer-encoding: chunked\r\n"), &chunks)
}

pub(crate) fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {status} Status\r\n{headers}\r\n").as_bytes(), body].concat()
}

/// A request for chat completions.
pub(crate) fn request_to(base_url: &str) -> Request {
    request_of(Api::OpenAiChat, base_url)
}

/// A request in this format.
pub(crate) fn request_of(api: Api, base_url: &str) -> Request {
    Request {
        candidate: Candidate {
            provider: "acme".to_owned(),
            model: "m1".to_owned(),
            profile: Some("first".to_owned()),
            context_window: 100_000,
            max_output: 4_096,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        },
        system: Cached::from(Arc::from("be brief")),
        messages: vec![Cached::from(Message::user("hi"))],
        tools: Cached::from(vec![]),
        endpoint: Endpoint::new(api, base_url, Some(Secret::new("canary-key-1234"))),
        continues: false,
        cache_key: None,
        output_schema: None,
    }
}

/// All events of a stream.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) opened: bool,
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Id, name and arguments of each call.
    pub(crate) calls: Vec<(String, String, String)>,
    /// All content in the order of the stream, with the signatures.
    pub(crate) blocks: Vec<ContentBlock>,
    /// The end of the stream; none before it ends.
    pub(crate) end: Option<Result<engine::Usage, Failure>>,
}

/// Reads a stream to its end and checks that `Opened` comes once and first, and the end once and last.
pub(crate) async fn read(mut stream: ResponseStream) -> Answer {
    let mut answer = Answer::default();
    while let Some(event) = stream.next().await {
        assert!(answer.end.is_none(), "nothing follows the end: {event:?}");
        match event {
            Ok(ModelEvent::Opened) => assert!(!std::mem::replace(&mut answer.opened, true), "opened twice"),
            Ok(ModelEvent::Part(part)) => {
                assert!(answer.opened, "a part before the opening");
                answer.take(part);
            }
            Ok(ModelEvent::Ended { usage, .. }) => answer.end = Some(Ok(usage)),
            Err(failure) => answer.end = Some(Err(failure)),
        }
    }
    assert!(answer.end.is_some(), "a stream always ends with a result");
    answer
}

impl Answer {
    fn take(&mut self, part: Part) {
        match part {
            Part::Text(text) => {
                self.text += &text;
                self.extend(BlockContent::Text(text.into()));
            }
            Part::Reasoning(text) => {
                self.reasoning += &text;
                self.extend(BlockContent::Reasoning(text.into()));
            }
            Part::Signature { block, signature } => self.sign(block, &signature),
            Part::Image(image) => {
                let (media_type, name) = (image.media_type.into(), image.name.into());
                self.push(BlockContent::Image(File { media_type, name, bytes: image.content.bytes }));
            }
            Part::Call { index, provider_id, name, arguments } => self.take_call(index, provider_id, name, &arguments),
        }
    }

    fn take_call(&mut self, index: u32, provider_id: Option<String>, name: Option<String>, arguments: &str) {
        let at = index as usize;
        if at == self.calls.len() {
            let (id, name) = (provider_id.unwrap_or_default(), name.expect("the first part has it"));
            let call =
                CallOf { provider_id: id.as_str().into(), tool: name.as_str().into(), arguments: arguments.into() };
            self.calls.push((id, name, arguments.to_owned()));
            self.push(BlockContent::Call(call));
        } else {
            assert_eq!((provider_id, name), (None, None), "id and name come once");
            self.calls[at].2 += arguments;
            let whole = self.calls[at].2.as_str().into();
            self.call_block(index).0.arguments = whole;
        }
    }

    fn push(&mut self, held: BlockContent) {
        self.blocks.push(ContentBlock { held, signature: None });
    }

    /// Adds to the last block if it is of this kind and not signed, as the engine does.
    fn extend(&mut self, more: BlockContent) {
        let last = self.blocks.last_mut().filter(|block| block.signature.is_none());
        match (last.map(|block| &mut block.held), &more) {
            (Some(BlockContent::Text(known)), BlockContent::Text(text))
            | (Some(BlockContent::Reasoning(known)), BlockContent::Reasoning(text)) => {
                *known = format!("{known}{text}").into();
            }
            _ => self.push(more),
        }
    }

    fn call_block(&mut self, index: u32) -> (&mut CallOf, &mut Option<Arc<str>>) {
        let calls = self.blocks.iter_mut().filter_map(|block| match &mut block.held {
            BlockContent::Call(call) => Some((call, &mut block.signature)),
            _ => None,
        });
        calls.into_iter().nth(index as usize).expect("it has begun")
    }

    /// Signs the last block of this kind, or starts a signed one, as the engine does.
    fn sign(&mut self, of: BlockOf, signature: &str) {
        if let BlockOf::Call(index) = of {
            *self.call_block(index).1 = Some(signature.into());
            return;
        }
        let last = self.blocks.last_mut().filter(|block| block.signature.is_none());
        let fits = |held: &BlockContent| match of {
            BlockOf::Text => matches!(held, BlockContent::Text(_)),
            _ => matches!(held, BlockContent::Reasoning(_)),
        };
        if let Some(block) = last.filter(|block| fits(&block.held)) {
            block.signature = Some(signature.into());
            return;
        }
        let held = if of == BlockOf::Text { BlockContent::Text } else { BlockContent::Reasoning };
        self.blocks.push(ContentBlock { held: held("".into()), signature: Some(signature.into()) });
    }

    /// The answer as a message in the next request of the conversation.
    pub(crate) fn sealed(&self, model: &str) -> Message {
        Message::Assistant(models::AssistantMessage { model: model.into(), blocks: self.blocks.clone() })
    }

    pub(crate) fn failure(&self) -> &Failure {
        self.end.as_ref().unwrap().as_ref().expect_err("a failure")
    }

    pub(crate) fn usage(&self) -> engine::Usage {
        *self.end.as_ref().unwrap().as_ref().expect("an end")
    }
}

/// Sends one request to a server that always gives this reply.
pub(crate) async fn ask(model: &dyn Model, reply: impl Fn() -> Reply + Send + Sync + 'static) -> Answer {
    let server = serve(move |_| reply()).await;
    read(model.stream(request_to(&server.base_url))).await
}
