//! All adapters in one place: a request goes to the format of its endpoint's API.

use std::time::Duration;

use crate::hidden_reasoning::without_images;
use crate::login::Logins;
use crate::model::{Model, Request, ResponseStream};
use crate::offline::Offline;
use crate::wire::{self, Clients, Format};

/// Every adapter that is built in. Making it costs nothing: clients are made by the first request that needs them. Clones
/// share their connections.
#[derive(Debug, Clone, Default)]
pub struct ModelSet {
    offline: Offline,
    clients: Clients,
    logins: Logins,
}

impl ModelSet {
    /// The set with the built-in model's own pace.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same set with another built-in model.
    pub fn with_offline(self, offline: Offline) -> Self {
        Self { offline, ..self }
    }

    /// The same set with the tokens that are kept here.
    pub fn with_logins(self, logins: Logins) -> Self {
        Self { logins, ..self }
    }

    /// Waits until no login is refreshed any more, so long at most. Whoever leaves in order does: a refresh token that may be
    /// used once is used by then, and the next one has its place.
    pub async fn settle(&self, most: Duration) {
        self.logins.settle(most).await;
    }

    /// The body that this request is sent with: JSON, UTF-8; empty for the offline model.
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
