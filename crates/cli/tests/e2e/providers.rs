//! Failures of a provider. Each ends with one or two lines that say what to do, is in the trace of its run, and leaves
//! the session usable.

use journal::store_uncompressed;
use model_server::ModelServer;

use crate::support::{CLOSED, Home};

/// A message whose run fails.
struct Fault {
    message: &'static str,
    /// In the last words on stderr, and in the trace.
    says: &'static [&'static str],
    requests: usize,
}

#[test]
pub(crate) fn r24_r51_a_request_that_fails_says_so_and_is_in_the_trace() {
    let faults = [
        Fault { message: "fail=401x9 Hello", says: &["401", "acme"], requests: 1 },
        Fault { message: "fail=400x9 Hello", says: &["400", "acme"], requests: 1 },
        Fault { message: "fail=429x9 retry_after=0 Hello", says: &["429"], requests: 2 },
        Fault { message: "fail=500x9 retry_after=0 Hello", says: &["500"], requests: 2 },
        Fault { message: "cut=3x9 Hello", says: &["end mark"], requests: 2 },
    ];
    let server = ModelServer::start().unwrap();
    let home = Home::new()
        .served_by(&server)
        .with("LIMULUS_REQUESTS__RETRIES", "1")
        // A limit would be waited out.
        .with("LIMULUS_REQUESTS__MAX_WAIT_S", "1");
    for Fault { message, says, requests } in faults {
        let before = server.seen().len();
        let failed = home.run(&["agent", "-m", message]).expect_code(1);
        let (verdict, trace) = (failed.verdict(), home.run(&["runs", "trace"]).expect_code(0).out);
        for part in says {
            assert!(verdict.contains(part), "{part} of {message}: {verdict}");
            assert!(trace.contains(part), "{part} of {message}: {trace}");
        }
        assert!(verdict.contains("limulus runs trace"), "{verdict}");
        assert_eq!(server.seen().len() - before, requests, "{message}");
        home.assert_usable("main");
    }
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
pub(crate) fn r24_a_short_interruption_is_retried() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let answer = home.run(&["agent", "-m", "cut=3x2 tokens=5"]).expect_code(0);
    assert_eq!((answer.out.as_str(), server.seen().len()), ("word0 word1 word2 word3 word4\n", 3));
}

#[test]
pub(crate) fn r24_a_provider_that_cannot_be_reached_is_named() {
    let url = format!("http://{CLOSED}/v1");
    let home = Home::new().served_at(&url).with("LIMULUS_REQUESTS__RETRIES", "0");
    let verdict = home.run(&["agent", "-m", "Hello"]).expect_code(1).verdict();
    assert!(verdict.contains(&url) && verdict.contains("base_url"), "{verdict}");
    assert!(home.run(&["runs", "trace"]).expect_code(0).out.contains("could not be reached"));
    let server = ModelServer::start().unwrap();
    home.served_by(&server).assert_usable("main");
}

#[test]
pub(crate) fn r49_a_request_to_a_silent_provider_times_out() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_REQUESTS__FIRST_BYTE_TIMEOUT_S", "1");
    let answer = home.run(&["agent", "-m", "hang=1 tokens=2"]).expect_code(0);
    assert!(answer.out == "word0 word1\n" && answer.err.contains("first_byte_timeout_s"), "{answer:?}");
}

/// A model receives its mistakes as results of its calls.
#[test]
pub(crate) fn r13_r46_a_call_that_makes_no_sense_is_answered_and_not_run() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    for (call, expected) in [
        ("call:ls {\"path\": ", "JSON"),
        ("call:ls [1]", "object"),
        ("call:read {\"file\": \"x\"}", "path"),
        ("call:frobnicate {}", "frobnicate"),
    ] {
        let answer = home.run(&["agent", "-m", &format!("{call}\ntokens=2")]).expect_code(0);
        assert_eq!(answer.out, "word0 word1\n", "{call}");
        let call_shown = home.json(&["runs", "show"])["steps"][0]["calls"][0].clone();
        assert_eq!(call_shown["outcome"], "denied", "{call}: {call_shown}");
        let trace = home.run(&["runs", "trace"]).expect_code(0).out;
        assert!(trace.contains(expected), "{expected} of {call}: {trace}");
        home.assert_usable("main");
    }
    assert_eq!(server.violations(), [""; 0], "every call was answered");
}

#[test]
pub(crate) fn r50_a_key_is_sent_and_shown_to_nobody() {
    const KEY: &str = "sk-do-not-show-4711";
    let server = ModelServer::start().unwrap();
    let home = Home::new()
        .served_by(&server)
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "env:ACME_KEY")
        .with("ACME_KEY", KEY);
    let answer =
        home.run(&["agent", "--yes", "-m", "exec: env; echo sk-do-not-show-$((4710 + 1))\ntokens=2"]).expect_code(0);
    let shown = home.run(&["runs", "show"]).expect_code(0).out;
    assert!(shown.contains("PATH="), "{shown}");
    assert!(![&answer.out, &answer.err, &shown].iter().any(|text| text.contains(KEY)));
    // What is compressed is not found in the file.
    store_uncompressed(&home.path().join("journal.db")).unwrap();
    for entry in std::fs::read_dir(home.path()).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let bytes = std::fs::read(entry.path()).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes()), "{:?}", entry.path());
    }
}
