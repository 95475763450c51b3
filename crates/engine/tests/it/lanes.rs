//! R35: the global lanes. No more runs execute than the limit allows, except for runs that a human resumed; first come,
//! first served, so that no session passes another; a run that ends lets the next one start at once.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Bound, Lane, LaneAnswer, LaneBounds, LaneRequest, Lanes, RunId, Timestamp};
use proptest::prelude::*;
use uuid::Uuid;

const BOUNDS: LaneBounds = LaneBounds { main: 2, subagent: 3, cron: 1, agent: None, agents: None };

fn run(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}

/// A run of a session of its own.
fn request(number: u128, lane: Lane) -> LaneRequest {
    request_of("main", number, lane)
}

/// The same of this agent.
fn request_of(agent: &str, number: u128, lane: Lane) -> LaneRequest {
    LaneRequest { run: run(number), session: format!("agent:{agent}:{number}").into(), agent: agent.into(), lane }
}

/// Asks at a second that is the run's number.
fn ask(lanes: &mut Lanes, number: u128, lane: Lane) -> LaneAnswer {
    lanes.ask(request(number, lane), Timestamp(number as i64 * 1_000))
}

fn inside(lanes: &Lanes, lane: Lane) -> Vec<u128> {
    lanes.inside(lane).map(|request| request.run.0.as_u128()).collect()
}

#[test]
fn r35_the_lanes_have_4_8_and_1_slots_by_default() {
    for (lane, bound) in Lane::ALL.into_iter().zip([4, 8, 1]) {
        assert_eq!(LaneBounds::default().of(lane), bound);
        let mut lanes = Lanes::default();
        let answers: Vec<_> = (1..=10).map(|number| ask(&mut lanes, number, lane)).collect();
        assert_eq!(answers.iter().filter(|answer| **answer == LaneAnswer::Entered).count(), bound, "{}", lane.name());
    }
    let none = LaneBounds { main: 0, ..BOUNDS };
    assert_eq!(ask(&mut Lanes::new(none), 1, Lane::Main), LaneAnswer::Entered, "a lane has at least one slot");
}

#[test]
fn r35_waiting_runs_get_slots_in_order_and_name_the_runs_before_them() {
    let mut lanes = Lanes::new(BOUNDS);
    for number in 1..=5 {
        ask(&mut lanes, number, Lane::Main);
    }
    assert_eq!(ask(&mut lanes, 9, Lane::Cron), LaneAnswer::Entered, "lanes are independent");
    let wait = lanes.wait_of(run(4)).unwrap();
    assert_eq!((wait.since, wait.ahead), (Timestamp(4_000), 1));
    assert_eq!(wait.behind, [request(1, Lane::Main), request(2, Lane::Main)]);
    let waits: Vec<_> = lanes.waits().iter().map(|wait| (wait.request.run, wait.ahead)).collect();
    assert_eq!(waits, [(run(3), 0), (run(4), 1), (run(5), 2)]);

    assert_eq!(lanes.leave(run(2)), [run(3)]);
    assert_eq!(lanes.leave(run(4)), [], "it only waited");
    assert_eq!(lanes.leave(run(4)), [], "it is gone");
    assert_eq!(lanes.leave(run(1)), [run(5)]);
    assert_eq!((inside(&lanes, Lane::Main), lanes.waits().len()), (vec![3, 5], 0));
    assert_eq!((lanes.wait_of(run(3)), lanes.wait_of(run(77))), (None, None));
}

#[test]
fn r35_who_asks_twice_has_one_place_and_one_turn() {
    let mut lanes = Lanes::new(BOUNDS);
    for number in [1, 1, 2, 3, 3, 4] {
        ask(&mut lanes, number, Lane::Main);
    }
    assert_eq!((inside(&lanes, Lane::Main), lanes.waits().len()), (vec![1, 2], 2));
    assert_eq!(lanes.wait_of(run(3)).unwrap().since, Timestamp(3_000));
    assert_eq!(lanes.leave(run(1)), [run(3)]);
    assert_eq!(lanes.leave(run(3)), [run(4)]);
}

#[test]
fn r35_a_free_slot_is_not_taken_before_waiting_runs() {
    let mut lanes = Lanes::new(BOUNDS);
    for number in 1..=3 {
        ask(&mut lanes, number, Lane::Main);
    }
    assert!(!lanes.enter_free(&request(4, Lane::Main)), "no slot is free");
    assert!(lanes.enter_free(&request(1, Lane::Main)), "it has one");
    assert!(lanes.enter_free(&request(4, Lane::Subagent)));
    assert_eq!(lanes.wait_of(run(4)), None);
}

