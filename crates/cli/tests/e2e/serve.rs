//! `limulus serve`: a home without a terminal, used over its socket as any program could.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Home, Process, until};

/// A client that knows nothing but the page.
struct Line {
    read: BufReader<UnixStream>,
    write: UnixStream,
    /// Whether a piece of an answer has arrived.
    has_delta: bool,
}

impl Line {
    fn to(home: &Home) -> Self {
        let write = UnixStream::connect(home.path().join("limulus.sock")).expect("somebody listens");
        let read = BufReader::new(write.try_clone().expect("a second handle"));
        let mut line = Self { read, write, has_delta: false };
        let client = json!({ "id": "test", "version": "0", "platform": "linux", "mode": "test" });
        line.ask("hello", "connect", &json!({ "minProtocol": 1, "maxProtocol": 1, "client": client }));
        assert_eq!(line.observe()["payload"]["type"], "hello-ok");
        line
    }

    fn ask(&mut self, id: &str, method: &str, params: &Value) {
        let request = json!({ "type": "req", "id": id, "method": method, "params": params });
        writeln!(self.write, "{request}").expect("it is read");
    }

    fn send(&mut self, key: &str, message: &str) {
        self.ask(key, "agent", &json!({ "message": message, "sessionKey": "main", "idempotencyKey": key }));
    }

    /// The next frame; null at the end.
    fn observe(&mut self) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).expect("it can be read");
        let frame: Value =
            if line.is_empty() { Value::Null } else { serde_json::from_str(&line).expect("a frame is JSON") };
        self.has_delta |= frame["payload"]["type"] == "delta";
        frame
    }

    /// Waits for a piece of an answer. It may have come before the message was answered as accepted.
    fn until_delta(&mut self) {
        while !self.has_delta {
            assert!(!self.observe().is_null(), "it was closed before anything was said");
        }
    }

    /// The next answer to this request.
    fn answer(&mut self, id: &str) -> Value {
        loop {
            let frame = self.observe();
            assert!(!frame.is_null(), "it was closed before it answered {id}");
            if frame["id"] == id {
                return frame;
            }
        }
    }
}

/// Starts the service and waits until it is ready. Returns its `ready` object.
fn serve(home: &Home) -> (Process, Value) {
    let service = home.start(&["serve", "--json"]);
    let ready = service.until_line("ready", |line| line["type"] == "ready");
    (service, ready)
}

/// R60: a message gets two responses with one id; between them come the lines of the run.
#[test]
fn r60_a_raw_client_sends_a_message_and_reads_its_run() {
    let home = Home::new();
    let (service, ready) = serve(&home);
    let socket = fs::symlink_metadata(home.path().join("limulus.sock")).expect("a socket");
    assert!(socket.file_type().is_socket() && socket.mode() & 0o777 == 0o600);
    assert_eq!((&ready["pid"], &ready["sessions"]), (&json!(service.pid()), &json!([])));
    let mut line = Line::to(&home);
    line.ask("events", "events.subscribe", &json!({ "session": "main" }));
    assert_eq!(line.answer("events")["ok"], true);
    line.send("k", "Who are you?");
    let (mut seqs, mut answers, mut ended) = (vec![], vec![], false);
    while answers.len() < 2 {
        let frame = line.observe();
        match frame["type"].as_str() {
            Some("res") => {
                assert!(answers.is_empty() || ended, "the end is sent before the response");
                answers.push(frame["payload"].clone());
            }
            _ if frame["payload"]["run"].is_string() => {
                ended |= frame["payload"]["stream"] == "lifecycle" && frame["payload"]["type"] == "end";
                seqs.push(frame["seq"].as_u64().expect("a number"));
            }
            _ => {}
        }
    }
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!((&answers[0]["status"], &answers[1]["status"]), (&json!("accepted"), &json!("ok")));
    assert!(answers[1]["text"].as_str().is_some_and(|text| text.contains("offline model")), "{answers:?}");
    home.run(&["agent", "--session", "other", "-m", "Who are you?"]).expect_code(0);
    service.signal(Signal::TERM);
    assert_eq!(line.observe()["event"], "shutdown");
    assert!(line.observe().is_null());
    service.finish().expect_code(0).expect_err("stopping");
    assert!(!home.path().join("limulus.sock").exists());
}

