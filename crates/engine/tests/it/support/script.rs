//! The language of the script tests: one input a line. `scripts/README.md` lists the inputs.

use std::sync::Arc;

use engine::BodyKind;
use engine::tables::budget::NO_LIMIT;
use engine::{
    Address, Allowance, Attached, BlockOf, Breakpoint, CallId, CallOutcome, Candidate, ChangedFile, Command,
    CompactionResult, Content, CooldownLifted, CooldownSet, Effect, EffectId, EffectKind, Epoch, Erased, Event,
    Failure, FailureClass, Found, Hash, Input, Item, LeftFile, Limit, MessageId, Outgoing, Override, Overrides, Part,
    PlanItem, PlanStatus, Policy, Price, RepairPolicy, Report, Resource, ResumeMode, RunId, Scope, Spent, Timestamp,
    Titles, ToolResult, Usage,
};
use uuid::Uuid;

use super::{World, create, deliveries, render};

/// Executes one line; its results are in `world.lines`.
pub(crate) fn run_line(world: &mut World, line: &str) {
    let (line, fails) = line.strip_prefix("! ").map_or((line, false), |rest| (rest, true));
    let (line, decide) = line.strip_prefix("+ ").map_or((line, true), |rest| (rest, false));
    world.append_fails |= fails;
    let words = Words::new(line);
    if world_line(world, &words) {
        return;
    }
    if words.at(0) == "due" && !words.at(1).is_empty() {
        world.now += words.number(1) as i64;
    }
    if words.at(0) == "open" {
        world.epoch = words.number(1);
    }
    let input = command(world, &words)
        .map(Input::from)
        .or_else(|| report(world, &words).map(Input::from))
        .or_else(|| deliveries::input(world, &words));
    world.offer(input.unwrap_or_else(|| panic!("not a line of a script: {line}")));
    if decide {
        world.settle();
    }
}

/// Executes a script. The world holds the results of its last line.
pub(crate) fn run(script: &str) -> World {
    let mut world = World::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        world.lines.clear();
        run_line(&mut world, line);
    }
    world
}

/// The words of a line; a quoted text is one word, an object in braces is the rest of the line.
pub(super) struct Words {
    words: Vec<String>,
    effect: Option<String>,
}

impl Words {
    fn new(line: &str) -> Self {
        let mut words = vec![];
        let mut rest = line.trim();
        while !rest.is_empty() {
            let (word, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').expect("a quote is closed"),
                None if rest.starts_with('{') => (rest, ""),
                None => rest.split_once(' ').unwrap_or((rest, "")),
            };
            words.push(word.to_owned());
            rest = after.trim_start();
        }
        let effect = words.last().and_then(|word| word.strip_prefix('@')).map(str::to_owned);
        words.truncate(words.len() - usize::from(effect.is_some()));
        Self { words, effect }
    }

