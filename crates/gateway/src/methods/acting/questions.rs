//! `questions.answer`: answers a question of the model to the user, or skips it. The first answer counts.

use std::sync::Arc;

use engine::tables::limits::MESSAGE_BYTES;
use engine::{AnswerRefusal, ApprovalRow, BodyKind, CallId, Command, Content, Decision, Refusal};
use journal::Journal;
use protocol::method::{NoResult, QuestionAnswerParams};
use tools::{AskedQuestion, SchemaChecker, UserAnswer};
use views::approvals::{self, AskKind};
use views::questions;

use super::approvals::{REASON_BYTES, refuse, session_of, who};
use super::end::reading;
use crate::connection::Caller;
use crate::error::Error;

pub(in crate::methods) async fn answer_question(
    caller: &Arc<Caller>,
    params: QuestionAnswerParams,
) -> Result<NoResult, Error> {
    let service = &caller.service;
    let QuestionAnswerParams { call, fingerprint, .. } = params;
    let row = session_of(service, call)?;
    if let Err(closed) = reading(service, move |journal| open_row(journal, call).map(drop)).await {
        let why = AnswerRefusal::Closed;
        refuse(service, &row, Command::RefuseAnswer { call, by: who(caller), why }).await;
        return Err(closed);
    }
    let decision = match given(params)? {
        Given::Skip { reason } => Decision::Deny { reason },
        Given::Answer(answer) => {
            let asked = reading(service, move |journal| open_question(journal, call)).await?;
            let accepted = asked.accept(answer, &SchemaChecker::of_this_program()).await;
            let hint = "`limulus answer` shows the question and what it takes";
            let text = accepted.map_err(|why| Error::invalid(why, hint))?;
            Decision::Answered { text: Content::text(BodyKind::Output, &text) }
        }
    };
    let command = Command::Answer { call, fingerprint, decision, by: who(caller) };
    match super::ask(service, &row, command).await {
        Ok(_) => Ok(NoResult {}),
        Err(Error::Refusal(Refusal::Stale)) => {
            // Somebody was first, or it is another question.
            reading(service, move |journal| open_row(journal, call).map(drop)).await?;
            let what = "the question has another fingerprint: that answer is not for it";
            Err(Error::State { what: what.to_owned(), hint: "`limulus answer` shows the open questions".to_owned() })
        }
        Err(error) => Err(error),
    }
}

/// What the parameters stand for.
enum Given {
    Answer(UserAnswer),
    Skip { reason: Option<String> },
}

fn given(params: QuestionAnswerParams) -> Result<Given, Error> {
    let QuestionAnswerParams { choices, text, value, skip, reason, .. } = params;
    let hint = "send one of `choices`, `text`, `value` and `skip`";
    let ways = [!choices.is_empty(), text.is_some(), value.is_some(), skip];
    if ways.iter().filter(|is_given| **is_given).count() != 1 {
        return Err(Error::invalid("an answer is one thing", hint));
    }
    if reason.is_some() && !skip {
        return Err(Error::invalid("`reason` says why a question is skipped", "send it with `skip` = true"));
    }
    if reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES) {
        return Err(Error::invalid(format!("the reason has more than {REASON_BYTES} bytes"), "shorten it"));
    }
    let given = text.clone().or_else(|| value.as_ref().map(ToString::to_string)).unwrap_or_default();
    if given.len() as u64 > MESSAGE_BYTES {
        return Err(Error::invalid(format!("the answer has more than {MESSAGE_BYTES} bytes"), "shorten it"));
    }
    Ok(match (text, value) {
        _ if skip => Given::Skip { reason },
        (Some(text), _) => Given::Answer(UserAnswer::Text(text)),
        (None, Some(value)) => Given::Answer(UserAnswer::Json(value)),
        (None, None) => Given::Answer(UserAnswer::Choices(choices)),
    })
}

/// The row of this question. Refuses one that is closed.
fn open_row(journal: &dyn Journal, call: CallId) -> Result<ApprovalRow, Error> {
    let row = approvals::find(journal, &call.to_string(), AskKind::Answer)?;
    if row.allowed.is_some() { Err(already(&row)) } else { Ok(row) }
}

fn open_question(journal: &dyn Journal, call: CallId) -> Result<AskedQuestion, Error> {
    let row = open_row(journal, call)?;
    let lost = || Error::State {
        what: "the question can no longer be read".to_owned(),
        hint: format!("`limulus answer {} --skip` skips it", approvals::id(row.call)),
    };
    questions::asked(journal, &row).ok_or_else(lost)
}

fn already(row: &ApprovalRow) -> Error {
    let what = match (&row.by, row.allowed) {
        (Some(by), Some(true)) => format!("already answered by {by}"),
        (Some(by), _) => format!("already skipped by {by}"),
        (None, _) => "already closed: its time was over, or its call or run has ended".to_owned(),
    };
    Error::State { what, hint: "the first answer counts; `limulus answer` shows the open questions".to_owned() }
}
