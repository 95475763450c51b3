//! The check of every request: each call of an assistant message has exactly one result right after it, and each result
//! has its call. Providers refuse all other requests.

use serde_json::Value;

/// Checks that the calls and results of these messages are paired.
///
/// # Errors
/// The index of the first wrong message, and what is wrong with it.
pub(super) fn check(messages: &[Value]) -> Result<(), String> {
    let mut open: Vec<&str> = vec![];
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(place) = open.iter().position(|open| *open == id) else {
                return Err(format!("message {at}: result `{id}` answers no open call"));
            };
            open.remove(place);
            continue;
        }
        if let Some(id) = open.first() {
            return Err(format!("message {at}: call `{id}` has no result before it"));
        }
        open = calls(message).filter_map(|call| call["id"].as_str()).collect();
        if open.len() != calls(message).count() || has_repeated(&open) {
            return Err(format!("message {at}: calls without an id of their own"));
        }
    }
    open.first().map_or(Ok(()), |id| Err(format!("call `{id}` has no result at the end")))
}

/// The calls of a message.
pub(super) fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    message["tool_calls"].as_array().into_iter().flatten()
}

fn has_repeated(ids: &[&str]) -> bool {
    ids.iter().enumerate().any(|(at, id)| ids[..at].contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn user() -> Value {
        json!({ "role": "user", "content": "x" })
    }

    fn asks(ids: &[&str]) -> Value {
        let calls: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
        json!({ "role": "assistant", "tool_calls": calls })
    }

    fn result(id: &str) -> Value {
        json!({ "role": "tool", "tool_call_id": id, "content": "" })
    }

    #[test]
    fn paired_messages_pass() {
        let messages = [user(), asks(&["a", "b"]), result("b"), result("a"), asks(&["a"]), result("a"), user()];
        assert_eq!(check(&messages), Ok(()));
    }

    #[test]
    fn what_does_not_pair_is_named() {
        let table: [(&[Value], &str); 6] = [
            (&[user(), asks(&["a"])], "no result at the end"),
            (&[user(), asks(&["a"]), user()], "no result before it"),
            (&[user(), result("a")], "answers no open call"),
            (&[user(), asks(&["a"]), result("a"), result("a")], "answers no open call"),
            (&[asks(&["a", "b"]), result("a"), asks(&["c"]), result("c")], "no result before it"),
            (&[asks(&["a", "a"]), result("a"), result("a")], "without an id of their own"),
        ];
        for (messages, expected) in table {
            let error = check(messages).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }
}
