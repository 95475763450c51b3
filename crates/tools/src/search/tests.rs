//! Searches with a real server on this machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;

use engine::{Policy, Settings};

use super::*;
use crate::policy_explained::{context_of, explain};
use crate::{Needs, with_tools_for};

const KEY: &str = "search-key-0123456789";

/// A server that gives the same answer to each request.
struct Engine {
    address: SocketAddr,
    /// The head and the body of each request.
    asked: mpsc::Receiver<(String, String)>,
}

impl Engine {
    /// `answer` begins with the status.
    fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asking, asked) = mpsc::channel();
        let answer = answer.into();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while reader.read_line(&mut head).unwrap() > 2 {}
                let length = head
                    .lines()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                reader.read_exact(&mut body).unwrap();
                asking.send((head, String::from_utf8(body).unwrap())).unwrap();
                // The client may end a long answer early.
                let _ = stream.write_all(&[b"HTTP/1.1 ", answer.as_slice()].concat());
            }
        });
        Self { address, asked }
    }

    fn json(body: &Value) -> Self {
        Self::answering(format!("200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{body}"))
    }

    fn refusing(head: &str, body: &str) -> Self {
        Self::answering(format!("{head}\r\nconnection: close\r\n\r\n{body}"))
    }

    fn provider(&self, api: SearchApi) -> SearchProvider {
        let url = format!("http://{}", self.address);
        let provider = SearchProvider::new(api, &url, &url);
        if api == SearchApi::Searxng { provider } else { provider.with_key(|_| Ok(KEY.to_owned())) }
    }

    async fn search(&self, api: SearchApi, arguments: Value) -> Result<String, String> {
        search(Some(self.provider(api)), arguments, Duration::from_secs(20)).await
    }
}

async fn search(provider: Option<SearchProvider>, arguments: Value, limit: Duration) -> Result<String, String> {
    let context = Context { search: provider, ..context_of(&Settings::default()) };
    let call = SearchArguments::of(arguments).map_err(|error| error.to_string())?;
    let found = call.search(&context, limit).await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(found.output.bytes.to_vec()).unwrap())
}

/// R13: each wire format, with markup, and fields that are missing, long or of another type.
#[tokio::test]
async fn r13_a_search_asks_each_provider_in_its_own_way() {
    let rows = |snippet: &str| {
        json!([
            { "title": "The <strong>tide</strong> &amp; the moon", "url": "https://a.example/x", snippet: "It rises\n<b>twice</b> a&#x27;day.\u{1b}[2J" },
            { "title": 7, "url": "https://b.example/" },
            { "title": "no address", snippet: "x" },
            { "title": "a script", "url": "javascript:alert(1)" },
            { "title": "t".repeat(900), "url": "https://c.example/", snippet: "é".repeat(900) },
            { "title": "more", "url": "https://d.example/" },
        ])
    };
    let shown = format!(
        "1. The tide & the moon\n   https://a.example/x\n   It rises twice a'day. [2J\n2. (no title)\n   https://b.example/\n\
         3. {}…\n   https://c.example/\n   {}…\n",
        "t".repeat(200),
        "é".repeat(500)
    );
    let arguments = json!({ "query": " tide\n & moon ", "count": 3 });
    let get = |head: &str, path: &str| assert!(head.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{head}");

    let brave = Engine::json(&json!({ "web": { "results": rows("description") } }));
    assert_eq!(brave.search(SearchApi::Brave, arguments.clone()).await.unwrap(), shown);
    let (head, _) = brave.asked.recv().unwrap();
    get(&head, "/res/v1/web/search?q=tide+%26+moon&count=3");
    assert!(head.contains(&format!("x-subscription-token: {KEY}\r\n")), "{head}");

    let tavily = Engine::json(&json!({ "results": rows("content") }));
    assert_eq!(tavily.search(SearchApi::Tavily, arguments.clone()).await.unwrap(), shown);
    let (head, body) = tavily.asked.recv().unwrap();
    assert!(
        head.starts_with("POST /search HTTP/1.1\r\n") && head.contains(&format!("authorization: Bearer {KEY}\r\n")),
        "{head}"
    );
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body, json!({ "query": "tide & moon", "max_results": 3 }));

    let searxng = Engine::json(&json!({ "results": rows("content") }));
    assert_eq!(searxng.search(SearchApi::Searxng, arguments).await.unwrap(), shown);
    let (head, _) = searxng.asked.recv().unwrap();
    get(&head, "/search?q=tide+%26+moon&format=json");
    assert!(!head.contains(KEY), "{head}");
}

