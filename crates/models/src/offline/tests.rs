//! The offline model as a table of requests and the resulting calls.

use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::json;

use super::grammar::{Act, acts};
use super::*;
use crate::endpoint::Endpoint;
use crate::model::{AssistantMessage, CallOf};
use crate::rendering::Cached;

fn list(path: &str) -> Act {
    Act::List { path: named(path) }
}
fn look(path: &str) -> Act {
    Act::Look { path: named(path) }
}
fn read(path: &str) -> Act {
    Act::Read { path: path.to_owned(), limit: None }
}
fn search(text: &str, path: &str) -> Act {
    Act::Search { text: text.to_owned(), path: named(path) }
}
fn run(command: &str) -> Act {
    Act::Run { command: command.to_owned() }
}
fn write(content: &str, path: &str) -> Act {
    Act::Write { path: path.to_owned(), content: content.to_owned() }
}
fn named(path: &str) -> Option<String> {
    (!path.is_empty()).then(|| path.to_owned())
}

fn check(table: &[(&str, &[Act])]) {
    for (message, expected) in table {
        assert_eq!(acts(message), *expected, "{message}");
    }
}

#[test]
fn english_requests_become_calls() {
    check(&[
        ("list the files here", &[list("")]),
        ("List the files of this folder: call the tool `ls` with the path \".\".", &[list(""), list(".")]),
        ("List.", &[list("")]),
        ("ls src", &[list("src")]),
        ("Please list all files in the `my docs` folder!", &[list("my docs")]),
        ("could you show me the files in crates/engine?", &[list("crates/engine")]),
        ("show README.md", &[read("README.md")]),
        ("read README.md", &[read("README.md")]),
        ("Read the file Makefile, please.", &[read("Makefile")]),
        ("read a.txt, b.txt and c/d.md", &[read("a.txt"), read("b.txt"), read("c/d.md")]),
        ("read the first 20 lines of notes.txt", &[Act::Read { path: "notes.txt".to_owned(), limit: Some(20) }]),
        ("cat ./x", &[read("./x")]),
        ("I want you to read x.rs", &[read("x.rs")]),
        ("run `echo hi > a` and then read a", &[run("echo hi > a"), read("a")]),
        ("search for TODO", &[search("TODO", "")]),
        ("search for the word TODO in src", &[search("TODO", "src")]),
        ("search src for TODO", &[search("TODO", "src")]),
        ("grep \"fn main\" in src/main.rs", &[search("fn main", "src/main.rs")]),
        ("look for hello world under docs", &[search("hello world", "docs")]),
        ("find `a.b()`", &[search("a.b()", "")]),
        ("search for read", &[search("read", "")]),
        ("run `wc -l *.md`", &[run("wc -l *.md")]),
        ("run the command `ls -la | head` and then list src", &[run("ls -la | head"), list("src")]),
        ("run cargo test --workspace", &[run("cargo test --workspace")]),
        ("execute echo hello; ls", &[run("echo hello"), list("")]),
        ("run sh -c 'echo hi'", &[run("sh -c 'echo hi'")]),
        ("run make and read out.log", &[run("make"), read("out.log")]),
        ("write hello to notes.txt", &[write("hello", "notes.txt")]),
        ("write \"hello, world. Bye\" to a/b.txt", &[write("hello, world. Bye", "a/b.txt")]),
        ("write hello, world to notes.txt", &[write("hello, world", "notes.txt")]),
        ("save `x = 1` as conf.toml", &[write("x = 1", "conf.toml")]),
        ("create a file notes.txt with \"hi\"", &[write("hi", "notes.txt")]),
        ("create notes.txt with the text hi there", &[write("hi there", "notes.txt")]),
        ("write to notes.txt: see you", &[write("see you", "notes.txt")]),
        ("put a letter to mum into post.txt", &[write("letter to mum", "post.txt")]),
    ]);
}

