//! HTTP and WebSocket with a certificate of the user's own. The certificates in `tls/` are signed by themselves, for 127.0.0.1.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

use crate::support::web::{Web, frame_of};
use crate::support::{Home, until};

const ONE: (&str, &str) = (include_str!("tls/one.pem"), include_str!("tls/one-key.pem"));
const TWO: (&str, &str) = (include_str!("tls/two.pem"), include_str!("tls/two-key.pem"));

fn paths(home: &Home) -> (PathBuf, PathBuf) {
    (home.user().join("cert.pem"), home.user().join("key.pem"))
}

/// Puts a certificate there, as a program does that renews it.
fn put(home: &Home, (cert, key): (&str, &str)) {
    let (cert_path, key_path) = paths(home);
    fs::write(&cert_path, cert).expect("it is written");
    fs::write(&key_path, key).expect("it is written");
    fs::set_permissions(&key_path, fs::Permissions::from_mode(0o600)).expect("its mode");
}

fn with_tls(home: Home) -> Home {
    let (cert, key) = paths(&home);
    put(&home, ONE);
    let home = home.with("LIMULUS_GATEWAY__TLS_CERT", cert.to_str().expect("UTF-8"));
    home.with("LIMULUS_GATEWAY__TLS_KEY", key.to_str().expect("UTF-8"))
}

/// A connection whose other end must have this certificate.
fn connect(web: &Web, cert: &str) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cert.as_bytes()).expect("a certificate")).expect("it is added");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let mut client = ClientConnection::new(config, name).expect("a client");
    let mut stream = web.connect();
    while client.is_handshaking() {
        client.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    Ok(StreamOwned::new(client, stream))
}

fn get(web: &Web, cert: &str, path: &str) -> Result<String, String> {
    let mut stream = connect(web, cert)?;
    let (host, token) = (&web.address, &web.token);
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    Ok(answer)
}

/// R60: with a certificate everything is encrypted, on other addresses too; who speaks plainly is answered what it would need.
#[test]
fn r60_http_and_websocket_are_encrypted() {
    let home = with_tls(Home::new());
    let web = Web::start(&home);
    assert!(get(&web, ONE.0, "/v1/models").expect("a connection").starts_with("HTTP/1.1 200 OK"));
    assert!(connect(&web, TWO.0).is_err(), "it is another certificate");
    let plain = web.ask("GET /v1/models", &serde_json::Value::Null);
    assert_eq!((plain.status, &plain.json()["error"]["code"]), (400, &json!("not_tls")));
    assert!(!plain.body.contains(&web.token));
    let status = home.json(&["gateway", "status"]);
    assert_eq!((&status["listens_at"], &status["tls"]), (&json!(web.address), &json!(true)));
    let shown = home.run(&["gateway", "status"]).expect_code(0).out;
    assert!(shown.contains(&format!("https://{}", web.address)), "{shown}");

    let stream = connect(&web, ONE.0).expect("a connection");
    let (mut socket, _) = tungstenite::client(format!("ws://{}/", web.address), stream).expect("a WebSocket");
    assert_eq!(frame_of(&mut socket).expect("a frame")["event"], "connect.challenge");

    // Who says nothing, or nonsense, keeps nobody from anything.
    let silent: Vec<_> = (0..50).map(|_| web.connect()).collect();
    let mut nonsense = web.connect();
    nonsense.write_all(&[0x16, 3, 1, 255, 255, 9, 9]).expect("it is read");
    assert!(get(&web, ONE.0, "/healthz").expect("a connection").contains("ok"));
    drop((silent, nonsense));
    let other = with_tls(Home::new());
    let service = other.start(&["serve", "--json", "--listen", "0.0.0.0:0"]);
    service.until_line("ready", |line| line["type"] == "ready" && line["tls"] == true);
}

/// R60: a renewed certificate is taken without a restart; one that cannot be used leaves the one before it.
#[test]
fn r60_a_renewed_certificate_is_taken_by_itself() {
    let home = with_tls(Home::new());
    let web = Web::start(&home);
    let mut before = connect(&web, ONE.0).expect("a connection");
    fs::write(paths(&home).0, "no certificate").expect("it is written");
    assert!(get(&web, ONE.0, "/healthz").is_ok(), "the one before it goes on");
    web.service.until_err("the new certificate cannot be used");
    // What never can be read holds nobody up.
    fs::remove_file(paths(&home).0).expect("it is removed");
    rustix::fs::mkfifoat(rustix::fs::CWD, &paths(&home).0, rustix::fs::Mode::RWXU).expect("a pipe");
    assert!(get(&web, ONE.0, "/healthz").is_ok());
    fs::remove_file(paths(&home).0).expect("it is removed");
    put(&home, TWO);
    until("the new certificate", || get(&web, TWO.0, "/healthz").is_ok());
    assert!(get(&web, ONE.0, "/healthz").is_err());
    // What is connected stays.
    let head = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", web.address);
    before.write_all(head.as_bytes()).expect("it is read");
    let mut answer = String::new();
    before.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

/// R24: a certificate that cannot be used is refused at the start, with what to do.
#[test]
fn r24_a_certificate_that_cannot_be_used_is_refused() {
    let home = with_tls(Home::new());
    let (cert, key) = paths(&home);
    let refused = |part: &str, hint: &str| {
        home.run(&["serve", "--listen", "127.0.0.1:0"]).expect_code(78).expect_err(part).expect_err(hint);
    };
    fs::write(&cert, "nothing").expect("it is written");
    refused("has no certificate in PEM", "gateway.tls_cert");
    put(&home, (ONE.0, TWO.1));
    refused("cannot be used", "the key that the certificate was made with");
    put(&home, (ONE.0, ONE.0));
    refused("has no private key in PEM", "gateway.tls_key");
    put(&home, ONE);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("its mode");
    refused("can be read by other users", "chmod 600");
    fs::remove_file(&key).expect("it is removed");
    refused("cannot read", "gateway.tls_key");
    let half = Home::new().with("LIMULUS_GATEWAY__TLS_CERT", "/tmp/cert.pem");
    half.run(&["serve", "--listen", "127.0.0.1:0"]).expect_code(78).expect_err("gateway.tls_key is not");
    let relative = Home::new().with("LIMULUS_GATEWAY__TLS_CERT", "cert.pem");
    relative.run(&["serve"]).expect_code(78).expect_err("an absolute path");
}
