//! The same over TCP: frames over WebSockets, and the API of OpenAI. A client reads and writes as a program of somebody else's does.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use protocol::{Client, Events};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::owner::{Owner, hello};
use super::stamped::Stamped;
use super::{SESSIONS, SUBSCRIBERS, TURNS, acknowledgements, pieces, turns};
use crate::Problem;
use crate::table::{Line, Row, Samples, Target};
use crate::warm::{Server, tokio};

/// Connections that say nothing.
const IDLE: usize = 1_000;
/// Bytes between a WebSocket and its client here.
const PIPE_BYTES: usize = 64 << 10;
/// The pause before the memory of idle connections is read: what their handshakes took is given back by then.
const PAUSE: Duration = Duration::from_secs(2);

/// Measures; it creates homes in this folder, which must be on a disk.
pub(crate) fn measure(binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    let runtime = tokio()?;
    let server = Server::start()?;
    let home = |name: &str, base_url: &str| Owner::start_web(binary, &folder.join(name), base_url);
    let mut lines = vec![];
    let what = "web: a message over a WebSocket until it is acknowledged, synced";
    lines.push(runtime.block_on(acknowledgements(&home("acknowledged", &server.base_url)?, what))?);
    let stamped = Stamped::start()?;
    for (subscribers, what, most) in [
        (1, "web: a piece of an answer, from the model's socket to 1 WebSocket, p99", 5.0),
        (SUBSCRIBERS, "web: the same to 100 WebSockets, p99", 20.0),
    ] {
        let owner = home(&format!("subscribers-{subscribers}"), &stamped.base_url)?;
        let ms = runtime.block_on(pieces(&owner, subscribers))?;
        lines.push(Row { what, target: Target::AtMost(most), measured: Samples::new("ms", ms).p99() }.into());
    }
    let what = ["web: finished turns without tools, 64 WebSockets", "web: CPU of the service for one of them"];
    lines.extend(runtime.block_on(turns(&home("turns", &server.base_url)?, 2_500.0, what))?);
    lines.push(runtime.block_on(completions(&home("completions", &server.base_url)?))?);
    lines.push(runtime.block_on(at_rest(&home("rest", &server.base_url)?))?);
    Ok(lines)
}

/// Opens a WebSocket with the token.
async fn websocket(address: &str, token: &str) -> Result<WebSocketStream<TcpStream>, Problem> {
    let mut request = format!("ws://{address}/").into_client_request()?;
    request.headers_mut().insert("authorization", format!("Bearer {token}").parse()?);
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = client_async(request, stream).await?;
    socket.next().await.ok_or("no challenge")??;
    Ok(socket)
}

/// A client over a WebSocket: each line of the one is a message of the other.
pub(super) async fn connect(address: &str, token: &str) -> Result<(Client, Events), Problem> {
    let (mut to_service, mut from_service) = websocket(address, token).await?.split();
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (read, mut write) = tokio::io::split(ours);
    tokio::spawn(async move {
        while let Some(Ok(Message::Text(text))) = from_service.next().await {
            if write.write_all(&[text.as_bytes(), b"\n"].concat()).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if to_service.send(Message::text(line)).await.is_err() {
                return;
            }
        }
    });
    let (client, _, events) = Client::connect(theirs, hello()).await?;
    Ok((client, events))
}

/// As many requests of the API of OpenAI as possible, on a connection for each of as many users.
async fn completions(owner: &Owner) -> Result<Line, Problem> {
    let mut users = JoinSet::new();
    let started = Instant::now();
    for at in 0..SESSIONS {
        let (address, token) = owner.web()?;
        users.spawn(async move {
            let mut turns = 0_u32;
            let Ok(stream) = TcpStream::connect(&address).await else { return 0 };
            let mut stream = BufReader::new(stream);
            while started.elapsed() < TURNS {
                let body = format!(
                    r#"{{"model":"main","user":"u{at}-{}","messages":[{{"role":"user","content":"tokens=4"}}]}}"#,
                    turns / 20
                );
                match completion(&mut stream, (&address, &token), &body).await {
                    Ok(answer) if answer.contains("word3") => turns += 1,
                    _ => break,
                }
            }
            turns
        });
    }
    let mut all = 0_u32;
    while let Some(turns) = users.join_next().await {
        all += turns?;
    }
    let rate = Samples::new("turns/s", vec![f64::from(all) / started.elapsed().as_secs_f64()]);
    let what = "web: finished turns without tools by /v1/chat/completions, 64 connections";
    Ok(Row { what, target: Target::AtLeast(2_000.0), measured: rate }.into())
}

/// One request on a connection that stays.
async fn completion(
    stream: &mut BufReader<TcpStream>,
    (address, token): (&str, &str),
    body: &str,
) -> Result<String, Problem> {
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await?;
    let (mut line, mut bytes) = (String::new(), 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err("the connection has ended".into());
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            bytes = length.trim().parse()?;
        }
        if line == "\r\n" {
            let mut answer = vec![0; bytes];
            stream.read_exact(&mut answer).await?;
            return Ok(String::from_utf8(answer)?);
        }
    }
}

/// What connections that say nothing cost.
async fn at_rest(owner: &Owner) -> Result<Line, Problem> {
    // The one-time cost of the first client is not counted.
    let first = owner.connect().await?;
    let before = owner.resident_mib()?;
    let mut all = vec![first];
    for _ in 0..IDLE {
        all.push(owner.connect().await?);
    }
    tokio::time::sleep(PAUSE).await;
    let measured = Samples::new("MiB", vec![owner.resident_mib()? - before]);
    Ok(Row { what: "web: memory for 1,000 idle WebSockets", target: Target::AtMost(20.0), measured }.into())
}
