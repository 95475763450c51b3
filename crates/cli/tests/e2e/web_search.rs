//! The tool `web_search`: what a configured provider finds reaches the model, and its key nothing else.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::secrets::holds;
use crate::support::{Home, until};

const KEY: &str = "tide-key-0123456789";
const SEARCH: &str = r#"call:web_search {"query": "high tide", "count": 2}"#;

/// A search engine that repeats the key wherever it can.
struct Engine {
    address: SocketAddr,
    /// The head of each request.
    asked: Receiver<String>,
}

impl Engine {
    fn start(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (asking, asked) = channel();
        let rows = json!([
            { "title": "The <b>tide</b> table", "url": "https://tide.example/", "description": format!("High at noon. {KEY}") },
            { "title": "Two", "url": "https://two.example/" },
            { "title": "Three", "url": "https://three.example/" },
        ]);
        let body = json!({ "web": { "results": rows }, "key": KEY }).to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut reader = BufReader::new(stream.try_clone().expect("the same connection"));
                let mut head = String::new();
                while reader.read_line(&mut head).expect("a line") > 2 {}
                // Sent before the response: whoever has the response finds the request.
                let _ = asking.send(head);
                let answer =
                    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.try_iter().collect()
    }

    /// The section that configures it.
    fn section(&self, key: &str) -> String {
        format!("[tools.web_search]\nprovider = \"brave\"\nkey = \"{key}\"\nurl = \"http://{}\"\n", self.address)
    }
}

fn configure(home: &Home, text: &str) {
    fs::create_dir_all(home.path()).expect("a home");
    fs::write(home.path().join("new"), text).expect("a configuration");
    fs::rename(home.path().join("new"), home.path().join("config.toml")).expect("in its place");
}

/// What the model received as the result of its first call in the newest run.
fn received(home: &Home) -> (String, String) {
    let call = home.json(&["runs", "show"])["steps"][0]["calls"][0].clone();
    let text = |key: &str| call[key].as_str().expect("a text").trim().to_owned();
    (text("outcome"), text("output"))
}

const ALLOWED: &str = "[tools.web_fetch]\npolicy = \"allow\"\n";

/// R13, R50: the results reach the model, and the key, from wherever it comes, the provider alone.
#[test]
pub(crate) fn r13_r50_what_is_found_reaches_the_model_and_the_key_nothing_else() {
    let server = ModelServer::start().unwrap();
    for (status, key) in [
        ("200 OK", "env:TIDE_KEY"),
        ("200 OK", "cmd:printf tide-key-%s 0123456789"),
        ("401 Unauthorized", "env:TIDE_KEY"),
        ("500 X", "cmd:printf tide-key-%s 0123456789"),
    ] {
        let engine = Engine::start(status);
        let home = Home::new().served_by(&server).with("TIDE_KEY", KEY);
        configure(&home, &(ALLOWED.to_owned() + &engine.section(key)));
        let run = home.run(&["agent", "-m", SEARCH]).expect_code(0);
        let (outcome, output) = received(&home);
        let asked = engine.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(asked[0].starts_with("GET /res/v1/web/search?q=high+tide&count=2 HTTP"), "{asked:?}");
        assert!(asked[0].contains(&format!("x-subscription-token: {KEY}\r\n")), "{asked:?}");
        if status == "200 OK" {
            let found = "1. The tide table\n   https://tide.example/\n   High at noon. [secret]\n2. Two\n   https://two.example/";
            assert_eq!((outcome.as_str(), output.as_str()), ("done", found));
        } else {
            assert!(outcome == "failed" && output.starts_with("cannot search the web: "), "{outcome}: {output}");
            assert!(output.contains("Check tools.web_search.key") || output.contains("Try again later"), "{output}");
        }
        for words in [
            &["config", "show", "--origin"][..],
            &["config", "check"],
            &["sessions", "show", "--json"],
            &["sessions", "export", "main"],
            &["runs", "trace"],
            &["runs", "show", "--json"],
            &["doctor"],
        ] {
            let shown = home.run(words);
            assert!(!shown.out.contains(KEY) && !shown.err.contains(KEY), "{words:?}: {shown:?}");
        }
        assert!(!run.out.contains(KEY) && !run.err.contains(KEY), "{run:?}");
        assert!(!holds(&home.path(), KEY), "{status}, {key}: the key is in a file of the home");
    }
}

