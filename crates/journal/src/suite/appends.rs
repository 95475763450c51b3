//! What an append stores, and what it refuses.

use std::collections::BTreeSet;

use engine::{BranchId, EffectKind, Epoch, Event, Forked, Hash, OutputAdded, Position, Record, Seq};

use super::samples::{
    accepted, effect, every_other_kind, retracted, run, run_row, sealed, session_row, text, text_added,
};
use super::{Script, Store, append, both, id};
use crate::{Error, Kind};

both! {
    r10_every_kind_of_event_reads_back
    r10_a_refused_append_leaves_nothing_and_the_next_one_is_kept
    r10_an_entry_never_names_a_body_that_is_not_kept
    r10_progress_is_kept_until_the_entry_that_seals_it
    r10_progress_is_ordered_by_number_and_never_kept_twice
    r18_entries_are_gapless_in_their_branch
    r18_the_chain_follows_the_format
    r18_a_fork_continues_the_chain_of_its_parent
    a_branch_begins_once_and_with_its_beginning
    only_the_owner_appends
}

fn r10_every_kind_of_event_reads_back(store: &mut Store) {
    let mut script = Script::new(1);
    let first = script.begin();
    let (events, bodies) = every_other_kind();
    let kinds: BTreeSet<_> = events.iter().map(Event::kind).chain(["created", "forked", "ledger_begun"]).collect();
    assert_eq!(kinds, Event::KINDS.iter().copied().collect(), "a kind is missing from the samples");

    let all = script.batch(events, bodies);
    let wanted: Vec<Record> = first.records.iter().chain(&all.records).cloned().collect();
    assert_eq!(store.append(first), Ok(Position(1)));
    assert_eq!(store.append(all), Ok(Position(script.seq)));
    store.reopen();

    let tail = store.journal().tail(script.branch, Seq(0)).unwrap();
    let (entries, progress): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|record| record.seq.is_some());
    let read = |e: &crate::Entry| Record { seq: Some(e.seq), at: e.at, event: e.event.clone() };
    assert_eq!(tail.entries.iter().map(read).collect::<Vec<_>>(), entries);
    assert_eq!(tail.progress, progress);
    assert_eq!(store.journal().read(script.branch, Seq(30)).unwrap(), tail.entries[29..]);
    assert_eq!(store.journal().read(script.branch, Seq(900)).unwrap(), []);
    assert_eq!(store.journal().head(), Ok(Position(script.seq)));
}

fn r10_a_refused_append_leaves_nothing_and_the_next_one_is_kept(store: &mut Store) {
    let mut script = Script::new(1);
    store.append(script.begin()).unwrap();
    let (body, unkept) = (text("kept with it"), text("not kept"));
    let before = script.clone();
    let events = vec![text_added(1, 0, "x"), accepted(body.body), accepted(unkept.body)];
    let mut batch = script.batch(events, vec![body.clone()]);
    batch.views.session = Some(session_row(&script, true));
    batch.views.runs = vec![run_row(&script, run(), None)];
    let refused = store.append(batch).unwrap_err();
    assert_eq!(refused, Error::MissingBody { branch: script.branch, hash: unkept.body.hash });
    assert!(refused.is_refusal());

    let journal = store.journal();
    assert_eq!(journal.head(), Ok(Position(1)));
    assert_eq!(journal.read(script.branch, Seq(2)).unwrap(), []);
    assert_eq!(journal.progress(script.branch).unwrap(), []);
    assert_eq!(journal.body(&body.body.hash), Ok(None));
    assert_eq!(journal.sessions().unwrap(), []);
    assert_eq!(journal.runs(None).unwrap(), []);
    let mut script = before;
    assert_eq!(store.append(script.batch(vec![accepted(body.body)], vec![body])), Ok(Position(2)));
}

fn r10_an_entry_never_names_a_body_that_is_not_kept(store: &mut Store) {
    let mut script = Script::new(1);
    let body = text(&"packs well, packs badly; ".repeat(1000));
    store.append(script.begin()).unwrap();
    let unnamed = script.clone().batch(vec![accepted(body.body)], vec![]);
    let missing = Error::MissingBody { branch: script.branch, hash: body.body.hash };
    assert_eq!(store.append(unnamed), Err(missing.clone()));
    store.append(script.batch(vec![accepted(body.body)], vec![body.clone(), body.clone()])).unwrap();
    // It is stored once; from now on any session may name it, and appending it again changes nothing.
    let mut other = Script::new(2);
    store.append(other.begin()).unwrap();
    store.append(other.batch(vec![accepted(body.body)], vec![])).unwrap();
    store.append(other.batch(vec![retracted(1)], vec![body.clone()])).unwrap();
    assert_eq!(store.journal().body(&body.body.hash).unwrap().as_deref(), Some(&*body.bytes));
    assert_eq!(store.journal().body(&Hash::of(b"never")).unwrap(), None);
}

