//! The context of a session as its model receives it, part by part, and the items that its last summary replaces.

use std::collections::BTreeMap;

use engine::{
    Body, EffectId, Event, Item, ItemAt, Seq, Session, SessionLabelled, Settings, Visibility, Window, text_tokens,
};
use journal::{Read, StoredLineage};
use protocol::show::{ContextKind, ContextPart, ContextStory};
use runtime::prompt;

use super::fold::{fold, walk};
use super::{Texts, lookup};
use crate::error::Error;

/// The items that the last summary of a session replaces.
pub struct Dropped {
    /// The compaction that made it.
    pub compaction: EffectId,
    /// The items, with their entries.
    pub items: Vec<ItemAt>,
}

/// The items that the current summary replaces; `None` without a summary, or if the entries before it were removed.
pub fn dropped(line: &StoredLineage) -> Result<Option<Dropped>, Error> {
    let mut all = BTreeMap::new();
    let session = walk(
        line,
        |session, entry| match &entry.event {
            Event::Compacted(e) => {
                let items = session.conversation.transcript.before(e.kept_from);
                all.insert(e.compaction, items);
            }
            Event::Reset(_) | Event::SessionLabelled(SessionLabelled { visibility: Some(Visibility::Deleted), .. }) => {
                all.clear();
            }
            _ => {}
        },
        |_| {},
    )?;
    // A later summary may have been undone: then the earlier one is current again.
    let in_force = session.conversation.transcript.compaction();
    Ok(in_force.and_then(|compaction| Some(Dropped { compaction, items: all.remove(&compaction)? })))
}

/// The content of the next request of a session; with `only_dropped`, the items that its last summary replaces.
pub fn context(
    read: &dyn Read,
    key: Option<&str>,
    only_dropped: bool,
    texts: Texts<'_>,
) -> Result<ContextStory, Error> {
    let row = lookup::session(read, key)?;
    let line = read.history(row.branch)?;
    let mut prompt: Option<Body> = None;
    let session = fold(&line, |transition| {
        if let Event::StepBegun(e) = &transition.entry.event {
            prompt = Some(e.prompt);
        }
    })?;
    let last = lookup::last(read, &row)?.and_then(|found| found.row);
    let settings = match &last {
        Some(row) => read.body(&row.settings)?.and_then(|bytes| Settings::from_bytes(&bytes).ok()),
        None => None,
    };
    let settings = last.as_ref().map(|row| row.settings).zip(settings);
    let candidate = candidate(&session, settings.as_ref().map(|(_, settings)| settings));
    let known = settings.as_ref().and_then(|(_, settings)| Some((settings.candidate(candidate)?, settings)));
    let window = known.map(|(candidate, settings)| Window::of(candidate, &settings.compaction));
    let transcript = &session.conversation.transcript;
    let tokens = settings.as_ref().map_or(transcript.tokens(), |(hash, settings)| {
        transcript.request_tokens((*hash, settings), candidate, prompt.as_ref())
    });
    let turns = settings.as_ref().and_then(|(_, settings)| settings.history_turns);
    let left_out = transcript.left_out(turns, transcript.items().len());
    let parts = if only_dropped {
        let dropped = dropped(&line)?.ok_or_else(|| {
            let what = format!("{} has no current summary", row.key);
            Error::not_found(what, format!("`limulus sessions context {}` shows what the model sees", row.key))
        })?;
        dropped.items.iter().map(|of| part(of.seq, &of.item, texts)).collect::<Result<_, _>>()?
    } else {
        let head = head(prompt.as_ref(), settings.as_ref().map(|(_, settings)| settings), texts)?;
        let items = transcript.items().iter().zip(transcript.seqs()).enumerate();
        let items = items.filter(|(at, _)| !left_out.contains(at));
        let items = items.map(|(_, (item, seq))| part(*seq, item, texts)).collect::<Result<Vec<_>, _>>()?;
        head.into_iter().chain(items).collect()
    };
    Ok(ContextStory {
        key: row.key,
        model: known.map(|(candidate, _)| format!("{}/{}", candidate.provider, candidate.model)),
        window: known.map(|(candidate, _)| candidate.context_window),
        threshold: window.map(|window| window.threshold),
        tokens,
        counted: transcript.counted().map(|counted| counted.tokens),
        left_out: left_out.len() as u32,
        parts,
    })
}

/// The index of the model candidate that is asked next, as far as it is known.
fn candidate(session: &Session, settings: Option<&Settings>) -> u32 {
    let in_use = session.run().map(|run| run.counts.candidates.candidate);
    let counted = session.conversation.transcript.counted().map(|counted| counted.candidate);
    let is_there = |at: &u32| settings.is_some_and(|settings| settings.candidate(*at).is_some());
    in_use.or(counted).filter(is_there).unwrap_or_default()
}

fn head(prompt: Option<&Body>, settings: Option<&Settings>, texts: Texts<'_>) -> Result<Vec<ContextPart>, Error> {
    let mut parts = vec![];
    if let Some(prompt) = prompt {
        let whole = texts(prompt)?;
        parts.extend(prompt::parts(&whole).into_iter().map(|part| {
            let what = if part.file.is_some() { ContextKind::Instructions } else { ContextKind::System };
            let (tokens, text) = (text_tokens(part.text.as_bytes()), part.content().to_owned());
            let (name, file) = (Some(part.name.to_owned()), part.file.map(str::to_owned));
            ContextPart { what, seq: None, name, file, tokens, text }
        }));
    }
    if let Some(settings) = settings.filter(|settings| !settings.tools.is_empty()) {
        let names: Vec<&str> = settings.tools.iter().map(|tool| tool.name.as_str()).collect();
        let (what, tokens, text) = (ContextKind::Tools, settings.tool_tokens(), names.join(", "));
        parts.push(ContextPart { what, seq: None, name: None, file: None, tokens, text });
    }
    Ok(parts)
}

fn part(seq: Seq, item: &Item, texts: Texts<'_>) -> Result<ContextPart, Error> {
    let (what, text) = match item {
        Item::Summary { body, .. } => (ContextKind::Summary, texts(body)?),
        Item::User { body, .. } => (ContextKind::User, texts(body)?),
        Item::Note { body } => (ContextKind::Note, texts(body)?),
        Item::Assistant { text, calls, .. } => {
            let text = text.as_ref().map(texts).transpose()?.into_iter().filter(|text| !text.is_empty());
            let calls = calls.iter().map(|call| Ok(format!("→ {} {}", call.tool, texts(&call.arguments)?)));
            let lines: Vec<String> = text.map(Ok).chain(calls).collect::<Result<_, Error>>()?;
            (ContextKind::Assistant, lines.join("\n"))
        }
        Item::Result { output, .. } => (ContextKind::Tool, texts(output)?),
    };
    Ok(ContextPart { what, seq: Some(seq), name: None, file: None, tokens: item.tokens(), text })
}
