//! Table tests: every cell of every table against the design, which is repeated here as text.

use std::collections::BTreeSet;

use engine::Counters;
use engine::failover::{Strategy, recover};
use engine::tables::chain::{AROUND_CALL, BEFORE_REQUEST};
use engine::tables::failover::{AtEnd, ErrorKind, FailureCategory, First, RULES, Recoverability, rule_of};
use engine::tables::history;
use engine::tables::lifecycle::{self, LifecycleCause, LifecycleKind};
use engine::tables::limits::{END_GRACE_MS, PROCESS_MS};
use engine::tables::policy::{self, ActClass};
use engine::tables::timers::Timer;
use engine::tables::transitions::{EDGES, LIVE, RunState, Trigger, allowed, drawn};
use engine::timers::armed;
use engine::{
    Allowance, Budget, Candidate, Event, Failure, FailureClass, Flags, Limits, Moment, Policy, Settings, Thinking,
    Timestamp,
};

use crate::support::script::run;
use crate::support::{World, render, settings};

/// The design's transitions, and one more (`preparing | all_cooling`: the ledger reports it before a request): from |
/// by | to. `live` is every state of an unfinished run that is not paused; `same` stays; `inside` is any live state but
/// streaming.
const TRANSITIONS: &str = "
    idle                    | user_input         | preparing
    preparing               | model_started      | streaming
    preparing               | stop_error         | error
    preparing               | refused            | error
    preparing, streaming    | context_overflow   | compacting
    preparing, tool_exec    | limit_reached      | awaiting, completed
    streaming               | text_delta         | streaming
    streaming               | tool_call          | tool_exec
    streaming               | stop_completed     | completed, preparing
    streaming               | stream_cut         | preparing
    streaming               | stop_error         | error
    tool_exec               | tool_result        | tool_exec, preparing
    tool_exec               | approval_requested | awaiting, tool_exec
    tool_exec               | question           | awaiting, tool_exec
    awaiting                | tool_result        | awaiting, preparing
    tool_exec, awaiting     | approval_given     | tool_exec, awaiting, preparing
    tool_exec, awaiting     | denied             | tool_exec, awaiting, preparing
    tool_exec, awaiting     | answered           | tool_exec, awaiting, preparing
    tool_exec, awaiting     | expired            | tool_exec, awaiting, preparing
    tool_exec, awaiting     | skipped            | tool_exec, awaiting, preparing
    awaiting                | quota_reset        | preparing
    awaiting                | limit_raised       | preparing
    awaiting                | children_done      | preparing
    preparing, tool_exec    | lane_full          | awaiting
    awaiting                | lane_entered       | preparing, tool_exec
    compacting              | compact_success    | preparing, completed
    compacting              | compact_fail       | error
    error                   | retryable          | retry
    retry                   | retry_due          | preparing
    error, preparing        | all_cooling        | awaiting
    error                   | fatal              | completed
    live                    | timeout            | error
    live                    | deadline           | completed
    live                    | opened             | same
    live                    | escalated          | error
    error                   | recovered          | inside
    error                   | tool_result        | error
    live, paused            | abort              | completed
    live                    | pause              | paused
    paused                  | tool_result        | paused
    paused                  | approval_given     | paused
    paused                  | denied             | paused
    paused                  | answered           | paused
    paused                  | expired            | paused
    paused                  | skipped            | paused
    paused                  | opened             | paused
    paused                  | resume             | inside
";

/// R24: each class of acts has one row, at its place, and the page for people shows the same table.
#[test]
fn r24_the_defaults_of_the_policy_are_a_table_and_the_page_shows_it() {
    let classes: Vec<ActClass> = policy::DEFAULTS.iter().map(|row| row.class).collect();
    assert_eq!(classes, ActClass::ALL, "a class finds its row by its place");
    let rows = policy::DEFAULTS.iter().map(|row| {
        let decision = serde_json::to_value(row.decision).unwrap();
        let setting = match row.setting {
            setting if setting.starts_with("tools.") || setting.starts_with("routes.") => format!("`{setting}`"),
            setting => setting.to_owned(),
        };
        let later = row.reserved.map_or_else(String::new, |capability| format!(" (later: {capability})"));
        format!("| {} | `{}` | {setting}{later} |\n", row.acts, decision.as_str().unwrap())
    });
    let table = rows.collect::<String>();
    assert!(include_str!("../../../../docs/policy.md").contains(&table), "docs/policy.md does not have:\n{table}");
}

