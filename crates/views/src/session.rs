//! A session in the shapes of `sessions.list` and `sessions.show`.

use std::path::Path;

use engine::tables::lifecycle::LifecycleKind;
use engine::{
    Address, Attachment, Body, Flags, Item, Message, Process, ProcessState, ReceiptState, Resources, Seq, Session,
    SessionRow, plan_items,
};
use journal::{Read, StoredLineage};
use protocol::show::{
    AskedCall, AttachedFile, ItemStory, Listed, ProcessStage, ProcessStory, QueuedStory, QueuedSummary, Role,
    SessionSummary, Shown,
};

use super::beside::{Beside, last_outcome};
use super::fold::{fold, removed_to};
use super::label::{Label, label};
use super::lookup;
use super::run;
use super::{Source, Texts};
use crate::error::Error;

/// A session for a list.
pub fn list(beside: &Beside<'_>, row: &SessionRow) -> Result<Listed, Error> {
    let read = beside.source.read;
    // The row of an idle session says everything, so a list of many sessions reads only the few active ones.
    let is_idle = row.run.is_none() && row.queued == 0;
    let session = if is_idle { None } else { Some(fold_branch(read, row)?) };
    let (flags, queue) = match &session {
        None => (idle_flags(row), vec![]),
        Some(session) => {
            (session.flags(), queue(read, row, session)?.into_iter().map(|(summary, _)| summary).collect())
        }
    };
    let last = lookup::last(read, row)?;
    let resources = beside.of_session(row, session.as_ref(), last.as_ref().and_then(|found| found.row.as_ref()))?;
    let next_recovery = session.as_ref().and_then(Session::next_recovery).map(Into::into);
    let label = label(beside, row, last.as_ref().and_then(|found| found.row.as_ref()))?;
    let summary = summary(beside, row, (flags, resources), (queue, label), last.as_ref().map(run::of))?;
    Ok(Listed { next_recovery, ..summary })
}

/// The flags of a session. An idle one is not read.
pub fn flags(read: &dyn Read, row: &SessionRow) -> Result<Flags, Error> {
    if row.run.is_none() && row.queued == 0 {
        return Ok(idle_flags(row));
    }
    Ok(fold_branch(read, row)?.flags())
}

/// The flags of a session without a run.
pub fn idle_flags(row: &SessionRow) -> Flags {
    let trouble = row.lifecycle == LifecycleKind::Error;
    let open = matches!(row.lifecycle, LifecycleKind::Ready | LifecycleKind::Idle);
    Flags { is_waiting: open && row.queued > 0, has_error: trouble, needs_recovery: trouble, ..Flags::default() }
}

/// The state of a session from its journal.
pub fn fold_branch(read: &dyn Read, row: &SessionRow) -> Result<Session, Error> {
    Ok(fold(&read.history(row.branch)?, |_| {})?)
}

