//! `questions.list`, `questions.show`: the questions of models to the user.

use std::collections::BTreeMap;

use engine::SessionId;
use protocol::method::{
    QuestionParams, QuestionShown, QuestionsList, QuestionsListParams, QuestionsListed, QuestionsShow,
};
use views::approvals::{self, AskKind};
use views::{Source, lookup, questions};

use super::{Reads, pages};
use crate::error::Error;

impl Reads for QuestionsList {
    fn read(source: &Source<'_>, params: QuestionsListParams) -> Result<QuestionsListed, Error> {
        let read = source.read;
        let session = params.session.as_deref().map(|key| lookup::session(read, Some(key))).transpose()?;
        let mut rows = approvals::open(read, session.as_ref())?;
        rows.retain(|row| AskKind::of(row) == AskKind::Answer);
        if let Some(after) = &params.after {
            rows.truncate(pages::cursor(after)?);
        }
        let before = rows.len().saturating_sub(params.limit.unwrap_or(usize::MAX));
        let next = (before > 0).then(|| before.to_string());
        let keys: BTreeMap<SessionId, String> =
            read.sessions()?.into_iter().map(|row| (row.session, row.key)).collect();
        let shown = rows[before..].iter().map(|row| {
            let key = keys.get(&row.session).map_or("", String::as_str);
            questions::shown(read, row, key)
        });
        Ok(QuestionsListed { questions: shown.collect(), next })
    }
}

impl Reads for QuestionsShow {
    fn read(source: &Source<'_>, params: QuestionParams) -> Result<QuestionShown, Error> {
        let row = approvals::find(source.read, &params.id, AskKind::Answer)?;
        let session = source.read.session_of_run(row.call.run)?;
        let key = session.map(|session| session.key).unwrap_or_default();
        Ok(questions::shown(source.read, &row, &key))
    }
}
