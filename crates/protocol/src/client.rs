//! A client of the owner of a home, over any byte stream.

mod events;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize as _;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::client::events::{Calling, Unread};
use crate::codec::{FrameError, FrameReader, encode};
use crate::error::ErrorShape;
use crate::frame::{Frame, Request, Response};
use crate::limits;
use crate::method::{Connect, ConnectParams, HelloOk, Method};
use crate::notice::{Notice as _, Part};
use crate::part::Parts;

pub use events::Events;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The owner refused the request.
    #[error(transparent)]
    Answered(#[from] ErrorShape),
    /// The connection ended. The owner may have carried out the request.
    #[error("the owner of the home closed the connection")]
    Gone,
    /// The owner sent data that is not a frame of this protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The response does not match the method.
    #[error("cannot parse the owner's response to `{method}`: {detail}")]
    Unreadable {
        /// The name of the method.
        method: &'static str,
        /// Why the response cannot be parsed.
        detail: String,
    },
}

/// A connection to the owner. It may be shared. Responses come in any order.
#[derive(Debug, Clone)]
pub struct Client {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    next_id: Arc<AtomicU64>,
    unread: Arc<Unread>,
}

/// The callers that wait for responses, by request id. None once the connection has ended.
type Waiting = Option<HashMap<String, mpsc::UnboundedSender<Response>>>;

/// The responses to one request.
#[derive(Debug)]
pub struct Answers<M> {
    responses: mpsc::UnboundedReceiver<Response>,
    method: PhantomData<fn() -> M>,
}

impl<M: Method> Answers<M> {
    /// Waits for the next response.
    pub async fn next(&mut self) -> Result<M::Result, ClientError> {
        result_of::<M>(payload(self.responses.recv().await)?)
    }
}

fn payload(response: Option<Response>) -> Result<Value, ClientError> {
    let response = response.ok_or(ClientError::Gone)?;
    response.error.map_or(Ok(response.payload), |error| Err(error.into()))
}

fn result_of<M: Method>(payload: Value) -> Result<M::Result, ClientError> {
    M::result_from_json(payload).map_err(|error| ClientError::Unreadable { method: M::NAME, detail: error.to_string() })
}

impl Client {
    /// Performs the handshake over this stream. Must be called within a Tokio runtime.
    pub async fn connect<S>(stream: S, params: ConnectParams) -> Result<(Self, HelloOk, Events), ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, mut write) = tokio::io::split(stream);
        let (frames, mut frames_in) = mpsc::unbounded_channel::<Vec<u8>>();
        let (events_out, mut events) = events::channel();
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        tokio::spawn(async move {
            while let Some(frame) = frames_in.recv().await {
                if write.write_all(&frame).await.is_err() {
                    return;
                }
            }
            // The client was dropped: the end of the stream notifies the owner.
            let _ = write.shutdown().await;
        });
        let unread = events_out.unread();
        tokio::spawn(receive(FrameReader::new(read, limits::FRAME_BYTES), Arc::clone(&waiting), events_out));
        let client = Self { frames, waiting, next_id: Arc::new(AtomicU64::new(1)), unread };
        match client.call::<Connect>(params).await {
            Ok(hello) => Ok((client, hello, events)),
            // An owner that refuses the connection sends the reason, then closes it.
            Err(ClientError::Gone) => Err(events.closed().map_or(ClientError::Gone, ClientError::Answered)),
            Err(error) => Err(error),
        }
    }

    /// Sends a request that has one response, and waits for it. It returns also if nobody reads the events before the response.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, ClientError> {
        result_of::<M>(self.request(M::NAME, M::params_to_json(params)).await?)
    }

    /// The same by the name of the method, with plain JSON.
    pub fn request(
        &self,
        method: &str,
        params: Value,
    ) -> Pin<Box<dyn Future<Output = Result<Value, ClientError>> + Send + '_>> {
        let calling = Calling::new(&self.unread);
        let asked = self.send(method, params);
        Box::pin(async move {
            let _calling = calling;
            payload(asked?.recv().await)
        })
    }

    /// Sends a request. The caller can await its responses later, concurrently with the events.
    pub fn ask<M: Method>(&self, params: M::Params) -> Result<Answers<M>, ClientError> {
        let responses = self.send(M::NAME, M::params_to_json(params))?;
        Ok(Answers { responses, method: PhantomData })
    }

    fn send(&self, method: &str, params: Value) -> Result<mpsc::UnboundedReceiver<Response>, ClientError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        let (answer, responses) = mpsc::unbounded_channel();
        match &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(waiting) => waiting.insert(id.clone(), answer),
            None => return Err(ClientError::Gone),
        };
        let request = encode(&Frame::Request(Request { id: id.clone(), method: method.to_owned(), params }));
        // The owner would close the connection because of such a frame.
        if request.len() > limits::FRAME_BYTES {
            self.forget(&id);
            return Err(FrameError::TooLong { limit: limits::FRAME_BYTES }.into());
        }
        self.frames.send(request).map_err(|_| ClientError::Gone)?;
        Ok(responses)
    }

    fn forget(&self, id: &str) {
        if let Some(waiting) = &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            waiting.remove(id);
        }
    }
}

/// Passes each incoming frame to the caller that waits for it, until the stream ends.
async fn receive<R>(mut frames: FrameReader<R>, waiting: Arc<Mutex<Waiting>>, events: events::Sender)
where
    R: AsyncRead + Unpin,
{
    let (mut parts, mut bytes) = (Parts::default(), 0);
    while let Ok(Some(frame)) = frames.next().await {
        bytes += frames.last_bytes();
        match frame {
            Frame::Event(event) if event.event == Part::NAME => {
                let Ok(part) = Part::deserialize(event.payload) else { break };
                if parts.add(part).is_err() {
                    break;
                }
                continue;
            }
            Frame::Response(mut response) => {
                parts.join(&mut response.payload);
                answer(&waiting, response);
            }
            Frame::Event(mut event) => {
                parts.join(&mut event.payload);
                events.send(event, bytes).await;
            }
            // An owner sends no requests.
            Frame::Request(_) => break,
        }
        bytes = 0;
    }
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn answer(waiting: &Mutex<Waiting>, response: Response) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(waiting) = &mut *waiting else { return };
    let id = response.id.clone();
    let is_accepted = response.ok && response.payload["status"] == "accepted";
    let asked = waiting.get(&id).map(|asked| asked.send(response).is_ok());
    // Only `agent` has two responses; the first one says so.
    if asked == Some(false) || !is_accepted {
        waiting.remove(&id);
    }
}
