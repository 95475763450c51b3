//! The result of all kills, as text and as JSON.

use serde_json::{Value, json};

use super::checks::Violation;

/// Counts of one lane, or of all.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) kills: u64,
    /// Kills before the owner's first report.
    pub(super) opening: u64,
    /// Kills in the middle of a commit: pages were in the WAL, their commit was not.
    pub(super) mid_commit: u64,
    /// Kills that left something durable which was not acknowledged.
    pub(super) unacknowledged_kills: u64,
    /// The number of batches of that.
    pub(super) unacknowledged: u64,
    /// Acknowledgements that were reported and looked up.
    pub(super) acknowledged: u64,
    /// Entries that were compared and whose chain was computed again.
    pub(super) entries: u64,
    /// Entries that were checked again at the end of their home.
    pub(super) read_again: u64,
    pub(super) homes: u64,
    violations: Vec<Violation>,
}

impl Report {
    pub(super) fn violate(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    /// Whether everything holds so far.
    pub(super) fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.opening += other.opening;
        self.mid_commit += other.mid_commit;
        self.unacknowledged_kills += other.unacknowledged_kills;
        self.unacknowledged += other.unacknowledged;
        self.acknowledged += other.acknowledged;
        self.entries += other.entries;
        self.read_again += other.read_again;
        self.homes += other.homes;
        self.violations.extend(other.violations);
    }

    fn lost(&self) -> usize {
        self.violations.iter().filter(|violation| matches!(violation, Violation::Lost(_))).count()
    }

    fn gaps(&self) -> usize {
        self.violations.iter().filter(|violation| matches!(violation, Violation::Gap(_))).count()
    }

    fn others(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.violations.iter().map(|violation| match violation {
            Violation::Lost(what) => ("lost", what.as_str()),
            Violation::Gap(what) => ("gap", what.as_str()),
            Violation::Wrong(what) => ("wrong", what.as_str()),
        })
    }

    /// The number of kills a minute.
    fn rate(&self, seconds: f64) -> f64 {
        self.kills as f64 / seconds * 60.0
    }

    pub(super) fn text(&self, seconds: f64) -> String {
        let mut lines = vec![
            format!(
                "{} SIGKILL cycles in {seconds:.1} s: {:.0} a minute, over {} homes",
                self.kills,
                self.rate(seconds),
                self.homes
            ),
            format!(
                "killed: {} while opening, {} in the middle of a commit, {} with something durable that was not acknowledged ({} batches)",
                self.opening, self.mid_commit, self.unacknowledged_kills, self.unacknowledged
            ),
            format!(
                "checked: {} acknowledgements, {} entries against what was attempted, {} of them once more at the end of their home",
                self.acknowledged, self.entries, self.read_again
            ),
            format!(
                "{} lost, {} gaps, {} other violations",
                self.lost(),
                self.gaps(),
                self.violations.len() - self.lost() - self.gaps()
            ),
        ];
        lines.extend(self.others().map(|(kind, what)| format!("violation ({kind}): {what}")));
        lines.join("\n")
    }

    pub(super) fn json(&self, seconds: f64, seed: u64) -> Value {
        json!({
            "seed": seed,
            "seconds": seconds,
            "cycles": self.kills,
            "cycles_a_minute": self.rate(seconds),
            "homes": self.homes,
            "killed": {
                "opening": self.opening,
                "mid_commit": self.mid_commit,
                "durable_unacknowledged": self.unacknowledged_kills,
            },
            "acknowledged": self.acknowledged,
            "unacknowledged_batches": self.unacknowledged,
            "entries": self.entries,
            "entries_read_again": self.read_again,
            "lost": self.lost(),
            "gaps": self.gaps(),
            "violations": self.others().map(|(kind, what)| json!({ "kind": kind, "what": what })).collect::<Vec<_>>(),
        })
    }
}
