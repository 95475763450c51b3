//! `sessions.label` and `sessions.delete`: the title of a session, where it is listed, and its end as if it had never been.

use std::sync::Arc;

use engine::{BodyKind, Command, Content};
use journal::SearchIndex;
use protocol::method::{DeleteParams, LabelParams, Labelled, SessionDeleted};
use tools::{FileStore, StoreLimits};
use views::SessionKey;

use crate::connection::Caller;
use crate::error::Error;

/// Characters of a title.
const TITLE_CHARS: usize = 200;

pub(in crate::methods) async fn label(caller: &Arc<Caller>, params: LabelParams) -> Result<Labelled, Error> {
    let service = &caller.service;
    // A session that does not exist is not created only to get a title.
    let row = super::session(service, &SessionKey::parse(Some(&params.session_key))?.to_string())?;
    let title = params.title.map(|title| title.split_whitespace().collect::<Vec<_>>().join(" "));
    if title.as_ref().is_some_and(|title| title.chars().nth(TITLE_CHARS).is_some()) {
        return Err(Error::invalid(format!("a title has at most {TITLE_CHARS} characters"), "shorten it"));
    }
    if title.is_none() && params.archived.is_none() {
        return Err(Error::invalid("nothing is to change", "name `title` or `archived`"));
    }
    let title = title.map(|title| Content::text(BodyKind::Message, &title));
    super::ask(service, &row, Command::Label { title, archived: params.archived }).await?;
    Ok(Labelled { session_key: row.key })
}

/// First the deletion is recorded, then the content is erased: a deletion that a crash interrupts is repeated by the next
/// `sessions.delete` of the session, which erases what is left.
pub(in crate::methods) async fn delete(caller: &Arc<Caller>, params: DeleteParams) -> Result<SessionDeleted, Error> {
    let row = super::session(&caller.service, &SessionKey::parse(Some(&params.session_key))?.to_string())?;
    super::ask(&caller.service, &row, Command::Delete).await?;
    let service = Arc::clone(&caller.service);
    let erasing = tokio::task::spawn_blocking(move || {
        let erased = service.runtime.journal().erase_session(row.session)?;
        // Behind it: whoever completes the index meanwhile finds no text any more.
        SearchIndex::forget(service.home(), row.session)?;
        let store = FileStore::new(service.home().join("files"), StoreLimits::NONE);
        let files = store.forget(&erased.files);
        Ok(SessionDeleted {
            session_key: row.key,
            bodies: erased.collected.bodies,
            bytes: erased.collected.bytes,
            files,
        })
    });
    erasing.await.map_err(|_| Error::bug("the erasure panicked"))?
}
