//! One event of every kind, and rows for the views.

use engine::policy::PolicyRule;
use engine::tables::compaction::CompactionStep;
use engine::tables::lifecycle::{LifecycleCause, LifecycleKind};
use engine::tables::transitions::RunState;
use engine::{
    Allowance, AllowanceSet, AnswerRefusal, AnswerRefused, ApprovalGrant, ApprovalRow, AskAnswered, AskExpired,
    Attachment, Attribution, BlockOf, BlockSigned, Body, BodyKind, BreakpointSet, BudgetAsked, BudgetSet, CallAsked,
    CallChecked, CallEnding, CallFound, CallId, CallLost, CallOutcome, CallPartAdded, CallSettled, CallStarted,
    CandidateCooldownLifted, CandidateCooldownSet, Closed, Compacted, CompactionAsked, CompactionBegun,
    CompactionCause, CompactionFailed, Content, DeliveryEnded, DeliveryFailed, DeliveryKind, DeliveryStarted,
    DeliveryWanted, EditedArguments, EffectId, EffectKind, EndingCause, EndingSet, Epoch, ErasureEnded, Event, Failed,
    Failure, FailureClass, FileContent, FileKind, FilesChanged, Found, Gathered, GrantGiven, GrantRevoked, Hash,
    ImageMade, InterruptCause, Item, ItemAt, Leg, LifecycleChanged, MessageAccepted, MessageId, MessageSealed,
    MessageSettled, Modes, Next, NotKept, Note, Noted, Opened, Outcome, OutputAdded, OverrideSet, Overrides,
    PauseCause, Paused, PlanSet, Policy, ProcessAdopted, ProcessCause, ProcessEnded, ProcessEnding, ProcessForgotten,
    ProfileAnswered, ProfileCooldownLifted, ProfileCooldownSet, ProfilePreferred, QueueMode, QueuePlace,
    ReasoningAdded, ReceiptRow, ReceiptState, Reported, RequestOpened, RequestSent, Reset, ResultsTruncated, Resumed,
    RetryScheduled, RunEnded, RunId, RunRow, RunStarted, Scope, SealedCall, Seq, SessionLabelled, SessionRow, Spent,
    StepBegun, StreamInterrupted, TextAdded, TextRetracted, Thinking, ThinkingLowered, Timestamp, TitleAsked,
    TitleEnded, ToolClass, TruncatedResult, Uncompacted, UndoEnded, UndoStarted, Usage, WaitBegan, WaitEnded, WaitFor,
};

use super::{Script, id};

pub(crate) const USAGE: Usage = Usage { input: 11, cached: 7, cache_written: 5, output: 3, reasoning: 2 };

pub(crate) fn run() -> RunId {
    RunId(id(77))
}

pub(crate) fn effect(kind: EffectKind, ordinal: u32) -> EffectId {
    EffectId { run: run(), kind, ordinal, try_no: 1 }
}

pub(crate) fn text(text: &str) -> Content {
    Content::text(BodyKind::Message, text)
}

pub(crate) fn text_added(ordinal: u32, offset: u64, text: &str) -> Event {
    TextAdded { effect: effect(EffectKind::Request, ordinal), offset, text: text.to_owned() }.into()
}

pub(crate) fn sealed(ordinal: u32, body: Body) -> Event {
    let request = effect(EffectKind::Request, ordinal);
    MessageSealed {
        cost: 0,
        request,
        text: Some(body),
        reasoning: None,
        calls: vec![],
        usage: USAGE,
        stop_reason: None,
        next: Next::Finish,
        blocks: None,
        images: vec![],
    }
    .into()
}

pub(crate) fn accepted(body: Body) -> Event {
    let (key, overrides) = (Some("k-1".to_owned()), Overrides { deadline_ms: Some(5), ..Overrides::default() });
    MessageAccepted {
        message: MessageId(id(77)),
        body,
        mode: QueueMode::Steer,
        key,
        overrides,
        attachments: vec![],
        place: QueuePlace::Steer,
        debounce_ms: None,
        ends: None,
        mode_by: None,
        origin: None,
        reply_to: None,
        masked: 0,
    }
    .into()
}

