//! Where a service listens besides its socket.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use config::{Config, ConfiguredWebhook, WebhookSignature};
use gateway::http::{DEFAULT_ADDRESS, HttpListener, HttpOptions, Token, Webhook, WebhookProof, Webhooks};
use serde_json::Value;

use crate::error::{CliError, Exit};
use crate::output::say;

/// Listens where the flags say, else the configuration: none if it is not to listen, or another program has the usual address.
pub(super) async fn bind(
    config: &Arc<Config>,
    home: &Path,
    (asked, is_off): (Option<SocketAddr>, bool),
) -> Result<Option<HttpListener>, CliError> {
    let Some(address) = asked.or_else(|| config.listen()).filter(|_| !is_off) else { return Ok(None) };
    if !address.ip().to_canonical().is_loopback() && !config.is_behind_proxy() {
        return Err(CliError::Refused {
            exit: Exit::Config,
            what: format!("{address} is not an address of this machine alone, and what is sent there is not encrypted"),
            hint: "listen at 127.0.0.1, or set gateway.behind_proxy = true if a proxy before it encrypts".to_owned(),
        });
    }
    Token::open(home).map_err(|error| CliError::Refused {
        exit: Exit::Config,
        what: error.to_string(),
        hint: error.hint().to_owned(),
    })?;
    let options =
        HttpOptions { home: home.to_owned(), hosts: config.hosts().to_vec(), webhooks: webhooks(Arc::clone(config)) };
    match HttpListener::bind(address, options).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if asked.is_none() && address == DEFAULT_ADDRESS && error.kind() == io::ErrorKind::AddrInUse => {
            say!("limulus: {address} is taken, so there is no HTTP; `serve --listen 127.0.0.1:0` takes a free port");
            Ok(None)
        }
        Err(error) => Err(CliError::Refused {
            exit: Exit::Config,
            what: format!("cannot listen at {address}: {error}"),
            hint: "choose another with --listen or gateway.listen; port 0 is one that is free".to_owned(),
        }),
    }
}

/// The configured webhooks.
fn webhooks(config: Arc<Config>) -> Webhooks {
    Webhooks::new(move |name| Some(Box::new(Configured(config.webhook(name)?)) as Box<dyn Webhook>))
}

/// A webhook as the configuration has it.
struct Configured(ConfiguredWebhook);

impl Webhook for Configured {
    fn proof(&self) -> WebhookProof {
        match self.0.signature {
            WebhookSignature::Token => WebhookProof::Token,
            WebhookSignature::Github => WebhookProof::Github,
            WebhookSignature::Stripe => WebhookProof::Stripe,
        }
    }

    fn session(&self) -> &str {
        &self.0.session
    }

    fn mode(&self) -> Option<engine::QueueMode> {
        self.0.mode
    }

    fn secret(&self) -> Result<String, String> {
        self.0.secret().map(|secret| secret.reveal().to_owned()).map_err(|error| error.to_string())
    }

    fn message(&self, body: &Value, headers: &Value) -> Result<String, String> {
        self.0.message(body, headers).map_err(|error| error.to_string())
    }
}