#[test]
fn files_are_found_edited_and_pages_fetched() {
    let edit = |path: &str| Act::Edit { path: path.to_owned(), old: "a b".to_owned(), new: "c".to_owned() };
    let find = |path: &str| Act::Find { pattern: "*.rs".to_owned(), path: named(path) };
    let fetch = |url: &str| Act::Fetch { url: url.to_owned() };
    check(&[
        ("replace \"a b\" with \"c\" in x/y.txt", &[edit("x/y.txt")]),
        ("把 y.txt 里的“a b”替换为“c”", &[edit("y.txt")]),
        ("replace it", &[]),
        ("find *.rs", &[find("")]),
        ("find all *.rs files in src, then list src", &[find("src"), list("src")]),
        ("search for `*.rs`", &[search("*.rs", "")]),
        ("fetch http://site.example/a?b=1.", &[fetch("http://site.example/a?b=1")]),
        ("fetch `https://site.example/and/list` and list src", &[fetch("https://site.example/and/list"), list("src")]),
        ("抓取 http://site.example/ 。", &[fetch("http://site.example/")]),
        ("fetch the ball", &[]),
    ]);
}

#[test]
fn several_requests_in_one_sentence_keep_their_order() {
    check(&[
        (
            "list the files here, then read README.md and search for TODO; run `wc -l *.md`; write hello to notes.txt",
            &[list(""), read("README.md"), search("TODO", ""), run("wc -l *.md"), write("hello", "notes.txt")],
        ),
        (
            "Please write \"a\" to x.txt, read x.txt and then run `rm x.txt`.\nFinally, list everything.",
            &[write("a", "x.txt"), read("x.txt"), run("rm x.txt"), list("")],
        ),
        (
            "列出这里的文件，然后读取README.md并搜索TODO；运行 `wc -l *.md`；把你好写入notes.txt",
            &[list(""), read("README.md"), search("TODO", ""), run("wc -l *.md"), write("你好", "notes.txt")],
        ),
    ]);
}

#[test]
fn chinese_requests_become_calls() {
    check(&[
        ("列出文件", &[list("")]),
        ("请列出 src 目录里的文件。", &[list("src")]),
        ("看看这个文件夹", &[list("")]),
        ("读取 README.md", &[read("README.md")]),
        ("帮我读一下说明.txt", &[read("说明.txt")]),
        ("读README.md和docs/a.md", &[read("README.md"), read("docs/a.md")]),
        ("查看 Cargo.toml 的内容", &[read("Cargo.toml")]),
        ("搜索TODO", &[search("TODO", "")]),
        ("在 src 里搜索 TODO", &[search("TODO", "src")]),
        ("在src中查找“运行 命令”", &[search("运行 命令", "src")]),
        ("搜索中文", &[search("中文", "")]),
        ("找 fn main", &[search("fn main", "")]),
        ("运行命令 `ls -la`", &[run("ls -la")]),
        ("执行 cargo build，然后列出 target", &[run("cargo build"), list("target")]),
        ("跑 make", &[run("make")]),
        ("把“你好，世界。”写入 a.txt", &[write("你好，世界。", "a.txt")]),
        ("将 hello 保存到文件 b.txt", &[write("hello", "b.txt")]),
        ("写入 c.txt：早上好", &[write("早上好", "c.txt")]),
        ("写 hello 到 d.txt", &[write("hello", "d.txt")]),
        ("在 e.txt 中写入 hi", &[write("hi", "e.txt")]),
        ("创建文件 f.txt，内容为 再见", &[write("再见", "f.txt")]),
    ]);
}

#[test]
fn questions_are_parsed_without_a_verb() {
    check(&[
        ("What is in this folder?", &[look("")]),
        ("what's in here", &[look("")]),
        ("What files are in src?", &[look("src")]),
        ("What is this project about?", &[look("")]),
        ("How many files are there in this directory?", &[look("")]),
        ("Tell me about this repository", &[look("")]),
        ("这个文件夹里有什么？", &[look("")]),
        ("这里有哪些文件", &[look("")]),
        ("介绍一下这个项目", &[look("")]),
        ("What does README.md say?", &[read("README.md")]),
        ("show me what is in src", &[look("src")]),
        ("what is in notes.txt?", &[read("notes.txt")]),
        ("what is in docs/internals?", &[look("docs/internals")]),
        ("/etc/hostname is what?", &[read("/etc/hostname")]),
        ("Hi there! Who are you?", &[Act::Introduce]),
        ("Hello! Please list src", &[Act::Introduce, list("src")]),
        ("你好，你是谁？", &[Act::Introduce]),
        ("README.md 里写了什么？", &[read("README.md")]),
        ("who are you", &[Act::Introduce]),
        ("Hello!", &[Act::Introduce]),
        ("你是谁？", &[Act::Introduce]),
        ("你好", &[Act::Introduce]),
        ("sing me a song", &[]),
        ("唱一首歌", &[]),
        ("", &[]),
        ("`", &[]),
        ("run", &[]),
        ("write", &[]),
    ]);
}

