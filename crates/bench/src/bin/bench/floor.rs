//! The floor of W1: the same rounds as a loop in one thread, which keeps each round as one line of a file and syncs it
//! once. Whatever is durable and asks the same server takes at least this.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::Problem;
use super::bare::Bare;

/// Runs one session to its end. It lists this folder in each round and keeps its file there.
pub(super) fn run(folder: &Path, base_url: &str, text: &str) -> Result<(), Problem> {
    let mut client = Bare::connect(base_url)?;
    let mut file = File::create(folder.join("rounds.jsonl"))?;
    let mut messages = vec![json!({ "role": "user", "content": text })];
    loop {
        let request = json!({ "model": "wire", "stream": true, "messages": messages });
        let answer = client.post(request.to_string().as_bytes())?;
        let call = call_of(&answer)?;
        let mut round = vec![];
        if let Some(call) = &call {
            let names: Vec<String> = fs::read_dir(folder)?
                .map(|e| Ok(e?.file_name().to_string_lossy().into_owned()))
                .collect::<Result<_, Problem>>()?;
            round.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
            round.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": names.join("\n") }));
        }
        writeln!(file, "{}", Value::from(round.clone()))?;
        file.sync_data()?;
        if call.is_none() {
            return Ok(());
        }
        messages.extend(round);
    }
}

/// The call of an answer, put together from its pieces; none in the last round.
fn call_of(answer: &[u8]) -> Result<Option<Value>, Problem> {
    let text = std::str::from_utf8(answer)?;
    let (mut id, mut name, mut arguments) = (String::new(), String::new(), String::new());
    for line in text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|line| *line != "[DONE]") {
        let piece: Value = serde_json::from_str(line)?;
        let call = &piece["choices"][0]["delta"]["tool_calls"][0];
        let add = |to: &mut String, value: &Value| to.push_str(value.as_str().unwrap_or_default());
        add(&mut id, &call["id"]);
        add(&mut name, &call["function"]["name"]);
        add(&mut arguments, &call["function"]["arguments"]);
    }
    if id.is_empty() {
        return Ok(None);
    }
    Ok(Some(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })))
}
