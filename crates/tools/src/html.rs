//! Converts an HTML page to readable text, similar to Markdown. Headings, lists, links, tables and code keep their
//! form; scripts, styles, menus and buttons are removed. One pass over the tokens converts any input, also malformed
//! HTML.

use html5gum::{DefaultEmitter, EndTag, StartTag, Token, Tokenizer};
use reqwest::Url;

use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::limits::{LIST_LEVELS, PAGE_TEXT_BYTES};

/// Elements without readable text.
const SKIPPED: &[&str] = &[
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "select", "button", "nav",
];

/// Elements that form their own paragraph.
const PARAGRAPHS: &[&str] = &[
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "dl",
    "table",
    "pre",
    "blockquote",
    "section",
    "article",
    "main",
    "header",
    "footer",
    "aside",
    "figure",
    "hr",
    "form",
    "fieldset",
    "details",
];

/// Elements that form their own line.
const LINES: &[&str] =
    &["div", "br", "li", "dt", "dd", "tr", "address", "figcaption", "summary", "caption", "legend", "body"];

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) text: String,
}

/// Converts a page. Links are resolved against `base`. The text ends where its limit is reached.
pub(crate) fn readable(html: &str, base: &Url, cancel: &Cancel) -> Result<Page, ToolError> {
    let mut emitter = DefaultEmitter::<()>::default();
    // The content of scripts and styles is not markup.
    emitter.naively_switch_states(true);
    let mut reader = PageReader::new(base);
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        cancel.check()?;
        if reader.text.len() > PAGE_TEXT_BYTES {
            break;
        }
        match token {
            Token::StartTag(tag) => reader.start(&tag),
            Token::EndTag(tag) => reader.end(&tag),
            Token::String(text) => reader.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    reader.close_link();
    let is_cut = reader.text.len() > PAGE_TEXT_BYTES;
    let mut text = reader.text[..reader.text.floor_char_boundary(PAGE_TEXT_BYTES)].trim_end().to_owned();
    if is_cut {
        text.push_str("\n[the page is longer, and the rest was left out]");
    }
    Ok(Page { title: reader.title.split_whitespace().collect::<Vec<_>>().join(" "), text })
}

struct PageReader<'a> {
    base: &'a Url,
    title: String,
    in_title: bool,
    text: String,
    /// Line ends to write before the next text.
    lines_due: usize,
    blank_due: bool,
    /// The element that is being skipped, and how many elements of that name are open.
    skipped: Option<(String, usize)>,
    preformatted: usize,
    /// The open lists; for a numbered list, its next number.
    lists: Vec<Option<u32>>,
    /// The open link: its target, and the offset at which its text begins.
    link: Option<(String, usize)>,
    cells: usize,
}

