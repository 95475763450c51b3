//! The plan of the kills as data: the points, the cases, and their order.

use std::fmt;

use super::faults::{NONE, ProviderFault};

/// A point inside the process at which it ends itself, in a build with the feature `faults`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    Accepted,
    RequestSent,
    MidStream,
    Sealed,
    IntentSynced,
    MidCall,
    CallEnded,
    Recorded,
    Opening,
    EndingCall,
}

impl Point {
    /// Every point with its name in the binary, and its meaning.
    pub(super) const ALL: [(Self, &'static str, &'static str); 10] = [
        (Self::Accepted, "accepted", "accepted, not answered"),
        (Self::RequestSent, "request_sent", "request sent, no byte yet"),
        (Self::MidStream, "mid_stream", "mid-stream"),
        (Self::Sealed, "sealed", "message sealed, call not started"),
        (Self::IntentSynced, "intent_synced", "intent synced, supervisor not started"),
        (Self::MidCall, "mid_call", "mid-call"),
        (Self::CallEnded, "call_ended", "call ended, not recorded"),
        (Self::Recorded, "recorded", "recorded, not published"),
        (Self::Opening, "opening", "during opening"),
        (Self::EndingCall, "ending_call", "while ending a call"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// How one process of a case is killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attack {
    /// The process is not killed.
    None,
    /// It kills itself at the `nth` passing of a point. `interrupt_when`: it gets SIGINT once the ledger has this
    /// token.
    Point { point: Point, nth: u32, interrupt_when: Option<String> },
    /// From outside, once the ledger has this token: the tool's child is known to run.
    Token { token: String },
    /// From outside, after this time.
    After { us: u64 },
    /// From outside, this long after the provider fault; if that cannot be observed, after the message was accepted.
    Fault { after_us: u64 },
}

impl Attack {
    /// The point that it hits, if it is a counted one.
    pub(super) fn point(&self) -> Option<Point> {
        match self {
            Self::Point { point, .. } => Some(*point),
            Self::Token { .. } => Some(Point::MidCall),
            Self::None | Self::After { .. } | Self::Fault { .. } => None,
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Point { point, nth, .. } => write!(f, "{}:{nth}", point.name()),
            Self::Token { token } => write!(f, "mid_call (ledger {token})"),
            Self::After { us } => write!(f, "after {us} µs"),
            Self::Fault { after_us } => write!(f, "{after_us} µs after the fault"),
        }
    }
}

/// Which build is attacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Build {
    /// The one with crash points.
    Points,
    /// The one that is shipped.
    Plain,
}

/// The work that the user requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Calls of all three classes, then an answer.
    Rounds,
    /// Files that are read one after the other, then an answer: a history that can be compacted.
    Reads,
    /// One command that does not end by itself; the user aborts the run.
    Aborted,
    /// One command that does not end by itself; the call has a limit.
    Limited,
}

/// The configuration of a case.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// The value of `runs.resume`.
    pub(super) resume: &'static str,
    /// The value of `runs.poison_after`; 0 = off.
    pub(super) poison_after: u32,
    /// The value of `tools.timeout_s`, seconds.
    pub(super) call_s: u32,
    /// The first fault of the provider.
    pub(super) fault: &'static ProviderFault,
}

impl Default for Setup {
    fn default() -> Self {
        Self { resume: "restart", poison_after: 0, call_s: 20, fault: &NONE }
    }
}

/// A case: a run that is killed, resumed, killed again, and at last runs to its end.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) build: Build,
    pub(super) work: Work,
    pub(super) setup: Setup,
    /// The first is for `agent`, the others for one `resume` each.
    pub(super) attacks: Vec<Attack>,
}

/// The token that a case's command writes into the ledger.
pub(super) fn token(case: &str, command: usize) -> String {
    format!("{case}.{command}")
}

