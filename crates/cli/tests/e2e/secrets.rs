//! Keys stay where they belong: neither a model nor a user, a changed configuration or a proxy of the environment brings
//! one anywhere else.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;

use crate::support::{Does, Home, Planned, STREAM, until, whole};

const KEY: &str = "sk-tide-0123456789/abc+def";
const TOKEN: &str = "tok-header-9876543210";

/// A home with a provider at this address that has a key, a header and a password.
fn home(base_url: &str) -> Home {
    let base_url = base_url.replacen("http://", "http://me:pass-of-the-address@", 1);
    Home::new()
        .served_at(&base_url)
        .with("ACME_KEY", KEY)
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "env:ACME_KEY")
        .with("LIMULUS_PROVIDERS__ACME__HEADERS__X-TEAM", &format!("Bearer {TOKEN}"))
}

/// Whether any file below this folder holds the text.
pub(crate) fn holds(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return holds(&path, text);
        }
        fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
    })
}

fn frame(delta: &serde_json::Value) -> String {
    format!("data: {}\n\n", serde_json::json!({ "choices": [{ "index": 0, "delta": delta }] }))
}

/// A key in every part of an answer, split over its pieces: text, reasoning, the name and the arguments of a call.
#[test]
pub(crate) fn r50_a_key_in_the_answer_of_a_model_is_in_no_event_no_file_and_no_output() {
    let server = Planned::start(|number, _| {
        let pieces: Vec<String> = KEY.as_bytes().chunks(3).map(|piece| String::from_utf8_lossy(piece).into()).collect();
        if number > 0 {
            return Does::Answer(whole(&["It is ", &KEY[..9], &KEY[9..], ", ", TOKEN, " and pass-of-the-address."]));
        }
        let delta = |name: &str, piece: &String| frame(&serde_json::json!({ name: piece }));
        let mut answer = STREAM.to_owned();
        answer.extend(pieces.iter().map(|piece| delta("reasoning_content", piece)));
        answer.extend(pieces.iter().map(|piece| delta("content", piece)));
        let call = |more: serde_json::Value| frame(&serde_json::json!({ "tool_calls": [more] }));
        let named = serde_json::json!({ "index": 0, "id": "c1", "function": { "name": "write", "arguments": "{\"path\":\"out\",\"content\":\"" } });
        answer += &call(named);
        let more = |text: &String| call(serde_json::json!({ "index": 0, "function": { "arguments": text } }));
        answer.extend(pieces.iter().map(more));
        answer += &more(&"\"}".to_owned());
        let other = serde_json::json!({ "index": 1, "id": TOKEN, "function": { "name": format!("tool-{KEY}"), "arguments": "{}" } });
        answer += &call(other);
        answer +=
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
        Does::Answer(answer)
    });
    let home = home(&server.base_url);
    let run = home.run(&["agent", "--json", "-m", "Hi"]).expect_code(0);
    let trace = home.run(&["runs", "trace"]).expect_code(0);
    let text = home.run(&["runs", "show", "--json"]).expect_code(0);
    for secret in [KEY, TOKEN, "pass-of-the-address"] {
        for shown in [&run.out, &run.err, &trace.out, &text.out] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert!(!holds(&home.path(), secret), "{secret} is in a file of the home");
    }
    assert_eq!(home.text("out"), "[secret]", "the tool received the mask");
    let sent = server.seen()[1].body.to_string();
    assert!(!sent.contains(KEY) && sent.contains("[secret]"), "{sent}");
    let answer = home.run(&["runs", "show"]).expect_code(0).out;
    assert!(answer.contains("It is [secret], [secret] and [secret]."), "{answer}");
}

#[test]
pub(crate) fn r50_a_key_in_the_message_of_a_user_is_masked_before_it_is_recorded_and_the_receipt_says_so() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["Yes."])));
    let home = home(&server.base_url);
    let reversed: String = KEY.chars().rev().collect();
    let message = format!("Use {KEY} or {reversed}, or Bearer {TOKEN}.");
    home.run(&["agent", "--key", "k1", "-m", &message]).expect_code(0);
    let sent = server.seen()[0].body.to_string();
    assert!(sent.contains("Use [secret] or [secret], or [secret]."), "{sent}");
    for secret in [KEY, TOKEN, &reversed] {
        assert!(!holds(&home.path(), secret), "{secret} is in a file of the home");
    }
    assert_eq!(home.json(&["receipt", "k1"])["masked"], 3);
    assert!(home.run(&["receipt", "k1"]).expect_code(0).out.contains("secrets that were masked in it: 3"));
    // The same message with the same key is the same message still.
    home.run(&["agent", "--key", "k1", "-m", &message]).expect_code(0);
    assert_eq!(server.seen().len(), 1);
    home.run(&["agent", "--key", "k2", "-m", "Without any."]).expect_code(0);
    assert_eq!(home.json(&["receipt", "k2"])["masked"], serde_json::Value::Null);
    // Also what a summary is to keep.
    home.run(&["compact", "--focus", KEY]);
    assert!(!holds(&home.path(), KEY));
}