/// The result of a call that this effect ran.
pub(crate) fn settled(effect: EffectId) -> (Event, Content) {
    let (call, output) = (CallId { run: run(), step: 1, index: effect.ordinal }, text("its result"));
    let outcome = CallOutcome::Done;
    (
        CallSettled { call, effect: Some(effect), outcome, output: output.body, whole: None, attachments: vec![] }
            .into(),
        output,
    )
}

/// An event with durability `Written` that needs no other.
pub(crate) fn retracted(ordinal: u32) -> Event {
    TextRetracted { request: effect(EffectKind::Request, ordinal) }.into()
}

/// One of every kind except those that begin a branch, with the bodies that they name.
pub(crate) fn every_other_kind() -> (Vec<Event>, Vec<Content>) {
    let content = text("a body: \u{1f980} \"quoted\"\n");
    let body = content.body;
    let mut events = of_a_run(body);
    events.extend(of_calls(body));
    events.extend(of_histories(body));
    events.extend(of_waits(body));
    events.extend(of_lifecycle());
    events.push(
        UndoStarted { undo: effect(EffectKind::Undo, 1), run: run(), redo: false, copy: None, plan: body }.into(),
    );
    let call = CallId { run: run(), step: 1, index: 0 };
    events.push(PlanSet { call, items: body, steps: 2, done: 1, reminder: None }.into());
    events.extend(of_streams());
    (events, vec![content])
}

fn of_a_run(body: Body) -> Vec<Event> {
    let request = effect(EffectKind::Request, 1);
    let call = CallId { run: run(), step: 1, index: 0 };
    let provider_id = "toolu_1".to_owned();
    let calls = vec![SealedCall {
        id: call,
        provider_id,
        tool: "read".to_owned(),
        class: ToolClass::ReadOnly,
        arguments: body,
        answer: Some(body),
    }];
    vec![
        Opened { epoch: Epoch(1), last_activity: Timestamp(3) }.into(),
        Closed { epoch: Epoch(1) }.into(),
        accepted(body),
        MessageSettled {
            message: MessageId(id(78)),
            state: ReceiptState::Merged,
            run: Some(run()),
            leg: Some(Leg::Steer),
            in_next_run: false,
        }
        .into(),
        Gathered { messages: vec![MessageId(id(77)), MessageId(id(78))] }.into(),
        RunStarted { run: run(), inputs: vec![MessageId(id(77))], settings: body.hash, blocks: false }.into(),
        StepBegun { step: 1, prompt: body }.into(),
        RequestSent { reserved: None, request, epoch: Epoch(1), candidate: 0, items: 3, tokens: 9, probe: false }
            .into(),
        RequestOpened { request }.into(),
        StreamInterrupted { request, cause: InterruptCause::Crash, text: Some(body) }.into(),
        TextRetracted { request }.into(),
        ImageMade { request, image: Attachment { body, media_type: "image/png".to_owned(), name: "a.png".to_owned() } }
            .into(),
        MessageSealed {
            cost: 0,
            request,
            text: None,
            reasoning: Some(body),
            calls,
            usage: USAGE,
            stop_reason: None,
            next: Next::Calls,
            blocks: None,
            images: vec![],
        }
        .into(),
        RunEnded {
            run: run(),
            outcome: Outcome::Completed,
            failure: None,
            text: vec![body, body],
            usage: USAGE,
            checkpoint: None,
            stop_reason: None,
            compacted: false,
            verbose: false,
        }
        .into(),
    ]
}