    pub(super) fn at(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    pub(super) fn number(&self, at: usize) -> u64 {
        self.at(at).trim_start_matches('+').parse().expect("a number")
    }

    pub(super) fn option(&self, name: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Lines that are about the world, not inputs.
fn world_line(world: &mut World, words: &Words) -> bool {
    match words.at(0) {
        "set" => set(world, words.at(1), words.at(2)),
        "limit" => {
            let budget = &mut world.settings.budget;
            let of = match words.at(1) {
                "run" => &mut budget.run,
                "session" => &mut budget.session,
                "agent" => &mut budget.agent,
                "day" => &mut budget.day,
                "home" => &mut budget.home,
                other => panic!("no scope {other}"),
            };
            *of = allowance(words).or(*of);
        }
        "spent" => {
            let session = world.session();
            let amounts = |spent: &Spent| {
                let Spent { tokens, cost, calls, wall_ms, bytes } = spent;
                format!("{tokens} tokens, {cost} micro-dollars, {calls} calls, {wall_ms} ms, {bytes} bytes")
            };
            let run =
                session.run().map(|run| format!("run: {} ({:?})", amounts(&run.budget.spent), run.budget.wrap_up));
            let session = format!("runs before: {}", amounts(&session.account.spent));
            world.lines.extend(run);
            world.lines.push(session);
        }
        "begin" => quietly(world, &["create", "open 1", "message \"hello\"", "lane", "prepared"]),
        "finish" => quietly(world, &["say text \"Done.\"", "end", "state"]),
        "round" => round(world, words),
        "wait" => world.now += words.number(1) as i64,
        "slow" => world.append_ms = words.number(1) as i64,
        "crash" => {
            world.now += if words.at(1).is_empty() { 0 } else { words.number(1) as i64 };
            world.crash_and_open();
        }
        "state" => world.lines.push(render::state(world.session())),
        "clock" => {
            let clock = world.session().run().expect("a run").clock;
            world.lines.push(format!("{} ms spent, running since {:?}", clock.spent_ms, clock.since.map(|at| at.0)));
        }
        "processes" => {
            let processes: Vec<String> = world.session().account.processes.iter().map(render::process).collect();
            world.lines.extend(processes);
        }
        "outbox" => {
            let outbox: Vec<String> = world.session().account.outbox.deliveries.iter().map(render::delivery).collect();
            world.lines.extend(outbox);
        }
        "queue" => {
            let queue: Vec<String> = world.session().conversation.queue.iter().map(render::queued).collect();
            world.lines.extend(queue);
            world.lines.extend(render::dropped(world));
        }
        "receipts" => {
            let receipts: Vec<String> =
                world.session().account.messages.iter().map(|one| render::receipt(world, one)).collect();
            world.lines.extend(receipts);
        }
        "transcript" => {
            let items = render::transcript(world);
            world.lines.extend(items);
        }
        _ => return false,
    }
    true
}

fn candidate(text: &str) -> Candidate {
    let (text, thinking) = text.split_once('/').map_or((text, None), |(text, level)| (text, Some(level)));
    let (model, profile) = text.split_once('@').map_or((text, None), |(model, profile)| (model, Some(profile)));
    let thinking = thinking.map(|level| serde_json::from_value(level.into()).expect("a level"));
    let (profile, can_refresh) = profile.map_or((None, false), |name| {
        let known = name.strip_suffix('+');
        (Some(known.unwrap_or(name).to_owned()), known.is_some())
    });
    let one = crate::support::settings().candidates.remove(0);
    Candidate { model: model.to_owned(), profile, thinking, can_refresh, ..one }
}

/// Executes lines that every script has: only the results of the last one are shown.
fn quietly(world: &mut World, lines: &[&str]) {
    for line in lines {
        world.lines.clear();
        run_line(world, line);
    }
    if lines.last() == Some(&"prepared") {
        world.lines.clear();
    }
}

fn set(world: &mut World, key: &str, value: &str) {
    let number = || value.parse().expect("a number");
    let limits = &mut world.settings.limits;
    match key {
        // `two@second/high`: the model `two` with the profile `second` at the level `high`; `two@second+` can be refreshed.
        "chain" => world.settings.candidates = value.split_whitespace().map(candidate).collect(),
        "window" => world.settings.candidates[0].context_window = number(),
        "keep" => world.settings.compaction.keep = number(),
        "flush" => world.settings.compaction.flush_lead = Some(number()),
        "reserve" => world.settings.compaction.reserve = number(),
        "auto" => world.settings.compaction.auto = value == "on",
        "summary" => limits.compact_ms = number(),
        "titles" => world.settings.titles = Some(Titles { by: (value != "run").then(|| candidate(value)) }),
        "resume" => {
            world.settings.resume = if value == "continue" { ResumeMode::Continue } else { ResumeMode::Restart };
        }
        "stop_before" => {
            let group = |group: &str| group.split('+').map(str::to_owned).collect();
            world.settings.stop_before = value.split_whitespace().map(group).collect();
        }
        "recover" => world.settings.recover = word(value).expect("a way"),
        "deadline" => limits.deadline_ms = Some(number()),
        "stall" => limits.stall_ms = Some(number()),
        "first_byte" => limits.first_byte_timeout_ms = number(),
        "idle_timeout" => limits.idle_timeout_ms = number(),
        "call" => limits.tool_timeout_ms = number(),
        "max_wait" => limits.max_wait_ms = number(),
        "wrap_up" => world.settings.budget.wrap_up = number() as u32,
        "reserve_calls" => world.settings.budget.reserves.run.calls = number() as u32,
        "reserve_tokens" => world.settings.budget.reserves.run.tokens = number() as u32,
        "at_limit" => world.settings.budget.at_limit = word(value).expect("a way"),
        // Of each token, micro-dollars.
        "price" => {
            let of = number() * 1_000_000;
            world.settings.candidates[0].price = Some(Price { input: of, cached: of, cache_written: of, output: of });
        }
        "facts" => value.clone_into(&mut world.settings.facts),
        "history_turns" => world.settings.history_turns = Some(number() as u32),
        "loop_warn" => limits.loop_warn_after = number() as u32,
        "loop_stop" => limits.loop_stop_after = number() as u32,
        "retries" => limits.retries = number() as u32,
        "continuations" => limits.continuations = number() as u32,
        "poison" => limits.poison_after = number() as u32,
        "asks" => {
            let spec = engine::ToolSpec {
                class: engine::ToolClass::ReadOnly,
                name: value.to_owned(),
                ..world.settings.tools[0].clone()
            };
            world.settings.tools = world.settings.tools.iter().cloned().chain([spec]).collect();
        }
        "unattended" => world.settings.approvals.unattended = word(value).expect("a way"),
        "expires" => world.settings.approvals.expires_ms = Some(number()),
        "on_expiry" => world.settings.approvals.on_expiry = word(value).expect("a way"),
        "route" => world.settings.reply.routes.push(deliveries::route(value)),
        "random" => world.random = number(),
        "queue_mode" => world.queue.mode = word(value).expect("a mode"),
        "debounce" => world.queue.debounce_ms = number(),
        "cap" => world.queue.cap = number() as u32,
        "drop" => world.queue.drop = word(value).expect("a policy"),
        "stale_before" => world.queue.stale_before = Some(Timestamp(number() as i64)),
        "cut" => world.queue.cut = value == "on",
        "interrupt" => world.queue.interrupt = word(value).expect("a way"),
        "message_interrupt" => world.queue.message_interrupt = word(value),
        _ => panic!("no setting {key}"),
    }
}

/// `… SCOPE RESOURCE AMOUNT`.
fn allowance(words: &Words) -> Allowance {
    let amount = Some(if words.at(3) == "none" { NO_LIMIT } else { words.number(3) });
    let nothing = Allowance::default();
    match words.at(2) {
        "tokens" => Allowance { tokens: amount, ..nothing },
        "cost" => Allowance { cost: amount, ..nothing },
        "calls" => Allowance { calls: amount, ..nothing },
        "wall" => Allowance { wall_ms: amount, ..nothing },
        "bytes" => Allowance { bytes: amount, ..nothing },
        other => panic!("no resource {other}"),
    }
}

/// A call, and its result.
fn round(world: &mut World, words: &Words) {
    let (call, ended) =
        (format!("say call 0 ls {}", words.at(3)), format!("ended 0 {} \"{}\"", words.at(1), words.at(2)));
    quietly(world, &[&call, "end", "checked 0 allow", &ended]);
}

fn copy_act(word: &str) -> Option<engine::CopyAct> {
    match word {
        "apply" => Some(engine::CopyAct::Apply),
        "discard" => Some(engine::CopyAct::Discard),
        _ => None,
    }
}

fn command(world: &mut World, words: &Words) -> Option<Command> {
    let id = |at: usize| MessageId(Uuid::from_u128(u128::from(words.number(at))));
    Some(match words.at(0) {
        "create" => create(),
        "message" => message(world, words),
        "cancel" => Command::Cancel { message: id(1), leg: word(words.at(2)) },
        "clear" => Command::Clear,
        "reset" => Command::Reset,
        "title" => Command::Label { title: Some(Content::text(BodyKind::Message, words.at(1))), archived: None },
        "archive" => Command::Label { title: None, archived: Some(words.at(1) != "undo") },
        "delete" => Command::Delete,
        "break" => Command::Break {
            run: RunId::from(id(1)),
            at: match words.at(2) {
                "before" => Some(Breakpoint::BeforeTool(words.at(3).to_owned())),
                "on" => word(words.at(3)).map(Breakpoint::OnState),
                _ => None,
            },
        },
        "abort" => {
            let run = (!words.at(1).is_empty()).then(|| RunId::from(id(1)));
            Command::Abort { run }
        }
        "pause" => Command::Pause { run: None, freeze: words.at(1) == "freeze" },
        "resume" => Command::Resume { run: None, drop: words.at(1) == "drop" },
        "answer" => {
            let call = call_id(world, words.number(1));
            let fingerprint = if words.at(3) == "stale" { Hash::of(b"other") } else { fingerprint(call) };
            let edited = (words.at(2) == "edit").then(|| crate::support::edited(words.at(3)));
            let reason = Some(words.at(3)).filter(|reason| !reason.is_empty() && *reason != "stale");
            let decision = match words.at(2) {
                "no" => engine::Decision::Deny { reason: reason.map(str::to_owned) },
                "with" => engine::Decision::Answered { text: Content::text(BodyKind::Output, words.at(3)) },
                "always" => engine::Decision::Always { grant: call },
                _ => engine::Decision::Once { edited },
            };
            Command::Answer { call, fingerprint, decision, by: "the user".into() }
        }
        "refuse" => Command::RefuseAnswer {
            call: call_id(world, words.number(1)),
            by: "a command".into(),
            why: engine::AnswerRefusal::InCall,
        },
        "undo-files" => Command::Undo {
            run: RunId::from(id(1)),
            redo: words.at(2) == "redo",
            copy: copy_act(words.at(2)),
            plan: Content::text(BodyKind::Arguments, "the plan"),
        },
        "compact" => {
            world.messages += 1;
            let message = MessageId(Uuid::from_u128(u128::from(world.messages)));
            Command::Compact { message, focus: Content::text(BodyKind::Message, words.at(1)), queue: world.queue }
        }
        "budget" => Command::Budget { scope: word(words.at(1)).expect("a scope"), change: allowance(words) },
        "undo" => undo(world),
        "rewind" => Command::Rewind,
        "fork" => Command::Fork,
        "override" => Command::Override(match words.at(1) {
            "thinking" => Override::Thinking(word(words.at(2))),
            "verbose" => Override::Verbose(word(words.at(2))),
            "queue" => Override::QueueMode(word(words.at(2))),
            "interrupt" => Override::Interrupt(word(words.at(2))),
            model => Override::Model(Some(model.to_owned())),
        }),
        "recover" => Command::Recover { force: words.at(1) == "force" },
        "terminate" => Command::Terminate,
        "end-idle" => Command::TerminateIdle { before: Timestamp(words.at(1).parse().expect("a time")) },
        _ => return None,
    })
}

/// A value by its name on the wire; none for an empty word.
pub(super) fn word<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    let value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
    (!text.is_empty()).then(|| serde_json::from_value(value).expect("a word"))
}

/// The items that the last summary replaced, from the state before it.
pub(crate) fn undo(world: &World) -> Command {
    let compacted = world.journal.iter().enumerate().rev().find_map(|(at, record)| match &record.event {
        Event::Compacted(e) => Some((at, e.compaction, e.kept_from)),
        _ => None,
    });
    let none = EffectId { run: RunId(Uuid::nil()), kind: EffectKind::Compact, ordinal: 1, try_no: 1 };
    let Some((at, compaction, kept_from)) = compacted else {
        return Command::Uncompact { compaction: none, restored: vec![] };
    };
    let before = world.recovered(&world.journal[..at]);
    let restored =
        before.session().map(|session| session.conversation.transcript.before(kept_from)).unwrap_or_default();
    Command::Uncompact { compaction, restored }
}

/// `ROUTE/TEXT` with `_` for blanks; `user` = to whoever follows the session.
fn sends(text: &str) -> Outgoing {
    let (route, text) = text.split_once('/').expect("ROUTE/TEXT");
    let text = Content::text(BodyKind::Message, &text.replace('_', " "));
    Outgoing { route: (route != "user").then(|| route.to_owned()), text }
}

/// The result of a compaction: a summary, or all long results truncated.
fn compacted(world: &World, words: &Words) -> CompactionResult {
    let usage = Usage { input: 7, output: 3, ..Usage::default() };
    if words.at(1) == "results" {
        let items = world.session().conversation.transcript.items().iter();
        let cut = |(call, _)| (call, Content::text(BodyKind::Output, "cut"));
        return CompactionResult::Results(items.filter_map(Item::long_result).map(cut).collect());
    }
    let text = Content::text(BodyKind::Message, &sized(words, 2));
    CompactionResult::Summary { text, by: words.option("by").map(str::to_owned), usage }
}

/// The text of the line, or one of this size.
fn sized(words: &Words, at: usize) -> String {
    match words.option("size") {
        Some(size) => "x".repeat(size.parse().expect("a number")),
        None => words.at(at).to_owned(),
    }
}

fn message(world: &mut World, words: &Words) -> Command {
    let number = words.option("id").map(|id| id.parse().expect("a number"));
    let number = number.unwrap_or_else(|| {
        world.messages += 1;
        world.messages
    });
    let text = sized(words, 1);
    Command::Message {
        message: MessageId(Uuid::from_u128(u128::from(number))),
        content: Content::text(BodyKind::Message, &text),
        mode: words.option("mode").and_then(word),
        queue: world.queue,
        key: words.option("key").map(str::to_owned),
        overrides: Overrides::default(),
        attachments: vec![],
        options: engine::SenderOptions {
            only_if: words.option("only_if").and_then(word),
            reply_to: words
                .option("to")
                .map(|channel| Box::new(Address { channel: channel.to_owned(), ..Address::default() })),
            ..engine::SenderOptions::default()
        },
    }
}

fn report(world: &World, words: &Words) -> Option<Report> {
    let effect = |kinds: &[EffectKind]| find_effect(world, words, kinds, None);
    Some(match words.at(0) {
        "open" => Report::Opened {
            epoch: Epoch(words.number(1)),
            cooling: cooling(words.option("cooling").unwrap_or_default()),
        },
        "open-to-wait" => Report::OpenedToWait { epoch: Epoch(words.number(1)) },
        "budget-shared" => Report::BudgetShared,
        "lane-checked" => Report::LaneChecked { is_free: words.at(1) == "free" },
        "cooldown-set" => Report::CooldownSet { cooling: cooling(words.at(1)) },
        "cooldown-lifted" => Report::CooldownLifted { cleared: lifted(words.at(1)) },
        "closing" => Report::Closing,
        "due" => Report::Due,
        "store-full" => Report::StoreFull,
        "escalated" => {
            let repair = if words.at(2) == "human" { RepairPolicy::ByHuman } else { RepairPolicy::AsConfigured };
            Report::Escalated { failure: Failure::new(FailureClass::Unknown, words.at(1)), repair }
        }
        "lane" => lane(world, words, effect(&[EffectKind::Lane])),
        "prepared" => Report::Prepared {
            effect: effect(&[EffectKind::Prepare]),
            prompt: Content::text(BodyKind::Prompt, "You are Limulus."),
        },
        "reserved" => {
            let near = (words.at(1) == "near").then_some(Limit { used: 850, ..DAY });
            Report::Reserved { effect: effect(&[EffectKind::Reserve]), near }
        }
        "denied" => {
            let (limit, until) = match words.at(1) {
                "memory" => (MEMORY, None),
                "home" => (Limit { scope: Scope::Home, ..DAY }, None),
                _ => (DAY, Some(Timestamp(86_400_000))),
            };
            Report::Denied { effect: effect(&[EffectKind::Reserve]), limit, until }
        }
        "reported" => Report::Reported { effect: effect(&[EffectKind::Report]) },
        "first-byte" => Report::RequestOpened { effect: effect(&[EffectKind::Request]) },
        "say" => Report::Streamed { effect: effect(&[EffectKind::Request]), part: part(words) },
        "end" => {
            let input = words.option("input").map_or(10, |input| input.parse().expect("a number"));
            let usage = Usage { input, output: 5, ..Usage::default() };
            let stop_reason = words.option("stop").map(|stop| serde_json::from_value(stop.into()).expect("a reason"));
            let schema_mismatch = words.option("schema_mismatch").map(str::to_owned);
            Report::RequestEnded { effect: effect(&[EffectKind::Request]), usage, stop_reason, schema_mismatch }
        }
        "fail" => Report::RequestFailed {
            effect: effect(&[EffectKind::Request, EffectKind::Prepare, EffectKind::Compact]),
            failure: of_candidate(world, failure(words, 1)),
        },
        "compacted" => Report::Compacted { effect: effect(&[EffectKind::Compact]), made: compacted(world, words) },
        "process-ended" => Report::ProcessEnded {
            effect: effect(&[EffectKind::HoldProcess, EffectKind::EndProcess]),
            outcome: serde_json::from_value(words.at(1).into()).expect("an outcome"),
            how: words.at(2).to_owned(),
            changes: words
                .option("changed")
                .into_iter()
                .map(|path| ChangedFile { path: path.to_owned(), ..ChangedFile::default() })
                .collect(),
        },
        "undone" => Report::Undone { effect: effect(&[EffectKind::Undo]), left: left(words) },
        "titled" => titled(effect(&[EffectKind::Title]), words),
        "erased" => Report::Erased { effect: effect(&[EffectKind::Erase]), result: erased(words) },
        _ => return call_report(world, words),
    })
}

fn titled(effect: EffectId, words: &Words) -> Report {
    let title = match words.at(1) {
        "fail" => Err(failure(words, 2)),
        text => Ok(Content::text(BodyKind::Message, text)),
    };
    let by = words.option("by").unwrap_or("acme/one").to_owned();
    Report::Titled { effect, title, by, usage: Usage { input: 7, output: 3, ..Usage::default() } }
}

fn left(words: &Words) -> Vec<LeftFile> {
    let left = words.option("left").into_iter();
    left.map(|path| LeftFile { path: path.to_owned(), why: "changed since".into() }).collect()
}

fn erased(words: &Words) -> Result<Erased, String> {
    words.option("failed").map_or(Ok(Erased { bodies: 2, bytes: 60, files: 0 }), |why| Err(why.to_owned()))
}

fn lane(world: &World, words: &Words, effect: EffectId) -> Report {
    let settings = Arc::new(world.settings.clone());
    match words.at(1) {
        "refused" => Report::LaneRefused { effect, settings, failure: failure(words, 2) },
        _ => Report::LaneEntered { effect, settings, cooling: cooling(words.at(1)) },
    }
}

/// The candidates in cooldown: `CANDIDATE@UNTIL@CLASS …`.
fn cooling(words: &str) -> Vec<CooldownSet> {
    let set = |word: &str| {
        let parts: Vec<&str> = word.split('@').collect();
        let [candidate, until, class] = parts[..] else { panic!("not CANDIDATE@UNTIL@CLASS: {word}") };
        CooldownSet {
            candidate: candidate.parse().expect("a number"),
            until: Timestamp(until.parse().expect("a time")),
            class: serde_json::from_value(class.into()).expect("a class of failure"),
        }
    };
    words.split_whitespace().map(set).collect()
}

/// The candidates whose cooldown a user has cleared: `CANDIDATE@TIME …`.
fn lifted(words: &str) -> Vec<CooldownLifted> {
    let lifted = |word: &str| {
        let (candidate, at) = word.split_once('@').expect("CANDIDATE@TIME");
        CooldownLifted { candidate: candidate.parse().expect("a number"), at: Timestamp(at.parse().expect("a time")) }
    };
    words.split_whitespace().map(lifted).collect()
}

fn part(words: &Words) -> Part {
    match words.at(1) {
        "text" => Part::Text(sized(words, 2)),
        "reasoning" => Part::Reasoning(words.at(2).to_owned()),
        "image" => Part::Image(Attached::new("image/png", words.at(2), words.at(2).as_bytes())),
        "signature" => {
            let block = match words.at(2) {
                "reasoning" => BlockOf::Reasoning,
                "text" => BlockOf::Text,
                index => BlockOf::Call(index.parse().expect("reasoning, text or a call's index")),
            };
            Part::Signature { block, signature: words.at(3).to_owned() }
        }
        "call" | "same" => Part::Call {
            index: words.number(2) as u32,
            provider_id: Some(if words.at(1) == "same" { "same".into() } else { format!("p{}", words.number(2)) }),
            name: Some(words.at(3).to_owned()),
            arguments: words.at(4).to_owned(),
        },
        "more" => Part::Call {
            index: words.number(2) as u32,
            provider_id: None,
            name: None,
            arguments: words.at(3).to_owned(),
        },
        other => panic!("a model does not say {other}"),
    }
}

/// Adds the failed candidate, as a provider's response does.
fn of_candidate(world: &World, failure: Failure) -> Failure {
    let at = world.session().run().map_or(0, |run| run.counts.candidates.candidate as usize);
    match world.settings.candidates.get(at).filter(|_| world.settings.candidates.len() > 1) {
        Some(Candidate { provider, model, profile, .. }) => Failure {
            provider: Some(provider.clone()),
            model: Some(model.clone()),
            profile: profile.clone(),
            ..failure
        },
        None => failure,
    }
}

fn failure(words: &Words, at: usize) -> Failure {
    let class = serde_json::from_value(words.at(at).into()).expect("a class of failure");
    let retry_after_ms = words.option("retry_after").map(|ms| ms.parse().expect("a number"));
    Failure { retry_after_ms, ..Failure::new(class, words.at(at + 1)) }
}

fn call_report(world: &World, words: &Words) -> Option<Report> {
    let effect = |kinds: &[EffectKind]| find_effect(world, words, kinds, Some(words.number(1) as u32));
    let output = |at: usize| Content::text(BodyKind::Output, &sized(words, at));
    let outcome = |at: usize| serde_json::from_value(words.at(at).into()).expect("an outcome");
    Some(match words.at(0) {
        "checked" => {
            let asks = words.at(2) == "question";
            let question = asks.then(|| engine::UserQuestion {
                text: Some(words.at(4)).filter(|text| !text.is_empty()).unwrap_or("which?").to_owned(),
                takes: serde_json::from_value(words.at(3).into()).expect("the form of an answer"),
            });
            let decision: Policy =
                if asks { Policy::Allow } else { serde_json::from_value(words.at(2).into()).expect("a policy") };
            let reason = Some(words.at(3)).filter(|why| !asks && !why.is_empty() && !why.starts_with("timeout="));
            let reason = reason.map(str::to_owned);
            let fingerprint = fingerprint(call_id(world, words.number(1)));
            let effect = effect(&[EffectKind::CheckCall]);
            let timeout_ms = words.option("timeout").map(|ms| ms.parse().expect("a number"));
            Report::CallChecked {
                effect,
                decision,
                fingerprint,
                evidence: None,
                reason,
                timeout_ms,
                grant: None,
                question,
            }
        }
        "output" => {
            let offset = words.option("at").map_or_else(
                || call(world, words.number(1)).map_or(0, |call| call.output_bytes),
                |at| at.parse().expect("a number"),
            );
            Report::CallOutput { effect: effect(&[EffectKind::RunCall]), offset, text: words.at(2).to_owned() }
        }
        "ended" => Report::CallEnded {
            effect: effect(&[EffectKind::RunCall, EffectKind::EndCall]),
            given: match words.at(2) {
                "background" => in_background(output(3)),
                _ => ToolResult {
                    whole: words.option("whole").map(|whole| Content::text(BodyKind::Output, whole)),
                    plan: words.option("plan").map(plan),
                    sends: words.option("sends").map(sends),
                    ..ToolResult::new(outcome(2), output(3))
                },
            },
        },
        "found" => {
            let found: Found = serde_json::from_value(words.at(2).into()).expect("a finding");
            let ended = match found {
                Found::Ended => Some(ToolResult::new(CallOutcome::Done, output(3))),
                Found::Running if !words.at(3).is_empty() => Some(in_background(output(3))),
                _ => None,
            };
            Report::CallFound { effect: effect(&[EffectKind::FindCall]), found, ended }
        }
        _ => return None,
    })
}

/// A plan: its steps, each with a mark of its status before it.
fn plan(steps: &str) -> Vec<PlanItem> {
    let item = |step: &str| {
        let (mark, step) = step.split_at(1);
        let status = match mark {
            "x" => PlanStatus::Done,
            ">" => PlanStatus::InProgress,
            _ => PlanStatus::Pending,
        };
        PlanItem { step: step.to_owned(), status }
    };
    steps.split('/').filter(|step| !step.is_empty()).map(item).collect()
}

fn in_background(output: Content) -> ToolResult {
    ToolResult { in_background: true, ..ToolResult::new(CallOutcome::Done, output) }
}

fn call(world: &World, index: u64) -> Option<&engine::Call> {
    world.session().run()?.step.calls.iter().find(|call| u64::from(call.id.index) == index)
}

/// The call of this index in the current step; without one, in the first step of the last run.
fn call_id(world: &World, index: u64) -> CallId {
    call(world, index).map_or_else(
        || CallId { run: MessageId(Uuid::from_u128(u128::from(world.messages))).into(), step: 1, index: index as u32 },
        |call| call.id,
    )
}

/// The fingerprint that the fixture binds an approval to.
pub(crate) fn fingerprint(call: CallId) -> Hash {
    Hash::of(call.to_string().as_bytes())
}

/// The limits of shared budgets in scripts.
const MEMORY: Limit = Limit {
    scope: Scope::Process,
    of: Resource::Memory,
    used: 900 << 20,
    reserved: 0,
    kept: None,
    limit: 800 << 20,
    needs: 0,
};
const DAY: Limit =
    Limit { scope: Scope::Day, of: Resource::Tokens, used: 960, reserved: 50, kept: None, limit: 1_000, needs: 0 };

/// The effect of a line: the named one, else the running one, else the last one that ran.
pub(super) fn find_effect(world: &World, words: &Words, kinds: &[EffectKind], index: Option<u32>) -> EffectId {
    if let Some(name) = &words.effect {
        let (run, rest) = name.split_once('/').expect("an effect id");
        let run: u128 = run.trim_start_matches('r').parse().expect("a run");
        return format!("{}/{rest}", Uuid::from_u128(run)).parse().expect("an effect id");
    }
    let fits = |effect: &&Effect| kinds.contains(&effect.id().kind) && (index.is_none() || call_of(effect) == index);
    let running = world.running.values().find(fits);
    let last = || world.started.iter().rev().map(|(effect, _)| effect).find(fits);
    running.or_else(last).unwrap_or_else(|| panic!("no effect {kinds:?} ever ran")).id()
}

fn call_of(effect: &Effect) -> Option<u32> {
    match effect {
        Effect::CheckCall { call, .. }
        | Effect::RunCall { call, .. }
        | Effect::FindCall { call, .. }
        | Effect::EndCall { call, .. } => Some(call.index),
        Effect::Lane { .. }
        | Effect::Prepare { .. }
        | Effect::Reserve { .. }
        | Effect::Request { .. }
        | Effect::Compact { .. }
        | Effect::Title { .. }
        | Effect::FreezeCall { .. }
        | Effect::Report { .. }
        | Effect::HoldProcess { .. }
        | Effect::EndProcess { .. }
        | Effect::Deliver { .. }
        | Effect::Undo { .. }
        | Effect::Erase { .. } => None,
    }
}
