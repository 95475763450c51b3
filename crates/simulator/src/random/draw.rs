//! Random workloads and faults of a seed. Each use has its own sequence of numbers, so that one more draw in one use
//! does not change the others.

use std::collections::BTreeSet;

use engine::{Allowance, AtLimit, BlockMode, Budget, FailureClass, Limits, ResumeMode, Thinking};

use super::trial::{Mode, Part, Trial};
use crate::case::Form;
use crate::fault::{Fault, Lost, PlannedFault};
use crate::hit::{Harm, Hit};
use crate::plan::Plan;
use crate::workload::{
    After, Again, Asked, CallOf, Defect, Ends, Expiry, Leave, Odd, Pause, Route, Script, Seed, Task, Then, Turn,
    TurnCall, TurnFailure, When, Workload,
};
use crate::world::Rng;

/// Words of the model, of different lengths.
const WORDS: [&str; 6] = ["I ", "look ", "around ", "and ", "then ", "decide "];

/// Up to an hour and ten years, in milliseconds.
const JUMPS: [i64; 6] = [-1_000, 1_000, -3_600_000, 3_600_000, -315_576_000_000, 315_576_000_000];

/// The workload of a case, without the parts that it leaves out.
pub fn plan_of(trial: &Trial) -> Plan {
    let row = |of: &str| Rng::new(trial.seed, of);
    let mut settings = row("settings");
    let mode = trial.mode;
    let seed = Seed {
        seed: trial.seed,
        resume: settings.of(&[ResumeMode::Restart, ResumeMode::Continue]),
        leave: match mode {
            Mode::Random | Mode::Disk => settings.of(&[Leave::Given, Leave::Given, Leave::Denied, Leave::Mistaken]),
            Mode::Liveness => settings.of(&[Leave::Given, Leave::Denied, Leave::Never]),
        },
        abort: None,
        expiry: expiry(&mut row("expiry")),
    };
    // Of a row of its own: what else is drawn stays as it was.
    let is_edited = seed.leave == Leave::Given && row("edits").one_in(3);
    let seed = if is_edited { Seed { leave: Leave::Edited, ..seed } } else { seed };
    let limits = limits(&mut settings);
    let (mut turns, mut users) = (row("turns"), row("users"));
    let runs = (0..=turns.pick(4)).map(|index| {
        let mut script = script(index, &mut turns);
        users_of(&mut script, mode, &mut users);
        script
    });
    let mut runs: Vec<Script> = runs.collect();
    put_into_the_background(&mut runs, &mut row("background"));
    let mut bounds = row("bounds");
    let budget = if bounds.one_in(4) { budget(&mut bounds) } else { Budget::default() };
    if bounds.one_in(6) {
        make_long(&mut runs, &mut bounds);
    }
    questions_and_plans(&mut runs, &mut row("kinds"));
    let mut odd = row("odd");
    for turn in runs.iter_mut().flat_map(|run| &mut run.turns) {
        turn.odd = odd.one_in(6).then(|| odd.of(&Odd::ALL));
    }
    let Workload { tools, candidates, .. } = Workload::checked_in();
    let mut chain = row("candidates");
    let candidates = if chain.one_in(3) { candidates } else { asked(&mut chain) };
    let titles = row("titles").one_in(3);
    let route = route(&mut row("route"));
    let task = task(&mut row("task"));
    let mut workload = Workload { seeds: vec![], limits, budget, titles, route, task, candidates, tools, runs };
    leave_out(&mut workload, &trial.dropped);
    Plan::of(workload, seed)
}

/// In half of the cases replies go to a route.
fn route(rng: &mut Rng) -> Option<Route> {
    let route = |rng: &mut Rng| Route {
        has_keys: rng.one_in(2),
        blocks: rng.of(&[BlockMode::Off, BlockMode::TextEnd, BlockMode::MessageEnd]),
    };
    rng.one_in(2).then(|| route(rng))
}

/// In a third of the cases approval requests expire.
fn expiry(rng: &mut Rng) -> Expiry {
    if rng.one_in(3) { rng.of(&[Expiry::Denies, Expiry::Keeps]) } else { Expiry::Never }
}

