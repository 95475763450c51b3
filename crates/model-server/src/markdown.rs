//! An answer as models write them: headings, paragraphs, lists, code and tables, in pieces of a token.

use std::fmt::Write as _;

use crate::prose::Prose;

/// Bytes of a piece: a token of English text or of code.
const PIECE_BYTES: usize = 4;

/// The first `count` pieces of the answer of this seed; all ASCII.
pub(super) fn pieces(seed: u64, count: u32) -> Vec<String> {
    let bytes = count as usize * PIECE_BYTES;
    let mut prose = Prose::new(seed);
    let mut text = String::with_capacity(bytes + 2_048);
    let mut number = 0;
    while text.len() < bytes {
        number += 1;
        section(&mut text, number, &mut prose);
    }
    text.as_bytes()[..bytes].chunks(PIECE_BYTES).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
}

fn section(text: &mut String, number: u32, prose: &mut Prose) {
    let mut words = |bytes| prose.text(bytes).trim_end().to_owned();
    let parts = [
        format!("## {number}. {}\n", words(30)),
        format!("{} **{}** and `value_{number}` of {}", words(250), words(12), words(200)),
        format!("see [the page](https://example.org/{number}): {}\n", words(150)),
        format!("- {}\n- {}\n- *{}*: {}\n", words(60), words(90), words(10), words(40)),
        format!(
            "```rust\n/// {}\nfn value_{number}(count: usize) -> String {{\n    let text = \"{}\"; // {}\n    if count > \
             {number} {{\n        return text.repeat(count);\n    }}\n    String::new()\n}}\n```\n",
            words(50),
            words(20),
            words(30)
        ),
        format!("| name | value |\n|---|---:|\n| {} | {number} |\n| `{}` | 0.5 |\n", words(15), words(10)),
    ];
    for part in parts {
        let _ = writeln!(text, "{part}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_as_many_pieces_as_asked_and_everything_that_answers_have() {
        let one = pieces(1, 2_000);
        assert_eq!(one.len(), 2_000);
        let text = one.concat();
        for part in ["## 2. ", "**", "](https://", "\n- ", "```rust\n", "\n```\n", "|---|---:|"] {
            assert!(text.contains(part), "{part:?} is not in it");
        }
        assert_eq!(pieces(1, 2_000), one);
        assert_ne!(pieces(2, 2_000), one);
    }
}
