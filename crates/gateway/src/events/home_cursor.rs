//! Where a subscriber of the whole home stands: a position, what was heard late before it, and how far the output of what
//! was open was told. What may not live here: how it is told.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use engine::{BranchId, EffectId, Epoch, Position};

use super::cursor::{Cursor, InvalidCursor};

/// What such a cursor begins with; that of a session begins with a number.
const HOME: &str = "home:";

/// Pieces of what was heard late that a cursor names. Batches of different sessions overtake each other by a few places, so
/// that there are as many as sessions record at once at most. Beyond that the oldest counts as told.
const GAPS: usize = 256;

/// What a subscriber of the whole home has seen.
///
/// For subscribers it is an opaque string. Its length depends on how many effects are open, which lanes bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HomeCursor {
    /// The owner that recorded the entry at the last position: a place is taken once by each owner.
    epoch: Epoch,
    /// The last position.
    head: Position,
    /// What was not seen before it, first and last position of each piece, in order.
    gaps: Vec<(u64, u64)>,
    /// The branches of which something was open, each as a subscriber of it would stand.
    open: BTreeMap<BranchId, Cursor>,
}

impl HomeCursor {
    /// Whoever has seen all up to this entry.
    pub(super) fn at(epoch: Epoch, head: Position) -> Self {
        Self { epoch, head, ..Self::default() }
    }

    /// Whoever has this cursor has also seen all of these positions.
    pub(super) fn see(&mut self, first: Position, last: Position, epoch: Epoch) {
        if last > self.head {
            if first.0 > self.head.0 + 1 {
                self.gaps.push((self.head.0 + 1, first.0 - 1));
            }
            (self.epoch, self.head) = (epoch, last);
        }
        if self.gaps.is_empty() {
            return;
        }
        let left = |(from, until): &(u64, u64)| {
            let before = (*from, (*until).min(first.0.saturating_sub(1)));
            let behind = ((*from).max(last.0 + 1), *until);
            [before, behind].into_iter().filter(|(from, until)| from <= until)
        };
        self.gaps = if self.gaps.iter().any(|(from, until)| *from <= last.0 && first.0 <= *until) {
            self.gaps.iter().flat_map(left).collect()
        } else {
            std::mem::take(&mut self.gaps)
        };
        if self.gaps.len() > GAPS {
            self.gaps.remove(0);
        }
    }

    /// Whoever has this cursor stands here in this branch. What the entries tell is left out: positions do.
    pub(super) fn stand(&mut self, branch: BranchId, cursor: Cursor) {
        if cursor.is_at_rest() {
            self.open.remove(&branch);
        } else {
            self.open.insert(branch, cursor.owing_nothing());
        }
    }

    /// The same from the cursor of a line.
    pub(super) fn stand_at(&mut self, branch: BranchId, cursor: &str) {
        // Most lines are told while nothing is open.
        let cursor = if cursor.contains(':') { cursor.parse().ok() } else { None };
        self.stand(branch, cursor.unwrap_or_default());
    }

    /// Whether the entry at this position was seen.
    #[cfg(test)]
    fn has_seen(&self, position: Position) -> bool {
        let within = |(from, until): &(u64, u64)| (*from..=*until).contains(&position.0);
        position <= self.head && !self.gaps.iter().any(within)
    }

    /// Whether so much of an effect was seen, of one that was open.
    pub(super) fn has_reached(&self, branch: BranchId, end: (EffectId, u64)) -> bool {
        self.open.get(&branch).is_some_and(|cursor| cursor.has_reached(end))
    }

    /// The branches of which something was open, and how far.
    pub(super) fn open(&self) -> &BTreeMap<BranchId, Cursor> {
        &self.open
    }

    /// What was heard late, first and last position of each piece.
    pub(super) fn gaps(&self) -> &[(u64, u64)] {
        &self.gaps
    }

    /// The last position, and the owner that recorded the entry there.
    pub(super) fn head(&self) -> (Position, Epoch) {
        (self.head, self.epoch)
    }