/// In a third of the cases a run stops before some classes, in an eighth it only plans, in a quarter its answer is to fit a
/// schema.
fn task(rng: &mut Rng) -> Task {
    let classes: [&[&str]; 4] = [&["look"], &["put"], &["post", "command"], &["put", "post", "command"]];
    let one = [rng.pick(classes.len())];
    // Two groups have no tool in common.
    let two = rng.of(&[[0, 3], [1, 2]]);
    let chosen = match rng.pick(6) {
        0 => &one[..],
        1 => &two,
        _ => &[],
    };
    let group = |at: &usize| classes[*at].iter().map(|tool| (*tool).to_owned()).collect();
    Task { stop_before: chosen.iter().map(group).collect(), plan: rng.one_in(8), schema: rng.one_in(4) }
}

fn limits(rng: &mut Rng) -> Limits {
    let limits = Limits::default();
    Limits {
        deadline_ms: rng.one_in(6).then(|| 50 + rng.pick(800) as u64),
        first_byte_timeout_ms: rng.of(&[limits.first_byte_timeout_ms, 30_000]),
        idle_timeout_ms: rng.of(&[limits.idle_timeout_ms, 20_000]),
        tool_timeout_ms: if rng.one_in(6) { 10 + rng.pick(200) as u64 } else { limits.tool_timeout_ms },
        retries: rng.pick(4) as u32,
        poison_after: rng.of(&[3, 3, 2, 0]),
        stall_ms: if rng.one_in(6) { Some(50 + rng.pick(800) as u64) } else { limits.stall_ms },
        ..limits
    }
}

/// A budget: a few requests of about 1,300 tokens, as each scripted request is estimated, or a few calls.
fn budget(rng: &mut Rng) -> Budget {
    let run = Allowance {
        tokens: (!rng.one_in(3)).then(|| 900 + rng.pick(6_000) as u64),
        calls: rng.one_in(3).then(|| 1 + rng.pick(4) as u64),
        ..Allowance::default()
    };
    let tokens = (run.is_unlimited() || rng.one_in(3)).then(|| 1_200 + rng.pick(12_000) as u64);
    let session = Allowance { tokens, ..Allowance::default() };
    let at_limit = rng.of(&[AtLimit::Wait, AtLimit::Wait, AtLimit::End]);
    Budget { run, session, at_limit, wrap_up: rng.of(&[0, 80]), ..Budget::default() }
}

/// What a provider reports of a key or a model, some of it only once.
const FLAWS: [(FailureClass, u32); 7] = [
    (FailureClass::Auth, 1),
    (FailureClass::Auth, 1),
    (FailureClass::Auth, u32::MAX),
    (FailureClass::AuthPermanent, u32::MAX),
    (FailureClass::Billing, u32::MAX),
    (FailureClass::ModelNotFound, u32::MAX),
    (FailureClass::RateLimit, 3),
];

/// One to three keys of one or two models; at least one of them works.
fn asked(rng: &mut Rng) -> Vec<Asked> {
    let models = &["script", "other"][..=rng.pick(2)];
    let profiles = &["first", "second", "third"][..=rng.pick(3)];
    let mut asked: Vec<Asked> =
        models.iter().flat_map(|model| profiles.iter().map(|profile| Asked::new(model, profile))).collect();
    let sound = rng.pick(asked.len());
    for (at, asked) in asked.iter_mut().enumerate() {
        asked.can_refresh = rng.one_in(2);
        if rng.one_in(3) {
            asked.thinking = Some(rng.of(&[Thinking::Xhigh, Thinking::High, Thinking::Low]));
            let accepts = [Thinking::Medium, Thinking::Minimal, Thinking::Off];
            asked.accepts = rng.one_in(2).then(|| rng.of(&accepts));
        }
        let (class, times) = rng.of(&FLAWS);
        asked.flaw = (rng.one_in(2) && at != sound).then_some(Defect { class, times });
    }
    asked
}

/// Before every answer the provider reports that the request is too long, in some runs more often than compaction can
/// fix.
fn make_long(runs: &mut [Script], rng: &mut Rng) {
    for turn in runs.iter_mut().flat_map(|run| &mut run.turns) {
        let class = FailureClass::ContextOverflow;
        let times = 1 + rng.pick(5) as u32;
        turn.failure = Some(TurnFailure { class, after: 0, cut: 0, retry_after_ms: None, times });
    }
}