/// A paused run, or one that needs a human, releases its slot; when it is resumed it does not wait, but the next run
/// does.
#[test]
fn r35_a_resumed_run_does_not_wait_and_delays_the_next_one() {
    let mut lanes = Lanes::new(BOUNDS);
    for number in 1..=4 {
        ask(&mut lanes, number, Lane::Main);
    }
    assert_eq!(lanes.leave(run(1)), [run(3)], "paused: the next run has its slot");
    assert_eq!(lanes.take_again(request(1, Lane::Main)), []);
    assert_eq!(inside(&lanes, Lane::Main), [1, 2, 3]);
    assert_eq!(lanes.leave(run(2)), [], "the lane is full");
    assert_eq!(lanes.leave(run(3)), [run(4)]);
    assert_eq!(lanes.take_again(request(1, Lane::Main)), []);
    assert_eq!(inside(&lanes, Lane::Main), [1, 4], "once");
    ask(&mut lanes, 5, Lane::Main);
    assert_eq!(lanes.take_again(request(5, Lane::Main)), []);
    assert_eq!(lanes.waits(), [], "a resumed run does not wait");
}

/// The lanes of an owner that holds all runs.
#[test]
fn r15_no_run_starts_in_a_closed_lane_and_all_wait_in_order_until_it_is_opened() {
    let mut lanes = Lanes::closed();
    lanes.set_bounds(BOUNDS);
    assert!(!lanes.enter_free(&request(1, Lane::Main)));
    for number in 1..=3 {
        assert_eq!(ask(&mut lanes, number, Lane::Main), LaneAnswer::Waits);
    }
    assert_eq!(lanes.take_again(request(1, Lane::Main)), [], "a human has resumed it");
    assert_eq!(lanes.leave(run(1)), [], "the others still wait");
    assert_eq!(lanes.open(), [run(2), run(3)]);
    assert!(!lanes.are_closed() && lanes.open().is_empty());
    assert_eq!(inside(&lanes, Lane::Main), [2, 3]);
}

/// The lanes of an owner that leaves after a run of its own.
#[test]
fn r15_no_run_starts_after_the_last_one_of_an_owner_that_leaves_with_it() {
    let mut lanes = Lanes::new(BOUNDS);
    for number in 1..=4 {
        ask(&mut lanes, number, Lane::Main);
    }
    lanes.close_after(run(2));
    assert_eq!(lanes.end(run(1)), [run(3)], "until then runs start");
    assert_eq!(lanes.leave(run(2)), [run(4)], "it waits for something outside");
    assert_eq!(ask(&mut lanes, 2, Lane::Main), LaneAnswer::Waits);
    ask(&mut lanes, 5, Lane::Main);
    assert_eq!(lanes.end(run(3)), [run(2)]);
    assert_eq!(lanes.end(run(2)), []);
    assert!(lanes.are_closed());
    assert_eq!(lanes.end(run(4)), []);
    assert_eq!(lanes.open(), [run(5)], "it does not leave after all");
    assert!(lanes.end(run(2)).is_empty() && !lanes.are_closed());
}

#[test]
fn r35_other_bounds_are_for_the_next_run() {
    let mut lanes = Lanes::new(BOUNDS);
    for number in 1..=5 {
        ask(&mut lanes, number, Lane::Main);
    }
    assert_eq!(lanes.set_bounds(LaneBounds { main: 4, ..BOUNDS }), [run(3), run(4)]);
    assert_eq!(lanes.set_bounds(LaneBounds { main: 1, ..BOUNDS }), []);
    assert_eq!(inside(&lanes, Lane::Main).len(), 4, "running runs stay");
    for number in 1..=3 {
        assert_eq!(lanes.leave(run(number)), []);
    }
    assert_eq!(lanes.leave(run(4)), [run(5)]);
}

