//! The written invariants that one state can break by itself. They hold after each batch; within one they need not.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Leg, ReceiptState};
use crate::ids::{CallId, EffectId, MessageId, RunId, Seq};
use crate::state::{
    Call, LegState, Lifecycle, Message, Phase, PrepareStage, ProcessState, Run, Session, Stage, Unpaired,
};
use crate::tables::limits::ENDED_PROCESSES;

/// An invariant that a state breaks. Its text begins with the invariant's letters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvariantViolation {
    /// A run is in no lifecycle state.
    #[error("INV-A1: run {run} is in no state of the session's lifecycle")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Lane { run: RunId },
    /// A sender's key does not lead to the message that was sent with it.
    #[error("INV-A3: the key `{key}` does not name the message that was sent with it")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Key { key: String },
    /// A leg of a message is not in the one place that its receipt names.
    #[error(
        "INV-A6: the {leg:?} leg of message {message} is {state:?}, {queued} times in the queue, in the run: {in_run}"
    )]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Leg {
        message: MessageId,
        leg: Leg,
        /// What its receipt says.
        state: ReceiptState,
        /// How often it is in the queue.
        queued: usize,
        /// Whether it is in the unfinished run.
        in_run: bool,
    },
    /// The queue holds a message that was never accepted.
    #[error("INV-A6: message {message} waits and was never accepted")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Unaccepted { message: MessageId },
    /// A message waits for a session that has ended.
    #[error("INV-A6: {count} messages wait for a session that has ended")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    EndedQueue { count: usize },
    /// The request in flight does not have exactly one result for each call.
    #[error("INV-D4: {0}")]
    Pairing(Unpaired),
    /// Two calls of a step share an id.
    #[error("INV-D4: call {call} is in its step twice")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    SameCall { call: CallId },
    /// Every call of a step has its result, and the results are not in the history.
    #[error("INV-D6: all calls of step {step} are settled, and their results are not in the history")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Results { step: u32 },
    /// A call asks for approval, and nothing binds the approval to it.
    #[error("INV-D9: call {call} asks for approval without a fingerprint")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Approval { call: CallId },
    /// A session that has ended holds a running process.
    #[error("INV-D7: process {process} runs in a session that has ended")]
    Process {
        /// The effect that started it.
        process: EffectId,
    },
    /// More ended processes are listed than the limit.
    #[error("INV-D8: {count} ended processes are listed, at most {most} may be", most = ENDED_PROCESSES)]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    EndedProcesses { count: usize },
    /// An erasure is owed, and the session still reads what is to be erased.
    #[error("INV-D10: what came up to entry {until} is to be erased, and the session still reads it")]
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Erasure { until: Seq },
    /// A candidate is in cooldown twice: one of the times would be forgotten.
    #[error("INV-F3: candidate {candidate} is in cooldown twice")]
    Cooldown {
        /// Its place in the settings.
        candidate: u32,
    },
}

impl Session {
    /// Checks every invariant that a state alone can break, as it must hold between two batches. It looks at the whole
    /// history: it is for debug builds, the simulator and `limulus doctor`.
    pub fn check(&self) -> Result<(), InvariantViolation> {
        if let Some(run) = &self.conversation.run_in_transition {
            return Err(InvariantViolation::Lane { run: run.id });
        }
        self.check_keys()?;
        self.check_messages()?;
        self.check_end()?;
        let ended = self.account.processes.iter().filter(|process| process.is_ended()).count();
        if ended > ENDED_PROCESSES {
            return Err(InvariantViolation::EndedProcesses { count: ended });
        }
        self.check_erasure()?;
        let Some(run) = self.run() else { return Ok(()) };
        if matches!(run.phase, Phase::Preparing { stage: PrepareStage::Sent(_) } | Phase::Streaming(_)) {
            self.conversation.transcript.check().map_err(InvariantViolation::Pairing)?;
        }
        check_calls(run)?;
        check_cooldowns(run)
    }

    fn check_keys(&self) -> Result<(), InvariantViolation> {
        let leads =
            |key: &String, id: &MessageId| self.account.messages.get(id).is_some_and(|m| m.key.as_ref() == Some(key));
        let lost = self.account.keys.iter().find(|(key, id)| !leads(key, id));
        lost.map_or(Ok(()), |(key, _)| Err(InvariantViolation::Key { key: key.clone() }))
    }