#[tokio::test]
async fn r13_a_search_that_finds_nothing_says_so() {
    for (api, answer) in [
        (SearchApi::Brave, json!({ "type": "search" })),
        (SearchApi::Brave, json!({ "web": { "results": [] } })),
        (SearchApi::Tavily, json!({ "results": [] })),
        (SearchApi::Searxng, json!({ "results": [{ "title": "no address" }, 3] })),
    ] {
        let found = Engine::json(&answer).search(api, json!({ "query": "tide" })).await;
        assert_eq!(found.as_deref(), Ok("no results\n"), "{answer}");
    }
}

/// R13, R50: each failure says what to do, and none of them shows the key that the server repeats.
#[tokio::test]
async fn r13_r50_a_search_that_fails_says_what_to_do_and_shows_no_key() {
    use SearchApi::{Brave, Searxng, Tavily};
    let long = format!("{}{KEY}", "x".repeat(290));
    for (api, head, body, parts) in [
        (Brave, "401 Unauthorized", KEY, &["the key is refused (401): [secret]. Check tools.web_search.key"][..]),
        (
            Tavily,
            "403 Forbidden",
            "<p>no: se<b>arch-key</b>-0123456789</p>",
            &["the key is refused (403): no: [secret]"],
        ),
        (Brave, "422 X", "{\"code\":\"SUBSCRIPTION_TOKEN_INVALID\"}", &["the key is refused (422)"]),
        (Brave, "422 X", "q is too long", &["refused the search (422): q is too long. Check [tools.web_search]"]),
        (Brave, "429 X\r\nretry-after: 7", "slow", &["no more searches now (429): slow. Try again after 7 s"]),
        (Tavily, "429 X\r\nretry-after: Fri, 1 Jan 2027", "", &["(429). Try again after Fri, 1 Jan 2027"]),
        (Tavily, "429 X", "", &["Try again later"]),
        (Tavily, "503 X", &long, &["an error of its own (503)", "Try again later"]),
        (Searxng, "403 Forbidden", "", &["format json is not enabled", "search.formats"]),
        (Searxng, "401 Unauthorized", "", &["user and password into tools.web_search.url"]),
        (
            Brave,
            &format!("302 X\r\nlocation: http://127.0.0.1:1/{KEY}"),
            "",
            &["redirects to http://127.0.0.1:1/[secret] (302)", "not followed"],
        ),
        (Brave, "200 OK", KEY, &["no JSON", "check tools.web_search.url"]),
        (Searxng, "200 OK", "<html>", &["no JSON", "the address of a searxng"]),
        (Tavily, "200 OK", "{\"result\": 1}", &["without a list of results"]),
        (Brave, "200 OK", "[]", &["without a list of results"]),
        (Brave, "200 OK", "{\"web\": 1}", &["without a list of results"]),
        (Tavily, "200 OK", &"x".repeat(2 << 20), &["longer than 1 MiB", "`count`"]),
        (Tavily, "500 X", &"x".repeat(2 << 20), &["an error of its own (500). Try"]),
    ] {
        let engine = Engine::refusing(head, body);
        let error = engine.search(api, json!({ "query": "tide" })).await.unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{head}: `{error}` lacks `{part}`");
        }
        assert!(error.len() < 600 && !error.contains("search-key"), "{head}: {error}");
        assert_eq!(engine.asked.try_iter().count(), 1, "{head}: asked once");
    }
}

