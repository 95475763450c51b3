//! The position of a reader in a stream: one type for the stream of a session and for that of the whole home.

use std::collections::BTreeMap;
use std::fmt;

use engine::{BranchId, EffectId, Epoch, Event, Position, Record, RunId, Seq};

use super::batch_position::LinePosition;
use super::projection::Line;

/// A position in the home begins with this; a position in a session begins with a number.
const HOME: &str = "home:";

/// The maximum number of unseen ranges in a position. Batches of different sessions overtake each other by a few
/// entries, so there are as many ranges as sessions that record at once. Beyond the maximum, the oldest range counts as
/// seen.
const GAPS: usize = 256;

/// The stream that a position belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamScope {
    /// The stream of the whole home.
    Home,
    /// The part of it that belongs to one session.
    Session,
}

/// What a reader of a stream has seen: the last entry, the unseen entries before it, and how far it has seen the output
/// of each effect that was open then.
///
/// A session's stream is the home's stream with one session in it. Entries are counted by seq there and by position in
/// the home. A position in the home holds one position for each session with open effects.
///
/// Clients receive an opaque string. It also holds the owner that recorded the last entry: after a power loss another
/// owner may have written something else at the same position, and each owner uses a position once. Its length depends
/// on the number of open effects, which lanes bound. The default is the beginning of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamPosition {
    epoch: Epoch,
    /// The last entry: its seq in a session, its position in the home.
    last: u64,
    /// The unseen entries before it: first and last of each range, in order. A session has at most one: the end of a
    /// run, which is reported after everything recorded with it.
    gaps: Vec<(u64, u64)>,
    /// How far the output of each open effect was seen; empty in the home.
    effects: BTreeMap<EffectId, Reached>,
    /// The positions in the sessions with open effects; empty in a session.
    sessions: Option<BTreeMap<BranchId, StreamPosition>>,
}

/// How far the output of an effect was seen, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reached {
    /// All output of the effect: text, reasoning and everything else.
    pub(super) end: u64,
    /// The text in it.
    pub(super) text: u64,
    /// The reasoning in it.
    pub(super) reasoning: u64,
}

/// The text is not a position in the requested stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a cursor: pass a cursor as it was received, or none to start at the beginning")]
pub struct InvalidCursor {
    /// The rejected text.
    pub text: String,
}

impl StreamPosition {
    /// The position before the first entry.
    pub fn beginning(scope: StreamScope) -> Self {
        Self { sessions: (scope == StreamScope::Home).then(BTreeMap::new), ..Self::default() }
    }

    /// The position in a session's stream behind this entry.
    pub fn at(epoch: Epoch, seq: Seq) -> Self {
        Self { epoch, last: seq.0, ..Self::default() }
    }

    /// The position in the home's stream behind this entry.
    pub(super) fn of_home(epoch: Epoch, head: Position) -> Self {
        Self { epoch, last: head.0, ..Self::beginning(StreamScope::Home) }
    }

    /// The stream that it belongs to.
    pub fn scope(&self) -> StreamScope {
        if self.sessions.is_some() { StreamScope::Home } else { StreamScope::Session }
    }

    /// Whether nothing was seen.
    pub(super) fn is_beginning(&self) -> bool {
        *self == Self::beginning(self.scope())
    }

    /// The owner that recorded the last entry.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The last entry of a session.
    pub fn seq(&self) -> Seq {
        Seq(self.last)
    }

    /// The last entry of the home.
    pub fn head(&self) -> Position {
        Position(self.last)
    }

    /// The unseen entries before the last one: first and last of each range.
    pub(super) fn gaps(&self) -> &[(u64, u64)] {
        &self.gaps
    }

    /// Whether an entry was seen.
    fn has_seen_entry(&self, entry: u64) -> bool {
        let within = |(from, until): &(u64, u64)| (*from..=*until).contains(&entry);
        entry <= self.last && !self.gaps.iter().any(within)
    }

    /// Whether any effect is open here.
    pub(super) fn has_nothing_open(&self) -> bool {
        self.effects.is_empty()
    }
}