fn of_calls(body: Body) -> Vec<Event> {
    let call = CallId { run: run(), step: 1, index: 0 };
    let (effect, fingerprint) = (effect(EffectKind::RunCall, 1), Hash::of(b"fingerprint"));
    let (reason, evidence) = (Some("outside the workspace".to_owned()), Some("sha".to_owned()));
    vec![
        CallChecked {
            call,
            decision: Policy::Ask,
            fingerprint,
            evidence,
            reason,
            timeout_ms: Some(5_000),
            grant: None,
        }
        .into(),
        CallAsked { call, fingerprint, question: "run `rm`?".to_owned(), takes: None }.into(),
        AskAnswered {
            call,
            allow: true,
            by: "terminal".to_owned(),
            reason: None,
            edited: Some(EditedArguments { body, shown: "{}".to_owned() }),
            grant: None,
            answer: None,
            message: None,
            skipped: false,
        }
        .into(),
        AskExpired { call, kept: true }.into(),
        AnswerRefused { call, by: "process 7 (sh)".to_owned(), why: AnswerRefusal::InCall }.into(),
        CallStarted { call, effect, epoch: Epoch(1), class: ToolClass::Once }.into(),
        CallEnding { call, why: EndingCause::Limit }.into(),
        CallLost { call }.into(),
        CallFound { call, found: Found::Unknown }.into(),
        CallSettled {
            call,
            effect: Some(effect),
            outcome: CallOutcome::Done,
            output: body,
            whole: None,
            attachments: vec![],
        }
        .into(),
    ]
}

fn of_histories(body: Body) -> Vec<Event> {
    let (compaction, call) = (effect(EffectKind::Compact, 1), CallId { run: run(), step: 1, index: 0 });
    let failure = Failure::new(FailureClass::Server, "busy");
    vec![
        BudgetAsked {
            reserve: effect(EffectKind::Reserve, 1),
            expected: Spent { tokens: 9, ..Spent::default() },
            closing: true,
        }
        .into(),
        CompactionBegun {
            try_no: 1,
            compaction,
            cause: CompactionCause::Threshold,
            compaction_step: CompactionStep::Summarise,
            items: 4,
            tokens: 100,
            focus: None,
            reserved: Some(Spent { tokens: 9, ..Spent::default() }),
        }
        .into(),
        Compacted {
            cost: 0,
            compaction,
            summary: body,
            kept_from: Seq(4),
            pinned: vec![MessageId(id(77))],
            before: 100,
            after: 10,
            by: Some("acme/m".into()),
            usage: Usage { input: 5, ..Usage::default() },
            goes_on: true,
        }
        .into(),
        ResultsTruncated { compaction, results: vec![TruncatedResult { call, output: body }], before: 100, after: 10 }
            .into(),
        Uncompacted { compaction, restored: vec![ItemAt { seq: Seq(2), item: Item::Summary { compaction, body } }] }
            .into(),
        CompactionAsked { focus: Some(body) }.into(),
        Noted { note: Note::Repeats, body }.into(),
        BudgetSet { scope: Scope::Session, allowance: Allowance { cost: Some(7), ..Allowance::default() } }.into(),
        CompactionFailed { failure, compaction_step: CompactionStep::Summarise, usage: USAGE, cost: 4 }.into(),
    ]
}

fn of_waits(body: Body) -> Vec<Event> {
    let failure =
        Failure { status: Some(529), retry_after_ms: Some(9), ..Failure::new(FailureClass::Overloaded, "busy") };
    vec![
        Failed { request: None, failure, text: Some(body) }.into(),
        WaitBegan { on: WaitFor::Quota, until: Some(Timestamp(99)), limit: None }.into(),
        WaitEnded { on: WaitFor::Quota }.into(),
        RetryScheduled {
            until: Timestamp(5),
            try_no: 2,
            compaction_step: Some(CompactionStep::Truncate),
            ..RetryScheduled::default()
        }
        .into(),
        RetryScheduled {
            until: Timestamp(5),
            try_no: 3,
            candidate: Some(1),
            model: Some("acme/two (b)".into()),
            thinking: Some(Thinking::Low),
            ..RetryScheduled::default()
        }
        .into(),
        CandidateCooldownSet {
            candidate: 0,
            model: "acme/one".into(),
            until: Some(Timestamp(60_005)),
            class: Some(FailureClass::RateLimit),
            request: Some(effect(EffectKind::Request, 1)),
        }
        .into(),
        CandidateCooldownSet { candidate: 1, model: "acme/two (b)".into(), until: None, class: None, request: None }
            .into(),
        CandidateCooldownLifted { candidate: 1, model: "acme/two (b)".into() }.into(),
        Reported { request: effect(EffectKind::Request, 1) }.into(),
        ProfileCooldownSet {
            provider: "acme".into(),
            profile: Some("b".into()),
            model: None,
            class: FailureClass::Billing,
            until: Timestamp(60_005),
            failures: 2,
            request: effect(EffectKind::Request, 1),
        }
        .into(),
        ThinkingLowered {
            provider: "acme".into(),
            model: "one".into(),
            asked: Thinking::High,
            accepted: Thinking::Low,
            config: Hash::of(b"one"),
        }
        .into(),
        ProfileAnswered { provider: "acme".into(), profile: None, model: "one".into(), since: Timestamp(7) }.into(),
        ProfilePreferred { provider: "acme".into(), profile: Some("b".into()) }.into(),
        ProfileCooldownLifted { provider: "acme".into(), profile: Some("b".into()) }.into(),
        AllowanceSet {
            scope: None,
            agent: Some("main".into()),
            allowance: Allowance { cost: Some(7), ..Allowance::default() },
        }
        .into(),
        GrantGiven { grant: grant() }.into(),
        GrantRevoked { grant: grant().id, by: "terminal".into() }.into(),
    ]
}