/// R13, R50: what a result holds of the key is masked, also where it would be cut.
#[tokio::test]
async fn r50_a_key_in_a_result_is_masked() {
    let title = format!("{}{KEY}", "x".repeat(195));
    let rows = json!({ "results": [{ "title": title, "url": format!("https://a.example/?k={KEY}"), "content": KEY }] });
    let found = Engine::json(&rows).search(SearchApi::Tavily, json!({ "query": "tide" })).await.unwrap();
    assert!(!found.contains("search") && found.contains("[secret]"), "{found}");
}

/// R45: a server that does not answer is given up, one that is not there is named, and so is a key that cannot be read.
#[tokio::test]
async fn r45_a_search_does_not_wait_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = |address: SocketAddr| {
        let url = format!("http://{address}");
        SearchProvider::new(SearchApi::Searxng, &url, &url)
    };
    let query = || json!({ "query": "tide" });
    let late = search(Some(provider(silent.local_addr().unwrap())), query(), Duration::from_millis(50)).await;
    assert!(late.as_ref().is_err_and(|error| error.contains("took longer than 0.05 s; try again later")), "{late:?}");
    let gone = silent.local_addr().unwrap();
    drop(silent);
    let unreached = search(Some(provider(gone)), query(), Duration::from_secs(20)).await.unwrap_err();
    assert!(unreached.contains("cannot be reached") && unreached.contains("tools.web_search.url"), "{unreached}");
    let keyless = provider(gone).with_key(|_| Err("the variable K is not set".to_owned()));
    let error = search(Some(keyless), query(), Duration::from_secs(20)).await.unwrap_err();
    assert!(error.contains("the variable K is not set"), "{error}");
    let error = search(None, query(), Duration::from_secs(20)).await.unwrap_err();
    assert!(error.contains("is not configured any more"), "{error}");
    let invalid = SearchProvider::new(SearchApi::Searxng, "http://[", "http://[");
    let error = search(Some(invalid), query(), Duration::from_secs(20)).await.unwrap_err();
    assert!(error.contains("is not a valid address"), "{error}");
}

#[test]
fn r13_what_cannot_be_searched_for_is_refused() {
    for (arguments, part) in [
        (json!({ "query": " \n" }), "say what to search for"),
        (json!({ "query": "é".repeat(401) }), "400 characters are the most"),
    ] {
        let error = SearchArguments::of(arguments).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(SearchArguments::of(json!({ "query": "é".repeat(400) })).unwrap().count, 5);
}

/// R24: the address that is judged is that of the run, with what is searched for and without what is secret.
#[test]
fn r24_a_search_is_judged_by_the_address_of_its_provider() {
    let provider = SearchProvider::new(
        SearchApi::Brave,
        "https://me:secret@search.example/api/?t=1#x",
        "https://…@search.example/api/?t=…",
    );
    assert_eq!(provider.address(), "https://search.example/api/res/v1/web/search");
    let (web_search, tools) =
        (Some(provider.address().to_owned()), with_tools_for(Needs::SearchProvider, &crate::specs()));
    let settings = Settings { web_search, tools, workspace: "/".to_owned(), ..Settings::default() };
    let acts = explain(&settings, NAME, br#"{"query":"the tide"}"#).unwrap();
    assert_eq!(acts[0].act, "fetch https://search.example/api/res/v1/web/search?q=the+tide");
    assert_eq!((acts[0].decision, acts[0].setting), (settings.web_fetch, "tools.web_fetch.policy"));
    assert_ne!(settings.web_fetch, Policy::Allow);
    let without = Settings { web_search: None, tools: crate::specs(), ..settings };
    let unknown = explain(&without, NAME, br#"{"query":"the tide"}"#).unwrap_err().to_string();
    assert!(unknown.contains("there is no tool `web_search`"), "{unknown}");
}
