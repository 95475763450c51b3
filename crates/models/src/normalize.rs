//! What providers ask of a conversation whatever their format: ids and names of few characters, arguments that are an
//! object, turns that alternate. What may not live here: how any API writes it.

use std::collections::HashSet;
use std::sync::Arc;

use engine::{Candidate, Hash};
use serde_json::{Map, Value};

use crate::model::{AssistantMessage, BlockContent, ContentBlock, Message};
use crate::rendering::Cached;

/// The least of the providers' limits on an id: that of OpenAI's chat completions.
const ID_CHARS: usize = 40;

/// The least of the providers' limits on the name of a tool.
const NAME_CHARS: usize = 64;

/// ModelEvent where a conversation would begin or end with the model.
pub(crate) const GO_ON: &str = "Go on.";

/// The model of a candidate, as [`AssistantMessage::model`] names it.
pub(crate) fn model_of(candidate: &Candidate) -> String {
    format!("{}/{}", candidate.provider, candidate.model)
}

/// For each message how often the ids of its answer were there before: 0, or the answer's place in the conversation. Some
/// providers begin anew with each answer, and the strict ones want every id of a request to be another.
pub(crate) fn repeats(messages: &[Cached<Message>]) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut repeat = 0;
    let of = |(at, message): (usize, &'_ Cached<Message>)| {
        if let Message::Assistant(answer) = &**message {
            let ids: Vec<Arc<str>> = answer.calls().map(|call| Arc::clone(&call.provider_id)).collect();
            repeat = if ids.iter().any(|id| seen.contains(id)) { at } else { 0 };
            seen.extend(ids);
        }
        repeat
    };
    messages.iter().enumerate().map(of).collect()
}

/// An id of letters, digits, `_` and `-`: as it is, or one that stands for it and is another for each id and repeat.
pub(crate) fn id(id: &str, repeat: usize) -> String {
    if repeat == 0 && !id.is_empty() && id.len() <= ID_CHARS && id.chars().all(is_plain) {
        return id.to_owned();
    }
    let mut hash = Hash::of(format!("{repeat} {id}").as_bytes()).to_string();
    hash.truncate(16);
    format!("call_{hash}")
}

/// A tool's name of letters, digits, `_` and `-`. A model may have asked for a tool that there is not.
pub(crate) fn tool_name(name: &str) -> String {
    let name: String = name.chars().take(NAME_CHARS).map(|c| if is_plain(c) { c } else { '_' }).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The arguments of a call as the model wrote them, or an empty object: others (the model broke off, or broke the format)
/// would make a provider refuse the whole conversation for ever. The result that follows says what was wrong.
pub(crate) fn arguments(arguments: &str) -> &str {
    let is_object = serde_json::from_str::<Map<String, Value>>(arguments).is_ok();
    if is_object { arguments } else { "{}" }
}

/// The blocks of an answer up to the last one that says something: reasoning alone is no answer.
pub(crate) fn said(answer: &AssistantMessage) -> &[ContentBlock] {
    let says = |held: &BlockContent| match held {
        BlockContent::Text(text) => !text.trim().is_empty(),
        BlockContent::Reasoning(_) => false,
        BlockContent::Call(_) | BlockContent::Image(_) => true,
    };
    let end = answer.blocks.iter().rposition(|block| says(&block.held)).map_or(0, |last| last + 1);
    &answer.blocks[..end]
}

/// Messages of one side with nothing of the other between them, each rendered as items of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn<'a> {
    /// It is the model's.
    pub(crate) is_models: bool,
    /// Results come first: providers want them right behind their calls.
    results: Vec<&'a [u8]>,
    others: Vec<&'a [u8]>,
}

impl<'a> Turn<'a> {
    fn of(is_models: bool) -> Self {
        Self { is_models, results: vec![], others: vec![] }
    }

    /// The items in order, none of them empty.
    pub(crate) fn items(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.results.iter().chain(&self.others).copied()
    }
}

