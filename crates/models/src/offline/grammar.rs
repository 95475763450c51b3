//! Parses tokens into requested acts by simple rules. A message of which the rules do not match a part asks for nothing: an
//! answer to the rest would be the answer to another question.

use super::clause::Clause;
use super::lexer::{Kind, Token, begins_request, tokens};
use super::lexicon::{ABOUT, CONTINUE, Role, is_han};

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

/// All acts that a message requests, in order. None if any part of it is not understood: that part may change what is meant.
pub(super) fn acts(message: &str) -> Vec<Act> {
    understood(message).unwrap_or_default()
}

fn understood(message: &str) -> Option<Vec<Act>> {
    let tokens = tokens(message);
    let verbs: Vec<usize> = (0..tokens.len()).filter(|at| is_request(&tokens, *at)).collect();
    let begins: Vec<usize> = verbs.iter().map(|at| clause_begin(&tokens, *at)).collect();
    let mut acts = question(message, &tokens[..begins.first().copied().unwrap_or(tokens.len())])?;
    for (i, verb) in verbs.iter().enumerate() {
        let end = begins.get(i + 1).copied().unwrap_or(tokens.len());
        let clause = Clause {
            message,
            before: &tokens[begins[i]..*verb],
            after: trim(&tokens[*verb + 1..end], end < tokens.len()),
        };
        if let Kind::Known(Role::Verb(verb)) = tokens[*verb].kind {
            acts.extend(clause.acts(verb)?);
        }
    }
    Some(acts)
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

/// A request without a verb: no act if nothing is asked.
pub(super) fn question(message: &str, tokens: &[Token]) -> Option<Vec<Act>> {
    let tokens = trim(tokens, false);
    if is_silent(tokens) {
        return Some(vec![]);
    }
    if is_about_the_model(message, tokens) {
        return Some(vec![Act::Introduce]);
    }
    let has = |role: Role| tokens.iter().any(|token| token.is(role));
    let is_about_folder = has(Role::Folder) || has(Role::At);
    // `in x.txt` is about a file, `in x` about a folder.
    let is_read = |name: &Token| {
        let is_file = name.is_path() && !name.text.ends_with('/');
        is_file && !has(Role::Folder) && (!has(Role::At) || has_ending(&name.text))
    };
    let names: Vec<&Token> = tokens.iter().filter(|token| token.is_name()).collect();
    match names.as_slice() {
        _ if !has(Role::Question) => None,
        [] => is_about_folder.then(|| vec![Act::Look { path: None }]),
        [name] if is_read(name) => Some(vec![Act::Read { path: name.text.clone(), limit: None }]),
        [name] if is_about_folder || name.text.ends_with('/') => {
            Some(vec![Act::Look { path: Some(name.text.clone()) }])
        }
        _ => None,
    }
}

/// Whether the last part of a path has an ending.
fn has_ending(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.char_indices().any(|(at, c)| c == '.' && at > 0)
}

/// Whether these words ask for nothing.
pub(super) fn is_silent(tokens: &[Token]) -> bool {
    tokens.iter().all(|token| !token.is_name() && !token.is(Role::Question))
}

/// Whether each sentence is a greeting or a question about the model itself, and one at least is.
fn is_about_the_model(message: &str, tokens: &[Token]) -> bool {
    let sentences = || tokens.split(Token::is_break).filter(|sentence| !is_polite(sentence));
    let is_about = |sentence: &[Token]| {
        let [first, ..] = sentence else { return true };
        let end = sentence.last().unwrap_or(first).span.end;
        let text = message[first.span.start..end].to_lowercase();
        ABOUT.iter().any(|words| is_nearly(&text, words))
    };
    sentences().next().is_some() && sentences().all(is_about)
}

/// Whether a sentence has no words but those that stand before a request.
fn is_polite(sentence: &[Token]) -> bool {
    sentence.iter().all(|token| token.is(Role::Filler) || token.is(Role::Then))
}

/// Whether a text is these words, with one more at most: `hello there`, `你是谁呀`.
fn is_nearly(text: &str, words: &str) -> bool {
    if words.chars().any(is_han) {
        return text.contains(words) && text.chars().count() <= words.chars().count() + 2;
    }
    text.strip_prefix(words)
        .is_some_and(|rest| rest.is_empty() || (rest.starts_with(' ') && rest.split_whitespace().count() == 1))
}
