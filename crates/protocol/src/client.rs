//! A client of a home's owner, over any stream of bytes.

mod events;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::client::events::{Calling, Unread};
use crate::codec::{FrameError, FrameReader, encode};
use crate::error::ErrorShape;
use crate::frame::{Frame, Request, Response};
use crate::limits;
use crate::method::{Connect, ConnectParams, HelloOk, Method};

pub use events::Events;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The owner says why.
    #[error(transparent)]
    Answered(#[from] ErrorShape),
    /// The connection is gone; what was asked may have been done.
    #[error("the owner of the home has gone away")]
    Gone,
    /// What came is no frame of this protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The answer is not what the method gives.
    #[error("the owner's answer to `{method}` does not read: {detail}")]
    Unreadable {
        /// The method.
        method: &'static str,
        /// What is wrong with it.
        detail: String,
    },
}

/// A connection. It may be shared; requests are answered in any order.
#[derive(Debug, Clone)]
pub struct Client {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    next_id: Arc<AtomicU64>,
    unread: Arc<Unread>,
}

/// Who waits for answers. None once the connection is gone.
type Waiting = Option<HashMap<String, mpsc::UnboundedSender<Response>>>;

/// The answers to one request.
#[derive(Debug)]
pub struct Answers<M> {
    responses: mpsc::UnboundedReceiver<Response>,
    method: PhantomData<fn() -> M>,
}

impl<M: Method> Answers<M> {
    /// The next answer.
    pub async fn next(&mut self) -> Result<M::Result, ClientError> {
        let response = self.responses.recv().await.ok_or(ClientError::Gone)?;
        if let Some(error) = response.error {
            return Err(error.into());
        }
        let unreadable =
            |error: serde_json::Error| ClientError::Unreadable { method: M::NAME, detail: error.to_string() };
        serde_json::from_value(response.payload).map_err(unreadable)
    }
}

impl Client {
    /// Shakes hands over this stream. Must be called inside a runtime.
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
            // The client was dropped: the owner is told by the end of the stream.
            let _ = write.shutdown().await;
        });
        let unread = events_out.unread();
        tokio::spawn(receive(FrameReader::new(read, limits::FRAME_BYTES), Arc::clone(&waiting), events_out));
        let client = Self { frames, waiting, next_id: Arc::new(AtomicU64::new(1)), unread };
        match client.call::<Connect>(params).await {
            Ok(hello) => Ok((client, hello, events)),
            // An owner that lets nobody in says why, and closes.
            Err(ClientError::Gone) => Err(events.closed().map_or(ClientError::Gone, ClientError::Answered)),
            Err(error) => Err(error),
        }
    }

    /// Asks for something that is answered once. The answer comes also while nobody reads the events before it.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, ClientError> {
        let _calling = Calling::new(&self.unread);
        self.ask::<M>(params)?.next().await
    }

    /// Asks for something; its answers can be awaited later, beside the events.
    pub fn ask<M: Method>(&self, params: M::Params) -> Result<Answers<M>, ClientError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        let (answer, responses) = mpsc::unbounded_channel();
        let params = serde_json::to_value(params).expect("parameters are plain data");
        match &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(waiting) => waiting.insert(id.clone(), answer),
            None => return Err(ClientError::Gone),
        };
        let request = encode(&Frame::Request(Request { id: id.clone(), method: M::NAME.to_owned(), params }));
        // The owner would close the connection for it, and not be to blame.
        if request.len() > limits::FRAME_BYTES {
            self.forget(&id);
            return Err(FrameError::TooLong { limit: limits::FRAME_BYTES }.into());
        }
        self.frames.send(request).map_err(|_| ClientError::Gone)?;
        Ok(Answers { responses, method: PhantomData })
    }

    fn forget(&self, id: &str) {
        if let Some(waiting) = &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            waiting.remove(id);
        }
    }
}

/// Hands what comes to whoever waits for it, until the stream ends.
async fn receive<R>(mut frames: FrameReader<R>, waiting: Arc<Mutex<Waiting>>, events: events::Sender)
where
    R: AsyncRead + Unpin,
{
    while let Ok(Some(frame)) = frames.next().await {
        match frame {
            Frame::Response(response) => answer(&waiting, response),
            Frame::Event(event) => events.send(event, frames.last_bytes()).await,
            // An owner asks nothing.
            Frame::Request(_) => break,
        }
    }
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn answer(waiting: &Mutex<Waiting>, response: Response) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(waiting) = &mut *waiting else { return };
    let id = response.id.clone();
    let is_accepted = response.ok && response.payload["status"] == "accepted";
    let asked = waiting.get(&id).map(|asked| asked.send(response).is_ok());
    // `agent` alone is answered twice, and says so.
    if asked == Some(false) || !is_accepted {
        waiting.remove(&id);
    }
}