/// R24: a setting replaces its row, and that of commands both rows of commands.
#[test]
fn r24_a_setting_replaces_its_row_of_the_table() {
    let mut settings = settings();
    settings.sandbox.allows = true;
    let of = |settings: &Settings| ActClass::ALL.iter().map(|class| class.default_in(settings)).collect::<Vec<_>>();
    (settings.exec, settings.outside, settings.executed_files, settings.web_fetch) =
        (Policy::Ask, Policy::Ask, Policy::Ask, Policy::Ask);
    let shipped: Vec<Policy> = policy::DEFAULTS.iter().map(|row| row.decision).collect();
    assert_eq!(of(&settings), shipped);
    let changed = |settings: &Settings| {
        let differs = of(settings).into_iter().zip(&shipped).zip(ActClass::ALL).filter(|((now, was), _)| now != *was);
        differs.map(|(_, class)| *class).collect::<Vec<_>>()
    };
    let denied = |set: &dyn Fn(&mut Settings)| {
        let mut settings = settings.clone();
        set(&mut settings);
        changed(&settings)
    };
    assert_eq!(denied(&|of| of.exec = Policy::Deny), [ActClass::RunConfined, ActClass::Run]);
    assert_eq!(denied(&|of| of.exec = Policy::Allow), [ActClass::Run]);
    assert_eq!(denied(&|of| of.sandbox.allows = false), [ActClass::RunConfined], "somebody wants to be asked");
    assert_eq!(denied(&|of| of.outside = Policy::Deny), [ActClass::Outside]);
    assert_eq!(denied(&|of| of.executed_files = Policy::Deny), [ActClass::ExecutedFile]);
    assert_eq!(denied(&|of| of.web_fetch = Policy::Allow), [ActClass::Fetch]);
}

/// The design's lifecycle: from | why | to.
const LIFECYCLE: &str = "
    initializing | initialised     | ready
    initializing | failed          | error
    ready        | task            | active
    ready        | terminate       | terminated
    active       | run_ended       | idle
    active       | pause           | suspended
    active       | interrupt       | suspended
    active       | escalated       | error
    idle         | task            | active
    idle         | terminate       | terminated
    idle         | idle_timeout    | terminated
    suspended    | resume          | active
    suspended    | terminate       | terminated
    error        | recover         | recovering
    error        | terminate       | terminated
    error        | given_up        | terminated
    recovering   | recovered       | ready
    recovering   | recovery_failed | terminated
";

type Cells = BTreeSet<(String, String, String)>;

/// The cells of a table in text form.
fn cells(table: &str) -> Cells {
    let live: Vec<&str> = LIVE.iter().map(|state| state.name()).collect();
    let mut cells = Cells::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let columns: Vec<Vec<&str>> = line.split('|').map(|text| text.split(',').map(str::trim).collect()).collect();
        let from = columns[0].iter().flat_map(|name| if *name == "live" { live.clone() } else { vec![*name] });
        for from in from {
            for to in &columns[2] {
                let to = match *to {
                    "same" => vec![from],
                    "inside" => live.iter().copied().filter(|state| *state != "streaming").collect(),
                    name => vec![name],
                };
                cells.extend(to.iter().map(|to| (from.to_owned(), columns[1][0].to_owned(), (*to).to_owned())));
            }
        }
    }
    cells
}

/// Every cell of a table in the engine against the same table as text.
fn check(text: &str, actual: impl IntoIterator<Item = (&'static str, &'static str, &'static str, bool)>) {
    let expected = cells(text);
    let mut unseen = expected.clone();
    let mut wrong = vec![];
    for (from, by, to, allowed) in actual {
        let cell = (from.to_owned(), by.to_owned(), to.to_owned());
        unseen.remove(&cell);
        if expected.contains(&cell) != allowed {
            wrong.push(format!("{from} –{by}→ {to}: {}", if allowed { "not in the design" } else { "missing" }));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(unseen, Cells::new(), "names that the engine does not have");
}

fn names<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|one| name(*one)).collect()
}

#[test]
fn r01_the_ten_run_states() {
    let expected = "idle preparing streaming tool_exec compacting error retry awaiting paused completed";
    assert_eq!(names(RunState::ALL, RunState::name).join(" "), expected);
    for state in RunState::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.name());
    }
}

#[test]
fn r02_every_event_of_the_requirement_has_its_trigger() {
    let required = "user_input model_started text_delta tool_call tool_result stop_completed stop_error \
        context_overflow compact_success compact_fail retryable fatal timeout abort pause resume approval_requested \
        approval_given";
    let known = names(Trigger::ALL, Trigger::name);
    for name in required.split_whitespace() {
        assert!(known.contains(&name), "{name}");
    }
}

