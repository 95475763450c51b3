//! Routing: every cell of the table against the design, which is repeated here as text, and every state of a session
//! against its cell.

use std::sync::Arc;

use engine::tables::lifecycle::{LifecycleCause, LifecycleKind};
use engine::tables::routing::{Cell, MODES, Route, cells, route};
use engine::{
    Acknowledgement, Allowance, BodyKind, BudgetSet, Command, Compacting, CompactionStep, Content, Decide as _, Effect,
    EffectId, EffectKind, Epoch, Event, Hash, Interrupt, Lifecycle, LifecycleChanged, Lineage, Machine, MessageId,
    Moment, Overrides, Phase, QueueMode, QueueSettings, Report, Scope, Session, Timestamp, WaitEnded, WaitFor,
};
use uuid::Uuid;

use crate::support::script::run;

const BEGUN: &str = "create\nopen 1\nmessage \"hello\"\nlane\nprepared\n";
const CALLS: &str = "say call 0 exec {}\nend\n";
const STARTED: &str = "say call 0 exec {}\nend\nchecked 0 allow\n";
const QUESTION: &str = "say call 0 ask_user {}\nend\nchecked 0 question text\n";
const ASKED: &str = "say call 0 exec {}\nend\nchecked 0 ask \"?\"\n";

/// The design's routing, with the routes by their names: cell | steer | followup | collect | steer_backlog | interrupt.
const ROUTING: &str = "
    idle              | start         | start | start_gathered | start | start
    head              | join          | queue | gather         | both  | ahead
    preparing         | this_request  | queue | gather         | both  | interrupt
    streaming         | next_boundary | queue | gather         | both  | interrupt
    tool_exec         | skip_calls    | queue | gather         | both  | interrupt
    awaiting_approval | withdraw      | queue | gather         | both  | interrupt
    awaiting_answer   | answer        | queue | gather         | both  | interrupt
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

/// The scripts that lead to each cell.
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
    after(QUESTION, Cell::Answer);
    after("fail network \"\"", Cell::Deciding);
    after(&format!("{STARTED}abort"), Cell::Ending);
    after("pause", Cell::Suspended);
    after("escalated \"x\"", Cell::Error);
    after("terminate", Cell::Terminated);
    after(&format!("{STARTED}terminate"), Cell::Terminated);
    after("say text \"a\"\nend", Cell::Idle);
    after("message \"b\"\nsay text \"a\"\nend", Cell::Head);
}

/// States that no input of this version leads to: what they wait for is reserved.
#[test]
fn r31_states_of_later_versions_have_their_cells() {
    let mut session = run(BEGUN).session().clone();
    let mut check = |phase: Phase, expected: Cell| {
        let Lifecycle::Active(run) = &mut session.conversation.lifecycle else { panic!("a run is under way") };
        run.phase = phase;
        assert_eq!(Cell::of(&session), expected);
    };
    let awaiting = |on| Phase::Awaiting { on, until: None };
    check(awaiting(WaitFor::Children), Cell::Children);
    check(awaiting(WaitFor::Quota), Cell::Limit);
    check(awaiting(WaitFor::Budget), Cell::Limit);
    check(Phase::Compacting(None), Cell::Deciding);
    let mut session = run(BEGUN).session().clone();
    for lifecycle in [Lifecycle::Initializing, Lifecycle::Recovering { run: None }] {
        session.conversation.lifecycle = lifecycle;
        assert_eq!(Cell::of(&session), Cell::Settling);
    }
}