/// A conversation as turns that alternate, and begin and end with the user's. Messages without items are left out;
/// `go_on` stands for a user's turn that is missing.
pub(crate) fn turns<'a>(messages: &[Cached<Message>], rendered: &'a [Arc<[u8]>], go_on: &'a [u8]) -> Vec<Turn<'a>> {
    let mut turns = vec![Turn::of(false)];
    for (message, items) in messages.iter().zip(rendered).filter(|(_, items)| !items.is_empty()) {
        let is_models = matches!(&**message, Message::Assistant(_));
        if turns.last().is_none_or(|turn| turn.is_models != is_models) {
            turns.push(Turn::of(is_models));
        }
        let turn = turns.last_mut().expect("one was added");
        let part = if matches!(&**message, Message::Result { .. }) { &mut turn.results } else { &mut turn.others };
        part.push(items);
    }
    if turns.last().is_some_and(|turn| turn.is_models) {
        turns.push(Turn::of(false));
    }
    for turn in turns.iter_mut().filter(|turn| turn.items().next().is_none()) {
        turn.others.push(go_on);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CallOf;

    fn result(id: &str) -> Message {
        Message::Result { provider_id: id.into(), tool: "ls".into(), text: "".into(), is_error: false, files: vec![] }
    }

    fn asking(ids: &[&str]) -> Message {
        let call = |id: &&str| CallOf { provider_id: (*id).into(), tool: "ls".into(), arguments: "{}".into() };
        Message::Assistant(AssistantMessage::plain(None, None, ids.iter().map(call).collect()))
    }

    fn cached<const N: usize>(messages: [Message; N]) -> Vec<Cached<Message>> {
        messages.into_iter().map(Cached::from).collect()
    }

    #[test]
    fn r41_turns_alternate_and_the_user_has_the_first_and_the_last() {
        let answer = Message::Assistant(AssistantMessage::plain(None, Some("".into()), vec![]));
        let messages =
            cached([answer, asking(&["a"]), Message::user("steer"), result("a"), Message::user(""), asking(&[])]);
        let rendered = ["", "call", "steer", "result", "", "text"].map(|items| Arc::from(items.as_bytes()));
        let turns = turns(&messages, &rendered, b"go on");
        let shown = |turn: &Turn<'_>| {
            let items: Vec<_> = turn.items().map(|items| String::from_utf8_lossy(items).into_owned()).collect();
            (turn.is_models, items.join(" "))
        };
        let shown: Vec<_> = turns.iter().map(shown).collect();
        let expected = [(false, "go on"), (true, "call"), (false, "result steer"), (true, "text"), (false, "go on")];
        assert_eq!(shown, expected.map(|(is_models, items)| (is_models, items.to_owned())));
    }

    #[test]
    fn r41_an_id_is_kept_where_it_can_be_and_is_another_for_each_call() {
        assert_eq!(id("toolu_01-A", 0), "toolu_01-A");
        let long = "a".repeat(65);
        let ids = ["", "functions.ls:0", "functions ls:0", "functions.ls:1", &long];
        let made: HashSet<String> = ids.iter().flat_map(|known| [id(known, 0), id(known, 7)]).collect();
        assert_eq!(made.len(), 10);
        assert!(made.iter().all(|id| id.len() <= ID_CHARS && id.chars().all(is_plain)));
        assert_eq!((tool_name("a b.c"), tool_name("")), ("a_b_c".to_owned(), "unnamed".to_owned()));
    }

    #[test]
    fn r41_ids_that_come_again_are_told_apart_by_their_answer() {
        let messages = cached([
            asking(&["a", "b"]),
            result("a"),
            result("b"),
            asking(&["c", "a"]),
            result("c"),
            result("a"),
            asking(&["d"]),
        ]);
        assert_eq!(repeats(&messages), [0, 0, 0, 3, 3, 3, 0]);
    }

    #[test]
    fn r41_arguments_that_are_no_object_are_an_empty_one() {
        let kept = r#" {"b":1.0,"a":"潮"} "#;
        assert_eq!(arguments(kept), kept);
        for broken in ["", "[]", "\"a\"", r#"{"a"#, r#"{"a":1} x"#, r#"{"a":"\ud800"}"#, "null"] {
            assert_eq!(arguments(broken), "{}", "{broken}");
        }
    }
}
