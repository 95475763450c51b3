//! The batches of short runs whose end somebody awaits: what follows from such a run needs no reading of the journal.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{Batch, RunId, SessionId};

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
}

impl ShortRuns {
    /// A run begins with this batch.
    pub(super) fn begin(&mut self, run: RunId, batch: &Arc<Batch>) {
        self.0.insert(batch.session, ShortRun { run, batches: vec![], bytes: 0 });
        self.add(batch);
    }

    /// A batch was recorded. A run that is not short any more is given up.
    pub(super) fn add(&mut self, batch: &Arc<Batch>) {
        let Some(short) = self.0.get_mut(&batch.session) else { return };
        short.bytes += batch.bodies.iter().map(|content| content.bytes.len()).sum::<usize>();
        short.batches.push(Arc::clone(batch));
        if short.bytes > BYTES || short.batches.len() > BATCHES {
            self.0.remove(&batch.session);
        }
    }

    /// All batches of a run that has ended; `None` if it was not short, or not awaited from its beginning.
    pub(super) fn take(&mut self, session: SessionId, run: RunId) -> Option<Arc<[Arc<Batch>]>> {
        self.0.remove(&session).filter(|short| short.run == run).map(|short| short.batches.into())
    }
}

#[cfg(test)]
mod tests {
    use engine::{BodyKind, BranchId, Content, Views};
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
    }
}
