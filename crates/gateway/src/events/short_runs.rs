//! The batches of short runs whose end somebody awaits: what follows from such a run needs no reading of the journal.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{Batch, RunId, Seq, SessionId};

/// Most batches of such a run: a turn with a few calls.
const BATCHES: usize = 16;
/// Most bytes of its bodies, with its settings and its prompt.
const BYTES: usize = 64 << 10;

/// The awaited runs that are short so far.
#[derive(Default)]
pub(super) struct ShortRuns(HashMap<SessionId, ShortRun>);

struct ShortRun {
    run: RunId,
    batches: Vec<Arc<Batch>>,
    bytes: usize,
    /// The last entry of these batches.
    last: Option<Seq>,
}

impl ShortRuns {
    /// A run begins with this batch.
    pub(super) fn begin(&mut self, run: RunId, batch: &Arc<Batch>) {
        self.0.insert(batch.session, ShortRun { run, batches: vec![], bytes: 0, last: None });
        self.add(batch);
    }

    /// A batch was recorded. A run that is not short any more is given up, and so is one of which a batch is missing: its
    /// actor broke before it published what it had recorded.
    pub(super) fn add(&mut self, batch: &Arc<Batch>) {
        let Some(short) = self.0.get_mut(&batch.session) else { return };
        short.bytes += batch.bodies.iter().map(|content| content.bytes.len()).sum::<usize>();
        short.batches.push(Arc::clone(batch));
        let mut entries = batch.records.iter().filter_map(|record| record.seq);
        let first = entries.next();
        let is_missing = short.last.zip(first).is_some_and(|(last, first)| first.0 != last.0 + 1);
        short.last = entries.next_back().or(first).or(short.last);
        if is_missing || short.bytes > BYTES || short.batches.len() > BATCHES {
            self.0.remove(&batch.session);
        }
    }

    /// Nobody awaits this run any more.
    pub(super) fn forget(&mut self, run: RunId) {
        self.0.retain(|_, short| short.run != run);
    }

    /// All batches of a run that has ended; `None` if it was not short, or not awaited from its beginning.
    pub(super) fn take(&mut self, session: SessionId, run: RunId) -> Option<Arc<[Arc<Batch>]>> {
        self.0.remove(&session).filter(|short| short.run == run).map(|short| short.batches.into())
    }
}

#[cfg(test)]
mod tests {
    use engine::{BodyKind, BranchId, Content, Event, Record, Timestamp, Views};
    use uuid::Uuid;

    use super::*;

    fn batch(bytes: usize) -> Arc<Batch> {
        let bodies = vec![Content::text(BodyKind::Message, &"x".repeat(bytes))];
        let (session, branch) = (SessionId(Uuid::nil()), BranchId(Uuid::nil()));
        Arc::new(Batch { session, branch, records: vec![], bodies, views: Views::default() })
    }

    #[test]
    fn r46_only_a_short_run_is_kept_whole() {
        let (run, other, session) = (RunId(Uuid::from_u128(1)), RunId(Uuid::from_u128(2)), SessionId(Uuid::nil()));
        let after = |batches: usize, bytes: usize| {
            let mut runs = ShortRuns::default();
            runs.add(&batch(1));
            runs.begin(run, &batch(bytes));
            (1..batches).for_each(|_| runs.add(&batch(bytes)));
            runs
        };
        let kept = |batches, bytes| after(batches, bytes).take(session, run).map(|batches| batches.len());
        assert_eq!(kept(3, 1), Some(3));
        assert_eq!(kept(BATCHES, 1), Some(BATCHES));
        assert_eq!(kept(BATCHES + 1, 1), None);
        assert_eq!((kept(2, BYTES / 2), kept(2, BYTES / 2 + 1)), (Some(2), None));
        assert!(after(1, 1).take(session, other).is_none());
        let mut runs = after(1, 1);
        runs.forget(run);
        assert!(runs.take(session, run).is_none());
    }

    /// An actor that breaks between a record and its publication leaves a gap.
    #[test]
    fn r46_a_run_of_which_a_batch_is_missing_is_read_from_the_journal() {
        let (run, session) = (RunId(Uuid::from_u128(1)), SessionId(Uuid::nil()));
        let of = |entries: &[u64]| {
            let event = Event::Closed(engine::Closed { epoch: engine::Epoch(1) });
            let record = |seq: &u64| Record { seq: Some(Seq(*seq)), at: Timestamp(0), event: event.clone() };
            let mut batch = Batch::clone(&batch(1));
            batch.records = entries.iter().map(record).collect();
            Arc::new(batch)
        };
        let kept = |batches: &[&[u64]]| {
            let mut runs = ShortRuns::default();
            runs.begin(run, &of(batches[0]));
            batches[1..].iter().for_each(|entries| runs.add(&of(entries)));
            runs.take(session, run).map(|batches| batches.len())
        };
        assert_eq!(kept(&[&[3, 4], &[], &[5], &[6, 7]]), Some(4));
        assert_eq!(kept(&[&[3, 4], &[], &[6]]), None);
    }
}