/// R10, R11: a message that was acknowledged is answered after a SIGKILL too, by the next owner, once.
#[test]
fn r10_r11_the_next_service_continues_after_a_killed_one() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let (service, _) = serve(&home);
    let mut line = Line::to(&home);
    line.ask("events", "events.subscribe", &json!({ "session": "main" }));
    line.send("k", "stall=3x1 tokens=40");
    let accepted = line.answer("k")["payload"].clone();
    assert_eq!(accepted["status"], "accepted");
    // The one stall of the model is this owner's: the next one is answered at once.
    line.until_delta();
    service.kill();
    while !line.observe().is_null() {}

    let (service, ready) = serve(&home);
    assert_eq!(ready["sessions"], json!(["agent:main:main"]), "it took up what was unfinished");
    let mut line = Line::to(&home);
    line.send("k", "stall=3x1 tokens=40");
    let again = line.answer("k")["payload"].clone();
    for same in ["runId", "acceptedAt", "message", "mode"] {
        assert_eq!(again[same], accepted[same], "the same key is the same run: {same}");
    }
    let ended = line.answer("k")["payload"].clone();
    assert_eq!((&ended["status"], &ended["runId"]), (&json!("ok"), &accepted["runId"]));
    service.signal(Signal::INT);
    service.finish().expect_code(0);
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1));
}

/// R15: an answer that is on its way comes to its end before the service does.
#[test]
fn r15_a_service_that_is_stopped_lets_an_answer_end() {
    let home = Home::new().paced(20).with("LIMULUS_SERVE__DRAIN_S", "3600");
    let (service, _) = serve(&home);
    let mut line = Line::to(&home);
    line.ask("events", "events.subscribe", &json!({ "session": "main" }));
    line.send("k", "Who are you?");
    assert_eq!(line.answer("k")["payload"]["status"], "accepted");
    line.until_delta();
    service.signal(Signal::TERM);
    service.until_err("stopping");
    assert_eq!(line.answer("k")["payload"]["status"], "ok");
    service.finish().expect_code(0);
}

#[test]
fn r15_the_service_manager_is_notified_and_a_foreign_file_at_the_socket_path_is_kept() {
    let home = Home::new();
    let manager = UnixDatagram::bind(home.file("notify")).expect("a socket");
    // A state may come with a status for people, which may also come alone.
    let observed = || loop {
        let mut state = [0; 256];
        let bytes = manager.recv(&mut state).expect("a state");
        let state = String::from_utf8_lossy(&state[..bytes]).into_owned();
        if let Some(state) = state.lines().find(|line| !line.starts_with("STATUS=")) {
            return state.to_owned();
        }
    };
    let home = Home::with(Home::new(), "NOTIFY_SOCKET", &home.file("notify").display().to_string());
    let (service, _) = serve(&home);
    assert_eq!(observed(), "READY=1");
    service.signal(Signal::TERM);
    assert_eq!(observed(), "STOPPING=1");
    service.finish().expect_code(0);

    fs::write(home.path().join("limulus.sock"), "mine").expect("the home can be written");
    let refused = home.run(&["serve"]).expect_code(74);
    assert!(refused.verdict().contains("is not a socket"), "{refused:?}");
    fs::remove_file(home.path().join("limulus.sock")).expect("it is still there");
    let unit = home.run(&["serve", "--unit", "systemd"]).expect_code(0);
    assert!(unit.out.contains("KillMode=process") && unit.err.is_empty(), "{unit:?}");
    until("a home at rest", || home.run(&["status"]).code == Some(0));
}

/// How often the threads of a process have waited for something.
fn waits(service: &Process) -> u64 {
    let threads = fs::read_dir(format!("/proc/{}/task", service.pid())).expect("it runs");
    let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).unwrap_or_default();
    let waits = threads.flatten().map(status).map(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.map_or(0, |waits| waits.trim().parse::<u64>().expect("a number"))
    });
    waits.sum()
}

/// R21: a service without work has no timer that ticks, in no thread, also after it has worked.
#[test]
fn r21_a_service_at_rest_wakes_no_thread() {
    /// Any timer that watches something is shorter than this.
    const AT_REST: Duration = Duration::from_secs(2);
    let home = Home::new();
    let (service, _) = serve(&home);
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let mut last = (waits(&service), Instant::now());
    until("two seconds in which no thread of the service was woken", || {
        let now = waits(&service);
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() >= AT_REST
    });
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
}
