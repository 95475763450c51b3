//! Failover against a second model that knows nothing of the engine's tables: loops and locals. Nine classes of failure, three
//! profiles of three models, an answer after any number of failures or never, and the same with a crash after each step.

mod support;

use engine::tables::lifecycle::LifecycleKind;
use engine::{Candidate, EffectKind, Event, Failure, FailureClass, Outcome, Part, Phase, Report, Run, Thinking, Usage};
use support::World;
use support::script::run_line;

/// What was done for a run, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    /// A request to this candidate, at this time.
    Asked { candidate: usize, at: i64 },
    /// The run ended so, at this time.
    Ended { outcome: Outcome, at: i64 },
    /// It is held for a human.
    Held,
}

const MODELS: usize = 3;
const PROFILES: usize = 3;
const CLASSES: [FailureClass; 9] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::Billing,
    FailureClass::Network,
    FailureClass::ModelNotFound,
    FailureClass::ThinkingUnsupported,
    FailureClass::InvalidRequest,
    FailureClass::Unknown,
];
/// Every backoff: what the jitter is drawn from is always this.
const BACKOFF_MS: i64 = 500;
const MAX_WAIT_MS: i64 = 3_600_000;

/// Of the three profiles of each model the second one is logged in.
fn can_refresh(candidate: usize) -> bool {
    candidate % PROFILES == 1
}

/// What a person would do who reads the table of failures: so many requests fail like this, then one is answered. The
/// provider says `says_ms` each time, or nothing.
fn expected(class: FailureClass, mut failures: u32, says_ms: Option<i64>) -> Vec<Act> {
    let all = MODELS * PROFILES;
    let waits = matches!(class, FailureClass::RateLimit | FailureClass::Overloaded);
    let (mut acts, mut now, mut waited, mut current) = (vec![], 0, 0, 0);
    let mut free_at = vec![0; all];
    let mut given_up = vec![0; all];
    loop {
        let tries = match class {
            FailureClass::RateLimit | FailureClass::Overloaded => 2,
            FailureClass::Network => 3,
            // The level that it was to have, and the five below it.
            FailureClass::ThinkingUnsupported => 6,
            // One more with a new token, at once.
            FailureClass::Auth if can_refresh(current) => 2,
            _ => 1,
        };
        for number in 1..=tries {
            acts.push(Act::Asked { candidate: current, at: now });
            if failures == 0 {
                acts.push(Act::Ended { outcome: Outcome::Completed, at: now });
                return acts;
            }
            failures -= 1;
            if number < tries && !matches!(class, FailureClass::ThinkingUnsupported | FailureClass::Auth) {
                let others = (0..all).any(|other| other != current && free_at[other] <= now);
                let delay = says_ms.unwrap_or(BACKOFF_MS);
                if delay > if others || waits { 60_000 } else { MAX_WAIT_MS } {
                    break;
                }
                now += delay;
            }
        }
        match class {
            FailureClass::Unknown => acts.push(Act::Held),
            FailureClass::InvalidRequest | FailureClass::ThinkingUnsupported => {
                acts.push(Act::Ended { outcome: Outcome::Failed, at: now });
            }
            _ => {}
        }
        if matches!(acts.last(), Some(Act::Held | Act::Ended { .. })) {
            return acts;
        }
        let model = current / PROFILES;
        for (other, free_at) in free_at.iter_mut().enumerate() {
            let same_key =
                matches!(class, FailureClass::Auth | FailureClass::Billing) && other % PROFILES == current % PROFILES;
            let same_model = class == FailureClass::ModelNotFound && other / PROFILES == model;
            if other == current || same_key || same_model {
                let minutes = [1, 5, 25, 60][given_up[other].min(3)];
                given_up[other] += 1;
                *free_at = if waits { now + says_ms.unwrap_or(0).max(minutes * 60_000) } else { i64::MAX };
            }
        }
        if let Some(next) = (0..all).find(|other| *other != current && free_at[*other] <= now) {
            current = next;
            continue;
        }
        let soonest = *free_at.iter().min().expect("there are some");
        if soonest == i64::MAX || soonest - now + waited > MAX_WAIT_MS {
            acts.push(Act::Ended { outcome: Outcome::Failed, at: now });
            return acts;
        }
        waited += soonest - now;
        now = soonest;
        current = (0..all).find(|other| free_at[*other] <= now).expect("the soonest");
    }
}