#[test]
fn r03_every_cell_of_the_transition_table() {
    let actual = RunState::ALL.iter().flat_map(|from| {
        Trigger::ALL.iter().flat_map(move |by| {
            RunState::ALL.iter().map(move |to| (from.name(), by.name(), to.name(), allowed(*from, *by, *to)))
        })
    });
    check(TRANSITIONS, actual);
}

#[test]
fn r03_no_edge_is_written_twice() {
    let mut seen = BTreeSet::new();
    for edge in EDGES {
        let to = match edge.to {
            engine::tables::transitions::To::States(states) => states,
            engine::tables::transitions::To::Same | engine::tables::transitions::To::Inside => &[],
        };
        for from in edge.from {
            assert!(to.is_empty() || to.iter().all(|to| seen.insert((from, edge.trigger, to))), "{edge:?}");
        }
    }
}

/// The table allows reserved edges; drawings leave them out, with every other edge of their triggers.
#[test]
fn r03_reserved_edges_are_in_the_table_and_not_drawn() {
    let reserved = |name: &Trigger| Some((name.name(), name.reserved()?));
    let named: Vec<_> = Trigger::ALL.iter().filter_map(reserved).collect();
    assert_eq!(named, [("children_done", "R67")]);
    for edge in EDGES {
        assert_eq!(edge.reserved, edge.trigger.reserved(), "{edge:?}");
        let is_drawn = drawn().any(|one| (one.trigger, one.from, one.note) == (edge.trigger, edge.from, edge.note));
        assert_eq!(is_drawn, edge.reserved.is_none(), "{edge:?}");
    }
}

#[test]
fn r06_the_nodes_of_the_graph() {
    let nodes: BTreeSet<&str> = EDGES.iter().filter_map(|edge| edge.node).collect();
    assert_eq!(nodes, BTreeSet::from(["prepare", "process_stream", "execute_tools", "compact", "error", "end"]));
}

#[test]
fn r20_every_cell_of_the_lifecycle() {
    let expected = "initializing ready active idle suspended error recovering terminated";
    assert_eq!(names(LifecycleKind::ALL, LifecycleKind::name).join(" "), expected);
    let actual = LifecycleKind::ALL.iter().flat_map(|from| {
        LifecycleCause::ALL.iter().flat_map(move |by| {
            LifecycleKind::ALL
                .iter()
                .map(move |to| (from.name(), by.name(), to.name(), lifecycle::allowed(*from, *by, *to)))
        })
    });
    check(LIFECYCLE, actual);
}

/// The design's error strategy: class | first | then | at the end.
const STRATEGY: &str = "
    rate_limit, overloaded                           | retry once     | next profile | wait
    auth                                             | refresh once   | next profile | fail
    auth_permanent, billing                          |                | next profile | fail
    timeout, stalled, network, server, malformed     | retry          | next profile | fail
    context_overflow                                 | make room      |              | end
    thinking_unsupported                             | lower thinking |              | end
    model_not_found                                  |                | next model   | fail
    invalid_request, refused, tool, deadline, aborted, budget, loop | |              | end
    store, unknown                                   |                |              | hold
";

#[test]
fn r24_r54_the_rule_of_every_class_of_failure() {
    let mut rows = 0;
    for line in STRATEGY.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        for name in columns[0].split(", ") {
            let class: FailureClass = serde_json::from_value(name.into()).expect("a class of failure");
            let rule = RULES[class as usize];
            assert_eq!((rule.class, rule_of(class)), (class, rule));
            assert_eq!([rule.first.name(), rule.then.name(), rule.at_end.name()], columns[1..], "{name}");
            rows += 1;
        }
    }
    assert_eq!(rows, RULES.len());
}

/// R24: kind of error | what follows | the classes of that kind.
const KINDS: &str = "
    timeout               | recoverable   | timeout, stalled
    rate_limit            | recoverable   | rate_limit
    network_error         | recoverable   | network, server, malformed
    resource_exhausted    | recoverable   | overloaded, context_overflow, budget
    permission_denied     | unrecoverable | auth_permanent, billing, deadline, aborted
    invalid_input         | unrecoverable | thinking_unsupported, invalid_request, refused, tool, loop
    not_found             | unrecoverable | model_not_found
    authentication_failed | unrecoverable | auth
    other                 | escalate      | store, unknown
";

