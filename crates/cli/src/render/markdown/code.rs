//! Blocks of code: their fences, and colours for comments, strings, numbers and keywords. A line is coloured when it is there;
//! what is open at its end (a comment, a string of several lines) is all that the next line needs to know.

use super::{Look, Row, Span};
use crate::output::Control;

/// Bytes of a line that is coloured.
const LINE_BYTES: usize = 4 << 10;

/// The fence of an open block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fence {
    indent: usize,
    mark: char,
    length: usize,
    info: String,
}

impl Fence {
    /// The fence that a line opens.
    pub(super) fn open(line: &str) -> Option<Self> {
        let text = line.trim_start_matches(' ');
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let length = text.len() - info.len();
        let is_fence = length >= 3 && !(mark == '`' && info.contains('`'));
        let indent = line.len() - text.len();
        is_fence.then(|| Self { indent, mark, length, info: info.trim().to_owned() })
    }

    /// The language that it names.
    pub(super) fn info(&self) -> &str {
        self.info.split([' ', ',', '{']).next().unwrap_or_default()
    }

    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        text.len() >= self.length && text.chars().all(|c| c == self.mark)
    }

    /// The fence itself as a row.
    #[allow(clippy::unused_self, reason = "a fence is the only thing that has such a row")]
    pub(super) fn row(&self, line: &str, look: Look) -> Row {
        vec![Span::new(look.has_colors.then_some(Control::Dim), line.trim())]
    }

    /// A line of the block without the indent of its fence.
    pub(super) fn dedented<'a>(&self, line: &'a str) -> &'a str {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        &line[blanks.min(self.indent)..]
    }
}

/// What tells the words of a language apart.
#[derive(Debug, Clone, Copy)]
struct Syntax {
    /// What begins a comment up to the end of the line.
    comments: &'static [&'static str],
    /// What begins and ends a comment of several lines.
    blocks: &'static [(&'static str, &'static str)],
    /// What begins and ends a string; those of several lines first.
    strings: &'static [&'static str],
    keywords: &'static str,
}

const C_BLOCKS: &[(&str, &str)] = &[("/*", "*/")];

const RUST: Syntax = Syntax {
    comments: &["//"],
    blocks: C_BLOCKS,
    strings: &["\""],
    keywords: " as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub \
               ref return self Self static struct super trait true type unsafe use where while ",
};
const C_LIKE: Syntax = Syntax {
    comments: &["//"],
    blocks: C_BLOCKS,
    strings: &["`", "\"", "'"],
    keywords: " abstract as async await auto bool boolean break case catch chan char class const constexpr continue debugger default \
               defer delete do double else enum export extends extern false final finally float for fallthrough fn from fun func \
               function go goto if implements import in inline instanceof int interface internal is let long map match namespace \
               new nil null nullptr object of operator override package private protected public range readonly return select \
               short signed sizeof static string struct super switch template this throw throws trait true try type typedef \
               typename typeof undefined union unsigned using val var virtual void volatile when where while yield ",
};
const PYTHON: Syntax = Syntax {
    comments: &["#"],
    blocks: &[("\"\"\"", "\"\"\""), ("'''", "'''")],
    strings: &["\"", "'"],
    keywords: " False None True and as assert async await begin break case class continue def del do elif else end ensure except \
               finally for from global if import in is lambda match module next nil nonlocal not or pass raise rescue return self \
               then try unless until when while with yield ",
};
const SHELL: Syntax = Syntax {
    comments: &["#"],
    blocks: &[],
    strings: &["\"", "'"],
    keywords: " case cd do done echo elif else esac exit export fi for function if in local return set source sudo then until \
               while FROM RUN COPY ENV WORKDIR ENTRYPOINT CMD ",
};
const DATA: Syntax =
    Syntax { comments: &["#"], blocks: &[], strings: &["\"", "'"], keywords: " true false null yes no " };
const JSON: Syntax = Syntax { comments: &["//"], blocks: &[], strings: &["\""], keywords: " true false null " };
const SQL: Syntax = Syntax {
    comments: &["--"],
    blocks: C_BLOCKS,
    strings: &["'", "\""],
    keywords: " add all alter and as asc between by case create cross default delete desc distinct drop else end exists foreign from \
               full group having if in index inner insert into is join key left like limit not null offset on or order outer \
               primary references right select set table then union unique update values view when where with ",
};
const MARKUP: Syntax = Syntax { comments: &[], blocks: &[("<!--", "-->")], strings: &["\""], keywords: " " };

