//! A catalogue in the format of Fluent. Each message has its English text as the attribute `en`. A placeable in it, such as
//! `{ $key }`, stands for what differs. Its name says what it may be: `text…` is itself translated, `list…` item by item, and `n` or
//! `n-…` is a number; `run`, `id`, `pid` and `branch` are one word.

use std::cmp::Reverse;
use std::collections::HashMap;

use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement};

/// The depth of texts in texts.
const DEPTH: u32 = 6;

/// What may stand before a text on its line.
const MARKS: [char; 12] = ['✗', '✓', '!', '·', '…', '■', '↻', '?', '*', '→', '●', '↪'];

/// What stands before a line of others: of a file, a command, a tool.
const OF_OTHERS: char = '│';

/// What separates the items of a list, in English and in Chinese.
const SEPARATORS: (&str, &str) = (", ", "、");

/// The name of a placeable that is the rest of a line.
const REST: &str = "text";

/// What to print for which English text.
pub(crate) struct Catalogue {
    /// Those without placeables.
    whole: HashMap<String, String>,
    /// The most precise ones come first, so that a general one hides no other.
    with_values: Vec<Message>,
}

/// A message with placeables.
struct Message {
    english: Vec<Piece>,
    translated: Vec<Piece>,
}

impl Message {
    /// Beginnings of lines, then messages that begin with words of their own, then those with more of them.
    fn precision(&self) -> (bool, bool, usize) {
        let begins = matches!(self.english.first(), Some(Piece::Literal(_)));
        (self.is_beginning(), begins, own_length(&self.english))
    }

    /// Whether it is the beginning of a line, such as `error: { $text }`, whose rest is a text of its own.
    fn is_beginning(&self) -> bool {
        matches!(&self.english[..], [Piece::Literal(own), Piece::Value(name)] if own.ends_with(": ") && name == REST)
    }
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Value(String),
}

impl Catalogue {
    /// Reads it. It is part of the program: a test says that it can be read as a whole.
    pub(super) fn parse(text: &str) -> Self {
        let resource = fluent_syntax::parser::parse(text).unwrap_or_else(|(resource, _)| resource);
        let mut catalogue = Self { whole: HashMap::new(), with_values: vec![] };
        for entry in resource.body {
            let Entry::Message(message) = entry else { continue };
            let english = message.attributes.iter().find(|attribute| attribute.id.name == "en");
            let (Some(english), Some(translated)) = (english, message.value) else { continue };
            let (english, translated) = (pieces(&english.value), pieces(&translated));
            match (&english[..], &translated[..]) {
                ([Piece::Literal(english)], [Piece::Literal(translated)]) => {
                    catalogue.whole.insert(english.clone(), translated.clone());
                }
                _ => catalogue.with_values.push(Message { english, translated }),
            }
        }
        catalogue.with_values.sort_by_key(|message| Reverse(message.precision()));
        catalogue
    }

    /// The translation of a text, if it has one.
    pub(super) fn translated(&self, text: &str) -> Option<String> {
        self.within(text, DEPTH)
    }

    /// A text with each line translated that has a translation. The blanks around it and the mark before it stay.
    pub(super) fn lines(&self, text: &str) -> String {
        let line = |line: &str| {
            let body = line.trim_matches(' ');
            let (indent, blanks) = line.split_once(body).unwrap_or_default();
            let marked = || {
                let (mark, rest) = body.split_once(' ')?;
                let is_mark = mark.parse().is_ok_and(|mark: char| MARKS.contains(&mark));
                let translated = self.translated(rest).filter(|_| is_mark)?;
                Some(format!("{mark} {translated}"))
            };
            if body.starts_with(OF_OTHERS) {
                return line.to_owned();
            }
            // The whole line first: a general text may fit what stands behind its mark.
            let translated = self.translated(body).or_else(marked);
            translated.map_or_else(|| line.to_owned(), |translated| format!("{indent}{translated}{blanks}"))
        };
        text.split('\n').map(line).collect::<Vec<_>>().join("\n")
    }

    fn within(&self, text: &str, depth: u32) -> Option<String> {
        if text.is_empty() || depth == 0 {
            return None;
        }
        if let Some(translated) = self.whole.get(text) {
            return Some(translated.clone());
        }
        self.with_values.iter().find_map(|message| {
            let values = values(&message.english, text)?;
            let piece = |piece: &Piece| match piece {
                Piece::Literal(literal) => literal.clone(),
                Piece::Value(name) => {
                    let value = values.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value);
                    let text = |text: &str| self.within(text, depth - 1).unwrap_or_else(|| text.to_owned());
                    match name {
                        name if name.starts_with("text") => text(value),
                        name if name.starts_with("list") => {
                            value.split(SEPARATORS.0).map(text).collect::<Vec<_>>().join(SEPARATORS.1)
                        }
                        _ => value.to_owned(),
                    }
                }
            };
            Some(message.translated.iter().map(piece).collect())
        })
    }
}

