//! The methods that act or wait. Methods that only read belong in `reading`.

mod abort;
mod agent;
mod approvals;
mod budget;
mod chat;
mod chat_files;
mod cleanup;
mod compact;
mod copies;
mod delete;
mod deliveries;
mod end;
mod events;
mod handover;
mod health;
mod label;
mod pause;
mod profiles;
mod questions;
mod queue;
mod record;
mod resume;
mod terminate;
mod undo;
mod wait;

pub(super) use abort::abort;
pub(super) use agent::agent;
pub(super) use approvals::{record_refusal, resolve_approval, revoke_grant};
pub(super) use budget::set_budget;
pub(crate) use chat::chat_commands;
pub use chat::{ChatCommand, chat_command};
pub(super) use cleanup::cleanup;
pub(crate) use cleanup::erase;
pub use cleanup::{before, states};
pub(super) use compact::{compact, uncompact};
pub(super) use delete::delete;
pub(super) use deliveries::{drop as drop_delivery, retry as retry_delivery};
pub(crate) use end::reading;
pub(super) use events::{subscribe, unsubscribe};
pub(super) use handover::hand_over;
pub(crate) use health::health;
pub(super) use label::label;
pub(super) use pause::{break_at, pause, resume_run};
pub(super) use profiles::{clear_profiles, use_profile};
pub(super) use questions::answer_question;
pub(super) use queue::{cancel, clear, mode};
pub(super) use record::record;
pub(super) use resume::resume;
pub(super) use terminate::terminate;
pub(crate) use terminate::terminate_idle;
pub(super) use undo::undo;
pub(super) use wait::wait;

use engine::{Acknowledgement, Command, Refusal, RunId, Session, SessionRow};
use views::{fold_branch, lookup};

use crate::error::Error;
use crate::service::Service;

/// Sends a command to an existing session.
async fn ask(service: &Service, row: &SessionRow, command: Command) -> Result<Acknowledgement, Error> {
    command_to(service, &row.key, &row.agent, command).await
}

/// Sends two commands to an existing session without anything between them. Returns a result for each.
async fn ask_both(
    service: &Service,
    row: &SessionRow,
    commands: [Command; 2],
) -> Result<(Result<Acknowledgement, Error>, Result<Acknowledgement, Error>), Error> {
    let (_, answers) = service.runtime.open(&row.key, &row.agent, commands.into()).await?;
    let mut results = vec![];
    for answer in answers {
        let gone = || Refusal::Unavailable { reason: "the session has stopped".into() };
        let answer = answer.await.unwrap_or_else(|_| Err(gone()));
        results.push(answer.map_err(|refusal| stored(service, &row.key, refusal)));
    }
    let second = results.pop().expect("each command has an answer");
    let first = results.pop().expect("each command has an answer");
    Ok((first, second))
}

/// Sends a command to a session, which is created if it does not exist.
async fn command_to(service: &Service, key: &str, agent: &str, command: Command) -> Result<Acknowledgement, Error> {
    let (_, answers) = service.runtime.open(key, agent, vec![command]).await?;
    let answer = answers.into_iter().next().expect("each command has an answer");
    let gone = || Refusal::Unavailable { reason: "the session has stopped".into() };
    answer.await.unwrap_or_else(|_| Err(gone())).map_err(|refusal| stored(service, key, refusal))
}

/// If the store failed, returns the error of the store, which says more than the refusal.
fn stored(service: &Service, key: &str, refusal: Refusal) -> Error {
    let parked = || service.runtime.disk_full_waits().borrow().get(key).map(|parked| parked.error.clone());
    let broken = service.runtime.broken().borrow().clone();
    match (refusal, broken.or_else(parked)) {
        (Refusal::Unavailable { .. }, Some(error)) => error.into(),
        (refusal, _) => refusal.into(),
    }
}

/// The session of this key.
fn session(service: &Service, key: &str) -> Result<SessionRow, Error> {
    let row = service.runtime.journal().session(key)?;
    row.ok_or_else(|| Error::not_found(format!("there is no session {key}"), "`limulus sessions list` shows them"))
}

/// The state of a session, read on a thread that may block: its history may be long.
async fn state_of(service: &Service, row: SessionRow) -> Result<Session, Error> {
    end::reading(service, move |journal| Ok(fold_branch(journal, &row)?)).await
}

/// The session of this run, also if the run has not begun.
fn session_of_run(service: &Service, run: RunId) -> Result<Option<SessionRow>, Error> {
    let journal = service.runtime.journal();
    if let Some(session) = journal.session_of_run(run)? {
        return Ok(Some(session));
    }
    for session in journal.sessions()?.into_iter().filter(|session| session.queued > 0) {
        if lookup::queued(&**journal, session.session)?.iter().any(|queued| queued.run == run) {
            return Ok(Some(session));
        }
    }
    Ok(None)
}