/// The effect of a message in states that no input of this version leads to, by its mode: the records, the state of the
/// session, and the queue. `suspend` is an interrupt that pauses the run. A steer is the answer to a question that takes a
/// text; one with choices is withdrawn, as an approval is. Compaction is reserved, and fails at the next input.
const LATER: &str = "
    answer | steer | message_accepted ask_answered call_settled message_settled step_begun request_sent | active preparing | nothing
    answer | followup | message_accepted | active awaiting | followup
    answer | collect | message_accepted | active awaiting | collect
    answer | steer_backlog | message_accepted call_settled step_begun message_settled request_sent | active preparing | followup
    answer | interrupt | message_accepted ending_set call_settled run_ended | idle idle | followup
    answer | suspend | message_accepted call_settled paused | suspended paused | followup
    choice | steer | message_accepted call_settled step_begun message_settled request_sent | active preparing | nothing
    choice | followup | message_accepted | active awaiting | followup
    choice | collect | message_accepted | active awaiting | collect
    choice | steer_backlog | message_accepted call_settled step_begun message_settled request_sent | active preparing | followup
    choice | interrupt | message_accepted ending_set call_settled run_ended | idle idle | followup
    choice | suspend | message_accepted call_settled paused | suspended paused | followup
    children | steer | message_accepted wait_ended message_settled request_sent | active preparing | nothing
    children | followup | message_accepted | active awaiting | followup
    children | collect | message_accepted | active awaiting | collect
    children | steer_backlog | message_accepted wait_ended message_settled request_sent | active preparing | followup
    children | interrupt | message_accepted ending_set run_ended | idle idle | followup
    children | suspend | message_accepted paused | suspended paused | followup
    quota | steer | message_accepted | active awaiting | steer
    quota | followup | message_accepted | active awaiting | followup
    quota | collect | message_accepted | active awaiting | collect
    quota | steer_backlog | message_accepted | active awaiting | steer followup
    quota | interrupt | message_accepted ending_set run_ended | idle idle | followup
    quota | suspend | message_accepted paused | suspended paused | followup
    budget | steer | message_accepted | active awaiting | steer
    budget | followup | message_accepted | active awaiting | followup
    budget | collect | message_accepted | active awaiting | collect
    budget | steer_backlog | message_accepted | active awaiting | steer followup
    budget | interrupt | message_accepted ending_set run_ended | idle idle | followup
    budget | suspend | message_accepted paused | suspended paused | followup
    compacting | steer | message_accepted | active compacting | steer
    compacting | followup | message_accepted | active compacting | followup
    compacting | collect | message_accepted | active compacting | collect
    compacting | steer_backlog | message_accepted | active compacting | steer followup
    compacting | interrupt | message_accepted ending_set run_ended | idle idle | followup
    compacting | suspend | message_accepted paused | suspended paused | followup
    initializing | steer | message_accepted | initializing idle | steer
    initializing | followup | message_accepted | initializing idle | followup
    initializing | collect | message_accepted | initializing idle | collect
    initializing | steer_backlog | message_accepted | initializing idle | steer followup
    initializing | interrupt | message_accepted | initializing idle | followup
    initializing | suspend | message_accepted | initializing idle | followup
    recovering | steer | message_accepted | recovering error | steer
    recovering | followup | message_accepted | recovering error | followup
    recovering | collect | message_accepted | recovering error | collect
    recovering | steer_backlog | message_accepted | recovering error | steer followup
    recovering | interrupt | message_accepted | recovering error | followup
    recovering | suspend | message_accepted | recovering error | followup
";

const MESSAGE: MessageId = MessageId(Uuid::from_u128(2));

/// Such states, made by hand from a reachable one.
fn later_states() -> Vec<(&'static str, Session)> {
    let with = |script: &str, phase: Phase| {
        let mut session = run(script).session().clone();
        let Lifecycle::Active(run) = &mut session.conversation.lifecycle else { panic!("a run is under way") };
        run.phase = phase;
        session
    };
    let awaiting = |on, until| Phase::Awaiting { on, until };
    let mut budget = with(BEGUN, awaiting(WaitFor::Budget, None));
    budget.account.allowance = Allowance { tokens: Some(1), ..Allowance::default() };
    let mut initializing = run("create\nopen 1").session().clone();
    initializing.conversation.lifecycle = Lifecycle::Initializing;
    let recovering = run(&format!("{BEGUN}{STARTED}escalated \"x\"\nrecover force")).session().clone();
    let effect =
        EffectId { run: MessageId(Uuid::from_u128(1)).into(), kind: EffectKind::Compact, ordinal: 1, try_no: 1 };
    let compacting = Compacting {
        effect,
        compaction_step: CompactionStep::Summarise,
        items: 1,
        focus: None,
        since: Timestamp(0),
        reserved: None,
    };
    vec![
        ("answer", run(&format!("{BEGUN}{QUESTION}")).session().clone()),
        ("choice", run(&format!("{BEGUN}{}", QUESTION.replace("text", "choice"))).session().clone()),
        ("children", with(BEGUN, awaiting(WaitFor::Children, None))),
        ("quota", with(BEGUN, awaiting(WaitFor::Quota, Some(Timestamp(5_000))))),
        ("budget", budget),
        ("compacting", with(BEGUN, Phase::Compacting(Some(compacting)))),
        ("initializing", initializing),
        ("recovering", recovering),
    ]
}

/// A machine in this state.
fn machine(session: Session) -> Machine {
    let settings = Arc::new(crate::support::settings());
    let line = Lineage { start: Some(session), ..Lineage::default() };
    Machine::recover(line, &move |_: Hash| Some(Arc::clone(&settings))).expect("a state can be recovered")
}

const NOW: Moment = Moment { now: Timestamp(100), random: 1 };

fn offer(machine: &mut Machine, mode: QueueMode, interrupt: Interrupt) -> Acknowledgement {
    let command = Command::Message {
        message: MESSAGE,
        content: Content::text(BodyKind::Message, "and this"),
        mode: Some(mode),
        queue: QueueSettings { interrupt, ..QueueSettings::default() },
        key: None,
        overrides: Overrides::default(),
        attachments: vec![],
        options: engine::SenderOptions::default(),
    };
    machine.handle(command.into(), NOW).expect("it is accepted")
}

