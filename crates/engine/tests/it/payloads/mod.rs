//! The format on disk: every kind of event as payload and back, ids as text and back. A change here is a change of the
//! format; `page` compares the page that describes it.

use engine::tables::compaction::CompactionStep;
use engine::tables::lifecycle::{LifecycleCause, LifecycleKind};
use engine::tables::transitions::RunState;
use engine::{
    Address, Allowance, AllowanceSet, Attachment, Attribution, BlockOf, BlockSigned, Body, BodyKind, BranchId,
    BreakpointSet, BudgetAsked, BudgetSet, CallAsked, CallChecked, CallEnding, CallFound, CallId, CallLost,
    CallOutcome, CallPartAdded, CallSettled, CallStarted, CandidateCooldownLifted, CandidateCooldownSet, Closed,
    Compacted, CompactionAsked, CompactionBegun, CompactionCause, CompactionFailed, Created, DeliveryEnded,
    DeliveryFailed, DeliveryKind, DeliveryStarted, DeliveryWanted, EffectId, EffectKind, EndingCause, EndingSet, Epoch,
    ErasureEnded, Event, Failed, Failure, FailureClass, FileContent, FileKind, FilesChanged, Forked, Found, Gathered,
    Hash, ImageMade, Interrupt, InterruptCause, Item, ItemAt, LedgerBegun, LeftFile, Leg, LifecycleChanged, Limit,
    LineDiff, MessageAccepted, MessageId, MessageSealed, MessageSettled, Modes, Next, NotKept, Note, Noted, Opened,
    Outcome, OutputAdded, OverrideSet, Overrides, PauseCause, Paused, PlanSet, Policy, ProcessAdopted, ProcessCause,
    ProcessEnded, ProcessEnding, ProcessForgotten, ProfileAnswered, ProfileCooldownLifted, ProfileCooldownSet,
    ProfilePreferred, QueueMode, QueuePlace, ReasoningAdded, ReceiptState, Reported, RequestOpened, RequestSent, Reset,
    Resource, ResultsTruncated, Resumed, RetryScheduled, RunEnded, RunId, RunStarted, Scope, SealedCall, Seq,
    SessionId, SessionLabelled, ShortBlock, Spent, StepBegun, StopReason, StreamInterrupted, TextAdded, TextRetracted,
    Thinking, ThinkingLowered, Timestamp, TitleAsked, TitleEnded, ToolClass, TruncatedResult, Uncompacted, UndoEnded,
    UndoStarted, UnreadableEvent, Usage, VERSION, Visibility, WaitBegan, WaitEnded, WaitFor,
};
use uuid::Uuid;

mod page;

/// The kinds of the design, synced, written, progress; beside them `image_made`, `block_signed`, `gathered`,
/// `breakpoint_set`, `reset` and those of processes and files.
const KINDS: &str = "
    created forked opened closed message_accepted message_settled gathered run_started request_sent message_sealed call_asked
    ask_answered ask_expired answer_refused call_started call_ending call_settled compacted results_cut uncompacted compaction_asked noted budget_set wait_began wait_ended retry_scheduled candidate_cooled candidate_cleared
    profile_cooled profile_preferred profile_cleared allowance_set grant_given grant_revoked ending_set
    run_ended breakpoint_set reset paused resumed lifecycle_changed override_set session_labelled delivery_wanted
    delivery_started delivery_failed delivery_ended
    process_adopted process_ending process_ended process_forgotten files_changed undo_started undo_ended erasure_ended title_asked
    step_begun request_opened stream_cut text_struck call_checked call_lost call_found image_made budget_asked compaction_begun
    title_ended plan_set compaction_failed failed reported ledger_begun profile_answered thinking_lowered
    text_added reasoning_added call_part_added block_signed output_added";

