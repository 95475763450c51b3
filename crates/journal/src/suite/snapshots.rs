//! Snapshots and lines.

use engine::{BranchId, EffectId, EffectKind, Event, Forked, OutputAdded, Seq, Session};

use super::samples::{effect, every_other_kind, retracted, settled, text_added};
use super::{Script, Store, both, id};
use crate::{Entry, Error, Snapshot, StoredLineage};

both! {
    r11_a_line_starts_at_the_newest_snapshot
    r11_the_fold_from_a_snapshot_is_the_fold_of_everything
    r11_a_snapshot_of_an_entry_that_is_not_there_is_left_out
    r11_a_snapshot_of_another_version_counts_as_absent
    r11_a_snapshot_that_does_not_decode_is_an_error
    r17_the_line_of_a_fork_begins_in_its_parent
    r17_the_line_of_a_fork_starts_at_a_snapshot_before_the_fork_only
    r10_a_result_seals_the_output_of_every_try
}

/// The state after these entries.
fn state(script: &Script, line: &StoredLineage) -> Session {
    let Event::Created(created) = script.created() else { unreachable!() };
    let mut session = line.start.as_ref().map(|start| start.session.clone());
    for (branch, entry) in line.entries() {
        match &mut session {
            None => session = Some(Session::created(&created, entry.at)),
            Some(session) => {
                if session.account.branch != branch {
                    session.enter(branch);
                }
                session.apply(&entry.event, entry.at);
            }
        }
    }
    session.unwrap()
}

fn keep(store: &Store, session: &Session) {
    store.journal().keep_snapshot(Snapshot::new(session.account.branch, session.account.head, session.to_snapshot()));
}

fn seqs(line: &StoredLineage) -> Vec<(BranchId, u64)> {
    line.entries().map(|(branch, Entry { seq, .. })| (branch, seq.0)).collect()
}

/// A session of about 40 entries, and its state.
fn filled(store: &Store) -> (Script, Session) {
    let mut script = Script::new(1);
    store.append(script.begin()).unwrap();
    let (mut events, bodies) = every_other_kind();
    events.retain(|event| event.progress().is_none());
    store.append(script.batch(events, bodies)).unwrap();
    let session = state(&script, &store.journal().history(script.branch).unwrap());
    assert_eq!(session.account.head, Seq(script.seq));
    (script, session)
}

fn r11_a_line_starts_at_the_newest_snapshot(store: &mut Store) {
    let (mut script, session) = filled(store);
    let branch = script.branch;
    assert_eq!(store.journal().snapshots(branch).unwrap(), []);
    assert_eq!(store.journal().snapshot(branch, session.account.head).unwrap(), None);
    keep(store, &session);
    store.append(script.batch(vec![retracted(1), retracted(2)], vec![])).unwrap();
    store.reopen();

    let kept = Snapshot::new(branch, session.account.head, session.to_snapshot());
    assert_eq!(store.journal().snapshot(branch, session.account.head).unwrap(), Some(kept.clone()));
    let line = store.journal().line(branch).unwrap();
    let start = line.start.as_ref().unwrap();
    assert_eq!((&start.session, start.bytes), (&session, kept.content.len() as u64));
    assert_eq!(seqs(&line), [(branch, session.account.head.0 + 1), (branch, session.account.head.0 + 2)]);

    let newer = state(&script, &line);
    keep(store, &newer);
    store.append(script.batch(vec![retracted(3)], vec![])).unwrap();
    assert_eq!(store.journal().snapshots(branch).unwrap(), [newer.account.head], "only the newest is kept");
    let line = store.journal().line(branch).unwrap();
    assert_eq!(line.start.as_ref().map(|start| &start.session), Some(&newer));
    assert_eq!(seqs(&line), [(branch, newer.account.head.0 + 1)]);
    assert_eq!(store.journal().history(branch).unwrap().start, None);
}

fn r11_the_fold_from_a_snapshot_is_the_fold_of_everything(store: &mut Store) {
    let (mut script, session) = filled(store);
    keep(store, &session);
    store.append(script.batch(vec![retracted(1), text_added(9, 0, "open")], vec![])).unwrap();
    store.reopen();
    let (line, all) = (store.journal().line(script.branch).unwrap(), store.journal().history(script.branch).unwrap());
    assert_eq!(state(&script, &line).to_snapshot(), state(&script, &all).to_snapshot());
    assert_eq!(line.progress, all.progress);
    assert_eq!(line.progress.len(), 1);
    assert_eq!(store.journal().line(BranchId(id(5))).unwrap().entries().count(), 0);
}

fn r11_a_snapshot_of_an_entry_that_is_not_there_is_left_out(store: &mut Store) {
    let (mut script, session) = filled(store);
    let content = session.to_snapshot();
    for (branch, seq) in [(script.branch, session.account.head.0 + 1), (BranchId(id(5)), session.account.head.0)] {
        store.journal().keep_snapshot(Snapshot::new(branch, Seq(seq), content.clone()));
    }
    store.append(script.batch(vec![retracted(1)], vec![])).unwrap();
    assert_eq!(store.journal().snapshots(script.branch).unwrap(), []);
    assert_eq!(store.journal().snapshots(BranchId(id(5))).unwrap(), []);
}

