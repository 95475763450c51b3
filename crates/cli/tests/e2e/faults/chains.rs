//! `kill -9` in the middle of a chain of keys and models: failed candidates stay failed, the open request is sent once more,
//! and no text is sent twice.

use serde_json::json;

use crate::support::{Does, Home, Planned, refused, whole};

/// Two providers with three keys each, and a model of each: `acme/first`, then `beta/second`.
fn chain(server: &Planned) -> Home {
    let mut home = Home::new()
        .with("LIMULUS_AGENTS__MAIN__MODEL", "acme/first")
        .with("LIMULUS_AGENTS__MAIN__FALLBACKS", "beta/second")
        .with("LIMULUS_REQUESTS__RETRIES", "0");
    for provider in ["ACME", "BETA"] {
        home = home
            .with(&format!("LIMULUS_PROVIDERS__{provider}__API"), "openai-chat")
            .with(&format!("LIMULUS_PROVIDERS__{provider}__BASE_URL"), &server.base_url);
        for (at, name) in ["one", "two", "three"].into_iter().enumerate() {
            let profile = format!("LIMULUS_PROVIDERS__{provider}__PROFILES__{at}");
            home = home.with(&format!("{profile}__NAME"), name);
            home = home.with(&format!("{profile}__KEY"), &format!("key-{name}-of-{provider}").to_lowercase());
        }
    }
    home
}

/// How the request of each key fails; the last one is answered.
fn outcome(model: &str, key: &str) -> String {
    let error = |kind: &str| json!({ "error": { "message": format!("{kind} for {key}"), "type": kind } });
    match (model, key.split('-').nth(1)) {
        ("first", Some("one")) => refused(401, &error("invalid_api_key")),
        ("first", Some("two")) => refused(500, &error("server_error")),
        ("first", _) => refused(402, &error("insufficient_quota")),
        ("second", Some("one")) => refused(429, &error("rate_limit_exceeded")),
        _ => whole(&["It", " works."]),
    }
}

/// What was decided of the chain, in the words of the trace.
fn decided(home: &Home) -> Vec<String> {
    let lines = home.run(&["runs", "trace", "--json"]).expect_code(0).lines();
    let shown = ["failed", "candidate_cooled", "retry_scheduled", "wait_began", "wait_ended", "run_ended"];
    let of_chain = lines.iter().filter(|line| shown.iter().any(|name| line["event"] == *name));
    of_chain.map(|line| format!("{}: {}", line["event"], line["detail"])).collect()
}

/// R11, R50, R51, R54.
#[test]
fn r50_r51_a_kill_in_the_middle_of_a_chain_changes_nothing_of_it() {
    let server = Planned::start(|_, asked| Does::Answer(outcome(&asked.model, &asked.key)));
    let home = chain(&server);
    home.run(&["agent", "-m", "Hello"]).expect_code(0);
    let (asked, expected) = (server.asked(), decided(&home));
    let order = ["first one acme", "first two acme", "first three acme", "second one beta", "second two beta"];
    let order = order.map(|asked| {
        let (model, key) = asked.split_once(' ').expect("three words");
        format!("{model} key-{}", key.replace(' ', "-of-"))
    });
    assert_eq!(asked, order);
    assert!(expected.len() > 8, "{expected:?}");

    // The owner of each request is killed once while that is out, whichever it is.
    for killed in 0..order.len() {
        let server = Planned::start(move |number, asked| match number {
            number if number == killed => Does::Hold(String::new()),
            _ => Does::Answer(outcome(&asked.model, &asked.key)),
        });
        let home = chain(&server);
        let agent = home.start(&["agent", "-m", "Hello"]);
        server.until_asked(killed + 1);
        agent.kill();
        assert_eq!(home.run(&["resume"]).expect_code(0).out, "It works.\n");
        let mut once_more = order.to_vec();
        once_more.insert(killed, order[killed].clone());
        assert_eq!(server.asked(), once_more, "killed in request {killed}");
        assert_eq!(decided(&home), expected, "killed in request {killed}");
    }
}