/// The cases with points, in order. Each point is hit at least five times.
pub(super) fn pointed() -> Vec<Case> {
    use Point::{Accepted, CallEnded, IntentSynced, MidCall, MidStream, Opening, Recorded, RequestSent, Sealed};
    let agent: [(Point, &[u32]); 9] = [
        (Accepted, &[1, 1, 1, 1, 1]),
        (RequestSent, &[1, 2, 5]),
        (MidStream, &[1, 9, 30]),
        (Sealed, &[1, 2, 4]),
        (IntentSynced, &[1, 2, 3, 4]),
        (MidCall, &[1, 2]),
        (CallEnded, &[1, 2, 3, 4]),
        (Recorded, &[1, 3, 8, 15, 30]),
        (Opening, &[1]),
    ];
    let single = agent.iter().flat_map(|(point, nths)| nths.iter().map(|nth| vec![(*point, *nth)]));
    let resumed: [&[(Point, u32)]; 17] = [
        &[(MidStream, 3), (RequestSent, 1)],
        &[(Sealed, 1), (RequestSent, 2)],
        &[(RequestSent, 1), (MidStream, 2)],
        &[(MidStream, 4), (MidStream, 4), (MidStream, 8)],
        &[(RequestSent, 1), (Sealed, 1)],
        &[(IntentSynced, 1), (Sealed, 1)],
        &[(Sealed, 2), (IntentSynced, 1)],
        &[(IntentSynced, 2), (IntentSynced, 1)],
        &[(IntentSynced, 2), (MidCall, 1)],
        &[(RequestSent, 2), (MidCall, 1), (MidCall, 1)],
        &[(IntentSynced, 2), (CallEnded, 1)],
        &[(CallEnded, 2), (CallEnded, 1)],
        &[(Sealed, 2), (Recorded, 1)],
        &[(IntentSynced, 2), (Recorded, 4)],
        &[(MidStream, 5), (Opening, 1), (Opening, 1)],
        &[(CallEnded, 2), (Opening, 1)],
        &[(IntentSynced, 4), (Opening, 1)],
    ];
    let resumed = resumed.iter().map(|points| points.to_vec());
    let rounds = single.chain(resumed).enumerate().map(|(at, points)| rounds(at, &points));
    rounds.chain(mid_call()).chain(endings()).collect()
}

fn rounds(at: usize, points: &[(Point, u32)]) -> Case {
    let attack = |(point, nth): &(Point, u32)| Attack::Point { point: *point, nth: *nth, interrupt_when: None };
    // Every third case keeps the text of an interrupted stream instead of retracting it.
    let resume = if at % 3 == 2 { "continue" } else { "restart" };
    Case {
        name: format!("point-{at}"),
        build: Build::Points,
        work: Work::Rounds,
        setup: Setup { resume, ..Setup::default() },
        attacks: points.iter().map(attack).collect(),
    }
}

/// Killed from outside while the tool's child is known to run: by the first `agent`, by a `resume`, in both commands.
fn mid_call() -> Vec<Case> {
    let orders: [&[usize]; 4] = [&[0], &[1], &[0, 1], &[0, 0, 1]];
    let case = |(at, commands): (usize, &&[usize])| {
        let name = format!("call-{at}");
        let attacks = commands.iter().map(|command| Attack::Token { token: token(&name, *command) }).collect();
        Case { name, build: Build::Points, work: Work::Rounds, setup: Setup::default(), attacks }
    };
    orders.iter().enumerate().map(case).collect()
}

/// Killed while a command is being stopped: by the user's abort, and by the call's own limit.
fn endings() -> Vec<Case> {
    let ending = |interrupt_when| Attack::Point { point: Point::EndingCall, nth: 1, interrupt_when };
    let case = |name: &str, work, attacks| {
        // Enough for a command to start on a busy machine.
        let call_s = if work == Work::Limited { 4 } else { Setup::default().call_s };
        Case { name: name.to_owned(), build: Build::Points, work, setup: Setup { call_s, ..Setup::default() }, attacks }
    };
    let aborted = |name: &str, again: usize| {
        let first = ending(Some(token(name, 0)));
        let attacks = std::iter::once(first).chain(std::iter::repeat_n(ending(None), again)).collect();
        case(name, Work::Aborted, attacks)
    };
    let limited = |name: &str| case(name, Work::Limited, vec![ending(None), ending(None)]);
    vec![aborted("abort-0", 0), aborted("abort-1", 1), aborted("abort-2", 2), limited("limit-0")]
}

