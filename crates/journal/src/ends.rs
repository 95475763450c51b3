//! Which batches a full disk still accepts, from the reserve: those that end runs.

use engine::{Batch, Event};

/// Whether a batch only ends runs or finishes work in progress, and neither accepts nor starts anything. Once the end
/// of a run is decided, no batch of it starts anything, whatever else the batch holds.
pub(crate) fn only_ends(batch: &Batch) -> bool {
    let has = |is: fn(&Event) -> bool| batch.records.iter().any(|record| is(&record.event));
    let accepts = has(|event| matches!(event, Event::MessageAccepted(_) | Event::RunStarted(_)));
    let decided = has(|event| matches!(event, Event::EndingSet(_) | Event::RunEnded(_)));
    let ends = has(|event| {
        matches!(
            event,
            Event::CallSettled(_)
                | Event::CallEnding(_)
                | Event::ProcessEnding(_)
                | Event::ProcessEnded(_)
                | Event::UndoEnded(_)
                | Event::ErasureEnded(_)
                | Event::Closed(_)
        )
    });
    let begins = has(|event| {
        matches!(
            event,
            Event::StepBegun(_)
                | Event::RequestSent(_)
                | Event::CallStarted(_)
                | Event::CompactionBegun(_)
                | Event::DeliveryStarted(_)
                | Event::UndoStarted(_)
        )
    });
    !accepts && (decided || ends && !begins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Script;
    use crate::suite::samples::every_other_kind;

    /// A batch of sample events of these kinds.
    fn batch(kinds: &[&str]) -> Batch {
        let (events, bodies) = every_other_kind();
        let events = events.into_iter().filter(|event| kinds.contains(&event.kind())).collect();
        Script::new(1).batch(events, bodies)
    }

    #[test]
    fn only_what_ends_runs_is_taken_from_the_reserve() {
        for ends in [
            &["run_ended"][..],
            &["opened", "request_sent", "ending_set", "call_ending"],
            &["call_settled"],
            &["call_found", "call_settled"],
            &["call_ending"],
            &["process_ending"],
            &["process_ended", "process_forgotten"],
            &["stream_cut", "closed"],
            &["erasure_ended"],
        ] {
            assert!(only_ends(&batch(ends)), "{ends:?}");
        }
        for begins in [
            &["message_accepted"][..],
            &["message_accepted", "run_ended"],
            &["run_started", "ending_set"],
            &["call_settled", "step_begun", "request_sent"],
            &["call_settled", "call_started"],
            &["opened"],
            &["text_added"],
            &["message_sealed"],
        ] {
            assert!(!only_ends(&batch(begins)), "{begins:?}");
        }
    }
}