fn script(index: usize, rng: &mut Rng) -> Script {
    let count = 1 + rng.pick(3);
    let mut turns: Vec<Turn> = (0..count).map(|_| turn(rng)).collect();
    // A turn with calls continues after them, a turn without is the end: all but the last have some.
    for turn in &mut turns[..count - 1] {
        if turn.calls.is_empty() {
            turn.calls.push(call(rng));
        }
    }
    turns[count - 1].calls.clear();
    Script {
        message: format!("Do part {index} of it."),
        turns,
        after: After::Accepted,
        again: None,
        cancel: false,
        pause: None,
        abort: None,
    }
}

fn turn(rng: &mut Rng) -> Turn {
    let chunks = (0..=rng.pick(6)).map(|_| rng.of(&WORDS).to_owned()).collect();
    let calls = (0..rng.pick(4)).map(|_| call(rng)).collect();
    let failure = rng.one_in(4).then(|| failure(rng));
    Turn { chunks, calls, failure, odd: None }
}

/// Makes some calls that only look questions of the model, and others its plan.
fn questions_and_plans(runs: &mut [Script], rng: &mut Rng) {
    let calls = runs.iter_mut().flat_map(|run| &mut run.turns).flat_map(|turn| &mut turn.calls);
    for call in calls.filter(|call| call.tool == "look" && call.ends == Ends::Done) {
        call.of = match rng.pick(6) {
            0 => CallOf::Question,
            1 => CallOf::Plan,
            _ => CallOf::Tool,
        };
    }
}

fn call(rng: &mut Rng) -> TurnCall {
    let tool = rng.of(&["look", "look", "put", "post", "command", "command"]);
    let ends = match rng.pick(12) {
        0 => Ends::Failed,
        1 => Ends::Hangs,
        2 if rng.one_in(3) => Ends::Stubborn,
        _ => Ends::Done,
    };
    TurnCall { tool: tool.to_owned(), asks: tool != "look" && rng.one_in(4), ends, background: false, of: CallOf::Tool }
}

/// Failures that pass when the request is retried.
const GOING_BY: &[FailureClass] = &[
    FailureClass::Network,
    FailureClass::Network,
    FailureClass::Overloaded,
    FailureClass::RateLimit,
    FailureClass::Server,
    FailureClass::Malformed,
    FailureClass::Stalled,
    FailureClass::Stalled,
    FailureClass::Timeout,
];

/// Failures that concern the key, the model or the request.
const OTHERS: &[FailureClass] = &[
    FailureClass::Auth,
    FailureClass::Auth,
    FailureClass::AuthPermanent,
    FailureClass::Billing,
    FailureClass::ModelNotFound,
    FailureClass::ThinkingUnsupported,
    FailureClass::InvalidRequest,
    FailureClass::ContextOverflow,
    FailureClass::ContextOverflow,
    FailureClass::ContextOverflow,
    FailureClass::Unknown,
];

fn failure(rng: &mut Rng) -> TurnFailure {
    let class = if rng.one_in(3) { rng.of(OTHERS) } else { rng.of(GOING_BY) };
    let (after, cut) = (rng.pick(8), rng.pick(12));
    let (after, cut) = if class == FailureClass::Timeout { (0, 0) } else { (after, cut) };
    // Not given, at once, soon, longer than a run waits while other candidates are left, longer than it waits at all.
    let retry_after_ms = rng.of(&[None, None, None, Some(0), Some(700), Some(60_001), Some(3_600_001)]);
    TurnFailure { class, after, cut, retry_after_ms, times: 1 + rng.pick(3) as u32 }
}

/// Some commands continue after their calls are settled. One that also cannot be stopped would never end.
fn put_into_the_background(runs: &mut [Script], rng: &mut Rng) {
    let calls = runs.iter_mut().flat_map(|run| &mut run.turns).flat_map(|turn| &mut turn.calls);
    for call in calls.filter(|call| call.tool == "command" && call.ends != Ends::Stubborn) {
        call.background = rng.one_in(3);
    }
}

fn users_of(script: &mut Script, mode: Mode, rng: &mut Rng) {
    let signs = [When::Begun, When::Streaming, When::Settled, When::Asked, When::Call];
    if rng.one_in(4) {
        script.after = After::Ended;
    }
    if rng.one_in(3) {
        script.again = Some(rng.of(&[Again::Same, Again::Key, Again::Key, Again::Conflict]));
    }
    script.cancel = rng.one_in(8);
    if rng.one_in(4) {
        let then = match mode {
            Mode::Random | Mode::Disk => rng.of(&[Then::Resumed, Then::Resumed, Then::Dropped]),
            Mode::Liveness => rng.of(&[Then::Resumed, Then::Dropped, Then::Stays]),
        };
        script.pause = Some(Pause { when: rng.of(&signs), then });
    }
    if rng.one_in(4) {
        script.abort = Some(rng.of(&signs));
    }
}

