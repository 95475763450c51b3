//! Converts the token counts of providers to counts without overlap.

use engine::Usage;

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

/// A count as received. A float or a negative number from a faulty server must not fail the answer.
pub(crate) fn count(number: Option<f64>) -> u64 {
    number.map_or(0, |number| number as u64)
}
