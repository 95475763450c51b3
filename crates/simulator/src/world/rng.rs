//! All random numbers of a world come from its seed (SplitMix64), and every operation goes into its trace.

/// A sequence of numbers that follows from a seed.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of this seed for this use: one more draw in one use changes no other.
    pub fn new(seed: u64, of: &str) -> Self {
        let mut name = Trace::default();
        name.add(of.as_bytes());
        let mut row = Self(seed ^ name.0);
        Self(row.draw())
    }

    /// Returns the next random number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A random index below `count`, which is not 0.
    pub fn pick(&mut self, count: usize) -> usize {
        (self.draw() % count as u64) as usize
    }

    /// A random one of these choices, of which there is at least one.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.pick(choices.len())]
    }

    /// True with a probability of one in `many`.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.pick(many) == 0
    }
}

/// A running hash of the operations (FNV-1a).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Trace {
    /// Adds an operation to the hash.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}
