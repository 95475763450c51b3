//! A client that is written by hand: it shares nothing with the program but the protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::Home;

/// A client by hand.
pub(crate) struct RawClient {
    read: BufReader<UnixStream>,
    write: UnixStream,
}

impl RawClient {
    pub(crate) fn to(home: &Home) -> Self {
        Self::with_caps(home, &[])
    }

    /// A client with these capabilities.
    pub(crate) fn with_caps(home: &Home, caps: &[&str]) -> Self {
        let write = UnixStream::connect(home.path().join("limulus.sock")).expect("somebody listens");
        let read = BufReader::new(write.try_clone().expect("a second handle"));
        let mut client = Self { read, write };
        let who = json!({ "id": "test", "version": "1", "platform": "linux", "mode": "test" });
        client.ask("connect", &json!({ "minProtocol": 1, "maxProtocol": 1, "client": who, "caps": caps }));
        client
    }

    pub(crate) fn say(&mut self, method: &str, params: &Value) {
        let request = json!({ "type": "req", "id": method, "method": method, "params": params });
        writeln!(self.write, "{request}").expect("it is read");
    }

    /// Sends a request and returns the response. Skips the state lines at the start of a subscription.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.say(method, params);
        loop {
            let frame = self.observe().expect("an answer");
            if frame["type"] == "res" {
                assert_eq!(frame["ok"], true, "{frame}");
                return frame["payload"].clone();
            }
        }
    }

    /// The next frame; None if the connection ends, also in the middle of a frame.
    pub(crate) fn observe(&mut self) -> Option<Value> {
        serde_json::from_str(&self.line()?).ok()
    }

    /// The next frame as it came.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.read.read_line(&mut line) {
            Ok(1..) => Some(line),
            Ok(0) | Err(_) => None,
        }
    }

    /// The next frame that is it.
    pub(crate) fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.observe().expect("the connection goes on");
            if is_it(&frame) {
                return frame;
            }
        }
    }
}
