//! What stands in a line of Markdown: emphasis, code and links, by pulldown-cmark.

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr as _;

use super::line::is_definition;
use super::rows::wrap;
use super::{Look, Row, Span};
use crate::output::{Control, for_terminal};
use crate::wrap::has_no_blanks;

/// The rows of a paragraph, or of an item of a list after its mark.
pub(super) fn paragraph(mark: &str, source: &str, look: Look) -> Vec<Row> {
    if is_too_wide(mark, look) {
        return plain(&format!("{mark}{source}"), look);
    }
    let rest = " ".repeat(mark.width());
    let rows = wrap(&spans(source, None, look), &Span::plain(mark), &Span::plain(rest), look.width);
    // An item without a text.
    if rows.is_empty() && !mark.trim().is_empty() { vec![vec![Span::plain(mark.trim_end())]] } else { rows }
}

/// The rows of a text as it is written.
pub(super) fn plain(text: &str, look: Look) -> Vec<Row> {
    wrap(&[Span::plain(text)], &Span::plain(""), &Span::plain(""), look.width)
}

/// The rows of a heading.
pub(super) fn heading(mark: &str, source: &str, look: Look) -> Vec<Row> {
    let style = look.has_colors.then_some(Control::Bold);
    wrap(&spans(source, style, look), &Span::new(style, mark), &Span::plain(""), look.width)
}

/// The rows of a line of a quotation. Each has its mark: so it is Markdown again when it is copied.
pub(super) fn quote(mark: &str, source: &str, look: Look) -> Vec<Row> {
    if is_too_wide(mark, look) {
        return plain(&format!("{mark}{source}"), look);
    }
    let mark = Span::new(look.has_colors.then_some(Control::Dim), mark);
    let rows = wrap(&spans(source, None, look), &mark, &mark, look.width);
    if rows.is_empty() { vec![vec![Span::new(mark.style, mark.text.trim_end())]] } else { rows }
}

/// Whether a mark leaves too little of each row: it stands before every one.
fn is_too_wide(mark: &str, look: Look) -> bool {
    mark.width() > look.width / 2
}

/// The spans of a text in this style. Without colours its marks stay.
pub(super) fn spans(source: &str, style: Option<Control>, look: Look) -> Vec<Span> {
    let raw = || vec![Span::new(style, joined(source))];
    // The parser takes definitions out of a text.
    let is_definition = source.split('\n').any(is_definition) || source.starts_with('[') && source.contains("]:");
    if !look.has_colors || is_definition {
        return raw();
    }
    let mut inline = Inline { source, styles: vec![style], spans: vec![], links: vec![] };
    for (event, range) in Parser::new_ext(source, Options::empty()).into_offset_iter() {
        if inline.take(event, range).is_none() {
            return raw();
        }
    }
    inline.spans
}

struct Inline<'a> {
    source: &'a str,
    styles: Vec<Option<Control>>,
    spans: Vec<Span>,
    /// The open links: where each goes, and the number of spans before it.
    links: Vec<(String, usize)>,
}

impl Inline<'_> {
    /// Takes an event; None for a block inside the text, which is shown as it is.
    fn take(&mut self, event: Event<'_>, range: std::ops::Range<usize>) -> Option<()> {
        match event {
            Event::Text(text) => self.add(self.style(), &text),
            Event::Code(text) => self.add(Some(Control::Code), &text),
            Event::InlineHtml(text) => self.add(self.style(), text.trim_end_matches('\n')),
            Event::SoftBreak => self.soft_break(range.end),
            Event::HardBreak => self.add(None, "\n"),
            Event::Start(Tag::Strong) => self.styles.push(Some(Control::Bold)),
            Event::Start(Tag::Emphasis) => self.styles.push(Some(Control::Italic)),
            Event::End(TagEnd::Strong | TagEnd::Emphasis) => drop(self.styles.pop()),
            Event::Start(Tag::Link {
                link_type: LinkType::Inline | LinkType::Autolink | LinkType::Email,
                dest_url,
                title,
                ..
            }) if title.is_empty() => {
                self.links.push((dest_url.to_string(), self.spans.len()));
                self.styles.push(Some(Control::Underlined));
            }
            Event::End(TagEnd::Link) => self.end_link(),
            Event::Start(Tag::Paragraph | Tag::HtmlBlock) | Event::End(TagEnd::Paragraph | TagEnd::HtmlBlock) => {}
            _ => return None,
        }
        Some(())
    }

    fn style(&self) -> Option<Control> {
        self.styles.last().copied().flatten()
    }

    fn add(&mut self, style: Option<Control>, text: &str) {
        // An entity may stand for any character.
        let text = for_terminal(text);
        match self.spans.last_mut().filter(|last| last.style == style) {
            Some(last) => last.text.push_str(&text),
            None => self.spans.push(Span::new(style, text)),
        }
    }

    /// A line ends inside a paragraph: a blank, but for scripts that have none.
    fn soft_break(&mut self, end: usize) {
        let before = self.spans.last().and_then(|span| span.text.chars().next_back());
        let after = self.source[end..].trim_start().chars().next();
        if !before.zip(after).is_some_and(|(before, after)| has_no_blanks(before) && has_no_blanks(after)) {
            self.add(self.style(), " ");
        }
    }

    /// A link is its text, and where it goes if the text does not say it.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((to, from)) = self.links.pop() else { return };
        let text: String = self.spans[from.min(self.spans.len())..].iter().map(|span| span.text.as_str()).collect();
        if !text.ends_with(&*to) && to.strip_prefix("mailto:") != Some(&text) {
            self.add(Some(Control::Dim), &format!(" ({to})"));
        }
    }
}

/// A source in one line, where its lines are one paragraph.
fn joined(source: &str) -> String {
    let mut joined = String::with_capacity(source.len());
    for line in source.split('\n') {
        let ends = joined.ends_with("  ") || joined.ends_with('\\');
        let both = joined.chars().next_back().zip(line.chars().next());
        match both {
            None => {}
            Some(_) if ends => joined.push('\n'),
            Some((before, after)) if has_no_blanks(before) && has_no_blanks(after) => {}
            Some(_) => joined.push(' '),
        }
        joined.push_str(line);
    }
    joined
}
