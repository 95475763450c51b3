//! Property tests: any sequence of inputs, with crashes and failing appends in between, keeps every invariant of
//! support/invariants.rs after every step; and when the faults stop, every accepted run ends. What is found here is
//! kept as a script as well.

use std::sync::Arc;

use engine::tables::budget::NO_LIMIT;
use engine::tables::limits::{PROCESS_MS, QUEUE_CAP};
use engine::tables::routing::MODES;
use engine::tables::transitions::RunState;
use engine::{
    Address, Allowance, Approvals, Attached, BlockBreak, BlockMode, BlockOf, BlockSettings, BodyKind, Breakpoint,
    CallOutcome, ChangedFile, Command, CompactionResult, CompactionStep, Content, CooldownLifted, CooldownSet,
    DeliveryFault, DropPolicy, Effect, EffectId, EffectKind, Epoch, Erased, Failure, FailureClass, FileContent, Found,
    Hash, Interrupt, Item, Lifecycle, Limit, MessageId, Modes, OnExpiry, Outgoing, Override, Overrides, Part, Phase,
    PlanItem, PlanStatus, Policy, QueueMode, QueueSettings, Recover, RepairPolicy, ReplyRoute, Report, Resource,
    ResumeMode, RunId, Scope, Stage, StopReason, Timestamp, ToolResult, Unattended, Usage, WaitFor,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use uuid::Uuid;

use crate::support::World;
use crate::support::script::fingerprint;

/// An operation. Numbers choose among what exists at that time, so that shrinking keeps sequences valid.
#[derive(Debug, Clone)]
enum Op {
    /// A running effect sends a report that it may send.
    Progress {
        which: usize,
        how: usize,
        class: usize,
    },
    /// Any effect that ever ran sends any report.
    Stray {
        which: usize,
        how: usize,
        class: usize,
    },
    Message {
        key: Option<u8>,
        text: u8,
        way: Way,
    },
    Answer {
        which: usize,
        allow: bool,
        stale: bool,
    },
    Control(Control),
    /// Time passes until the armed time.
    Due(u32),
    /// Time passes.
    Wait(u32),
    /// The process crashes; the next owner opens the session.
    Crash(u32),
    /// The owner shuts down in order, and the next one opens the session.
    HandOver(u32),
    /// The next append fails, and the process with it.
    FailAppend,
    /// The next two inputs are decided on together.
    Together,
}

/// How a message is routed.
#[derive(Debug, Clone, Copy)]
struct Way {
    mode: Option<QueueMode>,
    cut: bool,
    suspend: bool,
    small: bool,
    drop: DropPolicy,
}

fn way() -> impl Strategy<Value = Way> {
    let mode = prop::option::weighted(0.8, prop::sample::select(MODES.to_vec()));
    let drop = prop::sample::select(vec![DropPolicy::New, DropPolicy::Old, DropPolicy::Summarize]);
    (mode, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), drop)
        .prop_map(|(mode, cut, suspend, small, drop)| Way { mode, cut, suspend, small, drop })
}

#[derive(Debug, Clone, Copy)]
enum Control {
    Abort,
    Pause,
    Resume,
    Drop,
    Cancel(u8),
    Clear,
    Reset,
    Label(u8),
    Compact,
    Undo,
    UndoFiles(bool),
    Freeze,
    Break(usize),
    QueueMode(usize),
    Budget(usize),
    Recover,
    Terminate,
    Escalate,
    Override,
    Closing,
    OpenToWait,
    Turn,
    /// The lane has a free slot, or none.
    LaneChecked(bool),
    /// A delivery is sent again, or given up.
    Deliver(bool, usize),
    Due,
    /// The cooldowns of the ledger have changed.
    CooldownSet(usize),
    CooldownLifted(usize),
}