/// Methods for the stream of a session.
impl StreamPosition {
    /// Advances past this record, which this owner recorded. Returns the entry of its line, and the
    /// progress that the line reports.
    pub(super) fn see(&mut self, record: &Record, epoch: Epoch) -> (Seq, Option<(EffectId, u64)>) {
        if let Some(seq) = record.seq {
            self.gaps.retain(|(end, _)| *end != seq.0);
            // A pending end comes before entries that were seen.
            if seq.0 > self.last {
                (self.epoch, self.last) = (epoch, seq.0);
            }
        }
        self.effects.retain(|effect, _| !ends(&record.event, *effect));
        let progress = end(&record.event);
        if let Some((effect, end)) = progress {
            self.effects.entry(effect).or_default().see(&record.event, end);
        }
        (record.seq.unwrap_or(Seq(self.last)), progress)
    }

    /// The same position without open effects.
    pub(super) fn without_open(self) -> Self {
        Self { effects: BTreeMap::new(), ..self }
    }

    /// The reader has not been notified of this end of a run yet.
    pub(super) fn set_pending_end(&mut self, end: Seq) {
        self.gaps = vec![(end.0, end.0)];
    }

    /// The reader is notified of the pending end.
    pub(super) fn clear_pending_end(&mut self) {
        self.gaps.clear();
    }

    /// The end of a run that is pending.
    pub(super) fn pending_end(&self) -> Option<Seq> {
        self.gaps.first().map(|(end, _)| Seq(*end))
    }

    /// How far each open effect was seen.
    pub(super) fn effects(&self) -> &BTreeMap<EffectId, Reached> {
        &self.effects
    }

    /// The reader has seen this much of this effect.
    pub(super) fn set_reached(&mut self, effect: EffectId, reached: Reached) {
        self.effects.insert(effect, reached);
    }

    /// Forgets an open effect.
    pub(super) fn forget(&mut self, effect: EffectId) {
        self.effects.remove(&effect);
    }

    /// How far this effect was seen; `None` if nothing of it was seen, or if it is sealed.
    pub(super) fn reached(&self, effect: EffectId) -> Option<Reached> {
        self.effects.get(&effect).copied()
    }

    /// Whether this much of an effect that is open here was seen.
    pub fn has_reached(&self, (effect, end): (EffectId, u64)) -> bool {
        self.effects.get(&effect).is_some_and(|reached| end <= reached.end)
    }

    /// Whether this progress was seen.
    pub(super) fn has_seen_progress(&self, record: &Record) -> bool {
        end(&record.event).is_some_and(|progress| self.has_reached(progress))
    }

    /// The run of the open effects.
    pub(super) fn run(&self) -> Option<RunId> {
        self.effects.keys().next().map(|effect| effect.run)
    }

    /// Whether the line at this anchor was seen.
    pub fn has_seen(&self, line: &LinePosition) -> bool {
        match line.progress() {
            None => self.has_seen_entry(line.seq().0),
            Some((effect, end)) => match self.effects.get(&effect) {
                Some(reached) => end <= reached.end,
                // The effect is sealed, or none of its output existed.
                None => line.seq().0 < self.last,
            },
        }
    }
}

/// Methods for the stream of the home.
impl StreamPosition {
    /// Marks all these positions as seen.
    pub fn see_range(&mut self, (first, last): (Position, Position), epoch: Epoch) {
        if last.0 > self.last {
            if first.0 > self.last + 1 {
                self.gaps.push((self.last + 1, first.0 - 1));
            }
            (self.epoch, self.last) = (epoch, last.0);
        }
        if self.gaps.is_empty() {
            return;
        }
        let left = |(from, until): &(u64, u64)| {
            let before = (*from, (*until).min(first.0.saturating_sub(1)));
            let behind = ((*from).max(last.0 + 1), *until);
            [before, behind].into_iter().filter(|(from, until)| from <= until)
        };
        if self.gaps.iter().any(|(from, until)| *from <= last.0 && first.0 <= *until) {
            self.gaps = self.gaps.iter().flat_map(left).collect();
        }
        if self.gaps.len() > GAPS {
            self.gaps.remove(0);
        }
    }

    /// Sets the reader's position in this session, without the entries: positions of the home hold those.
    pub(super) fn set_session(&mut self, branch: BranchId, position: Self) {
        let Some(sessions) = &mut self.sessions else { return };
        if position.has_nothing_open() {
            sessions.remove(&branch);
        } else {
            sessions.insert(branch, Self { gaps: vec![], ..position });
        }
    }

