//! What a run does when a model fails: other keys, other models, a wait that outlives its process.

use journal::store_uncompressed;
use model_server::ModelServer;

use crate::support::{Home, until};

/// A model with two keys and a fallback, all at one server.
fn home(server: &ModelServer) -> Home {
    Home::new()
        .served_by(server)
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__NAME", "first")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "not-a-secret")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__NAME", "second")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__KEY", "nor-is-this")
        .with("LIMULUS_AGENTS__MAIN__FALLBACKS", "acme/other")
        .with("LIMULUS_REQUESTS__RETRIES", "0")
}

/// The models that were asked by the last run of a session, in order.
pub(crate) fn asked(home: &Home, session: &str) -> Vec<String> {
    let trace = home.run(&["runs", "trace", "--session", session]).expect_code(0).out;
    let sent = trace.lines().filter_map(|line| line.split_once("request_sent")?.1.split_once(" to "));
    sent.filter_map(|(_, to)| Some(to.split_once(',')?.0.to_owned())).collect()
}

const FIRST: &str = "acme/scripted (first)";
const SECOND: &str = "acme/scripted (second)";

#[test]
pub(crate) fn r50_r51_a_key_that_is_refused_gives_way_to_the_next_and_a_model_to_its_fallback() {
    let server = ModelServer::start().unwrap();
    let home = home(&server);
    let answer = home.run(&["agent", "-m", "fail=401x1 tokens=2"]).expect_code(0);
    assert_eq!(answer.out, "word0 word1\n");
    assert!(
        answer.err.contains("401") && answer.err.contains("switches to acme/scripted (second)\n"),
        "{}",
        answer.err
    );
    assert_eq!(asked(&home, "main"), [FIRST, SECOND]);
    let trace = home.run(&["runs", "trace"]).expect_code(0).out;
    assert!(trace.contains("acme/scripted (first) is in cooldown for 60 s: auth"), "{trace}");
    assert!(trace.contains("acme/other (first) is in cooldown for 60 s: auth"), "it is the same key: {trace}");
    // After a server failure the next model answers, with the key that is not in cooldown.
    let answer = home.run(&["agent", "-m", "fail=500x1 tokens=2"]).expect_code(0);
    assert!(answer.err.contains("switches to acme/other (second)\n"), "{}", answer.err);
    assert!(home.json(&["runs", "show"])["model"].as_str().unwrap().contains("other"));
    // R46: the reply names each candidate that was asked or passed over, and why.
    let attempts = |run: &serde_json::Value| {
        let attempts = run["meta"]["attempts"].as_array().expect("attempts").iter();
        let of = |attempt: &serde_json::Value| {
            let [kind, model, profile, reason] =
                ["kind", "model", "profile", "reason"].map(|field| attempt[field].as_str().unwrap_or("-").to_owned());
            format!("{kind} {model} {profile} {reason} {}", attempt["status"])
        };
        attempts.map(of).collect::<Vec<_>>()
    };
    let run = home.json(&["runs", "show"]);
    let expected =
        ["tried scripted second server 500", "skipped scripted first auth null", "tried other second - null"];
    assert_eq!(attempts(&run), expected, "the key that answered last comes first");
    assert!(run["meta"]["attempts"][1]["until"].as_i64() > run["meta"]["attempts"][0]["at"].as_i64(), "{run}");
    assert_eq!(run["payloads"], serde_json::json!([{ "kind": "text", "text": "word0 word1" }]));
    assert_eq!((&run["meta"]["provider"], &run["meta"]["model"]), (&"acme".into(), &"other".into()));
    let waited = home.json(&["runs", "wait"]);
    assert_eq!((&waited["payloads"], &waited["meta"]), (&run["payloads"], &run["meta"]));
    // The next run begins with the model that was chosen.
    home.run(&["agent", "-m", "tokens=1"]).expect_code(0);
    assert_eq!(asked(&home, "main"), [SECOND]);
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
pub(crate) fn r51_when_all_have_failed_each_is_named() {
    let server = ModelServer::start().unwrap();
    let home = home(&server);
    let failed = home.run(&["agent", "-m", "fail=401x9 Hello"]).expect_code(1);
    assert!(failed.err.contains("All models failed (4)"), "{}", failed.err);
    let (_, list) = failed.err.split_once("All models failed (4):\n").expect("a list");
    let lines: Vec<&str> = list.lines().take_while(|line| !line.trim_start().starts_with("hint: ")).collect();
    assert!(
        lines.len() == 4 && lines.iter().all(|line| line.trim_start().starts_with("acme/")),
        "a line each: {lines:?}"
    );
    assert!(failed.err.contains("acme/scripted (second): "), "{}", failed.err);
    assert!(failed.err.contains("acme/other (second): not asked (auth, in cooldown for 1 min)"), "{}", failed.err);
    assert_eq!(server.seen().len(), 2);
    let run = home.json(&["runs", "show"]);
    let kinds = run["meta"]["attempts"].as_array().expect("attempts").iter().map(|attempt| attempt["kind"].clone());
    assert_eq!(kinds.collect::<Vec<_>>(), ["tried", "tried", "skipped", "skipped"]);
    assert_eq!((&run["payloads"][0]["kind"], &run["meta"]["stop_reason"]), (&"error".into(), &"error".into()));
    // Every key is in cooldown, but one may have been fixed: the first is tried as a probe, and that is reported.
    home.assert_usable("main");
    let trace = home.run(&["runs", "trace"]).expect_code(0).out;
    assert!(trace.contains("a probe: it failed and has not answered since"), "{trace}");
}

/// R11: also across owners that are killed.
#[test]
pub(crate) fn r50_all_sessions_share_a_cooldown_and_the_user_can_clear_it() {
    let server = ModelServer::start().unwrap();
    let home = home(&server);
    let state = |profile: &str| {
        let listed = home.run(&["profiles", "list", "--json"]).expect_code(0).out;
        let rows: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
        rows.into_iter().find(|row| row["profile"] == profile).expect("a profile that is configured")
    };
    assert_eq!(state("first")["left_alone"], serde_json::json!([]), "where nothing has run yet");
    home.run(&["agent", "--session", "one", "-m", "fail=402x1 tokens=1"]).expect_code(0);
    assert_eq!(asked(&home, "one"), [FIRST, SECOND]);
    let cooldowns = state("first")["left_alone"].clone();
    assert_eq!(
        (&cooldowns[0]["class"], &cooldowns[0]["model"]),
        (&"billing".into(), &serde_json::Value::Null),
        "{cooldowns}"
    );
    let hours = (cooldowns[0]["until"].as_i64().unwrap() - cooldowns[0]["since"].as_i64().unwrap()) / 3_600_000;
    assert_eq!(hours, 5);
    assert_eq!(state("second")["last_good"], true);
    // Another session does not use it, and reports that.
    let output = home.run(&["agent", "--session", "two", "-m", "tokens=1"]).expect_code(0);
    assert_eq!(asked(&home, "two"), [SECOND]);
    assert!(output.err.contains("acme/scripted (first) is in cooldown until"), "{}", output.err);
    assert!(
        output.err.contains("(billing); after fixing that, run `limulus profiles clear acme/first`"),
        "{}",
        output.err
    );
    // `profiles clear` ends the cooldown, and `profiles use` puts a profile first.
    let cleared = home.run(&["profiles", "clear", "acme/first"]).expect_code(0).out;
    assert_eq!(cleared, "acme/first is available again (it was in cooldown: billing)\n");
    assert_eq!(state("first")["left_alone"], serde_json::json!([]));
    home.run(&["agent", "--session", "two", "-m", "tokens=1"]).expect_code(0);
    assert_eq!(asked(&home, "two"), [SECOND], "the last one that answered");
    home.run(&["profiles", "use", "acme/first"]).expect_code(0);
    home.run(&["agent", "--session", "three", "-m", "tokens=1"]).expect_code(0);
    assert_eq!(asked(&home, "three"), [FIRST]);
    home.run(&["profiles", "use", "acme/nobody"]).expect_code(4).expect_err("acme/first, acme/second");
    assert_eq!(server.violations(), [""; 0]);
}

/// A run without failures of its own uses another model than the chosen one, because of cooldowns.
#[test]
pub(crate) fn r51_the_answering_model_is_reported_if_only_the_ledger_is_the_reason() {
    let server = ModelServer::start().unwrap();
    let home = Home::new()
        .served_by(&server)
        .with("LIMULUS_AGENTS__MAIN__FALLBACKS", "acme/other")
        .with("LIMULUS_REQUESTS__RETRIES", "0");
    let first = home.run(&["agent", "--session", "one", "-m", "fail=429x1 tokens=1"]).expect_code(0);
    assert!(!first.err.contains("↻ tries ") && first.err.contains("↻ switches to acme/other"), "{}", first.err);
    let second = home.run(&["agent", "--session", "two", "-m", "rounds=1 tokens=1"]).expect_code(0);
    assert_eq!(second.err.matches("↻ tries acme/other").count(), 1, "once, not with each request: {}", second.err);
    let lines = home.run(&["agent", "--session", "three", "--json", "-m", "tokens=1"]).expect_code(0).out;
    let asks = |line: &&str| line.contains("\"asks\"") && line.contains("acme/other");
    assert_eq!(lines.lines().filter(asks).count(), 1, "{lines}");
}

#[test]
fn r50_r51_a_run_observes_cooldowns_that_others_set_during_its_life() {
    let server = ModelServer::start().unwrap();
    let home = home(&server);
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let wait = "exec:touch begun; until test -e go; do sleep 0.02; done\ntokens=1";
    let agent = home.start(&["agent", "--yes", "--session", "one", "-m", wait]);
    until("its command runs", || home.file("begun").exists());
    home.run(&["agent", "--session", "two", "-m", "fail=402x1 tokens=1"]).expect_code(0);
    home.put("go", "");
    let output = agent.finish().expect_code(0).err;
    assert!(output.contains("acme/scripted (first) is in cooldown until"), "{output}");
    assert_eq!(asked(&home, "one"), [FIRST, SECOND], "the first answered it, and has no credit now");
    let refused = server.seen().iter().filter(|seen| seen.status == 402).count();
    assert_eq!((refused, server.violations()), (1, vec![]));
}

/// R11: every later owner knows what was reported about a key, wherever the owner was killed.
#[test]
fn r50_no_kill_shortens_a_cooldown() {
    let server = ModelServer::start().unwrap();
    let home = home(&server);
    let agent = home.start(&["agent", "--session", "one", "--json", "-m", "fail=402x1 tokens=500 delay_ms=20"]);
    // From the report of the failure on it is durable, whether or not the ledger has recorded it.
    agent.until_line("the cooldown of a key", |line| line["type"] == "cooling");
    agent.kill();
    home.run(&["agent", "--session", "two", "-m", "tokens=1"]).expect_code(0);
    home.run(&["resume"]).expect_code(0);
    home.run(&["agent", "--session", "three", "-m", "tokens=1"]).expect_code(0);
    assert_eq!(asked(&home, "three"), [SECOND]);
    let refused = server.seen().iter().filter(|seen| seen.status == 402).count();
    assert_eq!(refused, 1);
}

/// Corrupts the payload of an entry of the ledger.
fn damage_ledger(home: &Home, seq: u32) {
    let journal = rusqlite::Connection::open(home.path().join("journal.db")).expect("a journal");
    store_uncompressed(&home.path().join("journal.db")).expect("it can be changed");
    let change = "UPDATE entries SET payload = payload || ' ' WHERE seq = ?1 \
                  AND branch = (SELECT id FROM branches WHERE kind = 'ledger' ORDER BY id DESC)";
    assert_eq!(journal.execute(change, [seq]).expect("it can be changed"), 1);
}

const LEDGER_IS_DAMAGED: &str = "the ledger of this home is damaged";

#[test]
fn r50_r10_with_a_damaged_ledger_runs_continue_with_a_warning_and_a_repair_keeps_intact_entries() {
    let server = ModelServer::start().unwrap();
    let home = home(&server);
    home.run(&["agent", "--session", "one", "-m", "fail=402x1 tokens=1"]).expect_code(0);
    home.run(&["profiles", "use", "acme/second"]).expect_code(0);
    home.run(&["profiles", "use", "acme"]).expect_code(0);
    let entries = |home: &Home| {
        let journal = rusqlite::Connection::open(home.path().join("journal.db")).unwrap();
        let sql = "SELECT kind FROM entries WHERE branch = (SELECT id FROM branches WHERE kind = 'ledger' ORDER BY id DESC) ORDER BY seq";
        let mut statement = journal.prepare(sql).unwrap();
        let kinds = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        kinds.map(|kind| kind.unwrap()).collect::<Vec<_>>()
    };
    let last = entries(&home).len() as u32;
    damage_ledger(&home, last);

    // The owner reports it, and every session continues with the entries before it.
    let answer = home.run(&["agent", "--session", "two", "-m", "tokens=2"]).expect_code(0);
    assert!(answer.err.contains(LEDGER_IS_DAMAGED) && answer.err.contains("`limulus doctor`"), "{}", answer.err);
    assert_eq!(asked(&home, "two"), [SECOND], "it is still known that the first has no credit");
    let refused = home.run(&["profiles", "use", "acme/first"]).expect_code(65);
    assert!(refused.err.contains("`limulus doctor`"), "{refused:?}");
    home.run(&["profiles", "list"]).expect_code(65);
    assert_eq!(entries(&home).len() as u32, last, "nothing is written to it");

    // The repair keeps the intact entries, and sessions send their pending reports.
    home.run(&["doctor", "--repair", "ledger", "--yes"]).expect_code(0);
    assert_eq!(entries(&home), ["forked"]);
    let audit = home.run(&["audit", "--branch", "00000000-0000-0000-0000-000000000000"]).expect_code(65);
    assert!(audit.out.contains("✗ its payload does not match its hash"), "{audit:?}");
    let answer = home.run(&["agent", "--session", "three", "-m", "tokens=1"]).expect_code(0);
    assert!(!answer.err.contains(LEDGER_IS_DAMAGED), "{}", answer.err);
    assert_eq!(asked(&home, "three"), [SECOND], "it is known again that the first has no credit");
    home.run(&["doctor"]).expect_code(0);

    // Without an intact entry the ledger starts empty; then sessions send their pending reports.
    damage_ledger(&home, 1);
    home.run(&["agent", "--session", "four", "-m", "fail=402x1 tokens=2 four"]).expect_code(0);
    assert_eq!(asked(&home, "four"), [FIRST, SECOND], "that it has no credit is not known");
    home.run(&["doctor", "--repair", "ledger", "--yes"]).expect_code(0);
    home.run(&["doctor"]).expect_code(0);
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
fn r42_a_model_with_a_too_small_window_is_refused_before_a_request_is_sent() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let config = home.path().join("config.toml");
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(&config, "[models.\"acme/scripted\"]\ncontext_window = 15999\nmax_output = 1000\n").unwrap();
    let refused = home.run(&["agent", "-m", "Hello"]).expect_code(1);
    assert!(refused.err.contains("15999") && refused.err.contains("16000"), "{}", refused.err);
    assert_eq!(server.seen().len(), 0);
    std::fs::write(&config, "[models.\"acme/scripted\"]\ncontext_window = 16000\nmax_output = 1000\n").unwrap();
    let answered = home.run(&["agent", "-m", "tokens=1"]).expect_code(0);
    assert!(answered.err.contains("of only 16000 tokens"), "{}", answered.err);
}

/// R11: a wait is in the journal: neither a kill nor the next owner shortens it, and an abort ends it.
#[test]
fn r50_a_wait_for_a_limit_outlives_a_kill_and_can_be_aborted() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_REQUESTS__RETRIES", "0");
    let agent = home.start(&["agent", "-m", "fail=429x9 Hello"]);
    agent.until_err("continues by itself");
    let explained = home.json(&["runs", "explain", "--session", "main"]);
    assert_eq!(explained["state"], "awaiting", "{explained}");
    assert!(explained["waits_for"].as_str().unwrap().contains("quota"), "{explained}");
    let wait_until = explained["until"].clone();
    assert!(wait_until.is_number(), "{explained}");
    agent.kill();
    let resumed = home.start(&["resume"]);
    until("another owner took it up", || {
        let trace = home.run(&["runs", "trace", "--json"]).expect_code(0);
        trace.lines().iter().any(|line| line["event"] == "opened")
    });
    assert_eq!(home.json(&["runs", "explain", "--session", "main"])["until"], wait_until);
    home.run(&["runs", "abort", "--session", "main"]).expect_code(0);
    let ended = resumed.finish();
    assert!(
        ended.err.contains("… waits for a quota, until "),
        "the command that resumes it reports the wait: {}",
        ended.err
    );
    assert_eq!(server.seen().len(), 1, "nothing was sent meanwhile: {}", ended.err);
    assert_eq!(home.json(&["runs", "show"])["outcome"], "aborted");
    // Else the next run would wait for the limit as well.
    let cleared = home.run(&["profiles", "clear", "--json"]).expect_code(0);
    assert!(cleared.out.contains("rate_limit"), "{}", cleared.out);
    home.assert_usable("main");
}

