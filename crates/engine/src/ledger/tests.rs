//! Cooldowns, their length, and the order of profiles.

use super::*;
use crate::event::ThinkingLowered;
use crate::ids::{EffectKind, Hash, RunId};
use crate::pump::{Do, Pump};
use crate::settings::Thinking;
use crate::tables::limits::REFUSED_LEVEL_MS;

const MINUTE: u64 = 60_000;

fn candidate(model: &str, profile: &str) -> Candidate {
    Candidate {
        provider: "acme".into(),
        model: model.into(),
        profile: Some(profile.into()),
        context_window: 100_000,
        max_output: 1_000,
        thinking: None::<Thinking>,
        images: true,
        structured_output: false,
        sampling: crate::Sampling::default(),
        token_rate: 1_000,
        can_refresh: false,
        levels: vec![],
        price: None,
    }
}

fn failure_report(number: u32, (model, profile): (&str, &str), class: FailureClass) -> FailureReport {
    let request = EffectId { run: RunId(Uuid::from_u128(1)), kind: EffectKind::Request, ordinal: number, try_no: 1 };
    let (provider, model, profile) = ("acme".into(), model.into(), Some(profile.into()));
    FailureReport { request, provider, model, profile, class, until: None, probe: false }
}

/// Which of two models with two profiles is in cooldown, and for how many minutes from `now`.
fn alone(ledger: &Ledger, now: u64) -> Vec<(u32, u64)> {
    let chain = [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")].map(|(m, p)| candidate(m, p));
    let now = Timestamp(now as i64);
    ledger
        .cooling(&chain, RunId(Uuid::nil()), now)
        .iter()
        .map(|cooled| (cooled.candidate, cooled.until.since(now) / MINUTE))
        .collect()
}

#[test]
fn r50_a_rate_limit_is_the_models_with_this_profile_and_a_key_is_the_profiles_with_every_model() {
    let mut ledger = Ledger::default();
    ledger.record_failure(&failure_report(1, ("one", "a"), FailureClass::RateLimit), Timestamp(0));
    assert_eq!(alone(&ledger, 0), [(0, 1)]);
    ledger.record_failure(&failure_report(2, ("two", "b"), FailureClass::Auth), Timestamp(0));
    assert_eq!(alone(&ledger, 0), [(0, 1), (1, 1), (3, 1)]);
    ledger.record_failure(&failure_report(3, ("two", "a"), FailureClass::Billing), Timestamp(0));
    assert_eq!(alone(&ledger, 0), [(0, 300), (1, 1), (2, 300), (3, 1)]);
    // A failure that says nothing about other requests is not stored.
    ledger.take_batch();
    ledger.record_failure(&failure_report(4, ("one", "b"), FailureClass::Timeout), Timestamp(0));
    assert_eq!(ledger.take_batch(), None);
}

#[test]
fn r50_a_probe_that_fails_is_longer_each_time_and_what_was_out_already_is_not() {
    for (class, minutes) in
        [(FailureClass::Overloaded, [1, 5, 25, 60, 60]), (FailureClass::AuthPermanent, [300, 600, 1200, 1440, 1440])]
    {
        let mut ledger = Ledger::default();
        for (at, minutes) in minutes.into_iter().enumerate() {
            for out_already in [false, true] {
                let number = at as u32 * 2 + u32::from(out_already);
                let probe = at > 0 && !out_already;
                ledger.record_failure(
                    &FailureReport { probe, ..failure_report(number, ("one", "a"), class) },
                    Timestamp(0),
                );
                assert_eq!(alone(&ledger, 0)[0].1, minutes, "{class:?}, failure {at}");
            }
        }
    }
}

#[test]
fn r50_a_cooldown_expires_and_clears_its_counters() {
    let mut ledger = Ledger::default();
    let limit =
        |number, probe| FailureReport { probe, ..failure_report(number, ("one", "a"), FailureClass::RateLimit) };
    ledger.record_failure(&limit(1, false), Timestamp(0));
    ledger.record_failure(&limit(2, true), Timestamp(0));
    assert_eq!((alone(&ledger, 0), alone(&ledger, 5 * MINUTE)), (vec![(0, 5)], vec![]));
    ledger.record_failure(&limit(3, true), Timestamp(5 * MINUTE as i64));
    assert_eq!(alone(&ledger, 5 * MINUTE), [(0, 1)]);
}

#[test]
fn r50_a_failure_that_is_reported_twice_counts_once_and_no_cooldown_is_shortened() {
    let mut ledger = Ledger::default();
    let until = Some(Timestamp(90 * MINUTE as i64));
    let first = FailureReport { until, ..failure_report(1, ("one", "a"), FailureClass::RateLimit) };
    ledger.record_failure(&first, Timestamp(0));
    let batch = ledger.take_batch().expect("it is recorded");
    assert_eq!(batch.records.len(), 2, "with the beginning of the ledger");
    ledger.record_failure(&first, Timestamp(1));
    assert_eq!(ledger.take_batch(), None);
    ledger.record_failure(&failure_report(2, ("one", "a"), FailureClass::RateLimit), Timestamp(0));
    assert_eq!(alone(&ledger, 0), [(0, 90)]);
}

#[test]
fn r50_a_failure_that_is_reported_again_after_another_counts_once() {
    let mut ledger = Ledger::default();
    let probe = |number| FailureReport { probe: true, ..failure_report(number, ("one", "a"), FailureClass::RateLimit) };
    for nth in [1, 2, 1, 2, 1] {
        ledger.record_failure(&probe(nth), Timestamp(0));
    }
    assert_eq!(alone(&ledger, 0), [(0, 5)]);
    // Nor after its cooldown has ended.
    ledger.record_failure(&probe(1), Timestamp(6 * MINUTE as i64));
    assert_eq!(alone(&ledger, 6 * MINUTE), []);
    // The memory is bounded.
    for number in 3..COUNTED_REPORTS as u32 + 3 {
        ledger.record_failure(&probe(number), Timestamp(0));
    }
    assert_eq!(ledger.counted.len(), COUNTED_REPORTS);
}

#[test]
fn r50_an_answer_ends_a_cooldown_unless_it_was_asked_for_before_it() {
    let mut ledger = Ledger::default();
    ledger.record_failure(&failure_report(1, ("one", "a"), FailureClass::RateLimit), Timestamp(10));
    ledger.answered(&candidate("one", "a"), Timestamp(9), Timestamp(20));
    assert_eq!(alone(&ledger, 20), [(0, 0)], "under a minute is left");
    ledger.record_failure(&failure_report(2, ("one", "a"), FailureClass::Auth), Timestamp(10));
    ledger.answered(&candidate("one", "a"), Timestamp(9), Timestamp(20));
    assert_eq!(alone(&ledger, 20).len(), 2, "the profile with both models");
    ledger.answered(&candidate("one", "a"), Timestamp(10), Timestamp(20));
    assert_eq!(alone(&ledger, 20), []);
}

#[test]
fn r50_the_preferred_profile_is_first_then_the_last_good_one_then_each_in_turn() {
    let chain = || ["a", "b", "c"].map(|profile| candidate("one", profile)).to_vec();
    let order = |ledger: &Ledger| {
        let mut chain = chain();
        ledger.order(&mut chain);
        chain.iter().filter_map(|candidate| candidate.profile.clone()).collect::<String>()
    };
    let mut ledger = Ledger::default();
    assert_eq!(order(&ledger), "abc");
    ledger.record_failure(&failure_report(1, ("one", "a"), FailureClass::RateLimit), Timestamp(1));
    assert_eq!(order(&ledger), "bca");
    ledger.answered(&candidate("one", "b"), Timestamp(2), Timestamp(3));
    assert_eq!(order(&ledger), "bca");
    ledger.record_failure(&failure_report(2, ("one", "b"), FailureClass::RateLimit), Timestamp(4));
    ledger.answered(&candidate("one", "c"), Timestamp(5), Timestamp(6));
    assert_eq!(order(&ledger), "cab");
    ledger.prefer("acme", Some("b"), Timestamp(7));
    assert_eq!(order(&ledger), "bca");
    ledger.prefer("acme", None, Timestamp(8));
    assert_eq!(order(&ledger), "cab");
}

#[test]
fn r50_what_is_folded_from_its_records_is_the_same_ledger() {
    let mut ledger = Ledger::default();
    ledger.record_failure(&failure_report(1, ("one", "a"), FailureClass::RateLimit), Timestamp(1));
    ledger.record_failure(&failure_report(2, ("two", "b"), FailureClass::Billing), Timestamp(2));
    ledger.answered(&candidate("one", "a"), Timestamp(2), Timestamp(3));
    ledger.prefer("acme", Some("b"), Timestamp(4));
    assert_eq!(ledger.clear(Some("acme"), Some("b"), Timestamp(5)).len(), 1);
    assert_eq!(ledger.clear(Some("acme"), None, Timestamp(6)), []);
    assert_eq!(ledger.clear(None, Some("b"), Timestamp(6)), []);
    let batch = ledger.take_batch().expect("records");
    assert_eq!(ledger.take_batch(), None, "each is recorded once");
    let seqs: Vec<_> = batch.records.iter().filter_map(|record| record.seq).collect();
    assert_eq!(seqs, (1..=6).map(Seq).collect::<Vec<_>>());
    let mut folded = Ledger::default();
    batch.records.iter().for_each(|record| folded.apply(&record.event, record.at));
    assert_eq!(folded, ledger);
    assert_eq!(alone(&folded, 5), []);
}

#[test]
fn r50_a_cleared_candidate_is_reported_until_it_fails_again() {
    let mut ledger = Ledger::default();
    let chain = [("one", "a"), ("one", "b"), ("two", "a")].map(|(model, profile)| candidate(model, profile));
    let cleared = |ledger: &Ledger| {
        let said = ledger.standing(&chain, RunId(Uuid::nil()), Timestamp(9)).cleared;
        said.iter().map(|cleared| (cleared.candidate, cleared.at.0)).collect::<Vec<_>>()
    };
    ledger.clear(None, None, Timestamp(0));
    assert_eq!(cleared(&ledger), [], "nothing was in cooldown");
    ledger.record_failure(&failure_report(1, ("one", "a"), FailureClass::RateLimit), Timestamp(1));
    ledger.clear(Some("acme"), Some("a"), Timestamp(5));
    assert_eq!(cleared(&ledger), [(0, 5), (2, 5)], "with every model");
    ledger.record_failure(&failure_report(2, ("one", "b"), FailureClass::RateLimit), Timestamp(6));
    assert_eq!(cleared(&ledger), [(0, 5), (2, 5)]);
    ledger.record_failure(&failure_report(3, ("two", "a"), FailureClass::RateLimit), Timestamp(7));
    assert_eq!(cleared(&ledger), []);
}

#[test]
fn r50_nobody_is_answered_before_it_is_recorded_and_what_comes_meanwhile_is_in_the_next_batch() {
    let mut pump = Pump::new(Ledger::default());
    let mut recorded = Ledger::default();
    let moment = Moment { now: Timestamp(1), random: 0 };
    let limit = |number, of| LedgerInput::Failed(failure_report(number, of, FailureClass::RateLimit));
    pump.offer(limit(1, ("one", "a")), moment, Some(1));
    let first = pump.next_batch().expect("it is news");
    pump.offer(limit(2, ("two", "b")), moment, Some(2));
    pump.offer(limit(3, ("two", "a")), moment, Some(3));
    assert!(pump.next_batch().is_none() && pump.poll().is_none(), "the first is not recorded yet");
    pump.committed(Timestamp(2));
    assert!(matches!(pump.poll(), Some(Do::Publish(batch)) if batch == first));
    assert!(matches!(pump.poll(), Some(Do::Answer(1, Ok(LedgerAnswer::Done)))));
    assert!(pump.poll().is_none());
    recorded.apply_batch(&first);
    assert_eq!(recorded, *pump.machine());
    assert_eq!(pump.next_batch().map(|batch| batch.records.len()), Some(2));
    pump.failed("there is no space");
    for caller in [2, 3] {
        assert!(matches!(pump.poll(), Some(Do::Answer(of, Err(Refusal::Unavailable { .. }))) if of == caller));
    }
    assert!(pump.poll().is_none());
    assert_eq!(alone(&recorded, 1), [(0, 1)], "the others are unaffected");
}

#[test]
fn r53_a_refused_level_is_not_asked_for_again_for_a_week_or_until_the_model_is_configured_otherwise() {
    use Thinking::{High, Low, Medium, Off};
    let mut ledger = Ledger::default();
    let (config, other) = (Hash::of(b"one"), Hash::of(b"other"));
    let lowered =
        |asked, accepted| ThinkingLowered { provider: "acme".into(), model: "one".into(), asked, accepted, config };
    let begins = |ledger: &Ledger, model: &str, thinking, config, now| {
        let candidate = Candidate { thinking, ..candidate(model, "a") };
        ledger.accepted_level(&candidate, config, Timestamp(now))
    };
    ledger.lower(lowered(High, Medium), Timestamp(1));
    assert_eq!(begins(&ledger, "one", Some(High), config, 2), Some(Medium));
    // What was not refused is asked for as configured: another level, model or configuration, or none.
    assert_eq!(begins(&ledger, "one", Some(Low), config, 2), Some(Low));
    assert_eq!(begins(&ledger, "two", Some(High), config, 2), Some(High));
    assert_eq!(begins(&ledger, "one", Some(High), other, 2), Some(High));
    assert_eq!(begins(&ledger, "one", None, config, 2), None);
    // What is known is not recorded again; what was accepted may be refused later.
    let head = ledger.head();
    ledger.lower(lowered(High, Medium), Timestamp(3));
    ledger.lower(lowered(Low, High), Timestamp(3));
    assert_eq!(ledger.head(), head);
    ledger.lower(lowered(Medium, Off), Timestamp(4));
    assert_eq!(begins(&ledger, "one", Some(High), config, 5), Some(Off));
    // After a week the level is asked for, and recorded again if it is still refused.
    let week = REFUSED_LEVEL_MS as i64;
    assert_eq!(begins(&ledger, "one", Some(High), config, 1 + week), Some(High));
    ledger.lower(lowered(High, Medium), Timestamp(2 + week));
    assert_eq!(begins(&ledger, "one", Some(High), config, 3 + week), Some(Off), "the second step is younger");
}

/// R60: a question gives one grant: another answer to it neither replaces nor revokes it.
#[test]
fn r60_a_question_gives_one_grant() {
    let mut ledger = Ledger::default();
    let id = crate::ids::CallId { run: RunId(Uuid::from_u128(1)), step: 1, index: 0 };
    let rule = crate::policy::PolicyRule {
        decision: crate::settings::Policy::Allow,
        origin: "here".to_owned(),
        answered: false,
        restricts: false,
        grant: Some(id),
        tools: vec![],
        commands: vec!["git log *".to_owned()],
        paths: vec![],
        hosts: vec![],
    };
    let (session, key) = (Some(SessionId(Uuid::from_u128(2))), Some("agent:main:main".to_owned()));
    let at = Timestamp(1);
    let of_session = ApprovalGrant { id, session, key, agent: None, rule, by: "one".to_owned(), at };
    let of_home = ApprovalGrant { session: None, key: None, by: "another".to_owned(), ..of_session.clone() };
    assert!(ledger.grant(of_session.clone(), at) && ledger.grant(of_session.clone(), at));
    assert!(!ledger.grant(of_home, at));
    let of = |ledger: &Ledger, session: u128| ledger.grants_for(SessionId(Uuid::from_u128(session)), "main").count();
    assert_eq!((of(&ledger, 2), of(&ledger, 3)), (1, 0));
    assert_eq!(ledger.take_batch().map(|batch| batch.records.len()), Some(2), "it is recorded once");
    assert!(ledger.revoke(id, "one".to_owned(), at) && !ledger.revoke(id, "one".to_owned(), at));
    assert_eq!(of(&ledger, 2), 0);
}