/// Leaves parts out. They are named by their indices in the drawn workload, so the last ones are removed first.
fn leave_out(workload: &mut Workload, dropped: &[Part]) {
    let parts: BTreeSet<Part> = dropped.iter().copied().collect();
    for part in &parts {
        match *part {
            Part::Calls(run, turn) => change(workload, run, turn, |turn| turn.calls.clear()),
            Part::Failure(run, turn) => change(workload, run, turn, |turn| turn.failure = None),
            Part::User(run) => {
                if let Some(script) = workload.runs.get_mut(run) {
                    (script.again, script.cancel, script.pause, script.abort) = (None, false, None, None);
                    script.after = After::Accepted;
                }
            }
            Part::Odd(run, turn) => change(workload, run, turn, |turn| turn.odd = None),
            Part::Message(_) | Part::Turn(..) | Part::Candidate(_) => {}
        }
    }
    for part in parts.iter().rev() {
        match *part {
            Part::Turn(run, turn) => {
                if let Some(script) = workload.runs.get_mut(run)
                    && script.turns.len() > 1
                    && turn < script.turns.len()
                {
                    script.turns.remove(turn);
                }
            }
            Part::Candidate(at) if workload.candidates.len() > 1 && at < workload.candidates.len() => {
                drop(workload.candidates.remove(at));
            }
            _ => {}
        }
    }
    for part in parts.iter().rev() {
        if let Part::Message(run) = *part
            && workload.runs.len() > 1
            && run < workload.runs.len()
        {
            workload.runs.remove(run);
        }
    }
}

fn change(workload: &mut Workload, run: usize, turn: usize, change: impl FnOnce(&mut Turn)) {
    workload.runs.get_mut(run).and_then(|script| script.turns.get_mut(turn)).map(change);
}

/// The faults of a case, soonest first.
pub fn faults_of(trial: &Trial) -> Vec<PlannedFault> {
    if let Some(faults) = &trial.faults {
        return faults.clone();
    }
    let mut rng = Rng::new(trial.seed, "faults");
    let (count, within) = match trial.mode {
        Mode::Random => (rng.pick(7), 60 + rng.pick(500)),
        Mode::Liveness => (5 + rng.pick(20), 60 + rng.pick(300)),
        Mode::Disk => (1 + rng.pick(6), 1 + rng.pick(300)),
    };
    let mut faults: Vec<PlannedFault> = (0..count)
        .flat_map(|_| {
            let at = rng.pick(within) as u32;
            if trial.mode == Mode::Disk && !rng.one_in(4) { vec![hit(at, &mut rng)] } else { fault(at, &mut rng) }
        })
        .collect();
    faults.sort_by_key(|inject| inject.at);
    faults
}

/// A fault at one of the next operations of the disk: an append has about twenty, a new journal about a hundred.
fn hit(at: u32, rng: &mut Rng) -> PlannedFault {
    let harms: Vec<Harm> = Harm::all().collect();
    let (harm, within) = (rng.of(&harms), rng.of(&[10, 50, 400]));
    PlannedFault { at, fault: Fault::Disk(Hit { harm, nth: 1 + rng.pick(within) as u64 }) }
}

