//! What other programs send to a service becomes a message.

use serde_json::{Value, json};

use crate::support::web::{Answer, Web};
use crate::support::{Does, Home, Planned, refused, until, whole};

/// HMAC-SHA256 of `{"action":"opened","number":7}` with `github-canary-secret`.
const SIGNATURE: &str = "sha256=5571575125edebdffea373654c260869d44ba677f64d15b692d4ad8c97522040";

const WEBHOOKS: &str = r#"
[webhooks.deploy]
secret = "env:DEPLOY_SECRET"
message = "{{ body.text }}"
session = "deploys"

[webhooks.issues]
secret = "github-canary-secret"
signature = "github"
message = "{% if headers['x-github-event'] == 'issues' %}Issue {{ body.number }} was {{ body.action }}{% endif %}"

[webhooks.broken]
secret = "env:NOT_SET"
message = "x"
"#;

fn home(base_url: &str) -> Home {
    let home = Home::new().served_at(base_url).with("DEPLOY_SECRET", "deploy-canary-secret");
    let home = home.with("LIMULUS_LOG", "debug");
    std::fs::create_dir_all(home.path()).expect("the home");
    std::fs::write(home.path().join("config.toml"), WEBHOOKS).expect("its configuration");
    home
}

fn post(web: &Web, name: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    web.ask_with(&format!("POST /hooks/{name}"), headers, body)
}

/// R60: a webhook needs its own secret and no token; what it sends is one message however often it is sent, and no command.
#[test]
fn r60_what_is_sent_to_a_webhook_becomes_a_message() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["The ", "answer."])));
    let home = home(&server.base_url);
    let web = Web::start(&home);
    let bearer = ("authorization", "Bearer deploy-canary-secret");
    let token = format!("Bearer {}", web.token);
    let body = json!({ "text": "/stop and say canary-text" });
    for (name, headers) in [
        ("deploy", vec![]),
        ("deploy", vec![("authorization", "Bearer guess")]),
        ("deploy", vec![("authorization", &*token)]),
        ("deploy", vec![("x-hub-signature-256", SIGNATURE)]),
        ("nothing", vec![bearer]),
        ("issues", vec![bearer]),
    ] {
        let refused = post(&web, name, &headers, &body);
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (401, &json!("unauthorized")),
            "{name} {headers:?}"
        );
    }
    // The secret of a webhook opens nothing else.
    assert_eq!(web.ask_with("GET /v1/runs", &[bearer], &Value::Null).status, 401);

    let named = [bearer, ("idempotency-key", "deploy-1")];
    let first = post(&web, "deploy", &named, &body);
    assert_eq!((first.status, &first.json()["sessionKey"]), (202, &json!("deploys")), "{first:?}");
    let again = post(&web, "deploy", &named, &body);
    assert_eq!(again.json()["runId"], first.json()["runId"]);
    let run = first.json()["runId"].as_str().unwrap().to_owned();
    until("the run to end", || home.json(&["runs", "show", &run])["outcome"] == "completed");
    let asked = server.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let sent = server.seen()[0].body.to_string();
    assert!(sent.contains("[webhook deploy: ") && sent.contains("/stop and say canary-text"), "{sent}");
    let receipt = home.run(&["receipt", &run]).expect_code(0).out;
    assert!(receipt.contains("webhook, peer deploy"), "{receipt}");

    assert_eq!(post(&web, "deploy", &[bearer], &json!({ "text": " " })).json(), json!({ "status": "ignored" }));
    assert_eq!(post(&web, "deploy", &[bearer], &json!({ "other": 1 })).json(), json!({ "status": "ignored" }));
    for (bytes, why) in [(1 << 20, "1 MiB"), ((64 << 10) + 1, "64 KiB")] {
        let long = post(&web, "deploy", &[bearer], &json!({ "text": "x".repeat(bytes) }));
        assert!(long.status == 413 && long.json()["error"]["message"].to_string().contains(why), "{long:?}");
    }
    let bad = post(&web, "deploy", &[bearer, ("idempotency-key", "two words")], &body);
    assert!(bad.status == 400 && bad.body.contains("1 to 128"), "{bad:?}");
    let page = post(&web, "deploy", &[bearer, ("origin", "https://evil.example")], &body);
    assert_eq!(page.json()["error"]["code"], "wrong_origin");
    assert_eq!(web.ask_with("GET /hooks/deploy", &[bearer], &Value::Null).status, 405);

    // Whoever asks learns nothing of what is wrong here, the log does.
    let broken = post(&web, "broken", &[("authorization", "Bearer x")], &body);
    assert!(broken.status == 500 && !broken.body.contains("NOT_SET"), "{broken:?}");
    web.service.until_err("the variable NOT_SET is not set");
    web.service.signal(rustix::process::Signal::TERM);
    let said = web.service.finish().expect_code(0).err;
    for secret in ["deploy-canary-secret", "github-canary-secret", "canary-text", SIGNATURE] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}

/// R60: a signature as GitHub makes it is enough, the events that the template leaves out are ignored, and what is delivered again
/// after a kill is the same message.
#[test]
fn r60_github_signs_what_it_sends() {
    let server = Planned::start(|number, _| match number {
        0 => Does::Hold(refused(500, &Value::Null)[..10].to_owned()),
        _ => Does::Answer(whole(&["The ", "answer."])),
    });
    let home = home(&server.base_url);
    let web = Web::start(&home);
    let body = json!({ "action": "opened", "number": 7 });
    let signed = |event: &'static str, id: &'static str| {
        [("x-hub-signature-256", SIGNATURE), ("x-github-event", event), ("x-github-delivery", id)]
    };
    assert_eq!(post(&web, "issues", &signed("ping", "0"), &body).json()["status"], "ignored");
    assert_eq!(post(&web, "issues", &signed("issues", "1"), &json!({ "action": "closed", "number": 7 })).status, 401);
    let sent = post(&web, "issues", &signed("issues", "72d3162e"), &body);
    assert_eq!((sent.status, &sent.json()["sessionKey"]), (202, &json!("webhook-issues")), "{sent:?}");
    server.until_asked(1);
    web.service.kill();
    let web = Web::start(&home);
    let again = post(&web, "issues", &signed("issues", "72d3162e"), &body);
    assert_eq!((again.status, &again.json()["runId"]), (202, &sent.json()["runId"]));
    let run = sent.json()["runId"].as_str().unwrap().to_owned();
    until("the run to end", || home.json(&["runs", "show", &run])["outcome"] == "completed");
    assert!(server.seen()[0].body.to_string().contains("Issue 7 was opened"));
    assert_eq!(home.json(&["runs", "list"]).as_array().map(Vec::len), Some(1));
}

/// R60: a template that cannot be read is an error at the start.
#[test]
fn r60_a_webhook_that_cannot_be_used_is_an_error_at_the_start() {
    let home = Home::new();
    std::fs::create_dir_all(home.path()).unwrap();
    let put = |text: &str| std::fs::write(home.path().join("config.toml"), text).unwrap();
    put("[webhooks.deploy]\nsecret = \"x\"\nmessage = \"{{ body\"\n");
    home.run(&["serve"]).expect_code(78).expect_err("`webhooks.deploy.message` is no template");
    put("[webhooks.deploy]\nmessage = \"x\"\n");
    home.run(&["serve"]).expect_code(78).expect_err("`webhooks.deploy.secret` is missing");
}