/// R11: `profiles clear` ends a wait at once, with any owner, and also without one.
#[test]
fn r50_r51_a_run_that_waits_for_a_quota_continues_when_its_profile_is_cleared() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_REQUESTS__RETRIES", "0");
    let waits = |session: &str| {
        let message = format!("fail=429x1 tokens=1 {session}");
        let agent = home.start(&["agent", "--session", session, "-m", &message]);
        agent.until_err("continues by itself");
        until("the ledger has it", || {
            let listed = home.run(&["profiles", "list", "--json"]).expect_code(0).out;
            listed.contains("rate_limit")
        });
        agent
    };
    let clear = || {
        let cleared = home.run(&["profiles", "clear"]).expect_code(0).out;
        assert!(cleared.contains("is available again"), "{cleared}");
    };
    let clears = |session: &str| {
        let trace = home.run(&["runs", "trace", "--session", session]).expect_code(0).out;
        trace.matches("acme/scripted: cooldown cleared by the user").count()
    };
    let agent = waits("one");
    clear();
    let answer = agent.finish().expect_code(0);
    assert_eq!(answer.out, "word0\n");
    assert!(answer.err.contains("acme/scripted is available again"), "{}", answer.err);
    assert_eq!((asked(&home, "one").len(), clears("one")), (2, 1));

    waits("two").kill();
    clear();
    let resumed = home.run(&["resume"]).expect_code(0);
    assert!(resumed.out.contains("word0"), "{resumed:?}");
    assert_eq!((asked(&home, "two").len(), clears("two")), (2, 1));

    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let agent = waits("three");
    clear();
    assert_eq!(agent.finish().expect_code(0).out, "word0\n");
    assert_eq!((asked(&home, "three").len(), clears("three")), (2, 1));
    assert_eq!(server.violations(), [""; 0]);
}