/// An agent has its own limit in each lane: a run beyond it waits, and runs of other agents pass it.
#[test]
fn r23_a_run_past_the_bound_of_its_agent_waits_for_that_agent_alone() {
    let mut lanes = Lanes::new(LaneBounds { main: 3, agent: Some(2), ..BOUNDS });
    let mut of = |agent: &str, number: u128| lanes.ask(request_of(agent, number, Lane::Main), Timestamp(0));
    let answers = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 5), ("b", 6)].map(|(agent, number)| of(agent, number));
    let entered: Vec<_> = answers.iter().map(|answer| *answer == LaneAnswer::Entered).collect();
    assert_eq!(entered, [true, true, false, false, true, false]);
    let waits: Vec<_> = lanes.waits().iter().map(|wait| (wait.request.run, wait.bound, wait.ahead)).collect();
    assert_eq!(waits, [(run(3), Bound::Agent, 0), (run(4), Bound::Agent, 1), (run(6), Bound::Lane, 0)]);
    assert_eq!(lanes.wait_of(run(4)).unwrap().behind, [request_of("a", 1, Lane::Main), request_of("a", 2, Lane::Main)]);
    assert_eq!(lanes.wait_of(run(6)).unwrap().behind.len(), 3);
    assert!(lanes.enter_free(&request_of("a", 7, Lane::Subagent)), "each lane has its own");

    assert_eq!(lanes.leave(run(5)), [run(6)], "a free slot goes past runs whose agent has its limit");
    assert_eq!(lanes.leave(run(6)), [], "and is reserved for none");
    assert!(!lanes.enter_free(&request_of("a", 8, Lane::Main)));
    assert_eq!(lanes.leave(run(2)), [run(3)]);
    let none = LaneBounds { main: 3, agent: None, ..BOUNDS };
    assert_eq!(lanes.set_bounds(none), [run(4)]);
    let one = LaneBounds { agent: Some(0), ..none };
    assert_eq!(Lanes::new(one).ask(request(1, Lane::Main), Timestamp(0)), LaneAnswer::Entered, "it has one slot");
}

/// The agents that execute at once are limited: a run of another one waits until one of them has none, and what comes
/// later waits behind it, or busy agents could keep it out for ever.
#[test]
fn r23_a_run_of_one_agent_too_many_waits_until_another_has_none() {
    let mut lanes = Lanes::new(LaneBounds { main: 4, agents: Some(2), ..BOUNDS });
    let mut of = |agent: &str, number: u128| lanes.ask(request_of(agent, number, Lane::Main), Timestamp(0));
    let answers = [("a", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5)].map(|(agent, number)| of(agent, number));
    let entered: Vec<_> = answers.iter().map(|answer| *answer == LaneAnswer::Entered).collect();
    assert_eq!(entered, [true, true, true, false, false]);
    let waits: Vec<_> = lanes.waits().iter().map(|wait| (wait.request.run, wait.bound, wait.ahead)).collect();
    assert_eq!(waits, [(run(4), Bound::Agents, 0), (run(5), Bound::Agents, 1)]);
    assert_eq!(lanes.wait_of(run(4)).unwrap().behind.len(), 3);
    assert!(!lanes.enter_free(&request_of("b", 6, Lane::Main)), "nothing passes the run that waits");
    assert!(lanes.enter_free(&request_of("c", 7, Lane::Subagent)), "each lane has its own");
    assert_eq!(lanes.leave(run(1)), [], "the agent a has another run");
    assert_eq!(lanes.leave(run(2)), [run(4)], "the agents b and c execute now, and a waits");
    assert_eq!(lanes.set_bounds(LaneBounds { main: 4, ..BOUNDS }), [run(5)], "a changed limit counts at once");
}

/// An operation; there are few runs, so that each occurs in every state.
#[derive(Debug, Clone)]
enum Op {
    Ask(u8, u8),
    EnterFree(u8, u8),
    TakeAgain(u8, u8),
    Leave(u8),
    Bounds(u8, u8),
    OfAgent(u8),
    Agents(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..12_u8, 0..3_u8).prop_map(|(run, lane)| Op::Ask(run, lane)),
        2 => (0..12_u8, 0..3_u8).prop_map(|(run, lane)| Op::EnterFree(run, lane)),
        1 => (0..12_u8, 0..3_u8).prop_map(|(run, lane)| Op::TakeAgain(run, lane)),
        5 => (0..12_u8).prop_map(Op::Leave),
        1 => (0..4_u8, 1..5_u8).prop_map(|(lane, bound)| Op::Bounds(lane, bound)),
        1 => (0..4_u8).prop_map(Op::OfAgent),
        1 => (0..4_u8).prop_map(Op::Agents),
    ]
}

