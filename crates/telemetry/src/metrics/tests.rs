//! That the page on metrics names what there is.

use std::collections::{BTreeMap, BTreeSet};

use engine::{CallOutcome, CompactionStep, FailureClass, Outcome, QueueMode, Usage, WaitFor};

use super::*;

/// All facts, and a moment in which there is one of everything.
fn whole() -> String {
    let metrics = Metrics::default();
    let model = Model { provider: "p", model: "m" };
    let usage = Usage { input: 1, cached: 2, cache_written: 3, output: 9, reasoning: 4 };
    let id = "018f0000-0000-7000-8000-000000000000/request/1/1".parse().unwrap();
    let call = "018f0000-0000-7000-8000-000000000000/1/0".parse().unwrap();
    let answer = Answer::Failed(FailureClass::Overloaded);
    for fact in [
        Fact::MessageAccepted { mode: QueueMode::Steer },
        Fact::Recovered,
        Fact::RunStarted { agent: "main" },
        Fact::RunEnded { agent: "main", outcome: Outcome::Failed, class: None, ms: Some(1) },
        Fact::RequestEnded { id, model, answer, ms: 1, first_ms: Some(1), usage: None },
        Fact::Spent { model, usage: &usage, cost: 2_500_000 },
        Fact::RetryScheduled { is_fallback: true },
        Fact::CooldownSet { model: "p/m", class: None },
        Fact::CallEnded { id: call, tool: "exec", outcome: CallOutcome::TimedOut, ms: Some(1) },
        Fact::ApprovalAsked,
        Fact::ApprovalExpired,
        Fact::WaitEnded { on: WaitFor::Quota, ms: Some(1) },
        Fact::Compacted { step: CompactionStep::Tail },
    ] {
        metrics.record(&fact);
    }
    metrics.commit(Duration::from_millis(1));
    metrics.http("/v1/runs", 401);
    let rest =
        Rest { provider: "p".to_owned(), profile: None, model: None, class: FailureClass::RateLimit, rest_ms: 1_500 };
    let one = || BTreeMap::from([("one".to_owned(), 1)]);
    let now = Now { sessions: one(), runs: one(), lanes: one(), cooldowns: vec![rest], ..Now::default() };
    metrics.text(&now, 7)
}

#[test]
fn r68_the_page_names_every_metric() {
    let text = whole();
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let there: BTreeSet<_> = kinds
        .map(|(name, kind)| {
            (if kind == "counter" { format!("{name}_total") } else { name.to_owned() }, kind.to_owned())
        })
        .collect();
    let page = include_str!("../../../../docs/observability.md");
    let rows = page.lines().filter(|line| line.starts_with("| `limulus_") || line.starts_with("| `process_"));
    let cells = rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect::<Vec<_>>());
    let named: BTreeSet<_> = cells.map(|cells| (cells[0].to_owned(), cells[1].to_owned())).collect();
    assert_eq!(there, named);
}

#[test]
fn r68_values_and_labels_are_as_they_were_given() {
    let text = whole();
    for line in [
        "limulus_tokens_total{provider=\"p\",model=\"m\",kind=\"output\"} 5",
        "limulus_tokens_total{provider=\"p\",model=\"m\",kind=\"reasoning\"} 4",
        "limulus_cost_usd_total{provider=\"p\",model=\"m\"} 2.5",
        "limulus_request_failures_total{provider=\"p\",model=\"m\",class=\"overloaded\"} 1",
        "limulus_requests_total{provider=\"p\",model=\"m\",result=\"failed\"} 1",
        "limulus_tool_calls_total{tool=\"exec\",outcome=\"timed_out\"} 1",
        "limulus_cooldown_remaining_seconds{provider=\"p\",profile=\"\",model=\"\",class=\"rate_limit\"} 1.5",
        "limulus_http_requests_total{route=\"/v1/runs\",status=\"401\"} 1",
        "limulus_trace_spans_lost_total 7",
        "limulus_messages_accepted_total{mode=\"steer\"} 1",
    ] {
        assert!(text.lines().any(|of| of == line), "{line}\n{text}");
    }
}

#[test]
fn r68_there_are_only_so_many_names() {
    let metrics = Metrics::default();
    for number in 0..NAMES * 2 {
        metrics.record(&Fact::RunStarted { agent: &format!("agent{number}") });
    }
    let text = metrics.text(&Now::default(), 0);
    let series = text.lines().filter(|line| line.starts_with("limulus_runs_started_total{")).count();
    assert_eq!(series, NAMES + 1);
    assert!(text.contains(&format!("limulus_runs_started_total{{agent=\"other\"}} {NAMES}")), "{text}");
}