    /// The same for whoever has seen no more than this entry and what stands before it.
    pub(super) fn back_to(&self, (head, epoch): (Position, Epoch)) -> Self {
        let gaps = self.gaps.iter().map(|(from, until)| (*from, (*until).min(head.0)));
        let gaps = gaps.filter(|(from, until)| from <= until).collect();
        Self { epoch, head, gaps, open: self.open.clone() }
    }
}

impl fmt::Display for HomeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HOME}{}.{}", self.epoch.0, self.head.0)?;
        self.gaps.iter().try_for_each(|(from, until)| write!(f, "~{from}-{until}"))?;
        self.open.iter().try_for_each(|(branch, cursor)| write!(f, ";{branch}={cursor}"))
    }
}

impl FromStr for HomeCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let parse = || {
            let mut parts = text.strip_prefix(HOME)?.split(';');
            let mut head = parts.next()?.split('~');
            let (epoch, position) = head.next()?.split_once('.')?;
            let gap = |part: &str| {
                let (from, until) = part.split_once('-')?;
                Some((from.parse().ok()?, until.parse().ok()?)).filter(|(from, until): &(u64, u64)| from <= until)
            };
            let gaps: Vec<(u64, u64)> = head.map(gap).collect::<Option<_>>()?;
            let open = parts.map(|part| {
                let (branch, cursor) = part.split_once('=')?;
                Some((branch.parse().ok()?, cursor.parse().ok()?))
            });
            let (epoch, head) = (Epoch(epoch.parse().ok()?), Position(position.parse().ok()?));
            let is_in_order = gaps.windows(2).all(|two| two[0].1 < two[1].0);
            let is_within =
                gaps.first().is_none_or(|(from, _)| *from > 0) && gaps.last().is_none_or(|(_, until)| *until < head.0);
            let cursor = Self { epoch, head, gaps, open: open.collect::<Option<_>>()? };
            (is_in_order && is_within).then_some(cursor)
        };
        parse().ok_or_else(|| InvalidCursor { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(cursor: &mut HomeCursor, first: u64, last: u64) {
        cursor.see(Position(first), Position(last), Epoch(2));
    }

    #[test]
    fn r43_batches_that_overtake_each_other_leave_gaps_until_they_are_heard() {
        let mut cursor = HomeCursor::default();
        see(&mut cursor, 1, 3);
        assert_eq!(cursor.to_string(), "home:2.3");
        see(&mut cursor, 8, 9);
        see(&mut cursor, 12, 12);
        assert_eq!(cursor.to_string(), "home:2.12~4-7~10-11");
        see(&mut cursor, 5, 6);
        assert_eq!(cursor.to_string(), "home:2.12~4-4~7-7~10-11");
        let seen: Vec<u64> = (1..15).filter(|at| cursor.has_seen(Position(*at))).collect();
        assert_eq!(seen, [1, 2, 3, 5, 6, 8, 9, 12]);
        see(&mut cursor, 4, 4);
        see(&mut cursor, 7, 11);
        assert_eq!(cursor, HomeCursor::at(Epoch(2), Position(12)));
    }

    #[test]
    fn r43_a_cursor_of_the_home_is_bounded() {
        let mut cursor = HomeCursor::default();
        for at in 0..10_000 {
            see(&mut cursor, 2 * at + 2, 2 * at + 2);
        }
        assert_eq!(cursor.gaps().len(), GAPS);
        assert!(cursor.to_string().len() < 16 * GAPS);
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        let branch = BranchId(uuid::Uuid::from_u128(3));
        let effect = "00000000-0000-0000-0000-000000000001/request/1/1";
        for text in ["home:2.12~4-7~10-11", "home:0.0", &format!("home:2.12;{branch}=1.4:{effect}=17.12.5")] {
            assert_eq!(text.parse::<HomeCursor>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "2.12",
            "home:",
            "home:2",
            "home:2.x",
            "home:2.12~7-4",
            "home:2.12~4",
            "home:2.12~4-12",
            "home:2.12~8-9~4-5",
            "home:2.12;x=1.2",
            "home:2.12;",
            "home:2.9~0-1",
            &format!("home:2.12;{branch}"),
        ] {
            assert!(wrong.parse::<HomeCursor>().is_err_and(|error| error.text == wrong), "{wrong}");
        }
        assert!("home:2.12".parse::<Cursor>().is_err());
    }
}
