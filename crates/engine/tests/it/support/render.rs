//! Events and effects as one short line each, with short names for ids and the text of bodies in place of their hashes.

use std::collections::BTreeMap;

use engine::{
    Acknowledgement, Delivery, Do, Effect, Flags, LegState, Machine, Message, MessageId, Process, QueueState, Queued,
    Record, Session,
};
use serde_json::Value;

use super::World;

/// A record: `SEQ kind field=value …`; `~` in place of the seq of progress.
pub(crate) fn record(world: &World, record: &Record) -> String {
    let payload: Value = serde_json::from_slice(&record.event.payload()).expect("payloads are JSON");
    let seq = record.seq.map_or_else(|| "~".to_owned(), |seq| seq.to_string());
    let fields = fields(world, &payload);
    format!("{seq} {} {fields}", record.event.kind()).trim_end().to_owned()
}

fn fields(world: &World, value: &Value) -> String {
    let Value::Object(map) = value else { return String::new() };
    // Sorted here: the order of a JSON object depends on features that other crates choose.
    let sorted: BTreeMap<&String, &Value> = map.iter().collect();
    let shown = sorted.into_iter().filter_map(|(key, value)| {
        let text = show(world, key, value)?;
        Some(format!("{key}={text}"))
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn show(world: &World, key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        // The script says it itself, or nothing does.
        Value::String(by) if key == "mode_by" && (by == "message" || by == "built_in") => None,
        // An estimate, whose figures no script is about.
        Value::Number(_) if key == "tokens" => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(|item| show(world, key, item)).collect();
            Some(format!("[{}]", items.join(", ")))
        }
        Value::Object(map) if map.contains_key("hash") && map.contains_key("tokens") => {
            let hash = map["hash"].as_str().and_then(|hash| hash.parse().ok())?;
            let content = world.bodies.get(&hash)?;
            Some(quoted(&String::from_utf8_lossy(&content.bytes)))
        }
        Value::Object(map) => {
            let zero = map.values().all(|value| matches!(value, Value::Null) || value == 0 || value == false);
            (!zero).then(|| format!("{{{}}}", fields(world, value)))
        }
        Value::String(text) => Some(string(key, text)),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
    }
}

fn string(key: &str, text: &str) -> String {
    match key {
        "settings" | "fingerprint" => "…".into(),
        "text" | "message" if !is_id(text) => quoted(text),
        "arguments" | "question" | "reason" | "by" | "remedy" | "name" | "how" => quoted(text),
        "message" | "messages" | "inputs" => short(text).replacen('r', "m", 1),
        _ => short(text),
    }
}

fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(90).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

fn is_id(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

/// An id with its UUID in short: `r1/request/1/1`.
pub(crate) fn short(id: &str) -> String {
    let Some(uuid) = id.get(..36).and_then(|head| uuid::Uuid::try_parse(head).ok()) else { return id.to_owned() };
    let name = match uuid.as_u128() {
        0x5e55 => "s".to_owned(),
        0xb4a9 => "b".to_owned(),
        number => format!("r{number}"),
    };
    format!("{name}{}", &id[36..])
}

/// An action of the pump.
pub(crate) fn todo(todo: &Do<Machine, String>) -> String {
    match todo {
        Do::Start(effect) => start(effect),
        Do::Stop(id) => format!("stop {}", short(&id.to_string())),
        Do::Publish(batch) => match (first_seq(&batch.records), first_seq(batch.records.iter().rev())) {
            (Some(first), Some(last)) => format!("publish {first}..={last}"),
            _ => "publish progress".into(),
        },
        Do::Answer(_, Ok(Acknowledgement::Done)) => "answer done".into(),
        Do::Answer(_, Ok(Acknowledgement::Receipt(receipt))) => {
            let (run, ahead) = (short(&receipt.run.to_string()), receipt.ahead);
            let ahead = ahead.map_or_else(String::new, |ahead| format!(", {ahead} in the queue"));
            let steer = receipt.steer.map(|steer| format!(", steer {:?}", steer.state)).unwrap_or_default();
            let until = receipt.until.map(|until| format!(", until {until}")).unwrap_or_default();
            format!("answer {:?} {run}{ahead}{steer}{until}", receipt.state).to_lowercase()
        }
        Do::Answer(_, Err(refusal)) => format!("answer refused: {}", short_words(&refusal.to_string())),
        Do::Arm(None) => "arm nothing".into(),
        Do::Arm(Some(at)) => format!("arm {at}"),
        Do::Broken(edge) => format!("BROKEN {edge}"),
    }
}

fn first_seq<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<u64> {
    records.into_iter().find_map(|record| record.seq).map(|seq| seq.0)
}

fn short_words(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.strip_suffix(')') {
        Some(id) if is_id(id) => format!("{})", short(id)),
        _ => short(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn start(effect: &Effect) -> String {
    let more = match effect {
        Effect::Reserve { expected, closing, .. } => {
            format!("tokens={}{}", expected.tokens, if *closing { " closing" } else { "" })
        }
        Effect::Compact { compaction_step, items, .. } => {
            format!("rung={compaction_step:?} items={items}").to_lowercase()
        }
        Effect::Request { candidate, thinking, items, .. } => {
            let at = thinking.map(|level| format!(" thinking={level:?}")).unwrap_or_default();
            format!("candidate={candidate} items={items}{at}")
        }
        Effect::CheckCall { call, .. } | Effect::RunCall { call, .. } => format!("call={}", short(&call.to_string())),
        Effect::FindCall { call, started, .. } | Effect::FreezeCall { call, started, .. } => {
            format!("call={} started={}", short(&call.to_string()), short(&started.to_string()))
        }
        Effect::EndCall { call, started, why, .. } => {
            format!("call={} started={} why={why:?}", short(&call.to_string()), short(&started.to_string()))
        }
        Effect::Report { failure_report, .. } => {
            let profile = failure_report.profile.as_deref().unwrap_or("-");
            let probe = if failure_report.probe { " probe" } else { "" };
            format!(
                "{}/{}@{profile} {}{probe}",
                failure_report.provider,
                failure_report.model,
                word(&failure_report.class)
            )
        }
        Effect::Lane { .. } | Effect::Prepare { .. } | Effect::Deliver { .. } => String::new(),
        Effect::Title { candidate, .. } => format!("candidate={candidate}"),
        Effect::Erase { until, .. } => format!("until={until}"),
        Effect::Undo { plan, .. } => format!("plan={}", short(&plan.hash.to_string())),
        Effect::HoldProcess { process, .. } | Effect::EndProcess { process, .. } => {
            format!("process={}", short(&process.to_string()))
        }
    };
    format!("start {} {more}", short(&effect.id().to_string())).trim_end().to_owned()
}

/// A process of the session.
pub(crate) fn process(process: &Process) -> String {
    let (effect, call) = (short(&process.effect.to_string()), short(&process.call.to_string()));
    let (from, until) = (process.started_at, process.until);
    format!("process {} {effect} call={call} {from}..{until} {:?}", process.name(), process.state)
}

/// A delivery of the outbox.
pub(crate) fn delivery(delivery: &Delivery) -> String {
    let why = delivery.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let effect = short(&delivery.effect.to_string());
    let joined = match delivery.joined.len() {
        0 => String::new(),
        more => format!(" +{more}"),
    };
    format!("{effect}{joined} {} to {} {:?}{why}", delivery.kind.name(), delivery.to, delivery.state)
}

/// A waiting leg.
pub(crate) fn queued(queued: &Queued) -> String {
    let (message, mode, leg) = (message(queued.message), word(&queued.mode), word(&queued.leg));
    let gathered = if queued.is_gathered { " gathered" } else { "" };
    format!("waits {message} {leg} of {mode}{gathered}")
}

/// Dropped messages that the next run receives.
pub(crate) fn dropped(world: &World) -> Vec<String> {
    let bodies = world.session().conversation.dropped.iter().filter_map(|body| world.bodies.get(&body.hash));
    bodies.map(|content| format!("dropped {}", quoted(&String::from_utf8_lossy(&content.bytes)))).collect()
}

/// The state of a message.
pub(crate) fn receipt(world: &World, (id, receipt): (&MessageId, &Message)) -> String {
    let shows = |state: Option<QueueState>| state.map(|state| format!(" ({state})")).unwrap_or_default();
    let (own, other) = (shows(world.session().queue_state(*id)), shows(world.session().steer_state(*id)));
    let one = |leg: LegState| format!("{} {}", word(&leg.state), short(&leg.run.to_string()));
    let steer = receipt.steer.map(|steer| format!(", steer {}{other}", one(steer))).unwrap_or_default();
    let main = one(LegState { state: receipt.state, run: receipt.run });
    format!("{} {} {main}{own}{steer}", message(*id), word(&receipt.mode))
}

fn message(id: MessageId) -> String {
    short(&id.to_string()).replacen('r', "m", 1)
}

fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).expect("a word").as_str().unwrap_or_default().to_owned()
}

/// The state in words: lifecycle, run state, set flags.
pub(crate) fn state(session: &Session) -> String {
    let flags = flags(session.flags());
    format!("{} {} [{}]", session.conversation.lifecycle.kind(), session.run_state(), flags)
}

/// The flags that are set, in the order of the requirement.
pub(crate) fn flags(flags: Flags) -> String {
    let all = [
        (flags.is_streaming, "isStreaming"),
        (flags.is_compacting, "isCompacting"),
        (flags.is_waiting, "isWaiting"),
        (flags.is_blocked, "isBlocked"),
        (flags.can_interrupt, "canInterrupt"),
        (flags.has_error, "hasError"),
        (flags.needs_recovery, "needsRecovery"),
    ];
    all.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

/// The conversation, one item a line.
pub(crate) fn transcript(world: &World) -> Vec<String> {
    let items = world.session().conversation.transcript.items().iter();
    items
        .map(|item| format!("item {}", bare(world, &serde_json::to_value(item).expect("items are plain data"))))
        .collect()
}

fn bare(world: &World, value: &Value) -> String {
    let Value::Object(map) = value else { return String::new() };
    map.iter().next().map(|(kind, value)| format!("{kind} {}", fields(world, value))).unwrap_or_default()
}
