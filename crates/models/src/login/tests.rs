//! Refreshes with a token server for these tests, with real sockets and single-use refresh tokens.

pub(super) mod deaths;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{Candidate, Failure, FailureClass};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{Login, Logins};
use crate::endpoint::{Api, Endpoint, Secret};
use crate::fault::{Fault, Subject};

/// How the server answers a request.
#[derive(Clone)]
enum Says {
    /// It grants `access-N` and the refresh token after `refresh-N`; it refuses any other refresh token.
    Grants,
    /// It sends these bytes.
    Bytes(String),
    /// It sends nothing.
    Nothing,
}

struct Server {
    address: String,
    /// The bodies of the requests, in order.
    asked: Arc<Mutex<Vec<String>>>,
    /// Each answer needs one of these permits.
    permits: Arc<Semaphore>,
    arrived: Arc<Semaphore>,
}

impl Server {
    async fn start(says: Says) -> Self {
        let server = Self::blocked(says).await;
        server.permits.add_permits(1_000);
        server
    }

    /// A server that answers only after it gets permits.
    async fn blocked(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/token", listener.local_addr().unwrap());
        let (asked, permits) = (Arc::default(), Arc::new(Semaphore::new(0)));
        let server = Self { address, asked, permits, arrived: Arc::new(Semaphore::new(0)) };
        let (asked, permits, arrived) = (server.asked.clone(), server.permits.clone(), server.arrived.clone());
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let body = body(&mut socket).await;
                let number = {
                    let mut asked = asked.lock().unwrap();
                    asked.push(body.clone());
                    asked.len()
                };
                arrived.add_permits(1);
                permits.acquire().await.unwrap().forget();
                let answer = match &says {
                    Says::Grants => granted(number, &body),
                    Says::Bytes(bytes) => bytes.clone(),
                    Says::Nothing => {
                        let _ = socket.read(&mut [0; 16]).await;
                        continue;
                    }
                };
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        server
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// The N-th request must contain `refresh-N`.
fn granted(number: usize, body: &str) -> String {
    if !body.contains(&format!("refresh_token=refresh-{number}&")) {
        return answer("400 Bad", r#"{"error":"invalid_grant","error_description":"used already"}"#);
    }
    let next = number + 1;
    let tokens = format!(
        r#"{{"access_token":"access-{number}","token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-{next}"}}"#
    );
    answer("200 OK", &tokens)
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

async fn body(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return body.to_owned();
            }
        }
        if socket.read_buf(&mut bytes).await.unwrap() == 0 {
            return text;
        }
    }
}

struct LoginFolder {
    folder: TempDir,
    login: Login,
}

fn place(address: &str) -> LoginFolder {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("refresh-token");
    fs::write(&place, "refresh-1\n").unwrap();
    let login = Login {
        provider: "acme".to_owned(),
        profile: "work".to_owned(),
        token_url: address.to_owned(),
        client_id: "limulus".to_owned(),
        place,
        proxy: None,
        limit: Duration::from_mins(1),
    };
    LoginFolder { folder, login }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

async fn token(logins: &Logins, login: &Login) -> String {
    logins.token(login).await.unwrap().reveal().to_owned()
}

fn endpoint(login: &Login, key: &str) -> Endpoint {
    let login = Some(login.clone());
    Endpoint { login, ..Endpoint::new(Api::OpenAiChat, "http://127.0.0.1:1", Some(Secret::new(key))) }
}

/// The failure as the user sees it.
fn failure(login: &Login, fault: Fault) -> Failure {
    let candidate = Candidate {
        provider: "acme".to_owned(),
        model: "m".to_owned(),
        profile: Some("work".to_owned()),
        context_window: 100_000,
        max_output: 100,
        thinking: None,
        images: true,
        structured_output: false,
        sampling: engine::Sampling::default(),
        token_rate: 1_000,
        can_refresh: false,
        levels: vec![],
        price: None,
    };
    Subject::new(candidate, Endpoint { key: None, ..endpoint(login, "") }).failure(fault)
}

#[tokio::test]
async fn r50_concurrent_requests_share_one_refresh() {
    let server = Server::blocked(Says::Grants).await;
    let LoginFolder { folder: _folder, login } = place(&server.address);
    let logins = Logins::default();
    let wanted: Vec<_> = (0..20)
        .map(|_| {
            let (logins, login) = (logins.clone(), login.clone());
            tokio::spawn(async move { (token(&logins, &login).await, text(&login.place)) })
        })
        .collect();
    server.arrived.acquire().await.unwrap().forget();
    server.permits.add_permits(1_000);
    for one in wanted {
        // It is stored before it is used.
        assert_eq!(one.await.unwrap(), ("access-1".to_owned(), "refresh-2".to_owned()));
    }
    assert_eq!(server.asked(), ["grant_type=refresh_token&refresh_token=refresh-1&client_id=limulus"]);
    assert_eq!(token(&logins, &login).await, "access-1", "it is cached");
    assert_eq!(server.asked().len(), 1);
    assert_eq!(logins.secrets(), ["access-1", "refresh-1", "refresh-2"]);
    assert!(!format!("{logins:?}").contains("access-1"));
}

#[tokio::test]
async fn r50_a_refused_token_is_replaced_once() {
    let server = Server::start(Says::Grants).await;
    let LoginFolder { folder: _folder, login } = place(&server.address);
    let logins = Logins::default();
    let first = endpoint(&login, &token(&logins, &login).await);
    logins.observe(&first, FailureClass::RateLimit);
    assert_eq!(token(&logins, &login).await, "access-1", "the failure did not concern the token");
    logins.observe(&first, FailureClass::Auth);
    assert_eq!(token(&logins, &login).await, "access-2");
    // Nineteen other requests sent the first token before and observe the refusal late.
    for _ in 0..19 {
        logins.observe(&first, FailureClass::Auth);
        assert_eq!(token(&logins, &login).await, "access-2");
    }
    assert_eq!((server.asked().len(), text(&login.place).as_str()), (2, "refresh-3"));
}

#[tokio::test]
async fn r50_a_cancelled_request_does_not_stop_the_refresh() {
    let server = Server::blocked(Says::Grants).await;
    let LoginFolder { folder: _folder, login } = place(&server.address);
    let logins = Logins::default();
    let want = || {
        let (logins, login) = (logins.clone(), login.clone());
        tokio::spawn(async move { token(&logins, &login).await })
    };
    let first = want();
    server.arrived.acquire().await.unwrap().forget();
    let second = want();
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    server.permits.add_permits(1_000);
    assert_eq!(second.await.unwrap(), "access-1");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn r50_the_result_of_an_abandoned_refresh_is_stored() {
    let server = Server::blocked(Says::Grants).await;
    let LoginFolder { folder: _folder, login } = place(&server.address);
    let logins = Logins::default();
    let only = tokio::spawn({
        let (logins, login) = (logins.clone(), login.clone());
        async move { token(&logins, &login).await }
    });
    server.arrived.acquire().await.unwrap().forget();
    only.abort();
    server.permits.add_permits(1_000);
    assert_eq!(token(&logins, &login).await, "access-1");
    assert_eq!((server.asked().len(), text(&login.place).as_str()), (1, "refresh-2"));
}

#[tokio::test]
async fn r50_a_shutdown_waits_for_a_running_refresh_with_a_limit() {
    let server = Server::blocked(Says::Grants).await;
    let LoginFolder { folder: _folder, login } = place(&server.address);
    let logins = Logins::default();
    let only = tokio::spawn({
        let (logins, login) = (logins.clone(), login.clone());
        async move { token(&logins, &login).await }
    });
    server.arrived.acquire().await.unwrap().forget();
    only.abort();
    logins.settle(Duration::ZERO).await;
    assert_eq!(text(&login.place), "refresh-1", "the server has not answered");
    server.permits.add_permits(1);
    logins.settle(Duration::from_mins(1)).await;
    assert_eq!(text(&login.place), "refresh-2");
    // No refresh is running any more.
    logins.settle(Duration::from_mins(1)).await;
}

/// A process is simulated by a runtime: dropping it ends all of its tasks. The token server is in a separate thread.
#[test]
fn r50_r10_after_a_crash_in_a_refresh_the_token_is_used_again_only_if_no_grant_arrived() {
    for (dies, expected) in
        [("before the answer", ["refresh-1", "refresh-1"]), ("after it", ["refresh-1", "refresh-2"])]
    {
        let (started, server) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            process().block_on(async {
                started.send(Server::blocked(Says::Grants).await).unwrap();
                std::future::pending::<()>().await;
            });
        });
        let server = server.recv().unwrap();
        let LoginFolder { folder: _folder, login } = place(&server.address);
        let first = process();
        first.block_on(async {
            let logins = Logins::default();
            let wanted = tokio::spawn({
                let login = login.clone();
                async move { token(&logins, &login).await }
            });
            server.arrived.acquire().await.unwrap().forget();
            if dies == "after it" {
                server.permits.add_permits(1);
                assert_eq!(wanted.await.unwrap(), "access-1");
            }
        });
        drop(first);
        server.permits.add_permits(1_000);
        let next = process().block_on(Logins::default().token(&login));
        let used =
            server.asked().iter().map(|form| form.split(['=', '&']).nth(3).unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(used, expected, "dies {dies}");
        match next {
            Ok(token) => {
                assert_eq!((token.reveal(), text(&login.place).as_str()), ("access-2", "refresh-3"), "dies {dies}");
            }
            // The grant is lost with the process that received it; the error says what to do.
            Err(fault) => {
                let failure = failure(&login, fault);
                assert_eq!(
                    (failure.class, text(&login.place).as_str()),
                    (FailureClass::AuthPermanent, "refresh-1"),
                    "dies {dies}"
                );
                assert!(failure.message.contains("Log in again"), "{}", failure.message);
            }
        }
    }
}

fn process() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Each of these stands for a process: they share only the file.
#[tokio::test]
async fn r50_two_processes_with_one_file_do_not_use_a_token_twice() {
    let server = Server::start(Says::Grants).await;
    let LoginFolder { folder: _folder, login } = place(&server.address);
    let wanted: Vec<_> = (0..2)
        .map(|_| {
            let login = login.clone();
            tokio::spawn(async move { token(&Logins::default(), &login).await })
        })
        .collect();
    let mut had = vec![];
    for one in wanted {
        had.push(one.await.unwrap());
    }
    had.sort();
    assert_eq!((had, text(&login.place).as_str()), (vec!["access-1".to_owned(), "access-2".to_owned()], "refresh-3"));
}

#[tokio::test]
async fn r50_a_refresh_token_that_cannot_be_written_is_kept_in_memory() {
    let server = Server::start(Says::Grants).await;
    let LoginFolder { folder, login } = place(&server.address);
    let logins = Logins::default();
    // A folder has the name of the new file, so that it cannot be written, as on a full disk.
    let obstacle = folder.path().join("refresh-token.new");
    fs::create_dir(&obstacle).unwrap();
    for _ in 0..2 {
        let failure = failure(&login, logins.token(&login).await.unwrap_err());
        assert_eq!(failure.class, FailureClass::Auth);
        assert!(
            failure.message.contains("cannot be written to") && !failure.message.contains("refresh-2"),
            "{failure}"
        );
    }
    fs::remove_dir(&obstacle).unwrap();
    assert_eq!((token(&logins, &login).await.as_str(), text(&login.place).as_str()), ("access-1", "refresh-2"));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn r50_r51_refusals_of_the_token_server_are_classified() {
    use FailureClass::{AuthPermanent, Malformed, Network, Overloaded, RateLimit, Server as AtServer};
    let refused = |status: &str, body: &str| Says::Bytes(answer(status, body));
    let grant = |code: &str| format!(r#"{{"error":"{code}","error_description":"of refresh-1"}}"#);
    let again =
        "Log in again and put the new refresh token into PLACE (profile `work` in [[providers.acme.profiles]]).";
    let check = "Check `token_url` and `client_id` of profile `work` in [[providers.acme.profiles]].";
    let later = "Try again later, or check `token_url` of profile `work` in [[providers.acme.profiles]].";
    let page = "<html><title>Gone</title></html>";
    let (large, redirect) =
        ("x".repeat(70_000), "HTTP/1.1 302 Found\r\nlocation: http://h/\r\ncontent-length: 0\r\n\r\n");

    let cases = [
        (
            refused("400 Bad", &grant("invalid_grant")),
            AuthPermanent,
            "answered HTTP 400: invalid_grant: of [key]",
            again,
        ),
        (
            refused("401 Bad", &grant("invalid_client")),
            AuthPermanent,
            "answered HTTP 401: invalid_client: of [key]",
            check,
        ),
        (
            refused("400 Bad", &grant("unauthorized_client")),
            AuthPermanent,
            "answered HTTP 400: unauthorized_client",
            check,
        ),
        (refused("404 Not", "no such page"), AuthPermanent, "answered HTTP 404: no such page", check),
        (
            refused("400 Bad", &grant("temporarily_unavailable")),
            AtServer,
            "answered HTTP 400: temporarily_unavailable",
            later,
        ),
        (
            Says::Bytes(redirect.to_owned()),
            AuthPermanent,
            "answered HTTP 302: a redirect, which is not followed",
            check,
        ),
        (refused("500 Oops", ""), AtServer, "answered HTTP 500", later),
        (refused("503 Full", ""), Overloaded, "answered HTTP 503", later),
        (refused("429 Slow", ""), RateLimit, "answered HTTP 429", later),
        (refused("200 OK", page), Malformed, "answered with something else than tokens", later),
        (refused("200 OK", "{}"), Malformed, "answered with something else than tokens", later),
        (refused("200 OK", &large), Malformed, "sent more than 65536 bytes", later),
        (Says::Bytes(String::new()), Network, "did not answer", later),
    ];
    for (says, class, what, remedy) in cases {
        let server = Server::start(says).await;
        let LoginFolder { folder: _folder, login } = place(&server.address);
        let logins = Logins::default();
        let failure = failure(&login, logins.token(&login).await.unwrap_err());
        let message = failure.message.replace(&login.place.display().to_string(), "PLACE");
        let expected = format!("acme was not asked: the token server {what}");
        assert!(message.starts_with(&expected) && message.ends_with(remedy), "{message}");
        assert_eq!((failure.class, text(&login.place).as_str()), (class, "refresh-1"), "{message}");
        assert!(!format!("{failure:?}").contains("refresh-1"), "{message}");
    }
}

#[tokio::test]
async fn r50_r51_a_token_server_that_is_unreachable_or_silent() {
    let class = async |login: &Login| Logins::default().token(login).await.unwrap_err().class;
    let server = Server::start(Says::Nothing).await;
    let LoginFolder { folder: _folder, mut login } = place(&server.address);
    login.limit = Duration::from_millis(200);
    assert_eq!(class(&login).await, FailureClass::Timeout);
    assert_eq!(
        class(&Login { token_url: "http://127.0.0.1:1/token".to_owned(), ..login.clone() }).await,
        FailureClass::Network
    );
    assert_eq!(
        class(&Login { token_url: "http://h/token".to_owned(), ..login.clone() }).await,
        FailureClass::AuthPermanent
    );
    fs::remove_file(&login.place).unwrap();
    let failure = failure(&login, Logins::default().token(&login).await.unwrap_err());
    assert_eq!(failure.class, FailureClass::AuthPermanent);
    let named = failure.message.matches(&login.place.display().to_string()).count();
    assert!(named == 2 && failure.message.starts_with("acme was not asked: there is no refresh token: "), "{failure}");
    assert_eq!(server.asked().len(), 1);
}
