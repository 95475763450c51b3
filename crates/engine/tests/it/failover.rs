//! Failover against an oracle that shares nothing with the engine's tables: loops and local variables. Fourteen classes
//! of failure, three profiles of three models: one class repeatedly, two classes in every position, random orders; and
//! all of them with a crash.

use engine::tables::lifecycle::LifecycleKind;
use engine::{Candidate, EffectKind, Event, Failure, FailureClass, Outcome, Part, Phase, Report, Run, Thinking, Usage};

use crate::support::script::run_line;
use crate::support::{World, invariants};

/// The actions of a run, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    /// It sends a request to this candidate, at this time.
    Asked { candidate: usize, at: i64 },
    /// It ends with this outcome, at this time.
    Ended { outcome: Outcome, at: i64 },
    /// It waits for a human.
    Escalated,
}

const MODELS: usize = 3;
const PROFILES: usize = 3;
const ALL: usize = MODELS * PROFILES;
const CLASSES: [FailureClass; 14] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::AuthPermanent,
    FailureClass::Billing,
    FailureClass::Timeout,
    FailureClass::Stalled,
    FailureClass::Network,
    FailureClass::Server,
    FailureClass::Malformed,
    FailureClass::ModelNotFound,
    FailureClass::ThinkingUnsupported,
    FailureClass::InvalidRequest,
    FailureClass::Unknown,
];
/// The random number of every backoff.
const BACKOFF_MS: i64 = 500;
const MAX_WAIT_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

/// A failure of a request, and the time that the provider asks to wait.
type Response = Option<(FailureClass, Option<i64>)>;

/// The provider's response by the number of earlier failed requests of the run, and the candidate.
type Provider<'a> = &'a dyn Fn(usize, usize) -> Response;

/// The second of the three profiles of each model is logged in.
fn can_refresh(candidate: usize) -> bool {
    candidate % PROFILES == 1
}

/// The cooldown that a failure begins, and its length when it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A quota of this key with this model.
    Quota,
    /// This key, for now.
    Key,
    /// This key, for hours.
    Account,
    /// Nothing.
    Nothing,
}

fn kind_of(class: FailureClass) -> Kind {
    match class {
        FailureClass::RateLimit | FailureClass::Overloaded => Kind::Quota,
        FailureClass::Auth => Kind::Key,
        FailureClass::AuthPermanent | FailureClass::Billing => Kind::Account,
        _ => Kind::Nothing,
    }
}

/// A candidate in cooldown: its end (never is later than any time), its class, and how often in a row.
#[derive(Debug, Clone, Copy)]
struct CoolingDown {
    until: i64,
    kind: Kind,
    times: usize,
}

