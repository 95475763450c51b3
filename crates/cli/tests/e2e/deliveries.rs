//! Replies, blocks and messages that go out to routes: once, in order, and never lost without a word.

use std::fs;

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::receiver::{Received, Receiver};
use crate::support::web::Web;
use crate::support::{Home, until};

/// A home whose configuration has these routes.
fn home(server: &ModelServer, routes: &str) -> Home {
    let home = Home::new().served_by(server);
    fs::create_dir_all(home.path()).expect("the home");
    fs::write(home.path().join("config.toml"), routes).expect("its configuration");
    home
}

fn ops(receiver: &Receiver) -> String {
    format!("[routes.ops]\nurl = \"{}\"\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n", receiver.url)
}

fn outbox(home: &Home) -> Vec<Value> {
    home.json(&["deliveries", "list"]).as_array().expect("a list").clone()
}

/// R46: the reply goes out once, with a key and a signature, in the shape of every reply; a template makes another body of it.
#[test]
pub(crate) fn r46_a_reply_goes_to_the_route_of_its_message() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let chat =
        format!("[routes.chat]\nurl = \"{}\"\nbody = '{{\"content\": {{{{ text | tojson }}}} }}'\n", receiver.url);
    let home = home(&server, &(ops(&receiver) + &chat));
    let ended =
        home.run(&["agent", "--json", "--reply-to", "ops", "-m", "say:The build is green."]).expect_code(0).result();
    receiver.until_seen(1);
    let sent = receiver.seen().remove(0);
    let body = sent.json();
    assert_eq!((&body["type"], &body["text"]), (&json!("reply"), &json!("The build is green.")), "{body}");
    assert_eq!((&body["run_id"], &body["to"]), (&ended["run"], &json!({ "channel": "ops" })), "{body}");
    assert_eq!(body["payloads"], json!([{ "kind": "text", "text": "The build is green." }]));
    assert_eq!(body["meta"]["stop_reason"], "stop", "{body}");
    assert_eq!(
        (sent.header("webhook-id"), sent.header("idempotency-key")),
        (body["id"].as_str().unwrap(), body["id"].as_str().unwrap())
    );
    assert!(
        sent.header("webhook-signature").starts_with("v1,") && !sent.header("webhook-timestamp").is_empty(),
        "{sent:?}"
    );
    assert_eq!(outbox(&home), Vec::<Value>::new(), "it has arrived");

    home.run(&["agent", "--reply-to", "chat", "-m", "say:Two \"tests\" fail."]).expect_code(0);
    receiver.until_seen(2);
    let sent = receiver.seen().remove(1);
    assert_eq!(sent.json(), json!({ "content": "Two \"tests\" fail." }));
    assert_eq!(sent.header("webhook-signature"), "", "it has no secret");
    // A reply without a route goes nowhere, and one that is to stay silent neither.
    home.run(&["agent", "-m", "say:Nobody."]).expect_code(0);
    home.run(&["agent", "--reply-to", "ops", "-m", "say:NO_REPLY"]).expect_code(0);
    assert_eq!((receiver.seen().len(), outbox(&home).len()), (2, 0));
    home.run(&["agent", "--reply-to", "nowhere", "-m", "hi"]).expect_code(2).expect_err("there are: chat, ops");
}

/// R46: a failed delivery says so and stays in the outbox; a later owner tries it again, and what is behind it follows in order.
#[test]
fn r46_a_failed_delivery_is_tried_again_in_order() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let home = home(&server, &ops(&receiver));
    receiver.answers(503);
    let first = home.run(&["agent", "--reply-to", "ops", "-m", "say:One."]).expect_code(0);
    assert!(first.err.contains("status 503") && first.err.contains("it is tried again at"), "{}", first.err);
    receiver.answers(200);
    let waiting = outbox(&home);
    assert_eq!(
        (waiting.len(), &waiting[0]["state"], &waiting[0]["tries"]),
        (1, &json!("waiting"), &json!(1)),
        "{waiting:?}"
    );
    home.run(&["send", "--reply-to", "ops", "say:Two."]).expect_code(0);
    let serving = home.start(&["serve"]);
    receiver.until_seen(3);
    let texts: Vec<Value> = receiver.seen().iter().map(|sent| sent.json()["text"].clone()).collect();
    assert_eq!(texts, ["One.", "One.", "Two."], "the second one waits for the first");
    let ids: Vec<Value> = receiver.seen().iter().map(|sent| sent.json()["id"].clone()).collect();
    assert_eq!(ids[0], ids[1], "each try has the key of its delivery");
    until("the outbox is empty", || outbox(&home).is_empty());
    serving.kill();
}