    /// The same from the cursor of a line.
    fn set_session_from(&mut self, branch: BranchId, cursor: &str) {
        // Most lines are reported while nothing is open.
        let position = if cursor.contains(':') { parse_session(cursor) } else { None };
        self.set_session(branch, position.unwrap_or_default());
    }

    /// Advances past this line. Returns the position of the entry that it reports.
    pub fn follow(&mut self, line: &Line) -> Option<Position> {
        let (batch, entry) = (line.at.batch(), line.at.entry(&line.event));
        if let Some(position) = entry {
            self.see_range((position, position), batch.epoch);
        }
        self.set_session_from(batch.branch, &line.event.cursor);
        entry
    }

    /// The sessions with open effects, and how far their output was seen.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (BranchId, &Self)> {
        self.sessions.iter().flatten().map(|(branch, position)| (*branch, position))
    }

    /// The position in one of these sessions.
    pub fn session(&self, branch: BranchId) -> Option<&Self> {
        self.sessions.as_ref()?.get(&branch)
    }

    /// The same for a reader that has seen no more than this entry and the entries before it.
    pub(super) fn back_to(&self, (head, epoch): (Position, Epoch)) -> Self {
        let gaps = self.gaps.iter().map(|(from, until)| (*from, (*until).min(head.0)));
        let gaps = gaps.filter(|(from, until)| from <= until).collect();
        Self { epoch, last: head.0, gaps, ..self.clone() }
    }
}

impl Reached {
    /// Marks progress up to this offset as seen.
    pub(super) fn see(&mut self, event: &Event, end: u64) {
        self.end = self.end.max(end);
        match event {
            Event::TextAdded(e) => self.text += e.text.len() as u64,
            Event::OutputAdded(e) => self.text += e.text.len() as u64,
            Event::ReasoningAdded(e) => self.reasoning += e.text.len() as u64,
            _ => {}
        }
    }
}

/// The effect of progress, and the offset behind it.
pub(super) fn end(event: &Event) -> Option<(EffectId, u64)> {
    let (effect, offset) = event.progress()?;
    let bytes = match event {
        Event::TextAdded(e) => e.text.len() as u64,
        Event::ReasoningAdded(e) => e.text.len() as u64,
        Event::OutputAdded(e) => e.text.len() as u64,
        Event::CallPartAdded(e) => e.bytes(),
        Event::BlockSigned(e) => e.signature.len() as u64,
        _ => 0,
    };
    Some((effect, offset + bytes))
}

/// Whether no progress of this effect can follow this entry: it seals the effect or starts another try of it, or the
/// run has ended.
pub(super) fn ends(event: &Event, effect: EffectId) -> bool {
    let tries = |sealed: EffectId| EffectId { try_no: effect.try_no, ..sealed } == effect;
    event.seals().is_some_and(tries) || matches!(event, Event::RunEnded(ended) if ended.run == effect.run)
}

/// The text form that clients keep across upgrades: every later version must parse it.
impl fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, last, gaps, effects, sessions } = self;
        let Some(sessions) = sessions else {
            write!(f, "{}.{last}", epoch.0)?;
            gaps.iter().try_for_each(|(pending, _)| write!(f, "-{pending}"))?;
            return effects.iter().try_for_each(|(effect, reached)| write!(f, ":{effect}={reached}"));
        };
        write!(f, "{HOME}{}.{last}", epoch.0)?;
        gaps.iter().try_for_each(|(from, until)| write!(f, "~{from}-{until}"))?;
        sessions.iter().try_for_each(|(branch, position)| write!(f, ";{branch}={position}"))
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, text, reasoning } = self;
        if end == text { write!(f, "{end}") } else { write!(f, "{end}.{text}.{reasoning}") }
    }
}

impl StreamPosition {
    /// Parses a position in this stream from a client.
    pub fn parse(scope: StreamScope, text: &str) -> Result<Self, InvalidCursor> {
        let position = match scope {
            StreamScope::Home => text.strip_prefix(HOME).and_then(parse_home),
            StreamScope::Session => parse_session(text),
        };
        position.ok_or_else(|| InvalidCursor { text: text.to_owned() })
    }
}