/// A request of which it understands a part is not answered as if that were all: the rest may change what is meant.
#[test]
fn r61_a_request_that_is_not_understood_whole_is_not_answered_as_another() {
    for message in [
        "fix the failing test",
        "call Tom",
        "What is the capital of France?",
        "Is it raining in Paris?",
        "How do I run the tests in this project?",
        "how do I run make",
        "Explain how the gateway works in this project",
        "Which files in src use tokio?",
        "Hello, fix the parser in src/a.rs",
        "help me write a poem",
        "write a poem",
        "write a function to reverse a list",
        "create a web server",
        "write hello to notes.txt and delete old.txt",
        "write \"a\" and \"b\" to x.txt",
        "Fix the bug in src/a.rs and run `make`",
        "do not run `rm x`",
        "Don't run make",
        "never read secrets.txt",
        "run the tests",
        "run make and check the output",
        "run `make`, then tell me whether it worked",
        "list prime numbers",
        "list the files with TODO",
        "list the files here sorted by size",
        "read README.md backwards",
        "read a.txt and fix what is wrong in it",
        "show me how to cook",
        "find out why the tests fail",
        "find the bug and fix it",
        "replace \"a\" with \"b\" in x.txt and y.txt",
        "fetch http://site.example/ and send it to Tom",
        "你好，帮我修复错误",
        "运行所有测试",
        "法国的首都是什么？",
        "这个项目里的错误怎么修复？",
        "不要运行 `rm x`",
        "读取 a.txt 并修复错误",
    ] {
        assert_eq!(acts(message), [], "{message}");
    }
}

/// No text causes a panic: every beginning of every sentence above, and unclosed quotation marks.
#[test]
fn any_text_is_parsed() {
    for text in [include_str!("tests.rs"), include_str!("lexicon.rs"), "“「`'\"：；，。？！...((( / 把 将 在 里 到"]
    {
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(7).collect();
        for window in ends.windows(12) {
            acts(&text[window[0]..window[11]]);
        }
        acts(text);
    }
}

fn user(text: &str) -> Message {
    Message::user(text)
}

/// Runs a conversation to its answer with results of tools from a table; returns the calls and the answer.
async fn converse(messages: &mut Vec<Message>, world: &[(&str, &str, &str)]) -> (Vec<String>, String) {
    let mut calls = Vec::new();
    loop {
        let (call, text) = ask(messages).await;
        let Some(call) = call else { return (calls, text) };
        calls.push(format!("{} {}", call.tool, call.arguments));
        let found =
            world.iter().find(|(tool, arguments, _)| *tool == &*call.tool && call.arguments.contains(arguments));
        let (text, is_error) = found.map_or(("no such file", true), |(_, _, text)| (*text, false));
        messages.push(Message::Result {
            provider_id: call.provider_id.clone(),
            tool: call.tool.clone(),
            text: text.into(),
            is_error,
            files: vec![],
        });
        let at = messages.len() - 1;
        messages.insert(at, Message::Assistant(AssistantMessage::plain(None, None, vec![call])));
    }
}