fn fault(at: u32, rng: &mut Rng) -> Vec<PlannedFault> {
    let power = Form::Power { keep: rng.pick(4) };
    let form = rng.of(&[Form::Process, Form::Ended, power]);
    let fault = match rng.pick(14) {
        0..=4 => Fault::Crash(form),
        5 => Fault::Store(Lost::All),
        6 => Fault::Store(Lost::Word),
        7 => Fault::Full(1 << rng.pick(14)),
        8 => Fault::Slow(rng.of(&[4, 100, 5_000])),
        9 => {
            let jump = PlannedFault { at, fault: Fault::Jump(rng.of(&JUMPS)) };
            return vec![jump, PlannedFault { at, fault: Fault::Crash(form) }];
        }
        10 | 11 => Fault::Echo(rng.pick(3)),
        12 => Fault::Late,
        _ => Fault::Close,
    };
    vec![PlannedFault { at, fault }]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_left_out_is_not_there_and_nothing_else_changes() {
        let mut trial = Trial::new(Mode::Random, 0);
        trial.seed =
            (0..1_000).find(|seed| plan_of(&Trial { seed: *seed, ..trial.clone() }).workload.runs.len() > 2).unwrap();
        let whole = plan_of(&trial).workload;
        let faults = faults_of(&trial);
        trial.dropped = vec![Part::Message(1), Part::Failure(0, 0), Part::User(2)];
        let less = plan_of(&trial).workload;
        assert_eq!(less.runs.len() + 1, whole.runs.len());
        assert_eq!(less.runs[1].message, whole.runs[2].message);
        assert!(less.runs[0].turns[0].failure.is_none() && less.runs[1].abort.is_none());
        assert_eq!(faults_of(&trial), faults);
    }

    #[test]
    fn every_kind_of_fault_is_drawn() {
        let mut names = BTreeSet::new();
        for seed in 0..200 {
            names.extend(faults_of(&Trial::new(Mode::Random, seed)).iter().map(|inject| inject.fault.name()));
        }
        assert_eq!(names.len(), 11, "{names:?}");
        for seed in 0..200 {
            names.extend(faults_of(&Trial::new(Mode::Disk, seed)).iter().map(|inject| inject.fault.name()));
        }
        assert_eq!(names.len(), 11 + Harm::all().count(), "{names:?}");
    }

    #[test]
    fn r24_r50_r51_r53_every_chain_and_every_odd_answer_is_drawn() {
        let (mut odd, mut flaws, mut chains, mut lowered) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), 0);
        for seed in 0..400 {
            let Workload { runs, candidates, .. } = plan_of(&Trial::new(Mode::Random, seed)).workload;
            odd.extend(runs.iter().flat_map(|run| &run.turns).filter_map(|turn| turn.odd));
            assert!(candidates.iter().any(|asked| asked.flaw.is_none()), "seed {seed}: no candidate works");
            flaws.extend(candidates.iter().filter_map(|asked| asked.flaw).map(|flaw| (flaw.class as u8, flaw.times)));
            lowered +=
                candidates.iter().filter(|asked| asked.accepts.is_some_and(|most| asked.thinking > Some(most))).count();
            chains.insert(candidates.len());
        }
        let known: BTreeSet<(u8, u32)> = FLAWS.iter().map(|(class, times)| (*class as u8, *times)).collect();
        assert_eq!((odd, flaws), (Odd::ALL.into(), known));
        assert!(chains == [1, 2, 3, 4, 6].into() && lowered > 50, "{chains:?} {lowered}");
    }

    #[test]
    fn r16_r61_whatever_a_message_can_ask_of_its_run_is_drawn() {
        let (mut stops, mut plans, mut schemas) = (BTreeMap::<usize, u32>::new(), 0, 0);
        for seed in 0..400 {
            let Task { stop_before, plan, schema } = plan_of(&Trial::new(Mode::Random, seed)).workload.task;
            *stops.entry(stop_before.len()).or_default() += 1;
            plans += u32::from(plan);
            schemas += u32::from(schema);
        }
        assert!(stops.len() == 3 && stops.values().all(|times| *times > 30), "{stops:?}");
        assert!(plans > 20 && schemas > 50, "{plans} plans, {schemas} schemas");
    }

    #[test]
    fn every_failure_of_a_provider_is_drawn() {
        let mut drawn = BTreeMap::<FailureClass, u32>::new();
        let (mut waits, mut cuts) = (BTreeSet::new(), 0);
        for seed in 0..400 {
            let plan = plan_of(&Trial::new(Mode::Random, seed));
            let turns = plan.workload.runs.iter().flat_map(|run| &run.turns);
            for failure in turns.filter_map(|turn| turn.failure) {
                *drawn.entry(failure.class).or_default() += 1;
                waits.insert(failure.retry_after_ms);
                cuts += u32::from(failure.cut > 0);
            }
        }
        let caused = OTHERS.iter().chain(GOING_BY);
        let missing: Vec<_> = caused.filter(|class| !drawn.contains_key(class)).collect();
        assert!(missing.is_empty() && waits.len() == 5 && cuts > 50, "{missing:?} {waits:?} {cuts}");
    }
}
