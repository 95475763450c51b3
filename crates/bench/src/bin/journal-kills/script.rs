//! The appended data as a function of seed and step, so that the parent knows each attempt without asking the child.

use std::fmt::Write as _;
use std::sync::Arc;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Batch, Body, BodyKind, BranchId, Content, Created, EffectId, EffectKind, Epoch, Event, MessageAccepted, MessageId,
    MessageSealed, Next, OverrideSet, Overrides, QueueMode, QueuePlace, ReceiptRow, ReceiptState, Record,
    RequestOpened, RequestSent, RunId, Seq, SessionId, SessionRow, StepBegun, TextAdded, Timestamp, Usage, Views,
};
use journal::Snapshot;
use uuid::Uuid;

use model_server::rng::Rng;

/// Pieces of text that each stream has.
const PIECES: u64 = 5;
/// Steps of one turn: accepted, sent, opened, the pieces, sealed, overridden.
const TURN_STEPS: u64 = 5 + PIECES;
/// Entries of one turn: `sent` has two.
const TURN_ENTRIES: u64 = 6;

/// One session of a home and everything that is ever appended to it: step 0 creates it, then turns follow without end.
#[derive(Debug, Clone)]
pub(super) struct Script {
    seed: u64,
    index: u64,
    pub(super) session: SessionId,
    pub(super) branch: BranchId,
}

/// The action of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Created,
    /// Synced, with a body, a receipt and the session's row.
    Accepted,
    /// Two entries, one Written and one Synced: both are stored or none.
    Sent,
    /// An entry that is written, not synced.
    Opened,
    /// Progress: the piece of this number.
    Piece(u64),
    /// Synced, with the body that the pieces add up to; it removes them.
    Sealed,
    /// An entry that is synced.
    Overridden,
}

/// The act of a step, and its turn.
fn act(step: u64) -> (u64, Act) {
    let Some(step) = step.checked_sub(1) else { return (0, Act::Created) };
    let (turn, at) = (step / TURN_STEPS, step % TURN_STEPS);
    let act = match at {
        0 => Act::Accepted,
        1 => Act::Sent,
        2 => Act::Opened,
        at if at < 3 + PIECES => Act::Piece(at - 3),
        at if at == 3 + PIECES => Act::Sealed,
        _ => Act::Overridden,
    };
    (turn, act)
}

/// The number of entries of the branch after this many steps.
pub(super) fn entries_after(steps: u64) -> u64 {
    let Some(before) = steps.checked_sub(1) else { return 0 };
    let (turns, at) = (before / TURN_STEPS, before % TURN_STEPS);
    let in_turn = match at {
        0 | 1 => at,
        2 => 3,
        at if at < 4 + PIECES => 4,
        _ => 5,
    };
    1 + turns * TURN_ENTRIES + in_turn
}

/// Whether the step is only acknowledged once it is synced.
pub(super) fn is_synced(step: u64) -> bool {
    !matches!(act(step).1, Act::Opened | Act::Piece(_))
}

/// Whether the step adds entries.
pub(super) fn has_entries(step: u64) -> bool {
    !matches!(act(step).1, Act::Piece(_))
}

impl Script {
    pub(super) fn new(seed: u64, index: u64) -> Self {
        let mut rng = Rng::new(seed ^ (index + 1).wrapping_mul(0x9E37_79B9));
        let mut id = || Uuid::from_u64_pair(rng.next(), rng.next());
        let (session, branch) = (SessionId(id()), BranchId(id()));
        Self { seed, index, session, branch }
    }

    pub(super) fn key(&self) -> String {
        format!("agent:main:kills-{}", self.index)
    }

    /// How many steps are done if the branch has this many entries and bytes of open progress; `None` if no number of
    /// steps gives that: then a batch is stored only in part, or progress outlived its seal.
    pub(super) fn steps_done(&self, entries: u64, open_bytes: u64) -> Option<u64> {
        if entries == 0 {
            return (open_bytes == 0).then_some(0);
        }
        let (turn, in_turn) = ((entries - 1) / TURN_ENTRIES, (entries - 1) % TURN_ENTRIES);
        let steps = match in_turn {
            0 | 1 => in_turn,
            3 => 2,
            4 => 3,
            5 => 4 + PIECES,
            _ => return None,
        };
        let done = 1 + turn * TURN_STEPS + steps;
        if in_turn != 4 {
            return (open_bytes == 0).then_some(done);
        }
        (0..=PIECES).find(|pieces| self.offset(turn, *pieces) == open_bytes).map(|pieces| done + pieces)
    }