const ID: Uuid = Uuid::from_u128(7);
const RUN: RunId = RunId(ID);
const CALL: CallId = CallId { run: RUN, step: 2, index: 1 };
const EFFECT: EffectId = EffectId { run: RUN, kind: EffectKind::Request, ordinal: 3, try_no: 2 };
const HASH: Hash = Hash([0xa5; 32]);
const SPENT: Spent = Spent { tokens: 9, cost: 3, calls: 1, wall_ms: 2, bytes: 7 };
const LIMIT: Limit = Limit {
    scope: Scope::Run,
    of: Resource::Tokens,
    used: 408,
    reserved: 350,
    kept: Some(700),
    limit: 7_000,
    needs: 6_500,
};
const ALLOWANCE: Allowance =
    Allowance { tokens: Some(9), cost: Some(3), calls: Some(1), wall_ms: Some(2), bytes: Some(7) };
const BODY: Body = Body { hash: HASH, bytes: 9, tokens: 3, kind: BodyKind::Message };

/// One of each kind, every field set, in the order of the list.
fn samples() -> Vec<Event> {
    let mut samples = session_samples();
    samples.extend(call_samples());
    samples.extend(run_samples());
    samples.extend(written_samples());
    samples.extend(progress_samples());
    samples
}

fn failure() -> Failure {
    Failure {
        status: Some(429),
        code: Some("slow".into()),
        provider: Some("acme".into()),
        model: Some("one".into()),
        profile: Some("first".into()),
        retry_after_ms: Some(1_000),
        ..Failure::new(FailureClass::RateLimit, "too many requests")
    }
}

fn usage() -> Usage {
    Usage { input: 1, cached: 2, cache_written: 3, output: 4, reasoning: 5 }
}

fn accepted(message: MessageId) -> MessageAccepted {
    let overrides = Overrides {
        workspace: Some("/w".into()),
        model: Some("acme/two".into()),
        deadline_ms: Some(5),
        thinking: Some(engine::Thinking::Low),
        max_output: std::num::NonZeroU32::new(6),
        sampling: Some(Box::new(engine::Sampling { temperature: Some(700), top_p: Some(0) })),
        allow: true,
        sandbox: Some(engine::SandboxMode::ReadOnly),
        root: Some(engine::SandboxRoot::Worktree),
        unattended: Some(engine::Unattended::Deny),
        compact: true,
        stop_before: vec!["edit".into()],
        plan: true,
        output_schema: Some(Box::new(serde_json::json!({ "type": "object" }))),
        system: Some("You review.".into()),
        append_system: Some("Be brief.".into()),
        verbose: Some(true),
        reasoning: Some(engine::ReasoningMode::Block),
        skill: Some("deploy".into()),
    };
    MessageAccepted {
        message,
        body: BODY,
        mode: QueueMode::SteerBacklog,
        key: Some("k".into()),
        overrides,
        attachments: vec![attachment()],
        place: QueuePlace::Both,
        debounce_ms: Some(1_000),
        ends: Some(RUN),
        mode_by: Some(engine::ModeSource::Session),
        origin: Some(Box::new(address())),
        reply_to: Some(Box::new(address())),
        masked: 2,
    }
}

fn session_samples() -> Vec<Event> {
    let message = MessageId(ID);
    vec![
        Created { session: SessionId(ID), key: "agent:main:main".into(), agent: "main".into(), branch: BranchId(ID) }
            .into(),
        Forked { parent: BranchId(ID), at: Seq(4), hash: HASH }.into(),
        Opened { epoch: Epoch(2), last_activity: Timestamp(9) }.into(),
        Closed { epoch: Epoch(2) }.into(),
        accepted(message).into(),
        MessageSettled {
            message,
            state: ReceiptState::Cancelled,
            run: Some(RUN),
            leg: Some(Leg::Steer),
            in_next_run: true,
        }
        .into(),
        Gathered { messages: vec![message] }.into(),
        RunStarted { run: RUN, inputs: vec![message], settings: HASH, blocks: true }.into(),
        RequestSent {
            reserved: Some(SPENT),
            request: EFFECT,
            epoch: Epoch(2),
            candidate: 1,
            items: 4,
            tokens: 9,
            probe: true,
        }
        .into(),
        MessageSealed {
            cost: 2,
            request: EFFECT,
            text: Some(BODY),
            reasoning: Some(BODY),
            calls: vec![SealedCall {
                id: CALL,
                provider_id: "p".into(),
                tool: "exec".into(),
                class: ToolClass::Once,
                arguments: BODY,
                answer: Some(BODY),
            }],
            usage: usage(),
            stop_reason: Some(StopReason::Length),
            next: Next::Cut,
            blocks: Some(BODY),
            images: vec![attachment()],
        }
        .into(),
    ]
}