fn parse_session(text: &str) -> Option<StreamPosition> {
    let mut parts = text.split(':');
    let (epoch, seq) = parts.next()?.split_once('.')?;
    let (seq, gaps) = match seq.split_once('-') {
        Some((seq, pending)) => {
            let pending = pending.parse().ok()?;
            (seq, vec![(pending, pending)])
        }
        None => (seq, vec![]),
    };
    let effect = |part: &str| {
        let (effect, reached) = part.split_once('=')?;
        Some((effect.parse().ok()?, Reached::parse(reached)?))
    };
    let effects = parts.map(effect).collect::<Option<_>>()?;
    let (epoch, last) = (Epoch(epoch.parse().ok()?), seq.parse().ok()?);
    Some(StreamPosition { epoch, last, gaps, effects, sessions: None })
}

fn parse_home(text: &str) -> Option<StreamPosition> {
    let mut parts = text.split(';');
    let mut head = parts.next()?.split('~');
    let (epoch, last) = head.next()?.split_once('.')?;
    let gap = |part: &str| {
        let (from, until) = part.split_once('-')?;
        Some((from.parse().ok()?, until.parse().ok()?)).filter(|(from, until): &(u64, u64)| from <= until)
    };
    let gaps: Vec<(u64, u64)> = head.map(gap).collect::<Option<_>>()?;
    let session = |part: &str| {
        let (branch, position) = part.split_once('=')?;
        Some((branch.parse().ok()?, parse_session(position)?))
    };
    let sessions = Some(parts.map(session).collect::<Option<_>>()?);
    let (epoch, last) = (Epoch(epoch.parse().ok()?), last.parse().ok()?);
    let is_in_order = gaps.windows(2).all(|two| two[0].1 < two[1].0);
    let is_within =
        gaps.first().is_none_or(|(from, _)| *from > 0) && gaps.last().is_none_or(|(_, until)| *until < last);
    (is_in_order && is_within).then_some(StreamPosition { epoch, last, gaps, effects: BTreeMap::new(), sessions })
}

impl Reached {
    fn parse(text: &str) -> Option<Self> {
        let mut figures = text.split('.').map(str::parse);
        let end = figures.next()?.ok()?;
        let Some(text) = figures.next() else { return Some(Self { end, text: end, reasoning: 0 }) };
        let reached = Self { end, text: text.ok()?, reasoning: figures.next()?.ok()? };
        figures.next().is_none().then_some(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(position: &mut StreamPosition, first: u64, last: u64) {
        position.see_range((Position(first), Position(last)), Epoch(2));
    }

    fn beginning() -> StreamPosition {
        StreamPosition::beginning(StreamScope::Home)
    }

    #[test]
    fn r43_batches_that_overtake_each_other_leave_gaps_until_they_are_observed() {
        let mut position = beginning();
        see(&mut position, 1, 3);
        assert_eq!(position.to_string(), "home:2.3");
        see(&mut position, 8, 9);
        see(&mut position, 12, 12);
        assert_eq!(position.to_string(), "home:2.12~4-7~10-11");
        see(&mut position, 5, 6);
        assert_eq!(position.to_string(), "home:2.12~4-4~7-7~10-11");
        let seen: Vec<u64> = (1..15).filter(|at| position.has_seen_entry(*at)).collect();
        assert_eq!(seen, [1, 2, 3, 5, 6, 8, 9, 12]);
        see(&mut position, 4, 4);
        see(&mut position, 7, 11);
        assert_eq!(position, StreamPosition::of_home(Epoch(2), Position(12)));
    }

    #[test]
    fn r43_a_cursor_of_the_home_is_bounded() {
        let mut position = beginning();
        for at in 0..10_000 {
            see(&mut position, 2 * at + 2, 2 * at + 2);
        }
        assert_eq!(position.gaps().len(), GAPS);
        assert!(position.to_string().len() < 16 * GAPS);
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        let branch = BranchId(uuid::Uuid::from_u128(3));
        let effect = "00000000-0000-0000-0000-000000000001/request/1/1";
        for text in ["home:2.12~4-7~10-11", "home:0.0", &format!("home:2.12;{branch}=1.4:{effect}=17.12.5")] {
            assert_eq!(StreamPosition::parse(StreamScope::Home, text).unwrap().to_string(), text);
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
            let parsed = StreamPosition::parse(StreamScope::Home, wrong);
            assert!(parsed.is_err_and(|error| error.text == wrong), "{wrong}");
        }
        assert!(StreamPosition::parse(StreamScope::Session, "home:2.12").is_err());
    }
}
