//! Converts the token counts of providers to counts without overlap.

use engine::Usage;

use crate::limits::MOST_TOKENS;

/// The counts of formats whose prompt includes cached tokens and whose output includes the reasoning.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) prompt: u64,
    pub(crate) cached: u64,
    pub(crate) cache_written: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

impl Counts {
    /// Counts each token once, also if the figures contradict each other.
    pub(crate) fn usage(self) -> Usage {
        let cached = self.cached.min(self.prompt);
        let cache_written = self.cache_written.min(self.prompt - cached);
        Usage {
            input: self.prompt - cached - cache_written,
            cached,
            cache_written,
            output: self.output,
            reasoning: self.reasoning.min(self.output),
        }
    }
}

/// A count as received; 0 if it cannot be one. A float, a negative number or a huge one from a faulty server must not fail the
/// answer, nor what is summed later.
pub(crate) fn count(number: Option<f64>) -> u64 {
    let count = number.map_or(0, |number| number as u64);
    if count > MOST_TOKENS { 0 } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c5_a_count_that_cannot_be_one_is_none() {
        for (number, counted) in [
            (None, 0),
            (Some(5.9), 5),
            (Some(-5.0), 0),
            (Some(f64::NAN), 0),
            (Some(f64::INFINITY), 0),
            (Some(1e300), 0),
            (Some(1e12), 1_000_000_000_000),
            (Some(1e12 + 1.0), 0),
        ] {
            assert_eq!(count(number), counted, "{number:?}");
        }
    }
}