    /// accepted = ended + in the run + waiting + settled: each leg is in one place.
    fn check_messages(&self) -> Result<(), InvariantViolation> {
        let mut queued: BTreeMap<(MessageId, bool), usize> = BTreeMap::new();
        for waiting in &self.conversation.queue {
            *queued.entry((waiting.message, waiting.is_extra())).or_default() += 1;
        }
        if let Some((message, _)) = queued.keys().find(|(message, _)| !self.account.messages.contains_key(message)) {
            return Err(InvariantViolation::Unaccepted { message: *message });
        }
        for (id, message) in &self.account.messages {
            for (leg, state) in legs(message) {
                let waits = queued.get(&(*id, leg == Leg::Steer)).copied().unwrap_or_default();
                self.check_leg(*id, leg, state, waits)?;
            }
        }
        Ok(())
    }

    fn check_leg(
        &self,
        message: MessageId,
        leg: Leg,
        LegState { state, run }: LegState,
        queued: usize,
    ) -> Result<(), InvariantViolation> {
        let is_extra = leg == Leg::Steer;
        // The run of a message's own id has its followup in it.
        let may_be_in = !is_extra || run != message.into();
        let is_in = |current: &Run| current.id == run && current.inputs.contains(&message);
        let in_run = may_be_in && self.run().is_some_and(is_in);
        let holds = match state {
            ReceiptState::Queued => (queued, in_run) == (1, false),
            // A steer that came too late goes with the followup of its message, wherever that is.
            ReceiptState::Merged if is_extra && run == message.into() => true,
            ReceiptState::Started | ReceiptState::Steered | ReceiptState::Delivered | ReceiptState::Merged => {
                (queued, in_run) == (0, true)
            }
            ReceiptState::Ended | ReceiptState::Cancelled | ReceiptState::Dropped => (queued, in_run) == (0, false),
            ReceiptState::Refused => false,
        };
        if holds { Ok(()) } else { Err(InvariantViolation::Leg { message, leg, state, queued, in_run }) }
    }

    /// Nothing of the old conversation is read while its erasure is owed: no item, no note of a dropped message, no run.
    fn check_erasure(&self) -> Result<(), InvariantViolation> {
        let Some(erasure) = &self.account.erasure else { return Ok(()) };
        let until = erasure.until;
        let is_old = |seq: &Seq| erasure.branch == self.account.branch && *seq <= until;
        let reads = self.conversation.transcript.seqs().iter().any(is_old);
        let runs = self.run().is_some_and(|run| is_old(&run.first_seq));
        if reads || runs { Err(InvariantViolation::Erasure { until }) } else { Ok(()) }
    }

    /// Nothing waits for a session that has ended, and nothing of it runs.
    fn check_end(&self) -> Result<(), InvariantViolation> {
        if self.conversation.lifecycle != Lifecycle::Terminated {
            return Ok(());
        }
        if !self.conversation.queue.is_empty() {
            return Err(InvariantViolation::EndedQueue { count: self.conversation.queue.len() });
        }
        let running = self.account.processes.iter().find(|process| process.state == ProcessState::Running);
        running.map_or(Ok(()), |process| Err(InvariantViolation::Process { process: process.effect }))
    }
}

fn legs(message: &Message) -> impl Iterator<Item = (Leg, LegState)> {
    let followup = LegState { state: message.state, run: message.run };
    [(Leg::Followup, followup)].into_iter().chain(message.steer.map(|steer| (Leg::Steer, steer)))
}

fn check_calls(run: &Run) -> Result<(), InvariantViolation> {
    let calls = &run.step.calls;
    let mut known = BTreeSet::new();
    if let Some(call) = calls.iter().find(|call| !known.insert(call.id)) {
        return Err(InvariantViolation::SameCall { call: call.id });
    }
    if !calls.is_empty() && calls.iter().all(Call::is_settled) {
        return Err(InvariantViolation::Results { step: run.step.no });
    }
    let asks = |call: &&Call| call.stage == Stage::Asking && call.fingerprint.is_none();
    calls.iter().find(asks).map_or(Ok(()), |call| Err(InvariantViolation::Approval { call: call.id }))
}

