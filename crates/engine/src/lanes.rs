//! The global lanes: how many runs execute at once in the whole process, and which runs wait. Each session also has its
//! own queue: it requests one slot here at a time, so that first come, first served is fair between sessions. Lanes are
//! not journaled: after a restart, runs request slots again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{RunId, Timestamp};

/// A global lane: runs of one lane share its slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Runs of messages.
    Main,
    /// Of agents that another agent asked. Reserved for R67.
    Subagent,
    /// Of jobs. Reserved for R35.
    Cron,
}

/// How many runs execute at once in each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct LaneBounds {
    pub main: usize,
    pub subagent: usize,
    pub cron: usize,
    /// The limit of one agent in each lane; none = the lane's.
    pub agent: Option<usize>,
    /// How many agents execute at once in each lane; none = as many as the lane has slots.
    pub agents: Option<usize>,
}

/// A request for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct LaneRequest {
    pub run: RunId,
    /// The key of its session.
    pub session: Arc<str>,
    pub agent: Arc<str>,
    /// The lane that it uses.
    pub lane: Lane,
}

/// The answer to a request for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneAnswer {
    /// It has a slot.
    Entered,
    /// It waits for one.
    Waits,
}

/// A run that waits for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct LaneWait {
    pub request: LaneRequest,
    pub since: Timestamp,
    /// What it waits for.
    pub bound: Bound,
    /// How many wait for the same and come before it.
    pub ahead: usize,
    /// The runs that hold the slots it waits for.
    pub behind: Vec<LaneRequest>,
}

/// The slots that are all taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Those of the lane.
    Lane,
    /// Those of its agent in the lane: other agents pass it until one of them is free.
    Agent,
    /// As many agents execute in the lane as may. Whatever comes later waits behind it, so it starts as soon as one of these
    /// agents has no run left.
    Agents,
}

/// All lanes: the running and the waiting runs.
#[derive(Debug, Clone, Default)]
pub struct Lanes {
    bounds: LaneBounds,
    /// Whether no run starts.
    closed: bool,
    /// When this run ends, no further one starts.
    closes_after: Option<RunId>,
    inside: BTreeMap<RunId, LaneRequest>,
    /// How many run, by lane, and by agent in it.
    taken: BTreeMap<Lane, usize>,
    taken_by: BTreeMap<(Lane, Arc<str>), usize>,
    waiting: BTreeMap<WaitKey, (LaneRequest, Timestamp)>,
    keys: BTreeMap<RunId, WaitKey>,
    last: u64,
}

/// Lane by lane, first come first.
type WaitKey = (Lane, u64);

impl Default for LaneBounds {
    /// The defaults of R35.
    fn default() -> Self {
        Self { main: 4, subagent: 8, cron: 1, agent: None, agents: None }
    }
}