    /// The batch of a step.
    pub(super) fn batch(&self, step: u64) -> Batch {
        let at = at(step);
        let mut seq = entries_after(step);
        let record = |event: Event| {
            let is_progress = event.progress().is_some();
            seq += u64::from(!is_progress);
            Record { seq: (!is_progress).then_some(Seq(seq)), at, event }
        };
        let (events, bodies) = self.events(step);
        Batch {
            session: self.session,
            branch: self.branch,
            records: events.into_iter().map(record).collect(),
            bodies,
            views: self.views(step),
        }
    }

    fn events(&self, step: u64) -> (Vec<Event>, Vec<Content>) {
        let (turn, act) = act(step);
        let request = self.request(turn);
        match act {
            Act::Created => {
                let (key, agent) = (self.key(), "main".to_owned());
                (vec![Created { session: self.session, key, agent, branch: self.branch }.into()], vec![])
            }
            Act::Accepted => {
                let body = self.body(step, BodyKind::Message, 4_000);
                let accepted = MessageAccepted {
                    message: self.message(turn),
                    body: body.body,
                    mode: QueueMode::Followup,
                    key: Some(turn_key(turn)),
                    overrides: Overrides::default(),
                    attachments: vec![],
                    place: QueuePlace::Back,
                    debounce_ms: None,
                    ends: None,
                    mode_by: None,
                    origin: None,
                    reply_to: None,
                    masked: 0,
                };
                (vec![accepted.into()], vec![body])
            }
            Act::Sent => {
                let prompt = self.body(step, BodyKind::Prompt, 2_000);
                let begun = StepBegun { step: 1, prompt: prompt.body };
                let sent = RequestSent {
                    reserved: None,
                    tokens: 0,
                    request,
                    epoch: Epoch(1),
                    candidate: 0,
                    items: 1,
                    probe: false,
                };
                (vec![begun.into(), sent.into()], vec![prompt])
            }
            Act::Opened => (vec![RequestOpened { request }.into()], vec![]),
            Act::Piece(piece) => {
                let (offset, text) = (self.offset(turn, piece), self.piece(turn, piece));
                (vec![TextAdded { effect: request, offset, text }.into()], vec![])
            }
            Act::Sealed => {
                let text: String = (0..PIECES).map(|piece| self.piece(turn, piece)).collect();
                let text = Content::text(BodyKind::Message, &text);
                (vec![sealed(request, text.body)], vec![text])
            }
            Act::Overridden => (
                vec![
                    OverrideSet {
                        model: Some(self.text(step, 300)),
                        thinking: None,
                        verbose: None,
                        queue_mode: None,
                        interrupt: None,
                    }
                    .into(),
                ],
                vec![],
            ),
        }
    }

    /// Every entry comes with the row of the session, so that both can be compared.
    fn views(&self, step: u64) -> Views {
        let (turn, act) = act(step);
        if !has_entries(step) {
            return Views::default();
        }
        let receipt = (act == Act::Accepted).then(|| ReceiptRow {
            message: self.message(turn),
            session: self.session,
            key: Some(turn_key(turn)),
            body: self.body(step, BodyKind::Message, 4_000).body,
            mode: QueueMode::Followup,
            state: ReceiptState::Queued,
            steer: None,
            run: self.message(turn).into(),
            accepted_at: at(step),
        });
        Views { session: Some(self.row(step)), receipts: receipt.into_iter().collect(), ..Views::default() }
    }

    fn row(&self, step: u64) -> SessionRow {
        SessionRow {
            session: self.session,
            key: self.key(),
            agent: "main".to_owned(),
            branch: self.branch,
            created_at: at(0),
            last_activity: at(step),
            lifecycle: LifecycleKind::Active,
            run_state: RunState::Streaming,
            run: None,
            queued: 0,
            unfinished: step.is_multiple_of(2),
            trouble: None,
            totals: None,
            title: None,
            model_title: None,
            visibility: engine::Visibility::Listed,
            begun_at: None,
        }
    }