fn r10_progress_is_kept_until_the_entry_that_seals_it(store: &mut Store) {
    let mut script = Script::new(1);
    store.append(script.begin()).unwrap();
    assert_eq!(store.append(script.batch(vec![text_added(1, 0, "Hello, ")], vec![])), Ok(Position(1)));
    let other = OutputAdded { effect: effect(EffectKind::RunCall, 1), offset: 0, text: "other".to_owned() };
    let batch = script.batch(vec![text_added(1, 7, "world"), other.into()], vec![]);
    let open = batch.records.clone();
    store.append(batch).unwrap();
    store.reopen();
    let progress = store.journal().progress(script.branch).unwrap();
    assert_eq!(progress[1..], open);

    let body = text("Hello, world");
    store.append(script.batch(vec![sealed(1, body.body)], vec![body])).unwrap();
    assert_eq!(store.journal().progress(script.branch).unwrap(), open[1..]);

    // The same within one append, which seals only the stream that it ends.
    let body = text("at once");
    let events = vec![text_added(2, 0, "at "), text_added(3, 0, "x"), text_added(2, 3, "once"), sealed(2, body.body)];
    let batch = script.batch(events, vec![body]);
    let still = [batch.records[1].clone(), open[1].clone()];
    store.append(batch).unwrap();
    assert_eq!(store.journal().progress(script.branch).unwrap(), still);
}

fn r10_progress_is_ordered_by_number_and_never_kept_twice(store: &mut Store) {
    let mut script = Script::new(1);
    store.append(script.begin()).unwrap();
    let batch = script.batch(vec![text_added(10, 0, "c"), text_added(2, 9, "b"), text_added(2, 0, "a")], vec![]);
    store.append(batch).unwrap();
    let place = |record: &Record| record.event.progress().map(|(effect, offset)| (effect.ordinal, offset));
    let places: Vec<_> = store.journal().progress(script.branch).unwrap().iter().filter_map(place).collect();
    assert_eq!(places, [(2, 0), (2, 9), (10, 0)]);

    let twice = store.append(script.batch(vec![text_added(2, 9, "other")], vec![])).unwrap_err();
    assert!(matches!(twice, Error::Constraint { .. }), "{twice}");
    let twice = store.append(script.batch(vec![text_added(3, 0, "x"), text_added(3, 0, "y")], vec![])).unwrap_err();
    assert!(matches!(twice, Error::Constraint { .. }), "{twice}");
    assert_eq!(store.journal().progress(script.branch).unwrap().len(), 3);
}

fn r18_entries_are_gapless_in_their_branch(store: &mut Store) {
    let mut script = Script::new(1);
    store.append(script.begin()).unwrap();
    store.append(script.batch(vec![retracted(1), retracted(2)], vec![])).unwrap();
    for wrong in [1, 3, 5, 8] {
        let batch = Script { seq: wrong - 1, ..script.clone() }.batch(vec![retracted(3)], vec![]);
        let gap = Error::Gap { branch: script.branch, expected: Seq(4), found: Some(Seq(wrong)) };
        assert_eq!(store.append(batch), Err(gap));
    }
    let mut batch = script.clone().batch(vec![retracted(3)], vec![]);
    batch.records[0].seq = None;
    assert_eq!(store.append(batch), Err(Error::Gap { branch: script.branch, expected: Seq(4), found: None }));
    assert_eq!(store.append(script.batch(vec![retracted(3)], vec![])), Ok(Position(4)));
}

/// The formula again, from the page and not from the code.
fn chain(previous: &[u8; 32], branch: BranchId, entry: &crate::Entry) -> [u8; 32] {
    let mut bytes = previous.to_vec();
    bytes.extend(branch.0.as_bytes());
    bytes.extend(entry.seq.0.to_le_bytes());
    bytes.extend(entry.epoch.0.to_le_bytes());
    bytes.extend(entry.at.0.to_le_bytes());
    bytes.extend(entry.event.kind().as_bytes());
    bytes.extend([0, 1, 0]);
    bytes.extend(blake3::hash(&entry.event.payload()).as_bytes());
    *blake3::hash(&bytes).as_bytes()
}