#[test]
fn r24_every_class_is_of_a_kind_that_says_whether_it_can_pass() {
    let (mut kinds, mut classes) = (vec![], BTreeSet::new());
    for line in KINDS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        kinds.push(columns[0]);
        for name in columns[2].split(", ") {
            let class: FailureClass = serde_json::from_value(name.into()).expect("a class of failure");
            let FailureCategory { kind, recoverability } = FailureCategory::of(class);
            assert_eq!([kind.name(), recoverability.name()], columns[..2], "{name}");
            classes.insert(class);
        }
    }
    assert_eq!(kinds, names(ErrorKind::ALL, ErrorKind::name));
    assert_eq!(classes.len(), RULES.len());
}

/// The category is no second opinion: the actions of each row agree with it.
#[test]
fn r24_the_actions_of_a_row_agree_with_its_category() {
    for rule in RULES {
        let again = matches!(rule.first, First::Retry | First::RetryOnce | First::Compact);
        // A run whose budget is used up waits before it fails (`budget.at_limit`), so its failure is the last word.
        let waits = rule.class == FailureClass::Budget;
        let expected = match rule.at_end {
            AtEnd::Hold => Recoverability::Escalate,
            AtEnd::Wait | AtEnd::Fail | AtEnd::End if again || waits => Recoverability::Recoverable,
            AtEnd::Wait | AtEnd::Fail | AtEnd::End => Recoverability::Unrecoverable,
        };
        assert_eq!(rule.kind.recoverability(), expected, "{:?}", rule.class);
    }
}

/// The strategy after this many failures of the only candidate.
fn alone(failure: &Failure, failed: u32, limits: &Limits, random: u64) -> Strategy {
    let counters = Counters { failed, ..Counters::default() };
    recover(failure, &counters, (&[], None), limits, Moment { now: Timestamp(0), random })
}

#[test]
fn r24_backoff_doubles_with_full_jitter_up_to_a_minute() {
    let limits = Limits { retries: 100, ..Limits::default() };
    let delay = |failed, random| alone(&Failure::new(FailureClass::Network, ""), failed, &limits, random);
    for (failed, most) in [(1, 1_000), (2, 2_000), (3, 4_000), (6, 32_000), (7, 60_000), (100, 60_000)] {
        assert_eq!(delay(failed, most), Strategy::Retry { delay_ms: most }, "after {failed} failures");
        assert_eq!(delay(failed, most + 1), Strategy::Retry { delay_ms: 0 }, "after {failed} failures");
    }
}

#[test]
fn r53_a_model_is_asked_for_the_next_lower_of_its_own_levels() {
    let candidate = crate::support::settings().candidates.remove(0);
    let next = |lowered, levels: &[Thinking]| {
        let chain = [Candidate { thinking: Some(Thinking::High), levels: levels.to_vec(), ..candidate.clone() }];
        let (failure, counters) = (
            Failure::new(FailureClass::ThinkingUnsupported, "too much"),
            Counters { lowered, failed: 1, ..Counters::default() },
        );
        let moment = Moment { now: Timestamp(0), random: 0 };
        match recover(&failure, &counters, (&chain, None), &Limits::default(), moment) {
            Strategy::LowerThinking { level } => Some(level),
            strategy => {
                assert_eq!(strategy, Strategy::Fail);
                None
            }
        }
    };
    let (low, two) = (Some(Thinking::Low), [Thinking::Xhigh, Thinking::Low]);
    assert_eq!([next(None, &two), next(low, &two)], [low, None]);
    assert_eq!([next(None, &[]), next(low, &[])], [Some(Thinking::Medium), Some(Thinking::Minimal)]);
    assert_eq!(next(Some(Thinking::Off), &[]), None);
}

#[test]
fn r24_the_provider_says_when() {
    let limits = Limits { max_wait_ms: 5_000, ..Limits::default() };
    let after = |ms| Failure { retry_after_ms: Some(ms), ..Failure::new(FailureClass::RateLimit, "") };
    assert_eq!(alone(&after(5_000), 1, &limits, 0), Strategy::Retry { delay_ms: 5_000 });
    assert_eq!(alone(&after(5_001), 1, &limits, 0), Strategy::Fail);
}

const BEGUN: &str = "create\nopen 1\nmessage \"hello\"\nlane\nprepared\n";
const CALLS: &str = "say call 0 exec {}\nend\n";
const STARTED: &str = "say call 0 exec {}\nend\nchecked 0 allow\n";
const ASKED: &str = "say call 0 exec {}\nend\nchecked 0 ask \"?\"\n";

