//! The part of Rust's syntax that the rules need: distinguishes code from comments and strings, and finds where the
//! tests of a file start.

/// The source with comments, strings and character literals blanked; line breaks and widths in bytes stay.
pub(crate) fn code_of(source: &str) -> String {
    let mut code = source.as_bytes().to_vec();
    let mut at = 0;
    while at < source.len() {
        let end = match Token::at(source, at) {
            Token::Plain(end) => end,
            Token::Blank(end) => {
                code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                end
            }
        };
        at = end;
    }
    String::from_utf8(code).expect("a token ends at a character's boundary, so whole characters are blanked")
}

/// A token with the offset of its end. Comments and literals are `Blank`, everything else is `Plain`.
enum Token {
    Plain(usize),
    Blank(usize),
}

impl Token {
    fn at(source: &str, at: usize) -> Self {
        let rest = &source[at..];
        let first = rest.chars().next().expect("the caller stops at the end");
        if rest.starts_with("//") {
            return Self::Blank(at + rest.find('\n').unwrap_or(rest.len()));
        }
        if rest.starts_with("/*") {
            return Self::Blank(at + block_comment_len(rest));
        }
        if is_word_char(first) {
            let word = rest.find(|c| !is_word_char(c)).unwrap_or(rest.len());
            let raw = matches!(&rest[..word], "r" | "br" | "cr").then(|| raw_string_len(&rest[word..])).flatten();
            return raw.map_or(Self::Plain(at + word), |len| Self::Blank(at + word + len));
        }
        match first {
            '"' => Self::Blank(at + quoted_len(rest, '"')),
            '\'' if is_char_literal(rest) => Self::Blank(at + quoted_len(rest, '\'')),
            _ => Self::Plain(at + first.len_utf8()),
        }
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a block comment. Block comments nest.
fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of `"…"`, `#"…"#` and so on; None if no string begins here, as in `r#fn`.
fn raw_string_len(text: &str) -> Option<usize> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let body = text[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&close).map_or(text.len(), |end| hashes + 1 + end + close.len()))
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Whether a character literal starts here, not a lifetime, which has no closing quote after its first character.
fn is_char_literal(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

/// The words of blanked code, each with its offset.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + code[at..].find(is_word_char)?;
        let end = code[start..].find(|c| !is_word_char(c)).map_or(code.len(), |len| start + len);
        at = end;
        Some((start, &code[start..end]))
    })
}

/// The line, from 1, of an offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The line, from 1, at which the tests of this file begin; one past its last line if it has none. Files under `tests/`
/// and files named `tests.rs` are tests from their first line.
pub(crate) fn tests_begin(path: &str, code: &str) -> usize {
    if path.contains("/tests/") || path.ends_with("/tests.rs") {
        return 1;
    }
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let is_attribute = |line: &&&str| line.starts_with("#[") || line.is_empty();
    let opens_tests = |index: &usize| {
        lines[*index] == "#[cfg(test)]"
            && lines[index + 1..]
                .iter()
                .find(|line| !is_attribute(line))
                .is_some_and(|line| line.ends_with('{') && words(line).map(|(_, word)| word).any(|word| word == "mod"))
    };
    (0..lines.len()).find(opens_tests).map_or(lines.len() + 1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::{code_of, tests_begin, words};

    #[test]
    fn comments_and_texts_are_blanked_and_nothing_else() {
        for (source, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("b\"c", 'd', '\'', b'"') g"#, "f(      ,    ,     , b   ) g"),
            ("r\"a\\\" r#\"b\"c\"# br##\"\"#\"## r#fn", "                          r#fn"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'é' x \"é\"", "     x     "),
            ("\"open\nend", "     \n   "),
        ] {
            assert_eq!(code_of(source), code, "{source}");
        }
    }

    #[test]
    fn tests_begin_at_their_module_or_with_their_file() {
        let code = "use a;\n#[cfg(test)]\nuse b;\n#[cfg(test)]\nmod c;\nfn d() {}\n\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n}\n";
        assert_eq!(tests_begin("crates/a/src/b.rs", code), 8);
        assert_eq!(tests_begin("crates/a/src/b.rs", "fn a() {}\n"), 2);
        assert_eq!(tests_begin("crates/a/tests/b.rs", code), 1);
        assert_eq!(tests_begin("crates/a/src/b/tests.rs", code), 1);
    }

    #[test]
    fn words_are_whole() {
        let found: Vec<_> = words("an async fn; is_async.await").collect();
        assert_eq!(found, [(0, "an"), (3, "async"), (9, "fn"), (13, "is_async"), (22, "await")]);
    }
}
