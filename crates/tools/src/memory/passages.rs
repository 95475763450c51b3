//! Divides a text in Markdown into passages: at headings, and where a passage would be too long, at the end of a paragraph.

use crate::limits::PASSAGE_CHARS;

/// A passage of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Passage {
    /// Its first line, from 1.
    pub(super) first: usize,
    /// Its last line.
    pub(super) last: usize,
    /// The nearest heading above it; empty if there is none.
    pub(super) heading: String,
    pub(super) text: String,
}

/// The passages of a text, each of at most 1,200 characters and not empty. A longer line has several.
pub(super) fn passages(text: &str) -> Vec<Passage> {
    let mut division = Division::default();
    for (number, line) in (1..).zip(text.lines()) {
        division.line(number, line);
    }
    division.close();
    division.done
}

#[derive(Default)]
struct Division {
    done: Vec<Passage>,
    heading: String,
    is_code: bool,
    /// The lines of the passage that is not closed yet, with their numbers.
    open: Vec<(usize, String)>,
    /// Characters of these, with their line ends.
    chars: usize,
}

impl Division {
    fn line(&mut self, number: usize, line: &str) {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        if let Some(heading) = heading(line).filter(|_| !self.is_code) {
            self.close();
            heading.clone_into(&mut self.heading);
        }
        self.is_code ^= is_fence;
        for piece in pieces(line) {
            let chars = piece.chars().count() + 1;
            if self.chars + chars > PASSAGE_CHARS {
                self.make_space(chars);
            }
            self.open.push((number, piece.to_owned()));
            self.chars += chars;
        }
    }

    /// Closes the paragraphs that have ended; all, if that is not enough.
    fn make_space(&mut self, chars: usize) {
        if let Some(at) = self.open.iter().rposition(|(_, line)| line.trim().is_empty()) {
            let rest = self.open.split_off(at + 1);
            self.close();
            self.chars = rest.iter().map(|(_, line)| line.chars().count() + 1).sum();
            self.open = rest;
        }
        if self.chars + chars > PASSAGE_CHARS {
            self.close();
        }
    }

    fn close(&mut self) {
        let lines = std::mem::take(&mut self.open);
        self.chars = 0;
        let mut said = lines.iter().filter(|(_, line)| !line.trim().is_empty());
        let Some((first, _)) = said.next() else { return };
        let last = said.next_back().map_or(*first, |(last, _)| *last);
        let within = lines.iter().filter(|(number, _)| (first..=&last).contains(&number));
        let text = within.map(|(_, line)| line.trim_end()).collect::<Vec<_>>().join("\n");
        self.done.push(Passage { first: *first, last, heading: self.heading.clone(), text });
    }
}

/// The text of a line that is a heading.
fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    ((1..=6).contains(&level) && rest.starts_with([' ', '\t'])).then(|| rest.trim())
}

/// A line in pieces that fit into a passage.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let whole = rest?;
        let end = whole.char_indices().nth(PASSAGE_CHARS - 1).map(|(at, _)| at);
        let (piece, after) = end.map_or((whole, None), |at| (&whole[..at], Some(&whole[at..])));
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(usize, usize, String, String)> {
        passages(text).into_iter().map(|found| (found.first, found.last, found.heading, found.text)).collect()
    }

    fn passage(first: usize, last: usize, heading: &str, text: &str) -> (usize, usize, String, String) {
        (first, last, heading.to_owned(), text.to_owned())
    }

    #[test]
    fn r41_a_text_is_divided_at_headings_and_keeps_the_numbers_of_its_lines() {
        assert_eq!(shown(""), []);
        assert_eq!(shown("\n \n"), []);
        let text =
            "before\r\n\r\n# One\r\nfirst\r\n\r\nsecond\r\n\r\n## Two\r\n```\r\n# no heading\r\n```\r\n#none\r\n";
        assert_eq!(
            shown(text),
            [
                passage(1, 1, "", "before"),
                passage(3, 6, "One", "# One\nfirst\n\nsecond"),
                passage(8, 12, "Two", "## Two\n```\n# no heading\n```\n#none"),
            ]
        );
    }

    #[test]
    fn r41_a_long_passage_ends_with_a_paragraph_and_a_long_line_is_divided() {
        let paragraph = |letter: &str| letter.repeat(500);
        let text = format!("# Long\n{}\n\n{}\n\n{}\n", paragraph("a"), paragraph("b"), paragraph("c"));
        let found = shown(&text);
        assert_eq!(found.iter().map(|(first, last, ..)| (*first, *last)).collect::<Vec<_>>(), [(1, 4), (6, 6)]);
        assert!(found.iter().all(|(_, _, heading, _)| heading == "Long"), "{found:?}");
        let line = "ü".repeat(3_000);
        let found = passages(&format!("short\n{line}\n"));
        assert!(found.iter().all(|passage| passage.text.chars().count() <= PASSAGE_CHARS), "{found:?}");
        assert_eq!(found.iter().map(|passage| passage.text.replace("short", "")).collect::<String>(), line);
        assert_eq!((found[0].first, found[1].first, found.last().unwrap().last), (1, 2, 2));
    }
}