fn of_lifecycle() -> Vec<Event> {
    let (model, verbose) = (Some("acme/m".to_owned()), Some(true));
    let (from, to, cause) = (LifecycleKind::Active, LifecycleKind::Error, LifecycleCause::Escalated);
    let remedy = Some("limulus resume KEY --force".to_owned());
    let failure = Some(Failure::new(FailureClass::Overloaded, "busy"));
    let (delivery, process) = (effect(EffectKind::Deliver, 1), effect(EffectKind::RunCall, 1));
    vec![
        EndingSet { outcome: Outcome::TimedOut, terminate: true, reset: false }.into(),
        Paused { cause: PauseCause::Interrupt, freeze: false, call: None, state: None, cleared: false }.into(),
        BreakpointSet { run: run(), before_tool: Some("exec".to_owned()), on_state: None, before_any: vec![] }.into(),
        Reset {}.into(),
        Resumed {}.into(),
        LifecycleChanged { failure, remedy, ..LifecycleChanged::by(cause, from, to) }.into(),
        OverrideSet { model, thinking: None, verbose, queue_mode: None, interrupt: None }.into(),
        SessionLabelled {
            title: None,
            visibility: Some(engine::Visibility::Deleted),
            erasure: Some(effect(EffectKind::Erase, 1)),
        }
        .into(),
        ErasureEnded { erasure: effect(EffectKind::Erase, 1), bodies: 2, bytes: 60, files: 1, failure: None }.into(),
        TitleAsked { title: effect(EffectKind::Title, 1), reserved: Some(Spent { tokens: 400, ..Spent::default() }) }
            .into(),
        TitleEnded {
            title: effect(EffectKind::Title, 1),
            text: None,
            by: Some("acme/one".to_owned()),
            usage: USAGE,
            cost: 4,
            failure: Some(Failure::new(FailureClass::Overloaded, "busy")),
        }
        .into(),
        DeliveryStarted { delivery, epoch: Epoch(1), joined: vec![] }.into(),
        DeliveryWanted {
            delivery,
            kind: DeliveryKind::Reply,
            to: None,
            text: None,
            has_keys: false,
            call: None,
            taken: 0,
            reopened: None,
            from: 0,
            goes_on: false,
            short: None,
            again: None,
        }
        .into(),
        DeliveryFailed { delivery, why: "connection refused".to_owned(), until: Timestamp(9), uncertain: true }.into(),
        DeliveryEnded { delivery, arrived: None, why: None, dropped: false }.into(),
        ProcessAdopted { process, call: CallId { run: run(), step: 1, index: 0 }, until: Timestamp(9) }.into(),
        ProcessEnding { process, why: ProcessCause::Session }.into(),
        ProcessEnded { process, outcome: CallOutcome::Done, how: "exit status 0".to_owned() }.into(),
        ProcessForgotten { process }.into(),
        FilesChanged {
            call: CallId { run: run(), step: 1, index: 0 },
            path: "src/main.rs".to_owned(),
            before: Some(FileContent { kind: FileKind::File, hash: Some(Hash::of(b"before")) }),
            after: Some(FileContent { kind: FileKind::File, hash: Some(Hash::of(b"after")) }),
            mode: Modes { before: Some(0o644), after: Some(0o644) },
            not_kept: Some(NotKept::PastLimits),
            attribution: Attribution::Outside,
            diff: None,
            linked: None,
        }
        .into(),
        UndoEnded { undo: effect(EffectKind::Undo, 1), left: vec![] }.into(),
    ]
}