fn r11_a_snapshot_of_another_version_counts_as_absent(store: &mut Store) {
    let (mut script, session) = filled(store);
    let newer = br#"{"version":900,"session":{}}"#;
    store.journal().keep_snapshot(Snapshot::new(script.branch, session.account.head, &newer[..]));
    store.append(script.batch(vec![retracted(1)], vec![])).unwrap();
    assert_eq!(store.journal().snapshots(script.branch).unwrap(), [session.account.head]);
    let line = store.journal().line(script.branch).unwrap();
    assert_eq!((line.start.is_none(), line.entries().count() as u64), (true, script.seq));
}

fn r11_a_snapshot_that_does_not_decode_is_an_error(store: &mut Store) {
    let (mut script, session) = filled(store);
    let mut strange = session.clone();
    strange.account.head = Seq(3);
    let strange = strange.to_snapshot();
    for content in [b"{}".to_vec(), strange] {
        store.journal().keep_snapshot(Snapshot::new(script.branch, session.account.head, content));
        store.append(script.batch(vec![retracted(1)], vec![])).unwrap();
        let error = store.journal().line(script.branch).unwrap_err();
        let Error::DamagedSnapshot { branch, seq, .. } = &error else { panic!("{error}") };
        assert_eq!((*branch, *seq), (script.branch, session.account.head));
    }
    assert_eq!(store.journal().history(script.branch).unwrap().entries().count() as u64, script.seq);
}

/// A branch that forks off another at this entry.
fn fork(store: &Store, script: &Script, at: Seq) -> Script {
    let parent = script.branch;
    let hash = store.journal().range(parent, at, at).unwrap().remove(0).chain;
    let mut fork = Script { branch: BranchId(id(6)), seq: 0, ..script.clone() };
    store.append(fork.batch(vec![Forked { parent, at, hash }.into(), retracted(3)], vec![])).unwrap();
    fork
}

fn r17_the_line_of_a_fork_begins_in_its_parent(store: &mut Store) {
    let (script, session) = filled(store);
    keep(store, &session);
    let child = fork(store, &script, Seq(5));
    store.reopen();
    let line = store.journal().line(child.branch).unwrap();
    let mut wanted: Vec<_> = (1..=5).map(|seq| (script.branch, seq)).collect();
    wanted.extend([(child.branch, 1), (child.branch, 2)]);
    assert_eq!(seqs(&line), wanted);
    assert_eq!(line, store.journal().history(child.branch).unwrap());
    let forked = state(&script, &line);
    assert_eq!((forked.account.branch, forked.account.head), (child.branch, Seq(2)));
    assert_eq!(forked.account.messages.len(), 1, "what was before the fork belongs to the session");
}

fn r17_the_line_of_a_fork_starts_at_a_snapshot_before_the_fork_only(store: &mut Store) {
    let (mut script, session) = filled(store);
    keep(store, &session);
    store.append(script.batch(vec![retracted(1), retracted(2)], vec![])).unwrap();
    let child = fork(store, &script, Seq(session.account.head.0 + 1));
    let line = store.journal().line(child.branch).unwrap();
    assert_eq!(line.start.as_ref().map(|start| &start.session), Some(&session));
    assert_eq!(seqs(&line), [(script.branch, session.account.head.0 + 1), (child.branch, 1), (child.branch, 2)]);

    let whole = state(&script, &line);
    keep(store, &whole);
    store.reopen();
    let line = store.journal().line(child.branch).unwrap();
    assert_eq!((state(&script, &line), seqs(&line)), (whole, vec![]));
}

fn r10_a_result_seals_the_output_of_every_try(store: &mut Store) {
    let mut script = Script::new(1);
    store.append(script.begin()).unwrap();
    let of_try = |ordinal, try_no| EffectId { try_no, ..effect(EffectKind::RunCall, ordinal) };
    let output = |effect| Event::from(OutputAdded { effect, offset: 0, text: "output".to_owned() });
    let efforts = [(1, 1), (1, 2), (1, 10), (2, 1), (11, 1)].map(|(ordinal, try_no)| of_try(ordinal, try_no));
    store.append(script.batch(efforts.map(output).to_vec(), vec![])).unwrap();
    let (event, body) = settled(of_try(1, 10));
    store.append(script.batch(vec![event], vec![body])).unwrap();
    let left = |records: Vec<engine::Record>| -> Vec<EffectId> {
        records.iter().filter_map(|record| record.event.progress()).map(|(effect, _)| effect).collect()
    };
    assert_eq!(left(store.journal().progress(script.branch).unwrap()), efforts[3..]);
    assert_eq!(left(store.journal().tail(script.branch, Seq(1)).unwrap().progress), efforts[3..]);
    store.reopen();
    assert_eq!(left(store.journal().line(script.branch).unwrap().progress), efforts[3..]);
}
