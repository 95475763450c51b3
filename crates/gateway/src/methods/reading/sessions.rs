//! `sessions.list`, `sessions.show` and `sessions.context`.

use protocol::method::{
    ContextParams, SessionParams, SessionsContext, SessionsList, SessionsListParams, SessionsListed, SessionsShow,
};
use protocol::show::{ContextStory, Shown};
use views::beside::Beside;
use views::{Source, context, lookup, session};

use super::{Reads, pages};
use crate::error::Error;

impl Reads for SessionsList {
    fn read(source: &Source<'_>, params: SessionsListParams) -> Result<SessionsListed, Error> {
        let before = params.after.as_deref().map(pages::cursor).transpose()?;
        let rows = source.read.sessions_before(before, pages::wanted(params.limit))?;
        let (rows, next) = pages::page(rows, params.limit, |row| row.session.to_string());
        let beside = Beside::new(source);
        let sessions = rows.iter().map(|row| session::list(&beside, row)).collect::<Result<_, _>>()?;
        Ok(SessionsListed { sessions, next })
    }
}

impl Reads for SessionsShow {
    fn read(source: &Source<'_>, params: SessionParams) -> Result<Shown, Error> {
        let row = lookup::session(source.read, params.session_key.as_deref())?;
        Ok(session::show(source, &row, params.limit, &source.texts())?)
    }
}

impl Reads for SessionsContext {
    fn read(source: &Source<'_>, params: ContextParams) -> Result<ContextStory, Error> {
        Ok(context::context(source.read, params.session_key.as_deref(), params.dropped, &source.texts())?)
    }
}