/// Progress, in the order in which it is read back.
fn of_streams() -> Vec<Event> {
    let (request, call) = (effect(EffectKind::Request, 9), effect(EffectKind::RunCall, 9));
    let (provider_id, name) = (Some("toolu_9".to_owned()), Some("read".to_owned()));
    vec![
        text_added(9, 0, "caf\u{e9} "),
        ReasoningAdded { effect: request, offset: 6, text: "hm".to_owned() }.into(),
        CallPartAdded { effect: request, offset: 8, index: 0, provider_id, name, arguments: "{\"a".to_owned() }.into(),
        BlockSigned { effect: request, offset: 18, block: BlockOf::Call(0), signature: "sig".to_owned() }.into(),
        OutputAdded { effect: call, offset: 0, text: "line\n".to_owned() }.into(),
    ]
}

pub(crate) fn session_row(script: &Script, unfinished: bool) -> SessionRow {
    SessionRow {
        session: script.session,
        key: script.key.clone(),
        agent: "main".to_owned(),
        branch: script.branch,
        created_at: Timestamp(1),
        last_activity: Timestamp(2),
        lifecycle: LifecycleKind::Active,
        run_state: RunState::Streaming,
        run: Some(run()),
        queued: 2,
        unfinished,
        trouble: Some("it's broken".to_owned()),
        totals: None,
        title: None,
        visibility: engine::Visibility::Listed,
        model_title: None,
        begun_at: None,
    }
}

pub(crate) fn run_row(script: &Script, run: RunId, outcome: Option<Outcome>) -> RunRow {
    RunRow {
        cost: 4,
        tokens: 20,
        calls: 2,
        wall_ms: 7,
        run,
        session: script.session,
        branch: script.branch,
        state: RunState::ToolExec,
        outcome,
        started_at: Timestamp(86_400_000 * 3 + 5),
        ended_at: outcome.map(|_| Timestamp(9)),
        settings: Hash::of(b"settings"),
        model: "acme/m".to_owned(),
        usage: USAGE,
        first_seq: Seq(2),
        error: None,
        stop_reason: None,
        checkpoint: None,
    }
}

pub(crate) fn receipt_row(script: &Script, n: u128, key: Option<&str>) -> ReceiptRow {
    ReceiptRow {
        message: MessageId(id(n)),
        session: script.session,
        key: key.map(str::to_owned),
        body: text("hello").body,
        mode: QueueMode::Followup,
        state: ReceiptState::Queued,
        steer: None,
        run: RunId(id(n)),
        accepted_at: Timestamp(4),
    }
}

pub(crate) fn approval_row(script: &Script, index: u32, allowed: Option<bool>) -> ApprovalRow {
    let call = CallId { run: run(), step: 1, index };
    ApprovalRow { allowed, ..ApprovalRow::open(call, script.session, "may I?".to_owned(), Timestamp(6)) }
}

fn grant() -> ApprovalGrant {
    let id = CallId { run: run(), step: 1, index: 0 };
    let rule = PolicyRule {
        decision: Policy::Allow,
        origin: "a grant".to_owned(),
        answered: false,
        restricts: false,
        grant: Some(id),
        tools: vec!["exec".to_owned()],
        commands: vec!["git status".to_owned()],
        paths: vec![],
        hosts: vec![],
    };
    ApprovalGrant {
        id,
        session: None,
        key: None,
        agent: Some("main".to_owned()),
        rule,
        by: "terminal".to_owned(),
        at: Timestamp(6),
    }
}