fn address() -> Address {
    let part = || Some("42".to_owned());
    Address { channel: "telegram".into(), account: part(), peer: part(), thread: part() }
}

fn attachment() -> Attachment {
    Attachment { body: BODY, media_type: "image/png".into(), name: "a.png".into() }
}

fn grant() -> engine::ApprovalGrant {
    let rule = engine::policy::PolicyRule {
        decision: Policy::Allow,
        origin: "allowed in answer to a question".into(),
        restricts: true,
        grant: Some(CALL),
        answered: true,
        tools: vec!["exec".into()],
        commands: vec!["git log *".into()],
        paths: vec!["a".into()],
        hosts: vec!["b".into()],
    };
    let (session, key) = (Some(SessionId(Uuid::from_u128(1))), Some("agent:main:main".into()));
    engine::ApprovalGrant {
        id: CALL,
        session,
        key,
        agent: Some("main".into()),
        rule,
        by: "me".into(),
        at: Timestamp(5),
    }
}

fn call_samples() -> Vec<Event> {
    vec![
        CallAsked { call: CALL, fingerprint: HASH, question: "?".into(), takes: Some(engine::AnswerForm::Text) }.into(),
        engine::AskAnswered {
            call: CALL,
            allow: true,
            by: "me".into(),
            reason: Some("no".into()),
            edited: Some(engine::EditedArguments { body: BODY, shown: "{}".into() }),
            grant: Some(CALL),
            answer: Some(BODY),
            message: Some(engine::MessageId(uuid::Uuid::from_u128(5))),
            skipped: true,
        }
        .into(),
        engine::AskExpired { call: CALL, kept: true }.into(),
        engine::AnswerRefused { call: CALL, by: "process 7 (sh)".into(), why: engine::AnswerRefusal::InCall }.into(),
        CallStarted { call: CALL, effect: EFFECT, epoch: Epoch(2), class: ToolClass::Idempotent }.into(),
        CallEnding { call: CALL, why: EndingCause::Limit }.into(),
        CallSettled {
            call: CALL,
            effect: Some(EFFECT),
            outcome: CallOutcome::TimedOut,
            output: BODY,
            whole: Some(BODY),
            attachments: vec![attachment()],
        }
        .into(),
    ]
}

