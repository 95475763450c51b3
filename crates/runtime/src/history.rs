//! What the rules for a history (`engine::tables::history`) have changed in a request, as far as its event alone does not say it.

use engine::tables::history::{BEFORE_REQUEST, HistoryRule};
use engine::{Attachment, Blocks, Body, Item, RequestSent, Session, Settings};

/// How much each rule has changed; a rule that has changed nothing is not among them.
pub type HistoryChanges = Vec<(HistoryRule, usize)>;

/// What was changed in the history of a request. `session` is the state after its event; `signer` says who signed the blocks of an
/// answer, if its text is still there ([`signer`]).
pub fn changes(
    event: &RequestSent,
    session: &Session,
    settings: &Settings,
    mut signer: impl FnMut(&Body) -> Option<String>,
) -> HistoryChanges {
    let (transcript, items) = (&session.conversation.transcript, event.items as usize);
    let left_out = transcript.left_out(settings.history_turns, items);
    let there = transcript.items().iter().take(items).enumerate().filter(|(at, _)| !left_out.contains(at));
    let there: Vec<&Item> = there.map(|(_, item)| item).collect();
    let files: Vec<_> = there.iter().map(|item| files(item)).collect();
    let candidate = settings.candidate(event.candidate);
    let sees_images = candidate.is_none_or(|candidate| candidate.images);
    let model = candidate.map(|candidate| format!("{}/{}", candidate.provider, candidate.model));
    let is_of_another = |blocks: &&Body| signer(blocks).is_some_and(|signer| Some(signer) != model);
    let of_others = there.iter().filter_map(|item| blocks(item)).filter(is_of_another).count();
    let ids: Vec<_> = there.iter().filter_map(|item| ids(item)).collect();
    let counts = [
        (HistoryRule::Turns, left_out.len()),
        (HistoryRule::Files, models::files_left_out(&files, sees_images)),
        (HistoryRule::Signatures, of_others),
        (HistoryRule::Ids, models::replaced_ids(&ids)),
        (HistoryRule::Empty, there.iter().filter(|item| is_empty(item)).count()),
    ];
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// The names of the rules with what they changed, such as `turns 4, files 1`.
pub fn in_words(changes: &HistoryChanges) -> String {
    let name = |rule: HistoryRule| BEFORE_REQUEST.iter().find(|row| row.rule == rule).map_or("", |row| row.name);
    let words = changes.iter().map(|(rule, count)| format!("{} {count}", name(*rule)));
    words.collect::<Vec<_>>().join(", ")
}

/// The model that signed blocks of an answer, `PROVIDER/MODEL`, by the stored text of the blocks; none if none is signed.
pub fn signer(blocks: &str) -> Option<String> {
    let Blocks { model, blocks } = Blocks::from_bytes(blocks.as_bytes()).ok()?;
    blocks.iter().any(|block| block.signature.is_some()).then_some(model)
}

/// The stored blocks of an answer.
fn blocks(item: &Item) -> Option<&Body> {
    if let Item::Assistant { blocks, .. } = item { blocks.as_ref() } else { None }
}

/// The types and sizes of the files of an item.
fn files(item: &Item) -> Vec<(&str, u64)> {
    let attachments: &[Attachment] = match item {
        Item::User { attachments, .. } | Item::Result { attachments, .. } => attachments,
        Item::Assistant { images, .. } => images,
        Item::Summary { .. } | Item::Note { .. } => &[],
    };
    attachments.iter().map(|file| (file.media_type.as_str(), file.body.bytes)).collect()
}

/// The ids of the calls of an answer.
fn ids(item: &Item) -> Option<Vec<&str>> {
    let Item::Assistant { calls, .. } = item else { return None };
    Some(calls.iter().map(|call| call.provider_id.as_str()).collect())
}

/// Whether it is an answer that says nothing.
fn is_empty(item: &Item) -> bool {
    let Item::Assistant { text, calls, images, .. } = item else { return false };
    text.is_none_or(|text| text.bytes == 0) && calls.is_empty() && images.is_empty()
}