/// The oracle: lists and loops.
#[derive(Default)]
struct Oracle {
    bounds: BTreeMap<Lane, usize>,
    of_agent: Option<usize>,
    agents: Option<usize>,
    inside: Vec<(Lane, u8)>,
    queue: Vec<(Lane, u8)>,
}

impl Oracle {
    fn knows(&self, run: u8) -> bool {
        self.inside.iter().chain(&self.queue).any(|(_, other)| *other == run)
    }

    /// Starts the runs that may start, and returns them.
    fn settle(&mut self) -> Vec<RunId> {
        let mut entered = vec![];
        let may_start = |queue: &Self, at: usize| {
            let (lane, number) = queue.queue[at];
            queue.has_space(lane, number) && queue.nobody_is_one_too_many(lane, at)
        };
        while let Some(at) = (0..self.queue.len()).find(|at| may_start(self, *at)) {
            let next = self.queue.remove(at);
            entered.push(run(next.1.into()));
            self.inside.push(next);
        }
        entered
    }

    fn inside_of(&self, lane: Lane) -> Vec<u8> {
        self.inside.iter().filter(|(of, _)| *of == lane).map(|(_, other)| *other).collect()
    }

    fn has_space(&self, lane: Lane, number: u8) -> bool {
        let inside = self.inside_of(lane);
        let of_agent = inside.iter().filter(|other| agent(**other) == agent(number)).count();
        let is_free = inside.len() < self.bounds[&lane] && self.of_agent.is_none_or(|bound| of_agent < bound);
        is_free && self.may_join(lane, number)
    }

    fn may_join(&self, lane: Lane, number: u8) -> bool {
        let agents: BTreeSet<&str> = self.inside_of(lane).iter().map(|other| agent(*other)).collect();
        self.agents.is_none_or(|bound| agents.len() < bound || agents.contains(agent(number)))
    }

    /// Whether none of the first `before` in the queue waits in this lane because its agent is one too many.
    fn nobody_is_one_too_many(&self, lane: Lane, before: usize) -> bool {
        self.queue[..before].iter().all(|(of, number)| *of != lane || self.may_join(lane, *number))
    }

    fn leave(&mut self, run: u8) {
        self.inside.retain(|(_, other)| *other != run);
        self.queue.retain(|(_, other)| *other != run);
    }
}

/// The agent of a run.
fn agent(number: u8) -> &'static str {
    ["a", "b", "c"][usize::from(number) % 3]
}

/// The results of an operation, of both.
fn step(
    lanes: &mut Lanes,
    oracle: &mut Oracle,
    bounds: &mut LaneBounds,
    op: &Op,
    now: Timestamp,
) -> (Vec<RunId>, Vec<RunId>) {
    let lane = |number: &u8| Lane::ALL[usize::from(*number) % 3];
    let request = |number: u8, lane| request_of(agent(number), number.into(), lane);
    match op {
        Op::Ask(number, of) => {
            let known = oracle.knows(*number);
            let answer = lanes.ask(request(*number, lane(of)), now);
            if !known {
                oracle.queue.push((lane(of), *number));
            }
            oracle.settle();
            let is_in = oracle.inside.iter().any(|(_, other)| other == number);
            assert_eq!(answer == LaneAnswer::Entered, is_in);
            (vec![], vec![])
        }
        Op::EnterFree(number, of) => {
            let is_in = oracle.inside.iter().any(|(_, other)| other == number);
            let is_next = oracle.nobody_is_one_too_many(lane(of), oracle.queue.len());
            let is_free = is_next && oracle.has_space(lane(of), *number) && !oracle.knows(*number);
            assert_eq!(lanes.enter_free(&request(*number, lane(of))), is_in || is_free);
            if is_free {
                oracle.inside.push((lane(of), *number));
            }
            (vec![], vec![])
        }
        Op::TakeAgain(number, of) => {
            // A run stays in its lane.
            let known = oracle.inside.iter().chain(&oracle.queue).find(|(_, other)| other == number);
            let of = known.map_or(lane(of), |(lane, _)| *lane);
            oracle.leave(*number);
            oracle.inside.push((of, *number));
            (lanes.take_again(request(*number, of)), oracle.settle())
        }
        Op::Leave(number) => {
            oracle.leave(*number);
            (lanes.leave(run((*number).into())), oracle.settle())
        }
        Op::Bounds(of, bound) => {
            match lane(of) {
                Lane::Main => bounds.main = usize::from(*bound),
                Lane::Subagent => bounds.subagent = usize::from(*bound),
                Lane::Cron => bounds.cron = usize::from(*bound),
            }
            oracle.bounds.insert(lane(of), usize::from(*bound));
            (lanes.set_bounds(*bounds), oracle.settle())
        }
        Op::OfAgent(bound) => {
            bounds.agent = (*bound > 0).then_some(usize::from(*bound));
            oracle.of_agent = bounds.agent;
            (lanes.set_bounds(*bounds), oracle.settle())
        }
        Op::Agents(bound) => {
            bounds.agents = (*bound > 0).then_some(usize::from(*bound));
            oracle.agents = bounds.agents;
            (lanes.set_bounds(*bounds), oracle.settle())
        }
    }
}