fn r18_the_chain_follows_the_format(store: &mut Store) {
    let mut script = Script::new(1);
    store.append(script.begin()).unwrap();
    let (events, bodies) = every_other_kind();
    store.append(script.batch(events, bodies)).unwrap();
    store.reopen();
    store.append(script.batch(vec![retracted(1)], vec![])).unwrap();

    let entries = store.journal().read(script.branch, Seq(1)).unwrap();
    let mut previous = [0; 32];
    for (n, entry) in (1..).zip(&entries) {
        assert_eq!(entry.seq, Seq(n));
        assert_eq!(entry.position, Position(n));
        assert_eq!(entry.payload_hash.0, *blake3::hash(&entry.event.payload()).as_bytes());
        previous = chain(&previous, script.branch, entry);
        assert_eq!(entry.chain, Hash(previous), "{}", entry.event.kind());
    }
    assert_eq!(entries[0].epoch, Epoch(1));
    assert_eq!(entries.last().map(|entry| entry.epoch), Some(Epoch(2)));
}

fn r18_a_fork_continues_the_chain_of_its_parent(store: &mut Store) {
    let mut script = Script::new(1);
    store.append(script.begin()).unwrap();
    store.append(script.batch(vec![retracted(1), retracted(2)], vec![])).unwrap();
    let parent = script.branch;
    let at = store.journal().read(parent, Seq(2)).unwrap().remove(0);
    let fork = |n, at, hash| {
        let mut fork = Script { branch: BranchId(id(n)), seq: 0, ..script.clone() };
        let batch = fork.batch(vec![Forked { parent, at, hash }.into(), retracted(3)], vec![]);
        (fork, batch)
    };
    for (seq, hash) in [(Seq(2), Hash([7; 32])), (Seq(9), at.chain), (Seq(3), at.chain)] {
        let unknown = Error::UnknownParent { parent, at: seq };
        assert_eq!(store.append(fork(5, seq, hash).1), Err(unknown));
    }
    let (child, batch) = fork(6, Seq(2), at.chain);
    assert_eq!(store.append(batch), Ok(Position(5)));
    let entries = store.journal().read(child.branch, Seq(1)).unwrap();
    let first = chain(&at.chain.0, child.branch, &entries[0]);
    assert_eq!(entries[0].chain, Hash(first));
    assert_eq!(entries[1].chain, Hash(chain(&first, child.branch, &entries[1])));
    assert_eq!(store.journal().read(child.branch, Seq(2)).unwrap(), entries[1..]);
    assert_eq!(store.journal().read(parent, Seq(1)).unwrap().len(), 3);
}

fn a_branch_begins_once_and_with_its_beginning(store: &mut Store) {
    let mut script = Script::new(1);
    let unknown = Err(Error::UnknownBranch { branch: script.branch });
    assert_eq!(store.append(script.clone().batch(vec![retracted(1)], vec![])), unknown);
    assert_eq!(store.append(script.clone().batch(vec![text_added(1, 0, "x")], vec![])), unknown);
    let taken = Err(Error::BranchTaken { branch: script.branch });
    let strange = Script { session: Script::new(2).session, ..script.clone() }.created();
    assert_eq!(store.append(script.clone().batch(vec![strange], vec![])), taken);

    let created = script.created();
    store.append(script.begin()).unwrap();
    assert_eq!(store.append(script.clone().batch(vec![created], vec![])), taken);
    let mut same_key = Script { key: script.key.clone(), ..Script::new(2) };
    assert_eq!(store.append(same_key.begin()), Err(Error::KeyTaken { key: script.key.clone() }));
    let mut same_session = Script { session: script.session, ..Script::new(3) };
    assert!(matches!(store.append(same_session.begin()), Err(Error::Constraint { .. })));
    assert_eq!(store.journal().read(Script::new(2).branch, Seq(1)).unwrap(), []);
}

fn only_the_owner_appends(store: &mut Store) {
    let mut script = Script::new(1);
    let old = store.journal().epoch();
    store.append(script.begin()).unwrap();
    store.reopen();
    let owner = store.journal().epoch();
    assert_eq!(owner, Epoch(old.0 + 1));
    let late = append(store.journal(), old, script.clone().batch(vec![retracted(1)], vec![])).unwrap_err();
    assert_eq!(late, Error::Fenced { epoch: old, owner });
    assert_eq!(late.kind(), Kind::Owned);
    assert_eq!(store.append(script.batch(vec![retracted(1)], vec![])), Ok(Position(2)));
}