#[expect(clippy::too_many_lines, reason = "a list")]
fn run_samples() -> Vec<Event> {
    vec![
        Compacted {
            cost: 2,
            compaction: EFFECT,
            summary: BODY,
            kept_from: Seq(3),
            pinned: vec![MessageId(ID)],
            before: 100,
            after: 10,
            by: Some("acme/m".into()),
            usage: Usage { input: 5, ..Usage::default() },
            goes_on: true,
        }
        .into(),
        ResultsTruncated {
            compaction: EFFECT,
            results: vec![TruncatedResult { call: CALL, output: BODY }],
            before: 100,
            after: 10,
        }
        .into(),
        Uncompacted {
            compaction: EFFECT,
            restored: vec![ItemAt { seq: Seq(2), item: Item::Summary { compaction: EFFECT, body: BODY } }],
        }
        .into(),
        CompactionAsked { focus: Some(BODY) }.into(),
        Noted { note: Note::Repeats, body: BODY }.into(),
        BudgetSet { scope: Scope::Run, allowance: ALLOWANCE }.into(),
        WaitBegan { on: WaitFor::Approval, until: Some(Timestamp(8)), limit: Some(LIMIT) }.into(),
        WaitEnded { on: WaitFor::Quota }.into(),
        RetryScheduled {
            until: Timestamp(8),
            try_no: 2,
            candidate: Some(1),
            model: Some("acme/two".into()),
            thinking: Some(Thinking::Low),
            compaction_step: Some(CompactionStep::Truncate),
            as_it_is: true,
        }
        .into(),
        CandidateCooldownSet {
            candidate: 0,
            model: "acme/one".into(),
            until: Some(Timestamp(9)),
            class: Some(FailureClass::Auth),
            request: Some(EFFECT),
        }
        .into(),
        CandidateCooldownLifted { candidate: 0, model: "acme/one".into() }.into(),
        ProfileCooldownSet {
            provider: "acme".into(),
            profile: Some("home".into()),
            model: Some("one".into()),
            class: FailureClass::RateLimit,
            until: Timestamp(9),
            failures: 1,
            request: EFFECT,
        }
        .into(),
        ProfilePreferred { provider: "acme".into(), profile: Some("home".into()) }.into(),
        ProfileCooldownLifted { provider: "acme".into(), profile: Some("home".into()) }.into(),
        AllowanceSet { scope: Some(Scope::Home), agent: Some("main".into()), allowance: ALLOWANCE }.into(),
        engine::GrantGiven { grant: grant() }.into(),
        engine::GrantRevoked { grant: CALL, by: "me".into() }.into(),
        EndingSet { outcome: Outcome::TimedOut, terminate: true, reset: true }.into(),
        RunEnded {
            run: RUN,
            outcome: Outcome::Failed,
            failure: Some(failure()),
            text: vec![BODY],
            usage: usage(),
            checkpoint: Some(Seq(4)),
            stop_reason: Some(StopReason::ContentFilter),
            compacted: true,
            verbose: true,
        }
        .into(),
        BreakpointSet {
            run: RUN,
            before_tool: Some("exec".into()),
            on_state: Some(RunState::Retry),
            before_any: vec!["edit".into()],
        }
        .into(),
        Reset {}.into(),
        Paused {
            cause: PauseCause::Breakpoint,
            freeze: true,
            call: Some(CALL),
            state: Some(RunState::Retry),
            cleared: true,
        }
        .into(),
        Resumed {}.into(),
        LifecycleChanged {
            from: LifecycleKind::Active,
            to: LifecycleKind::Error,
            cause: LifecycleCause::Escalated,
            failure: Some(failure()),
            remedy: Some("limulus resume".into()),
            attempt: Some(2),
            retry_at: Some(Timestamp(300_000)),
        }
        .into(),
        OverrideSet {
            model: Some("acme/two".into()),
            thinking: Some(Thinking::High),
            verbose: Some(true),
            queue_mode: Some(QueueMode::Collect),
            interrupt: Some(Interrupt::Suspend),
        }
        .into(),
        SessionLabelled { title: Some(BODY), visibility: Some(Visibility::Archived), erasure: Some(EFFECT) }.into(),
        DeliveryWanted {
            delivery: EFFECT,
            kind: DeliveryKind::Block,
            to: Some(Box::new(address())),
            text: Some(BODY),
            has_keys: true,
            call: Some(CALL),
            taken: 800,
            reopened: Some("```rust\n".into()),
            from: 3,
            goes_on: true,
            short: Some(ShortBlock { until: Timestamp(4), most: 1_200 }),
            again: Some(EFFECT),
        }
        .into(),
        DeliveryStarted { delivery: EFFECT, epoch: Epoch(2), joined: vec![EFFECT] }.into(),
        DeliveryFailed { delivery: EFFECT, why: "connection refused".into(), until: Timestamp(9), uncertain: true }
            .into(),
        DeliveryEnded { delivery: EFFECT, arrived: Some(false), why: Some("status 404".into()), dropped: true }.into(),
        ProcessAdopted { process: EFFECT, call: CALL, until: Timestamp(8) }.into(),
        ProcessEnding { process: EFFECT, why: ProcessCause::Limit }.into(),
        ProcessEnded { process: EFFECT, outcome: CallOutcome::Failed, how: "exit status 1".into() }.into(),
        ProcessForgotten { process: EFFECT }.into(),
        FilesChanged {
            call: CALL,
            path: "src/a.rs".into(),
            before: Some(FileContent { kind: FileKind::Link, hash: Some(BODY.hash) }),
            after: Some(FileContent { kind: FileKind::Folder, hash: Some(BODY.hash) }),
            mode: Modes { before: Some(0o644), after: Some(0o755) },
            not_kept: Some(NotKept::TooLarge),
            attribution: Attribution::AnotherRun,
            diff: Some(LineDiff { added: 1, removed: 2, text: BODY }),
            linked: Some("src/b.rs".into()),
        }
        .into(),
        UndoStarted { undo: EFFECT, run: EFFECT.run, redo: true, copy: Some(engine::CopyAct::Apply), plan: BODY }
            .into(),
        UndoEnded { undo: EFFECT, left: vec![LeftFile { path: "a".into(), why: "changed since".into() }] }.into(),
        ErasureEnded { erasure: EFFECT, bodies: 1, bytes: 2, files: 3, failure: Some("the disk is full".into()) }
            .into(),
        TitleAsked { title: EFFECT, reserved: Some(SPENT) }.into(),
    ]
}

