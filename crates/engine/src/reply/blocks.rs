//! Blocks: a growing text in pieces that can be sent. A block ends where a reader would pause, never inside a fence of code
//! without closing it, and the next one opens that fence again.
//!
//! ```text
//! text so far        a block is due                 where it ends
//! below min          no, unless the text has ended  at its end
//! min to max         if it can end well             last blank line, line, sentence at or behind min, outside fences
//! above max          yes                            the same, else between words, else at max
//! ```

use super::{BlockBreak, BlockMode, BlockSettings};

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextBlock {
    /// What is sent.
    pub text: String,
    /// Bytes of the text that it stands for, with the blanks around it.
    pub taken: usize,
    /// What the rest of the text begins with: the line that opens the fence again in which the block ended.
    pub reopened: Option<String>,
}

/// How far a text has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextState {
    /// More may come.
    Open,
    /// It has ended.
    Ended,
}

/// The first block of this text, if one is due.
pub fn next(text: &str, state: TextState, settings: &BlockSettings) -> Option<TextBlock> {
    let (least, most) = bounds(settings);
    let lead = text.len() - text.trim_start_matches(['\n', '\r']).len();
    let body = &text[lead..];
    let fits = body.char_indices().nth(most).is_none();
    let has_least = body.char_indices().nth(least.saturating_sub(1)).is_some();
    if state == TextState::Ended && fits {
        return whole(body).map(|sent| TextBlock { text: sent, taken: text.len(), reopened: None });
    }
    if !has_least || state == TextState::Open && settings.mode != BlockMode::TextEnd {
        return None;
    }
    let window = Window::new(body, at(body, least), at(body, most));
    if let Some(end) = window.best(settings.break_at) {
        return block(body, end, lead);
    }
    if fits {
        return None;
    }
    window.fence_at(window.until).map_or_else(
        || block(body, window.between_words().unwrap_or(window.until), lead),
        |fence| window.in_fence(fence, lead),
    )
}

/// The bounds of a block, characters. A block holds at least the two lines of a fence and something between them.
fn bounds(settings: &BlockSettings) -> (usize, usize) {
    let most = settings.max_chars.max(BLOCK_CHARS) as usize;
    ((settings.min_chars as usize).clamp(1, most), most)
}

/// The least length of the longest block, characters.
const BLOCK_CHARS: u32 = 40;

/// The most bytes of what opens a fence: a longer row of these characters is a line across the page.
const MARKER: usize = 10;
/// The most bytes of a first line that is repeated.
const FIRST_LINE: usize = 16;

/// The offset behind so many characters.
fn at(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

fn whole(body: &str) -> Option<String> {
    let sent = body.trim_end();
    (!sent.is_empty()).then(|| sent.to_owned())
}

/// The block that ends here, outside of fences: the blanks around the cut are left out.
fn block(body: &str, end: usize, lead: usize) -> Option<TextBlock> {
    let rest = &body[end..];
    let skipped = rest.len() - rest.trim_start_matches(['\n', '\r', ' ', '\t']).len();
    let sent = whole(&body[..end])?;
    Some(TextBlock { text: sent, taken: lead + end + skipped, reopened: None })
}

/// A fence of code that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fence<'a> {
    /// Its first line.
    line: &'a str,
    /// What closes it.
    marker: &'a str,
    /// Where its first line begins.
    from: usize,
    /// Where the line that closes it ends.
    until: usize,
}

/// Where a block may end.
struct Window<'a> {
    body: &'a str,
    /// The first offset.
    from: usize,
    /// The last one.
    until: usize,
    /// The fences that begin before it, in their order.
    fences: Vec<Fence<'a>>,
}

