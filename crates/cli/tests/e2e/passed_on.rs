//! A service manager listens and passes its socket on (`LISTEN_FDS`): here a program in Python, which does it as systemd does.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Home, PROGRAM, Process};

/// Listens at a free port, or opens a file, and starts a program with that as descriptor 3, again each time that it is killed.
const MANAGER: &str = r#"
import json, os, socket, sys
if sys.argv[1] == "file":
    given = open("/dev/null")
else:
    given = socket.socket()
    given.bind(("127.0.0.1", 0))
    given.listen(64)
    print(json.dumps({"type": "port", "port": given.getsockname()[1]}), flush=True)
while True:
    pid = os.fork()
    if pid == 0:
        os.dup2(given.fileno(), 3)
        os.set_inheritable(3, True)
        environment = dict(os.environ, LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
        os.execve(sys.argv[2], sys.argv[2:], environment)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code >= 0:
        sys.exit(code)
"#;

/// The manager with this; none where there is no Python.
fn manager(home: &Home, given: &str) -> Option<Process> {
    let python = std::env::var("READER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let is_there = Command::new(&python).arg("-V").output().is_ok_and(|output| output.status.success());
    let is_promised = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(is_there || !is_promised, "there is no {python}");
    if !is_there {
        eprintln!("skipped: there is no Python");
        return None;
    }
    Some(Process::spawn(home.program(&python, &["-c", MANAGER, given, PROGRAM, "serve", "--json"])))
}

/// R15, R60: the service listens at the socket that it was given; a client that connects after its kill is answered by the next one.
#[test]
fn r15_r60_a_socket_that_is_passed_on_outlives_a_kill() {
    let home = Home::new();
    let Some(manager) = manager(&home, "socket") else { return };
    let port = manager.until_line("the port", |line| line["type"] == "port")["port"].clone();
    let address = format!("127.0.0.1:{port}");
    let ready = |line: &Value| line["type"] == "ready" && line["listensAt"] == json!(address);
    let first = manager.until_line("ready", ready)["pid"].as_u64().expect("a pid");
    let kill = |pid: u64, signal| {
        kill_process(Pid::from_raw(pid as i32).expect("a pid"), signal).expect("it is there");
    };
    kill(first, Signal::KILL);
    // Nobody serves it now, and it is not refused.
    let mut client = TcpStream::connect(&address).expect("it waits");
    client.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
    write!(client, "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let second = manager.until_line("ready again", |line| ready(line) && line["pid"] != json!(first));
    kill(second["pid"].as_u64().expect("a pid"), Signal::TERM);
    manager.finish().expect_code(0);
}

/// R24: what is no listening socket is refused with what to do.
#[test]
fn r24_what_is_passed_on_must_be_a_socket() {
    let home = Home::new();
    let Some(manager) = manager(&home, "file") else { return };
    manager.finish().expect_code(78).expect_err("LISTEN_FDS").expect_err("systemd-socket");
    let unit = home.run(&["serve", "--unit", "systemd-socket", "--listen", "127.0.0.1:9"]).expect_code(0).out;
    assert!(unit.contains("[Socket]\nListenStream=127.0.0.1:9\n"), "{unit}");
}