/// Limits at every moment, order kept, no slot lost: after each step the same as the oracle.
fn check(lanes: &Lanes, oracle: &Oracle, over: &BTreeMap<Lane, usize>) {
    for lane in Lane::ALL {
        let mut expected: Vec<u128> =
            oracle.inside.iter().filter(|(of, _)| *of == lane).map(|(_, number)| (*number).into()).collect();
        expected.sort_unstable();
        assert_eq!(inside(lanes, lane), expected);
        assert!(expected.len() <= oracle.bounds[&lane].max(over[&lane]), "too many run in {}", lane.name());
        let waits: Vec<RunId> =
            lanes.waits().iter().filter(|wait| wait.request.lane == lane).map(|wait| wait.request.run).collect();
        let queue: Vec<u8> = oracle.queue.iter().filter(|(of, _)| *of == lane).map(|(_, number)| *number).collect();
        assert_eq!(waits, queue.iter().map(|number| run((*number).into())).collect::<Vec<_>>());
        let mut in_order = queue.iter().take_while(|number| oracle.may_join(lane, **number));
        assert!(!in_order.any(|number| oracle.has_space(lane, *number)), "a slot is free for a waiting run");
    }
}

proptest! {
    #[test]
    fn r35_any_coming_and_going_keeps_the_bounds_and_the_order(ops in prop::collection::vec(op(), 1..80)) {
        let mut bounds = BOUNDS;
        let mut lanes = Lanes::new(bounds);
        let mut oracle = Oracle { bounds: Lane::ALL.map(|lane| (lane, BOUNDS.of(lane))).into(), ..Oracle::default() };
        // The maximum of running runs: a lowered limit and resumed runs allow more.
        let mut over: BTreeMap<Lane, usize> = Lane::ALL.map(|lane| (lane, 0)).into();
        for (at, op) in ops.iter().enumerate() {
            let before: BTreeMap<Lane, usize> = Lane::ALL.map(|lane| (lane, inside(&lanes, lane).len())).into();
            let (mut entered, mut expected) = step(&mut lanes, &mut oracle, &mut bounds, op, Timestamp(at as i64));
            entered.sort();
            expected.sort();
            prop_assert_eq!(entered, expected);
            for lane in Lane::ALL {
                let allowed = before[&lane] + usize::from(matches!(op, Op::TakeAgain(..)));
                over.insert(lane, allowed);
            }
            check(&lanes, &oracle, &over);
        }
    }

    /// Each of these sessions always has another message: no session passes a waiting one twice.
    #[test]
    fn r35_busy_sessions_take_turns(sessions in 3..9_u128, leaves in prop::collection::vec(0..8_usize, 1..60)) {
        let mut lanes = Lanes::new(BOUNDS);
        let mut served: BTreeMap<u128, usize> = BTreeMap::new();
        let mut next = sessions;
        let session_of = |run: u128| run % sessions;
        for session in 0..sessions {
            ask(&mut lanes, session, Lane::Main);
        }
        for leaves in leaves {
            let all = inside(&lanes, Lane::Main);
            let ended = all[leaves % all.len()];
            // Runs that waited while it ran start before the next one of its session.
            lanes.leave(run(ended));
            *served.entry(session_of(ended)).or_default() += 1;
            let again = next - next % sessions + session_of(ended);
            next += sessions;
            ask(&mut lanes, again, Lane::Main);
            let waits = lanes.waits();
            prop_assert_eq!(waits.last().unwrap().request.run, run(again), "it waits behind all others");
        }
        let waiting = lanes.waits().len();
        prop_assert_eq!(waiting as u128, sessions - 2);
    }
}