/// R46: what is refused stays listed until a user sends it again, with another key, or gives it up.
#[test]
pub(crate) fn r46_a_refused_delivery_is_sent_again_or_given_up_by_its_user() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let home = home(&server, &ops(&receiver));
    receiver.answers(404);
    home.run(&["agent", "--reply-to", "ops", "-m", "say:One."]).expect_code(0);
    until("it failed", || outbox(&home).first().is_some_and(|of| of["state"] == "failed"));
    home.run(&["agent", "--reply-to", "ops", "-m", "say:Two."]).expect_code(0);
    until("both failed", || outbox(&home).iter().filter(|of| of["state"] == "failed").count() == 2);
    let listed = home.run(&["deliveries", "list"]).expect_code(0).out;
    assert!(listed.contains("it was answered with status 404"), "{listed}");
    assert!(home.run(&["sessions", "show"]).out.contains("2 deliveries of it did not arrive"));
    let ids: Vec<String> = outbox(&home).iter().map(|of| of["id"].as_str().unwrap().to_owned()).collect();
    receiver.answers(200);
    let again = home.run(&["deliveries", "retry", &ids[0]]).expect_code(0).out;
    assert!(again.contains("is sent again"), "{again}");
    receiver.until_seen(3);
    let sent = receiver.seen().remove(2);
    assert_eq!(sent.json()["text"], "One.");
    assert_ne!(sent.json()["id"], json!(ids[0]), "the other end must not take it for the first one");
    home.run(&["deliveries", "drop", &ids[1]]).expect_code(0);
    until("the outbox is empty", || outbox(&home).is_empty());
    home.run(&["deliveries", "retry", &ids[1]]).expect_code(4).expect_err("not in the outbox");
    home.run(&["deliveries", "drop", "x"]).expect_code(2);
}

/// R46 INV-D2: a kill while a delivery is sent: a webhook gets nothing twice and its user learns that the outcome is unknown; a file
/// has the line exactly once.
#[test]
fn r46_a_kill_while_a_delivery_is_sent_doubles_nothing() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    for point in ["deliver_started", "deliver_done"] {
        let file = "[routes.log]\nfile = \"~/replies.jsonl\"\n";
        let home = home(&server, &(ops(&receiver) + file));
        let before = receiver.seen().len();
        for route in ["ops", "log"] {
            let mut killed = home.limulus(&["agent", "--reply-to", route, "-m", "say:Once."]);
            let killed = killed.env("LIMULUS_CRASHPOINT", point).output().expect("it runs");
            assert_ne!(killed.status.code(), Some(0), "{killed:?}");
        }
        home.run(&["resume"]).expect_code(0);
        let arrived = receiver.seen().len() - before;
        assert_eq!(arrived, usize::from(point == "deliver_done"), "{point}");
        let left = outbox(&home);
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(
            (&left[0]["state"], &left[0]["to"]["channel"]),
            (&json!("unknown"), &json!("ops")),
            "{point}: {left:?}"
        );
        let written = fs::read_to_string(home.user().join("replies.jsonl")).unwrap();
        assert_eq!(written.lines().count(), 1, "{point}: {written}");
        home.run(&["doctor"]).expect_code(0);
    }
}

/// R46: a route that never answers holds up nobody for ever: its outcome is unknown, and it is not sent again.
#[test]
fn r46_a_webhook_that_never_answers_is_an_unknown_outcome() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let home = home(&server, &ops(&receiver));
    receiver.answers(0);
    let serving = home.start(&["serve"]);
    serving.until_err("serving");
    home.run(&["agent", "--reply-to", "ops", "-m", "say:One."]).expect_code(0);
    until("its outcome is unknown", || outbox(&home).first().is_some_and(|of| of["state"] == "unknown"));
    assert!(outbox(&home)[0]["why"].as_str().is_some_and(|why| why.contains("no response within 15 s")));
    assert_eq!(receiver.seen().len(), 1);
    serving.kill();
}

