//! Real files, searched without an index and with one that a test can watch.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use engine::policy::PolicyRule;
use engine::{CallId, CallOutcome, EffectId, EffectKind, Policy, RunId, Settings, ToolResult};
use serde_json::{Value, json};

use super::*;
use crate::call::{CallRequest, Context};
use crate::cancel::Cancel;
use crate::file_call;
use crate::masking::Secrets;
use crate::policy::check_here;
use crate::policy_explained::context_of;
use crate::policy_rules::CallRules;
use crate::tool::Work;
use crate::{Needs, with_tools_for};

struct World {
    folder: tempfile::TempDir,
    settings: Settings,
    context: Context,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["ws/memory", "own/memory", "out"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let workspace = root.join("ws").display().to_string();
        let settings =
            Settings { workspace, tools: with_tools_for(Needs::Memory, &crate::specs()), ..Settings::default() };
        let memory = MemoryContext { own: Some(root.join("own")), index: None };
        let protected = crate::Protected::folder(root.join("own"));
        let context = Context { protected, memory, ..context_of(&settings) };
        Self { folder, settings, context }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.at(name), text).unwrap();
    }

    /// Checks a call and runs it, as the runtime does.
    fn call(&self, tool: &str, arguments: &Value) -> ToolResult {
        let run = RunId(uuid::Uuid::nil());
        let mut request = CallRequest {
            id: EffectId { run, kind: EffectKind::RunCall, ordinal: 1, try_no: 1 },
            call: CallId { run, step: 1, index: 0 },
            tool: tool.to_owned(),
            arguments: serde_json::to_vec(arguments).unwrap().into(),
            evidence: None,
            timeout_ms: None,
            already: 0,
        };
        let (checked, parsed) = check_here(&self.settings, &self.context, &request, &Cancel::default());
        let Some(ParsedCall(Work::Files(call))) = parsed.filter(|_| checked.decision == Policy::Allow) else {
            let why = checked.reason.unwrap_or_default();
            return crate::tool_result::text(CallOutcome::Denied, &why);
        };
        request.evidence = checked.evidence;
        file_call::run(&self.context, &request, &*call, &Cancel::default())
    }

    fn output(&self, tool: &str, arguments: &Value) -> String {
        String::from_utf8(self.call(tool, arguments).output.bytes.to_vec()).unwrap()
    }

    fn search(&self, query: &str) -> String {
        self.output(SEARCH, &json!({ "query": query }))
    }

    /// The places that a search shows.
    fn places(&self, query: &str) -> Vec<String> {
        let shown = self.search(query);
        let is_place =
            |line: &&str| line.rsplit_once(':').is_some_and(|(_, lines)| lines.contains('-') && !lines.contains(' '));
        shown.lines().filter(is_place).map(str::to_owned).collect()
    }
}

#[test]
fn r41_passages_of_the_workspace_and_of_the_user_are_found_the_best_first() {
    let world = World::new();
    world.put("ws/MEMORY.md", "# Ports\nThe port of the database is 5433.\n\n# Tides\nHigh at noon.\n");
    world.put("ws/memory.md", "the port of the database is not this\n");
    world.put(
        "ws/memory/2026-11-28.md",
        "Port, port, port: Ada asked about the port of the database, and then about another port.\n",
    );
    world.put("ws/memory/notes.txt", "port database\n");
    world.put("ws/memory/.hidden.md", "port database\n");
    world.put("own/memory/people.md", "\u{feff}Ada prefers tabs.\n");
    assert_eq!(world.places("database PORT"), ["memory/2026-11-28.md:1-1", "MEMORY.md:1-2"]);
    let shown = world.search("tides");
    assert_eq!(shown, "MEMORY.md:4-5\n# Tides\nHigh at noon.\n\n");
    let people = world.at("own/memory/people.md").display().to_string();
    assert_eq!(world.search("tabs"), format!("{people}:1-1\nAda prefers tabs.\n\n"));
    // A day is found by the name of its file, and words that no passage has all of by some of them.
    assert_eq!(world.places("2026-11-28"), ["memory/2026-11-28.md:1-1"]);
    let partial = world.search("tabs or spaces");
    assert!(partial.starts_with("[no passage has all of these words") && partial.contains("prefers tabs"), "{partial}");
    assert_eq!(world.search("moon"), "no matches\n");
    let one = world.output(SEARCH, &json!({ "query": "port", "limit": 1 }));
    assert!(one.contains("memory/2026-11-28.md") && !one.contains("MEMORY.md"), "{one}");
    // What changed a moment ago, and what is gone.
    world.put("ws/MEMORY.md", "The port is 6000.\n");
    fs::remove_file(world.at("ws/memory/2026-11-28.md")).unwrap();
    assert_eq!(world.search("port"), "MEMORY.md:1-1\nThe port is 6000.\n\n");
}