/// The processes of a session. Without an owner the journal records no end, so the folder of calls is read.
fn processes(session: &Session, calls: &Path, texts: Texts<'_>) -> Result<Vec<ProcessStory>, Error> {
    let story = |process: &Process| {
        let (mut state, mut outcome, mut how) = (ProcessStage::from(&process.state), None, None);
        if let ProcessState::Ended { outcome: as_it_did, how: in_words, .. } = &process.state {
            (outcome, how) = (Some(*as_it_did), Some(in_words.clone()));
        } else if let Some(end) = tools::process_end(calls, &tools::Secrets::default(), process.effect) {
            (state, outcome, how) = (ProcessStage::Ended, Some(end.outcome), Some(end.how));
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
    session.account.processes.iter().map(story).collect()
}

/// A session with its conversation (at most the last `items` items), its processes and its run.
pub fn show(source: &Source<'_>, row: &SessionRow, limit: Option<usize>, texts: Texts<'_>) -> Result<Shown, Error> {
    let read = source.read;
    let run = lookup::last(read, row)?;
    let line = read.history(row.branch)?;
    let (session, transcript) = transcript(&line, limit, texts)?;
    let queue =
        queue(read, row, &session)?.into_iter().map(|(summary, body)| Ok(QueuedStory { summary, text: texts(&body)? }));
    let queue = queue.collect::<Result<Vec<_>, Error>>()?;
    let beside = Beside::new(source);
    let resources = beside.of_session(row, Some(&session), run.as_ref().and_then(|found| found.row.as_ref()))?;
    let label = label(&beside, row, run.as_ref().and_then(|found| found.row.as_ref()))?;
    let run = run.map(|found| run::project(&beside, &found, &line, texts)).transpose()?;
    let mut shown = summary(&beside, row, (session.flags(), resources), (queue, label), run)?;
    (shown.lifecycle, shown.run_state) = (session.conversation.lifecycle.kind(), session.run_state());
    (shown.removed_to, shown.transcript) = (removed_to(&line), Some(transcript));
    shown.next_recovery = session.next_recovery().map(Into::into);
    let plan = session.conversation.plan.map(|plan| texts(&plan.items)).transpose()?;
    let steps = |text: String| plan_items(text.as_bytes()).into_iter().map(Into::into).collect::<Vec<_>>();
    shown.plan = plan.map(steps).filter(|steps| !steps.is_empty());
    shown.processes = Some(processes(&session, &source.home.join("calls"), texts)?);
    Ok(shown)
}

/// The same with all that was said since the conversation began, in place of summaries of it.
pub fn show_whole(source: &Source<'_>, row: &SessionRow, texts: Texts<'_>) -> Result<Shown, Error> {
    let mut shown = show(source, row, Some(0), texts)?;
    let mut said: Vec<(Seq, Item)> = vec![];
    fold(&source.read.history(row.branch)?, |transition| {
        let (seq, transcript) = (transition.entry.seq, &transition.session.conversation.transcript);
        if transcript.items().is_empty() {
            return said.clear();
        }
        let items = transcript.items().iter().zip(transcript.seqs()).rev();
        let new = items.take_while(|(_, at)| **at == seq).filter(|(item, _)| !matches!(item, Item::Summary { .. }));
        let new: Vec<_> = new.map(|(item, _)| (seq, item.clone())).collect();
        said.extend(new.into_iter().rev());
    })?;
    let stories = said.iter().map(|(seq, item)| item_story(item, Some(*seq), texts));
    shown.transcript = Some(stories.collect::<Result<_, _>>()?);
    Ok(shown)
}

fn summary<R, Q>(
    beside: &Beside<'_>,
    row: &SessionRow,
    (flags, resources): (Flags, Resources),
    (queue, label): (Vec<Q>, Label),
    run: Option<R>,
) -> Result<SessionSummary<R, Q>, Error> {
    Ok(SessionSummary {
        session: row.session,
        key: row.key.clone(),
        agent: row.agent.clone(),
        branch: row.branch,
        lifecycle: row.lifecycle,
        run_state: row.run_state,
        flags: beside.flags(row, flags),
        last_outcome: last_outcome(beside.source.read, row.session)?,
        can_abort: flags.can_abort(row.lifecycle),
        resources,
        created_at: row.created_at,
        last_activity: row.last_activity,
        title: label.title,
        folder: label.folder,
        messages: label.messages,
        cost: label.cost,
        snippet: None,
        archived: label.archived,
        trouble: row.trouble.clone(),
        next_recovery: None,
        queue,
        removed_to: None,
        transcript: None,
        processes: None,
        plan: None,
        run,
    })
}

fn queue(read: &dyn Read, row: &SessionRow, session: &Session) -> Result<Vec<(QueuedSummary, Body)>, Error> {
    let receipts = read.receipts(row.session)?;
    let queued = receipts.into_iter().filter(|receipt| receipt.state == ReceiptState::Queued);
    let shown = queued.map(|receipt| {
        let engine::ReceiptRow { message, run, key, mode, accepted_at, body, .. } = receipt;
        let (queue_state, steer_state) = (session.queue_state(message), session.steer_state(message));
        let (origin, reply_to) = session.account.messages.get(&message).map(addresses).unwrap_or_default();
        (QueuedSummary { message, run, key, mode, queue_state, steer_state, accepted_at, origin, reply_to }, body)
    });
    Ok(shown.collect())
}

/// Where a message came from, and where its answer goes.
pub fn addresses(message: &Message) -> (Option<Box<Address>>, Option<Box<Address>>) {
    (message.origin.clone(), message.reply_to.clone())
}

/// The conversation, each item with the entry that added it.
fn transcript(
    line: &StoredLineage,
    limit: Option<usize>,
    texts: Texts<'_>,
) -> Result<(Session, Vec<ItemStory>), Error> {
    let session = fold(line, |_| {})?;
    let items = session.conversation.transcript.items();
    let left_out = limit.map_or(0, |limit| items.len().saturating_sub(limit));
    let items = items.iter().zip(session.conversation.transcript.seqs()).skip(left_out);
    let items = items.map(|(item, seq)| item_story(item, Some(*seq), texts)).collect::<Result<Vec<_>, _>>()?;
    Ok((session, items))
}

fn item_story(item: &Item, seq: Option<Seq>, texts: Texts<'_>) -> Result<ItemStory, Error> {
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
        Item::Summary { body, .. } => bare(Role::Summary, texts(body)?, &[]),
        Item::Note { body } => bare(Role::Note, texts(body)?, &[]),
        Item::Assistant { request, text, calls, images, .. } => {
            let calls = calls
                .iter()
                .map(|call| Ok(AskedCall { id: call.id, tool: call.tool.clone(), arguments: texts(&call.arguments)? }));
            let calls = calls.collect::<Result<Vec<_>, Error>>()?;
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
    use crate::scene::Scene;

    #[test]
    fn r21_a_list_has_the_flags_of_the_state() {
        let check = |scene: &Scene, waiting: bool| {
            let row = lookup::session(&scene.journal, None).unwrap();
            assert_eq!(idle_flags(&row), fold_branch(&scene.journal, &row).unwrap().flags(), "{row:?}");
            assert_eq!(idle_flags(&row).is_waiting, waiting);
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
            list(&Beside::new(&Source::of(&scene.journal)), &row).unwrap().flags
        };
        assert!(listed(&scene).is_waiting && !listed(&scene).is_streaming);
        scene.stream("Hi.");
        assert!(listed(&scene).is_streaming && listed(&scene).can_interrupt);
        scene.end_stream();
        assert_eq!(listed(&scene), Flags::default());
    }

    #[test]
    fn r21_beside_the_flags_are_the_last_outcome_can_abort_and_the_resources() {
        let mut scene = Scene::new();
        let look = |scene: &Scene, full: &[String]| {
            let row = lookup::session(&scene.journal, None).unwrap();
            let source = Source { full, ..Source::of(&scene.journal) };
            let texts = super::super::texts(source.read);
            let (listed, shown) = (list(&Beside::new(&source), &row), show(&source, &row, None, &texts).unwrap());
            let listed = listed.unwrap();
            assert_eq!(listed.last_outcome, shown.last_outcome);
            assert_eq!((listed.flags, listed.can_abort), (shown.flags, shown.can_abort));
            assert_eq!(listed.resources, shown.resources, "a list does not read the state of an idle session");
            listed
        };
        let of = |listed: &Listed| (listed.last_outcome, listed.can_abort, listed.flags.is_blocked);
        assert_eq!(of(&look(&scene, &[])), (None, false, false));
        scene.start("hello");
        assert_eq!(of(&look(&scene, &[])), (None, true, false));
        assert_eq!(of(&look(&scene, &["agent:main:main".to_owned()])), (None, true, true), "the store is full");
        scene.fail(engine::Failure::new(engine::FailureClass::InvalidRequest, "no"));
        let failed = look(&scene, &[]);
        assert_eq!(of(&failed), (Some(engine::Outcome::Failed), false, false), "the failure stays visible");
        assert!(!failed.flags.has_error && failed.resources.started_at.is_some());
        scene.start("again");
        assert_eq!(
            of(&look(&scene, &[])),
            (Some(engine::Outcome::Failed), true, false),
            "until the next run has ended"
        );
        scene.stream("Hi.");
        scene.end_stream();
        let done = look(&scene, &[]);
        assert_eq!(of(&done), (Some(engine::Outcome::Completed), false, false));
        assert!(done.resources.token_usage > 0 && done.resources.session_bytes > 0, "{:?}", done.resources);
    }
}