/// The result of a script: lifecycle, run state, and the flags that are set.
fn check_flags(script: &str, expected: &str) {
    let world = run(script);
    assert_eq!(render::state(world.session()), expected, "after\n{script}");
}

#[test]
fn r21_the_truth_table_of_the_flags() {
    let after = |rest: &str, expected: &str| check_flags(&format!("{BEGUN}{rest}"), expected);
    check_flags("create", "ready idle []");
    check_flags("create\nopen 1", "ready idle []");
    check_flags("create\nopen 1\nmessage \"a\"", "ready idle [isWaiting]");
    check_flags("create\nopen 1\nmessage \"a\"\nlane", "active preparing [canInterrupt]");
    after("", "active preparing [isWaiting canInterrupt]");
    after("first-byte", "active streaming [isStreaming canInterrupt]");
    after(CALLS, "active tool_exec [isWaiting canInterrupt]");
    after(ASKED, "active awaiting [isWaiting isBlocked canInterrupt]");
    after("fail network \"\"", "active retry [isWaiting canInterrupt hasError]");
    after("say text \"a\"\nend", "idle idle []");
    after("message \"b\"\nsay text \"a\"\nend", "idle idle [isWaiting]");
    after(&format!("{STARTED}abort"), "active tool_exec [isWaiting]");
    after(&format!("{STARTED}crash"), "active tool_exec [isWaiting canInterrupt needsRecovery]");
    after("escalated \"x\"", "error error [hasError needsRecovery]");
    after(&format!("{STARTED}escalated \"x\"\nrecover force"), "recovering error [needsRecovery]");
    after("terminate", "terminated idle []");
    // In suspended all are false but the last two.
    after("pause", "suspended paused []");
    after(&format!("{ASKED}pause"), "suspended paused []");
    after("fail network \"\"\npause", "suspended paused [hasError]");
    after(&format!("{STARTED}pause\ncrash"), "suspended paused [needsRecovery]");
}

/// The scripts `recover_*` show what happens meanwhile.
#[test]
fn r20_a_session_rests_in_recovering_until_its_calls_are_looked_up() {
    let after = |rest: &str| render::state(run(&format!("{BEGUN}{rest}")).session());
    let held = format!("{STARTED}escalated \"x\"\n");
    assert_eq!(after(&format!("{held}recover force\ncrash")), "recovering error [needsRecovery]");
    let found = after(&format!("{held}recover force\ncrash\nfound 0 unknown"));
    assert_eq!(found, "active preparing [isWaiting canInterrupt]");
    // Without a call that may have run there is nothing to look up.
    assert_eq!(after("escalated \"x\"\nrecover force"), "active preparing [isWaiting canInterrupt]");
}

#[test]
fn r20_a_held_session_tries_by_itself_three_times_and_never_as_poison() {
    let next = |script: &str| {
        let next = run(&format!("set recover auto\nset poison 2\n{BEGUN}{script}")).session().next_recovery();
        next.map(|next| (next.no, next.at.0))
    };
    let (mut script, mut now) = (String::new(), 0);
    for (no, pause) in [(1, 60_000), (2, 300_000), (3, 1_500_000)] {
        script.push_str("escalated \"x\"\n");
        now += pause;
        assert_eq!(next(&script), Some((no, now)));
        assert_eq!(next(&format!("{script}crash +9\n")), Some((no, now)), "a restart changes no time");
        script = format!("{script}due +{pause}\n");
        assert_eq!(next(&script), None, "it runs again");
    }
    script.push_str("escalated \"x\"\n");
    assert_eq!(next(&script), None);
    script.push_str("recover force\nescalated \"x\"\n");
    assert_eq!(next(&script), Some((1, now + 60_000)), "a human has looked at it");
    assert_eq!(next("escalated \"x\" human"), None);
    assert_eq!(next("first-byte\ncrash\nfirst-byte\ncrash"), None, "poison");
    assert_eq!(next("escalated \"x\"\nescalated \"y\" human"), None, "its attempt is withdrawn");
}

#[test]
fn r21_an_abort_is_accepted_while_a_run_is_unfinished_and_not_ending() {
    let can = |rest: &str| {
        let world = run(&format!("{BEGUN}{rest}"));
        let session = world.session();
        session.flags().can_abort(session.conversation.lifecycle.kind())
    };
    assert_eq!([can(""), can("first-byte"), can(ASKED), can("pause")], [true; 4]);
    assert_eq!([can("say text \"a\"\nend"), can(&format!("{STARTED}abort"))], [false; 2]);
    // Held, and while its calls are looked up.
    assert!(can("escalated \"x\"") && can(&format!("{STARTED}escalated \"x\"\nrecover force")));
}