#[test]
fn r41_a_query_in_chinese_finds_words_of_one_and_two_characters() {
    let world = World::new();
    world.put("ws/MEMORY.md", "# 数据库\n数据库的端口是 5433。\n\n# 潮汐\n中午涨潮。\n");
    for (query, lines) in [("端口", "1-2"), ("潮", "4-5"), ("数据库 端口", "1-2"), ("数据库端口是多少", "1-2")]
    {
        assert_eq!(world.places(query), [format!("MEMORY.md:{lines}")], "{query}");
    }
    assert_eq!(world.search("月亮"), "no matches\n");
}

#[test]
fn r41_what_cannot_be_searched_is_left_out_and_named() {
    let world = World::new();
    world.put("out/secret.md", "the tide\n");
    world.put("ws/notes.md", "a note on the tide\n");
    world.put("ws/memory/good.md", "the tide\n");
    world.put("ws/memory/latin.md", b"the tide \xe4\xf6\xfc\n");
    world.put("own/config.md", "the tide\n");
    symlink(world.at("out/secret.md"), world.at("ws/memory/away.md")).unwrap();
    symlink(world.at("out"), world.at("ws/memory/folder")).unwrap();
    symlink("../notes.md", world.at("ws/memory/near.md")).unwrap();
    symlink(world.at("own/config.md"), world.at("ws/memory/own.md")).unwrap();
    symlink("../config.md", world.at("own/memory/config.md")).unwrap();
    fs::hard_link(world.at("own/config.md"), world.at("ws/memory/alias.md")).unwrap();
    let made = Command::new("mkfifo").arg(world.at("ws/memory/pipe.md")).status();
    assert!(made.unwrap().success());
    let large = fs::File::create(world.at("ws/memory/large.md")).unwrap();
    large.set_len(50 << 20).unwrap();
    world.put("ws/memory/long.md", "the tide\n".to_owned() + &"x\n".repeat(1 << 20) + "unreachable\n");
    let shown = world.search("tide");
    let places = world.places("tide");
    assert_eq!(places.len(), 3, "{shown}");
    for found in ["memory/good.md:1-1", "memory/near.md:1-1", "memory/long.md:1-"] {
        assert!(places.iter().any(|place| place.starts_with(found)), "{found}: {shown}");
    }
    for name in ["away", "folder", "latin", "own", "alias", "pipe", "large", "long"] {
        assert!(shown.contains(&format!("[left out: memory/{name}")), "{name}: {shown}");
    }
    assert!(
        shown.contains(&format!("[left out: {}: it is a link", world.at("own/memory/config.md").display())),
        "{shown}"
    );
    assert_eq!(world.places("unreachable"), [""; 0]);
    assert_eq!(shown.matches("[left out: ").count(), 9, "each is named once: {shown}");
    // Nor does a folder that leads out count.
    fs::remove_dir_all(world.at("ws/memory")).unwrap();
    symlink(world.at("out"), world.at("ws/memory")).unwrap();
    let shown = world.search("tide");
    assert!(shown.starts_with("no matches\n[left out: memory: it is a link"), "{shown}");
}

#[test]
fn r41_rules_of_the_policy_hold_for_each_file_and_secrets_are_masked() {
    let mut world = World::new();
    world.put("ws/memory/open.md", "the tide, s3cret\n");
    world.put("ws/memory/closed.md", "the tide\n");
    let rule = |tool: &str| PolicyRule {
        decision: Policy::Deny,
        origin: String::new(),
        restricts: false,
        grant: None,
        answered: false,
        tools: vec![tool.to_owned()],
        commands: vec![],
        paths: vec!["memory/closed.md".to_owned()],
        hosts: vec![],
    };
    world.settings.policy = [rule(SEARCH), rule(GET)].into();
    world.context.rules = CallRules::of(&world.settings);
    world.context.secrets = Secrets::new(["s3cret"]);
    let shown = world.search("tide");
    assert!(shown.contains("the tide, [secret]") && shown.contains("[left out: memory/closed.md: a rule"), "{shown}");
    assert!(!shown.contains("closed.md:1-1"), "{shown}");
    assert_eq!(world.call(GET, &json!({ "path": "memory/closed.md" })).outcome, CallOutcome::Denied);
    assert_eq!(world.output(GET, &json!({ "path": "memory/open.md" })), "the tide, [secret]\n");
}

