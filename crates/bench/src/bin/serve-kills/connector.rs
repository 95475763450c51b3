//! How a client connects to the current owner of the home.

use std::path::PathBuf;
use std::time::Duration;

use protocol::method::{ClientInfo, ConnectParams};
use protocol::{Client, ClientError, ErrorCode, Events, PROTOCOL};
use tokio::net::UnixStream;

/// How often it looks for an owner.
const LOOK: Duration = Duration::from_millis(2);

/// The socket of a home.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) socket: PathBuf,
}

impl Connector {
    /// The next connection, as soon as there is an owner.
    pub(super) async fn connect(&self) -> (Client, Events) {
        loop {
            if let Ok(stream) = UnixStream::connect(&self.socket).await {
                let client = ClientInfo {
                    id: "serve-kills".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    platform: std::env::consts::OS.to_owned(),
                    mode: "test".to_owned(),
                };
                let hello = ConnectParams { min_protocol: PROTOCOL, max_protocol: PROTOCOL, client, caps: vec![] };
                if let Ok((client, _, events)) = Client::connect(stream, hello).await {
                    return (client, events);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether another owner may answer what this one did not; an error says what is wrong.
pub(super) fn ask_again(error: &ClientError) -> Result<(), String> {
    match error {
        ClientError::Gone => Ok(()),
        ClientError::Answered(shape) if shape.code == ErrorCode::Unavailable => Ok(()),
        error => Err(error.to_string()),
    }
}
