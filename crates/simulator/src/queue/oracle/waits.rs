//! The queue, in order.

use engine::{Effect, Leg, MessageId, QueueMode, QueuePlace, Queued, RunId, Timestamp};

use super::asked::Came;
use super::same;

/// A waiting leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) message: MessageId,
    leg: Leg,
    mode: QueueMode,
    at: Timestamp,
    debounce_ms: u64,
    gathered: bool,
    /// Its run only compacts.
    compacts: bool,
}

/// All waiting legs.
#[derive(Debug, Default)]
pub(super) struct Waits(Vec<Waiting>);

impl Waits {
    /// The number of waiting messages; a message with two legs counts once.
    pub(super) fn count(&self) -> usize {
        self.0.iter().filter(|one| !is_second(one)).count()
    }

    /// The place of a message in the queue, from 1.
    pub(super) fn place(&self, message: MessageId) -> Option<u32> {
        let mut place = 0;
        for one in self.0.iter().filter(|one| !is_second(one)) {
            place += 1;
            if one.message == message {
                return Some(place);
            }
        }
        None
    }

    pub(super) fn steers(&self) -> bool {
        self.0.iter().any(|one| one.leg == Leg::Steer)
    }

    pub(super) fn first_steer(&self) -> Option<MessageId> {
        self.0.iter().find(|one| one.leg == Leg::Steer).map(|one| one.message)
    }

    pub(super) fn head(&self) -> Option<&Waiting> {
        self.0.iter().find(|one| !is_second(one))
    }

    /// The message that is dropped first; interrupting messages come last.
    pub(super) fn oldest(&self) -> Option<MessageId> {
        let mut oldest = None;
        for one in self.0.iter().filter(|one| !is_second(one)) {
            if one.mode != QueueMode::Interrupt && oldest.is_none() {
                oldest = Some(one.message);
            }
        }
        oldest.or(self.0.first().map(|one| one.message))
    }

    /// Which of its legs wait: for each, whether it is the steer of a message with two legs.
    pub(super) fn legs_of(&self, message: MessageId, leg: Option<Leg>) -> Vec<bool> {
        self.0.iter().filter(|one| is_meant(one, message, leg)).map(is_second).collect()
    }

    pub(super) fn remove(&mut self, message: MessageId, leg: Option<Leg>) {
        self.0.retain(|one| !is_meant(one, message, leg));
    }

    pub(super) fn accept(&mut self, came: &Came, place: QueuePlace, at: Timestamp) {
        let (message, mode, debounce_ms) = (came.offered.message, came.mode, came.offered.queue.debounce_ms);
        let compacts = came.offered.compacts;
        let one = |leg| Waiting { message, leg, mode, at, debounce_ms, gathered: false, compacts };
        match place {
            QueuePlace::Back => self.0.push(one(Leg::Followup)),
            QueuePlace::Steer => self.0.push(one(Leg::Steer)),
            QueuePlace::Gather => self.0.push(one(Leg::Collect)),
            QueuePlace::Both => {
                self.0.push(one(Leg::Steer));
                self.0.push(one(Leg::Followup));
            }
            QueuePlace::Front => {
                let mut before = 0;
                while before < self.0.len() && self.0[before].mode == QueueMode::Interrupt {
                    before += 1;
                }
                self.0.insert(before, one(Leg::Followup));
            }
        }
    }

    /// The group at the head of the queue.
    fn group(&self) -> Vec<MessageId> {
        let mut group = vec![];
        let Some(head) = self.head().filter(|head| head.leg == Leg::Collect) else { return group };
        for one in self.0.iter().filter(|one| one.leg != Leg::Steer) {
            if one.leg != Leg::Collect || head.gathered != one.gathered {
                break;
            }
            group.push(one.message);
        }
        group
    }

    /// Completes a group.
    pub(super) fn gather(&mut self, messages: &[MessageId], at: Timestamp) -> Result<(), String> {
        same("the group", messages, &self.group())?;
        let last = self.0.iter().rfind(|one| messages.contains(&one.message)).ok_or("an empty group")?;
        if self.0.len() == messages.len() && at < last.at.plus(last.debounce_ms) {
            return Err("a group was completed before its time".into());
        }
        for one in self.0.iter_mut().filter(|one| messages.contains(&one.message)) {
            one.gathered = true;
        }
        Ok(())
    }

    /// Whether the next run only compacts.
    pub(super) fn compacts_next(&self) -> bool {
        self.head().is_some_and(|head| head.compacts)
    }

    /// Takes what the next run starts with: the head and its group. Steers wait for its first request.
    pub(super) fn take_starting(&mut self) -> Vec<MessageId> {
        let Some(head) = self.head().copied() else { return vec![] };
        let group = self.group();
        let (mut taken, mut left) = (vec![], vec![]);
        for one in &self.0 {
            let joins = one.leg == Leg::Collect && group.contains(&one.message);
            if joins || one.message == head.message {
                taken.push(one.message);
            } else {
                left.push(*one);
            }
        }
        self.0 = left;
        taken
    }

    /// Handles the end of a run: steers that it did not get wait for their own run.
    pub(super) fn miss(&mut self) -> Result<(), String> {
        for one in &mut self.0 {
            if is_second(one) {
                return Err("a leg that came too late is not merged".into());
            }
            if one.leg == Leg::Steer {
                one.leg = Leg::Followup;
            }
        }
        Ok(())
    }

    /// What must hold while nothing runs.
    pub(super) fn when_idle(&self) -> Result<(), String> {
        let open = self.head().is_some_and(|head| head.leg == Leg::Collect && !head.gathered);
        if open && self.group().len() < self.0.len() {
            return Err("something waits behind a group, and that is not complete".into());
        }
        if self.count() == 0 && !self.0.is_empty() {
            return Err("a steer waits, and no message is left to start its run".into());
        }
        Ok(())
    }

    /// Checks that a head that may start requests its lane, and nothing else does.
    pub(super) fn wants(&self, effects: &[Effect]) -> Result<(), String> {
        let head = self.head().filter(|head| head.leg != Leg::Collect || head.gathered);
        let head = head.map(|head| RunId::from(head.message));
        let mut lanes = effects.iter().map(|effect| match effect {
            Effect::Lane { id, .. } => Ok(id.run),
            other => Err(format!("{other:?} is wanted while nothing runs")),
        });
        same("the run that asks for its lane", lanes.next().transpose()?, head)?;
        same("what else is wanted", lanes.next().transpose()?, None)
    }

    pub(super) fn compare(&self, queue: &std::collections::VecDeque<Queued>) -> Result<(), String> {
        let ours = self.0.iter().map(|one| (one.message, one.leg, one.gathered));
        let theirs = queue.iter().map(|one| (one.message, one.leg, one.is_gathered));
        if theirs.clone().eq(ours.clone()) {
            return Ok(());
        }
        same("the queue", theirs.collect::<Vec<_>>(), ours.collect())
    }
}

/// Whether it is a second leg: its message has another one that starts a run.
fn is_second(one: &Waiting) -> bool {
    one.mode == QueueMode::SteerBacklog && one.leg == Leg::Steer
}

fn is_meant(one: &Waiting, message: MessageId, leg: Option<Leg>) -> bool {
    one.message == message && leg.is_none_or(|leg| leg == one.leg)
}
