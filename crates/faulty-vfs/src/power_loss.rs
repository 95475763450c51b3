//! Decides which content of incompletely synced files survives a loss of power.

use std::cmp::Ordering;

use crate::image::{Change, Image, Pending, overwrite};

/// The bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// Which of the changes without a later sync survive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// No such change survives.
    Nothing,
    /// Every change survives.
    Everything,
    /// The changes up to a random one survive, in their order over all files; the last may be torn.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Prefix { seed: u64 },
    /// Random changes survive, each torn: some 512-byte sectors of a write survive. A file that the write would have
    /// extended may be longer even without its data, with zeros or with old bytes of the disk.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Torn { seed: u64 },
}

/// Random numbers from a seed (splitmix64).
#[derive(Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

impl Cut {
    /// The random numbers of this cut.
    pub(crate) fn rng(self) -> Rng {
        match self {
            Self::Nothing | Self::Everything => Rng::new(0),
            Self::Prefix { seed } | Self::Torn { seed } => Rng::new(seed),
        }
    }

    /// Whether a name without a later sync is lost.
    pub(crate) fn loses_name(self, rng: &mut Rng) -> bool {
        match self {
            Self::Nothing => true,
            Self::Everything => false,
            Self::Prefix { .. } | Self::Torn { .. } => rng.percent(50),
        }
    }

    /// The surviving content of each of these files, in their order; `None` for a file that does not exist.
    pub(crate) fn remains(self, images: &[Image], rng: &mut Rng) -> Vec<Option<Vec<u8>>> {
        let mut numbers: Vec<u64> = images.iter().flat_map(|image| &image.pending).map(|p| p.number).collect();
        numbers.sort_unstable();
        let last = rng.below(numbers.len() + 1).checked_sub(1).map_or(0, |at| numbers[at]);
        let (of_last, of_each) = ([50, 100][rng.below(2)], [10, 50, 90][rng.below(3)]);
        let percent = |number: u64| match self {
            Self::Nothing => 0,
            Self::Everything => 100,
            Self::Prefix { .. } => match number.cmp(&last) {
                Ordering::Less => 100,
                Ordering::Equal => of_last,
                Ordering::Greater => 0,
            },
            Self::Torn { .. } => of_each,
        };
        let mut remains = vec![];
        for image in images {
            let mut content = image.durable.clone();
            for Pending { number, change } in &image.pending {
                match percent(*number) {
                    0 => {}
                    100 => change.apply(&mut content),
                    percent => tear(change, &mut content, percent, rng),
                }
            }
            remains.push(content);
        }
        remains
    }
}

/// Applies a part of a change.
fn tear(change: &Change, content: &mut Option<Vec<u8>>, percent: usize, dice: &mut Rng) {
    let Change::Write { offset, bytes } = change else {
        if dice.percent(percent) {
            change.apply(content);
        }
        return;
    };
    // A file whose name did not reach the disk has no sectors there.
    let Some(content) = content else { return };
    let end = offset + bytes.len();
    let mut from = *offset;
    while from < end {
        let to = end.min((from / SECTOR_BYTES + 1) * SECTOR_BYTES);
        if dice.percent(percent) {
            overwrite(content, from, &bytes[from - offset..to - offset]);
        }
        from = to;
    }
    if content.len() < end && dice.percent(50) {
        let stale = [0, 0xA5][dice.below(2)];
        content.resize(end, stale);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, Rng};
    use crate::image::{Change, Image, Pending};

    fn write(number: u64, offset: usize, byte: u8, length: usize) -> Pending {
        Pending { number, change: Change::Write { offset, bytes: vec![byte; length] } }
    }

    fn remains(cut: Cut, image: &Image) -> Vec<u8> {
        cut.remains(std::slice::from_ref(image), &mut cut.rng())[0].clone().unwrap()
    }

    #[test]
    fn a_power_loss_tears_at_sectors_and_keeps_synced_data() {
        let pending = vec![write(1, 700, b'b', 1000), write(2, 2000, b'c', 10)];
        let image = Image { durable: Some(vec![b'a'; 1024]), pending, open: 0 };
        assert_eq!(remains(Cut::Nothing, &image), vec![b'a'; 1024]);
        assert_eq!(remains(Cut::Everything, &image), image.content().unwrap());
        let (mut torn, mut grown) = (0, 0);
        for seed in 0..200 {
            let cut = Cut::Torn { seed };
            let content = remains(cut, &image);
            assert_eq!(content, remains(cut, &image), "the same seed gave another result");
            assert!(content[..700].iter().all(|byte| *byte == b'a'), "synced data is lost");
            let sectors = [content[700], content[1023]];
            assert!(sectors[0] == sectors[1], "a sector is torn: {sectors:?}");
            torn += u32::from(content.len() > 1536 && content[700] == b'a' && content[1536] == b'b');
            grown += u32::from(content.len() == 2010 && content[2000] != b'c');
        }
        assert!(torn > 0 && grown > 0, "never torn ({torn}) or never grown without its data ({grown})");
    }

    #[test]
    fn a_prefix_runs_over_all_files() {
        let one = Image { durable: Some(vec![]), pending: vec![write(1, 0, b'a', 1), write(3, 1, b'c', 1)], open: 0 };
        let two = Image { durable: Some(vec![]), pending: vec![write(2, 0, b'b', 1)], open: 0 };
        for seed in 0..50 {
            let left = Cut::Prefix { seed }.remains(&[one.clone(), two.clone()], &mut Rng::new(seed));
            let lengths = (left[0].as_ref().unwrap().len(), left[1].as_ref().unwrap().len());
            assert!([(0, 0), (1, 0), (1, 1), (2, 1)].contains(&lengths), "{lengths:?}");
        }
    }
}
