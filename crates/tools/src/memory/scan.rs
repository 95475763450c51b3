//! Searches the files directly, for where no index can be used: words as they are written, without regard to case.

use super::index::{FoundPassages, MemoryQuery, PassageHit};
use super::words;

/// How often each phrase occurs in each passage that has one of them.
#[derive(Default)]
struct Counts {
    rows: Vec<(PassageHit, Vec<usize>)>,
    /// Passages that were looked at.
    passages: usize,
}

/// A search without an index. Passages are added in the order of the files.
pub(super) struct Scan {
    all: Vec<String>,
    any: Vec<String>,
    in_all: Counts,
    in_any: Counts,
}

impl Scan {
    pub(super) fn new(query: &MemoryQuery) -> Self {
        let plain = |phrases: &[String]| phrases.iter().map(|phrase| words::plain(phrase)).collect();
        Self { all: plain(&query.all), any: plain(&query.any), in_all: Counts::default(), in_any: Counts::default() }
    }

    /// Looks at a passage.
    pub(super) fn add(&mut self, hit: PassageHit, passage: &str) {
        let text = words::plain(passage);
        self.in_all.add(hit, &text, &self.all);
        self.in_any.add(hit, &text, &self.any);
    }

    /// The best of what was found.
    pub(super) fn found(self, most: usize) -> FoundPassages {
        let of_all = self.in_all.best(self.all.len(), most);
        if !of_all.is_empty() {
            return FoundPassages { hits: of_all, is_partial: false };
        }
        let hits = self.in_any.best(1, most);
        FoundPassages { is_partial: !hits.is_empty(), hits }
    }
}

impl Counts {
    fn add(&mut self, hit: PassageHit, text: &str, phrases: &[String]) {
        self.passages += 1;
        let counts: Vec<usize> = phrases.iter().map(|phrase| text.matches(phrase.as_str()).count()).collect();
        if counts.iter().any(|count| *count > 0) {
            self.rows.push((hit, counts));
        }
    }

    /// The passages with at least so many of the phrases; a phrase that few passages have counts more.
    fn best(&self, least: usize, most: usize) -> Vec<PassageHit> {
        let phrases = self.rows.first().map_or(0, |(_, counts)| counts.len());
        let rarity = |phrase: usize| {
            let with = self.rows.iter().filter(|(_, counts)| counts[phrase] > 0).count();
            (1.0 + self.passages as f64 / (with as f64 + 0.5)).ln()
        };
        let rarities: Vec<f64> = (0..phrases).map(rarity).collect();
        let score = |counts: &[usize]| -> f64 {
            let weighed = counts.iter().zip(&rarities);
            weighed.map(|(count, rarity)| rarity * *count as f64 / (*count as f64 + 1.0)).sum()
        };
        let has_enough = |counts: &[usize]| counts.iter().filter(|count| **count > 0).count() >= least;
        let mut scored: Vec<(f64, PassageHit)> = self
            .rows
            .iter()
            .filter(|(_, counts)| has_enough(counts))
            .map(|(hit, counts)| (score(counts), *hit))
            .collect();
        // A stable sort: of two that are as good, the earlier is first.
        scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        scored.into_iter().map(|(_, hit)| hit).take(most).collect()
    }
}
