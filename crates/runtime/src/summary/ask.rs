//! The request to a model for a summary: what it receives of the conversation, in how many pieces, and with which
//! instructions.

use super::extract::left_out;
use super::history::HistoryItem;
use super::truncate::ends;

/// Characters of one message or result of a call that the summarising model receives.
const MESSAGE_CHARS: usize = 8_000;
const RESULT_CHARS: usize = 2_000;
const ARGUMENT_CHARS: usize = 600;

const SYSTEM: &str = "You write the summary that takes the place of the older part of a conversation between a user and an agent with tools. The \
agent goes on with your summary and the newest messages alone, so whatever it needs must be in it. Do not answer anything that is asked in the \
conversation, do not call tools, write only the summary, in the language of the conversation.";

const SHAPE: &str = "Use these titles, and leave out those that have nothing:\n\
## Goal\n## What the user wants kept to\n## Done\n## Under way\n## Open questions and asks\n## Decisions and why\n## Next steps\n## Files\n## Exact names\n\
Keep file paths, commands, ids, numbers and error messages exactly as they are. Be short where nothing depends on it.";

/// A request for the summary of a piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceRequest<'a> {
    /// What the user wants kept above all.
    pub(crate) focus: Option<&'a str>,
    /// The number of this piece and of all pieces, from 1.
    pub(crate) piece: (usize, usize),
    /// The summary of the pieces before it.
    pub(crate) before: Option<&'a str>,
}

/// The conversation written out, in pieces of at most this many characters, none empty.
pub(crate) fn chunks(items: &[HistoryItem], chars: usize) -> Vec<String> {
    let mut chunks = vec![String::new()];
    for item in items {
        let written = written(item);
        let written = ends(&written, chars / 2, chars / 3, "\n[…]\n");
        let last = chunks.last_mut().expect("one is there from the beginning");
        if !last.is_empty() && last.len() + written.len() > chars {
            chunks.push(written);
        } else {
            last.push_str(&written);
        }
    }
    chunks
}

/// The system prompt and the question.
pub(crate) fn question(request: PieceRequest<'_>, chunk: &str) -> (&'static str, String) {
    let (piece, of) = request.piece;
    let before = request
        .before
        .map(|before| format!("The summary so far, of what was before:\n\n<summary>\n{before}\n</summary>\n\n"));
    let which = if of > 1 { format!(", piece {piece} of {of}") } else { String::new() };
    let asked = match request.before {
        Some(_) => "Write the summary anew, so that it stands for both.",
        None => "Write its summary.",
    };
    let focus = request.focus.map(|focus| format!("\n\nThe user wants this kept above all: {focus}"));
    let (before, focus) = (before.unwrap_or_default(), focus.unwrap_or_default());
    let conversation = format!("The conversation{which}:\n\n<conversation>\n{chunk}</conversation>\n\n");
    (SYSTEM, format!("{before}{conversation}{asked} {SHAPE}{focus}"))
}

/// A model's summary, with the files and exact names that it leaves out. A blank summary stays blank.
pub(crate) fn completed(summary: &str, items: &[HistoryItem]) -> String {
    let summary = summary.trim();
    if summary.is_empty() { String::new() } else { format!("{summary}{}", left_out(items, summary)) }
}

fn written(item: &HistoryItem) -> String {
    let paragraph = |who: &str, text: &str| {
        format!("[{who}]\n{}\n\n", ends(text.trim(), MESSAGE_CHARS / 2, MESSAGE_CHARS / 2, "\n[…]\n"))
    };
    match item {
        HistoryItem::Summary(text) => paragraph("summary of what was before", text),
        HistoryItem::User(text) => paragraph("user", text),
        HistoryItem::Model(text) => paragraph("agent", text),
        HistoryItem::Call { tool, arguments } => {
            format!("[the agent calls {tool}]\n{}\n\n", ends(arguments, ARGUMENT_CHARS / 2, ARGUMENT_CHARS / 2, " … "))
        }
        HistoryItem::Result { tool, text, is_error } => {
            let how = if *is_error { ", an error" } else { "" };
            format!("[result of {tool}{how}]\n{}\n\n", ends(text.trim(), RESULT_CHARS / 2, RESULT_CHARS / 2, "\n[…]\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r25_a_conversation_that_is_too_large_is_summarised_in_pieces() {
        let items: Vec<HistoryItem> =
            (0..50).map(|n| HistoryItem::User(format!("message {n} {}", "x".repeat(300)))).collect();
        let pieces = chunks(&items, 2_000);
        assert!(pieces.len() > 5 && pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= 2_000));
        let all = pieces.concat();
        assert!((0..50).all(|n| all.contains(&format!("message {n} "))));
        let huge = [HistoryItem::Model("y".repeat(50_000)), HistoryItem::User("end".into())];
        assert!(chunks(&huge, 2_000).iter().all(|piece| piece.len() <= 2_100));
    }

    #[test]
    fn r25_the_summary_prompt_has_the_piece_the_summary_so_far_and_the_focus() {
        let request = PieceRequest { focus: Some("the tide table"), piece: (2, 3), before: Some("They began.") };
        let (_, text) = question(request, "[user]\nhello\n\n");
        for part in ["They began.", "piece 2 of 3", "[user]\nhello", "kept above all: the tide table", "## Goal"] {
            assert!(text.contains(part), "{part}");
        }
        let (_, text) = question(PieceRequest { focus: None, piece: (1, 1), before: None }, "");
        assert!(!text.contains("piece") && !text.contains("above all"), "{text}");
    }

    #[test]
    fn blank_text_stays_blank() {
        let items = [HistoryItem::Call { tool: "read".into(), arguments: r#"{"path":"a.txt"}"#.into() }];
        assert_eq!(completed("  \n", &items), "");
        assert!(completed(" Read. ", &items).starts_with("Read.\n\n## Files\n- a.txt"));
    }
}