fn check_cooldowns(run: &Run) -> Result<(), InvariantViolation> {
    let mut known = BTreeSet::new();
    let twice = run.counts.candidates.cooling.iter().find(|cooling| !known.insert(cooling.candidate));
    twice.map_or(Ok(()), |cooling| Err(InvariantViolation::Cooldown { candidate: cooling.candidate }))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::body::{Body, BodyKind};
    use crate::event::{Created, MessageAccepted, ProcessCause, QueueMode, QueuePlace, RunStarted, SealedCall};
    use crate::ids::{BranchId, Hash, SessionId, Timestamp};
    use crate::settings::ToolClass;
    use crate::state::{Cooling, Process, Sent};

    const ONE: MessageId = MessageId(Uuid::from_u128(1));
    const TWO: MessageId = MessageId(Uuid::from_u128(2));

    fn body() -> Body {
        Body { hash: Hash::of(b"x"), kind: BodyKind::Message, bytes: 1, tokens: 1 }
    }

    fn accept(session: &mut Session, message: MessageId, mode: QueueMode, place: QueuePlace) {
        let accepted = MessageAccepted {
            message,
            body: body(),
            mode,
            key: Some(format!("key of {message}")),
            overrides: crate::event::Overrides::default(),
            attachments: vec![],
            place,
            debounce_ms: None,
            ends: None,
            mode_by: None,
            origin: None,
            reply_to: None,
            masked: 0,
        };
        session.apply(&accepted.into(), Timestamp(2));
    }

    /// The first of two messages has an unfinished run.
    fn good() -> Session {
        let id = Uuid::from_u128(7);
        let created = Created {
            session: SessionId(id),
            key: "agent:main:main".into(),
            agent: "main".into(),
            branch: BranchId(id),
        };
        let mut session = Session::created(&created, Timestamp(1));
        session.conversation.lifecycle = Lifecycle::Ready;
        accept(&mut session, ONE, QueueMode::Followup, QueuePlace::Back);
        let started = RunStarted { run: ONE.into(), inputs: vec![ONE], settings: Hash::of(b"settings"), blocks: false };
        session.apply(&started.into(), Timestamp(3));
        accept(&mut session, TWO, QueueMode::SteerBacklog, QueuePlace::Both);
        session
    }

    fn call(index: u32, stage: Stage) -> Call {
        let sealed = SealedCall {
            id: CallId { run: ONE.into(), step: 1, index },
            provider_id: "p".into(),
            tool: "read".into(),
            class: ToolClass::ReadOnly,
            arguments: body(),
            answer: None,
        };
        Call { stage, ..Call::new(&sealed, index) }
    }

    fn process(session: &Session, state: ProcessState) -> Process {
        let effect = session.run().unwrap().effect(crate::ids::EffectKind::RunCall, 1, 1);
        let (call, arguments) = (call(1, Stage::Ready).id, body());
        Process { effect, call, arguments, started_at: Timestamp(1), until: Timestamp(9), state }
    }

    /// What the check says of a state that was good before this change.
    fn broken(change: impl FnOnce(&mut Session)) -> String {
        let mut session = good();
        change(&mut session);
        let text = session.check().expect_err("this state breaks an invariant").to_string();
        text.split_once(':').expect("its letters come first").0.to_owned()
    }

    fn run(session: &mut Session) -> &mut Run {
        session.run_mut().unwrap()
    }

    #[test]
    fn a_good_state_breaks_nothing() {
        assert_eq!(good().check(), Ok(()));
    }

    #[test]
    fn a1_a_run_is_in_the_lifecycle() {
        let in_transition = |session: &mut Session| {
            let Lifecycle::Active(run) = std::mem::replace(&mut session.conversation.lifecycle, Lifecycle::Idle) else {
                panic!()
            };
            session.conversation.run_in_transition = Some(run);
        };
        assert_eq!(broken(in_transition), "INV-A1");
    }

    #[test]
    fn a3_a_key_leads_to_its_message() {
        let another = |session: &mut Session| {
            session.account.keys.insert("another".into(), ONE);
        };
        assert_eq!(broken(another), "INV-A3");
    }

    #[test]
    fn a6_a_leg_is_in_one_place() {
        assert_eq!(broken(|session| drop(session.conversation.queue.pop_back())), "INV-A6", "its followup is lost");
        assert_eq!(broken(|session| drop(session.conversation.queue.pop_front())), "INV-A6", "its steer is lost");
        let twice = |session: &mut Session| session.conversation.queue.push_back(session.conversation.queue[0].clone());
        assert_eq!(broken(twice), "INV-A6", "it waits twice");
        assert_eq!(broken(|session| run(session).inputs.clear()), "INV-A6", "it started and no run has it");
        assert_eq!(
            broken(|session| drop(session.account.messages.remove(&TWO))),
            "INV-A3",
            "it was accepted with a key"
        );
        let unaccepted = |session: &mut Session| {
            session.account.keys.clear();
            session.account.messages.remove(&TWO);
        };
        assert_eq!(broken(unaccepted), "INV-A6", "nobody accepted it");
    }

    #[test]
    fn a6_nothing_waits_for_a_session_that_has_ended() {
        let ended = |session: &mut Session| {
            session.conversation.lifecycle = Lifecycle::Terminated;
            session.account.messages.remove(&ONE);
            session.account.keys.retain(|_, message| *message == TWO);
        };
        assert_eq!(broken(ended), "INV-A6");
    }

    #[test]
    fn d4_a_request_has_a_result_for_each_call() {
        let unpaired = |session: &mut Session| {
            let result = crate::state::Item::Result {
                call: call(1, Stage::Ready).id,
                output: body(),
                is_error: false,
                attachments: vec![],
            };
            let head = session.account.head;
            session.conversation.transcript.push(result, head);
            let request = session.run().unwrap().effect(crate::ids::EffectKind::Request, 1, 1);
            let sent =
                Sent { request, epoch: session.account.epoch, at: Timestamp(4), items: 1, tokens: 1, reserved: None };
            run(session).phase = Phase::Preparing { stage: PrepareStage::Sent(sent) };
        };
        assert_eq!(broken(unpaired), "INV-D4");
        let same = |session: &mut Session| run(session).step.calls = vec![call(1, Stage::Ready), call(1, Stage::Ready)];
        assert_eq!(broken(same), "INV-D4");
    }

    #[test]
    fn d6_results_go_into_the_history() {
        let outcome = crate::event::CallOutcome::Done;
        let settled = Stage::Settled { outcome, output: body(), attachments: vec![] };
        assert_eq!(broken(|session| run(session).step.calls = vec![call(1, settled)]), "INV-D6");
    }

    #[test]
    fn d9_an_approval_binds_to_the_call() {
        assert_eq!(broken(|session| run(session).step.calls = vec![call(1, Stage::Asking)]), "INV-D9");
    }

    #[test]
    fn d7_nothing_runs_in_a_session_that_has_ended() {
        let ended = |session: &mut Session| {
            session.account.processes = vec![process(session, ProcessState::Running)];
            (session.conversation.queue, session.account.messages, session.account.keys) =
                ([].into(), [].into(), [].into());
            session.conversation.lifecycle = Lifecycle::Terminated;
        };
        assert_eq!(broken(ended), "INV-D7");
        let ending = |session: &mut Session| {
            ended(session);
            session.account.processes[0].state = ProcessState::Ending { why: ProcessCause::Session };
        };
        let mut session = good();
        ending(&mut session);
        assert_eq!(session.check(), Ok(()), "one that is being ended may outlive its session");
    }

    #[test]
    fn d8_few_ended_processes_are_listed() {
        let many = |session: &mut Session| {
            let outcome = crate::event::CallOutcome::Done;
            let ended = process(session, ProcessState::Ended { outcome, how: "exit 0".into(), at: Timestamp(5) });
            session.account.processes = vec![ended; ENDED_PROCESSES + 1];
        };
        assert_eq!(broken(many), "INV-D8");
    }

    #[test]
    fn d10_what_is_to_be_erased_is_not_read() {
        let owed = |session: &mut Session, until: Seq| {
            let effect = EffectId {
                run: RunId(session.account.id.0),
                kind: crate::ids::EffectKind::Erase,
                ordinal: 1,
                try_no: 1,
            };
            session.account.erasure =
                Some(crate::state::Erasure { effect, branch: session.account.branch, until, failed: None });
        };
        let mut session = good();
        owed(&mut session, Seq(1));
        assert_eq!(session.check(), Ok(()), "the run began behind it");
        assert_eq!(
            broken(|session| owed(session, session.account.head)),
            "INV-D10",
            "the run reads what is to be erased"
        );
    }

    #[test]
    fn f3_a_candidate_is_in_cooldown_once() {
        let twice = |session: &mut Session| {
            let cooling = Cooling { candidate: 1, until: None, failures: 1, class: None, since: Timestamp(1) };
            run(session).counts.candidates.cooling = vec![cooling; 2];
        };
        assert_eq!(broken(twice), "INV-F3");
    }
}
