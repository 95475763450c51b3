//! Routing: every cell of the table against what the design says, written down here a second time as text, and every
//! state that a session can be in against its cell.

mod support;

use engine::QueueMode;
use engine::tables::routing::{Cell, MODES, Route, cells, route};
use support::script::run;

const BEGUN: &str = "create\nopen 1\nmessage \"hello\"\nlane\nprepared\n";
const CALLS: &str = "say call 0 exec {}\nend\n";
const STARTED: &str = "say call 0 exec {}\nend\nchecked 0 allow\n";
const ASKED: &str = "say call 0 exec {}\nend\nchecked 0 ask \"?\"\n";

/// The design's routing, with the routes by their names: cell | steer | followup | collect | steer_backlog | interrupt.
const ROUTING: &str = "
    idle              | start         | start | start_gathered | start | start
    head              | join          | queue | gather         | both  | ahead
    preparing         | this_request  | queue | gather         | both  | interrupt
    streaming         | next_boundary | queue | gather         | both  | interrupt
    tool_exec         | skip_calls    | queue | gather         | both  | interrupt
    awaiting_approval | withdraw      | queue | gather         | both  | interrupt
    awaiting_answer   | withdraw      | queue | gather         | both  | interrupt
    awaiting_children | deliver       | queue | gather         | both  | interrupt
    awaiting_limit    | keep          | queue | gather         | both  | interrupt
    deciding          | keep          | queue | gather         | both  | interrupt
    ending            | queue         | queue | gather         | queue | ahead
    suspended         | queue         | queue | gather         | queue | end_held
    settling          | hold          | hold  | hold           | hold  | hold
    error             | refuse_error  | refuse_error  | refuse_error  | refuse_error  | refuse_error
    terminated        | refuse_terminated | refuse_terminated | refuse_terminated | refuse_terminated | refuse_terminated
";

#[test]
fn r31_every_cell_of_the_routing() {
    let mode = |mode: QueueMode| serde_json::to_value(mode).unwrap().as_str().unwrap_or_default().to_owned();
    let expected = ROUTING.lines().map(str::trim).filter(|line| !line.is_empty()).flat_map(|line| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let modes = ["steer", "followup", "collect", "steer_backlog", "interrupt"];
        modes
            .into_iter()
            .zip(&columns[1..])
            .map(|(mode, route)| [columns[0], mode, route].map(str::to_owned))
            .collect::<Vec<_>>()
    });
    let actual: Vec<_> =
        cells().map(|(cell, by, to)| [cell.name().to_owned(), mode(by), to.name().to_owned()]).collect();
    assert_eq!(actual, expected.collect::<Vec<_>>());
    assert_eq!(actual.len(), Cell::ALL.len() * MODES.len());
    for (cell, by, to) in cells() {
        assert_eq!(route(cell, by), to, "{cell}: {by:?}");
        assert!(!cell.text().is_empty() && !to.text().is_empty());
        let refuses = matches!(to, Route::RefuseError | Route::RefuseTerminated);
        assert_eq!(to.place(by).is_err(), refuses, "{cell}: {by:?}");
        assert!(to.place(by).err().is_none_or(|reason| reason.contains(';')), "a refusal says the way out");
    }
}

/// Where a script leaves its session.
fn check_cell(script: &str, expected: Cell) {
    assert_eq!(Cell::of(run(script).session()), expected, "after\n{script}");
}

#[test]
fn r31_every_state_that_a_session_can_be_in_has_its_cell() {
    let after = |rest: &str, expected| check_cell(&format!("{BEGUN}{rest}"), expected);
    check_cell("create\nopen 1", Cell::Idle);
    check_cell("create\nopen 1\nmessage \"a\"", Cell::Head);
    check_cell("create\nopen 1\nmessage \"a\"\nlane", Cell::Preparing);
    after("", Cell::Preparing);
    after("first-byte", Cell::Streaming);
    after(CALLS, Cell::ToolExec);
    after(ASKED, Cell::Approval);
    after("fail network \"\"", Cell::Deciding);
    after(&format!("{STARTED}abort"), Cell::Ending);
    after("pause", Cell::Suspended);
    after("escalated \"x\"", Cell::Error);
    after("terminate", Cell::Terminated);
    after(&format!("{STARTED}terminate"), Cell::Terminated);
    after("say text \"a\"\nend", Cell::Idle);
    after("message \"b\"\nsay text \"a\"\nend", Cell::Head);
}

/// States that no input of this version leads to: what they wait for comes later.
#[test]
fn r31_states_of_later_versions_have_their_cells() {
    use engine::{Lifecycle, Phase, WaitFor};
    let mut session = run(BEGUN).session().clone();
    let mut check = |phase: Phase, expected: Cell| {
        let Lifecycle::Active(run) = &mut session.lifecycle else { panic!("a run is under way") };
        run.phase = phase;
        assert_eq!(Cell::of(&session), expected);
    };
    let awaiting = |on| Phase::Awaiting { on, until: None };
    check(awaiting(WaitFor::Answer), Cell::Answer);
    check(awaiting(WaitFor::Children), Cell::Children);
    check(awaiting(WaitFor::Quota), Cell::Limit);
    check(awaiting(WaitFor::Budget), Cell::Limit);
    check(Phase::Compacting { try_no: 1 }, Cell::Deciding);
    let mut session = run(BEGUN).session().clone();
    for lifecycle in [Lifecycle::Initializing, Lifecycle::Recovering { run: None }] {
        session.lifecycle = lifecycle;
        assert_eq!(Cell::of(&session), Cell::Settling);
    }
}
