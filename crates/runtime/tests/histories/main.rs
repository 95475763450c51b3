//! Ten thousand histories as the engine leaves them, after cuts, aborts, refusals, crashes and changes of the model, each
//! rendered for each wire format and held against what its provider's documentation asks for (`rules/`); and for each rule a
//! request that breaks it, which it must see.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on is to fail where it stands")]

mod case;
mod planted;
mod rules;
mod says;
mod served;
mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use models::{Api, Cached, Message};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::case::Case;
use crate::served::SERVED;
use crate::world::play;

/// Drawn cases are the same in every run.
fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Whether the history, rendered for every model, keeps to all rules; and what it was made of.
fn judge(case: &Case, seen: &RefCell<BTreeMap<&'static str, u32>>) -> Result<(), TestCaseError> {
    let Some(history) = play(case) else { return Err(TestCaseError::reject("no request was sent")) };
    let tools = Cached::from(tools::specs()[..2].to_vec());
    for served in SERVED {
        let sent = served.sent(case.system, &history.messages, &tools);
        let broken = rules::broken(&sent);
        prop_assert!(broken.is_empty(), "{} refuses it by {broken:?}: {:#}", served.name(), sent.body);
    }
    history.events.iter().for_each(|kind| *seen.borrow_mut().entry(kind).or_default() += 1);
    Ok(())
}

/// R41: what a run sends is a history that its provider takes, whatever has happened in the conversation.
#[test]
fn r41_no_history_makes_a_request_that_a_provider_refuses() {
    let seen = RefCell::default();
    let held = runner(10_000).run(&case::case(), |case| judge(&case, &seen));
    if let Err(broken) = held {
        panic!("{broken}");
    }
    let reached = ["stream_cut", "text_struck", "failed", "call_settled", "call_lost", "block_signed", "image_made"];
    for kind in reached.iter().chain(&["paused", "closed", "ask_answered", "run_ended", "retry_scheduled"]) {
        let count = seen.borrow().get(kind).copied().unwrap_or_default();
        assert!(count >= 100, "too few histories with {kind}: {count}");
    }
}

/// R41: the results of an answer stand in the order of its calls, in whatever order they ended.
#[test]
fn r41_results_stand_in_the_order_of_their_calls() {
    let mut orders = BTreeSet::new();
    for picks in [vec![0], vec![1], vec![2], vec![2, 1, 0], vec![0, 2, 1, 1], vec![3, 1]] {
        let history = play(&planted::three_calls(picks)).unwrap();
        let ids = |of: fn(&Message) -> Vec<Arc<str>>| history.messages.iter().flat_map(|m| of(m)).collect::<Vec<_>>();
        let asked = ids(|message| match message {
            Message::Assistant(answer) => answer.calls().map(|call| Arc::clone(&call.provider_id)).collect(),
            Message::User { .. } | Message::Result { .. } => vec![],
        });
        let told = ids(|message| match message {
            Message::Result { provider_id, .. } => vec![Arc::clone(provider_id)],
            Message::User { .. } | Message::Assistant(_) => vec![],
        });
        assert_eq!((asked.len(), &asked), (3, &told));
        orders.insert(history.ended);
    }
    assert!(orders.len() >= 3, "they ended in other orders: {orders:?}");
}

/// A rule that refuses nothing proves nothing: each refuses the request that breaks it, and none refuses a good one.
#[test]
fn r41_each_rule_refuses_the_request_that_breaks_it() {
    for (at, served) in SERVED.iter().enumerate() {
        let good = planted::good(at);
        assert_eq!(rules::broken(&good), [""; 0], "{}: {:#}", served.name(), good.body);
    }
    for (api, name) in Api::ALL {
        let bad = planted::bad(api);
        let rules: Vec<_> = rules::of(api).iter().map(|(rule, _)| *rule).collect();
        assert_eq!(bad.iter().map(|bad| bad.rule).collect::<Vec<_>>(), rules, "{name}");
        for planted::Bad { rule, sent } in bad {
            let broken = rules::broken(&sent);
            assert!(broken.contains(&rule), "{name}: {rule} takes what breaks it, {broken:?} do not: {:#}", sent.body);
        }
    }
}
