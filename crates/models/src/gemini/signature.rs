//! A signature as a block keeps it: with what it stood on, for a part with a signature may not be merged with one without
//! when it is sent back (ai.google.dev/gemini-api/docs/thought-signatures).

/// What a signature stood on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignedPart {
    /// The last bytes of the block's text; a call has none.
    Tail(usize),
    /// An image, which is a block of its own without a place for a signature.
    Image,
}

const IMAGE: &str = "image";

impl SignedPart {
    /// The form that is kept: `BYTES SIGNATURE` or `image SIGNATURE`.
    pub(super) fn sign(self, signature: &str) -> String {
        match self {
            Self::Tail(bytes) => format!("{bytes} {signature}"),
            Self::Image => format!("{IMAGE} {signature}"),
        }
    }

    /// Reads the form that is kept.
    pub(super) fn read(kept: &str) -> Option<(Self, &str)> {
        let (part, signature) = kept.split_once(' ')?;
        let part = if part == IMAGE { Self::Image } else { Self::Tail(part.parse().ok()?) };
        Some((part, signature))
    }
}

/// The text before its last bytes, and these; a tail that does not fit is the whole text.
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