/// R46 R13: the tool `message` sends to the route of the reply without a question, to another one only if that is allowed; what it
/// said is not said again, and who follows the session sees what is for them.
#[test]
fn r46_the_model_sends_messages_to_routes_and_to_its_user() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let home = home(&server, &(ops(&receiver) + "[routes.log]\nfile = \"~/replies.jsonl\"\n"));
    let message = "call:message {\"text\":\"The build is green.\"}\ncall:message {\"text\":\"Half is done.\",\"to\":\"user\"}\nsay:The build is green.";
    let shown = home.run(&["agent", "--reply-to", "ops", "-m", message]).expect_code(0);
    assert!(shown.err.contains("✉ Half is done."), "{}", shown.err);
    receiver.until_seen(1);
    until("the outbox is empty", || outbox(&home).is_empty());
    let sent: Vec<Value> = receiver.seen().iter().map(Received::json).collect();
    assert_eq!(sent.len(), 1, "the answer would say the same again: {sent:?}");
    assert_eq!((&sent[0]["type"], &sent[0]["text"]), (&json!("message"), &json!("The build is green.")));
    // Another route is asked about, and nobody is there to answer.
    let other = "call:message {\"text\":\"Canary to another route.\",\"to\":\"log\"}\nsay:Done.";
    home.run(&["agent", "--reply-to", "ops", "-m", other]).expect_code(3).expect_err("✗ message denied");
    assert!(!home.user().join("replies.jsonl").exists());
    let unknown = "call:message {\"text\":\"Canary to nobody.\",\"to\":\"nobody\"}\nsay:Done.";
    home.run(&["agent", "--yes", "-m", unknown]).expect_code(0);
    let shown = home.run(&["runs", "show", "--json"]).expect_code(0).out;
    assert!(shown.contains("there is no recipient `nobody`; there are: user, log, ops"), "{shown}");
}

/// R47: a long answer goes out in blocks while it streams, and the reply behind them does not repeat it.
#[test]
pub(crate) fn r47_an_answer_goes_out_in_blocks() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let blocks = "blocks = \"text_end\"\n[reply]\nblock_min_chars = 200\nblock_max_chars = 400\n";
    let home = home(&server, &(ops(&receiver) + blocks));
    let ended = home.run(&["agent", "--json", "--reply-to", "ops", "-m", "prose=3000"]).expect_code(0).result();
    until("the outbox is empty", || outbox(&home).is_empty());
    let sent: Vec<Value> = receiver.seen().iter().map(Received::json).collect();
    let (reply, blocks) = sent.split_last().expect("a reply");
    assert!(blocks.len() >= 3, "{sent:?}");
    let text = |sent: &Value| sent["text"].as_str().expect("a text").to_owned();
    for block in blocks {
        assert_eq!(block["type"], "block");
        assert!(text(block).chars().count() <= 400, "{block}");
    }
    let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let joined: String = blocks.iter().map(text).collect();
    assert_eq!(plain(&joined), plain(ended["text"].as_str().unwrap()));
    assert_eq!((&reply["type"], &reply["payloads"]), (&json!("reply"), &json!([])), "{reply}");
}

/// R46: a run has the reasoning of the model and the calls in its reply if its message asks for them.
#[test]
fn r46_a_message_asks_for_calls_and_reasoning_in_its_reply() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let home = home(&server, &ops(&receiver));
    home.run(&["agent", "-v", "--reasoning", "block", "--reply-to", "ops", "-m", "call:ls {}\nsay:Done."])
        .expect_code(0);
    receiver.until_seen(1);
    let kinds = |body: &Value| {
        let payloads = body["payloads"].as_array().cloned().unwrap_or_default();
        payloads.iter().map(|payload| payload["kind"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&receiver.seen()[0].json()), ["tool_summary", "text"], "this model shows no reasoning");
    home.run(&["agent", "--reasoning", "loud", "-m", "hi"]).expect_code(2).expect_err("off, block, stream");
}

/// R46 R60: what a webhook made a message of is answered where its configuration says; OpenClaw's `deliver` does the same.
#[test]
fn r46_a_webhook_is_answered_at_its_route() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let hook =
        "[webhooks.deploy]\nsecret = \"deploy-canary-secret\"\nmessage = \"say:{{ body.text }}\"\nreply_to = \"ops\"\n";
    let home = home(&server, &(ops(&receiver) + hook));
    let web = Web::start(&home);
    let bearer = [("authorization", "Bearer deploy-canary-secret")];
    let sent = web.ask_with("POST /hooks/deploy", &bearer, &json!({ "text": "Deployed." }));
    assert_eq!(sent.status, 202, "{sent:?}");
    receiver.until_seen(1);
    assert_eq!(receiver.seen()[0].json()["session"], "agent:main:webhook-deploy");
    let api = web.ask(
        "POST /v1/runs",
        &json!({ "message": "say:Hi.", "idempotencyKey": "k", "deliver": true, "replyTo": { "channel": "nowhere" } }),
    );
    assert_eq!(api.status, 400, "{api:?}");
    assert!(
        api.json()["error"]["message"].as_str().is_some_and(|why| why.contains("no route is called `nowhere`")),
        "{api:?}"
    );
    let api = web.ask("POST /v1/runs", &json!({ "message": "say:Hi.", "idempotencyKey": "k", "deliver": true, "replyTo": { "channel": "ops", "thread": "7" } }));
    assert_eq!(api.status, 202, "{api:?}");
    receiver.until_seen(2);
    assert_eq!(receiver.seen()[1].json()["to"], json!({ "channel": "ops", "thread": "7" }));
}