/// The recorded kinds, without those that only follow from others.
fn recorded(machine: &mut Machine) -> String {
    let records = machine.take_batch().map(|batch| batch.records).unwrap_or_default();
    let is_shown = |event: &Event| !matches!(event, Event::LifecycleChanged(_));
    let kinds: Vec<&str> =
        records.iter().map(|record| &record.event).filter(|event| is_shown(event)).map(Event::kind).collect();
    kinds.join(" ")
}

fn waits(session: &Session) -> String {
    let legs: Vec<String> =
        session.conversation.queue.iter().map(|queued| format!("{:?}", queued.leg).to_lowercase()).collect();
    if legs.is_empty() { "nothing".into() } else { legs.join(" ") }
}

#[test]
fn r31_what_messages_do_in_states_of_later_versions() {
    let ways = [
        ("steer", QueueMode::Steer, Interrupt::Replace),
        ("followup", QueueMode::Followup, Interrupt::Replace),
        ("collect", QueueMode::Collect, Interrupt::Replace),
        ("steer_backlog", QueueMode::SteerBacklog, Interrupt::Replace),
        ("interrupt", QueueMode::Interrupt, Interrupt::Replace),
        ("suspend", QueueMode::Interrupt, Interrupt::Suspend),
    ];
    let mut actual = vec![];
    for (state, session) in later_states() {
        for (name, mode, interrupt) in ways {
            let mut machine = machine(session.clone());
            offer(&mut machine, mode, interrupt);
            assert_eq!(machine.fault(), None, "{state}: {name}");
            let recorded = recorded(&mut machine);
            let session = machine.session().expect("it is there");
            let does = format!("{} {}", session.conversation.lifecycle.kind(), session.run_state());
            actual.push(format!("{state} | {name} | {recorded} | {does} | {}", waits(session)));
        }
    }
    let expected: Vec<&str> = LATER.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let differs =
        actual.iter().zip(expected.iter().chain(std::iter::repeat(&""))).find(|(is, expected)| is != expected);
    assert!(differs.is_none() && actual.len() == expected.len(), "{differs:?} in\n{}", actual.join("\n"));
}

/// A steer waits with a run that waits for a quota or a budget, the receipt has its end, and the next request contains
/// it.
#[test]
fn r31_r32_a_steer_is_kept_while_a_quota_or_a_budget_holds_the_run() {
    for (name, session) in later_states().into_iter().filter(|(name, _)| ["quota", "budget"].contains(name)) {
        let on = if name == "quota" { WaitFor::Quota } else { WaitFor::Budget };
        let mut machine = machine(session);
        let Acknowledgement::Receipt(receipt) = offer(&mut machine, QueueMode::Steer, Interrupt::Replace) else {
            panic!("a message has a receipt")
        };
        assert_eq!(receipt.until, (name == "quota").then_some(Timestamp(5_000)));
        drop(recorded(&mut machine));
        let on = match on {
            WaitFor::Budget => BudgetSet { scope: Scope::Session, allowance: Allowance::default() }.into(),
            on => Event::from(WaitEnded { on }),
        };
        machine.apply(&on, NOW.now);
        machine.handle(Report::Opened { epoch: Epoch(2), cooling: vec![] }.into(), NOW).expect("a report is accepted");
        let ended = if name == "budget" { "wait_ended " } else { "" };
        assert_eq!(recorded(&mut machine), format!("opened {ended}message_settled request_sent"), "{name}");
    }
}

/// While a session is created no run starts; afterwards the messages are processed. For one that recovers, the script
/// `recover_calls` shows it.
#[test]
fn r31_messages_wait_until_a_session_is_ready() {
    for (name, session) in later_states().into_iter().filter(|(name, _)| *name == "initializing") {
        for mode in MODES {
            let mut machine = machine(session.clone());
            offer(&mut machine, mode, Interrupt::Replace);
            assert_eq!((machine.effects(), machine.deadline()), (vec![], None), "{name}: {mode:?}");
            let from = machine.session().expect("it is there").conversation.lifecycle.kind();
            let (to, cause) = (LifecycleKind::Ready, LifecycleCause::Recovered);
            machine.apply(&LifecycleChanged::by(cause, from, to).into(), NOW.now);
            if mode == QueueMode::Collect {
                let due = machine.deadline().expect("its group is complete after a while");
                machine.handle(Report::Due.into(), Moment { now: due, random: 1 }).expect("a report is accepted");
            }
            assert_eq!(machine.effects(), [Effect::lane(MESSAGE)], "{name}: {mode:?}");
        }
    }
}
