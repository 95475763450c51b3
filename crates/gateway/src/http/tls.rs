//! TLS with a certificate of the user's own. A new certificate counts from the next connection on: whoever renews it needs not know of
//! this service.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::{Stamp, TlsError, TlsFiles};
use crate::service::Service;

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// What begins every handshake of TLS.
const RECORD: u8 = 0x16;
/// What a client receives that does not speak TLS.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
                     {\"error\":{\"message\":\"this port speaks TLS: use https://\",\"type\":\"invalid_request_error\",\
                     \"code\":\"not_tls\",\"param\":null}}";

/// What connections are encrypted with.
pub(super) struct Tls {
    files: TlsFiles,
    /// The service, through which something is said to its user.
    service: OnceLock<Arc<Service>>,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    stamps: [Stamp; 2],
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    pub(super) fn new(files: TlsFiles) -> Result<Self, TlsError> {
        let stamps = files.stamps();
        let config = files.load()?;
        Ok(Self { files, service: OnceLock::new(), loaded: Mutex::new(Loaded { stamps, config }) })
    }

    /// From now on this service says what is wrong with a new certificate.
    pub(super) fn said_by(&self, service: &Arc<Service>) {
        // It serves one service only.
        let _ = self.service.set(Arc::clone(service));
    }

    /// Encrypts a connection. None if its client does not want that, or takes too long.
    pub(super) async fn accept(self: &Arc<Self>, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let accepting = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first[0] != RECORD {
                return refuse(stream).await;
            }
            // A disk may take its time, and nobody waits for it but this client.
            let tls = Arc::clone(self);
            let acceptor = tokio::task::spawn_blocking(move || tls.acceptor()).await.map_err(io::Error::other)?;
            acceptor.accept(stream).await
        };
        let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
        let accepted = tokio::time::timeout(HANDSHAKE, accepting).await.unwrap_or_else(late);
        accepted.inspect_err(|error| tracing::debug!(target: "limulus::http", %error, "no handshake of TLS")).ok()
    }

    /// The acceptor with the certificate as it is now. One that cannot be used is said, and the one before it goes on.
    fn acceptor(&self) -> TlsAcceptor {
        let stamps = self.files.stamps();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.stamps != stamps {
            loaded.stamps = stamps;
            match self.files.load() {
                Ok(config) => {
                    loaded.config = config;
                    tracing::info!(target: "limulus::http", "the certificate was replaced");
                }
                Err(error) => {
                    if let Some(service) = self.service.get() {
                        let note = format!("the new certificate cannot be used, so the one before it goes on: {error}");
                        service.note_once(note);
                    }
                    tracing::warn!(target: "limulus::http", %error, "the new certificate cannot be used; the one before it goes on");
                }
            }
        }
        TlsAcceptor::from(Arc::clone(&loaded.config))
    }
}

/// Says to a client that does not speak TLS what it would need.
async fn refuse(mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    stream.write_all(PLAIN.as_bytes()).await?;
    stream.shutdown().await?;
    // What it still sends is read: else it would see a broken connection and not the answer.
    let mut rest = [0; 4096];
    while stream.read(&mut rest).await? > 0 {}
    Err(io::ErrorKind::InvalidData.into())
}
