//! P12, the faults of a connection: it cannot be made, or the server is not the intended one. The clock of these tests
//! advances whenever nothing else happens, so timeouts take no time.

use std::sync::Arc;

use engine::FailureClass;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::WIRES;

/// Sends a request in every format; each ends with a network failure that contains this text.
async fn check(base_url: &str, says: &str) {
    for wire in &WIRES {
        let answer = wire.asked_at(base_url).await;
        let failure = answer.failure();
        assert_eq!((failure.class, failure.status), (FailureClass::Network, None), "{:?}: {failure:?}", wire.api);
        assert!(failure.message.contains(says), "{:?}: {}", wire.api, failure.message);
        assert!(failure.message.contains("acme could not be reached at "), "{}", failure.message);
    }
}

#[tokio::test(start_paused = true)]
async fn c4_p12_a_server_that_does_not_accept_the_connection() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // These connections fill the queue of the listener; later ones are not answered.
    let mut waiting = vec![];
    while let Ok(Ok(stream)) = time::timeout(time::Duration::from_secs(1), TcpStream::connect(address)).await {
        waiting.push(stream);
    }
    check(&format!("http://{address}/v1"), "").await;
}

#[tokio::test(start_paused = true)]
async fn c4_p12_a_server_that_never_answers_the_tls_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut taken = vec![];
        while let Ok((stream, _)) = listener.accept().await {
            taken.push(stream);
        }
    });
    check(&format!("https://{address}/v1"), "").await;
}

/// A server with a self-signed certificate.
#[tokio::test]
async fn c4_p12_a_certificate_that_no_authority_signed() {
    let certificate = CertificateDer::from(include_bytes!("tls/certificate.der").as_slice());
    let key = PrivateKeyDer::try_from(include_bytes!("tls/key.der").as_slice()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            // A client that does not trust the certificate sends an alert instead of its request.
            tokio::spawn(async move { assert!(acceptor.accept(stream).await.is_err(), "it was trusted") });
        }
    });
    check(&format!("https://{address}/v1"), "certificate").await;
}
