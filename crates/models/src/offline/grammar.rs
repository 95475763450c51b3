//! Parses tokens into requested acts by simple rules. Text that the rules do not match is ignored.

use super::lexer::{Kind, Token, begins_request, tokens};
use super::lexicon::{ABOUT, CONTINUE, Role, Verb, is_han};

/// An act that a message requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// List the entries of a folder; none = the workspace.
    List { path: Option<String> },
    /// Read a file, or its first lines.
    Read { path: String, limit: Option<u64> },
    /// Search files for a text.
    Search { text: String, path: Option<String> },
    /// Run a command.
    Run { command: String },
    /// Write a file with this content.
    Write { path: String, content: String },
    /// Replace a piece of a file.
    Edit { path: String, old: String, new: String },
    /// Find the paths that match a glob.
    Find { pattern: String, path: Option<String> },
    /// Fetch a web page.
    Fetch { url: String },
    /// Describe a folder by its entries, then its README.
    Look { path: Option<String> },
    /// Say what the model is.
    Introduce,
}

/// All acts that a message requests, in order.
pub(super) fn acts(message: &str) -> Vec<Act> {
    let tokens = tokens(message);
    let verbs: Vec<usize> = (0..tokens.len()).filter(|at| is_request(&tokens, *at)).collect();
    let begins: Vec<usize> = verbs.iter().map(|at| clause_begin(&tokens, *at)).collect();
    let mut acts = question(message, &tokens[..begins.first().copied().unwrap_or(tokens.len())]);
    for (i, verb) in verbs.iter().enumerate() {
        let end = begins.get(i + 1).copied().unwrap_or(tokens.len());
        let clause = Clause {
            message,
            before: &tokens[begins[i]..*verb],
            after: trim(&tokens[*verb + 1..end], end < tokens.len()),
        };
        if let Kind::Known(Role::Verb(verb)) = tokens[*verb].kind {
            acts.extend(clause.acts(verb));
        }
    }
    acts
}

/// Whether a message only asks to continue an interrupted answer.
pub(super) fn asks_to_continue(message: &str) -> bool {
    let lower = message.to_lowercase();
    message.chars().count() < 400 && CONTINUE.iter().any(|words| lower.contains(words)) && acts(message).is_empty()
}

/// Finds a verb where a request can begin; a Chinese verb of several characters can be anywhere.
fn is_request(tokens: &[Token], at: usize) -> bool {
    let token = &tokens[at];
    if !matches!(token.kind, Kind::Known(Role::Verb(_))) {
        return false;
    }
    let before = at.checked_sub(1).map(|i| &tokens[i]);
    let wanted = before.is_some_and(|before| before.is(Role::To))
        && at.checked_sub(2).is_some_and(|i| tokens[i].is(Role::Filler));
    token.text.chars().all(is_han) || wanted || begins_request(before)
}

/// A clause with `把 …` or `在 …` begins before its verb.
fn clause_begin(tokens: &[Token], verb: usize) -> usize {
    let from = tokens[..verb].iter().rposition(|token| {
        token.is_break() || token.is(Role::Then) || matches!(token.kind, Kind::Known(Role::Verb(_)))
    });
    let from = from.map_or(0, |at| at + 1);
    let lead = tokens[from..verb]
        .iter()
        .position(|token| token.text.chars().all(is_han) && (token.is(Role::Ba) || token.is(Role::At)));
    lead.map_or(verb, |at| from + at)
}

/// Removes words that only introduce what follows.
fn trim(mut tokens: &[Token], is_followed: bool) -> &[Token] {
    while let [rest @ .., last] = tokens
        && (last.is_break() || last.is(Role::Then) || (last.is(Role::Filler) && (is_followed || last.text == "please")))
    {
        tokens = rest;
    }
    tokens
}

/// A request without a verb.
fn question(message: &str, tokens: &[Token]) -> Vec<Act> {
    let Some(last) = trim(tokens, false).last() else { return Vec::new() };
    let text = message[..last.span.end].to_lowercase();
    let names = |word: &&&str| match word.chars().next() {
        Some(c) if is_han(c) => text.contains(**word),
        _ => text == **word || text.starts_with(&format!("{word} ")) || text.starts_with(&format!("{word},")),
    };
    let has = |role: Role| tokens.iter().any(|token| token.is(role));
    let path = tokens.iter().find(|token| token.is_path()).map(|token| token.text.clone());
    let about_folder = has(Role::Folder) || (has(Role::At) && has(Role::Question));
    match path {
        _ if !has(Role::Folder) && path.is_none() && ABOUT.iter().any(|word| names(&word)) => vec![Act::Introduce],
        Some(path) if has(Role::Question) && !about_folder => vec![Act::Read { path, limit: None }],
        Some(path) if has(Role::Question) && path.ends_with('/') => vec![Act::Look { path: Some(path) }],
        _ if has(Role::Question) && about_folder => vec![Act::Look { path: place(tokens).or(path) }],
        _ => Vec::new(),
    }
}

