//! The texts of the program as its sources have them, for the tests that compare them with a catalogue.

use std::fs;
use std::path::Path;

/// A string of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Literal {
    /// The file, below `crates/`.
    pub(super) file: String,
    /// As the compiler sees it.
    pub(super) text: String,
    /// The code before it, without blanks, as far as it says what the string is for.
    before: String,
}

/// The bytes of code before a string that are looked at.
const BEFORE: usize = 40;

/// Calls and attributes whose strings nobody is shown: a panic says that the program is wrong.
const UNSEEN: [&str; 22] = [
    "expect(",
    "doc=",
    "unreachable!(",
    "panic!(",
    "assert!(",
    "assert_eq!(",
    "assert_ne!(",
    "bug(",
    "reason=",
    "rename=",
    "rename_all=",
    "value_name=",
    "skip_serializing_if=",
    "deserialize_with=",
    "default=",
    "after_help=",
    "feature=",
    "value_parser=",
    "requires=",
    "conflicts_with=",
    "conflicts_with_all=[",
    "include_str!(",
];

impl Literal {
    pub(super) fn is_seen(&self) -> bool {
        let is_sql =
            ["SELECT", "INSERT", "UPDATE ", "DELETE ", "CREATE ", "PRAGMA", "WHERE ", "ORDER BY", "BEGIN IMMEDIATE"];
        !UNSEEN.iter().any(|call| self.before.ends_with(call)) && !is_sql.iter().any(|word| self.text.contains(word))
    }

    /// Whether it is a word of its own that is printed in a table.
    pub(super) fn is_word(&self) -> bool {
        self.before.ends_with("word(") || self.is_heading()
    }

    fn is_heading(&self) -> bool {
        self.before.rsplit_once("heading([").is_some_and(|(_, after)| after.chars().all(|c| ",\"".contains(c)))
    }

    /// Whether it is prose: words beside each other, or beside what is put in.
    pub(super) fn is_prose(&self) -> bool {
        let mut words = 0;
        let spaced = without_values(&self.text, "\u{1}");
        for word in spaced.split_whitespace() {
            let letters = word.chars().filter(char::is_ascii_alphabetic).count();
            words += usize::from(letters >= 2 || word.contains('\u{1}'));
        }
        words >= 2 && spaced.chars().any(|c| c.is_ascii_alphabetic())
    }
}

/// A text with something in the place of each `{value}`.
pub(super) fn without_values(text: &str, instead: &str) -> String {
    let mut parts = text.split('{');
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((_, rest)) => without.extend([instead, rest]),
            None => without.extend(["{", part]),
        }
    }
    without
}

/// All strings of the program itself, without those of tests.
pub(super) fn literals(crates: &Path, names: &[&str]) -> Vec<Literal> {
    let mut all = vec![];
    for name in names {
        files(&crates.join(name).join("src"), &mut |path| {
            let file = path.strip_prefix(crates).expect("it is below").display().to_string();
            let source = fs::read_to_string(path).expect("a source");
            all.extend(of_source(&source).into_iter().map(|literal| Literal { file: file.clone(), ..literal }));
        });
    }
    all
}

fn files(folder: &Path, found: &mut impl FnMut(&Path)) {
    let mut paths: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "tests" {
            files(&path, found);
        } else if path.extension().is_some_and(|of| of == "rs") && name != "tests.rs" {
            found(&path);
        }
    }
}

/// The strings of a source, without those in comments and in what is only built for tests.
fn of_source(source: &str) -> Vec<Literal> {
    let mut literals = vec![];
    let mut code = String::new();
    let mut rest = source;
    let mut test = Test::No;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        if let Some((text, after)) = string(rest, &code) {
            if test == Test::No {
                let from = code.len().saturating_sub(BEFORE);
                let from = (from..=code.len()).find(|at| code.is_char_boundary(*at)).unwrap_or_default();
                literals.push(Literal { file: String::new(), text, before: code[from..].to_owned() });
            }
            code.push('"');
            rest = after;
            continue;
        }
        if let Some(after) = character(rest) {
            rest = after;
            continue;
        }
        if rest.starts_with("#[cfg(test)]") {
            test = Test::Begins;
        }
        test = test.after(c);
        if !c.is_whitespace() {
            code.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    literals
}

/// Whether the code is only built for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    No,
    /// Its attribute was there, its braces were not.
    Begins,
    /// Within so many braces.
    Within(u32),
}

impl Test {
    fn after(self, c: char) -> Self {
        match (self, c) {
            (Self::Begins, '{') => Self::Within(1),
            (Self::Within(depth), '{') => Self::Within(depth + 1),
            (Self::Begins, ';') | (Self::Within(1), '}') => Self::No,
            (Self::Within(depth), '}') => Self::Within(depth - 1),
            (test, _) => test,
        }
    }
}

/// The string at the beginning of the code, and what follows it.
fn string<'a>(rest: &'a str, before: &str) -> Option<(String, &'a str)> {
    if let Some(raw) = rest.strip_prefix('r').filter(|_| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let body = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let (text, after) = body.split_once(&end)?;
        return Some((text.to_owned(), after));
    }
    let mut text = String::new();
    let mut rest = rest.strip_prefix('"')?;
    loop {
        match next(&mut rest)? {
            '"' => return Some((text, rest)),
            '\\' => match next(&mut rest)? {
                '\n' => rest = rest.trim_start(),
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'u' => rest = rest.split_once('}')?.1,
                other => text.push(other),
            },
            c => text.push(c),
        }
    }
}

fn next(rest: &mut &str) -> Option<char> {
    let c = rest.chars().next()?;
    *rest = &rest[c.len_utf8()..];
    Some(c)
}

/// What follows the character at the beginning of the code.
fn character(rest: &str) -> Option<&str> {
    let body = rest.strip_prefix('\'')?;
    let end = if let Some(escaped) = body.strip_prefix('\\') {
        1 + escaped.get(1..)?.find('\'')? + 1
    } else {
        body.chars().next()?.len_utf8()
    };
    body.get(end..)?.strip_prefix('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strings_of_a_source_are_found() {
        let source = r#"
fn a() { say!("one {x}\n\
               two"); // "three"
    let c = '"'; let d = '\''; let e = '\u{7}'; fn f<'a>() {}
    word("four"); r"five six"; x.expect("seven"); heading(["A", "B"]);
}
#[cfg(test)]
mod tests { fn b() { "eight"; } }
fn c() { "nine words" }
"#;
        let found = of_source(source);
        let texts: Vec<&str> = found.iter().map(|literal| &*literal.text).collect();
        assert_eq!(texts, ["one {x}\ntwo", "four", "five six", "seven", "A", "B", "nine words"]);
        let is = |of: fn(&Literal) -> bool| found.iter().map(of).collect::<Vec<_>>();
        assert_eq!(is(Literal::is_word), [false, true, false, false, true, true, false]);
        assert_eq!(is(Literal::is_seen), [true, true, true, false, true, true, true]);
        assert_eq!(is(Literal::is_prose), [true, false, true, false, false, false, true]);
        assert_eq!(without_values("a {b} c {d:?}{e", "_"), "a _ c _{e");
    }
}