fn control() -> impl Strategy<Value = Control> {
    prop_oneof![
        3 => Just(Control::Abort),
        4 => Just(Control::Pause),
        6 => Just(Control::Resume),
        1 => Just(Control::Drop),
        2 => (0..6_u8).prop_map(Control::Cancel),
        1 => Just(Control::Clear),
        1 => Just(Control::Reset),
        2 => (0..4_u8).prop_map(Control::Label),
        3 => Just(Control::Compact),
        4 => Just(Control::Undo),
        4 => any::<bool>().prop_map(Control::UndoFiles),
        2 => Just(Control::Freeze),
        2 => (0..8_usize).prop_map(Control::Break),
        1 => (0..5_usize).prop_map(Control::QueueMode),
        2 => (0..64_usize).prop_map(Control::Budget),
        4 => Just(Control::Recover),
        1 => Just(Control::Terminate),
        2 => Just(Control::Escalate),
        1 => Just(Control::Override),
        1 => Just(Control::Closing),
        1 => Just(Control::OpenToWait),
        2 => Just(Control::Turn),
        3 => prop::bool::weighted(0.3).prop_map(Control::LaneChecked),
        1 => Just(Control::Due),
        2 => (any::<bool>(), 0..8_usize).prop_map(|(again, which)| Control::Deliver(again, which)),
        3 => (0..36_usize).prop_map(Control::CooldownSet),
        2 => (0..4_usize).prop_map(Control::CooldownLifted),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let number = || 0..64_usize;
    prop_oneof![
        40 => (number(), number(), number()).prop_map(|(which, how, class)| Op::Progress { which, how, class }),
        6 => (number(), number(), number()).prop_map(|(which, how, class)| Op::Stray { which, how, class }),
        7 => (prop::option::of(0..4_u8), 0..3_u8, way()).prop_map(|(key, text, way)| Op::Message { key, text, way }),
        5 => (number(), any::<bool>(), prop::bool::weighted(0.2))
            .prop_map(|(which, allow, stale)| Op::Answer { which, allow, stale }),
        8 => control().prop_map(Op::Control),
        3 => (0..200_000_u32).prop_map(Op::Due),
        1 => Just(Op::Due(PROCESS_MS as u32)),
        2 => (0..70_000_u32).prop_map(Op::Wait),
        5 => (0..10_000_u32).prop_map(Op::Crash),
        2 => (0..10_000_u32).prop_map(Op::HandOver),
        1 => Just(Op::FailAppend),
        4 => Just(Op::Together),
    ]
}

#[derive(Debug, Clone)]
struct Case {
    start: Start,
    ops: Vec<Op>,
    resume: bool,
    retries: u32,
    poison: u32,
    deadline: u64,
    random: u64,
}

/// The start of a sequence: deep states are not left to randomness.
#[derive(Debug, Clone, Copy)]
enum Start {
    /// One message waits for its lane.
    Queued,
    /// Its request was sent.
    Sent,
    /// An answer has a call of each class.
    Calls,
    /// The last of them, which may run only once, runs.
    Running,
    /// One is settled, and its command continues in the background.
    Held,
    /// No run is unfinished, and a summary replaces the older part of the conversation.
    Summarised,
    /// Long results are to be truncated before the next request.
    Long,
}

const STARTS: [(Start, &[&str]); 7] = [
    (Start::Queued, &["message \"hello\""]),
    (Start::Sent, &["message \"hello\"", "lane", "prepared"]),
    (Start::Calls, &["message \"hello\"", "lane", "prepared", "say call 0 ls {}", "say call 1 write {}", "end"]),
    (
        Start::Running,
        &["message \"hello\"", "lane", "prepared", "say call 0 exec {}", "say call 1 ls {}", "end", "checked 0 allow"],
    ),
    (
        Start::Held,
        &[
            "message \"hello\"",
            "lane",
            "prepared",
            "say call 0 exec {}",
            "end",
            "checked 0 allow",
            "ended 0 background \"it runs\"",
        ],
    ),
    (
        Start::Summarised,
        &[
            "message \"hello\" size=400",
            "lane",
            "prepared",
            "say text \"answer\"",
            "end",
            "message \"and then\" size=400",
            "lane",
            "prepared",
            "say text \"answer\"",
            "end",
            "compact",
            "lane",
            "compacted summary \"in short\"",
        ],
    ),
    (
        Start::Long,
        &[
            "set window 16000",
            "message \"hello\"",
            "lane",
            "prepared",
            "say call 0 ls {}",
            "say call 1 ls {}",
            "say call 2 ls {}",
            "end",
            "checked 0 allow",
            "checked 1 allow",
            "checked 2 allow",
            "ended 0 done size=16000",
            "ended 1 done size=16000",
            "ended 2 done size=16000",
        ],
    ),
];

fn case() -> impl Strategy<Value = Case> {
    let ops = prop::collection::vec(op(), 1..90);
    let start = prop::sample::select(STARTS.map(|(start, _)| start).to_vec());
    (start, ops, any::<bool>(), 0..3_u32, 0..4_u32, prop_oneof![Just(600_000), Just(5_000)], any::<u64>()).prop_map(
        |(start, ops, resume, retries, poison, deadline, random)| Case {
            start,
            ops,
            resume,
            retries,
            poison,
            deadline,
            random,
        },
    )
}

const CLASSES: [FailureClass; 9] = [
    FailureClass::Network,
    FailureClass::RateLimit,
    FailureClass::Billing,
    FailureClass::Timeout,
    FailureClass::ContextOverflow,
    FailureClass::Refused,
    FailureClass::InvalidRequest,
    FailureClass::Aborted,
    FailureClass::Unknown,
];

fn failure(class: usize) -> Failure {
    Failure {
        retry_after_ms: class.is_multiple_of(4).then_some(class as u64),
        provider: Some("acme".into()),
        model: Some("one".into()),
        ..Failure::new(CLASSES[class % 9], "no")
    }
}

fn text(kind: BodyKind, text: &str) -> Content {
    Content::text(kind, text)
}

/// A budget: a small one, or enough.
fn allowance(how: usize) -> Allowance {
    let (amount, nothing) = (how as u64 / 4, Allowance::default());
    match how % 4 {
        0 => Allowance { tokens: Some(2_000 * amount), ..nothing },
        1 => Allowance { calls: Some(amount), ..nothing },
        2 => Allowance { wall_ms: Some(2_000 * amount), ..nothing },
        _ => lifted(),
    }
}

fn lifted() -> Allowance {
    Allowance {
        tokens: Some(NO_LIMIT),
        cost: Some(NO_LIMIT),
        calls: Some(NO_LIMIT),
        wall_ms: Some(NO_LIMIT),
        bytes: Some(NO_LIMIT),
    }
}

/// Cooldowns that the ledger may report.
fn cooling(world: &World, how: usize, class: usize) -> Vec<CooldownSet> {
    let until = Timestamp(world.now + 500 * class as i64);
    let cooled = CooldownSet { candidate: (class % 2) as u32, until, class: CLASSES[class % 9] };
    if how.is_multiple_of(3) { vec![cooled] } else { vec![] }
}

/// A report that an effect of this kind may send.
fn report(world: &World, effect: EffectId, how: usize, class: usize) -> Report {
    match effect.kind {
        EffectKind::Lane => {
            let settings = Arc::new(world.settings.clone());
            match how % 8 {
                0 => Report::LaneRefused { effect, settings, failure: failure(class) },
                _ => Report::LaneEntered { effect, settings, cooling: cooling(world, how, class) },
            }
        }
        EffectKind::Prepare if how.is_multiple_of(6) => Report::RequestFailed { effect, failure: failure(class) },
        EffectKind::Prepare => Report::Prepared { effect, prompt: text(BodyKind::Prompt, "You are Limulus.") },
        EffectKind::Request => request_report(effect, how, class),
        EffectKind::Compact => compact_report(world, effect, how, class),
        EffectKind::Title => title_report(effect, how, class),
        EffectKind::CheckCall => checked(world, effect, how),
        EffectKind::RunCall if how % 3 == 1 => {
            let offset = world.session().run().map_or(0, |run| {
                run.step.calls.iter().find(|call| call.ordinal == effect.ordinal).map_or(0, |call| call.output_bytes)
            });
            Report::CallOutput { effect, offset, text: "out".into() }
        }
        EffectKind::Report => Report::Reported { effect },
        EffectKind::Deliver => delivery_report(effect, how),
        EffectKind::Reserve => match how % 4 {
            0 => Report::Denied { effect, limit: DAY, until: Some(Timestamp(1 << 40)) },
            _ => Report::Reserved { effect, near: class.is_multiple_of(3).then_some(DAY) },
        },
        EffectKind::HoldProcess | EffectKind::EndProcess => {
            let outcome = [CallOutcome::Done, CallOutcome::Interrupted, CallOutcome::Unended][how % 3];
            Report::ProcessEnded { effect, outcome, how: "it is over".into(), changes: vec![] }
        }
        EffectKind::Undo => Report::Undone { effect, left: vec![] },
        EffectKind::Erase => Report::Erased {
            effect,
            result: if how.is_multiple_of(3) { Err("the disk is full".into()) } else { Ok(Erased::default()) },
        },
        EffectKind::FindCall => {
            let found = [Found::NeverStarted, Found::Running, Found::Ended, Found::Unknown][how % 4];
            let given = ToolResult::new(CallOutcome::Done, text(BodyKind::Output, "found"));
            let ended = match found {
                Found::Ended => Some(given),
                Found::Running => Some(ToolResult { in_background: true, ..given }),
                Found::NeverStarted | Found::Unknown => None,
            };
            let ended = ended.filter(|_| class.is_multiple_of(2));
            Report::CallFound { effect, found, ended }
        }
        _ => call_ended(effect, how, class),
    }
}

fn call_ended(effect: EffectId, how: usize, class: usize) -> Report {
    let outcome = [CallOutcome::Done, CallOutcome::Failed, CallOutcome::Unended][how % 3];
    let whole = (class.is_multiple_of(3)).then(|| text(BodyKind::Output, "all of it"));
    let in_background = outcome == CallOutcome::Done && class % 3 == 1 && effect.kind == EffectKind::RunCall;
    let said = if class.is_multiple_of(5) { "it was long ".repeat(500) } else { "it".to_owned() };
    let given = ToolResult::new(outcome, text(BodyKind::Output, &said));
    let created = ChangedFile {
        path: "a.txt".to_owned(),
        before: None,
        after: Some(FileContent::default()),
        mode: Modes::default(),
        ..ChangedFile::default()
    };
    let changes = if class % 4 == 3 { vec![created] } else { vec![] };
    let step = |status| PlanItem { step: "look".to_owned(), status };
    let plan = match class % 7 {
        5 => Some(vec![step(PlanStatus::Done), step(PlanStatus::InProgress)]),
        6 => Some(vec![]),
        _ => None,
    };
    let route = class.is_multiple_of(2).then(|| ROUTE.to_owned());
    let sends = (class % 11 == 3).then(|| Outgoing { route, text: text(BodyKind::Message, "news") });
    Report::CallEnded { effect, given: ToolResult { whole, in_background, changes, plan, sends, ..given } }
}

/// A limit of all runs of a day.
const DAY: Limit =
    Limit { scope: Scope::Day, of: Resource::Tokens, used: 90, reserved: 5, kept: None, limit: 100, needs: 9 };

fn compact_report(world: &World, effect: EffectId, how: usize, class: usize) -> Report {
    let usage = Usage { input: 5, output: 2, ..Usage::default() };
    let summary = |said: &str| {
        let by = class.is_multiple_of(2).then(|| "acme/one".to_owned());
        CompactionResult::Summary { text: text(BodyKind::Message, said), by, usage }
    };
    let cuts =
        matches!(world.running.get(&effect), Some(Effect::Compact { compaction_step: CompactionStep::Truncate, .. }));
    let made = match how % 6 {
        3 | 4 if cuts => truncated_results(world),
        0 => return Report::RequestFailed { effect, failure: failure(class) },
        1 => summary(""),
        2 => summary(&"no shorter ".repeat(400)),
        5 => truncated_results(world),
        _ => summary("in short"),
    };
    Report::Compacted { effect, made }
}

fn title_report(effect: EffectId, how: usize, class: usize) -> Report {
    let title = if how.is_multiple_of(3) { Err(failure(class)) } else { Ok(text(BodyKind::Message, "the tide")) };
    Report::Titled { effect, title, by: "acme/one".into(), usage: Usage { input: 6, ..Usage::default() } }
}

fn truncated_results(world: &World) -> CompactionResult {
    let items = world.session().conversation.transcript.items().iter();
    let results = items.filter_map(Item::long_result).map(|(call, _)| (call, text(BodyKind::Output, "cut")));
    CompactionResult::Results(results.collect())
}

fn request_report(effect: EffectId, how: usize, class: usize) -> Report {
    let tool = ["ls", "read", "exec", "write", "fly"][class % 5];
    let arguments = if class.is_multiple_of(7) { "{\"pa" } else { "{}" };
    let part = match how % 14 {
        0 => return Report::RequestOpened { effect },
        1 => return Report::RequestFailed { effect, failure: failure(class) },
        2..=4 => {
            let usage = Usage { output: 3, ..Usage::default() };
            let stop_reason = [None, Some(StopReason::Length), Some(StopReason::ContentFilter)][class % 3];
            return Report::RequestEnded { effect, usage, stop_reason, schema_mismatch: None };
        }
        5 => Part::Text("said ".into()),
        6 => Part::Reasoning("hm ".into()),
        12 => Part::Signature {
            block: [BlockOf::Reasoning, BlockOf::Text, BlockOf::Call((class % 3) as u32)][class % 3],
            signature: "signed".into(),
        },
        13 => Part::Image(Attached::new("image/png", "a.png", *b"png")),
        _ => Part::Call {
            index: (class % 3) as u32,
            provider_id: Some("p".into()),
            name: Some(tool.into()),
            arguments: arguments.into(),
        },
    };
    Report::Streamed { effect, part }
}

fn checked(world: &World, effect: EffectId, how: usize) -> Report {
    let call = world.started.iter().find_map(|(started, _)| match started {
        Effect::CheckCall { id, call } if *id == effect => Some(*call),
        _ => None,
    });
    let decision = [Policy::Allow, Policy::Ask, Policy::Allow, Policy::Deny][how % 4];
    let fingerprint = call.map_or(Hash([0; 32]), fingerprint);
    let takes = [engine::AnswerForm::Text, engine::AnswerForm::Choice][how / 10 % 2];
    let question = (how % 10 == 7 || how % 10 == 4).then(|| engine::UserQuestion { text: "which?".into(), takes });
    Report::CallChecked {
        effect,
        decision,
        fingerprint,
        evidence: None,
        reason: None,
        timeout_ms: None,
        grant: None,
        question,
    }
}

/// A report of any kind about any effect: nearly always late or of the wrong kind.
fn orphan(world: &World, effect: EffectId, how: usize, class: usize) -> Report {
    let kind = EffectKind::ALL[how % EffectKind::ALL.len()].0;
    let mut orphan = report(world, EffectId { kind, ..effect }, how / 2, class);
    match &mut orphan {
        Report::LaneEntered { effect: about, .. }
        | Report::LaneRefused { effect: about, .. }
        | Report::Prepared { effect: about, .. }
        | Report::RequestOpened { effect: about }
        | Report::Streamed { effect: about, .. }
        | Report::RequestEnded { effect: about, .. }
        | Report::RequestFailed { effect: about, .. }
        | Report::Compacted { effect: about, .. }
        | Report::Titled { effect: about, .. }
        | Report::CallChecked { effect: about, .. }
        | Report::CallOutput { effect: about, .. }
        | Report::CallEnded { effect: about, .. }
        | Report::CallFound { effect: about, .. }
        | Report::Reported { effect: about }
        | Report::Reserved { effect: about, .. }
        | Report::Denied { effect: about, .. }
        | Report::ProcessEnded { effect: about, .. }
        | Report::Undone { effect: about, .. }
        | Report::Delivered { effect: about }
        | Report::DeliveryFailed { effect: about, .. }
        | Report::Erased { effect: about, .. } => *about = effect,
        other => panic!("an effect does not report {other:?}"),
    }
    orphan
}

fn message(world: &mut World, key: Option<u8>, content: u8, way: Way) -> Command {
    world.messages += 1;
    Command::Message {
        message: MessageId(Uuid::from_u128(u128::from(world.messages))),
        content: text(BodyKind::Message, &format!("text {content}")),
        mode: way.mode,
        queue: QueueSettings {
            cap: if way.small { 3 } else { QUEUE_CAP },
            cut: way.cut,
            interrupt: if way.suspend { Interrupt::Suspend } else { Interrupt::Replace },
            drop: way.drop,
            ..QueueSettings::default()
        },
        key: key.map(|key| format!("key {key}")),
        overrides: Overrides::default(),
        attachments: vec![],
        options: engine::SenderOptions {
            reply_to: (content > 0).then(|| Box::new(Address { channel: ROUTE.into(), ..Address::default() })),
            ..engine::SenderOptions::default()
        },
    }
}

/// The route of replies.
const ROUTE: &str = "out";

fn route(random: u64) -> ReplyRoute {
    let mode = [BlockMode::Off, BlockMode::TextEnd, BlockMode::MessageEnd][random as usize / 2 % 3];
    let blocks = BlockSettings { mode, min_chars: 6, max_chars: 40, break_at: BlockBreak::Paragraph };
    ReplyRoute { name: ROUTE.into(), has_keys: random.is_multiple_of(2), blocks, policy: None }
}

fn delivery_report(effect: EffectId, how: usize) -> Report {
    let fault = match how % 6 {
        0 => DeliveryFault::Temporary { after_ms: how.is_multiple_of(4).then_some(60_000) },
        1 => DeliveryFault::Refused,
        2 => DeliveryFault::Unknown,
        _ => return Report::Delivered { effect },
    };
    Report::DeliveryFailed { effect, why: "no".into(), fault }
}

fn answer(world: &World, which: usize, allow: bool, stale: bool) -> Option<Command> {
    let calls = &world.pump.session()?.run()?.step.calls;
    let call = calls.get(which % calls.len().max(1))?.id;
    let fingerprint = if stale { Hash([0; 32]) } else { fingerprint(call) };
    let edited = (which % 3 == 2).then(|| crate::support::edited(r#"{"edited":true}"#));
    let decision = match (allow, which % 2) {
        (true, _) if calls[which % calls.len()].takes.is_some() => {
            engine::Decision::Answered { text: text(BodyKind::Output, "that one") }
        }
        (true, _) => engine::Decision::Once { edited },
        (false, 0) => engine::Decision::DENY,
        (false, _) => engine::Decision::Deny { reason: Some("not that".into()) },
    };
    Some(Command::Answer { call, fingerprint, decision, by: "me".into() })
}

fn breakpoint(at: usize) -> Option<Breakpoint> {
    let states = [RunState::Preparing, RunState::ToolExec, RunState::Error, RunState::Retry, RunState::Awaiting];
    match at {
        0 => None,
        1 => Some(Breakpoint::BeforeTool("ls".into())),
        2 => Some(Breakpoint::BeforeTool("exec".into())),
        other => states.get(other - 3).copied().map(Breakpoint::OnState),
    }
}

fn offer_control(world: &mut World, control: Control) {
    match control {
        Control::Abort => world.offer(Command::Abort { run: None }),
        Control::Pause => world.offer(Command::Pause { run: None, freeze: false }),
        Control::Resume => world.offer(Command::Resume { run: None, drop: false }),
        Control::Drop => world.offer(Command::Resume { run: None, drop: true }),
        Control::Cancel(n) => {
            world.offer(Command::Cancel { message: MessageId(Uuid::from_u128(u128::from(n))), leg: None });
        }
        Control::Clear => world.offer(Command::Clear),
        Control::Reset => world.offer(Command::Reset),
        Control::Label(3) => world.offer(Command::Delete),
        Control::Label(n) => {
            let title = (n == 0).then(|| text(BodyKind::Message, "the tide"));
            world.offer(Command::Label { archived: (n > 0).then_some(n == 1), title });
        }
        Control::Compact => {
            world.messages += 1;
            let message = MessageId(Uuid::from_u128(u128::from(world.messages)));
            let focus = text(BodyKind::Message, "the tide");
            world.offer(Command::Compact { message, focus, queue: QueueSettings::default() });
        }
        Control::Undo => {
            let undo = crate::support::script::undo(world);
            world.offer(undo);
        }
        Control::UndoFiles(redo) => {
            let (run, plan) = (RunId(Uuid::from_u128(1)), text(BodyKind::Arguments, "{}"));
            world.offer(Command::Undo { run, redo, copy: None, plan });
        }
        Control::Freeze => world.offer(Command::Pause { run: None, freeze: true }),
        Control::Break(at) => {
            let run = world.session().run().map_or(RunId(Uuid::from_u128(1)), |run| run.id);
            world.offer(Command::Break { run, at: breakpoint(at) });
        }
        Control::QueueMode(mode) => world.offer(Command::Override(Override::QueueMode(Some(MODES[mode])))),
        Control::Budget(how) => {
            let scope = if how.is_multiple_of(2) { Scope::Run } else { Scope::Session };
            world.offer(Command::Budget { scope, change: allowance(how / 2) });
        }
        Control::Recover => world.offer(Command::Recover { force: true }),
        Control::Terminate => world.offer(Command::Terminate),
        Control::Escalate => {
            let failure = Failure::new(FailureClass::Unknown, "it fell over");
            world.offer(Report::Escalated { failure, repair: RepairPolicy::AsConfigured });
        }
        Control::Override => world.offer(Command::Override(Override::Model(Some("acme/two".into())))),
        Control::Closing => world.offer(Report::Closing),
        Control::OpenToWait => {
            world.crash();
            world.epoch += 1;
            world.offer(Report::OpenedToWait { epoch: Epoch(world.epoch) });
        }
        Control::Turn => {
            if world.session().account.closed {
                world.offer(Report::Opened { epoch: Epoch(world.epoch), cooling: vec![] });
            }
        }
        Control::LaneChecked(is_free) => world.offer(Report::LaneChecked { is_free }),
        Control::Deliver(again, which) => offer_of_delivery(world, again, which),
        Control::Due => world.offer(Report::Due),
        Control::CooldownSet(how) => {
            let cooling = cooling(world, 0, how);
            world.offer(Report::CooldownSet { cooling });
        }
        Control::CooldownLifted(how) => {
            let at = Timestamp(world.now - 500 * (how as i64 / 2));
            let cleared = vec![CooldownLifted { candidate: how as u32 % 2, at }];
            world.offer(Report::CooldownLifted { cleared });
        }
    }
}

fn offer_of_delivery(world: &mut World, again: bool, which: usize) {
    let outbox = &world.session().account.outbox.deliveries;
    let delivery = outbox.get(which % outbox.len().max(1)).map(engine::Delivery::id);
    let run = RunId(Uuid::from_u128(1));
    let delivery = delivery.unwrap_or(EffectId { run, kind: EffectKind::Deliver, ordinal: which as u32, try_no: 1 });
    world.offer(if again { Command::Redeliver { delivery } } else { Command::DropDelivery { delivery } });
}

/// Offers an operation; returns whether it is to be decided on now.
fn offer(world: &mut World, op: &Op) -> bool {
    match op {
        Op::Progress { which, how, class } => {
            let running: Vec<EffectId> = world.running.keys().copied().collect();
            if let Some(effect) = running.get(which % running.len().max(1)) {
                let report = report(world, *effect, *how, *class);
                world.offer(report);
            }
        }
        Op::Stray { which, how, class } => {
            if let Some((effect, _)) = world.started.get(which % world.started.len().max(1)) {
                let report = orphan(world, effect.id(), *how, *class);
                world.offer(report);
            }
        }
        Op::Message { key, text, way } => {
            let command = message(world, *key, *text, *way);
            world.offer(command);
        }
        Op::Answer { which, allow, stale } => {
            if let Some(command) = answer(world, *which, *allow, *stale) {
                world.offer(command);
            }
        }
        Op::Control(control) => offer_control(world, *control),
        Op::Due(ms) => {
            world.now += i64::from(*ms);
            world.offer(Report::Due);
        }
        Op::Wait(_) => unreachable!("time passes between inputs"),
        Op::Crash(ms) => {
            world.now += i64::from(*ms);
            world.crash_and_open();
        }
        Op::HandOver(ms) => {
            world.offer(Report::Closing);
            world.settle();
            world.now += i64::from(*ms);
            world.crash_and_open();
        }
        Op::FailAppend => {
            world.append_fails = true;
            return false;
        }
        Op::Together => return false,
    }
    true
}

fn play(case: &Case) -> World {
    let mut world = World::open();
    world.settings.resume = if case.resume { ResumeMode::Continue } else { ResumeMode::Restart };
    // The model is warned of every call, as if it were in a loop.
    (world.settings.limits.loop_warn_after, world.settings.limits.loop_stop_after) = (1, 4);
    world.settings.reply.routes.push(route(case.random));
    world.settings.limits.retries = case.retries;
    world.settings.limits.poison_after = case.poison;
    world.settings.limits.deadline_ms = Some(case.deadline);
    world.settings.approvals = Approvals {
        unattended: if case.random.is_multiple_of(5) { Unattended::Deny } else { Unattended::Wait },
        expires_ms: (case.random % 5 < 3).then_some(1_000),
        on_expiry: if case.random % 5 < 2 { OnExpiry::Deny } else { OnExpiry::Keep },
    };
    world.settings.recover = if case.random.is_multiple_of(2) { Recover::Auto } else { Recover::Ask };
    // In every third case the budget is shared.
    if matches!(case.start, Start::Queued) && case.random.is_multiple_of(3) {
        world.settings.budget.day.tokens = Some(1_000);
    }
    // Only a small part stays unchanged, so that there is something to summarise.
    world.settings.compaction.keep = 20;
    world.settings.titles = (case.random % 5 < 2).then(engine::Titles::default);
    world.settings.compaction.flush_lead = case.random.is_multiple_of(2).then_some(case.random % 8_000);
    world.random = case.random;
    for line in STARTS[case.start as usize].1 {
        crate::support::script::run_line(&mut world, line);
    }
    let mut decide = true;
    for op in &case.ops {
        if let Op::Wait(ms) = op {
            world.now += i64::from(*ms);
            continue;
        }
        let now = offer(&mut world, op);
        // At most two inputs in one batch: a held-back one is decided on with the next one.
        if now || !decide {
            world.settle();
        }
        decide = now;
        if world.broken {
            world.crash_and_open();
        }
    }
    world.append_fails = false;
    world.settle();
    world
}

/// One step towards the end: a human answers, repairs and resumes; running effects succeed.
fn help(world: &mut World) {
    let session = world.session();
    if session.account.closed {
        return world.crash_and_open();
    }
    match &session.conversation.lifecycle {
        Lifecycle::Suspended(_) => return world.step(Command::Resume { run: None, drop: false }),
        Lifecycle::Error { .. } => return world.step(Command::Recover { force: true }),
        _ => {}
    }
    let waits = |run: &engine::Run| matches!(run.phase, Phase::Awaiting { on: WaitFor::Budget, .. });
    if session.run().is_some_and(|run| waits(run) && run.budget.asked.is_none()) {
        world.step(Command::Budget { scope: Scope::Run, change: lifted() });
        return world.step(Command::Budget { scope: Scope::Session, change: lifted() });
    }
    let asked = session.run().and_then(|run| run.step.calls.iter().find(|call| call.stage == Stage::Asking));
    if let Some((call, takes)) = asked.map(|call| (call.id, call.takes)) {
        let (fingerprint, text) = (fingerprint(call), text(BodyKind::Output, "that one"));
        let decision = takes.map_or(engine::Decision::ONCE, |_| engine::Decision::Answered { text });
        return world.step(Command::Answer { call, fingerprint, decision, by: "me".into() });
    }
    let Some(effect) = world.running.keys().next().copied() else {
        world.now = world.armed.map_or(world.now, |at| at.0.max(world.now));
        return world.step(Report::Due);
    };
    if effect.kind == EffectKind::Request {
        world.step(Report::Streamed { effect, part: Part::Text("The end.".into()) });
        world.step(Report::RequestEnded { effect, usage: Usage::default(), stop_reason: None, schema_mismatch: None });
    } else {
        let report = report(world, effect, 3, 1);
        world.step(report);
    }
}

proptest! {
    #![proptest_config(Config {
        cases: 512,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Config::default()
    })]

    /// No panic, no fault, only edges of the table, the fold is the state, pairing, one end a run, effects after their
    /// batch, bodies before their names, nothing stuck, nothing lost: all checked after every step by the world. And at
    /// the end, the fold from any state that could be kept is the fold of everything.
    #[test]
    fn r03_r10_r13_r17_any_inputs_keep_every_invariant(case in case()) {
        crate::support::invariants::check_snapshots(&play(&case));
    }

    /// Liveness: when faults stop and people help, every accepted run ends.
    #[test]
    fn r11_when_faults_stop_every_accepted_run_ends(case in case()) {
        let mut world = play(&case);
        let done = |world: &World| {
            matches!(world.session().conversation.lifecycle, Lifecycle::Ready | Lifecycle::Idle | Lifecycle::Terminated)
                && world.session().conversation.queue.is_empty()
        };
        // Enough for each queued run, and for each call of the unfinished one.
        let most = 64 * (QUEUE_CAP as usize + 1);
        for _ in 0..most {
            if done(&world) {
                break;
            }
            help(&mut world);
        }
        prop_assert!(done(&world), "stuck: {:?}", world.session().conversation.lifecycle);
    }

    /// The same inputs give the same journal.
    #[test]
    fn r17_the_same_inputs_give_the_same_journal(case in case()) {
        let (once, again) = (play(&case), play(&case));
        prop_assert_eq!(once.journal, again.journal);
        prop_assert_eq!(once.lines, again.lines);
    }
}

/// The sequences reach what they are to test: without this, a property could hold vacuously.
#[test]
fn the_sequences_reach_every_kind_of_event() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2_048 {
        let case = case().new_tree(&mut runner).expect("a case").current();
        seen.extend(play(&case).journal.iter().map(|record| record.event.kind()));
    }
    // No input of this version leads to these.
    let later = ["forked"];
    // Events of the ledger: engine/src/ledger.
    let ledger = [
        "ledger_begun",
        "profile_cooled",
        "profile_answered",
        "profile_preferred",
        "profile_cleared",
        "allowance_set",
        "thinking_lowered",
        "grant_given",
        "grant_revoked",
    ];
    // This needs more processes than a sequence starts: scripts/process_many.txt.
    let later = [&later[..], &ledger[..], &["process_forgotten"]].concat();
    let missing: Vec<&&str> =
        engine::Event::KINDS.iter().filter(|kind| !seen.contains(*kind) && !later.contains(kind)).collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}
