//! The tool `web_fetch` with a real server on this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use engine::policy::PolicyRule;
use engine::{CallOutcome, Policy};
use serde_json::json;
use tools::NetworkPolicy;

use crate::support::{SECRET, World, output};

/// A server with one response for each path. It runs as long as the test's process.
struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &log, address);
            }
        });
        Self { address, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, asked: &Mutex<Vec<String>>, address: SocketAddr) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(path) = lines.next().and_then(|line| Some(line.split(' ').nth(1)?.to_owned())) else { return };
    let _: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    asked.lock().unwrap().push(path.clone());
    let html = "content-type: text/html; charset=iso-8859-1";
    let (status, header, body) = match path.as_str() {
        "/" => (200, html.to_owned(), [b"<title>The crab</title><p>caf\xe9 ".as_slice(), SECRET.as_bytes()].concat()),
        "/once" => (302, "location: /".to_owned(), vec![]),
        "/round" => (301, "location: /round".to_owned(), vec![]),
        "/away" => (302, "location: file:///etc/passwd".to_owned(), vec![]),
        "/nowhere" => (302, "x: y".to_owned(), vec![]),
        "/other" => (302, format!("location: http://me:secret@{address}/"), vec![]),
        "/elsewhere" => (302, format!("location: http://localhost:{}/", address.port()), vec![]),
        "/image" => (200, "content-type: image/png".to_owned(), b"\x89PNG\r\n\x1a\n\0".to_vec()),
        "/json" => (200, "content-type: application/json".to_owned(), b"{\"a\":1}".to_vec()),
        "/packed" => (200, "content-encoding: gzip\r\ncontent-type: text/html".to_owned(), b"\x1f\x8b".to_vec()),
        "/long" => (200, "content-type: text/plain".to_owned(), "a line of text\n".repeat(200_000).into_bytes()),
        _ => (404, html.to_owned(), b"<p>not here".to_vec()),
    };
    let head =
        format!("HTTP/1.1 {status} X\r\n{header}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // A client that has read enough closes the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

fn world(network: NetworkPolicy) -> World {
    let mut world = World::new();
    world.context.reach = network;
    world
}

#[tokio::test]
async fn a_page_is_returned_as_text_with_its_final_url() {
    let (world, site) = (world(NetworkPolicy::Anywhere), Site::new());
    for path in ["/", "/once"] {
        let ended = world.call("web_fetch", json!({ "url": site.url(path) })).await;
        let result = output(&ended);
        let head = format!("{}\n200 OK, text/html, 50 bytes\ntitle: The crab\n\n", site.url("/"));
        assert_eq!((ended.outcome, result), (CallOutcome::Done, head + "café [secret]\n"));
    }
    let result = output(&world.call("web_fetch", json!({ "url": site.url("/json") })).await);
    assert!(result.ends_with("200 OK, application/json, 7 bytes\n\n{\"a\":1}"), "{result}");
}

#[tokio::test]
async fn a_failed_fetch_says_why() {
    let (world, site) = (world(NetworkPolicy::Anywhere), Site::new());
    for (path, expected) in [
        ("/gone", "404 Not Found, text/html, 11 bytes\n\nnot here"),
        ("/round", "redirected more than 5 times"),
        ("/away", "file:///etc/passwd: only http:// and https://"),
        ("/other", "a user name or a password"),
        ("/nowhere", "its redirect has no valid target"),
    ] {
        let ended = world.call("web_fetch", json!({ "url": site.url(path) })).await;
        assert_eq!(ended.outcome, CallOutcome::Failed);
        assert!(output(&ended).contains(expected), "{path}: {}", output(&ended));
    }
    assert_eq!(site.asked().iter().filter(|path| *path == "/round").count(), 6);
    // No program is given this port unless it asks for it.
    let result = output(&world.call("web_fetch", json!({ "url": "http://127.0.0.1:1/" })).await);
    assert!(result.contains("refused"), "{result}");
    let result = output(&world.call("web_fetch", json!({ "url": "nothing" })).await);
    assert!(result.contains("not a valid URL"), "{result}");
}

/// R24: a host that a rule allows cannot send the fetch to another one.
#[tokio::test]
async fn r24_a_redirect_leaves_no_rule_on_hosts() {
    let (mut world, site) = (world(NetworkPolicy::Anywhere), Site::new());
    let rule = |decision, host: &str| PolicyRule {
        decision,
        origin: "config.toml:1".to_owned(),
        answered: false,
        restricts: false,
        grant: None,
        tools: vec![],
        commands: vec![],
        paths: vec![],
        hosts: vec![host.to_owned()],
    };
    for (rules, default, is_followed) in [
        (vec![], Policy::Allow, true),
        (vec![rule(Policy::Allow, "127.0.0.1")], Policy::Ask, false),
        (vec![rule(Policy::Allow, "127.0.0.1")], Policy::Allow, true),
        (vec![rule(Policy::Deny, "localhost")], Policy::Allow, false),
        (vec![rule(Policy::Ask, "127.0.0.1")], Policy::Ask, true),
        (vec![rule(Policy::Allow, "*"), rule(Policy::Deny, "localhost")], Policy::Ask, false),
    ] {
        (world.settings.policy, world.settings.web_fetch) = (rules.into(), default);
        world.context.rules = tools::CallRules::of(&world.settings);
        let ended = world.call("web_fetch", json!({ "url": site.url("/elsewhere") })).await;
        let result = output(&ended);
        assert_eq!(ended.outcome == CallOutcome::Done, is_followed, "{default:?}: {result}");
        assert!(is_followed || result.contains("for which another rule"), "{result}");
    }
    assert_eq!(site.asked().iter().filter(|path| *path == "/").count(), 3);
}

#[tokio::test]
async fn r45_a_page_is_bounded_and_a_body_that_is_not_text_is_named() {
    let (world, site) = (world(NetworkPolicy::Anywhere), Site::new());
    let ended = world.call("web_fetch", json!({ "url": site.url("/long") })).await;
    let (result, whole) = (output(&ended), ended.whole.unwrap());
    assert!(result.contains(&format!("{} bytes (truncated)", 2 << 20)) && result.len() < 25_000, "{}", result.len());
    assert!(whole.bytes.len() == 2 << 20 && result.ends_with(&format!("output:{}]\n", whole.body.hash)), "{result}");
    for (path, expected) in [("/image", "a PNG image"), ("/packed", "compressed")] {
        let result = output(&world.call("web_fetch", json!({ "url": site.url(path) })).await);
        assert!(result.ends_with(&format!("[not text, so it is not shown: {expected}]\n")), "{result}");
    }
}

/// No connection is made, neither to its number nor to a name that resolves to it.
#[tokio::test]
async fn an_address_that_is_not_public_is_not_connected_to() {
    let (world, site) = (world(NetworkPolicy::Public), Site::new());
    let port = site.address.port();
    for host in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"] {
        let ended = world.call("web_fetch", json!({ "url": format!("http://{host}:{port}/") })).await;
        let result = output(&ended);
        assert!(
            result.contains("is not on the public internet") && result.contains("allow_private"),
            "{host}: {result}"
        );
    }
    assert_eq!(site.asked(), [""; 0]);
}

#[test]
fn the_settings_decide_on_fetches() {
    let mut world = World::new();
    for (policy, expected) in
        [(Policy::Allow, None), (Policy::Ask, Some("fetch http")), (Policy::Deny, Some("[tools.web_fetch]"))]
    {
        world.settings.web_fetch = policy;
        let request = crate::support::request("web_fetch", json!({ "url": "http://site.example/" }));
        let checked = world.check(&request);
        assert_eq!(checked.decision, policy);
        assert!(
            expected.is_none_or(|expected| checked.reason.as_deref().is_some_and(|reason| reason.contains(expected)))
        );
    }
}
