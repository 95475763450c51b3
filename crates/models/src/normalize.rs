//! The requirements of all providers on a conversation, whatever their format: ids and names in a small character set,
//! arguments that are objects, and alternating turns.

use std::collections::HashSet;
use std::ops::Deref as _;
use std::sync::Arc;

use engine::{Candidate, Hash};
use serde_json::{Map, Value};

use crate::model::{AssistantMessage, BlockContent, ContentBlock, Message};
use crate::rendering::Cached;

/// The maximum length of an id: the smallest limit of all providers, which is that of OpenAI's chat completions.
const ID_CHARS: usize = 40;

/// The maximum length of a tool's name: the smallest limit of all providers.
const NAME_CHARS: usize = 64;

/// The user's message if the conversation would otherwise begin or end with the model.
pub(crate) const GO_ON: &str = "Go on.";

/// The model of a candidate, as [`AssistantMessage::model`] names it.
pub(crate) fn model_of(candidate: &Candidate) -> String {
    format!("{}/{}", candidate.provider, candidate.model)
}

/// For each message, the number that makes the ids of its answer unique: 0, or the index of the answer in the
/// conversation if an earlier answer has one of its ids. Some providers reuse ids in each answer; strict ones refuse
/// repeated ids.
pub(crate) fn repeats(messages: &[Cached<Message>]) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut repeat = 0;
    let of = |(at, message)| {
        if let Message::Assistant(answer) = Cached::deref(message) {
            let ids: Vec<&str> = answer.calls().map(|call| &*call.provider_id).collect();
            repeat = if is_repeat(&ids, &mut seen) { at } else { 0 };
        }
        repeat
    };
    messages.iter().enumerate().map(of).collect()
}

/// Whether an answer has one of these ids, which then has those of this one too.
fn is_repeat<'a>(ids: &[&'a str], seen: &mut HashSet<&'a str>) -> bool {
    let is_repeat = ids.iter().any(|id| seen.contains(id));
    seen.extend(ids);
    is_repeat
}

/// How many ids of the calls of these answers a request has others for, because a provider would refuse them or they are not
/// the only ones.
pub fn replaced_ids(answers: &[Vec<&str>]) -> usize {
    let (mut seen, mut replaced) = (HashSet::new(), 0);
    for ids in answers {
        // The number only keeps answers apart.
        let repeat = usize::from(is_repeat(ids, &mut seen));
        replaced += ids.iter().filter(|one| id(one, repeat) != **one).count();
    }
    replaced
}

/// An id of letters, digits, `_` and `-`: the id itself if it qualifies, else a hash that differs for each id and
/// repeat.
pub(crate) fn id(id: &str, repeat: usize) -> String {
    if repeat == 0 && !id.is_empty() && id.len() <= ID_CHARS && id.chars().all(is_plain) {
        return id.to_owned();
    }
    let mut hash = Hash::of(format!("{repeat} {id}").as_bytes()).to_string();
    hash.truncate(16);
    format!("call_{hash}")
}

/// A tool's name in letters, digits, `_` and `-`. The model may have called a tool that does not exist.
pub(crate) fn tool_name(name: &str) -> String {
    let name: String = name.chars().take(NAME_CHARS).map(|c| if is_plain(c) { c } else { '_' }).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The arguments of a call unchanged, or an empty object if they are invalid (the model stopped early or violated the
/// format): a provider would refuse the whole conversation forever. The result after the call says what was wrong.
pub(crate) fn arguments(arguments: &str) -> &str {
    let is_object = serde_json::from_str::<Map<String, Value>>(arguments).is_ok();
    if is_object { arguments } else { "{}" }
}

/// The blocks of an answer up to the last one with content: reasoning alone is not an answer.
pub(crate) fn said(answer: &AssistantMessage) -> &[ContentBlock] {
    let says = |held: &BlockContent| match held {
        BlockContent::Text(text) => !text.trim().is_empty(),
        BlockContent::Reasoning(_) => false,
        BlockContent::Call(_) | BlockContent::Image(_) => true,
    };
    let end = answer.blocks.iter().rposition(|block| says(&block.held)).map_or(0, |last| last + 1);
    &answer.blocks[..end]
}

/// Consecutive messages of the user or of the model, each rendered as items of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn<'a> {
    /// Whether it is the model's turn.
    pub(crate) is_models: bool,
    /// Results come first, because providers require them right after their calls.
    results: Vec<&'a [u8]>,
    others: Vec<&'a [u8]>,
}

impl<'a> Turn<'a> {
    fn of(is_models: bool) -> Self {
        Self { is_models, results: vec![], others: vec![] }
    }

    /// The non-empty items in order.
    pub(crate) fn items(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.results.iter().chain(&self.others).copied()
    }
}

/// A conversation as alternating turns; the user has the first and the last. Messages without items are left out, and
/// `go_on` replaces a missing turn of the user.
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
    fn r41_a_valid_id_is_kept_and_other_ids_are_unique_for_each_call() {
        assert_eq!(id("toolu_01-A", 0), "toolu_01-A");
        let long = "a".repeat(65);
        let ids = ["", "functions.ls:0", "functions ls:0", "functions.ls:1", &long];
        let made: HashSet<String> = ids.iter().flat_map(|known| [id(known, 0), id(known, 7)]).collect();
        assert_eq!(made.len(), 10);
        assert!(made.iter().all(|id| id.len() <= ID_CHARS && id.chars().all(is_plain)));
        assert_eq!((tool_name("a b.c"), tool_name("")), ("a_b_c".to_owned(), "unnamed".to_owned()));
    }

    #[test]
    fn r41_repeated_ids_are_distinguished_by_their_answer() {
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
        let answers = [vec!["a", "b"], vec!["c", "a"], vec![], vec!["d", "functions.ls:0"]];
        assert_eq!(replaced_ids(&answers), 3, "both of the answer that repeats one, and one with other signs");
        assert_eq!(replaced_ids(&answers[..1]), 0);
    }

    #[test]
    fn r41_arguments_that_are_no_object_become_an_empty_one() {
        let kept = r#" {"b":1.0,"a":"潮"} "#;
        assert_eq!(arguments(kept), kept);
        for broken in ["", "[]", "\"a\"", r#"{"a"#, r#"{"a":1} x"#, r#"{"a":"\ud800"}"#, "null"] {
            assert_eq!(arguments(broken), "{}", "{broken}");
        }
    }
}