/// The name after `in`, or the one before `里`.
fn place(tokens: &[Token]) -> Option<String> {
    let at = tokens.iter().position(|token| token.is(Role::At))?;
    let inside = tokens[at + 1..].iter().take_while(|token| !token.is_break() && !token.is(Role::For));
    inside.into_iter().find(|token| token.is_name()).map(|token| token.text.clone())
}

struct Clause<'a> {
    message: &'a str,
    /// `把 X` or `在 Y`.
    before: &'a [Token],
    /// Up to the next request.
    after: &'a [Token],
}

impl Clause<'_> {
    fn acts(&self, verb: Verb) -> Vec<Act> {
        match verb {
            Verb::List => vec![Act::List { path: self.first_name() }],
            Verb::Read => self.read(),
            Verb::Show if self.after.first().is_some_and(|token| token.is(Role::For)) => self.search(),
            Verb::Show if self.sentence().iter().any(|token| token.is(Role::Folder)) => {
                vec![Act::List { path: self.first_name() }]
            }
            Verb::Show => match self.read() {
                acts if acts.is_empty() => vec![Act::List { path: None }],
                acts => acts,
            },
            Verb::Search => self.search(),
            Verb::Run => self.run(),
            Verb::Write => self.write().into_iter().collect(),
            Verb::Replace => self.replace().into_iter().collect(),
            Verb::Fetch => self.fetch(),
        }
    }

    /// Up to the first break.
    fn sentence(&self) -> &[Token] {
        let end = self.after.iter().position(Token::is_break).unwrap_or(self.after.len());
        &self.after[..end]
    }

    fn first_name(&self) -> Option<String> {
        let name = self.sentence().iter().chain(self.before).find(|token| token.is_name());
        name.map(|token| token.text.clone())
    }

    /// All names that can only be paths, else the first name. `first 20 lines` is a limit.
    fn read(&self) -> Vec<Act> {
        let number = |token: &Token| token.text.parse().ok().filter(|lines: &u64| *lines > 0);
        let sentence = self.sentence();
        let limit = sentence
            .iter()
            .any(|t| t.text.starts_with("line") || t.text == "行")
            .then(|| sentence.iter().find_map(number));
        let limit = limit.flatten();
        let mut paths: Vec<&Token> = self.after.iter().filter(|token| token.is_path()).collect();
        if paths.is_empty() {
            let names = sentence.iter().chain(self.before).filter(|token| token.is_name() && number(token).is_none());
            paths.extend(names.take(1));
        }
        paths.into_iter().map(|token| Act::Read { path: token.text.clone(), limit }).collect()
    }

    /// `for X in Y`, `X in Y`, `Y for X`, `在 Y 中搜索 X`.
    fn search(&self) -> Vec<Act> {
        let sentence = self.sentence();
        let wanted = match sentence.iter().position(|token| token.is(Role::For)) {
            Some(at) => &sentence[at + 1..],
            None => sentence,
        };
        let end = wanted.iter().position(|token| token.is(Role::At)).unwrap_or(wanted.len());
        let (wanted, place_tokens) = wanted.split_at(end);
        let head = &sentence[..sentence.len() - wanted.len() - place_tokens.len()];
        let path = place(place_tokens).or_else(|| place(self.before));
        let path = path.or_else(|| head.iter().find(|token| token.is_name()).map(|token| token.text.clone()));
        if let Some(glob) = wanted.iter().find(|token| token.kind != Kind::Quoted && token.text.contains('*')) {
            return vec![Act::Find { pattern: glob.text.clone(), path }];
        }
        let text = match wanted.iter().find(|token| token.kind == Kind::Quoted) {
            Some(quoted) => quoted.text.clone(),
            None => self.words(wanted),
        };
        if text.is_empty() { Vec::new() } else { vec![Act::Search { text, path }] }
    }

    /// The words from the first to the last name, as written in the message.
    fn words(&self, tokens: &[Token]) -> String {
        let first = tokens.iter().position(Token::is_name).unwrap_or(0);
        let last = tokens.iter().rposition(Token::is_name).unwrap_or(tokens.len().saturating_sub(1));
        self.raw(tokens.get(first..=last).unwrap_or_default())
    }

    fn raw(&self, tokens: &[Token]) -> String {
        match tokens {
            [] => String::new(),
            [only] => only.text.clone(),
            [first, .., last] => self.message[first.span.start..last.span.end].to_owned(),
        }
    }

    /// The text between quotation marks, else everything up to a break.
    fn run(&self) -> Vec<Act> {
        let quoted: Vec<_> = self.after.iter().filter(|token| token.kind == Kind::Quoted).collect();
        let is_plain = self.sentence().first().is_some_and(|token| token.kind == Kind::Word);
        if !is_plain && !quoted.is_empty() {
            return quoted.into_iter().map(|token| Act::Run { command: token.text.clone() }).collect();
        }
        let words = self.sentence().iter().position(|token| !token.is(Role::Stop) && token.kind != Kind::Colon);
        let command = self.raw(words.map_or(&[], |at| &self.sentence()[at..]));
        if command.is_empty() { Vec::new() } else { vec![Act::Run { command }] }
    }

    /// `"X" with "Y" in Z`, `把 Z 里的“X”替换为“Y”`.
    fn replace(&self) -> Option<Act> {
        let all = || self.before.iter().chain(self.after);
        let mut quoted = all().filter(|token| token.kind == Kind::Quoted).map(|token| token.text.clone());
        let (old, new) = (quoted.next()?, quoted.next()?);
        let path = all().find(|token| token.kind != Kind::Quoted && token.is_path())?;
        Some(Act::Edit { path: path.text.clone(), old, new })
    }

    /// A fetch of every address in the clause.
    fn fetch(&self) -> Vec<Act> {
        let (Some(first), Some(last)) = (self.after.first(), self.after.last()) else { return Vec::new() };
        let words = self.message[first.span.start..last.span.end]
            .split(|c: char| c.is_whitespace() || "`\"'“”，。".contains(c));
        let urls = words.filter(|word| word.starts_with("http://") || word.starts_with("https://"));
        urls.map(|url| Act::Fetch { url: url.trim_end_matches(['.', ',', ';']).to_owned() }).collect()
    }

    /// `X to Y`, `把 X 写入 Y`, `to Y: X`, `Y with X`, `在 Y 中写入 X`.
    fn write(&self) -> Option<Act> {
        let end = self.after.iter().position(|token| token.kind == Kind::Stop).unwrap_or(self.after.len());
        let after = &self.after[..end];
        let act = |path: &Token, content: String| Some(Act::Write { path: path.text.clone(), content });
        if let [lead, content @ ..] = self.before {
            if lead.is(Role::Ba) {
                return act(after.iter().find(|token| token.is_name())?, self.content(content));
            }
            return act(content.iter().find(|token| token.is_name())?, self.content(after));
        }
        let leads = |token: &Token| token.is(Role::To) || token.is(Role::At);
        let target = |at: usize| after[at + 1..].iter().position(Token::is_name).map(|to| at + 1 + to);
        let marks: Vec<usize> = (0..after.len()).filter(|at| leads(&after[*at]) && target(*at).is_some()).collect();
        let mark = marks.iter().rev().find(|at| target(**at).is_some_and(|to| after[to].is_path())).or(marks.last());
        if let Some(mark) = mark.filter(|mark| after[..**mark].iter().any(|token| !token.is(Role::Stop))) {
            return act(&after[target(*mark)?], self.content(&after[..*mark]));
        }
        let path = after.iter().position(Token::is_path).or_else(|| after.iter().position(Token::is_name))?;
        act(&after[path], self.content(&after[path + 1..]))
    }

    /// A quotation, else the words as written, without introducing words.
    fn content(&self, tokens: &[Token]) -> String {
        if let Some(quoted) = tokens.iter().find(|token| token.kind == Kind::Quoted) {
            return quoted.text.clone();
        }
        let leads =
            |token: &Token| matches!(token.kind, Kind::Colon | Kind::Comma | Kind::Known(Role::With | Role::Stop));
        let from = tokens.iter().position(|token| !leads(token)).unwrap_or(tokens.len());
        self.raw(&tokens[from..])
    }
}