impl<'a> Window<'a> {
    fn new(body: &'a str, from: usize, until: usize) -> Self {
        let mut fences: Vec<Fence<'a>> = vec![];
        let mut is_open = false;
        let mut at = 0;
        for line in body.split_inclusive('\n') {
            if at >= until {
                break;
            }
            let text = line.trim_end_matches(['\n', '\r']);
            match (fences.last_mut().filter(|_| is_open), marker(text)) {
                (None, Some(marker)) if marker.len() <= MARKER => {
                    fences.push(Fence { line: text, marker, from: at, until: usize::MAX });
                    is_open = true;
                }
                (Some(fence), Some(found)) if closes(text, found, fence.marker) => {
                    fence.until = at + text.len();
                    is_open = false;
                }
                (None, None | Some(_)) | (Some(_), _) => {}
            }
            at += line.len();
        }
        Self { body, from, until, fences }
    }

    /// The best end of a block, if there is a good one.
    fn best(&self, by: BlockBreak) -> Option<usize> {
        match by {
            BlockBreak::Paragraph => self.paragraph().or_else(|| self.line()).or_else(|| self.sentence()),
            BlockBreak::Newline => self.line(),
            BlockBreak::Sentence => self.sentence(),
        }
    }

    fn last(&self, ends: impl Iterator<Item = usize>) -> Option<usize> {
        let known = ends.take_while(|end| *end <= self.until);
        known.filter(|end| *end >= self.from && self.fence_at(*end).is_none()).last()
    }

    /// Before a blank line.
    fn paragraph(&self) -> Option<usize> {
        self.last(self.body.match_indices("\n\n").map(|(at, _)| at))
    }

    /// At the end of a line.
    fn line(&self) -> Option<usize> {
        self.last(self.body.match_indices('\n').map(|(at, _)| at))
    }

    /// Behind a sentence.
    fn sentence(&self) -> Option<usize> {
        let is_end = |(at, found): (usize, &str)| {
            let end = at + found.len();
            let wide = matches!(found, "。" | "！" | "？");
            (wide || self.body[end..].starts_with(char::is_whitespace)).then_some(end)
        };
        self.last(self.body.match_indices(['.', '!', '?', '。', '！', '？']).filter_map(is_end))
    }

    fn between_words(&self) -> Option<usize> {
        self.last(self.body.match_indices(char::is_whitespace).map(|(at, _)| at))
    }

    /// The fence that is open here. A closing line that the end cuts closes nothing.
    fn fence_at(&self, end: usize) -> Option<&Fence<'a>> {
        let begun = self.fences.partition_point(|fence| fence.from < end);
        self.fences[..begun].last().filter(|fence| end < fence.until)
    }

    /// A block that ends in a fence: at the end of a line if it can, with the fence closed. A fence that began late is left to
    /// the next block.
    fn in_fence(&self, fence: &Fence<'_>, lead: usize) -> Option<TextBlock> {
        // What closes it is a part of the block.
        let closing = fence.marker.chars().count() + 1;
        let until = self.body[..self.until].char_indices().rev().nth(closing - 1).map_or(0, |(at, _)| at);
        let opened = fence.from + fence.line.len();
        let has_text = !self.body[..fence.from].trim().is_empty();
        if fence.from >= self.from || until <= opened && has_text {
            return block(self.body, fence.from, lead);
        }
        // It is recorded beside the texts, and a long one would fill the next block: only a short one is repeated.
        let first_line = if fence.line.len() <= FIRST_LINE { fence.line } else { fence.marker };
        let line = self.body[..until].rfind('\n').filter(|line| *line > opened);
        let (end, skipped) = line.map_or((until, 0), |line| (line, 1));
        let end = end.max(self.body.char_indices().nth(1).map_or(self.body.len(), |(at, _)| at));
        let sent = format!("{}\n{}", &self.body[..end], fence.marker);
        Some(TextBlock { text: sent, taken: lead + end + skipped, reopened: Some(format!("{first_line}\n")) })
    }
}

/// The marker with which a line opens or closes a fence.
fn marker(line: &str) -> Option<&str> {
    let text = line.trim_start_matches(' ');
    let first = text.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let length = text.len() - text.trim_start_matches(first).len();
    // Three backticks with another one behind them are code within a line.
    let is_inline = first == '`' && text[length..].contains('`');
    (length >= 3 && line.len() - text.len() <= 3 && !is_inline).then(|| &text[..length])
}