/// A session with a run whose first request is out.
fn begun() -> World {
    let mut world = World::new();
    let one = world.settings.candidates.remove(0);
    for candidate in 0..MODELS * PROFILES {
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

/// What the engine does; before step `crash_at` its process is gone, and the next one goes on.
fn done(class: FailureClass, mut failures: u32, says_ms: Option<i64>, crash_at: Option<usize>) -> (Vec<Act>, usize) {
    let mut world = begun();
    let mut steps = 0;
    loop {
        steps += 1;
        assert!(
            steps < 1_000,
            "{class:?} says {says_ms:?}: {:?} {:?}",
            acts(&world).len(),
            world.session().run().map(|run| (&run.phase, &run.counters, world.now))
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
        if failures > 0 {
            failures -= 1;
            let retry_after_ms = says_ms.map(|ms| ms as u64);
            let failure = Failure { retry_after_ms, ..Failure::new(class, "it is so") };
            world.step(Report::RequestFailed { effect, failure });
        } else {
            world.step(Report::Said { effect, part: Part::Text("Done.".into()) });
            world.step(Report::RequestEnded { effect, usage: Usage::default() });
        }
    }
    (acts(&world), steps)
}

fn is_waiting(run: &Run) -> bool {
    matches!(run.phase, Phase::Retry { .. } | Phase::Awaiting { .. })
}

/// A request that a crash has sent once more is the same try of the same candidate.
fn acts(world: &World) -> Vec<Act> {
    let mut acts: Vec<Act> = vec![];
    let (mut is_out, mut cut) = (false, false);
    for record in &world.journal {
        let at = record.at.0;
        match &record.event {
            Event::Opened(_) => cut = is_out,
            Event::RequestSent(_) if std::mem::take(&mut cut) => {}
            Event::RequestSent(e) => {
                acts.push(Act::Asked { candidate: e.candidate as usize, at });
                is_out = true;
            }
            Event::Failed(_) => is_out = false,
            Event::RunEnded(e) => acts.push(Act::Ended { outcome: e.outcome, at }),
            Event::LifecycleChanged(e) if e.to == LifecycleKind::Error => acts.push(Act::Held),
            _ => {}
        }
    }
    acts
}

/// Of failures in a row: through the first candidates, about the end of the chain, and more than any takes.
const FAILURES: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 17, 18, 19, 26, 27, 10_000];

#[test]
fn r50_r51_r53_r54_every_chain_is_what_a_second_model_expects() {
    for class in CLASSES {
        for says_ms in [None, Some(0), Some(700), Some(60_001), Some(3_600_001)] {
            for failures in FAILURES {
                let (acts, _) = done(class, failures, says_ms, None);
                assert_eq!(acts, expected(class, failures, says_ms), "{class:?}, {failures} times, says {says_ms:?}");
            }
        }
    }
}

#[test]
fn r50_r54_a_crash_anywhere_in_a_chain_changes_nothing_of_it() {
    for class in CLASSES {
        for (failures, says_ms) in [(3, None), (7, Some(90_000)), (10_000, Some(700))] {
            let (whole, steps) = done(class, failures, says_ms, None);
            for crash_at in 1..=steps {
                let (acts, _) = done(class, failures, says_ms, Some(crash_at));
                assert_eq!(acts, whole, "{class:?}, {failures} times, a crash before step {crash_at}");
            }
        }
    }
}

#[test]
fn r51_when_all_have_failed_each_is_named_with_its_reason() {
    let mut world = begun();
    let say = |world: &mut World, class, why: &str| {
        let effect = *world.running.keys().find(|effect| effect.kind == EffectKind::Request).expect("a request");
        let at = world.session().run().expect("a run").counters.candidate as usize;
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
                    acme/model-0 (profile-2): not asked (auth_permanent, left alone for 300 min)\n\
                    acme/model-1 (profile-0): not asked (auth, left alone for 1 min)\n\
                    acme/model-2 (profile-0): not asked (auth, left alone for 1 min)\n\
                    acme/model-2 (profile-1): not asked (billing, left alone for 300 min)\n\
                    acme/model-2 (profile-2): not asked (auth_permanent, left alone for 300 min)";
    assert_eq!((ended.message.as_str(), ended.class), (expected, FailureClass::AuthPermanent));
}