/// The values of the placeables, if the text is this message: each as short as it can be, and the last one the rest.
fn values<'a>(english: &'a [Piece], text: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    let mut values = vec![];
    let mut rest = text;
    let mut open: Option<&str> = None;
    for (at, piece) in english.iter().enumerate() {
        match piece {
            Piece::Value(name) => open = Some(name),
            Piece::Literal(literal) => {
                let is_last = at + 1 == english.len();
                let found = match open {
                    None => rest.starts_with(literal.as_str()).then_some(0)?,
                    Some(_) if is_last => rest.strip_suffix(literal.as_str())?.len(),
                    Some(_) => rest.find(literal.as_str())?,
                };
                if let Some(name) = open.take() {
                    values.push((name, &rest[..found]));
                }
                rest = &rest[found + literal.len()..];
            }
        }
    }
    if let Some(name) = open {
        values.push((name, rest));
        rest = "";
    }
    let fits = |(name, value): &(&str, &str)| {
        !value.is_empty() && (!is_number(name) || is_figure(value)) && (!is_id(name) || !value.contains(' '))
    };
    (rest.is_empty() && values.iter().all(fits)).then_some(values)
}

/// Whether a placeable of this name stands for a number only.
fn is_number(name: &str) -> bool {
    name == "n" || name.starts_with("n-")
}

/// Whether a placeable of this name stands for an id, which is one word.
fn is_id(name: &str) -> bool {
    matches!(name, "run" | "id" | "pid" | "branch")
}

fn is_figure(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit() || b".,kM".contains(&byte))
}

/// The bytes that are in every text of a message.
fn own_length(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| if let Piece::Literal(text) = piece { text.len() } else { 0 }).sum()
}

fn pieces(pattern: &Pattern<&str>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = vec![];
    for element in &pattern.elements {
        let piece = match element {
            PatternElement::TextElement { value } => Piece::Literal((*value).to_owned()),
            PatternElement::Placeable { expression: Expression::Inline(inline) } => match inline {
                InlineExpression::VariableReference { id } => Piece::Value(id.name.to_owned()),
                InlineExpression::StringLiteral { value } => Piece::Literal((*value).to_owned()),
                _ => continue,
            },
            PatternElement::Placeable { .. } => continue,
        };
        match (pieces.last_mut(), &piece) {
            (Some(Piece::Literal(before)), Piece::Literal(literal)) => before.push_str(literal),
            _ => pieces.push(piece),
        }
    }
    pieces
}

/// The English texts of a catalogue, with a mark in the place of each value.
#[cfg(test)]
pub(super) fn english_texts(text: &str) -> Vec<String> {
    let resource = fluent_syntax::parser::parse(text).expect("a test reads it");
    let messages = resource.body.iter().filter_map(|entry| match entry {
        Entry::Message(message) => message.attributes.first(),
        _ => None,
    });
    let marked = |piece: Piece| if let Piece::Literal(text) = piece { text } else { "\u{1}".to_owned() };
    messages.map(|english| pieces(&english.value).into_iter().map(marked).collect()).collect()
}