/// Draws cases of the shipped build from a seed: `agent` killed, and the `resume` after it.
#[derive(Debug)]
pub(super) struct Random {
    state: u64,
    made: usize,
    whole_us: u64,
}

impl Random {
    /// Draws from this seed; times are within the duration of a whole run.
    pub(super) fn new(seed: u64, whole_us: u64) -> Self {
        Self { state: seed, made: 0, whole_us }
    }

    fn below(&mut self, limit: u64) -> u64 {
        // The finaliser of splitmix64 over a counter: enough to spread the times.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    /// A case with this provider fault. Each pass over all kinds kills other processes: the first one while the fault
    /// is in progress and the next at any time, then one alone, then the first one early, so that the next one meets
    /// the fault.
    pub(super) fn case(&mut self, fault: &'static ProviderFault, pass: usize) -> Case {
        // After a pass in which no kill happened during the fault, wait longer.
        let after_us = self.below(fault.lasts_ms * 1_000 * (1 + pass as u64 % 4));
        let (whole_us, during) = (self.whole_us, Attack::Fault { after_us });
        let attacks = match pass % 3 {
            _ if *fault == NONE => (0..=self.made % 2).map(|_| Attack::After { us: self.below(whole_us) }).collect(),
            0 => vec![during, Attack::After { us: self.below(whole_us / 2) }],
            1 => vec![during],
            _ => vec![Attack::After { us: self.below(whole_us / 10) }, during],
        };
        let name = format!("random-{}", self.made);
        self.made += 1;
        Case { name, build: Build::Plain, work: fault.work, setup: Setup { fault, ..Setup::default() }, attacks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FAULTS;
    use std::collections::BTreeMap;

    fn random_cases(seed: u64, pass: usize) -> Vec<Case> {
        let mut random = Random::new(seed, 1_000_000);
        FAULTS.iter().map(|fault| random.case(fault, pass)).collect()
    }

    #[test]
    fn every_point_is_attacked_five_times_and_ten_attacks_are_on_resume() {
        let cases = pointed();
        let mut hits = BTreeMap::new();
        for point in cases.iter().flat_map(|case| &case.attacks).filter_map(Attack::point) {
            *hits.entry(point).or_insert(0) += 1;
        }
        for (point, name, _) in Point::ALL {
            assert!(hits.get(&point).is_some_and(|hits| *hits >= 5), "{name}: {:?}", hits.get(&point));
        }
        assert!(cases.iter().map(|case| case.attacks.len() - 1).sum::<usize>() >= 10);
    }

    #[test]
    fn names_are_unique_so_that_tokens_are() {
        let names: Vec<String> = pointed().into_iter().chain(random_cases(1, 0)).map(|case| case.name).collect();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn r51_each_kind_of_fault_is_attacked_in_a_first_process_and_in_a_resume() {
        for (fault, case) in FAULTS.iter().zip(random_cases(1, 0)) {
            assert_eq!(case.setup.fault, fault);
            assert!(matches!(case.attacks[..], [Attack::Fault { .. }, Attack::After { .. }]), "{:?}", case.attacks);
        }
        assert!(random_cases(1, 2).iter().all(|case| matches!(case.attacks[..], [_, Attack::Fault { .. }])));
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let times = |seed| random_cases(seed, 0).into_iter().flat_map(|case| case.attacks).collect::<Vec<_>>();
        assert_eq!(times(7), times(7));
        assert_ne!(times(7), times(8));
    }
}
