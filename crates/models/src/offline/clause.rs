//! One request with its verb: what it acts on, and whether all of its words are understood.

use super::grammar::{Act, is_silent, question};
use super::lexer::{Kind, Token};
use super::lexicon::{Role, Verb, is_han};

/// The words of a request around its verb.
pub(super) struct Clause<'a> {
    pub(super) message: &'a str,
    /// `把 X` or `在 Y`.
    pub(super) before: &'a [Token],
    /// Up to the next request.
    pub(super) after: &'a [Token],
}

impl Clause<'_> {
    /// The acts of the request; none if it has words that no rule takes.
    pub(super) fn acts(&self, verb: Verb) -> Option<Vec<Act>> {
        match verb {
            Verb::List => self.list(),
            Verb::Show if self.after.first().is_some_and(|token| token.is(Role::For)) => self.search(),
            Verb::Show if self.sentence().iter().any(|token| token.is(Role::Folder)) && !self.asks() => self.list(),
            Verb::Show | Verb::Read => self.read(),
            Verb::Search => self.search(),
            Verb::Run => self.run(),
            Verb::Write => self.write(),
            Verb::Replace => self.replace(),
            Verb::Fetch => self.fetch(),
            Verb::Call => self.call(),
        }
    }

    /// Up to the first break.
    fn sentence(&self) -> &[Token] {
        self.parts().0
    }

    /// The words up to the first break, and those after it.
    fn parts(&self) -> (&[Token], &[Token]) {
        let end = self.after.iter().position(Token::is_break).unwrap_or(self.after.len());
        self.after.split_at(end)
    }

    /// Whether the words after the verb are a question: `show me what is in src`.
    fn asks(&self) -> bool {
        self.after.iter().any(|token| token.is(Role::Question))
    }

    fn names(&self) -> impl Iterator<Item = &Token> {
        self.before.iter().chain(self.after).filter(|token| token.is_name())
    }

    /// The whole workspace, or one folder.
    fn list(&self) -> Option<Vec<Act>> {
        let mut names = self.names().map(|token| token.text.clone());
        let path = names.next();
        // `files with X` are some of them.
        let are_chosen = self.after.iter().any(|token| token.is(Role::With));
        (!are_chosen && names.next().is_none() && !self.asks() && is_silent(self.parts().1))
            .then(|| vec![Act::List { path }])
    }

    /// All names if each can only be a path, else the only name. `first 20 lines` is a limit.
    fn read(&self) -> Option<Vec<Act>> {
        if self.asks() {
            return question(self.message, self.after).filter(|acts| !acts.is_empty());
        }
        let number = |token: &Token| token.text.parse().ok().filter(|lines: &u64| *lines > 0);
        let has_lines = self.sentence().iter().any(|token| token.text.starts_with("line") || token.text == "行");
        let limit = if has_lines { self.sentence().iter().find_map(number) } else { None };
        let mut paths: Vec<&Token> = self.names().filter(|token| limit.is_none() || number(token) != limit).collect();
        if paths.is_empty() {
            // An article with nothing behind it is the name of a file.
            paths.extend(self.after.last().filter(|token| token.text == "a"));
        }
        let are_paths = paths.iter().all(|token| token.is_path() || token.kind == Kind::Quoted);
        let is_understood = are_paths || (paths.len() == 1 && number(paths[0]).is_none());
        let read = |token: &&Token| Act::Read { path: token.text.clone(), limit };
        (!paths.is_empty() && is_understood).then(|| paths.iter().map(read).collect())
    }

    /// `for X in Y`, `X in Y`, `Y for X`, `在 Y 中搜索 X`.
    fn search(&self) -> Option<Vec<Act>> {
        let (sentence, rest) = self.parts();
        let wanted = match sentence.iter().position(|token| token.is(Role::For)) {
            Some(at) => &sentence[at + 1..],
            None => sentence,
        };
        let end = wanted.iter().position(|token| token.is(Role::At)).unwrap_or(wanted.len());
        let (wanted, place) = wanted.split_at(end);
        let head = &sentence[..sentence.len() - wanted.len() - place.len()];
        let mut places = self.before.iter().chain(head).chain(place).filter(|token| token.is_name());
        let path = places.next().map(|token| token.text.clone());
        let is_other = |token: &Token| token.is(Role::Question) || token.is(Role::Then);
        if places.next().is_some() || !is_silent(rest) || wanted.iter().chain(place).any(is_other) {
            return None;
        }
        let names = || wanted.iter().filter(|token| token.is_name());
        let special = names().find(|token| token.kind == Kind::Quoted || token.text.contains('*'));
        match special {
            Some(_) if names().count() > 1 => None,
            Some(glob) if glob.kind != Kind::Quoted => Some(vec![Act::Find { pattern: glob.text.clone(), path }]),
            Some(quoted) => Some(vec![Act::Search { text: quoted.text.clone(), path }]),
            None => {
                Some(self.words(wanted)).filter(|text| !text.is_empty()).map(|text| vec![Act::Search { text, path }])
            }
        }
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
    fn run(&self) -> Option<Vec<Act>> {
        let (sentence, rest) = self.parts();
        let is_plain = sentence.first().is_some_and(|token| token.kind == Kind::Word);
        if !is_plain && self.after.iter().any(|token| token.kind == Kind::Quoted) {
            let is_understood = self.names().all(|token| token.kind == Kind::Quoted) && !self.asks();
            return is_understood.then(|| self.names().map(|token| Act::Run { command: token.text.clone() }).collect());
        }
        let at = sentence.iter().position(|token| !token.is(Role::Stop) && token.kind != Kind::Colon)?;
        let (lead, command) = sentence.split_at(at);
        // `the tests` is not the name of a program.
        let is_named = lead.is_empty() || lead.iter().any(|token| matches!(token.text.as_str(), "command" | "命令"));
        let is_program = !command[0].text.starts_with(is_han) && !command.iter().any(|token| token.is(Role::Then));
        (is_named && is_program && is_silent(rest)).then(|| vec![Act::Run { command: self.raw(command) }])
    }

    /// `"X" with "Y" in Z`, `把 Z 里的“X”替换为“Y”`.
    fn replace(&self) -> Option<Vec<Act>> {
        let (quoted, others): (Vec<&Token>, Vec<&Token>) = self.names().partition(|token| token.kind == Kind::Quoted);
        match (quoted.as_slice(), others.as_slice()) {
            ([old, new], [path]) if path.is_path() && !self.asks() => {
                Some(vec![Act::Edit { path: path.text.clone(), old: old.text.clone(), new: new.text.clone() }])
            }
            _ => None,
        }
    }

    /// The tool `ls` with the path `X`, as `limulus models check` asks every model.
    fn call(&self) -> Option<Vec<Act>> {
        let names: Vec<&Token> = self.names().collect();
        match names.as_slice() {
            [tool, path] if tool.text == "ls" && !self.asks() => {
                Some(vec![Act::List { path: Some(path.text.clone()) }])
            }
            _ => None,
        }
    }

    /// A fetch of every address in the clause.
    fn fetch(&self) -> Option<Vec<Act>> {
        let (first, last) = (self.after.first()?, self.after.last()?);
        let words = self.message[first.span.start..last.span.end]
            .split(|c: char| c.is_whitespace() || "`\"'“”，。".contains(c));
        let urls: Vec<&str> =
            words.filter(|word| word.starts_with("http://") || word.starts_with("https://")).collect();
        let is_part = |token: &Token| token.text.contains("://") || token.text.starts_with("//");
        let is_understood = !urls.is_empty() && self.names().all(is_part) && !self.asks();
        let fetch = |url: &&str| Act::Fetch { url: url.trim_end_matches(['.', ',', ';']).to_owned() };
        is_understood.then(|| urls.iter().map(fetch).collect())
    }

    /// `X to Y`, `把 X 写入 Y`, `to Y: X`, `Y with X`, `在 Y 中写入 X`. The file is a path or quoted.
    fn write(&self) -> Option<Vec<Act>> {
        let end = self.after.iter().position(|token| token.kind == Kind::Stop).unwrap_or(self.after.len());
        let (after, rest) = self.after.split_at(end);
        if !is_silent(rest) {
            return None;
        }
        let is_file = |token: &Token| token.is_path() || token.kind == Kind::Quoted;
        let act = |path: &Token, content: String| Some(vec![Act::Write { path: path.text.clone(), content }]);
        if let [lead, content @ ..] = self.before {
            if lead.is(Role::Ba) {
                let path = only(after.iter().filter(|token| token.is_name())).filter(|path| is_file(path))?;
                return act(path, self.content(content)?);
            }
            let path = only(content.iter().filter(|token| token.is_name())).filter(|path| is_file(path))?;
            return act(path, self.content(after)?);
        }
        let leads = |token: &Token| token.is(Role::To) || token.is(Role::At);
        let target = |at: usize| after[at + 1..].iter().position(Token::is_name).map(|to| at + 1 + to);
        let marks: Vec<usize> = (0..after.len()).filter(|at| leads(&after[*at]) && target(*at).is_some()).collect();
        let mark = marks.iter().rev().find(|at| target(**at).is_some_and(|to| is_file(&after[to])));
        if let Some(mark) = mark.filter(|mark| after[..**mark].iter().any(|token| !token.is(Role::Stop))) {
            let to = target(*mark)?;
            return is_silent(&after[to + 1..])
                .then_some(())
                .and_then(|()| act(&after[to], self.content(&after[..*mark])?));
        }
        let path = after.iter().position(Token::is_path)?;
        if after[..path].iter().any(Token::is_name) {
            return None;
        }
        act(&after[path], self.content(&after[path + 1..])?)
    }

    /// A quotation, else the words as written, without introducing words. None for a quotation with more beside it.
    fn content(&self, tokens: &[Token]) -> Option<String> {
        if let Some(quoted) = tokens.iter().find(|token| token.kind == Kind::Quoted) {
            return only(tokens.iter().filter(|token| token.is_name())).map(|_| quoted.text.clone());
        }
        let leads =
            |token: &Token| matches!(token.kind, Kind::Colon | Kind::Comma | Kind::Known(Role::With | Role::Stop));
        let from = tokens.iter().position(|token| !leads(token)).unwrap_or(tokens.len());
        Some(self.raw(&tokens[from..]))
    }
}

/// The one item; none if there is another.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}
