//! Ten thousand histories that the engine produces after interruptions, aborts, refusals, crashes and changes of the
//! model. Each is rendered for each wire format and checked against the documentation of its provider (`rules/`). For
//! each rule there is a request that breaks it, which the rule must detect.

mod case;
mod mutants;
mod rules;
mod sdks;
mod served;
mod speaker;
mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use models::{Api, Cached, Message};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use self::case::Case;
use self::served::SERVED;
use self::world::{History, play};

/// Checks this many histories, the same ones each time. A failing history is shrunk.
fn each_history(count: u32, judge: impl Fn(&Case, &History) -> Result<(), TestCaseError>) {
    let config = Config { cases: count, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let held = runner.run(&case::case(), |case| match play(&case) {
        Some(history) => judge(&case, &history),
        None => Err(TestCaseError::reject("no request was sent")),
    });
    if let Err(broken) = held {
        panic!("{broken}");
    }
}

/// Checks that the history, rendered for every model, follows all rules.
fn judge(case: &Case, history: &History) -> Result<(), TestCaseError> {
    let tools = Cached::from(Arc::from(&tools::specs()[..2]));
    for served in SERVED {
        let sent = served.sent(case.system, &history.messages, &tools);
        let broken = rules::broken(&sent);
        prop_assert!(broken.is_empty(), "{} refuses it by {broken:?}: {:#}", served.name(), sent.body);
    }
    Ok(())
}

/// R41: whatever happened in a conversation, its provider accepts the history that a run sends.
#[test]
fn r41_no_history_makes_a_request_that_a_provider_refuses() {
    let seen: RefCell<BTreeMap<&str, u32>> = RefCell::default();
    each_history(10_000, |case, history| {
        history.events.iter().for_each(|kind| *seen.borrow_mut().entry(kind).or_default() += 1);
        judge(case, history)
    });
    let reached = ["stream_cut", "text_struck", "failed", "call_settled", "call_lost", "block_signed", "image_made"];
    for kind in reached.iter().chain(&["paused", "closed", "ask_answered", "run_ended", "retry_scheduled"]) {
        let count = seen.borrow().get(kind).copied().unwrap_or_default();
        assert!(count >= 100, "too few histories with {kind}: {count}");
    }
}

/// R41: the results of a response are in the order of its calls, in whatever order the calls ended.
#[test]
fn r41_results_stand_in_the_order_of_their_calls() {
    let mut orders = BTreeSet::new();
    for picks in [vec![0], vec![1], vec![2], vec![2, 1, 0], vec![0, 2, 1, 1], vec![3, 1]] {
        let history = play(&mutants::three_calls(picks)).unwrap();
        let ids = |of: fn(&Message) -> Vec<Arc<str>>| history.messages.iter().flat_map(|m| of(m)).collect::<Vec<_>>();
        let asked = ids(|message| match message {
            Message::Assistant(answer) => answer.calls().map(|call| Arc::clone(&call.provider_id)).collect(),
            Message::User { .. } | Message::Result { .. } => vec![],
        });
        let expected = ids(|message| match message {
            Message::Result { provider_id, .. } => vec![Arc::clone(provider_id)],
            Message::User { .. } | Message::Assistant(_) => vec![],
        });
        assert_eq!((asked.len(), &asked), (3, &expected));
        orders.insert(history.ended);
    }
    assert!(orders.len() >= 3, "they ended in other orders: {orders:?}");
}

/// Each rule refuses the request that breaks it, and none refuses a valid one.
#[test]
fn r41_each_rule_refuses_the_request_that_breaks_it() {
    for (at, served) in SERVED.iter().enumerate() {
        let good = mutants::good(at);
        assert_eq!(rules::broken(&good), [""; 0], "{}: {:#}", served.name(), good.body);
    }
    for (api, name) in Api::ALL {
        let bad = mutants::bad(api);
        let rules: Vec<_> = rules::of(api).iter().map(|(rule, _)| *rule).collect();
        assert_eq!(bad.iter().map(|bad| bad.rule).collect::<Vec<_>>(), rules, "{name}");
        for mutants::Bad { rule, sent } in bad {
            let broken = rules::broken(&sent);
            assert!(broken.contains(&rule), "{name}: {rule} takes what breaks it, {broken:?} do not: {:#}", sent.body);
        }
    }
}