#[test]
fn r21_a_session_that_waits_for_space_is_blocked_unless_it_is_suspended() {
    let blocked = |lifecycle| Flags::default().with_full_store(lifecycle).is_blocked;
    let at: Vec<&str> = names(LifecycleKind::ALL, LifecycleKind::name);
    for (lifecycle, name) in LifecycleKind::ALL.iter().zip(at) {
        assert_eq!(blocked(*lifecycle), name != "suspended", "{name}");
    }
}

#[test]
fn r21_the_resources_of_a_session_are_those_of_its_runs_and_its_limits() {
    let limited = |tokens| Allowance { tokens: Some(tokens), ..Allowance::default() };
    let budget = Budget { session: limited(10_000), memory: Some(7), ..Budget::default() };
    let world = run(&format!("{BEGUN}say text \"a\"\nend"));
    let session = world.session();
    let resources = session.resources(&budget);
    assert_eq!((resources.token_limit, resources.token_reserved, resources.memory_limit), (Some(10_000), 500, Some(7)));
    assert_eq!(
        (resources.token_usage, resources.session_bytes),
        (session.account.spent.tokens, session.account.spent.bytes)
    );
    assert!(resources.token_usage > 0 && resources.session_bytes > 0);
    assert_eq!(
        (resources.created_at, resources.last_activity_at),
        (session.account.created_at, session.account.last_activity)
    );
    assert_eq!((resources.started_at, resources.memory_usage), (None, None), "its row and its owner know them");
    // While a run is active, its reservation counts.
    let active = run(BEGUN);
    assert!(active.session().resources(&budget).started_at.is_some());
}

#[test]
fn r11_a_session_is_unfinished_as_long_as_an_owner_must_resume_it() {
    let check = |script: &str, expected: bool| {
        let row = run(script).row.expect("something was recorded");
        assert_eq!(row.unfinished, expected, "after\n{script}");
    };
    let after = |rest: &str, expected: bool| check(&format!("{BEGUN}{rest}"), expected);
    check("create\nopen 1", false);
    check("create\nopen 1\nmessage \"a\"", true);
    after("", true);
    after("closing", true);
    after("pause", false);
    after("escalated \"x\"", false);
    after(&format!("{STARTED}escalated \"x\"\nrecover force"), true);
    check(&format!("set recover auto\n{BEGUN}escalated \"x\""), true);
    check(&format!("set recover auto\n{BEGUN}escalated \"x\" human"), false);
    after("say text \"a\"\nend", false);
    after("message \"b\"\nsay text \"a\"\nend", true);
    after(&format!("{STARTED}terminate"), true);
    // A running process needs no owner; one that is being ended does.
    let held = format!("{STARTED}ended 0 background \"it runs\"\nabort\n");
    after(&held, false);
    after(&format!("{held}terminate"), true);
    after(&format!("{held}terminate\ncrash"), true);
    after(&format!("{held}wait 86400000\ndue"), true);
    after(&format!("{held}terminate\nprocess-ended failed \"was ended\""), false);
}

/// The armed times after a script, soonest first.
fn check_timers(script: &str, expected: &[(i64, Timer)]) {
    let mut world = run(script);
    for restarted in [false, true] {
        let mut times = armed(world.session(), (&world.settings.limits, &world.settings.approvals), None);
        times.sort_unstable();
        let expected: Vec<_> = expected.iter().map(|(at, timer)| (Timestamp(*at), *timer)).collect();
        assert_eq!(times, expected, "after\n{script}restarted: {restarted}");
        world.crash();
    }
}

fn limit_of(world: &World, index: usize) -> Timer {
    Timer::CallLimit(world.session().run().expect("a run").step.calls[index].id)
}

