//! Splits a message into tokens: words, quotations and breaks, each with its position in the text.

use std::ops::Range;

use super::lexicon::{Role, Verb, chinese, english, is_han};

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Its range in the text, quotation marks included.
    pub(super) span: Range<usize>,
    /// The word, or what is between the marks.
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A known word with its role.
    Known(Role),
    /// Any other word: a name, most likely.
    Word,
    /// Text between quotation marks.
    Quoted,
    Comma,
    Colon,
    /// The end of a sentence, a semicolon or a line.
    Stop,
}

impl Token {
    pub(super) fn is(&self, role: Role) -> bool {
        self.kind == Kind::Known(role)
    }

    pub(super) fn is_break(&self) -> bool {
        matches!(self.kind, Kind::Comma | Kind::Stop)
    }

    pub(super) fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Quoted)
    }

    /// Whether it can only be meant as a path.
    pub(super) fn is_path(&self) -> bool {
        let inner = self.text.trim_end_matches('.');
        self.is_name() && (inner.contains(['.', '/']) || matches!(self.text.as_str(), "." | ".."))
    }
}

const MARKS: &[(char, char)] =
    &[('`', '`'), ('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('「', '」'), ('『', '』'), ('《', '》')];

pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new() };
    while lexer.at < text.len() {
        lexer.step();
    }
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: Kind, length: usize, text: String) {
        self.tokens.push(Token { kind, span: self.at..self.at + length, text });
        self.at += length;
    }

    fn step(&mut self) {
        let Some(c) = self.rest().chars().next() else { return };
        let kind = match c {
            '\n' | ';' | '；' | '。' | '！' | '？' | '!' | '?' => Some(Kind::Stop),
            ',' | '，' | '、' => Some(Kind::Comma),
            ':' | '：' => Some(Kind::Colon),
            _ => None,
        };
        match kind {
            Some(kind) => self.push(kind, c.len_utf8(), c.to_string()),
            None if c.is_whitespace() => self.at += c.len_utf8(),
            None if self.quotation(c) => {}
            None if is_han(c) => self.han(),
            None => self.word(),
        }
    }

    fn quotation(&mut self, open: char) -> bool {
        let Some((_, close)) = MARKS.iter().find(|(mark, _)| *mark == open) else { return false };
        let inner = &self.rest()[open.len_utf8()..];
        let Some(length) = inner.find(*close) else {
            // An unclosed quotation mark is ignored.
            self.at += open.len_utf8();
            return true;
        };
        let text = inner[..length].to_owned();
        self.push(Kind::Quoted, open.len_utf8() + length + close.len_utf8(), text);
        true
    }

    fn word(&mut self) {
        let rest = self.rest();
        let mut end = rest.len();
        for (at, c) in rest.char_indices().skip(1) {
            let next = rest[at + c.len_utf8()..].chars().next();
            let closes = next.is_none_or(|next| next.is_whitespace() || is_han(next));
            let ends = match c {
                ',' | ':' | '?' | '!' => closes,
                ';' | '；' | '。' | '！' | '？' | '，' | '、' | '：' | '`' | '"' | '“' | '”' => true,
                _ => c.is_whitespace() || is_han(c),
            };
            if ends {
                end = at;
                break;
            }
        }
        let word = &rest[..end];
        let is_behind = |token: &Token| token.kind == Kind::Quoted && token.span.end == self.at;
        if word == "." && self.tokens.last().is_some_and(is_behind) {
            return self.push(Kind::Stop, 1, ".".to_owned());
        }
        let is_dots = word.ends_with("..") || word == ".";
        let bare = if is_dots { word } else { word.trim_end_matches(['.', ')']) };
        let bare = if bare.is_empty() { word } else { bare }.to_owned();
        let tail = end - bare.len();
        let kind = english(&bare.to_lowercase()).map_or(Kind::Word, Kind::Known);
        if kind == Kind::Word && self.joins(&bare) {
            return self.join(&bare);
        }
        self.push(kind, bare.len(), bare);
        if tail > 0 {
            self.push(Kind::Stop, tail, ".".to_owned());
        }
    }

    /// `说明.txt` and `docs/说明` are one name.
    fn joins(&self, word: &str) -> bool {
        let last = self.tokens.last().filter(|last| last.kind == Kind::Word && last.span.end == self.at);
        last.is_some_and(|last| word.starts_with('.') || last.text.ends_with('/'))
    }

    fn join(&mut self, word: &str) {
        self.at += word.len();
        let at = self.at;
        if let Some(last) = self.tokens.last_mut() {
            last.text.push_str(word);
            last.span.end = at;
        }
    }

    /// Chinese has no blanks: known words are taken out of a run of characters; the text between them is a name.
    fn han(&mut self) {
        let rest = self.rest();
        let run = &rest[..rest.find(|c| !is_han(c)).unwrap_or(rest.len())];
        if let Some((role, word)) = self.known(run) {
            return self.push(Kind::Known(role), word.len(), word.to_owned());
        }
        // The searched text may contain any word: only a word that begins another request ends it.
        let is_pattern = self.tokens.last().is_some_and(|last| last.is(Role::Verb(Verb::Search)));
        let starts = run.char_indices().map(|(at, _)| at).skip(1);
        let mut ends = starts.filter(|at| match chinese(&run[*at..]) {
            Some((role, word)) if is_pattern => role == Role::Then && word.chars().count() > 1,
            Some((_, word)) => word.chars().count() > 1 || stands_alone(&run[*at + word.len()..]),
            None => false,
        });
        let name = run[..ends.next().unwrap_or(run.len())].to_owned();
        if self.joins(&name) {
            return self.join(&name);
        }
        self.push(Kind::Word, name.len(), name);
    }

    fn known(&self, run: &str) -> Option<(Role, &'static str)> {
        let (role, word) = chinese(run)?;
        let counts = match role {
            _ if word.chars().count() > 1 => true,
            Role::Verb(_) | Role::Ba | Role::Filler => begins_request(self.tokens.last()),
            _ => stands_alone(&run[word.len()..]),
        };
        counts.then_some((role, word))
    }
}

/// Whether a single character counts as a word here: the run ends, or another known word follows.
fn stands_alone(after: &str) -> bool {
    after.is_empty() || chinese(after).is_some()
}

/// Whether a verb may follow this token.
pub(super) fn begins_request(before: Option<&Token>) -> bool {
    before.is_none_or(|token| {
        matches!(token.kind, Kind::Comma | Kind::Stop | Kind::Colon | Kind::Known(Role::Then | Role::Filler))
    })
}