    /// The snapshot that follows a step: one per turn. The journal alone does not look into it.
    pub(super) fn snapshot_after(&self, step: u64) -> Option<Snapshot> {
        let content = || self.text(step | 1 << 40, 3_000).into_bytes();
        let is_due = act(step).1 == Act::Overridden;
        is_due.then(|| Snapshot::new(self.branch, Seq(entries_after(step + 1)), content()))
    }

    /// The session's row after this many steps; `None` before the first.
    pub(super) fn row_after(&self, steps: u64) -> Option<SessionRow> {
        (0..steps).rev().find(|step| has_entries(*step)).map(|step| self.row(step))
    }

    fn message(&self, turn: u64) -> MessageId {
        let mut rng = Rng::new(self.seed ^ self.index << 32 ^ turn);
        MessageId(Uuid::from_u64_pair(rng.next(), rng.next()))
    }

    fn request(&self, turn: u64) -> EffectId {
        let run: RunId = self.message(turn).into();
        EffectId { run, kind: EffectKind::Request, ordinal: 1, try_no: 1 }
    }

    fn body(&self, step: u64, kind: BodyKind, most: u64) -> Content {
        Content::text(kind, &self.text(step, most))
    }

    fn piece(&self, turn: u64, piece: u64) -> String {
        self.text(1 + turn * TURN_STEPS + 3 + piece, 400)
    }

    /// Bytes before a piece of a stream.
    fn offset(&self, turn: u64, piece: u64) -> u64 {
        (0..piece).map(|piece| self.piece(turn, piece).len() as u64).sum()
    }

    /// 20 bytes to `most`, of words that differ from step to step.
    fn text(&self, step: u64, most: u64) -> String {
        let mut rng = Rng::new(self.seed.rotate_left(17) ^ self.index << 48 ^ step);
        let bytes = rng.below(most - 20) + 20;
        let mut text = String::new();
        while (text.len() as u64) < bytes {
            write!(text, "{:x} the word ", rng.next() >> 40).expect("a String takes whatever is written to it");
        }
        text.truncate(bytes as usize);
        text
    }
}

fn sealed(request: EffectId, text: Body) -> Event {
    let usage = Usage { input: 10, output: 20, ..Usage::default() };
    MessageSealed {
        cost: 0,
        request,
        text: Some(text),
        reasoning: None,
        calls: vec![],
        usage,
        stop_reason: None,
        next: Next::Finish,
        blocks: None,
        images: vec![],
    }
    .into()
}

fn turn_key(turn: u64) -> String {
    format!("turn-{turn}")
}

fn at(step: u64) -> Timestamp {
    Timestamp(i64::try_from(step + 1).unwrap_or(i64::MAX))
}

/// Every session of a home.
pub(super) fn sessions(seed: u64, count: u64) -> Arc<[Script]> {
    (0..count).map(|index| Script::new(seed, index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_says_how_many_steps_are_done() {
        let script = Script::new(7, 3);
        let (mut entries, mut open) = (0, 0);
        for step in 0..3 * TURN_STEPS {
            assert_eq!(script.steps_done(entries, open), Some(step));
            assert_eq!(entries_after(step), entries);
            for record in script.batch(step).records {
                match &record.event {
                    Event::TextAdded(e) => open = e.offset + e.text.len() as u64,
                    event => {
                        entries += 1;
                        assert_eq!(record.seq, Some(Seq(entries)));
                        open = if event.seals().is_some() { 0 } else { open };
                    }
                }
            }
        }
    }

    #[test]
    fn half_a_batch_is_no_number_of_steps() {
        let script = Script::new(7, 3);
        let half_of_sent = entries_after(2) + 1;
        assert_eq!(script.steps_done(half_of_sent, 0), None);
        let after_the_seal = entries_after(1 + 4 + PIECES);
        assert_eq!(script.steps_done(after_the_seal, script.offset(0, PIECES)), None);
        assert_eq!(script.steps_done(entries_after(4), 1), None);
    }
}
