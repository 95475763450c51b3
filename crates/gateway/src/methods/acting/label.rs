//! `sessions.label`: the title of a session, and where it is listed.

use std::sync::Arc;

use engine::{BodyKind, Command, Content};
use protocol::limits::{TITLE_BYTES, TITLE_CHARS};
use protocol::method::{LabelParams, Labelled};
use views::SessionKey;

use crate::connection::Caller;
use crate::error::Error;

pub(in crate::methods) async fn label(caller: &Arc<Caller>, params: LabelParams) -> Result<Labelled, Error> {
    let service = &caller.service;
    // A session that does not exist is not created only to get a title.
    let row = super::session(service, &SessionKey::parse(Some(&params.session_key))?.to_string())?;
    let title = params.title.as_deref().map(normalized).transpose()?;
    if title.is_none() && params.archived.is_none() {
        return Err(Error::invalid("nothing is to change", "name `title` or `archived`"));
    }
    let title = title.map(|title| Content::text(BodyKind::Message, &title));
    super::ask(service, &row, Command::Label { title, archived: params.archived }).await?;
    Ok(Labelled { session_key: row.key })
}

/// The title on one line. One that is too long is refused before it is looked at: a frame may be filled with it.
fn normalized(title: &str) -> Result<String, Error> {
    let fits = |title: &String| title.chars().nth(TITLE_CHARS).is_none();
    let words = || title.split_whitespace().collect::<Vec<_>>().join(" ");
    (title.len() <= TITLE_BYTES)
        .then(words)
        .filter(fits)
        .ok_or_else(|| Error::invalid(format!("a title has at most {TITLE_CHARS} characters"), "shorten it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r21_a_title_is_one_line_of_bounded_size_and_a_larger_one_is_not_looked_at() {
        assert_eq!(normalized(" the \n tide ").unwrap(), "the tide");
        let longest = "ß".repeat(TITLE_CHARS);
        assert_eq!(normalized(&longest).unwrap(), longest);
        for refused in ["ß".repeat(TITLE_CHARS + 1), format!("tide{}", " ".repeat(TITLE_BYTES))] {
            assert!(matches!(normalized(&refused), Err(Error::Invalid { .. })), "{} bytes", refused.len());
        }
    }
}