fn closes(line: &str, found: &str, open: &str) -> bool {
    found.starts_with(open) && line.trim() == found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(min_chars: u32, max_chars: u32) -> BlockSettings {
        BlockSettings { mode: BlockMode::TextEnd, min_chars, max_chars, break_at: BlockBreak::Paragraph }
    }

    /// All blocks of a text that comes in pieces of this many characters.
    fn blocks_of(text: &str, piece: usize, settings: &BlockSettings) -> Vec<TextBlock> {
        let (mut buffer, mut blocks) = (String::new(), vec![]);
        let take = |buffer: &mut String, state, blocks: &mut Vec<TextBlock>| {
            while let Some(block) = next(buffer, state, settings) {
                let before = buffer.chars().count();
                buffer.drain(..block.taken);
                if let Some(reopened) = &block.reopened {
                    buffer.insert_str(0, reopened);
                }
                assert!(buffer.chars().count() < before, "each block takes something: {block:?}");
                blocks.push(block);
            }
        };
        let characters: Vec<char> = text.chars().collect();
        for some in characters.chunks(piece) {
            buffer.extend(some);
            take(&mut buffer, TextState::Open, &mut blocks);
        }
        take(&mut buffer, TextState::Ended, &mut blocks);
        blocks
    }

    fn texts(text: &str, settings: &BlockSettings) -> Vec<String> {
        blocks_of(text, 7, settings).into_iter().map(|block| block.text).collect()
    }

    #[test]
    fn r47_a_block_ends_at_the_last_blank_line_else_line_else_sentence() {
        let few = settings(20, 40);
        let first = "A line of text.\n\nAnother line here.";
        assert_eq!(texts(&format!("{first}\n\nAnd the rest of it."), &few), [first, "And the rest of it."]);
        let lines = ["The first line is this one.", "The second line is this one."];
        assert_eq!(texts(&lines.join("\n"), &few), lines);
        let sentences = ["Is this the first sentence?", "It is. And here is the second one."];
        assert_eq!(texts(&sentences.join(" "), &few), sentences);
        assert_eq!(
            texts("第一句话在这里结束了没有人知道它到底有多长。第二句话也在这里，而且它比第一句话更长一些。", &few)
                .len(),
            2
        );
    }

    #[test]
    fn r47_below_its_least_length_nothing_is_due_and_the_end_sends_what_is_left() {
        let usual = settings(800, 1_200);
        assert_eq!(next(&"word. ".repeat(100), TextState::Open, &usual), None);
        let left = next(&"word. ".repeat(100), TextState::Ended, &usual).expect("the end sends it");
        assert_eq!((left.text.len(), left.taken), (599, 600));
        assert_eq!(next(" \n ", TextState::Ended, &usual), None, "blanks are no block");
        let at_end = BlockSettings { mode: BlockMode::MessageEnd, ..usual };
        let long = "A sentence. ".repeat(200);
        assert_eq!(next(&long, TextState::Open, &at_end), None);
        assert!(next(&long, TextState::Ended, &at_end).is_some_and(|block| block.text.len() <= 1_200));
    }

    #[test]
    fn r47_words_are_cut_only_if_there_is_no_blank() {
        let few = settings(20, 40);
        assert_eq!(
            texts(&"word ".repeat(12), &few),
            ["word word word word word word word word", "word word word word"]
        );
        assert_eq!(texts(&"x".repeat(100), &few).iter().map(String::len).collect::<Vec<_>>(), [40, 40, 20]);
    }

    #[test]
    fn r47_a_fence_is_closed_and_opened_again() {
        let code: Vec<String> = (0..12).map(|number| format!("let x{number} = {number};")).collect();
        let text = format!("Look:\n```rust\n{}\n```\nThat is all.", code.join("\n"));
        let blocks = texts(&text, &settings(60, 90));
        assert!(blocks.len() > 2, "{blocks:?}");
        for block in &blocks {
            assert_eq!(block.matches("```").count() % 2, 0, "{block}");
            assert!(block.chars().count() <= 90, "{block}");
        }
        assert!(blocks[1].starts_with("```rust\nlet x"), "{blocks:?}");
        let lines: Vec<&str> =
            blocks.iter().flat_map(|block| block.lines()).filter(|line| line.starts_with("let")).collect();
        assert_eq!(lines, code, "no line is lost, doubled or cut");
    }

    #[test]
    fn r47_a_fence_that_began_late_is_left_to_the_next_block() {
        let text = format!("{}\n```\n{}\n```", "A line of forty characters, or nearly so", "code\n".repeat(8));
        let blocks = texts(&text, &settings(20, 60));
        assert_eq!(blocks[0], "A line of forty characters, or nearly so");
        assert!(blocks[1].starts_with("```\ncode"), "{blocks:?}");
    }

    fn some_text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[a-zäß猫🦀 ]{0,30}",
            Just("\n".to_owned()),
            Just("\n\n".to_owned()),
            Just(". ".to_owned()),
            Just("。".to_owned()),
            Just("\n```rust\n".to_owned()),
            Just("\n```\n".to_owned()),
            Just("\n~~~~\n".to_owned()),
            Just("``` `\n".to_owned()),
            (3..90_usize).prop_map(|length| format!("\n{}\n", "~".repeat(length))),
            (3..90_usize).prop_map(|length| format!("\n{}rust and more\n", "`".repeat(length))),
        ];
        prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
    }

    /// What a reader of a text sees of it, blanks and the lines of fences aside.
    fn content(text: &str) -> String {
        let lines = text.lines().filter(|line| marker(line).is_none());
        lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
    }

    proptest! {
        #[test]
        fn r47_blocks_are_the_text_in_pieces(
            text in some_text(), piece in 1..50_usize, (min, max) in (1..120_u32, 40..200_u32),
            by in prop_oneof![Just(BlockBreak::Paragraph), Just(BlockBreak::Newline), Just(BlockBreak::Sentence)],
        ) {
            let settings = BlockSettings { break_at: by, ..settings(min, max) };
            let blocks = blocks_of(&text, piece, &settings);
            let joined: Vec<&str> = blocks.iter().map(|block| &*block.text).collect();
            // A line that is longer than a block is cut, also one that looks like a fence: such texts are compared by length only.
            let is_plain = !text.contains('`') && !text.contains('~');
            if is_plain {
                prop_assert_eq!(content(&joined.join("\n")), content(&text));
            }
            let (_, most) = bounds(&settings);
            for block in &blocks {
                prop_assert!(block.text.chars().count() <= most, "{:?}", block);
                prop_assert!(!block.text.trim().is_empty());
            }
        }

        /// Fences on lines of their own: every block has whole fences, and their content is that of the text.
        #[test]
        fn r47_no_block_ends_inside_a_fence(
            lines in prop::collection::vec("[a-z ]{0,30}", 0..60), fences in prop::collection::vec(0..60_usize, 0..6),
            (min, max) in (20..80_u32, 80..160_u32), piece in 1..50_usize,
        ) {
            let mut all = lines.clone();
            let mut at: Vec<usize> = fences.into_iter().map(|at| at.min(lines.len())).collect();
            at.sort_unstable();
            at.truncate(at.len() / 2 * 2);
            for at in at.into_iter().rev() {
                all.insert(at, "```".to_owned());
            }
            let text = all.join("\n");
            let blocks = blocks_of(&text, piece, &settings(min, max));
            for block in &blocks {
                prop_assert_eq!(block.text.lines().filter(|line| line.trim() == "```").count() % 2, 0, "{:?}", blocks);
                prop_assert!(block.text.chars().count() <= max as usize);
            }
            let joined: Vec<&str> = blocks.iter().map(|block| &*block.text).collect();
            prop_assert_eq!(content(&joined.join("\n")), content(&text));
        }
    }
}
