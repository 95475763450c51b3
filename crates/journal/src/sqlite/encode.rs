//! Encodes an append on the writer's thread, before its transaction begins: payloads with their hashes, compressed, bodies
//! likewise, rows as JSON. The thread of the actors has more to do than the writer's.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use engine::{
    BodyKind, EffectId, Event, Hash, OutputAdded, ReasoningAdded, Record, TextAdded, UnreadableEvent, VERSION, Views,
};
use serde::Serialize;

use super::dictionaries::{self, Json};
use super::rows;
use crate::Append;

/// Initial capacity for the row of a view, bytes: nearly all rows fit.
const ROW_BYTES: usize = 512;

/// How many compressed settings and prompts are cached: hardly more are in use at once.
const AGAIN: usize = 8;

thread_local! {
    /// Every run names the same few settings and prompts. The oldest entry is evicted first.
    static PACKED: RefCell<VecDeque<(Hash, Content)>> = const { RefCell::new(VecDeque::new()) };
}

/// An append, ready to be bound.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) append: Append,
    /// The bytes of each record.
    pub(super) records: Vec<Bytes>,
    pub(super) bodies: Vec<Packed>,
    pub(super) views: ViewJson,
}

/// The bytes of one record.
#[derive(Debug)]
pub(super) enum Bytes {
    Entry {
        payload: Json,
        hash: Hash,
    },
    Progress {
        effect: EffectId,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Progress that a later entry of the same append seals: it is never stored by itself.
    Sealed,
}

/// A body as it is stored.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) hash: Hash,
    pub(super) kind: BodyKind,
    pub(super) size: u64,
    pub(super) content: Content,
}

/// The bytes of a stored body.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Raw(Arc<[u8]>),
    Zstd(Arc<[u8]>),
}

/// The `row` columns, in the order of the batch's rows.
#[derive(Debug)]
pub(super) struct ViewJson {
    pub(super) session: Option<String>,
    pub(super) runs: Vec<Json>,
    pub(super) receipts: Vec<Json>,
    pub(super) approvals: Vec<String>,
}

impl Encoded {
    pub(super) fn new(append: Append) -> Self {
        let batch = &append.batch;
        let records = records(&batch.records);
        let bodies = batch.bodies.iter().map(Packed::of).collect();
        let views = ViewJson::of(&batch.views);
        Self { append, records, bodies, views }
    }
}

/// Encodes each record. It goes from the last to the first, so that it knows which progress is sealed.
fn records(records: &[Record]) -> Vec<Bytes> {
    let mut sealed = Vec::new();
    let bytes = records.iter().rev().map(|Record { event, .. }| {
        sealed.extend(event.seals());
        match event.progress() {
            Some((effect, _)) if sealed.contains(&effect) => Bytes::Sealed,
            Some((effect, offset)) => Bytes::Progress { effect, offset, bytes: progress_bytes(event) },
            None => Bytes::of(event),
        }
    });
    let mut bytes: Vec<_> = bytes.collect();
    bytes.reverse();
    bytes
}

impl ViewJson {
    pub(super) fn of(views: &Views) -> Self {
        Self {
            session: views.session.as_ref().map(json),
            runs: views.runs.iter().map(|row| rows::columns_of_run(row).pack(json(row))).collect(),
            receipts: views.receipts.iter().map(|row| rows::columns_of_receipt(row).pack(json(row))).collect(),
            approvals: views.approvals.iter().map(json).collect(),
        }
    }
}

pub(super) fn json(row: &impl Serialize) -> String {
    let mut bytes = Vec::with_capacity(ROW_BYTES);
    serde_json::to_writer(&mut bytes, row).expect("rows of views are plain data");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

impl Bytes {
    fn of(event: &Event) -> Self {
        let payload = String::from_utf8(event.payload()).expect("JSON is UTF-8");
        Self::Entry { hash: Hash::of(payload.as_bytes()), payload: Json::of(payload) }
    }
}

impl Packed {
    fn of(content: &engine::Content) -> Self {
        let engine::Content { body, bytes } = content;
        let content = match body.kind {
            BodyKind::Settings | BodyKind::Prompt => Content::again(body.hash, bytes),
            BodyKind::Message
            | BodyKind::Reasoning
            | BodyKind::Arguments
            | BodyKind::Output
            | BodyKind::Blocks
            | BodyKind::File => Content::of(bytes),
        };
        Self { hash: body.hash, kind: body.kind, size: bytes.len() as u64, content }
    }
}

impl Content {
    fn of(bytes: &Arc<[u8]>) -> Self {
        match dictionaries::pack_body(bytes) {
            Some(packed) => Self::Zstd(packed.into()),
            None => Self::Raw(Arc::clone(bytes)),
        }
    }

    /// Encodes a body that many runs share: it is compressed once.
    fn again(hash: Hash, bytes: &Arc<[u8]>) -> Self {
        PACKED.with_borrow_mut(|packed| {
            if let Some((_, content)) = packed.iter().find(|(known, _)| *known == hash) {
                return content.clone();
            }
            let content = Self::of(bytes);
            packed.truncate(AGAIN - 1);
            packed.push_front((hash, content.clone()));
            content
        })
    }

    pub(super) fn encoding(&self) -> &'static str {
        match self {
            Self::Raw(_) => "raw",
            Self::Zstd(_) => "zstd",
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Raw(bytes) | Self::Zstd(bytes) => bytes,
        }
    }
}

/// The bytes of progress: the plain text, so that the rows of an effect concatenate to its body. A part of a call is
/// stored as its whole payload, because it has more fields.
fn progress_bytes(event: &Event) -> Vec<u8> {
    match event {
        Event::TextAdded(TextAdded { text, .. })
        | Event::ReasoningAdded(ReasoningAdded { text, .. })
        | Event::OutputAdded(OutputAdded { text, .. }) => text.as_bytes().to_vec(),
        _ => event.payload(),
    }
}

/// Decodes a row of progress; the inverse of [`Bytes`].
pub(super) fn progress_event(
    kind: &str,
    effect: EffectId,
    offset: u64,
    bytes: &[u8],
) -> Result<Event, UnreadableEvent> {
    let unreadable = |error: String| UnreadableEvent::Payload { kind: kind.to_owned(), error };
    let text = || std::str::from_utf8(bytes).map(str::to_owned).map_err(|error| unreadable(error.to_string()));
    match kind {
        "text_added" => Ok(TextAdded { effect, offset, text: text()? }.into()),
        "reasoning_added" => Ok(ReasoningAdded { effect, offset, text: text()? }.into()),
        "output_added" => Ok(OutputAdded { effect, offset, text: text()? }.into()),
        "call_part_added" | "block_signed" => match Event::decode(kind, VERSION, bytes)? {
            event if event.progress() == Some((effect, offset)) => Ok(event),
            _ => Err(unreadable("it names another effect or offset than its row".to_owned())),
        },
        _ => Err(UnreadableEvent::Kind { kind: kind.to_owned() }),
    }
}