impl LaneBounds {
    /// How many runs execute at once in this lane; at least 1, because a lane without slots would never finish.
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
    /// Creates lanes without runs.
    pub fn new(bounds: LaneBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Creates lanes in which no run starts until they are opened.
    pub fn closed() -> Self {
        Self { closed: true, ..Self::default() }
    }

    /// Returns the runs that start, in order.
    pub fn open(&mut self) -> Vec<RunId> {
        self.closed = false;
        self.closes_after = None;
        self.fill_all()
    }

    /// No run starts any more as soon as this one ends.
    pub fn close_after(&mut self, run: RunId) {
        self.closes_after = Some(run);
    }

    /// Whether no run starts.
    pub fn are_closed(&self) -> bool {
        self.closed
    }

    /// Applies new limits from the next run on: running ones stay. Returns the runs that start because of it, in order.
    pub fn set_bounds(&mut self, bounds: LaneBounds) -> Vec<RunId> {
        if bounds == self.bounds {
            return vec![];
        }
        self.bounds = bounds;
        self.fill_all()
    }

    /// Requests a slot. A run that has one, or waits for one, keeps it.
    pub fn ask(&mut self, request: LaneRequest, now: Timestamp) -> LaneAnswer {
        if self.enter_free(&request) {
            return LaneAnswer::Entered;
        }
        if !self.keys.contains_key(&request.run) {
            self.last += 1;
            let key = (request.lane, self.last);
            self.keys.insert(request.run, key);
            self.waiting.insert(key, (request, now));
        }
        LaneAnswer::Waits
    }

    /// Takes a free slot that nobody waits for. A run that has one keeps it, and so does one that waits. A run that may
    /// start is never left waiting, so a slot that is free for this run is free for no waiting one.
    pub fn enter_free(&mut self, request: &LaneRequest) -> bool {
        if self.inside.contains_key(&request.run) {
            return true;
        }
        let is_free = !self.keys.contains_key(&request.run)
            && self.has_space(request.lane)
            && self.has_space_of(request)
            && !self.waiting_in(request.lane).any(|(_, waiting)| !self.has_space_for_agent(waiting));
        if is_free {
            self.let_in(request.clone());
        }
        is_free
    }

    /// Takes a slot for a run that a human resumes. It does not wait; beyond the limit it delays the next run. Returns
    /// the runs that start because its agent executes now.
    pub fn take_again(&mut self, request: LaneRequest) -> Vec<RunId> {
        let lane = request.lane;
        self.forget_ticket(request.run);
        self.let_in(request);
        self.fill(lane)
    }

    /// A run no longer needs or waits for a slot. Returns the runs that start because of it.
    pub fn leave(&mut self, run: RunId) -> Vec<RunId> {
        if let Some(lane) = self.forget_ticket(run) {
            // Others may have waited behind it.
            return self.fill(lane);
        }
        let Some(left) = self.inside.remove(&run) else { return vec![] };
        let taken = self.taken.entry(left.lane).or_default();
        debug_assert!(*taken > 0, "a run that is inside holds a slot of its lane");
        *taken -= 1;
        let by = (left.lane, left.agent);
        match self.taken_by.get_mut(&by) {
            Some(taken) if *taken > 1 => *taken -= 1,
            _ => drop(self.taken_by.remove(&by)),
        }
        self.fill(left.lane)
    }

    /// A run has ended. Returns the runs that start because of it.
    pub fn end(&mut self, run: RunId) -> Vec<RunId> {
        self.closed |= self.closes_after == Some(run);
        self.leave(run)
    }

    /// The runs that hold a slot in this lane.
    pub fn inside(&self, lane: Lane) -> impl Iterator<Item = &LaneRequest> {
        self.inside.values().filter(move |request| request.lane == lane)
    }

    /// The wait of a run, if it waits.
    pub fn wait_of(&self, run: RunId) -> Option<LaneWait> {
        self.keys.get(&run)?;
        self.walk().find(|(request, ..)| request.run == run).map(|of| self.wait(of))
    }

    /// All waiting runs, lane by lane, in order.
    pub fn waits(&self) -> Vec<LaneWait> {
        self.walk().map(|of| self.wait(of)).collect()
    }

    /// A waiting run: since when, for what, and how many before it wait for the same.
    fn walk(&self) -> impl Iterator<Item = (&LaneRequest, Timestamp, Bound, usize)> {
        let mut before: BTreeMap<(Lane, Bound, Option<&str>), usize> = BTreeMap::new();
        let mut behind: BTreeSet<Lane> = BTreeSet::new();
        self.waiting.values().map(move |(request, since)| {
            if !self.has_space_for_agent(request) {
                behind.insert(request.lane);
            }
            let bound = if !self.has_space_of_agent(request) {
                Bound::Agent
            } else if behind.contains(&request.lane) {
                Bound::Agents
            } else {
                Bound::Lane
            };
            let of = (bound == Bound::Agent).then_some(&*request.agent);
            let before = before.entry((request.lane, bound, of)).or_default();
            let ahead = *before;
            *before += 1;
            (request, *since, bound, ahead)
        })
    }

    fn wait(&self, (request, since, bound, ahead): (&LaneRequest, Timestamp, Bound, usize)) -> LaneWait {
        let holds = |other: &&LaneRequest| bound != Bound::Agent || other.agent == request.agent;
        let behind = self.inside(request.lane).filter(holds).cloned().collect();
        LaneWait { request: request.clone(), since, bound, ahead, behind }
    }

    fn has_space(&self, lane: Lane) -> bool {
        !self.closed && self.taken.get(&lane).copied().unwrap_or_default() < self.bounds.of(lane)
    }

    fn has_space_of(&self, request: &LaneRequest) -> bool {
        self.has_space_of_agent(request) && self.has_space_for_agent(request)
    }

    /// Whether the agent executes in this lane already, or may as one more.
    fn has_space_for_agent(&self, request: &LaneRequest) -> bool {
        let of_lane = |(lane, _): &&(Lane, Arc<str>)| *lane == request.lane;
        let agents = || self.taken_by.keys().filter(of_lane).count();
        let executes = || self.taken_by.contains_key(&(request.lane, Arc::clone(&request.agent)));
        self.bounds.agents.is_none_or(|bound| agents() < bound.max(1) || executes())
    }

    fn has_space_of_agent(&self, request: &LaneRequest) -> bool {
        let taken = || self.taken_by.get(&(request.lane, Arc::clone(&request.agent))).copied().unwrap_or_default();
        self.bounds.agent.is_none_or(|bound| taken() < bound.max(1))
    }

    fn let_in(&mut self, request: LaneRequest) {
        let (lane, by) = (request.lane, (request.lane, Arc::clone(&request.agent)));
        if self.inside.insert(request.run, request).is_none() {
            *self.taken.entry(lane).or_default() += 1;
            *self.taken_by.entry(by).or_default() += 1;
        }
    }

    /// The first run in this lane that waits for more than other runs of its agent.
    fn next_ticket(&self, lane: Lane) -> Option<WaitKey> {
        // A run of one agent too many lets nobody pass: the agents that execute could keep it out for ever.
        let mut waiting = self.waiting_in(lane).take_while(|(_, request)| self.has_space_for_agent(request));
        waiting.find(|(_, request)| self.has_space_of_agent(request)).map(|(key, _)| key)
    }

    fn waiting_in(&self, lane: Lane) -> impl Iterator<Item = (WaitKey, &LaneRequest)> {
        let waiting = self.waiting.range((lane, 0)..=(lane, u64::MAX));
        waiting.map(|(key, (request, _))| (*key, request))
    }

    /// Returns the lane in which the run waited, if it did.
    fn forget_ticket(&mut self, run: RunId) -> Option<Lane> {
        let key = self.keys.remove(&run)?;
        self.waiting.remove(&key);
        Some(key.0)
    }

    fn fill_all(&mut self) -> Vec<RunId> {
        Lane::ALL.into_iter().flat_map(|lane| self.fill(lane)).collect()
    }

    /// Starts waiting runs as long as there is space.
    fn fill(&mut self, lane: Lane) -> Vec<RunId> {
        let mut entered = vec![];
        while self.has_space(lane)
            && let Some((request, _)) = self.next_ticket(lane).and_then(|key| self.waiting.remove(&key))
        {
            self.keys.remove(&request.run);
            entered.push(request.run);
            self.let_in(request);
        }
        debug_assert!(self.keys.len() == self.waiting.len(), "each waiting run has one ticket");
        debug_assert_eq!(self.taken.get(&lane).copied().unwrap_or_default(), self.inside(lane).count());
        entered
    }
}
