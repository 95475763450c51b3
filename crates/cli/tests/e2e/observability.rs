//! What a service shows of its work to those who watch it: metrics to Prometheus, log lines, traces to a collector.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::web::Web;
use crate::support::{Does, Home, Planned, Process, refused, until, whole};

/// The samples of `/metrics` in whole numbers, by name and labels as they are written.
fn samples(web: &Web) -> BTreeMap<String, i64> {
    let answer = web.ask("GET /metrics", &Value::Null);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("content-type").is_some_and(|of| of.starts_with("application/openmetrics-text")));
    assert!(answer.body.ends_with("# EOF\n"), "{}", answer.body);
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        (name.to_owned(), value.round() as i64)
    };
    answer.body.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

fn start(web: &Web, text: &str, session: &str) -> String {
    let accepted = web.ask("POST /v1/runs", &json!({ "message": text, "sessionKey": session })).json();
    accepted["runId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

fn wait(home: &Home, run: &str) {
    until("the run to end", || home.json(&["runs", "show", run])["outcome"].is_string());
}

/// Runs a message to its end.
fn run(web: &Web, home: &Home, text: &str, session: &str) -> String {
    let run = start(web, text, session);
    wait(home, &run);
    run
}

/// R68: what is counted is what the journal has, and what waits is there after a kill.
#[test]
fn r68_what_is_counted_is_what_happened() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let web = Web::start(&home);
    assert_eq!(web.ask_with("GET /metrics", &[], &Value::Null).status, 401);
    run(&web, &home, "hello", "main");
    let with_call = run(&web, &home, "run `echo ran`", "main");
    let counted = samples(&web);
    let at = |name: &str| counted.get(name).copied().unwrap_or_else(|| panic!("{name}: {counted:#?}"));
    let model = "provider=\"offline\",model=\"offline\"";
    assert_eq!(at("limulus_runs_started_total{agent=\"main\"}"), 2);
    assert_eq!(at("limulus_runs_ended_total{agent=\"main\",outcome=\"completed\"}"), 2);
    assert_eq!(at("limulus_run_duration_seconds_count{agent=\"main\",outcome=\"completed\"}"), 2);
    assert_eq!(at("limulus_tool_calls_total{tool=\"exec\",outcome=\"done\"}"), 1);
    assert_eq!(at("limulus_tool_call_duration_seconds_count{tool=\"exec\"}"), 1);
    assert_eq!(at(&format!("limulus_requests_total{{{model},result=\"answered\"}}")), 3);
    assert_eq!(at(&format!("limulus_time_to_first_token_seconds_count{{{model}}}")), 3);
    assert_eq!(at("limulus_http_unauthorized_total"), 1);
    assert_eq!(at("limulus_recoveries_total"), 0);
    assert_eq!(at("limulus_http_requests_total{route=\"/v1/runs\",status=\"202\"}"), 2);
    assert!(at("limulus_commit_duration_seconds_count") > 6);
    assert!(at("process_resident_memory_bytes") > 1_000_000 && at("limulus_journal_size_bytes{file=\"database\"}") > 0);
    // The tokens of all kinds are those of the runs.
    let listed = home.json(&["runs", "list"]);
    let of_run = |run: &Value, kind: &str| run["usage"][kind].as_i64().unwrap_or(0);
    let of_all = |kind| listed.as_array().unwrap().iter().map(|run| of_run(run, kind)).sum::<i64>();
    for kind in ["input", "output"] {
        assert_eq!(
            at(&format!("limulus_tokens_total{{{model},kind=\"{kind}\"}}")),
            of_all(kind),
            "{kind}: {with_call}"
        );
    }
    web.service.kill();

    // A run that waits for a person goes on with the next owner.
    let home = home.with("LIMULUS_TOOLS__EXEC__POLICY", "ask");
    let web = Web::start(&home);
    let asking = start(&web, "run `echo ran`", "other");
    let pending = |web: &Web| samples(web).get("limulus_approvals_pending").copied();
    until("the request", || pending(&web) == Some(1));
    web.service.kill();
    let web = Web::start(&home);
    until("the run to go on", || samples(&web).get("limulus_recoveries_total") == Some(&1));
    let counted = samples(&web);
    assert_eq!((pending(&web), counted["limulus_unfinished_runs{state=\"awaiting\"}"]), (Some(1), 1));
    home.run(&["runs", "abort", &asking]).expect_code(0);
    wait(&home, &asking);
    let counted = samples(&web);
    assert_eq!(counted.get("limulus_runs_ended_total{agent=\"main\",outcome=\"aborted\"}"), Some(&1), "{counted:#?}");
    assert_eq!(counted.get("limulus_approvals_pending"), Some(&0));
}

/// R68: a failed request is counted by its class, its retry and its cooldown too; names that a model makes up are no labels.
#[test]
fn r68_what_fails_is_counted_by_its_class() {
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"made_up","arguments":"{}"}}]}}]}"#;
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let calls = format!("{}data: {call}\n\ndata: {stop}\n\ndata: [DONE]\n\n", crate::support::STREAM);
    let server = Planned::start(move |number, _| match number {
        0 => Does::Answer(refused(503, &json!({ "error": { "message": "busy" } }))),
        1 => Does::Answer(calls.clone()),
        _ => Does::Answer(whole(&["The ", "answer."])),
    });
    let home = Home::new().served_at(&server.base_url);
    let web = Web::start(&home);
    run(&web, &home, "hello", "main");
    let counted = samples(&web);
    let model = "provider=\"acme\",model=\"scripted\"";
    let failures: Vec<_> = counted.keys().filter(|name| name.starts_with("limulus_request_failures_total")).collect();
    assert_eq!(failures.len(), 1, "{counted:#?}");
    assert_eq!(counted[&format!("limulus_requests_total{{{model},result=\"failed\"}}")], 1);
    assert_eq!(counted[&format!("limulus_requests_total{{{model},result=\"answered\"}}")], 2);
    assert_eq!(counted["limulus_retries_total"], 1);
    assert!(counted.keys().any(|name| name.starts_with("limulus_tool_calls_total{tool=\"unknown\"")), "{counted:#?}");
    assert!(!counted.keys().any(|name| name.contains("made_up")), "{counted:#?}");
}