/// The first request of a run goes to one server; before the second one the file names another.
#[test]
fn r50_a_key_does_not_go_to_an_address_that_changed_after_its_run_began() {
    let elsewhere = Planned::start(|_, _| Does::Answer(whole(&["Thank you for the key."])));
    for (before, after) in [
        (String::new(), format!("base_url = \"{}\"\n", elsewhere.base_url)),
        (String::new(), format!("proxy = \"{}\"\n", elsewhere.base_url.trim_end_matches("/v1"))),
        (
            "headers.x-team = \"env:TEAM\"\n".to_owned(),
            format!("headers.x-team = \"env:TEAM\"\nbase_url = \"{}\"\n", elsewhere.base_url),
        ),
    ] {
        let home = Home::new().with("ACME_KEY", KEY).with("TEAM", TOKEN);
        let place = home.path().join("config.toml");
        let file = |base_url: &str, more: &str, with_key: bool| {
            let base_url =
                if more.contains("base_url") { String::new() } else { format!("base_url = \"{base_url}\"\n") };
            let profile = if with_key { "[[providers.acme.profiles]]\nkey = \"env:ACME_KEY\"\n" } else { "" };
            format!(
                "[agents.main]\nmodel = \"acme/m\"\n[providers.acme]\napi = \"openai-chat\"\n{base_url}{more}{profile}"
            )
        };
        let (place_of, next) = (place.clone(), after.clone());
        let with_key = before.is_empty();
        let own = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
        let own_of = std::sync::Arc::clone(&own);
        let server = Planned::start(move |_, _| {
            let own = own_of.get().cloned().unwrap_or_default();
            fs::write(place_of.with_extension("new"), file(&own, &next, with_key)).unwrap();
            fs::rename(place_of.with_extension("new"), &place_of).unwrap();
            let call = serde_json::json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "ls", "arguments": "{}" } }] });
            let end =
                "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
            Does::Answer(STREAM.to_owned() + &frame(&call) + end)
        });
        own.set(server.base_url.clone()).unwrap();
        fs::create_dir_all(home.path()).unwrap();
        fs::write(&place, file(&server.base_url, &before, with_key)).unwrap();
        let failed = home.run(&["agent", "-m", "Hi"]).expect_code(1).verdict();
        assert!(failed.contains("acme was not asked: its address") && failed.contains("new run"), "{failed}");
        assert_eq!(elsewhere.seen().len(), 0, "{after}");
        assert_eq!(server.seen().len(), 1);
        assert!(!failed.contains(KEY) && !failed.contains(TOKEN));
    }
    // Whoever sends a new message means the new address.
    let home = home(&elsewhere.base_url);
    home.run(&["agent", "-m", "Hi"]).expect_code(0);
    assert_eq!(elsewhere.asked(), [format!("scripted {KEY}")]);
}

#[test]
fn r50_a_resumed_run_sends_its_key_to_no_other_address_either() {
    let elsewhere = Planned::start(|_, _| Does::Answer(whole(&["Thank you for the key."])));
    let server = Planned::start(|_, _| Does::Hold(crate::support::said(&["Wait"])));
    let home = home(&server.base_url);
    let agent = home.start(&["agent", "-m", "Hi"]);
    server.until_asked(1);
    agent.kill();
    let home = home.with("LIMULUS_PROVIDERS__ACME__BASE_URL", &elsewhere.base_url);
    let failed = home.run(&["resume"]);
    assert!(failed.code != Some(0) && failed.err.contains("acme was not asked: its address"), "{failed:?}");
    assert_eq!(elsewhere.seen().len(), 0);
}

