//! OpenAI chat completions, streamed: OpenAI itself and the many servers that speak its format.
//!
//! The frames are read here and not by a client library: what counts as an end mark, how much memory a broken server
//! may take, and the status and headers of an answer are what the runtime's promises rest on.

mod body;
mod client;
mod decoder;
mod exchange;
mod frame;

use futures_util::StreamExt;
use futures_util::stream;

use crate::model::{Model, Request, SaidStream};

/// The adapter. Clones share their connections.
#[derive(Debug, Clone, Default)]
pub struct OpenAiChat {
    clients: client::Clients,
}

impl OpenAiChat {
    /// An adapter without connections yet; the HTTP client is made by the first request.
    pub fn new() -> Self {
        Self::default()
    }

    /// The body that this request is sent with: JSON, UTF-8.
    pub fn body(request: &Request) -> Vec<u8> {
        body::render(request)
    }
}

impl Model for OpenAiChat {
    fn stream(&self, request: Request) -> SaidStream {
        let exchange = Box::new(exchange::Exchange::new(self.clients.clone(), request));
        stream::unfold(exchange, |mut exchange| async move { exchange.next().await.map(|said| (said, exchange)) })
            .boxed()
    }
}
