//! `sessions.list`, `sessions.show` and `sessions.context`.

use engine::{SessionId, SessionRow, Timestamp, Visibility};
use protocol::method::{
    ContextParams, SessionParams, SessionsContext, SessionsList, SessionsListParams, SessionsListed, SessionsShow,
};
use protocol::show::{ContextStory, Listed, Shown};
use views::beside::Beside;
use views::{Source, context, lookup, search, session};

use super::{Reads, pages};
use crate::error::Error;

impl Reads for SessionsList {
    fn read(source: &Source<'_>, params: SessionsListParams) -> Result<SessionsListed, Error> {
        let shown = if params.archived { Visibility::Archived } else { Visibility::Listed };
        if let Some(words) = &params.search {
            return found(source, &params, words, shown);
        }
        let (rows, next, more) =
            if params.by_activity { by_activity(source, &params, shown)? } else { by_age(source, &params, shown)? };
        let beside = Beside::new(source);
        let sessions = rows.iter().map(|row| session::list(&beside, row)).collect::<Result<_, _>>()?;
        Ok(SessionsListed { sessions, next, more })
    }
}

/// The sessions in which these words were said.
fn found(
    source: &Source<'_>,
    params: &SessionsListParams,
    words: &str,
    shown: Visibility,
) -> Result<SessionsListed, Error> {
    let limit = params.limit.unwrap_or(usize::MAX);
    let hits = search::search(source.home, source.read, words, shown, limit)?;
    let beside = Beside::new(source);
    let listed = |hit: search::Hit| Ok(Listed { snippet: Some(hit.snippet), ..session::list(&beside, &hit.row)? });
    let sessions = hits.into_iter().map(listed).collect::<Result<_, Error>>()?;
    Ok(SessionsListed { sessions, next: None, more: None })
}

/// A page: its rows, the parameter for the next one, and how many more there are, if that is known.
type Page = (Vec<SessionRow>, Option<String>, Option<u64>);

/// In the order in which they were created. A page may have fewer rows than it may have: others are shown elsewhere.
fn by_age(source: &Source<'_>, params: &SessionsListParams, shown: Visibility) -> Result<Page, Error> {
    let before = params.after.as_deref().map(pages::cursor).transpose()?;
    let rows = source.read.sessions_before(before, pages::wanted(params.limit))?;
    let (mut rows, next) = pages::page(rows, params.limit, |row| row.session.to_string());
    rows.retain(|row| row.visibility == shown);
    Ok((rows, next, None))
}

/// By their last activity. The cursor is the last one of the page before: its time and its id.
fn by_activity(source: &Source<'_>, params: &SessionsListParams, shown: Visibility) -> Result<Page, Error> {
    let after = params.after.as_deref().map(|after| {
        let (at, session) = after.split_once('-').unwrap_or((after, ""));
        Ok::<_, Error>((Timestamp(pages::cursor(at)?), pages::cursor::<SessionId>(session)?))
    });
    let limit = params.limit.unwrap_or(usize::MAX);
    let found = source.read.sessions_by_activity(shown, after.transpose()?, limit)?;
    let last = found.rows.last().filter(|_| found.more > 0);
    let next = last.map(|row| format!("{}-{}", row.last_activity.0, row.session));
    Ok((found.rows, next, Some(found.more as u64)))
}

impl Reads for SessionsShow {
    fn read(source: &Source<'_>, params: SessionParams) -> Result<Shown, Error> {
        let row = lookup::session(source.read, params.session_key.as_deref())?;
        let texts = source.texts();
        if params.whole {
            return Ok(session::show_whole(source, &row, &texts)?);
        }
        Ok(session::show(source, &row, params.limit, &texts)?)
    }
}

impl Reads for SessionsContext {
    fn read(source: &Source<'_>, params: ContextParams) -> Result<ContextStory, Error> {
        Ok(context::context(source.read, params.session_key.as_deref(), params.dropped, &source.texts())?)
    }
}