/// A server without a key may move: nothing that it receives belongs to another.
#[test]
fn r50_a_provider_without_a_key_may_change_its_address_during_a_run() {
    let elsewhere = Planned::start(|_, _| Does::Answer(whole(&["Here now."])));
    let server = Planned::start(|_, _| Does::Hold(crate::support::said(&["Wait"])));
    let home = Home::new().served_at(&server.base_url);
    let agent = home.start(&["agent", "-m", "Hi"]);
    server.until_asked(1);
    agent.kill();
    let home = home.with("LIMULUS_PROVIDERS__ACME__BASE_URL", &elsewhere.base_url);
    home.run(&["resume"]).expect_code(0);
    assert_eq!(elsewhere.seen().len(), 1);
}

#[test]
fn r50_a_proxy_of_the_environment_receives_nothing_that_is_for_this_machine() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let server = Planned::start(|_, _| Does::Answer(whole(&["Yes."])));
    let port = server.base_url.rsplit(':').next().unwrap().to_owned();
    let variables = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy", "HTTPS_PROXY"];
    for host in ["127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]"] {
        let home =
            variables.iter().fold(home(&format!("http://{host}:{port}")), |home, name| home.with(name, &address));
        home.run(&["agent", "-m", "Hi"]).expect_code(0);
        let connected = proxy.accept();
        assert!(connected.is_err(), "{host}: {connected:?}");
    }
    assert_eq!(server.seen().len(), 4);
    // Another host is reached through the proxy, and a proxy that is configured is used for any host.
    for (base_url, more) in [("http://h.invalid/v1".to_owned(), None), (server.base_url.clone(), Some(&address))] {
        let home = variables.iter().fold(home(&base_url), |home, name| home.with(name, &address));
        let home = more.iter().fold(home, |home, address| home.with("LIMULUS_PROVIDERS__ACME__PROXY", address));
        let home = home.with("LIMULUS_REQUESTS__RETRIES", "0").with("LIMULUS_REQUESTS__FIRST_BYTE_TIMEOUT_S", "1");
        let agent = home.start(&["agent", "-m", "Hi"]);
        until("a connection to the proxy", || {
            proxy.accept().is_ok_and(|(mut stream, _)| {
                stream.set_nonblocking(false).unwrap();
                stream.read(&mut [0; 4]).is_ok_and(|read| read > 0)
            })
        });
        agent.kill();
    }
    assert_eq!(server.seen().len(), 4);
}

/// A key in the wrong place: neither `config` nor a run shows it, and the journal does not hold it.
#[test]
fn r50_a_key_in_the_wrong_place_of_the_configuration_is_shown_nowhere() {
    let acme = "[agents.main]\nmodel = \"acme/m\"\n[providers.acme]\napi = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    let key = "sk-tide0123456789abcdef";
    let hidden = "0123456789abcdef0123456789abcdef";
    for (file, key) in [
        (format!("{acme}[[providers.acme.profiles]]\nkey = \"env:{key}\"\n"), key),
        (format!("{acme}[[providers.acme.profiles]]\nkey = \"env:a{hidden}\"\n"), hidden),
        (format!("{acme}[[providers.acme.profiles]]\nkey = \"file:{hidden}\"\n"), hidden),
        (format!("{acme}headers.x-team = \"env:{key}\"\n"), key),
        (format!("{acme}headers = \"Bearer {key}\"\n"), key),
        (format!("{acme}profiles = \"{key}\"\n"), key),
        (acme.replace("openai-chat", key), key),
        (acme.replace("/v1", &format!("/v1?api_key={key}")), key),
        (acme.replace("127.0.0.1:9", &format!("me:{key}@127.0.0.1:9")), key),
        (acme.replace("acme/m", &format!("acme/{key}")), key),
    ] {
        let home = Home::new().with("LIMULUS_REQUESTS__RETRIES", "0").with("LIMULUS_REQUESTS__MAX_WAIT_S", "0");
        fs::create_dir_all(home.path()).unwrap();
        fs::write(home.path().join("config.toml"), &file).unwrap();
        for words in [
            &["config", "check"][..],
            &["config", "check", "--json"],
            &["config", "show"],
            &["config", "show", "--json"],
            &["models", "list"],
            &["agent", "-m", "Hi"],
            &["runs", "trace"],
            &["doctor"],
        ] {
            let shown = home.run(words);
            assert!(!shown.out.contains(key) && !shown.err.contains(key), "{words:?} with {file}: {shown:?}");
        }
        fs::remove_file(home.path().join("config.toml")).unwrap();
        assert!(!holds(&home.path(), key), "{file}");
    }
}
