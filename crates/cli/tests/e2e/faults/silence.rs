//! Silent servers on each wire format: no head, only a head, endless pings, a word and then nothing or pings. Pings are
//! no progress. The scripts of the engine test the exact limits.

use serde_json::Value;

use crate::support::{Does, Home, Planned, STREAM};

/// A format, its first frame with text, and what keeps a connection of it alive.
struct Format {
    api: &'static str,
    word: &'static str,
    ping: &'static str,
}

const FORMATS: [Format; 5] = [
    Format {
        api: "openai-chat",
        word: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Well\"}}]}\n\n",
        ping: ": OPENROUTER PROCESSING\n\n",
    },
    Format {
        api: "openai-responses",
        word: "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Well\"}\n\n",
        ping: "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":4}\n\n",
    },
    Format {
        api: "anthropic",
        word: "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Well\"}}\n\n",
        ping: "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    },
    Format {
        api: "gemini",
        word: "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Well\"}]}}]}\n\n",
        ping: ":\r\n\r\n",
    },
    Format { api: "ollama", word: "{\"message\":{\"content\":\"Well\"},\"done\":false}\n", ping: "\n" },
];

/// A session's name, which its message holds, and how it is kept waiting.
type Silence = (&'static str, fn(&Format) -> Does);

const BEFORE: [Silence; 4] = [
    ("no-head", |_| Does::Hold(String::new())),
    ("head-alone", |_| Does::Hold(STREAM.to_owned())),
    ("pings-alone", |format| Does::Ping(STREAM.to_owned(), format.ping.to_owned())),
    // The beginning of a frame, and then more and more of it.
    ("a-byte-at-a-time", |format| Does::Ping(format!("{STREAM}{}", &format.word[..6]), "x".to_owned())),
];

const AMID: [Silence; 2] = [
    ("a-word", |format| Does::Hold(format!("{STREAM}{}", format.word))),
    ("a-word-and-pings", |format| Does::Ping(format!("{STREAM}{}", format.word), format.ping.to_owned())),
];

/// Keeps runs waiting like this in every format under a limit of a second; each is to fail so.
fn check(silences: &'static [Silence], key: &str, class: &str, says: &str) {
    for format in &FORMATS {
        let server = Planned::start(move |_, asked| {
            let body = asked.body.to_string();
            // The longest name that fits: one begins another.
            let of = silences.iter().rfind(|(name, _)| body.contains(&format!("it is {name}."))).expect("a case");
            of.1(format)
        });
        let home = Home::new()
            .served_at(&server.base_url)
            .with("LIMULUS_PROVIDERS__ACME__API", format.api)
            .with("LIMULUS_REQUESTS__RETRIES", "0")
            .with(key, "1");
        let owner = home.start(&["serve"]);
        owner.until_err("serving");
        let start =
            |(name, _): &Silence| (*name, home.start(&["agent", "--session", name, "-m", &format!("it is {name}.")]));
        let agents: Vec<_> = silences.iter().map(start).collect();
        for (name, agent) in agents {
            let of = format!("{} {name}", format.api);
            let failed = agent.finish();
            assert!(failed.code == Some(1) && failed.err.contains(says), "{of}: {failed:?}");
            let run = home.json(&["runs", "show", "--session", name]);
            assert_eq!(run["outcome"], "failed", "{of}: {run}");
            let trace = home.run(&["runs", "trace", "--session", name, "--json"]).expect_code(0).lines();
            let failures: Vec<&Value> = trace.iter().filter(|line| line["event"] == "failed").collect();
            let [failure] = &failures[..] else { panic!("{of}: {failures:?}") };
            let detail = failure["detail"].as_str().expect("words");
            assert!(detail.starts_with(&format!("{class} (recoverable): ")), "{of}: {failure}");
        }
        assert_eq!(server.seen().len(), silences.len(), "{}", format.api);
    }
}

/// R49: P12.
#[test]
fn r49_p12_a_request_without_a_first_byte_times_out_although_its_connection_is_alive() {
    check(&BEFORE, "LIMULUS_REQUESTS__FIRST_BYTE_TIMEOUT_S", "timeout", "first_byte_timeout_s");
}

/// R49: C4, P12.
#[test]
fn r49_p12_a_stalled_answer_times_out_although_its_connection_is_alive() {
    check(&AMID, "LIMULUS_REQUESTS__IDLE_TIMEOUT_S", "stalled", "idle_timeout_s");
}