fn written_samples() -> Vec<Event> {
    vec![
        StepBegun { step: 2, prompt: BODY }.into(),
        RequestOpened { request: EFFECT }.into(),
        StreamInterrupted { request: EFFECT, cause: InterruptCause::Shutdown, text: Some(BODY) }.into(),
        TextRetracted { request: EFFECT }.into(),
        CallChecked {
            call: CALL,
            decision: Policy::Ask,
            fingerprint: HASH,
            evidence: Some("before".into()),
            reason: Some("outside".into()),
            timeout_ms: Some(5_000),
            grant: Some(CALL),
        }
        .into(),
        CallLost { call: CALL }.into(),
        CallFound { call: CALL, found: Found::NeverStarted }.into(),
        ImageMade { request: EFFECT, image: attachment() }.into(),
        BudgetAsked {
            reserve: EffectId { run: RUN, kind: EffectKind::Reserve, ordinal: 1, try_no: 1 },
            expected: SPENT,
            closing: true,
        }
        .into(),
        CompactionBegun {
            try_no: 1,
            compaction: EFFECT,
            cause: CompactionCause::Threshold,
            compaction_step: CompactionStep::Summarise,
            items: 4,
            tokens: 100,
            focus: Some(BODY),
            reserved: Some(SPENT),
        }
        .into(),
        TitleEnded {
            title: EFFECT,
            text: Some(BODY),
            by: Some("acme/one".into()),
            usage: usage(),
            cost: 4,
            failure: Some(failure()),
        }
        .into(),
        PlanSet { call: CALL, items: BODY, steps: 3, done: 1, reminder: Some(BODY) }.into(),
        CompactionFailed { failure: failure(), compaction_step: CompactionStep::Summarise, usage: usage(), cost: 4 }
            .into(),
        Failed { request: Some(EFFECT), failure: failure(), text: Some(BODY) }.into(),
        Reported { request: EFFECT }.into(),
        LedgerBegun { branch: BranchId(Uuid::nil()) }.into(),
        ProfileAnswered {
            provider: "acme".into(),
            profile: Some("home".into()),
            model: "one".into(),
            since: Timestamp(8),
        }
        .into(),
        ThinkingLowered {
            provider: "acme".into(),
            model: "one".into(),
            asked: Thinking::High,
            accepted: Thinking::Low,
            config: BODY.hash,
        }
        .into(),
    ]
}

