//! A token server and the provider that takes its tokens, on one port: a refresh token may be used once, and only the
//! access token that was given last is taken.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::Home;

/// A key that is taken as well.
pub(crate) const GOOD_KEY: &str = "key-that-is-good";

/// What the server does, and what it has received.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The number of the refresh token that may be used.
    pub(crate) current: u32,
    /// The number of the access token that is taken.
    taken: Option<u32>,
    /// The lifetime of an access token, as it reports it.
    pub(crate) expires_in: u32,
    /// No request gets an answer.
    pub(crate) is_silent: bool,
    /// No token is given.
    pub(crate) is_closed: bool,
    /// Who asked for a token, by the number of the refresh token that was sent.
    pub(crate) refreshed: Vec<u32>,
    /// The keys of the requests to the model, each with the content of the refresh token's file at that time.
    pub(crate) asked: Vec<(String, String)>,
}

/// The server; it lives as long as its test's process.
pub(crate) struct LoginServer {
    address: String,
    state: Arc<Mutex<State>>,
    place: Arc<Mutex<PathBuf>>,
}

/// The refresh token of this number.
pub(crate) fn refresh_token(number: u32) -> String {
    format!("rt_very_secret_{number}")
}

/// The access token of this number.
fn access_token(number: u32) -> String {
    format!("at_very_secret_{number}")
}

impl LoginServer {
    /// A server that gives tokens which live for so many seconds.
    pub(crate) fn start(expires_in: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let state = Arc::new(Mutex::new(State { current: 1, expires_in, ..State::default() }));
        let place = Arc::new(Mutex::new(PathBuf::new()));
        let (shared, file) = (Arc::clone(&state), Arc::clone(&place));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, file) = (Arc::clone(&shared), Arc::clone(&file));
                // A client that was killed breaks its connection.
                thread::spawn(move || drop(answer(stream, &shared, &file)));
            }
        });
        Self { address, state, place }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The access tokens that were given are refused from now on.
    pub(crate) fn expire(&self) {
        self.state().taken = None;
    }

    /// The file with the refresh token.
    pub(crate) fn file(&self) -> PathBuf {
        lock(&self.place).clone()
    }

    /// A home with one profile that is logged in here.
    pub(crate) fn home(&self) -> Home {
        let home = Home::new().served_at(&format!("{}/v1", self.address));
        let file = home.user().join("refresh-token");
        fs::write(&file, refresh_token(1) + "\n").expect("it can be written");
        lock(&self.place).clone_from(&file);
        home.with("LIMULUS_PROVIDERS__ACME__PROFILES__0__NAME", "work")
            .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KIND", "oauth")
            .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__TOKEN_URL", &format!("{}/token", self.address))
            .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__CLIENT_ID", "limulus")
            .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__REFRESH", &format!("file:{}", file.display()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(stream: TcpStream, state: &Mutex<State>, place: &Mutex<PathBuf>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut path, mut bearer, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim();
        match line.split_once(": ") {
            _ if line.is_empty() => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap_or(0),
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => value.clone_into(&mut bearer),
            Some(_) => {}
            None => line.split(' ').nth(1).unwrap_or_default().clone_into(&mut path),
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let answer = if path == "/token" {
        Some(token(&String::from_utf8_lossy(&body), &mut lock(state)))
    } else {
        let held = fs::read_to_string(&*lock(place)).unwrap_or_default();
        said(&bearer, held.trim(), &mut lock(state))
    };
    match answer {
        Some(answer) => reader.into_inner().write_all(answer.as_bytes()),
        None => reader.read_to_end(&mut body).map(drop),
    }
}

fn token(form: &str, state: &mut State) -> String {
    let sent = form.split('&').find_map(|field| field.strip_prefix("refresh_token=rt_very_secret_"));
    let sent = sent.and_then(|number| number.parse().ok()).unwrap_or(0);
    state.refreshed.push(sent);
    let is_whole = form.contains("grant_type=refresh_token") && form.contains("client_id=limulus");
    if sent != state.current || !is_whole || state.is_closed {
        // Some servers repeat what they were sent.
        let why = format!("{} is not valid", refresh_token(sent));
        let body = format!(r#"{{"error":"invalid_grant","error_description":"{why}"}}"#);
        return whole("400 Bad Request", "application/json", &body);
    }
    state.taken = Some(sent);
    state.current += 1;
    let body = format!(
        r#"{{"access_token":"{}","token_type":"Bearer","expires_in":{},"refresh_token":"{}"}}"#,
        access_token(sent),
        state.expires_in,
        refresh_token(state.current)
    );
    whole("200 OK", "application/json", &body)
}

fn said(bearer: &str, held: &str, state: &mut State) -> Option<String> {
    let bearer = bearer.strip_prefix("Bearer ").unwrap_or_default();
    state.asked.push((bearer.to_owned(), held.to_owned()));
    if state.is_silent {
        return None;
    }
    let is_taken = bearer == GOOD_KEY || state.taken.is_some_and(|taken| bearer == access_token(taken));
    if !is_taken {
        let body = format!(r#"{{"error":{{"message":"the token {bearer} has expired"}}}}"#);
        return Some(whole("401 Unauthorized", "application/json", &body));
    }
    let delta = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":null}]}"#;
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    Some(whole("200 OK", "text/event-stream", &format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n")))
}

fn whole(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}
