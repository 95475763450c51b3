//! A session as `sessions list` and `sessions show` show it.

use std::path::Path;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Attachment, Body, BranchId, CallId, CallOutcome, EffectId, Flags, Hash, Item, MessageId, Process, ProcessState,
    ReceiptState, RunId, Seq, Session, SessionId, SessionRow, Timestamp,
};
use journal::{Line, Read};
use serde::Serialize;

use super::Texts;
use super::fold::{fold, removed_to};
use super::lookup;
use super::run::{self, RunStory, RunSummary};
use crate::error::CliError;

/// A session without its texts; `R` is how its run is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SessionSummary<R, Q> {
    pub(crate) session: SessionId,
    pub(crate) key: String,
    pub(crate) agent: String,
    pub(crate) branch: BranchId,
    pub(crate) lifecycle: LifecycleKind,
    pub(crate) run_state: RunState,
    pub(crate) flags: Flags,
    pub(crate) created_at: Timestamp,
    pub(crate) last_activity: Timestamp,
    /// What is wrong, and the command that mends it.
    pub(crate) trouble: Option<String>,
    /// The messages that wait, in order.
    pub(crate) queue: Vec<Q>,
    /// The entry up to which all were removed, `BRANCH@SEQ`: a snapshot stands for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) removed_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transcript: Option<Vec<ItemStory>>,
    /// What goes on in the background, and what has ended there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processes: Option<Vec<ProcessStory>>,
    /// The active run, else the last one.
    pub(crate) run: Option<R>,
}

/// A command in the background.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ProcessStory {
    pub(crate) id: String,
    pub(crate) call: CallId,
    pub(crate) command: String,
    /// `running`, `ending` or `ended`.
    pub(crate) state: &'static str,
    /// How it has ended.
    pub(crate) outcome: Option<CallOutcome>,
    /// The same in words.
    pub(crate) how: Option<String>,
    pub(crate) started_at: Timestamp,
    /// When it is ended at the latest.
    pub(crate) until: Timestamp,
}

/// A message that waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct QueuedSummary {
    pub(crate) message: MessageId,
    /// The run that it will be answered by.
    pub(crate) run: RunId,
    /// The sender's key.
    pub(crate) key: Option<String>,
    pub(crate) accepted_at: Timestamp,
}

/// A message that waits, with its text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct QueuedStory {
    #[serde(flatten)]
    pub(crate) summary: QueuedSummary,
    pub(crate) text: String,
}

/// One item of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ItemStory {
    /// The entry that put it there; null where that was removed.
    pub(crate) seq: Option<Seq>,
    pub(crate) role: Role,
    pub(crate) text: String,
    /// The calls that an assistant's message asks for.
    pub(crate) calls: Vec<AskedCall>,
    /// Images and files that belong to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) attachments: Vec<AttachedFile>,
    /// The request that an assistant's message answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<EffectId>,
    /// The call whose result this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<CallId>,
    /// Whether that result is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) is_error: Option<bool>,
}

/// An image or a file, without its bytes: the journal has them under the hash.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AttachedFile {
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) bytes: u64,
    pub(crate) hash: Hash,
}

impl From<&Attachment> for AttachedFile {
    fn from(attachment: &Attachment) -> Self {
        let Attachment { body, media_type, name } = attachment;
        Self { name: name.clone(), media_type: media_type.clone(), bytes: body.bytes, hash: body.hash }
    }
}

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    User,
    Assistant,
    Tool,
}

/// A call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AskedCall {
    pub(crate) id: CallId,
    pub(crate) tool: String,
    pub(crate) arguments: String,
}

/// A session of a list.
pub(crate) type Listed = SessionSummary<RunSummary, QueuedSummary>;
/// A session with everything.
pub(crate) type Shown = SessionSummary<RunStory, QueuedStory>;

/// A session for a list.
pub(crate) fn list(read: &dyn Read, row: &SessionRow) -> Result<Listed, CliError> {
    // At rest the row says it all, so that a list of many sessions reads only the few that are at work.
    let flags = if row.run.is_none() { at_rest(row) } else { fold_branch(read, row)?.flags() };
    let queue = match row.queued {
        0 => vec![],
        _ => queue(read, row)?.into_iter().map(|(summary, _)| summary).collect(),
    };
    let run = lookup::last(read, row)?.as_ref().map(RunSummary::of);
    Ok(summary(row, flags, queue, run))
}

/// The flags of a session without a run.
pub(crate) fn at_rest(row: &SessionRow) -> Flags {
    let trouble = row.lifecycle == LifecycleKind::Error;
    let open = matches!(row.lifecycle, LifecycleKind::Ready | LifecycleKind::Idle);
    Flags { is_waiting: open && row.queued > 0, has_error: trouble, needs_recovery: trouble, ..Flags::default() }
}

/// The state of a session as its journal has it.
pub(crate) fn fold_branch(read: &dyn Read, row: &SessionRow) -> Result<Session, CliError> {
    Ok(fold(&read.history(row.branch)?, |_| {})?)
}

/// The processes of a session. With no owner there its journal learns of no end, and the folder of calls is asked.
fn processes(session: &Session, calls: &Path, texts: Texts<'_>) -> Result<Vec<ProcessStory>, CliError> {
    let story = |process: &Process| {
        let (mut state, mut outcome, mut how) = (process.state.name(), None, None);
        if let ProcessState::Ended { outcome: as_it_did, how: in_words, .. } = &process.state {
            (outcome, how) = (Some(*as_it_did), Some(in_words.clone()));
        } else if let Some(end) = tools::process_end(calls, &tools::Secrets::default(), process.effect) {
            (state, outcome, how) = ("ended", Some(end.outcome), Some(end.how));
        }
        Ok(ProcessStory {
            id: process.name(),
            call: process.call,
            command: tools::command_of(&texts(&process.arguments)?),
            state,
            outcome,
            how,
            started_at: process.started_at,
            until: process.until,
        })
    };
    session.processes.iter().map(story).collect()
}