fn progress_samples() -> Vec<Event> {
    vec![
        TextAdded { effect: EFFECT, offset: 5, text: "é\n".into() }.into(),
        ReasoningAdded { effect: EFFECT, offset: 5, text: "hm".into() }.into(),
        CallPartAdded {
            effect: EFFECT,
            offset: 5,
            index: 1,
            provider_id: Some("p".into()),
            name: Some("ls".into()),
            arguments: "{".into(),
        }
        .into(),
        BlockSigned { effect: EFFECT, offset: 5, block: BlockOf::Text, signature: "s".into() }.into(),
        OutputAdded { effect: EFFECT, offset: 5, text: "out".into() }.into(),
    ]
}

#[test]
fn r10_the_kinds_on_disk_are_the_design_s() {
    let kinds: Vec<&str> = KINDS.split_whitespace().collect();
    assert_eq!(Event::KINDS, kinds);
    let samples: Vec<&str> = samples().iter().map(Event::kind).collect();
    assert_eq!(samples, kinds, "one sample of each");
}

#[test]
fn r10_every_event_reads_back_as_it_was_written() {
    for event in samples() {
        let payload = event.payload();
        assert_eq!(Event::decode(event.kind(), VERSION, &payload), Ok(event.clone()));
        let value: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        assert!(value.is_object(), "{}", event.kind());
    }
}

#[test]
fn r10_what_this_version_does_not_know_is_refused() {
    for event in samples() {
        let mut value: serde_json::Value = serde_json::from_slice(&event.payload()).unwrap();
        value["surprise"] = 1.into();
        let unknown = Event::decode(event.kind(), VERSION, value.to_string().as_bytes());
        assert!(matches!(unknown, Err(UnreadableEvent::Payload { .. })), "an unknown field in {}", event.kind());
        let newer = Event::decode(event.kind(), VERSION + 1, &event.payload());
        assert!(matches!(newer, Err(UnreadableEvent::Version { version, .. }) if version == VERSION + 1));
        let cut = &event.payload()[1..];
        assert!(matches!(Event::decode(event.kind(), VERSION, cut), Err(UnreadableEvent::Payload { .. })));
    }
    let kind = Event::decode("dreamt", VERSION, b"{}");
    assert_eq!(kind, Err(UnreadableEvent::Kind { kind: "dreamt".into() }));
}

#[test]
fn r10_progress_and_entries() {
    let progress = ["text_added", "reasoning_added", "call_part_added", "block_signed", "output_added"];
    for event in samples() {
        let expected = progress.contains(&event.kind()).then_some((EFFECT, 5));
        assert_eq!(event.progress(), expected, "{}", event.kind());
    }
}

#[test]
fn ids_are_read_as_they_are_written() {
    let uuid = "00000000-0000-0000-0000-000000000007";
    assert_eq!(CALL.to_string(), format!("{uuid}/2/1"));
    assert_eq!(CALL.to_string().parse(), Ok(CALL));
    for (kind, name) in EffectKind::ALL {
        let effect = EffectId { kind, ..EFFECT };
        assert_eq!(effect.to_string(), format!("{uuid}/{name}/3/2"));
        assert_eq!(effect.to_string().parse(), Ok(effect));
        assert_eq!(kind.name(), name);
    }
    assert_eq!(HASH.to_string(), "a5".repeat(32));
    assert_eq!(HASH.to_string().parse(), Ok(HASH));
    assert_eq!(RUN.to_string().parse(), Ok(RUN));
}

#[test]
fn what_is_not_an_id_is_refused() {
    let uuid = Uuid::from_u128(7);
    for text in ["", "7", &format!("{uuid}"), &format!("{uuid}/1"), &format!("{uuid}/1/2/3"), &format!("{uuid}/-1/0")] {
        assert!(text.parse::<CallId>().is_err(), "{text}");
    }
    for text in
        ["", &format!("{uuid}/request/1"), &format!("{uuid}/dream/1/1"), &format!("{uuid}/request/1/1/1"), "x/y"]
    {
        assert!(text.parse::<EffectId>().is_err(), "{text}");
    }
    for text in ["", "a5", &"g5".repeat(32), &"é".repeat(32), &"+5".repeat(32)] {
        assert!(text.parse::<Hash>().is_err(), "{text}");
    }
}