/// The expected actions, as a reader of the failover table would take them.
#[expect(clippy::too_many_lines, reason = "one loop with locals, which shares nothing with the tables")]
fn expected(provider: Provider<'_>) -> Vec<Act> {
    let (mut acts, mut now, mut waited, mut current) = (vec![], 0, 0, 0);
    let (mut failures, mut in_a_row, mut refused, mut lowered) = (0, 0, 0, 0);
    let mut cooldowns: [Option<CoolingDown>; ALL] = [None; ALL];
    loop {
        acts.push(Act::Asked { candidate: current, at: now });
        let Some((class, retry_after)) = provider(failures, current) else {
            acts.push(Act::Ended { outcome: Outcome::Completed, at: now });
            return acts;
        };
        failures += 1;
        in_a_row += 1;
        refused += usize::from(class == FailureClass::Auth);
        let kind = kind_of(class);
        let is_free = |cooldowns: &[Option<CoolingDown>; ALL], other: usize, now| {
            cooldowns[other].is_none_or(|cooldown| cooldown.until <= now)
        };
        let tries = match class {
            FailureClass::Unknown => {
                acts.push(Act::Escalated);
                return acts;
            }
            // Five levels are below the highest.
            FailureClass::ThinkingUnsupported if lowered < 5 => {
                (in_a_row, refused, lowered) = (0, 0, lowered + 1);
                continue;
            }
            FailureClass::ThinkingUnsupported | FailureClass::InvalidRequest => {
                acts.push(Act::Ended { outcome: Outcome::Failed, at: now });
                return acts;
            }
            FailureClass::Auth if can_refresh(current) && refused < 2 => continue,
            FailureClass::RateLimit | FailureClass::Overloaded => 2,
            FailureClass::Auth | FailureClass::AuthPermanent | FailureClass::Billing | FailureClass::ModelNotFound => 1,
            _ => 3,
        };
        if in_a_row < tries {
            let delay = retry_after.unwrap_or(BACKOFF_MS);
            let mut others = (0..ALL).filter(|other| *other != current);
            let is_sooner = |other: usize| {
                is_free(&cooldowns, other, now)
                    || cooldowns[other]
                        .is_some_and(|cooldown| cooldown.kind == Kind::Quota && cooldown.until < now + delay)
            };
            if delay <= if kind == Kind::Quota || others.any(is_sooner) { MINUTE_MS } else { MAX_WAIT_MS } {
                now += delay;
                continue;
            }
        }
        let times = cooldowns[current].filter(|cooldown| cooldown.kind == kind).map_or(0, |cooldown| cooldown.times);
        let by_itself = match kind {
            Kind::Quota | Kind::Key => [1, 5, 25, 60][times.min(3)] * MINUTE_MS,
            Kind::Account => [300, 600, 1_200, 1_440][times.min(3)] * MINUTE_MS,
            Kind::Nothing => i64::MAX - now,
        };
        let is_given_up = |other: usize| match class {
            _ if other == current => true,
            FailureClass::ModelNotFound => other / PROFILES == current / PROFILES,
            _ => matches!(kind, Kind::Key | Kind::Account) && other % PROFILES == current % PROFILES,
        };
        for other in (0..ALL).filter(|other| is_given_up(*other)) {
            let before = cooldowns[other].filter(|before| before.until > now && other != current);
            let times =
                cooldowns[other].filter(|cooldown| cooldown.kind == kind).map_or(0, |cooldown| cooldown.times) + 1;
            // An earlier cooldown with a time is never shortened.
            let until = now + by_itself.max(retry_after.unwrap_or(0).min(i64::MAX - now));
            let until = match before {
                Some(before) if before.until == i64::MAX || until == i64::MAX => before.until.min(until),
                Some(before) => before.until.max(until),
                None => until,
            };
            cooldowns[other] = Some(CoolingDown { until, kind, times });
        }
        (in_a_row, refused, lowered) = (0, 0, 0);
        if let Some(next) =
            (0..ALL).find(|other| *other != current && !is_given_up(*other) && is_free(&cooldowns, *other, now))
        {
            current = next;
            continue;
        }
        let waits = cooldowns.iter().flatten().filter(|cooldown| cooldown.kind == Kind::Quota && cooldown.until > now);
        let soonest =
            waits.map(|cooldown| cooldown.until).min().filter(|soonest| soonest - now + waited <= MAX_WAIT_MS);
        let Some(soonest) = soonest else {
            acts.push(Act::Ended { outcome: Outcome::Failed, at: now });
            return acts;
        };
        waited += soonest - now;
        now = soonest;
        current = (0..ALL).find(|other| is_free(&cooldowns, *other, now)).expect("the soonest");
    }
}

/// A session with a run whose first request was sent.
fn begun() -> World {
    let mut world = World::new();
    let one = world.settings.candidates.remove(0);
    for candidate in 0..ALL {
        world.settings.candidates.push(Candidate {
            model: format!("model-{}", candidate / PROFILES),
            profile: Some(format!("profile-{}", candidate % PROFILES)),
            thinking: Some(Thinking::Xhigh),
            token_rate: 1_000,
            can_refresh: can_refresh(candidate),
            ..one.clone()
        });
    }
    world.settings.limits.max_wait_ms = MAX_WAIT_MS as u64;
    for line in ["create", "open 1", "message \"hello\"", "lane", "prepared"] {
        run_line(&mut world, line);
    }
    world
}