/// R46: a wrong route is an error of the configuration, which says what to do; no secret of a route is shown anywhere.
#[test]
fn r46_a_wrong_route_is_refused_at_the_start() {
    let server = ModelServer::start().unwrap();
    for (config, why) in [
        ("[routes.ops]\npolicy = \"allow\"\n", "`routes.ops.url` is missing"),
        ("[routes.ops]\nurl = \"http://h\"\nfile = \"~/x\"\n", "`routes.ops.file` is not for a route that has `url`"),
        ("[routes.webhook]\nurl = \"http://h\"\n", "`routes.webhook` cannot be a route"),
        ("[routes.ops]\nurl = \"http://h\"\nbody = \"{{ text\"\n", "`routes.ops.body` is no template"),
        ("[routes.ops]\nurl = \"http://h\"\nblocks = \"often\"\n", "routes.ops.blocks"),
        (
            "[webhooks.a]\nsecret = \"s\"\nmessage = \"x\"\nreply_to = \"ops\"\n",
            "`webhooks.a.reply_to` names the route `ops`",
        ),
    ] {
        let home = home(&server, config);
        let refused = home.run(&["agent", "-m", "hi"]).expect_code(78);
        assert!(refused.err.contains(why), "{why}: {}", refused.err);
    }
    let secret = "http://127.0.0.1:9/hook/canary-secret-of-the-address";
    let home = home(&server, &format!("[routes.ops]\nurl = \"{secret}\"\nsecret = \"whsec_not base64 canary\"\n"));
    let failed = home.run(&["agent", "--json", "--reply-to", "ops", "-m", "say:One."]).expect_code(0);
    until("it failed", || !outbox(&home).is_empty());
    let shown = [
        failed.out,
        failed.err,
        home.run(&["deliveries", "list"]).out,
        home.run(&["audit"]).out,
        home.run(&["config", "show"]).out,
    ];
    for text in shown {
        assert!(!text.contains("canary"), "{text}");
    }
}

/// R46: who waits at the route learns that a run could not start.
#[test]
fn r46_a_run_that_is_refused_before_its_start_is_answered() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let home = home(&server, &format!("{}[agents.night]\nqueue = \"followup\"\n", ops(&receiver)));
    home.run(&["send", "--session", "agent:night:main", "--reply-to", "ops", "say:Good night."]).expect_code(0);
    fs::write(home.path().join("config.toml"), ops(&receiver)).expect("its configuration without the agent");
    home.run(&["resume"]);
    receiver.until_seen(1);
    let body = receiver.seen().remove(0).json();
    assert_eq!(body["payloads"][0]["kind"], "error", "{body}");
    assert!(body["text"].as_str().is_some_and(|text| text.contains("night")), "{body}");
}

/// R46: an id names one delivery, whatever other ids begin like it, and an empty one names none.
#[test]
fn r46_an_id_names_one_delivery() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let home = home(&server, &ops(&receiver));
    receiver.answers(404);
    home.run(&["agent", "--reply-to", "ops", "-m", "say:One."]).expect_code(0);
    let id = outbox(&home)[0]["id"].as_str().expect("an id").to_owned();
    let shorter = id.strip_suffix('1').expect("the first of its run").to_owned() + "12";
    home.run(&["deliveries", "drop", &shorter]).expect_code(4);
    home.run(&["deliveries", "drop", ""]).expect_code(2).expect_err("the id of the delivery is empty");
    assert_eq!(outbox(&home).len(), 1);
    home.run(&["deliveries", "drop", &id]).expect_code(0);
    assert_eq!(outbox(&home), Vec::<Value>::new());
}

/// R46: a session ends although something of it still waits for its next try.
#[test]
fn r46_a_session_with_a_waiting_delivery_can_be_ended() {
    let (server, receiver) = (ModelServer::start().unwrap(), Receiver::start());
    let home = home(&server, &ops(&receiver));
    receiver.answers(503);
    home.run(&["agent", "--reply-to", "ops", "-m", "say:One."]).expect_code(0);
    home.run(&["sessions", "end", "agent:main:main"]).expect_code(0);
    assert_eq!(outbox(&home).len(), 1, "it still goes out");
}
