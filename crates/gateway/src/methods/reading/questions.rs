//! `questions.list`, `questions.show`: the questions of models to the user.

use protocol::method::{
    QuestionParams, QuestionShown, QuestionsList, QuestionsListParams, QuestionsListed, QuestionsShow,
};
use views::approvals::{self, AskKind};
use views::{Source, lookup, questions};

use super::Reads;
use super::approvals::page;
use crate::error::Error;

impl Reads for QuestionsList {
    fn read(source: &Source<'_>, params: QuestionsListParams) -> Result<QuestionsListed, Error> {
        let read = source.read;
        let session = params.session.as_deref().map(|key| lookup::session(read, Some(key))).transpose()?;
        let mut rows = approvals::open(read, session.as_ref())?;
        rows.retain(|row| AskKind::of(row) == AskKind::Answer);
        let (questions, next) =
            page(read, rows, (params.after.as_deref(), params.limit), |row, key| questions::shown(read, row, key))?;
        Ok(QuestionsListed { questions, next })
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