/// The engine's actions. The process crashes before step `crash_at`, and the next one continues.
fn done(provider: Provider<'_>, crash_at: Option<usize>) -> (Vec<Act>, usize) {
    let mut world = begun();
    world.checks_steps = false;
    let (mut steps, mut failures) = (0, 0);
    loop {
        steps += 1;
        assert!(
            steps < 1_000,
            "{:?}",
            world.session().run().map(|run| (&run.phase, &run.counts.candidates, world.now))
        );
        if crash_at == Some(steps) {
            world.crash_and_open();
        }
        let request = world.running.keys().find(|effect| effect.kind == EffectKind::Request).copied();
        let Some(effect) = request else {
            let Some(due) = world.armed.filter(|_| world.session().run().is_some_and(is_waiting)) else { break };
            world.now = world.now.max(due.0);
            world.step(Report::Due);
            continue;
        };
        let candidate = world.session().run().expect("a run").counts.candidates.candidate as usize;
        if let Some((class, retry_after)) = provider(failures, candidate) {
            failures += 1;
            let retry_after_ms = retry_after.map(|ms| ms as u64);
            let failure = Failure { retry_after_ms, ..Failure::new(class, "it is so") };
            world.step(Report::RequestFailed { effect, failure });
        } else {
            world.step(Report::Streamed { effect, part: Part::Text("Done.".into()) });
            world.step(Report::RequestEnded {
                effect,
                usage: Usage::default(),
                stop_reason: None,
                schema_mismatch: None,
            });
        }
    }
    invariants::check(&world);
    (acts(&world), steps)
}

fn is_waiting(run: &Run) -> bool {
    matches!(run.phase, Phase::Retry { .. } | Phase::Awaiting { .. })
}

/// A request that is sent again after a crash is the same try of the same candidate.
fn acts(world: &World) -> Vec<Act> {
    let mut acts: Vec<Act> = vec![];
    let (mut in_flight, mut was_interrupted) = (false, false);
    for record in &world.journal {
        let at = record.at.0;
        match &record.event {
            Event::Opened(_) => was_interrupted = in_flight,
            Event::RequestSent(_) if std::mem::take(&mut was_interrupted) => {}
            Event::RequestSent(e) => {
                acts.push(Act::Asked { candidate: e.candidate as usize, at });
                in_flight = true;
            }
            Event::Failed(_) => in_flight = false,
            Event::RunEnded(e) => acts.push(Act::Ended { outcome: e.outcome, at }),
            Event::LifecycleChanged(e) if e.to == LifecycleKind::Error => acts.push(Act::Escalated),
            _ => {}
        }
    }
    acts
}

/// Numbers of failures in a row: through the first candidates, around the end of the chain, and more than any chain
/// takes.
const FAILURES: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 17, 18, 19, 26, 27, 10_000];
/// None; at once; soon; longer than the maximum while another candidate is free, and than the maximum at all.
const RETRY_AFTER_MS: [Option<i64>; 5] = [None, Some(0), Some(700), Some(60_001), Some(3_600_001)];

/// The engine does what the oracle expects, without a crash and with one before each of these steps.
fn check(provider: Provider<'_>, crashes: impl Fn(usize) -> Vec<usize>, what: &dyn std::fmt::Debug) {
    let (whole, steps) = done(provider, None);
    assert_eq!(whole, expected(provider), "{what:?}");
    for crash_at in crashes(steps) {
        assert_eq!(done(provider, Some(crash_at)).0, whole, "{what:?}, a crash before step {crash_at}");
    }
}

/// One class for all candidates, this many times.
#[test]
fn r50_r51_r53_r54_a_chain_of_one_class_is_what_a_second_model_expects_also_with_a_crash_anywhere() {
    for class in CLASSES {
        for retry_after in RETRY_AFTER_MS {
            for most in FAILURES {
                let provider = |failures: usize, _: usize| (failures < most).then_some((class, retry_after));
                let is_walked =
                    matches!((most, retry_after), (3, None) | (7, Some(700 | 60_001)) | (10_000, Some(700)));
                let crashes = |steps| if is_walked { (1..=steps).collect() } else { vec![1 + most % steps] };
                check(&provider, crashes, &(class, most, retry_after));
            }
        }
    }
}