#[test]
fn r11_each_timer_is_armed_when_it_should_be_also_by_a_restart() {
    const MINUTE: i64 = 60_000;
    let deadline = (10 * MINUTE, Timer::RunDeadline);
    let after = |rest: &str, expected: &[(i64, Timer)]| check_timers(&format!("{BEGUN}{rest}"), expected);
    assert_eq!(run(&format!("{BEGUN}closing")).armed, None, "without an owner nothing is armed");
    check_timers("create\nopen 1\nmessage \"a\"\n", &[]);
    check_timers("create\nopen 1\nmessage \"a\"\nlane\n", &[deadline]);
    after("", &[(2 * MINUTE, Timer::FirstByte), deadline]);
    after("wait 1000\nfirst-byte\n", &[(MINUTE + 1_000, Timer::Silent), deadline]);
    after("first-byte\nwait 1000\nsay text \"a\"\n", &[(MINUTE + 1_000, Timer::Silent), deadline]);
    after(CALLS, &[deadline]);
    after(ASKED, &[]);
    after("fail network \"\"\n", &[(500, Timer::RetryDue)]);
    after("fail rate_limit \"\"\ndue +500\nfail rate_limit \"\"\n", &[(500 + MINUTE, Timer::QuotaReset)]);
    after("fail network \"\"\npause\n", &[]);
    after("pause\n", &[]);
    after("abort\n", &[]);
    let limit = limit_of(&run(&format!("{BEGUN}{STARTED}")), 0);
    after(&format!("wait 1000\n{STARTED}"), &[(2 * MINUTE + 1_000, limit), deadline]);
    after(&format!("{STARTED}pause\n"), &[(2 * MINUTE, limit)]);
    after(&format!("{STARTED}wait 1000\nabort\n"), &[(1_000 + END_GRACE_MS as i64, Timer::EndGrace)]);
    after(&format!("{STARTED}crash\n"), &[deadline]);
    after(&format!("{STARTED}escalated \"x\"\n"), &[]);
    let own = STARTED.replace("allow", "allow timeout=3600000");
    after(&own, &[deadline, (60 * MINUTE, limit)]);
    let held = format!("{STARTED}ended 0 background \"it runs\"\n");
    let process = run(&format!("{BEGUN}{held}")).session().account.processes[0].effect;
    let a_day = (PROCESS_MS as i64, Timer::ProcessLimit(process));
    after(&format!("{held}pause\n"), &[a_day]);
    after(&format!("{held}abort\n"), &[a_day]);
    after(&format!("{held}abort\nterminate\n"), &[]);
    after(&format!("{held}abort\nprocess-ended done \"\"\n"), &[]);
}

#[test]
fn r49_a_run_stalls_after_its_last_progress_and_not_while_it_waits_or_a_call_has_asked_for_more_time() {
    let check = |rest: &str, stall: Option<i64>| {
        let script = format!("set stall 60000\n{BEGUN}{rest}");
        let world = run(&script);
        let times = engine::timers::armed(world.session(), (&world.settings.limits, &world.settings.approvals), None);
        let found = times.iter().find(|(_, timer)| *timer == Timer::Stall).map(|(at, _)| at.0);
        assert_eq!(found, stall, "after\n{script}");
    };
    check("", Some(60_000));
    check("first-byte\nwait 1000\nsay text \"a\"\n", Some(61_000));
    check(&format!("{STARTED}wait 5000\noutput 0 \"built\"\n"), Some(65_000));
    check(&format!("{STARTED}wait 5000\n"), Some(60_000));
    check(&STARTED.replace("allow", "allow timeout=50000"), Some(60_000));
    check(&STARTED.replace("allow", "allow timeout=90000"), Some(90_000));
    check(ASKED, None);
    check(&format!("{ASKED}wait 600000\nanswer 0 yes\n"), Some(660_000));
    check("fail network \"\"\n", None);
    check("pause\n", None);
    check(&format!("{STARTED}abort\n"), None);
}

#[test]
fn r13_a_once_call_alone_is_synced_before_it_starts() {
    for (tool, expected) in [("ls", engine::Durability::Written), ("write", engine::Durability::Synced)] {
        let world = run(&format!("{BEGUN}say call 0 {tool} {{}}\nend\nchecked 0 allow\n"));
        let started = world.journal.iter().rfind(|record| record.event.kind() == "call_started").unwrap();
        assert_eq!(started.event.durability(), expected, "{tool}");
    }
}

#[test]
fn r10_a_message_is_synced_where_its_run_may_end_with_it() {
    let answers =
        [("say call 0 ls {}", engine::Durability::Written), ("say text \"done\"", engine::Durability::Synced)];
    for (answer, expected) in answers {
        let world = run(&format!("{BEGUN}{answer}\nend\n"));
        let sealed = world.journal.iter().rfind(|record| record.event.kind() == "message_sealed").unwrap();
        assert_eq!(sealed.event.durability(), expected, "{answer}");
    }
}

/// The result of an attempt: the kinds of the last entries, joined.
fn check_order(script: &str, ends_with: &[&str]) {
    let world = run(&format!("{BEGUN}{script}"));
    let kinds: Vec<&str> = world.journal.iter().filter(|r| r.seq.is_some()).map(|r| r.event.kind()).collect();
    assert!(kinds.ends_with(ends_with), "{script}\nends with {:?}", &kinds[kinds.len().saturating_sub(6)..]);
}

