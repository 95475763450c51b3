//! The set of all adapters: sends a request in the format of its endpoint's API.

use std::time::Duration;

use crate::left_out_files::without_images;
use crate::login::Logins;
use crate::model::{Model, Request, ResponseStream};
use crate::offline::Offline;
use crate::wire::{self, Clients, Format};

/// All built-in adapters. Creating it is cheap: the first request that needs a client creates it. Clones share
/// connections.
#[derive(Debug, Clone, Default)]
pub struct ModelSet {
    offline: Offline,
    clients: Clients,
    logins: Logins,
}

impl ModelSet {
    /// The set in which the built-in model has its default speed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same set with another built-in model.
    pub fn with_offline(self, offline: Offline) -> Self {
        Self { offline, ..self }
    }

    /// The same set with these logins.
    pub fn with_logins(self, logins: Logins) -> Self {
        Self { logins, ..self }
    }

    /// Waits until no login is being refreshed, at most this long. Call it at an orderly shutdown, so that the
    /// replacement of a single-use refresh token is stored.
    pub async fn settle(&self, most: Duration) {
        self.logins.settle(most).await;
    }

    /// The body of this request: JSON, UTF-8; empty for the offline model.
    pub fn body(request: &Request) -> Vec<u8> {
        let body = |format: &dyn Format| format.body(&without_images(request.clone()));
        wire::format(request.endpoint.api).map(body).unwrap_or_default()
    }
}

impl Model for ModelSet {
    fn stream(&self, request: Request) -> ResponseStream {
        match wire::format(request.endpoint.api) {
            Some(format) => wire::exchange(&self.clients, &self.logins, format, without_images(request)),
            None => self.offline.stream(request),
        }
    }
}