/// The language of a block, and what is open at the end of its last line.
#[derive(Debug, Clone)]
pub(super) struct Language {
    syntax: Option<Syntax>,
    /// The end of the comment or string that is open.
    open: Option<(&'static str, Control)>,
}

impl Language {
    /// The language of this name; one that is not known has no colours.
    pub(super) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let syntax = match &*name {
            "rust" | "rs" => Some(RUST),
            "c" | "h" | "cpp" | "c++" | "cc" | "cxx" | "hpp" | "cs" | "csharp" | "java" | "javascript" | "js"
            | "jsx" | "mjs" | "typescript" | "ts" | "tsx" | "go" | "golang" | "kotlin" | "kt" | "swift" | "scala"
            | "dart" | "php" | "zig" | "css" | "scss" | "proto" | "groovy" => Some(C_LIKE),
            "python" | "py" | "python3" | "ruby" | "rb" | "elixir" => Some(PYTHON),
            "sh" | "bash" | "shell" | "zsh" | "fish" | "console" | "dockerfile" | "makefile" | "make" => Some(SHELL),
            "toml" | "yaml" | "yml" | "ini" | "conf" | "properties" => Some(DATA),
            "json" | "jsonc" | "json5" => Some(JSON),
            "sql" | "sqlite" | "postgresql" | "mysql" => Some(SQL),
            "html" | "xml" | "svg" | "vue" => Some(MARKUP),
            _ => None,
        };
        Self { syntax, open: None }
    }

    /// A line in colours. It has every character of the line.
    pub(super) fn row(&mut self, line: &str, look: Look) -> Row {
        let line = line.trim_end_matches('\r');
        match self.syntax.filter(|_| look.has_colors && line.len() <= LINE_BYTES) {
            Some(syntax) => self.coloured(line, syntax),
            None => vec![Span::plain(line)],
        }
    }

    fn coloured(&mut self, line: &str, syntax: Syntax) -> Row {
        let mut row: Row = vec![];
        let mut rest = line;
        while !rest.is_empty() {
            let (length, style) = self.token(rest, syntax);
            let (token, after) = rest.split_at(length);
            match row.last_mut().filter(|last| last.style == style) {
                Some(last) => last.text.push_str(token),
                None => row.push(Span::new(style, token)),
            }
            rest = after;
        }
        row
    }

    /// The length of what a text begins with, and its colour.
    fn token(&mut self, rest: &str, syntax: Syntax) -> (usize, Option<Control>) {
        if let Some((end, style)) = self.open {
            return match rest.find(end) {
                Some(at) => {
                    self.open = None;
                    (at + end.len(), Some(style))
                }
                None => (rest.len(), Some(style)),
            };
        }
        if let Some((begin, end)) = syntax.blocks.iter().find(|(begin, _)| rest.starts_with(begin)) {
            let style = if *begin == *end { Control::Literal } else { Control::Dim };
            if let Some(at) = rest[begin.len()..].find(end) {
                return (begin.len() + at + end.len(), Some(style));
            }
            self.open = Some((end, style));
            return (rest.len(), Some(style));
        }
        if syntax.comments.iter().any(|begin| rest.starts_with(begin)) {
            return (rest.len(), Some(Control::Dim));
        }
        if let Some(quote) = syntax.strings.iter().find(|quote| rest.starts_with(*quote)) {
            return match end_of_string(rest, quote) {
                Some(end) => (end, Some(Control::Literal)),
                None if *quote == "`" => {
                    self.open = Some(("`", Control::Literal));
                    (rest.len(), Some(Control::Literal))
                }
                // An apostrophe, or a string that goes on: the line says no more.
                None => (quote.len(), None),
            };
        }
        word(rest, syntax)
    }
}

/// The end of a string that a text begins with, on the same line.
fn end_of_string(rest: &str, quote: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if rest[at..].starts_with(quote) => return Some(at + quote.len()),
            _ => {}
        }
    }
    None
}

fn word(rest: &str, syntax: Syntax) -> (usize, Option<Control>) {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let Some(first) = rest[..end].chars().next() else {
        return (rest.chars().next().map_or(0, char::len_utf8), None);
    };
    let word = &rest[..end];
    let is_keyword = || {
        let mut words = syntax.keywords.split_ascii_whitespace();
        words.any(|keyword| keyword == word || syntax.comments == ["--"] && keyword.eq_ignore_ascii_case(word))
    };
    let style = match first {
        '0'..='9' => Some(Control::Number),
        _ if is_keyword() => Some(Control::Keyword),
        _ => None,
    };
    (end, style)
}