#[cfg(test)]
impl Catalogue {
    /// The English text of a message with a sample of each value, and what it should become.
    pub(super) fn sample(message: &fluent_syntax::ast::Message<&str>) -> (String, String) {
        let value = |piece: Piece| match piece {
            Piece::Literal(text) => text,
            Piece::Value(name) if is_number(&name) => "4711".to_owned(),
            Piece::Value(name) => format!("<{name}>"),
        };
        let text = |pattern: &Pattern<&str>| pieces(pattern).into_iter().map(value).collect::<String>();
        let english = message.attributes.first().map(|attribute| text(&attribute.value));
        (english.unwrap_or_default(), message.value.as_ref().map(text).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::language::CHINESE;

    const SAMPLE: &str = "\
a = 没有会话 { $key }
    .en = there is no session { $key }
b = 错误：{ $text }
    .en = error: { $text }
c = 完成
    .en = done
d = { $to } ← { $from }
    .en = from { $from } to { $to }.
e = { $text }，{ $list }
    .en = { $text }, with { $list }
f = { $n } 条消息
    .en = { $n } messages
g = 找到 { $text }
    .en = found { $text }
h = 找到三条 { $what }
    .en = found three { $what }s
i = { $text } 没有改动
    .en = { $text } was not changed
j = { $what } 很长，没有改动
    .en = { $what } is long and was not changed
k = 等 { $text }
    .en = waits for { $text }
";

    #[test]
    fn r61_a_text_is_translated_with_its_values() {
        let catalogue = Catalogue::parse(SAMPLE);
        for (english, translated) in [
            ("there is no session x y", Some("没有会话 x y")),
            ("error: there is no session done", Some("错误：没有会话 done")),
            ("error: unknown", Some("错误：unknown")),
            ("error: error: done", Some("错误：错误：完成")),
            ("done", Some("完成")),
            ("from a to b to c.", Some("b to c ← a")),
            ("done, with 3 messages, done, x", Some("完成，3 条消息、完成、x")),
            ("1.2k messages", Some("1.2k 条消息")),
            ("many messages", None),
            ("found three fishes", Some("找到三条 fishe")),
            ("error: it was not changed", Some("错误：it 没有改动")),
            ("waits for it, which is long and was not changed", Some("等 it, which 很长，没有改动")),
            ("found two fishes", Some("找到 two fishes")),
            ("from a to b", None),
            ("from  to b.", None),
            ("there is no session ", None),
            ("there is one", None),
            ("Done", None),
            ("", None),
        ] {
            assert_eq!(catalogue.translated(english).as_deref(), translated, "{english:?}");
        }
        assert_eq!(catalogue.lines("  done\nnone\n\n there is no session 会话\n"), "  完成\nnone\n\n 没有会话 会话\n");
        assert_eq!(catalogue.lines("  ✓ done \nx done\n✓ x\n✓"), "  ✓ 完成 \nx done\n✓ x\n✓");
        let deep = "error: ".repeat(10_000) + "done";
        assert!(catalogue.translated(&deep).is_some_and(|text| text.starts_with("错误：错误：")));
    }

    #[test]
    fn the_catalogue_can_be_read_and_its_messages_have_the_values_of_their_english_texts() {
        let resource = fluent_syntax::parser::parse(CHINESE).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        let messages = resource.body.iter().filter(|entry| matches!(entry, Entry::Message(_))).count();
        let catalogue = Catalogue::parse(CHINESE);
        assert_eq!(
            catalogue.whole.len() + catalogue.with_values.len(),
            messages,
            "one has no English text, or one is twice"
        );
        let names = |pieces: &[Piece]| {
            let mut names: Vec<Piece> =
                pieces.iter().filter(|piece| matches!(piece, Piece::Value(_))).cloned().collect();
            names.sort_by_key(|piece| format!("{piece:?}"));
            names
        };
        for Message { english, translated } in &catalogue.with_values {
            assert_eq!(names(english), names(translated), "{english:?}");
            assert!(
                english.iter().any(|piece| matches!(piece, Piece::Literal(text) if text.trim().len() > 1)),
                "{english:?}"
            );
        }
    }

    /// The texts of all programs of this folder, with strings as the compiler sees them.
    fn sources(folder: &Path, into: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder of the sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|extension| ["rs", "txt"].iter().any(|of| extension == *of)) {
                let text = fs::read_to_string(&path).expect("a source");
                let mut lines = text.split("\\\n");
                into.push_str(lines.next().unwrap_or_default());
                lines.for_each(|line| into.push_str(line.trim_start()));
            }
        }
    }

    impl Catalogue {
        /// The English texts of the help.
        pub(in crate::language) fn whole_texts_of_help() -> Vec<String> {
            let resource = fluent_syntax::parser::parse(CHINESE).expect("another test reads it");
            let of_help = resource.body.iter().filter_map(|entry| match entry {
                Entry::Message(message) if message.id.name.starts_with(HELP) => message.attributes.first(),
                _ => None,
            });
            let text = |pieces: Vec<Piece>| {
                let literals = pieces.into_iter().map(|piece| match piece {
                    Piece::Literal(text) | Piece::Value(text) => text,
                });
                literals.collect::<String>()
            };
            of_help.map(|attribute| text(pieces(&attribute.value))).collect()
        }
    }

    /// The prefix of the names of texts that a test of the help looks after.
    const HELP: &str = "help-";

    /// Sections of texts that no source has as a whole: those of a library, and those that are put together.
    const NOT_WHOLE: [&str; 2] = ["The parser of the command line", "Texts that the code puts together"];

    #[test]
    fn every_english_text_of_the_catalogue_is_one_of_the_program() {
        let mut all = String::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for entry in fs::read_dir(crates).expect("the crates").flatten() {
            sources(&entry.path().join("src"), &mut all);
        }
        let all = all.replace("\\\"", "\"");
        let resource = fluent_syntax::parser::parse(CHINESE).expect("another test reads it");
        let mut section = "";
        let mut gone = vec![];
        for entry in &resource.body {
            match entry {
                Entry::GroupComment(comment) => section = comment.content.first().copied().unwrap_or_default(),
                Entry::Message(message) if !NOT_WHOLE.contains(&section) && !message.id.name.starts_with(HELP) => {
                    let english =
                        message.attributes.first().map(|attribute| pieces(&attribute.value)).unwrap_or_default();
                    let literals = english
                        .iter()
                        .filter_map(|piece| if let Piece::Literal(text) = piece { Some(text) } else { None });
                    gone.extend(literals.map(|text| text.trim()).filter(|text| !all.contains(text)).map(str::to_owned));
                }
                _ => {}
            }
        }
        assert!(gone.is_empty(), "no source has these texts any more: {gone:#?}");
    }
}