#[test]
fn r41_lines_of_a_file_of_memory_are_read_and_no_other_file_is() {
    let world = World::new();
    let lines = "line 1\nline 2\nline 3\nline 4\nline 5\n";
    world.put("ws/memory/notes.md", lines);
    world.put("ws/MEMORY.md", "x".repeat(60_000) + "\nlast");
    world.put("own/MEMORY.md", "mine");
    world.put("ws/README.md", "readme");
    world.put("own/config.toml", "key");
    let get = |arguments: Value| world.output(GET, &arguments);
    assert_eq!(get(json!({ "path": "memory/notes.md" })), lines);
    assert_eq!(
        get(json!({ "path": "./memory/notes.md", "from": 2, "lines": 2 })),
        "line 2\nline 3\n[more lines follow; continue with from=4]\n"
    );
    assert_eq!(get(json!({ "path": world.at("ws/memory/notes.md"), "from": 5 })), "line 5\n");
    assert_eq!(get(json!({ "path": world.at("own/MEMORY.md") })), "mine\n");
    let long = get(json!({ "path": "MEMORY.md" }));
    assert!(long.len() < 52_000 && long.ends_with("x […]\n[more lines follow; continue with from=2]\n"));
    assert_eq!(get(json!({ "path": "MEMORY.md", "from": 2 })), "last\n");
    let past = get(json!({ "path": "memory/notes.md", "from": 6 }));
    assert!(past.contains("past its last line, which is 5"), "{past}");
    let config = world.at("own/config.toml").display().to_string();
    for other in ["README.md", "memory", "../out", "memory/gone.md", &config] {
        let refused = world.call(GET, &json!({ "path": other }));
        let text = String::from_utf8(refused.output.bytes.to_vec()).unwrap();
        assert_eq!(refused.outcome, CallOutcome::Failed, "{other}: {text}");
        let names = format!("MEMORY.md, memory/notes.md, {}", world.at("own/MEMORY.md").display());
        assert!(text.contains("no file of memory") && text.contains(&names), "{other}: {text}");
    }
}

#[test]
fn r41_a_query_needs_a_word() {
    let world = World::new();
    for query in ["-", "\"\"", "* ^ :", "，。"] {
        assert!(world.search(query).contains("there is no word"), "{query}");
    }
    assert!(world.search(&"x".repeat(401)).contains("400 characters"));
    world.put("ws/MEMORY.md", "a \"quoted\" word AND one* NEAR (two)\n");
    for query in ["\"quoted", "AND", "one*", "NEAR (two", "(two)", "word: AND^"] {
        assert_eq!(world.places(query), ["MEMORY.md:1-1"], "{query}");
    }
}

/// An index that answers what a test wants.
#[derive(Debug)]
struct Watched {
    answer: Mutex<Result<FoundPassages, String>>,
    asked: Mutex<Vec<MemorySearch>>,
    words: Mutex<Vec<FileWords>>,
}

impl MemoryIndex for Watched {
    fn search(
        &self,
        search: &MemorySearch,
        words_of: &mut dyn FnMut(usize) -> FileWords,
    ) -> Result<FoundPassages, String> {
        *self.words.lock().unwrap() = (0..search.files.len()).map(words_of).collect();
        self.asked.lock().unwrap().push(search.clone());
        self.answer.lock().unwrap().clone()
    }
}

#[test]
fn r41_an_index_is_asked_with_the_files_that_there_are_and_without_it_the_files_are_searched() {
    let mut world = World::new();
    let answer = Mutex::new(Err("the disk is full".to_owned()));
    let index = Arc::new(Watched { answer, asked: Mutex::default(), words: Mutex::default() });
    world.context.memory.index = Some(Arc::clone(&index) as Arc<dyn MemoryIndex>);
    world.put("ws/memory/a.md", "# Sea\nthe tide\n");
    world.put("own/MEMORY.md", "潮水");
    assert_eq!(world.places("tide"), ["memory/a.md:1-2"], "the index cannot be used");
    let asked = index.asked.lock().unwrap().pop().unwrap();
    let folders = ["ws", "own"].map(|name| world.at(name).display().to_string());
    assert_eq!((asked.folders, asked.most), (folders.to_vec(), PASSAGES_FOUND_DEFAULT));
    let paths = ["ws/memory/a.md", "own/MEMORY.md"].map(|name| world.at(name).display().to_string());
    assert_eq!(asked.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>(), paths);
    let words = ["a\n\n# Sea\nthe tide", "\n\n 潮  水 "].map(|words| FileWords::Passages(vec![words.to_owned()]));
    assert_eq!(*index.words.lock().unwrap(), words);
    // What an index says that is not there any more is left out.
    let hits = [(1, 0), (1, 7), (9, 0)].map(|(file, passage)| PassageHit { file, passage });
    *index.answer.lock().unwrap() = Ok(FoundPassages { hits: hits.to_vec(), is_partial: false });
    assert_eq!(world.places("tide"), [format!("{}:1-1", world.at("own/MEMORY.md").display())]);
}

#[test]
fn r41_a_folder_has_memory_if_one_of_its_files_or_its_folder_is_there() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!has_memory(folder.path()));
    for (name, content) in [("memory", Some("a file")), ("MEMORY.md", Some(""))] {
        fs::write(folder.path().join(name), content.unwrap_or_default()).unwrap();
        assert!(!has_memory(folder.path()), "{name}");
    }
    fs::write(folder.path().join("memory.md"), "x").unwrap();
    assert!(has_memory(folder.path()));
    fs::remove_file(folder.path().join("memory.md")).unwrap();
    fs::remove_file(folder.path().join("memory")).unwrap();
    fs::create_dir(folder.path().join("memory")).unwrap();
    assert!(has_memory(folder.path()));
}
