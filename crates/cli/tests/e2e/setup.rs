//! `setup`: what it finds, asks, tries and writes, against real servers and on a real terminal.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use model_server::ModelServer;

use crate::support::{CLOSED, Home, Terminal};

const KEY: &str = "sk-do-not-write-4711";

/// The parts of an Ollama that `setup` uses.
struct Ollama {
    address: SocketAddr,
}

impl Ollama {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answer(stream))));
        Self { address }
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut bytes, mut buffer) = (vec![], [0; 4096]);
    let whole = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head
            .to_lowercase()
            .split_once("content-length: ")
            .map_or(0, |(_, rest)| rest.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or(0));
        (body.len() >= length).then(|| head.to_owned())
    };
    let head = loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(head) = whole(&bytes) {
            break head;
        }
    };
    let body = if head.starts_with("GET /api/tags ") {
        // An entry of another shape costs the list nothing.
        r#"{"models":["odd",{"size":1},{"name":"small:1b","size":1},{"name":7},{"name":"large:9b","size":2}]}"#
            .to_owned()
    } else {
        let said = r#"{"model":"m","message":{"role":"assistant","content":"ready"},"done":false}"#;
        let end = r#"{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":1}"#;
        format!("{said}\n{end}\n")
    };
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// A home without a local Ollama.
fn alone() -> Home {
    Home::new().with("OLLAMA_HOST", CLOSED)
}

fn with_key(home: Home, base_url: &str) -> Home {
    home.with("OPENAI_API_KEY", KEY).with("LIMULUS_PROVIDERS__OPENAI__BASE_URL", base_url)
}

fn file(home: &Home) -> String {
    fs::read_to_string(home.path().join("config.toml")).unwrap_or_default()
}

#[test]
fn r24_setup_changes_the_file_that_the_model_came_from() {
    let ollama = Ollama::start();
    let home = Home::new().with("OLLAMA_HOST", &ollama.address.to_string());
    let own = home.user().join(".config/limulus/config.toml");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "[agents.main]\nmodel = \"acme/other\"\n").unwrap();
    let refused = home.run(&["setup", "--yes"]).expect_code(3).verdict();
    assert!(refused.contains(&format!("{} has another model already", own.display())), "{refused}");
    assert!(!home.path().join("config.toml").exists());
}

#[test]
fn r50_r61_the_key_of_a_variable_is_tried_and_written_by_its_name() {
    let server = ModelServer::start().unwrap();
    let home = with_key(alone(), &server.base_url());
    let done = home.json(&["setup", "--yes"]);
    assert_eq!(done["found"][0]["by"]["variable"], "OPENAI_API_KEY", "{done}");
    assert_eq!(server.seen().len(), 1, "it was tried");
    let text = file(&home);
    assert!(text.contains("model = \"openai/") && text.contains("key = \"env:OPENAI_API_KEY\""), "{text}");
    assert!(!text.contains(KEY) && !done.to_string().contains(KEY), "{text}");
    home.assert_usable("main");
    assert_eq!(home.json(&["runs", "show"])["model"].as_str().map(|model| model.starts_with("openai/")), Some(true));
    let again = home.run(&["setup", "--yes"]).expect_code(0);
    assert!(again.out.contains("has it already"), "{again:?}");
    assert_eq!(file(&home), text);
}

#[test]
fn r61_a_local_ollama_is_found_and_what_is_in_the_file_stays() {
    let ollama = Ollama::start();
    let home = Home::new().with("OLLAMA_HOST", &ollama.address.to_string());
    home.run(&["config", "init"]).expect_code(0);
    let before = file(&home);
    let done = home.run(&["setup", "--yes"]).expect_code(0);
    assert!(done.out.contains("ollama/small:1b answers") && done.out.contains("limulus agent -m"), "{done:?}");
    let after = file(&home);
    assert!(before.lines().all(|line| after.lines().any(|kept| kept == line)), "{after}");
    assert_eq!(home.json(&["config", "check"])["errors"], serde_json::json!([]));
    assert_eq!(home.run(&["agent", "-m", "hi"]).expect_code(0).out, "ready\n");
}

#[test]
fn r24_what_cannot_be_set_up_changes_nothing_and_says_what_to_do() {
    let home = alone();
    let verdict = home.run(&["setup", "--yes"]).expect_code(4).verdict();
    assert!(verdict.contains("ANTHROPIC_API_KEY") && verdict.contains("offline model"), "{verdict}");
    let verdict = home.run(&["setup"]).expect_code(3).verdict();
    assert!(verdict.contains("no terminal") && verdict.contains("--yes"), "{verdict}");
    let home = with_key(home, &format!("http://{CLOSED}/v1"));
    let verdict = home.run(&["setup", "--yes"]).expect_code(1).verdict();
    assert!(verdict.contains("could not be reached") && verdict.contains("nothing was changed"), "{verdict}");
    assert!(!home.path().exists(), "nothing was written");
    let server = ModelServer::start().unwrap();
    let home = with_key(home, &server.base_url());
    fs::create_dir(home.path()).unwrap();
    fs::write(home.path().join("config.toml"), "[agents.main]\nmodel = \"offline/offline\"\n").unwrap();
    let verdict = home.run(&["setup", "--yes"]).expect_code(3).verdict();
    assert!(verdict.contains("another model"), "{verdict}");
    assert_eq!(file(&home), "[agents.main]\nmodel = \"offline/offline\"\n");
}

#[test]
fn r61_a_terminal_is_asked_which_one_and_before_a_file_is_changed() {
    if !Terminal::is_there() {
        return;
    }
    let (ollama, server) = (Ollama::start(), ModelServer::start().unwrap());
    let home = Home::new().with("OLLAMA_HOST", &ollama.address.to_string());
    let home = with_key(home, &server.base_url());
    fs::create_dir(home.path()).unwrap();
    fs::write(home.path().join("config.toml"), "# mine\n[runs]\ndeadline_s = 60\n").unwrap();
    let terminal = Terminal::run(&home, &["setup"]);
    let screen = terminal.until("Which one? [1]");
    assert!(screen.contains("1. openai/") && screen.contains("3. ollama/large:9b"), "{screen}");
    terminal.type_keys(&["99", "Enter"]);
    terminal.until("A number from 1 to 23, or a name of the list");
    terminal.type_keys(&["3", "Enter"]);
    let screen = terminal.until("Write it? [Y/n]");
    assert!(screen.contains("+ model = \"ollama/large:9b\""), "{screen}");
    terminal.type_keys(&["n", "Enter"]);
    terminal.until("exit=3");
    assert_eq!(file(&home), "# mine\n[runs]\ndeadline_s = 60\n");
    drop(terminal);
    let terminal = Terminal::run(&home, &["setup"]);
    terminal.until("Which one? [1]");
    terminal.type_keys(&["Enter"]);
    terminal.until("Write it? [Y/n]");
    terminal.type_keys(&["Enter"]);
    terminal.until("exit=0");
    let text = file(&home);
    assert!(text.starts_with("# mine\n[runs]\n") && text.contains("env:OPENAI_API_KEY"), "{text}");
}
