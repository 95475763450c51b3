//! The global lanes: how many runs go on at once in the whole process, and who waits behind whom. A session has a lane of
//! its own besides, its queue: it asks here for one run at a time, so that first come, first served is fair between
//! sessions. Nothing of it is journaled: after a restart runs ask again. What may not live here: whose run uses which lane.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{RunId, Timestamp};

/// A global lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Of messages.
    Main,
    /// Of agents that another agent asked.
    Subagent,
    /// Of jobs.
    Cron,
}

/// How many runs go on at once in each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneBounds {
    /// In `main`.
    pub main: usize,
    /// In `subagent`.
    pub subagent: usize,
    /// In `cron`.
    pub cron: usize,
}

/// Who asks for a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneWish {
    /// The run.
    pub run: RunId,
    /// The key of its session.
    pub session: Arc<str>,
    /// The lane that it goes by.
    pub lane: Lane,
}

/// What becomes of who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneAnswer {
    /// It has a place.
    Entered,
    /// It waits for one.
    Waits,
}

/// A run that waits for its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneWait {
    /// Who waits.
    pub wish: LaneWish,
    /// Since when.
    pub since: Timestamp,
    /// How many wait in the same lane and have their turn before it.
    pub ahead: usize,
    /// Those that have the places of its lane.
    pub behind: Vec<LaneWish>,
}

/// All lanes: who is in them and who waits.
#[derive(Debug, Clone, Default)]
pub struct Lanes {
    bounds: LaneBounds,
    inside: BTreeMap<RunId, LaneWish>,
    /// How many are inside, by lane.
    taken: BTreeMap<Lane, usize>,
    waiting: BTreeMap<Turn, (LaneWish, Timestamp)>,
    turns: BTreeMap<RunId, Turn>,
    last: u64,
}

/// Lane by lane, first come first.
type Turn = (Lane, u64);

impl Default for LaneBounds {
    /// R35.
    fn default() -> Self {
        Self { main: 4, subagent: 8, cron: 1 }
    }
}

impl LaneBounds {
    /// How many runs go on at once in this lane: a lane for none would be one out of which nothing ever comes.
    pub fn of(self, lane: Lane) -> usize {
        let bound = match lane {
            Lane::Main => self.main,
            Lane::Subagent => self.subagent,
            Lane::Cron => self.cron,
        };
        bound.max(1)
    }
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 3] = [Self::Main, Self::Subagent, Self::Cron];

    /// Its name, as on the wire and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Subagent => "subagent",
            Self::Cron => "cron",
        }
    }
}

impl Lanes {
    /// Lanes in which nobody is.
    pub fn new(bounds: LaneBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Other bounds, from the next run on: whoever is inside stays. Gives those that enter by it, in their order.
    pub fn set_bounds(&mut self, bounds: LaneBounds) -> Vec<RunId> {
        self.bounds = bounds;
        Lane::ALL.into_iter().flat_map(|lane| self.fill(lane)).collect()
    }

    /// Asks for a place. Who has one, or waits for one, keeps what it has.
    pub fn ask(&mut self, wish: LaneWish, now: Timestamp) -> LaneAnswer {
        if self.enter_free(&wish) {
            return LaneAnswer::Entered;
        }
        if !self.turns.contains_key(&wish.run) {
            self.last += 1;
            let turn = (wish.lane, self.last);
            self.turns.insert(wish.run, turn);
            self.waiting.insert(turn, (wish, now));
        }
        LaneAnswer::Waits
    }

    /// Takes a place if there is one that nobody waits for; who has one already keeps it, and so does who waits.
    pub fn enter_free(&mut self, wish: &LaneWish) -> bool {
        if self.inside.contains_key(&wish.run) {
            return true;
        }
        let waits = self.turns.contains_key(&wish.run) || self.next_turn(wish.lane).is_some();
        let is_free = !waits && self.has_room(wish.lane);
        if is_free {
            self.let_in(wish.clone());
        }
        is_free
    }

    /// A place for a run that a human takes up again. It does not wait; beyond the bound it keeps the next one out.
    pub fn take_again(&mut self, wish: LaneWish) {
        self.forget_turn(wish.run);
        self.let_in(wish);
    }

    /// A run needs its place no more, or does not wait for one any more. Gives those that enter for it.
    pub fn leave(&mut self, run: RunId) -> Vec<RunId> {
        self.forget_turn(run);
        let Some(left) = self.inside.remove(&run) else { return vec![] };
        *self.taken.entry(left.lane).or_default() -= 1;
        self.fill(left.lane)
    }

    /// Those that have a place in this lane.
    pub fn inside(&self, lane: Lane) -> impl Iterator<Item = &LaneWish> {
        self.inside.values().filter(move |wish| wish.lane == lane)
    }

    /// The wait of a run, if it waits.
    pub fn wait_of(&self, run: RunId) -> Option<LaneWait> {
        let turn = *self.turns.get(&run)?;
        let ahead = self.waiting.range((turn.0, 0)..turn).count();
        self.waiting.get(&turn).map(|(wish, since)| self.wait(wish, *since, ahead))
    }

    /// All that wait, lane by lane, in the order of their turns.
    pub fn waits(&self) -> Vec<LaneWait> {
        let of_lane = |lane: Lane| {
            let turns = self.waiting.range((lane, 0)..=(lane, u64::MAX)).enumerate();
            turns.map(|(ahead, (_, (wish, since)))| self.wait(wish, *since, ahead))
        };
        Lane::ALL.into_iter().flat_map(of_lane).collect()
    }

    fn wait(&self, wish: &LaneWish, since: Timestamp, ahead: usize) -> LaneWait {
        LaneWait { wish: wish.clone(), since, ahead, behind: self.inside(wish.lane).cloned().collect() }
    }

    fn has_room(&self, lane: Lane) -> bool {
        self.taken.get(&lane).copied().unwrap_or_default() < self.bounds.of(lane)
    }

    fn let_in(&mut self, wish: LaneWish) {
        let lane = wish.lane;
        if self.inside.insert(wish.run, wish).is_none() {
            *self.taken.entry(lane).or_default() += 1;
        }
    }

    fn next_turn(&self, lane: Lane) -> Option<Turn> {
        self.waiting.range((lane, 0)..=(lane, u64::MAX)).next().map(|(turn, _)| *turn)
    }

    fn forget_turn(&mut self, run: RunId) {
        if let Some(turn) = self.turns.remove(&run) {
            self.waiting.remove(&turn);
        }
    }

    /// Lets in whoever waits, as long as there is room.
    fn fill(&mut self, lane: Lane) -> Vec<RunId> {
        let mut entered = vec![];
        while self.has_room(lane)
            && let Some((wish, _)) = self.next_turn(lane).and_then(|turn| self.waiting.remove(&turn))
        {
            self.turns.remove(&wish.run);
            entered.push(wish.run);
            self.let_in(wish);
        }
        entered
    }
}
