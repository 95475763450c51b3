//! Files of memory: which runs have the tools for them, and what these find.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Asked, Does, Home, Planned, STREAM, whole};

/// An answer that calls a tool.
fn calls(number: usize, (tool, arguments): (&str, &Value)) -> String {
    let call = json!({ "index": 0, "id": format!("call_{number}"), "type": "function",
                       "function": { "name": tool, "arguments": arguments.to_string() } });
    let frame = json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "tool_calls": [call] } }] });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] });
    format!("{STREAM}data: {frame}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

/// What a message asks the model to do: `TOOL {arguments}`. None if the last message is no message of the user.
fn wanted(asked: &Asked) -> Option<(String, Value)> {
    let last = asked.body["messages"].as_array()?.last()?;
    let text = last["content"].as_str().filter(|_| last["role"] == "user")?;
    let (tool, arguments) = text.split_once(' ')?;
    Some((tool.to_owned(), serde_json::from_str(arguments).ok()?))
}

/// A model that does what each message says.
fn obedient() -> Planned {
    Planned::start(|number, asked| match wanted(asked) {
        Some((tool, arguments)) => Does::Answer(calls(number, (&tool, &arguments))),
        None => Does::Answer(whole(&["done"])),
    })
}

/// The names of the tools of the latest request.
fn tools(server: &Planned) -> Vec<String> {
    let seen = server.seen();
    let tools = seen.last().and_then(|asked| asked.body["tools"].as_array()).expect("a request with tools");
    tools.iter().map(|tool| tool["function"]["name"].as_str().expect("a name").to_owned()).collect()
}

/// Runs a message in a new session, and returns what the model received as the result of its call.
fn result(home: &Home, server: &Planned, session: &str, tool: &str, arguments: &Value) -> String {
    home.run(&["agent", "--session", session, "-m", &format!("{tool} {arguments}")]).expect_code(0);
    let seen = server.seen();
    let last = seen.last().and_then(|asked| asked.body["messages"].as_array()?.last()).expect("a message");
    assert_eq!(last["role"], "tool", "{last}");
    last["content"].as_str().expect("a text").to_owned()
}

/// R41: what one session writes down another one finds, without an index too; a run where there is no memory has no tools for it.
#[test]
pub(crate) fn r41_what_a_session_wrote_down_is_found_by_the_next() {
    let server = obedient();
    let home = Home::new().served_at(&server.base_url);
    let notes = json!({ "path": "memory/NOTES.md", "content": "# Tides\nHigh at noon.\n\n# 数据库\n端口是 5433。\n" });
    result(&home, &server, "one", "write", &notes);
    assert!(tools(&server).iter().all(|tool| !tool.starts_with("memory")), "{:?}", tools(&server));
    let search =
        |session: &str, query: &str| result(&home, &server, session, "memory_search", &json!({ "query": query }));
    assert_eq!(search("two", "tides").trim(), "memory/NOTES.md:1-2\n# Tides\nHigh at noon.");
    assert!(tools(&server).ends_with(&["memory_search".to_owned(), "memory_get".to_owned()]), "{:?}", tools(&server));
    assert!(home.path().join("search.db").is_file());
    assert_eq!(search("three", "端口").trim(), "memory/NOTES.md:4-5\n# 数据库\n端口是 5433。");
    // What the user keeps for all folders; a changed file and one that is gone.
    fs::create_dir_all(home.path().join("memory")).unwrap();
    fs::write(home.path().join("memory/people.md"), "Ada prefers tabs.").unwrap();
    home.put("memory/NOTES.md", "The tide is low.\n");
    let people = home.path().canonicalize().unwrap().join("memory/people.md");
    let people = people.to_str().unwrap();
    assert_eq!(search("four", "preferred").trim(), format!("{people}:1-1\nAda prefers tabs."));
    assert!(search("five", "noon").contains("no matches"));
    let get = |session: &str, path: &str| result(&home, &server, session, "memory_get", &json!({ "path": path }));
    assert_eq!(get("six", people).trim(), "Ada prefers tabs.");
    let refused = get("seven", home.path().join("config.toml").to_str().unwrap());
    assert!(refused.contains("no file of memory") && refused.contains("memory/NOTES.md"), "{refused}");
    // An index that is corrupt, and one that cannot be made.
    let index = home.path().join("search.db");
    fs::write(&index, "no database at all".repeat(1000)).unwrap();
    assert!(search("eight", "low tide").contains("The tide is low."));
    fs::remove_file(&index).unwrap();
    fs::create_dir_all(index.join("in the way")).unwrap();
    assert!(search("nine", "low tide").contains("The tide is low."));
    // Where bootstrap files are not read, there is no memory either.
    let home = home.with("LIMULUS_AGENTS__MAIN__INSTRUCTIONS", "false");
    home.run(&["agent", "--session", "ten", "-m", "go"]).expect_code(0);
    assert!(tools(&server).iter().all(|tool| !tool.starts_with("memory")), "{:?}", tools(&server));
}