/// R50: a command ends only after its run's reports about keys are in the ledger: nothing unfinished remains.
#[test]
fn r50_a_command_whose_run_has_failed_leaves_nothing_unfinished() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_REQUESTS__RETRIES", "0");
    home.run(&["agent", "-m", "fail=402x9 Hello"]).expect_code(1);
    let status = home.run(&["status"]).expect_code(0).out;
    assert!(status.contains("unfinished  none"), "{status}");
    let profiles = home.run(&["profiles", "list"]).expect_code(0).out;
    assert!(profiles.contains("billing"), "{profiles}");
}

/// R53: if the last candidate asks for a wait of fifty minutes, the run waits for a quota, which a user can end.
#[test]
fn r53_a_run_with_a_long_requested_wait_continues_when_a_user_clears_its_keys() {
    let server = ModelServer::start().unwrap();
    let home = home(&server).with("LIMULUS_REQUESTS__RETRIES", "2");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let waiting = home.start(&["agent", "-m", "fail=429x4 retry_after=3000 tokens=2"]);
    waiting.until_err("acme/other (second) is in cooldown until");
    until("the wait", || home.run(&["runs", "explain"]).out.contains("is awaiting"));
    let explained = home.run(&["runs", "explain"]).expect_code(0).out;
    assert!(explained.contains("waits for a quota"), "{explained}");
    home.run(&["profiles", "clear"]).expect_code(0);
    assert_eq!(waiting.finish().expect_code(0).out, "word0 word1\n");
    owner.signal(rustix::process::Signal::TERM);
    owner.finish().expect_code(0);
}