/// A session with its whole conversation, its processes and its run.
pub(crate) fn show(read: &dyn Read, calls: &Path, row: &SessionRow, texts: Texts<'_>) -> Result<Shown, CliError> {
    let waiting = queue(read, row)?;
    let run = lookup::last(read, row)?;
    let line = read.history(row.branch)?;
    let (session, transcript) = transcript(&line, texts)?;
    let queue = waiting.into_iter().map(|(summary, body)| Ok(QueuedStory { summary, text: texts(&body)? }));
    let queue = queue.collect::<Result<Vec<_>, CliError>>()?;
    let run = run.map(|found| run::project(RunSummary::of(&found), &line, texts)).transpose()?;
    let mut shown = summary(row, session.flags(), queue, run);
    (shown.lifecycle, shown.run_state) = (session.lifecycle.kind(), session.run_state());
    (shown.removed_to, shown.transcript) = (removed_to(&line), Some(transcript));
    shown.processes = Some(processes(&session, calls, texts)?);
    Ok(shown)
}

fn summary<R, Q>(row: &SessionRow, flags: Flags, queue: Vec<Q>, run: Option<R>) -> SessionSummary<R, Q> {
    SessionSummary {
        session: row.session,
        key: row.key.clone(),
        agent: row.agent.clone(),
        branch: row.branch,
        lifecycle: row.lifecycle,
        run_state: row.run_state,
        flags,
        created_at: row.created_at,
        last_activity: row.last_activity,
        trouble: row.trouble.clone(),
        queue,
        removed_to: None,
        transcript: None,
        processes: None,
        run,
    }
}

fn queue(read: &dyn Read, row: &SessionRow) -> Result<Vec<(QueuedSummary, Body)>, CliError> {
    let receipts = read.receipts(row.session)?;
    let queued = receipts.into_iter().filter(|receipt| receipt.state == ReceiptState::Queued);
    let shown = queued.map(|receipt| {
        let engine::ReceiptRow { message, run, key, accepted_at, body, .. } = receipt;
        (QueuedSummary { message, run, key, accepted_at }, body)
    });
    Ok(shown.collect())
}

/// The conversation, each item with the entry that put it there.
pub(crate) fn transcript(line: &Line, texts: Texts<'_>) -> Result<(Session, Vec<ItemStory>), CliError> {
    let mut seqs: Vec<Option<Seq>> = vec![];
    seqs.resize(line.start.as_ref().map_or(0, |start| start.session.transcript.items().len()), None);
    let session = fold(line, |transition| {
        seqs.resize(transition.session.transcript.items().len(), Some(transition.entry.seq));
    })?;
    let items = session.transcript.items().iter().zip(seqs);
    let items = items.map(|(item, seq)| item_story(item, seq, texts)).collect::<Result<Vec<_>, _>>()?;
    Ok((session, items))
}

fn item_story(item: &Item, seq: Option<Seq>, texts: Texts<'_>) -> Result<ItemStory, CliError> {
    let bare = |role, text, attachments: &[Attachment]| ItemStory {
        seq,
        role,
        text,
        calls: vec![],
        attachments: attachments.iter().map(AttachedFile::from).collect(),
        request: None,
        call: None,
        is_error: None,
    };
    Ok(match item {
        Item::User { body, attachments, .. } => bare(Role::User, texts(body)?, attachments),
        Item::Assistant { request, text, calls, images, .. } => {
            let calls = calls
                .iter()
                .map(|call| Ok(AskedCall { id: call.id, tool: call.tool.clone(), arguments: texts(&call.arguments)? }));
            let calls = calls.collect::<Result<Vec<_>, CliError>>()?;
            let text = text.as_ref().map(texts).transpose()?.unwrap_or_default();
            ItemStory { calls, request: Some(*request), ..bare(Role::Assistant, text, images) }
        }
        Item::Result { call, output, is_error, attachments } => {
            let result = bare(Role::Tool, texts(output)?, attachments);
            ItemStory { call: Some(*call), is_error: Some(*is_error), ..result }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::scene::Scene;

    #[test]
    fn r21_a_list_has_the_flags_of_the_state() {
        let check = |scene: &Scene, waiting: bool| {
            let row = lookup::session(&scene.journal, None).unwrap();
            assert_eq!(at_rest(&row), fold_branch(&scene.journal, &row).unwrap().flags(), "{row:?}");
            assert_eq!(at_rest(&row).is_waiting, waiting);
        };
        let mut scene = Scene::new();
        check(&scene, false);
        scene.message("hello");
        check(&scene, true);
        scene.enter_lane(engine::ResumeMode::Restart);
        scene.message("and then?");
        scene.stream("Hi.");
        scene.end_stream();
        check(&scene, true);
    }

    #[test]
    fn r22_a_list_reads_the_state_of_a_session_at_work() {
        let mut scene = Scene::new();
        scene.start("hello");
        let listed = |scene: &Scene| {
            let row = lookup::session(&scene.journal, None).unwrap();
            list(&scene.journal, &row).unwrap().flags
        };
        assert!(listed(&scene).is_waiting && !listed(&scene).is_streaming);
        scene.stream("Hi.");
        assert!(listed(&scene).is_streaming && listed(&scene).can_interrupt);
        scene.end_stream();
        assert_eq!(listed(&scene), Flags::default());
    }
}