/// The folder of the examples.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/observability")
}

/// The queries of the dashboard and of the alerts.
fn queries() -> Vec<String> {
    let dashboard = std::fs::read_to_string(examples().join("grafana.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("a list"));
    let text =
        |query: &str| query.replace("$__rate_interval", "1m").replace("$__range", "1h").replace("$job", "limulus");
    let mut queries: Vec<String> = targets.map(|target| text(target["expr"].as_str().expect("a query"))).collect();
    let alerts = std::fs::read_to_string(examples().join("alerts.yaml")).expect("the rules");
    queries.extend(alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).map(str::to_owned));
    queries
}

/// R68: each query of the dashboard and the alerts asks for a metric that there is.
#[test]
fn r68_each_query_names_metrics_that_there_are() {
    let page = std::fs::read_to_string(examples().join("../../observability.md")).unwrap();
    let known: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect();
    let queries = queries();
    assert!(queries.len() > 30, "{queries:#?}");
    let mut asked = BTreeSet::new();
    for query in &queries {
        let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for word in words.filter(|word| word.starts_with("limulus_") || word.starts_with("process_")) {
            let name = ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            assert!(known.contains(name), "{name} of {query} is not in docs/observability.md");
            asked.insert(name.to_owned());
        }
    }
    assert!(asked.len() > 25, "{asked:?}");
}

/// R68: a real Prometheus collects what is served with the example's configuration, and answers every query.
#[test]
fn r68_prometheus_collects_it() {
    if !has_prometheus() {
        return;
    }
    let checked =
        Command::new("promtool").args(["check", "rules"]).arg(examples().join("alerts.yaml")).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let web = Web::start(&home);
    run(&web, &home, "run `echo ran`", "main");
    home.put("token", &web.token);
    let config = std::fs::read_to_string(examples().join("prometheus.yaml")).unwrap();
    let config = config
        .replace("/etc/prometheus/limulus.token", &home.file("token").display().to_string())
        .replace("127.0.0.1:18789", &web.address)
        .replace("15s", "1s")
        .replace("alerts.yaml", &examples().join("alerts.yaml").display().to_string());
    home.put("prometheus.yaml", config);
    let port = free_port();
    let prometheus = Process::spawn({
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", home.file("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", home.file("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    });
    prometheus.until_err("Server is ready to receive web requests");
    let at = Web { service: prometheus, address: format!("127.0.0.1:{port}"), token: String::new() };
    let ask = |query: &str| {
        let answer = at.ask(&format!("GET /api/v1/query?query={}", escaped(query)), &Value::Null);
        let body = answer.json();
        assert_eq!(body["status"], "success", "{query}: {body}");
        body["data"]["result"].as_array().cloned().unwrap_or_default()
    };
    until("the service to be collected", || ask("up{job=\"limulus\"} == 1").len() == 1);
    let ran = ask("limulus_runs_ended_total{outcome=\"completed\"}");
    assert_eq!(ran[0]["value"][1], "1", "{ran:?}");
    for query in queries() {
        ask(&query);
    }
    assert_eq!(ask("sum(limulus_tool_calls_total)")[0]["value"][1], "1");
    let rules = at.ask("GET /api/v1/rules", &Value::Null).json();
    assert_eq!(rules["data"]["groups"][0]["rules"].as_array().map(Vec::len), Some(7), "{rules}");
}

fn has_prometheus() -> bool {
    let is_there = Command::new("prometheus").arg("--version").output().is_ok_and(|output| output.status.success());
    let is_promised = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(is_there || !is_promised, "there is no prometheus");
    if !is_there {
        eprintln!("skipped: no prometheus");
    }
    is_there
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

fn escaped(query: &str) -> String {
    query.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat()
}

/// R68: a log has one JSON object a line, with the spans of its run; it has no secret and nothing of what is said.
#[test]
fn r68_a_log_is_json_and_has_no_secret() {
    let key = "sk-canary-5f0c7d2e9b";
    let body = json!({ "error": { "message": format!("the key {key} is wrong") } });
    let server = Planned::start(move |number, _| match number {
        0 => Does::Answer(refused(503, &body)),
        1 => Does::Answer(whole(&["canary-", "answer"])),
        _ => Does::Answer(refused(401, &body)),
    });
    let home = Home::new().served_at(&server.base_url).with("CANARY_KEY", key).with("LIMULUS_LOG", "trace");
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("config.toml"), "[[providers.acme.profiles]]\nkey = \"env:CANARY_KEY\"\n").unwrap();
    let service = home.start(&["serve", "--json", "--listen", "127.0.0.1:0", "--log", "json"]);
    let ready = service.until_line("ready", |line| line["type"] == "ready");
    let token = home.run(&["gateway", "token"]).expect_code(0).out.trim_end().to_owned();
    let web = Web { service, address: ready["listensAt"].as_str().unwrap().to_owned(), token };
    let first = run(&web, &home, "canary-question", "main");
    run(&web, &home, "canary-question", "main");
    web.ask_with("GET /v1/models", &[("authorization", "Bearer canary-guess")], &Value::Null);
    let Web { service, token, .. } = web;
    service.until_err("a request without the right token");
    service.signal(Signal::TERM);
    let ended = service.finish().expect_code(0);
    let lines: Vec<Value> = ended
        .err
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let find = |message: &str| {
        let is_it = |line: &&Value| line["message"].as_str().is_some_and(|text| text.contains(message));
        lines.iter().find(is_it).unwrap_or_else(|| panic!("{message}: {}", ended.err))
    };
    let run_ended = find("run ended");
    assert_eq!((&run_ended["level"], &run_ended["target"]), (&json!("INFO"), &json!("limulus::run")));
    assert_eq!(run_ended["outcome"], "completed");
    let spans = run_ended["spans"].as_array().unwrap();
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!((names, &spans[0]["run"], &spans[1]["number"]), (vec!["run", "attempt"], &json!(first), &json!(2)));
    let failed = find("request failed");
    assert_eq!(failed["spans"][2]["model"], "scripted", "{failed}");
    assert!(find("serving")["timestamp"].is_string());
    find("stopping");
    for secret in [key, &token, "canary-question", "canary-answer", "canary-guess"] {
        assert!(!ended.err.contains(secret), "{secret}: {}", ended.err);
    }
}

/// R68: without a filter there is no log, text is for people, and a filter that cannot be read says what it may be.
#[test]
fn r68_a_filter_says_what_is_logged() {
    let home = Home::new();
    let said = |home: &Home, words: &[&str]| {
        let service = home.start(&[&["serve", "--json", "--no-listen"], words].concat());
        service.until_line("ready", |line| line["type"] == "ready");
        home.run(&["agent", "-m", "hello"]).expect_code(0);
        service.signal(Signal::TERM);
        service.finish().expect_code(0).err
    };
    let plain = said(&home, &[]);
    assert!(plain.contains("limulus: serving") && !plain.contains("run started"), "{plain}");
    let text = said(&home, &["--log", "text"]);
    assert!(text.contains("limulus: serving") && text.contains(" INFO run{run="), "{text}");
    assert!(!text.contains("request ended"), "{text}");
    let home = home.with("LIMULUS_LOG", "limulus::request=debug");
    let of_part = said(&home, &[]);
    assert!(of_part.contains("request ended") && !of_part.contains("run started"), "{of_part}");
    assert!(of_part.contains("DEBUG run{run="), "the spans are there whatever the filter: {of_part}");
    for (filter, why) in [("loud", "`loud` is none of"), ("hyper=trace", "limulus::NAME"), ("info,", "`` is none of")] {
        let home = Home::new().with("LIMULUS_LOG", filter);
        home.run(&["serve"]).expect_code(78).expect_err(why);
    }
}

/// A Python with the official messages of OpenTelemetry.
fn collector(home: &Home, port: u16) -> Option<Process> {
    let python = std::env::var("READER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_messages = Command::new(&python).args(["-c", "import opentelemetry.proto.trace.v1.trace_pb2"]).output();
    if !has_messages.is_ok_and(|output| output.status.success()) {
        let is_promised = std::env::var("CI").is_ok_and(|ci| ci == "true") && std::env::var("READER_PYTHON").is_ok();
        assert!(!is_promised, "{python} has no module `opentelemetry.proto`");
        eprintln!("skipped: no Python with the module `opentelemetry.proto`");
        return None;
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/observability/collector.py");
    let mut command = home.program(&python, &["-B", &program.display().to_string(), &port.to_string()]);
    let collector = Process::spawn({
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    });
    collector.until_line("listening", |line| line["name"] == "listening");
    Some(collector)
}

/// R68: a collector receives a trace of each run by the conventions for generative AI: it has no texts, and a run that a kill
/// interrupts goes on in its trace. A collector that is away receives it later.
#[test]
fn r68_a_run_is_one_trace() {
    let port = free_port();
    let home = Home::new()
        .with("LIMULUS_TOOLS__EXEC__POLICY", "ask")
        .with("LIMULUS_TELEMETRY__OTLP", &format!("http://127.0.0.1:{port}"))
        .with("OTEL_EXPORTER_OTLP_HEADERS", "api-key=canary")
        .with("LIMULUS_LOG", "warn");
    let web = Web::start(&home);
    let asking = start(&web, "run `echo canary-output`", "main");
    // Nobody listens there yet.
    web.service.until_err("the collector does not take spans");
    let Some(collector) = collector(&home, port) else { return };
    let trace = asking.replace('-', "");
    let of_run = |name: &str| {
        let is_it = |line: &Value| {
            line["trace"] == json!(trace) && line["name"].as_str().is_some_and(|of| of.starts_with(name))
        };
        collector.until_line(name, is_it)
    };
    let first = of_run("chat ");
    assert_eq!((&first["kind"], &first["service"], &first["key"]), (&json!(3), &json!("limulus"), &json!("canary")));
    let attributes = &first["attributes"];
    assert_eq!(
        (&attributes["gen_ai.operation.name"], &attributes["gen_ai.provider.name"]),
        (&json!("chat"), &json!("offline"))
    );
    assert!(attributes["gen_ai.usage.input_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{first}");
    web.service.kill();

    let web = Web::start(&home);
    let asked = home.json(&["approvals", "list"]);
    let call = asked[0]["id"].as_str().unwrap_or_else(|| panic!("{asked}")).to_owned();
    home.run(&["approvals", "approve", &call]).expect_code(0);
    wait(&home, &asking);
    let (call, root) = (of_run("execute_tool exec"), of_run("invoke_agent main"));
    assert_eq!((&root["parent"], &root["status"], &root["kind"]), (&json!(""), &json!(0), &json!(1)));
    assert_eq!(root["attributes"]["gen_ai.conversation.id"], "agent:main:main");
    assert_eq!(root["attributes"]["limulus.run.id"], json!(asking));
    let attempt = of_run("attempt 1");
    assert_eq!((&attempt["parent"], &call["parent"]), (&root["id"], &attempt["id"]));
    // The run began with the first owner, before its first request.
    assert!(root["started"].as_u64() <= first["started"].as_u64(), "{root} {first}");
    assert!(!root.to_string().contains("canary-output") && !call.to_string().contains("canary-output"));
    web.service.signal(Signal::TERM);
    web.service.finish().expect_code(0);
}