impl<'a> PageReader<'a> {
    fn new(base: &'a Url) -> Self {
        Self {
            base,
            title: String::new(),
            in_title: false,
            text: String::new(),
            lines_due: 0,
            blank_due: false,
            skipped: None,
            preformatted: 0,
            lists: Vec::new(),
            link: None,
            cells: 0,
        }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = String::from_utf8_lossy(&tag.name).into_owned();
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth += usize::from(*skipped == name && !tag.self_closing);
            return;
        }
        if SKIPPED.contains(&name.as_str()) {
            self.skipped = (!tag.self_closing).then_some((name, 1));
            return;
        }
        self.space(&name);
        let attribute = |wanted: &[u8]| {
            tag.attributes.get(wanted).map(|value| String::from_utf8_lossy(value).trim().to_owned()).unwrap_or_default()
        };
        match name.as_str() {
            "title" => self.in_title = true,
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.put(&("#".repeat(usize::from(name.as_bytes()[1] - b'0')) + " "));
            }
            "ul" => self.lists.push(None),
            "ol" => self.lists.push(Some(1)),
            "li" => self.item(),
            "tr" => self.cells = 0,
            "td" | "th" => {
                self.put(if self.cells > 0 { " | " } else { "" });
                self.cells += 1;
            }
            "hr" => self.put("---"),
            "blockquote" => self.put("> "),
            "pre" => {
                self.put("```\n");
                self.preformatted += 1;
            }
            "img" if !attribute(b"alt").is_empty() => self.put(&format!("[image: {}]", attribute(b"alt"))),
            "a" => self.open_link(&attribute(b"href")),
            _ => {}
        }
    }

    fn end(&mut self, tag: &EndTag<()>) {
        let name = String::from_utf8_lossy(&tag.name).into_owned();
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth -= usize::from(*skipped == name);
            if *depth == 0 {
                self.skipped = None;
            }
            return;
        }
        match name.as_str() {
            "title" => self.in_title = false,
            "a" => self.close_link(),
            "ul" | "ol" => drop(self.lists.pop()),
            "pre" if self.preformatted > 0 => {
                self.preformatted -= 1;
                let end = if self.text.ends_with('\n') { "" } else { "\n" };
                self.text.push_str(end);
                self.text.push_str("```");
            }
            _ => {}
        }
        self.space(&name);
    }

    /// Requests the line ends before or after an element.
    fn space(&mut self, name: &str) {
        // A nested list continues the outer one.
        let is_inner_list = matches!(name, "ul" | "ol") && !self.lists.is_empty();
        let lines = match name {
            name if PARAGRAPHS.contains(&name) && !is_inner_list => 2,
            name if LINES.contains(&name) || is_inner_list => 1,
            _ => return,
        };
        self.lines_due = self.lines_due.max(lines);
    }

    fn item(&mut self) {
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(LIST_LEVELS));
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{indent}{}. ", *number - 1)
            }
            _ => format!("{indent}- "),
        };
        self.put(&mark);
    }

    fn open_link(&mut self, to: &str) {
        self.close_link();
        // A target on this page is not written as a link.
        let to = Some(to).filter(|to| !to.is_empty() && !to.starts_with('#')).and_then(|to| self.base.join(to).ok());
        let Some(to) = to.filter(|to| matches!(to.scheme(), "http" | "https")) else { return };
        self.put("[");
        self.link = Some((to.into(), self.text.len()));
    }

    /// Ends the link. A link without text is removed.
    fn close_link(&mut self) {
        let Some((to, from)) = self.link.take() else { return };
        if self.text[from..].trim().is_empty() {
            self.text.truncate(from - 1);
        } else {
            self.text.extend(["](", &to, ")"]);
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            self.title.push_str(text);
        } else if self.skipped.is_some() {
        } else if self.preformatted > 0 {
            self.put(text);
        } else {
            self.words(text);
        }
    }

    /// Writes text with each run of white space reduced to one blank.
    fn words(&mut self, text: &str) {
        self.blank_due |= text.starts_with(|c: char| c.is_ascii_whitespace());
        for word in text.split_ascii_whitespace() {
            self.put(word);
            self.blank_due = true;
        }
        self.blank_due =
            text.ends_with(|c: char| c.is_ascii_whitespace()) || (self.blank_due && text.trim().is_empty());
    }

    /// Writes the requested line ends and blank, then the text.
    fn put(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.lines_due > 0 && !self.text.is_empty() {
            self.text.truncate(self.text.trim_end_matches(' ').len());
            // No more are looked at than are wanted: a page can end its lines with a million of them.
            let there = self.text.bytes().rev().take(self.lines_due).take_while(|byte| *byte == b'\n').count();
            self.text.push_str(&"\n".repeat(self.lines_due.saturating_sub(there)));
        } else if self.blank_due && !self.text.ends_with([' ', '\n', '[']) && !self.text.is_empty() {
            self.text.push(' ');
        }
        (self.lines_due, self.blank_due) = (0, false);
        self.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str, base: &Url) -> Page {
        readable(html, base, &Cancel::default()).unwrap()
    }

    fn check(html: &str, expected: &str) {
        let base = Url::parse("http://site.example/docs/page.html").unwrap();
        assert_eq!(read(html, &base).text, expected, "{html}");
    }

    #[test]
    fn a_page_becomes_text() {
        check("<h1>Tides</h1><p>They  come\n and <b>go</b>.</p>after", "# Tides\n\nThey come and go.\n\nafter");
        check("<ul><li>one<li>two<ol><li>a</li><li>b</li></ol></ul>end", "- one\n- two\n  1. a\n  2. b\n\nend");
        check(
            "<a href='b.html?x=1'>the b</a>, <a href=#top>top</a>, <a href='javascript:x()'>no</a>",
            "[the b](http://site.example/docs/b.html?x=1), top, no",
        );
        check("<a href=/x><img alt='a crab'></a><a href=/y> </a>!", "[[image: a crab]](http://site.example/x) !");
        check("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2");
        check("x<pre>let a;\n  b\n</pre>y", "x\n\n```\nlet a;\n  b\n```\n\ny");
        check("a<br>b<div>c</div>d &lt;&amp;&#252;", "a\nb\nc\nd <&ü");
    }

    #[test]
    fn elements_without_readable_text_are_removed() {
        check(
            "<nav>menu <nav>x</nav> y</nav>a<script>if (a < b) '</p>'</script><style>p{}</style><svg><text>t</text></svg>b",
            "ab",
        );
        check("<!-- no --><button>no</button><select><option>no</select>yes", "yes");
        let base = Url::parse("http://site.example/").unwrap();
        let page = read("<html><head><title> The\n crab </title><meta x></head><body>eats", &base);
        assert_eq!(page, Page { title: "The crab".to_owned(), text: "eats".to_owned() });
    }

    /// Nested lists of 256 KB became a text of 1 GB. Each case is a page of that size.
    #[test]
    fn r45_no_page_becomes_a_text_of_another_order_of_size() {
        let long = format!("http://site.example/{}/", "d".repeat(8_000));
        let base = Url::parse(&long).unwrap();
        for piece in [
            "<ul><li>x",
            "<ol><li>x",
            "<blockquote>x",
            "<a href=x>y</a>",
            "<a href=x>",
            "<h6>x",
            "<td>x",
            "<pre>x",
            "<pre>\n\n\n<br>",
            "<pre>   <br> ",
            "<table><tr><td>",
            "<nav>",
            "<title>t",
            "<img alt=x>",
            "<a b=c d=e f=g",
            "&amp;",
            "x ",
            "\n",
        ] {
            let html = piece.repeat((256 << 10) / piece.len());
            let page = read(&html, &base);
            assert!(page.text.len() <= PAGE_TEXT_BYTES + 100, "{piece}: {}", page.text.len());
        }
        let cancelled = readable(&"<p>x".repeat(1000), &base, &Cancel::cancelled());
        assert!(matches!(cancelled, Err(ToolError::Cancelled)));
    }

    #[test]
    fn lists_are_indented_to_a_limit() {
        let html = "<ul><li>x".repeat(40) + &"</ul>".repeat(39) + "<li>last";
        let base = Url::parse("http://site.example/").unwrap();
        let text = read(&html, &base).text;
        let deepest = text.lines().map(|line| line.len() - line.trim_start().len()).max();
        assert_eq!(deepest, Some(2 * LIST_LEVELS), "{text}");
        assert!(text.ends_with("\n- last"), "the levels are still counted: {text}");
    }

    #[test]
    fn malformed_html_does_not_panic() {
        for html in ["", "<", "<a href", "</p></ul></pre></a>x", "<pre><pre>", "<li><td><a href=/>", "\u{0}<p>\u{fffd}"]
        {
            let base = Url::parse("http://site.example/").unwrap();
            read(html, &base);
        }
    }
    /// What pages are made of, so that most of the random ones are nearly HTML.
    const PIECES: &[&str] = &[
        "<ul>",
        "</ul>",
        "<ol>",
        "<li>",
        "<table>",
        "<tr>",
        "<td>",
        "<p>",
        "<br>",
        "<pre>",
        "</pre>",
        "<a href=x>",
        "<a href='http://[",
        "</a>",
        "<img alt='a\u{301}'>",
        "<h1>",
        "</h6>",
        "<nav>",
        "</nav>",
        "<script>",
        "</script>",
        "<title>",
        "</title>",
        "<blockquote>",
        "<!--",
        "-->",
        "<![CDATA[",
        "<!DOCTYPE",
        "&amp;",
        "&#x110000;",
        "&#0;",
        "&",
        "<",
        ">",
        "'",
        "\"",
        "=",
        "/",
        " ",
        "\n",
        "\n\n",
        "   ",
        "x",
        "é",
        "\u{2028}",
        "\u{0}",
        "word",
    ];

    /// No page panics, becomes more than the limit, or keeps space at the end of its text.
    #[test]
    fn fuzz_html_becomes_bounded_text() {
        let base = Url::parse("http://site.example/docs/page.html").unwrap();
        let case = |bytes: &[u8]| {
            let html = if bytes.first().is_some_and(|byte| byte % 4 == 0) {
                String::from_utf8_lossy(bytes).into_owned()
            } else {
                bytes.iter().map(|byte| PIECES[usize::from(*byte) % PIECES.len()]).collect()
            };
            let page = read(&html, &base);
            // Each piece writes at most a link of its own, a list's indent or an image's description.
            assert!(page.text.len() <= 64 * (bytes.len() + 1), "{html}: {}", page.text.len());
            assert_eq!(page.text, page.text.trim_end(), "{html}");
        };
        let time = std::time::Duration::from_secs(1);
        bolero::check!().with_max_len(1_024).with_test_time(time).for_each(case);
    }
}
