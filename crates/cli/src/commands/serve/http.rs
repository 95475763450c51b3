//! Where a service listens besides its socket.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use config::{Config, ConfiguredWebhook, Globals, WebhookSignature};
use gateway::http::{
    BindError, DEFAULT_ADDRESS, HttpListener, HttpOptions, TlsFiles, Token, Webhook, WebhookProof, Webhooks,
};
use serde_json::Value;

use crate::error::{CliError, Exit};
use crate::inherited;
use crate::output::say;

/// Listens where the flags say, else at the socket that was passed on, else where the configuration says: none if it is not to listen,
/// or another program has the usual address.
pub(super) async fn bind(
    config: &Arc<Config>,
    globals: &Globals,
    (asked, is_off): (Option<SocketAddr>, bool),
) -> Result<Option<HttpListener>, CliError> {
    let refused = |what: String, hint: &str| CliError::Refused { exit: Exit::Config, what, hint: hint.to_owned() };
    let passed_on = if asked.is_some() || is_off { Ok(None) } else { passed_on() };
    let passed_on = passed_on.map_err(|error| {
        refused(
            format!("the socket that was passed on (LISTEN_FDS) cannot be used: {error}"),
            "pass on one that listens for TCP, as `serve --unit systemd-socket` does, or none",
        )
    })?;
    let address = passed_on.as_ref().map(|(address, _)| *address);
    let Some(address) = address.or(asked).or_else(|| config.listen()).filter(|_| !is_off) else { return Ok(None) };
    let tls = tls_files(config, globals)?;
    if !address.ip().to_canonical().is_loopback() && !config.is_behind_proxy() && tls.is_none() {
        return Err(refused(
            format!("{address} is not an address of this machine alone, and what is sent there is not encrypted"),
            "listen at 127.0.0.1, name a certificate in gateway.tls_cert, or set gateway.behind_proxy = true if a proxy before it encrypts",
        ));
    }
    Token::open(&globals.home).map_err(|error| refused(error.to_string(), error.hint()))?;
    let options = HttpOptions {
        home: globals.home.clone(),
        hosts: config.hosts().to_vec(),
        is_behind_proxy: config.is_behind_proxy(),
        tls,
        webhooks: webhooks(Arc::clone(config)),
    };
    let listener = match passed_on {
        Some((_, socket)) => HttpListener::over(socket, options),
        None => HttpListener::bind(address, options).await,
    };
    match listener {
        Ok(listener) => Ok(Some(listener)),
        Err(BindError::Address(error))
            if asked.is_none() && address == DEFAULT_ADDRESS && error.kind() == io::ErrorKind::AddrInUse =>
        {
            say!("limulus: {address} is taken, so there is no HTTP; `serve --listen 127.0.0.1:0` takes a free port");
            Ok(None)
        }
        Err(BindError::Address(error)) => Err(refused(
            format!("cannot listen at {address}: {error}"),
            "choose another with --listen or gateway.listen; port 0 is one that is free",
        )),
        Err(BindError::Tls(error)) => Err(refused(error.to_string(), error.hint())),
    }
}

/// The socket that was passed on, if one was, and its address.
fn passed_on() -> io::Result<Option<(SocketAddr, TcpListener)>> {
    let Some(socket) = inherited::socket().transpose()? else { return Ok(None) };
    Ok(Some((socket.local_addr()?, socket)))
}

/// The certificate that is configured.
fn tls_files(config: &Config, globals: &Globals) -> Result<Option<TlsFiles>, CliError> {
    match config.tls() {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => {
            let absolute = |path| globals.environment.absolute(path);
            Ok(Some(TlsFiles { cert: absolute(cert)?, key: absolute(key)? }))
        }
        (cert, _) => {
            let (there, missing) = if cert.is_some() { ("tls_cert", "tls_key") } else { ("tls_key", "tls_cert") };
            Err(CliError::Refused {
                exit: Exit::Config,
                what: format!("gateway.{there} is set, and gateway.{missing} is not"),
                hint: "a certificate and its key belong together: set both, or none".to_owned(),
            })
        }
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

    fn reply_to(&self) -> Option<&str> {
        self.0.reply_to.as_deref()
    }

    fn secret(&self) -> Result<String, String> {
        self.0.secret().map(|secret| secret.reveal().to_owned()).map_err(|error| error.to_string())
    }

    fn message(&self, body: &Value, headers: &Value) -> Result<String, String> {
        self.0.message(body, headers).map_err(|error| error.to_string())
    }
}