async fn ask(messages: &[Message]) -> (Option<CallOf>, String) {
    let request = Request {
        candidate: engine::Candidate {
            provider: "offline".to_owned(),
            model: "offline".to_owned(),
            profile: None,
            context_window: 1,
            max_output: 1,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        },
        system: Cached::from(Arc::from("prompt")),
        messages: messages.iter().cloned().map(Cached::from).collect(),
        tools: Cached::from(vec![]),
        endpoint: Endpoint::offline(),
        continues: false,
        cache_key: None,
        output_schema: None,
    };
    let events: Vec<ModelEvent> = Offline::new().stream(request).map(Result::unwrap).collect().await;
    assert_eq!(events.first(), Some(&ModelEvent::Opened));
    assert!(
        matches!(events.last(), Some(ModelEvent::Ended { usage, is_counted: false, stop_reason: None }) if usage.input > 0 && usage.output > 0)
    );
    let (mut call, mut text) = (None, String::new());
    for event in &events[1..events.len() - 1] {
        match event {
            ModelEvent::Part(Part::Text(piece)) => text.push_str(piece),
            ModelEvent::Part(Part::Call { index: 0, provider_id: Some(id), name: Some(name), arguments }) => {
                assert!(call.is_none(), "one call a step");
                let (provider_id, tool, arguments) =
                    (id.as_str().into(), name.as_str().into(), arguments.as_str().into());
                call = Some(CallOf { provider_id, tool, arguments });
            }
            other => panic!("{other:?}"),
        }
    }
    (call, text)
}

const LISTING: &str = "README.md  120 bytes\nnotes.txt  5 bytes\nsrc/\n";
const README: &str = "# Tide\n\n[badge]\n\nA small tool for tides.\nIt counts crabs.\n\n## More\n";