#[test]
fn r04_the_order_of_decisions_after_an_attempt() {
    let ended = "run_ended";
    let changed = "lifecycle_changed";
    // The user's abort comes before any other decision.
    check_order("say text \"a\"\nabort", &["stream_cut", "message_sealed", ended, changed]);
    check_order("fail network \"reset\"\nabort", &["ending_set", ended, changed]);
    // An overflow is neither retried nor counted as the provider's error.
    check_order("fail context_overflow \"too long\"", &["failed", "compaction_failed", ended, changed]);
    // A permanent failure ends the run, a transient one is retried.
    check_order("fail auth \"no\"", &["failed", "candidate_cooled", ended, changed]);
    check_order("fail invalid_request \"no\"", &["failed", ended, changed]);
    check_order("fail rate_limit \"later\"", &["failed", "retry_scheduled"]);
    // Calls come before the end, whatever text is beside them.
    check_order("say text \"a\"\nsay call 0 ls {}\nend", &["message_sealed"]);
    check_order("say text \"a\"\nend", &["message_sealed", ended, changed]);
}

#[test]
fn r05_the_state_can_be_written_out_and_read_back_whole() {
    let scripts = [
        "",
        "say text \"a\"\nsay call 0 exec {\"command\":\"make\"}",
        "say call 0 exec {\"command\":\"make\"}\nend\nchecked 0 ask \"run make?\"\nmessage \"two\"",
        "say call 0 exec {\"command\":\"make\"}\nend\nchecked 0 allow\ncrash",
        "fail network \"reset\"",
        "pause",
        "escalated \"its actor failed\"",
    ];
    for script in scripts {
        let world = run(&format!("{BEGUN}{script}"));
        let json = serde_json::to_string(world.session()).unwrap();
        let read: engine::Session = serde_json::from_str(&json).unwrap();
        assert_eq!(&read, world.session(), "{script}");
    }
}

/// R65: a call that needs approval passes the links of its chain in their order, and each decides with one of its events.
#[test]
fn r65_a_call_passes_the_links_of_its_chain_in_order() {
    let mut world = run("create\nopen 1\nmessage \"hello\"\nlane\nprepared\nsay call 0 write {\"path\":\"a\"}\nend");
    for line in ["checked 0 ask \"write a?\"", "answer 0 yes", "ended 0 done \"written\""] {
        crate::support::script::run_line(&mut world, line);
    }
    let records = world.surviving();
    let kinds: Vec<&str> = records.iter().map(|record| record.event.kind()).collect();
    let mut at = 0;
    // This call changes no file.
    for link in AROUND_CALL.iter().filter(|link| link.decides != ["files_changed"]) {
        let found = kinds[at..].iter().position(|kind| link.decides.contains(kind));
        at += found.unwrap_or_else(|| panic!("{} after {at}: {kinds:?}", link.name));
    }
}

/// R65: the order of the chain before a request is the one that is printed: no link is left out or there twice.
#[test]
fn r65_every_link_is_in_the_chain_once() {
    let links: BTreeSet<_> = BEFORE_REQUEST.iter().map(|row| row.link).collect();
    let names: BTreeSet<_> = BEFORE_REQUEST.iter().map(|row| row.name).chain(AROUND_CALL.map(|row| row.name)).collect();
    assert_eq!((links.len(), names.len()), (BEFORE_REQUEST.len(), BEFORE_REQUEST.len() + AROUND_CALL.len()));
    assert_eq!(BEFORE_REQUEST[BEFORE_REQUEST.len() - 1].name, "steer_in", "the last link sends");
}

/// R41: the rules for a history are in the order of their names in the code, and the page about requests lists them.
#[test]
fn r41_the_rules_for_a_history_are_on_the_page() {
    let rules: Vec<_> = history::BEFORE_REQUEST.iter().map(|row| row.rule).collect();
    assert!(rules.is_sorted_by(|one, other| one < other), "each once: {rules:?}");
    let page = include_str!("../../../../docs/internals/requests.md");
    let shown: Vec<&str> = page.lines().skip_while(|line| !line.starts_with("| rule |")).skip(2).collect();
    for (row, line) in history::BEFORE_REQUEST.iter().zip(shown) {
        assert_eq!(line, format!("| {} | {} | `{}` |", row.name, row.does, row.shown_at));
        assert!(Event::KINDS.contains(&row.shown_at), "{}", row.shown_at);
    }
}
