//! The reading commands as a user runs them: the real binary, on a home that this process owns meanwhile.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command as Process, Output};
use std::sync::{Arc, mpsc};

use engine::{
    BodyKind, BranchId, Candidate, Command, Content, Decide as _, Effect, EffectKind, Input, Limits, Machine,
    MessageId, Moment, Overrides, Part, Policy, QueueSettings, Report, ResumeMode, SessionId, Settings, Timestamp,
};
use journal::{Append, Journal as _, Sqlite};
use uuid::Uuid;

const RUN: &str = "00000000-0000-0000-0000-0000000000aa";

/// Runs `limulus` with this home and no other configuration.
fn limulus(home: &Path, words: &[&str]) -> Output {
    let mut process = Process::new(env!("CARGO_BIN_EXE_limulus"));
    let process = process.env_clear().env("LIMULUS_HOME", home).env("LIMULUS_SESSION__DEFAULT", "main");
    process.env("TZ", "UTC").args(words).output().unwrap()
}

fn stdout(home: &Path, words: &[&str]) -> String {
    let output = limulus(home, words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {:?}: {stderr}", output.status);
    assert_eq!(stderr, "", "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(home: &Path, words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(home, words)).unwrap()
}

/// An owner in the middle of an answer.
struct Owner {
    journal: Sqlite,
    machine: Machine,
}

impl Owner {
    fn streaming(home: &Path) -> Self {
        let mut owner = Self { journal: Sqlite::own(home).unwrap(), machine: Machine::new() };
        owner.offer(Command::Create {
            session: SessionId(Uuid::from_u128(1)),
            key: "agent:main:main".to_owned(),
            agent: "main".to_owned(),
            branch: BranchId(Uuid::from_u128(2)),
        });
        let epoch = owner.journal.epoch();
        owner.offer(Report::Opened { epoch, cooling: vec![] });
        owner.offer(Command::Message {
            message: MessageId(Uuid::from_u128(0xaa)),
            content: Content::text(BodyKind::Message, "你好"),
            mode: None,
            queue: QueueSettings::default(),
            key: None,
            overrides: Overrides::default(),
            attachments: vec![],
            options: engine::SenderOptions::default(),
        });
        let effect = owner.effect(EffectKind::Lane);
        owner.offer(Report::LaneEntered { effect, settings: Arc::new(settings()), cooling: vec![] });
        let effect = owner.effect(EffectKind::Prepare);
        owner.offer(Report::Prepared { effect, prompt: Content::text(BodyKind::Prompt, "You are a test.") });
        owner.say("Half an ");
        owner
    }

    fn say(&mut self, text: &str) {
        let effect = self.effect(EffectKind::Request);
        self.offer(Report::Streamed { effect, part: Part::Text(text.to_owned()) });
    }

    fn effect(&self, kind: EffectKind) -> engine::EffectId {
        self.machine.effects().iter().map(Effect::id).find(|id| id.kind == kind).unwrap()
    }

    /// Handles an input; returns when what follows is kept.
    fn offer(&mut self, input: impl Into<Input>) {
        let moment = Moment { now: Timestamp(1_763_694_240_000), random: 0 };
        self.machine.handle(input.into(), moment).unwrap();
        let batch = Arc::new(self.machine.take_batch().unwrap());
        let (done, kept) = mpsc::channel();
        let append = Append { batch, epoch: self.journal.epoch() };
        self.journal.append(append, Box::new(move |result| drop(done.send(result))));
        kept.recv().unwrap().unwrap();
    }
}

fn settings() -> Settings {
    Settings {
        policy: [].into(),
        agent: "main".to_owned(),
        workspace: "/".to_owned(),
        date: "2025-11-21".to_owned(),
        facts: String::new(),
        reply: engine::ReplySettings::default(),
        prompt: engine::PromptSettings::default(),
        candidates: vec![Candidate {
            provider: "offline".to_owned(),
            model: "offline".to_owned(),
            profile: None,
            context_window: 128_000,
            max_output: 8_192,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        }],
        limits: Limits::default(),
        resume: ResumeMode::Restart,
        approvals: engine::Approvals::default(),
        sandbox: engine::Sandbox::default(),
        exec: Policy::Ask,
        outside: Policy::Ask,
        compaction: engine::Compaction::default(),
        titles: None,
        budget: engine::Budget::default(),
        history_turns: None,
        instructions: false,
        addresses: vec![],
        recover: engine::Recover::Ask,
        executed_files: Policy::Allow,
        web_fetch: Policy::Ask,
        web_search: None,
        tools: [].into(),
        stop_before: vec![],
        plan: false,
        output_schema: None,
        derived: engine::Derived::default(),
    }
}

#[test]
fn r10_what_is_acknowledged_is_seen_by_others_while_the_home_is_owned() {
    let home = tempfile::tempdir().unwrap();
    let mut owner = Owner::streaming(home.path());
    assert_eq!(json(home.path(), &["runs", "show", RUN, "--json"])["open_text"], "Half an ");
    owner.say("answer");
    let run = json(home.path(), &["runs", "show", "--session", "main", "--json"]);
    assert_eq!((&run["open_text"], &run["state"]), (&"Half an answer".into(), &"streaming".into()));
    let session = json(home.path(), &["sessions", "show", "--json"]);
    assert_eq!(session["run"]["open_text"], "Half an answer");
    assert_eq!(session["transcript"][0]["text"], "你好");
    assert_eq!(session["flags"]["isStreaming"], true);
    let status = json(home.path(), &["status", "--json"]);
    assert_eq!(status["owner"]["pid"], std::process::id());
    assert_eq!(status["unfinished"][0]["waits_for"], "the rest of an answer");
    drop(owner);
    let status = json(home.path(), &["status", "--json"]);
    assert!(status["owner"].is_null(), "{status}");
    assert_eq!(status["unfinished"][0]["key"], "agent:main:main", "it was interrupted, not ended");
}

#[test]
fn r18_a_trace_is_one_object_a_line_in_order() {
    let home = tempfile::tempdir().unwrap();
    let _owner = Owner::streaming(home.path());
    let text = stdout(home.path(), &["runs", "trace", "00000000-0000-0000-0000-0000000000a", "--json"]);
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    let expected =
        ["message_accepted", "run_started", "lifecycle_changed", "step_begun", "request_sent", "request_opened"];
    assert_eq!(events, expected);
    assert!(lines.windows(2).all(|pair| pair[0]["position"].as_u64() < pair[1]["position"].as_u64()));
}

#[test]
fn r06_the_graph_of_a_run_shows_where_it_is() {
    let home = tempfile::tempdir().unwrap();
    let _owner = Owner::streaming(home.path());
    let graph = json(home.path(), &["graph", "--format", "json", "--run", RUN]);
    assert_eq!(graph["run"]["node"], "process_stream");
    assert!(stdout(home.path(), &["graph", "--session", "main"]).ends_with("    class streaming here\n"));
}

#[test]
fn a_home_without_a_journal_and_a_damaged_one_have_different_errors() {
    let home = tempfile::tempdir().unwrap();
    let check = |words: &[&str], exit: i32, said: &str| {
        let output = limulus(home.path(), words);
        let stderr = String::from_utf8(output.stderr).unwrap().replace(home.path().to_str().unwrap(), "HOME");
        assert_eq!((output.status.code(), stderr.as_str()), (Some(exit), said), "{words:?}");
        assert!(output.stdout.is_empty());
    };
    let missing = "limulus: no journal at HOME\n  hint: run `limulus agent -m TEXT` first, or set LIMULUS_HOME\n";
    check(&["runs", "list"], 4, missing);
    check(&["sessions", "show"], 4, missing);
    assert_eq!(json(home.path(), &["status", "--json"])["sessions"], serde_json::json!({}));
    assert!(stdout(home.path(), &["graph"]).starts_with("stateDiagram-v2\n"), "the table needs no home");
    drop(Owner::streaming(home.path()));
    let hint = "  hint: `limulus runs list` shows the runs\n";
    check(&["runs", "show", "ffff"], 4, &format!("limulus: there is no run `ffff`\n{hint}"));
    std::fs::write(home.path().join("journal.db"), "this is no database, and long enough to be seen as none").unwrap();
    let output = limulus(home.path(), &["runs", "list"]);
    assert_eq!(output.status.code(), Some(65), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_can_be_read_is_in_the_help() {
    let home = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for words in [
        &["status"][..],
        &["sessions", "list"],
        &["sessions", "show"],
        &["sessions", "end"],
        &["runs", "list"],
        &["runs", "show"],
        &["runs", "trace"],
        &["receipt"],
        &["graph"],
        &["setup"],
        &["models", "list"],
        &["models", "check"],
        &["config", "show"],
        &["config", "check"],
        &["config", "init"],
        &["completions"],
        &["man"],
    ] {
        let words: Vec<&str> = words.iter().chain(&["--help"]).copied().collect();
        writeln!(all, "$ limulus {}\n{}", words.join(" "), stdout(home.path(), &words)).unwrap();
    }
    insta::assert_snapshot!(all);
}
