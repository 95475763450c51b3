//! A signature as a block stores it, together with the part that carried it: a part with a signature must not be merged
//! with one without when it is sent back (ai.google.dev/gemini-api/docs/thought-signatures).

/// The part that carried a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignedPart {
    /// The length of that part at the end of the block's text, bytes; 0 for a call.
    Tail(usize),
    /// An image, whose own block cannot store a signature.
    Image,
}

const IMAGE: &str = "image";

impl SignedPart {
    /// The stored form: `BYTES SIGNATURE` or `image SIGNATURE`.
    pub(super) fn sign(self, signature: &str) -> String {
        match self {
            Self::Tail(bytes) => format!("{bytes} {signature}"),
            Self::Image => format!("{IMAGE} {signature}"),
        }
    }

    /// Parses the stored form.
    pub(super) fn read(kept: &str) -> Option<(Self, &str)> {
        let (part, signature) = kept.split_once(' ')?;
        let part = if part == IMAGE { Self::Image } else { Self::Tail(part.parse().ok()?) };
        Some((part, signature))
    }
}

/// Splits the text before its last bytes; if that is not possible, the tail is the whole text.
pub(super) fn tail(text: &str, bytes: usize) -> (&str, &str) {
    text.len().checked_sub(bytes).and_then(|at| text.split_at_checked(at)).unwrap_or(("", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back() {
        for part in [SignedPart::Tail(0), SignedPart::Tail(12), SignedPart::Image] {
            assert_eq!(SignedPart::read(&part.sign("a b=")), Some((part, "a b=")));
        }
        assert_eq!(SignedPart::read("of another form"), None);
    }

    #[test]
    fn a_tail_that_does_not_fit_is_the_whole_text() {
        for (bytes, parts) in [(0, ("a潮", "")), (3, ("a", "潮")), (2, ("", "a潮")), (9, ("", "a潮"))] {
            assert_eq!(tail("a潮", bytes), parts);
        }
    }
}