/// Every class in every position, behind candidates that all fail with another class: the others answer, or fail like
/// those.
#[test]
fn r50_r51_r53_r54_a_class_at_any_place_is_what_a_second_model_expects_also_with_a_crash_anywhere() {
    let mut cases = 0;
    for before in CLASSES {
        let is_last_word =
            matches!(before, FailureClass::ThinkingUnsupported | FailureClass::InvalidRequest | FailureClass::Unknown);
        // No candidate behind those is asked.
        let places = if is_last_word { 1 } else { ALL };
        for class in CLASSES {
            for place in 0..places {
                for others_answer in [true, false] {
                    let provider = |_: usize, candidate: usize| match candidate {
                        _ if candidate == place => Some((class, None)),
                        _ if candidate < place || !others_answer => Some((before, Some(700))),
                        _ => None,
                    };
                    cases += 1;
                    // One step of each in turn: all of them together are every step many times.
                    check(&provider, |steps| vec![1 + cases % steps], &(before, class, place, others_answer));
                }
            }
        }
    }
}

/// Any class after any other, for any candidate.
#[test]
fn r50_r51_r53_r54_a_chain_of_any_classes_is_what_a_second_model_expects_also_with_a_crash_anywhere() {
    for seed in 0..6_000_u64 {
        let random = |at: usize, of: usize| {
            let mixed = (seed * 1_000 + at as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            ((mixed >> 33) % of as u64) as usize
        };
        let most = random(900, 40);
        let provider = |failures: usize, _: usize| {
            // Half of the seeds have no class that ends or escalates the run, so that their chains are long.
            let classes = if seed % 2 == 0 { &CLASSES[..11] } else { &CLASSES[..] };
            let retry_after = RETRY_AFTER_MS[random(400 + failures, RETRY_AFTER_MS.len())];
            (failures < most).then(|| (classes[random(failures, classes.len())], retry_after))
        };
        check(&provider, |steps| vec![1 + random(901, steps)], &seed);
    }
}

#[test]
fn r51_when_all_have_failed_each_is_named_with_its_reason() {
    let mut world = begun();
    let say = |world: &mut World, class, why: &str| {
        let effect = *world.running.keys().find(|effect| effect.kind == EffectKind::Request).expect("a request");
        let at = world.session().run().expect("a run").counts.candidates.candidate as usize;
        let Candidate { provider, model, profile, .. } = world.settings.candidates[at].clone();
        let failure = Failure { provider: Some(provider), model: Some(model), profile, ..Failure::new(class, why) };
        world.step(Report::RequestFailed { effect, failure });
    };
    say(&mut world, FailureClass::Auth, "wrong key");
    say(&mut world, FailureClass::ModelNotFound, "not there");
    // The first key is refused for every model.
    say(&mut world, FailureClass::Billing, "no credit");
    say(&mut world, FailureClass::AuthPermanent, "revoked");
    let ended = world.journal.iter().find_map(|record| match &record.event {
        Event::RunEnded(e) => e.failure.clone(),
        _ => None,
    });
    let ended = ended.expect("the run ended with a failure");
    let expected = "All models failed (9):\nacme/model-0 (profile-0): wrong key\nacme/model-0 (profile-1): not there\n\
                    acme/model-1 (profile-1): no credit\nacme/model-1 (profile-2): revoked\n\
                    acme/model-0 (profile-2): not asked (auth_permanent, in cooldown for 300 min)\n\
                    acme/model-1 (profile-0): not asked (auth, in cooldown for 1 min)\n\
                    acme/model-2 (profile-0): not asked (auth, in cooldown for 1 min)\n\
                    acme/model-2 (profile-1): not asked (billing, in cooldown for 300 min)\n\
                    acme/model-2 (profile-2): not asked (auth_permanent, in cooldown for 300 min)";
    assert_eq!((ended.message.as_str(), ended.class), (expected, FailureClass::AuthPermanent));
}