/// R24: a search is decided as a page of its provider's host is.
#[test]
pub(crate) fn r24_a_search_is_decided_as_a_page_of_its_host() {
    let server = ModelServer::start().unwrap();
    let engine = Engine::start("200 OK");
    let rule = |decision: &str, host: &str| {
        format!("[[policy]]\ndecision = \"{decision}\"\ntool = \"web_search\"\nhost = \"{host}\"\n")
    };
    let policy = |policy: &str| format!("[tools.web_fetch]\npolicy = \"{policy}\"\n");
    for (more, code, outcome, decision) in [
        (String::new(), 3, "denied", "ask"),
        (policy("ask"), 3, "denied", "ask"),
        (policy("deny"), 0, "denied", "deny"),
        (rule("allow", "127.0.0.1"), 0, "done", "allow"),
        (rule("allow", "*.example.org"), 3, "denied", "ask"),
        (rule("deny", "127.0.0.1") + &policy("allow"), 0, "denied", "deny"),
    ] {
        let home = Home::new().served_by(&server).with("TIDE_KEY", KEY);
        configure(&home, &(engine.section("env:TIDE_KEY") + &more));
        home.run(&["agent", "-m", SEARCH]).expect_code(code);
        assert_eq!(received(&home).0, outcome, "{more}");
        assert_eq!(engine.asked().len(), usize::from(outcome == "done"), "{more}");
        let explained = home.run(&["policy", "explain", "web_search", "high tide"]).expect_code(0).out;
        let act = format!("fetch http://{}/res/v1/web/search?q=high+tide", engine.address);
        assert!(
            explained.contains(&act) && explained.contains(&format!("the call: {decision}")),
            "{more}: {explained}"
        );
    }
}

/// R13: without a configuration there is no such tool, and a broken one names what is missing.
#[test]
pub(crate) fn r13_without_a_configuration_there_is_no_web_search() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    for text in ["", "[tools.web_search]\nkey = \"env:TIDE_KEY\"\n"] {
        configure(&home, text);
        let unknown = home.run(&["policy", "explain", "web_search", "high tide"]).expect_code(2);
        assert!(unknown.err.contains("there is no tool `web_search`"), "{unknown:?}");
        home.run(&["agent", "-m", SEARCH]).expect_code(0);
        let (outcome, output) = received(&home);
        assert!(outcome == "denied" && output.contains("there is no tool `web_search`"), "{outcome}: {output}");
        let context = home.run(&["sessions", "context"]).expect_code(0).out;
        let tools = context.lines().find(|line| line.contains("read, ls, grep")).expect("the line of the tools");
        assert!(!tools.contains("web_search"), "{tools}");
    }
    for (section, key) in [("provider = \"searxng\"", "url"), ("provider = \"tavily\"", "key")] {
        configure(&home, &format!("[tools.web_search]\n{section}\n"));
        let refused = home.run(&["agent", "-m", "Hi"]).expect_code(78);
        assert!(refused.err.contains(&format!("`tools.web_search.{key}` is missing")), "{refused:?}");
    }
}

/// R50, R60: whoever is asked sees what is searched for and may allow the host for good; a key does not go to an address that
/// was configured after the run began.
#[test]
fn r50_r60_an_approved_search_goes_where_it_was_to_go() {
    let server = ModelServer::start().unwrap();
    let (engine, other) = (Engine::start("200 OK"), Engine::start("200 OK"));
    let home = Home::new().served_by(&server).with("TIDE_KEY", KEY);
    configure(&home, &engine.section("env:TIDE_KEY"));
    let service = home.start(&["serve"]);
    service.until_err("serving");
    let asked = || {
        let mut listed = vec![];
        until("the request is open", || {
            listed.clone_from(home.json(&["approvals", "list"]).as_array().expect("an array"));
            listed.len() == 1
        });
        listed.remove(0)
    };
    let id = |request: &Value| request["id"].as_str().expect("an id").to_owned();

    let waiting = home.start(&["agent", "-m", SEARCH]);
    let request = asked();
    assert!(request.to_string().contains("search?q=high+tide"), "{request}");
    configure(&home, &other.section("env:TIDE_KEY"));
    home.run(&["approvals", "approve", &id(&request)]).expect_code(0);
    waiting.finish().expect_code(0);
    let (outcome, output) = received(&home);
    assert!(outcome == "failed" && output.contains("has another address"), "{outcome}: {output}");
    assert_eq!((engine.asked().len(), other.asked().len()), (0, 0), "the key went nowhere");

    let waiting = home.start(&["agent", "--session", "two", "-m", SEARCH]);
    home.run(&["approvals", "approve", &id(&asked()), "--always", "home"]).expect_code(0);
    waiting.finish().expect_code(0);
    home.run(&["agent", "--session", "three", "-m", SEARCH]).expect_code(0);
    assert_eq!((engine.asked().len(), other.asked().len()), (0, 2), "the second one needs no approval");
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
}
