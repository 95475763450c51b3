//! Seeded numbers (SplitMix64, public domain: <https://prng.di.unimi.it/splitmix64.c>).

/// A stream of numbers that its seed decides.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Below `limit`, which is far below 2⁶⁴: the bias is negligible.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