#[tokio::test(flavor = "current_thread")]
async fn a_question_about_a_folder_is_answered_from_its_content() {
    let world = [("ls", "{}", LISTING), ("read", "README.md", README)];
    let (calls, answer) = converse(&mut vec![user("What is in this folder?")], &world).await;
    assert_eq!(calls, ["ls {}", r#"read {"limit":40,"path":"README.md"}"#]);
    assert_eq!(
        answer,
        "This folder has 3 entries: 1 folder and 2 files.\nREADME.md, notes.txt, src/\n\n\
         Its README is titled \"Tide\". A small tool for tides. It counts crabs."
    );
    let (calls, answer) = converse(&mut vec![user("这个文件夹里有什么？")], &[("ls", "{}", "a.txt  1 bytes\n")]).await;
    assert_eq!((calls.len(), answer.as_str()), (1, "这个文件夹里有 1 项：0 个文件夹，1 个文件。\na.txt"));
}

#[tokio::test(flavor = "current_thread")]
async fn several_requests_are_one_call_a_step_and_one_answer() {
    let mut messages = vec![user("hello"), Message::Assistant(AssistantMessage::plain(None, Some("…".into()), vec![]))];
    messages.push(user("list src, read gone.txt; search for crab. Run `wc -l x`, then write hi to n.txt"));
    let world = [
        ("ls", "src", "a.rs  10 bytes\n"),
        ("grep", "crab", "src/a.rs:1: // crab\nsrc/a.rs:9: crab\nREADME.md:6: It counts crabs.\n"),
        ("exec", "wc", "3 x\n[exit status 0]\n"),
        ("write", "n.txt", "wrote 2 bytes to n.txt (a new file)\n"),
    ];
    let (calls, answer) = converse(&mut messages, &world).await;
    assert_eq!(calls.len(), 5);
    assert_eq!(calls[4], format!("write {}", json!({ "path": "n.txt", "content": "hi" })));
    for part in [
        "`src` has 1 entry: 0 folders and 1 file.\na.rs",
        "read gone.txt did not work:\n  no such file",
        "\"crab\" has 3 matches in 2 files:\n  src/a.rs:1: // crab",
        "`wc -l x` gave:\n  3 x",
        "Done: wrote 2 bytes to n.txt (a new file)",
    ] {
        assert!(answer.contains(part), "{part}\n---\n{answer}");
    }
    // The ids of the calls differ over the whole conversation.
    let mut ids: Vec<_> = messages
        .iter()
        .filter_map(|m| if let Message::Result { provider_id, .. } = m { Some(provider_id) } else { None })
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test(flavor = "current_thread")]
async fn r32_a_steer_is_another_request_and_a_skipped_call_is_repeated() {
    let mut messages = vec![user("list src")];
    let (call, _) = ask(&messages).await;
    let call = call.unwrap();
    messages.push(Message::Assistant(AssistantMessage::plain(None, None, vec![call.clone()])));
    messages.push(Message::Result {
        provider_id: call.provider_id,
        tool: call.tool,
        text: turn_skipped().into(),
        is_error: true,
        files: vec![],
    });
    messages.push(user("[STEER] read a.txt"));
    let world = [("ls", "src", "b.rs  1 bytes\n"), ("read", "a.txt", "one\ntwo\n")];
    let (calls, answer) = converse(&mut messages, &world).await;
    assert_eq!(calls, [r#"ls {"path":"src"}"#, r#"read {"path":"a.txt"}"#]);
    assert!(answer.contains("b.rs") && answer.contains("a.txt (2 lines read) begins:\n  one\n  two"), "{answer}");
}

fn turn_skipped() -> &'static str {
    "Skipped due to queued user message."
}

#[tokio::test(flavor = "current_thread")]
async fn r12_an_interrupted_answer_continues_where_it_stopped() {
    let mut messages = vec![user("list")];
    let (_, whole) = converse(&mut messages, &[("ls", "{}", LISTING)]).await;
    let (kept, rest) = whole.split_at(20);
    messages.push(Message::Assistant(AssistantMessage::plain(None, Some(kept.into()), vec![])));
    messages.push(user("The answer was cut off. Go on exactly where it stopped."));
    assert_eq!(ask(&messages).await.1, rest);
}

#[tokio::test(flavor = "current_thread")]
async fn it_introduces_itself_first() {
    let first = "I am Limulus' built-in offline model";
    assert!(ask(&[user("Who are you?")]).await.1.starts_with(first));
    let lost = ask(&[user("sing me a song")]).await.1;
    assert!(lost.starts_with(first) && lost.lines().filter(|line| line.starts_with("- ")).count() == 3, "{lost}");
    assert!(ask(&[user("你是谁？")]).await.1.starts_with("我是 Limulus 内置的离线模型"));
}

#[tokio::test(flavor = "current_thread")]
async fn every_example_is_parsed() {
    for question in ["sing", "唱歌"] {
        let answer = ask(&[user(question)]).await.1;
        for example in answer.lines().filter_map(|line| line.strip_prefix("- ")) {
            assert!(!acts(example).is_empty(), "{example}");
        }
    }
}

#[test]
fn the_pieces_of_an_answer_add_up_to_it() {
    for text in [
        "",
        "short",
        "one two three four five six seven",
        "列出这个文件夹里的所有文件，然后读取说明。",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        let all: Vec<&str> = pieces(text).collect();
        assert_eq!(all.concat(), text);
        assert!(all.iter().all(|piece| !piece.is_empty()));
    }
    assert!(pieces("one two three four five six seven").count() > 1);
}

#[tokio::test(flavor = "current_thread")]
async fn a_note_requests_nothing_and_can_stop_and_continue_an_answer() {
    let note = |text: &str| user(&format!("Note from limulus: {text}"));
    let mut messages = vec![user("write \"a\" to a.txt, then write \"b\" to b.txt")];
    let (call, _) = ask(&messages).await;
    let call = call.expect("the first call");
    let result = Message::Result {
        provider_id: call.provider_id.clone(),
        tool: call.tool.clone(),
        text: "wrote 1 bytes to a.txt (a new file)".into(),
        is_error: false,
        files: vec![],
    };
    messages.extend([Message::Assistant(AssistantMessage::plain(None, None, vec![call])), result]);
    messages.push(note("write.rs and ls are not what you think of. Come to an end."));
    assert_eq!(ask(&messages).await.0.map(|call| call.arguments), Some(r#"{"content":"b","path":"b.txt"}"#.into()));
    messages.push(note("what this run may spend is used up. Call no tools."));
    let (call, answer) = ask(&messages).await;
    assert!(call.is_none() && answer.contains("a.txt") && answer.ends_with("nothing more may be spent."), "{answer}");
    messages.extend([
        Message::Assistant(AssistantMessage::plain(Some(answer.into()), None, vec![])),
        note("Go on where you stopped."),
    ]);
    assert_eq!(ask(&messages).await.0.map(|call| call.arguments), Some(r#"{"content":"b","path":"b.txt"}"#.into()));
}
