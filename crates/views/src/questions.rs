//! Questions of models to the user. They are found as approval requests are.

use engine::{AnswerForm, ApprovalRow};
use journal::Read;
use protocol::method::QuestionShown;
use tools::AskedQuestion;

use crate::approvals::id;
use crate::texts;

/// The shape of a question. One whose arguments cannot be read has its text alone.
pub fn shown(read: &dyn Read, row: &ApprovalRow, session: &str) -> QuestionShown {
    let asked = asked(read, row);
    let question = if row.question.is_empty() {
        asked.as_ref().map(|asked| asked.question.clone()).unwrap_or_default()
    } else {
        row.question.clone()
    };
    let (choices, several, schema) =
        asked.map(|asked| (asked.choices, asked.several, asked.schema)).unwrap_or_default();
    QuestionShown {
        id: id(row.call),
        call: row.call,
        session: session.to_owned(),
        run: row.call.run,
        question,
        takes: row.takes.unwrap_or(AnswerForm::Text),
        choices,
        several,
        schema,
        fingerprint: row.fingerprint,
        asked_at: row.asked_at,
        expires_at: row.expires_at,
        answered: row.allowed,
        by: row.by.clone(),
        closed_at: row.closed_at,
    }
}

/// The question as the model asked it; none if its arguments are no longer there.
pub fn asked(read: &dyn Read, row: &ApprovalRow) -> Option<AskedQuestion> {
    let arguments = texts(read)(row.arguments.as_ref()?).ok()?;
    AskedQuestion::parse(arguments.as_bytes()).ok()
}

/// What reads an answer to this question from a line.
pub fn reader(shown: &QuestionShown) -> AskedQuestion {
    AskedQuestion {
        question: shown.question.clone(),
        choices: shown.choices.clone(),
        several: shown.several,
        free_text: shown.takes != AnswerForm::Choice,
        schema: shown.schema.clone(),
    }
}
