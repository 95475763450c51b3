//! The TLS provider of the process.

use reqwest::{Client, ClientBuilder};

/// A builder of HTTP clients whose TLS is rustls with ring.
pub fn client_builder() -> ClientBuilder {
    // If it is installed already, it is the same one: the whole workspace uses ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
}
