//! The views, which lists are made of.

use engine::tables::lifecycle::LifecycleKind;
use engine::{Batch, Outcome, Position, RunId, RunRow, Seq, SessionRow, Timestamp};

use super::samples::{approval_row, receipt_row, retracted, run, run_row, sealed, session_row, text_added};
use super::{Script, Store, both, id};
use crate::{HomeEntry, Open};

both! {
    r11_unfinished_sessions_are_known_without_reading_any_branch
    r10_runs_receipts_and_approvals_read_back_and_change
    r10_a_run_under_way_is_in_the_state_that_its_session_is_in
    r43_the_last_entry_of_a_branch_is_its_own
    r22_a_page_of_a_list_holds_the_last_rows_before_one
    r43_a_page_holds_what_follows_a_position_over_all_sessions_in_commit_order
    r11_the_latest_time_is_that_of_the_last_entry_or_of_later_progress
}

fn r22_a_page_of_a_list_holds_the_last_rows_before_one(store: &mut Store) {
    let mut scripts: Vec<Script> = (1..=4).map(Script::new).collect();
    for (n, script) in scripts.iter_mut().enumerate() {
        let mut batch = script.begin();
        batch.views.session = Some(session_row(script, false));
        // Not in the order of their ids.
        batch.views.runs = vec![run_row(script, RunId(id(90 - n as u128)), Some(Outcome::Completed))];
        batch.views.receipts = vec![receipt_row(script, 70 + n as u128, None)];
        store.append(batch).unwrap();
    }
    let journal = store.journal();
    let (sessions, runs) = (journal.sessions().unwrap(), journal.runs(None).unwrap());
    assert_eq!((sessions.len(), runs.len()), (4, 4));
    assert_eq!(journal.sessions_before(None, 2).unwrap(), sessions[2..]);
    assert_eq!(journal.sessions_before(Some(sessions[2].session), 9).unwrap(), sessions[..2]);
    assert_eq!(journal.sessions_before(Some(sessions[3].session), 1).unwrap(), sessions[2..3]);
    assert_eq!(journal.sessions_before(Some(sessions[0].session), 9).unwrap(), []);
    assert_eq!(journal.runs_before(None, None, 3).unwrap(), runs[1..]);
    assert_eq!(journal.runs_before(None, Some(runs[1].run), 3).unwrap(), runs[..1]);
    assert_eq!(journal.runs_before(Some(sessions[1].session), None, 3).unwrap(), runs[1..2]);
    assert_eq!(journal.runs_before(Some(sessions[1].session), Some(runs[1].run), 3).unwrap(), []);
    let receipt = receipt_row(&scripts[2], 72, None);
    assert_eq!(journal.receipt(receipt.message).unwrap(), Some(receipt));
    assert_eq!(journal.receipt(engine::MessageId(id(3))).unwrap(), None);
}

fn r43_the_last_entry_of_a_branch_is_its_own(store: &mut Store) {
    let (mut one, mut two) = (Script::new(1), Script::new(2));
    assert_eq!(store.journal().last(one.branch).unwrap(), Seq(0));
    let begun = one.begin();
    let last = begun.records.last().unwrap().seq.unwrap();
    store.append(begun).unwrap();
    store.append(two.begin()).unwrap();
    store.append(one.batch(vec![text_added(1, 0, "ab")], vec![])).unwrap();
    assert_eq!(store.journal().last(one.branch).unwrap(), last, "progress is no entry");
    store.append(one.batch(vec![retracted(1)], vec![])).unwrap();
    store.reopen();
    assert_eq!(store.journal().last(one.branch).unwrap(), Seq(last.0 + 1));
    assert_eq!(store.journal().last(two.branch).unwrap(), last);
}

fn r43_a_page_holds_what_follows_a_position_over_all_sessions_in_commit_order(store: &mut Store) {
    let (mut one, mut two) = (Script::new(1), Script::new(2));
    store.append(one.begin()).unwrap();
    store.append(two.begin()).unwrap();
    store.append(one.batch(vec![text_added(2, 0, "a"), text_added(10, 0, "b")], vec![])).unwrap();
    store.append(one.batch(vec![retracted(1), retracted(1)], vec![])).unwrap();
    store.append(two.batch(vec![retracted(1)], vec![])).unwrap();
    let first = store.journal().epoch();
    store.reopen();
    let next = store.journal().epoch();
    store.append(one.batch(vec![retracted(1)], vec![])).unwrap();

    let journal = store.journal();
    let read = |behind: u64, limit: usize| {
        let page = journal.page(Position(behind), limit).unwrap();
        let place = |HomeEntry { position, epoch, branch, entry }: HomeEntry| {
            let entry = entry.unwrap();
            assert_eq!((entry.position, entry.epoch), (position, epoch));
            let place = (position.0, branch, entry.seq.0, epoch);
            assert_eq!(journal.range(branch, entry.seq, entry.seq).unwrap(), [entry]);
            place
        };
        (page.entries.into_iter().map(place).collect::<Vec<_>>(), page.open)
    };
    let (a, b) = (one.branch, two.branch);
    let all =
        [(1, a, 1, first), (2, b, 1, first), (3, a, 2, first), (4, a, 3, first), (5, b, 2, first), (6, a, 4, next)];
    let progress = journal.progress(a).unwrap();
    assert_eq!(progress.len(), 2);
    let open = vec![Open { branch: a, head: (Seq(4), next), progress }];
    for behind in 0..=6 {
        assert_eq!(read(behind as u64, 100), (all[behind..].to_vec(), Some(open.clone())), "behind {behind}");
    }
    assert_eq!(read(0, 2), (all[..2].to_vec(), None));
    assert_eq!(read(2, 4), (all[2..].to_vec(), None), "more may follow a page that is full");
    assert_eq!(read(9, 4), (vec![], Some(open)));

    // Sealed progress is no longer open.
    let body = super::samples::text("ab");
    store.append(one.batch(vec![sealed(2, body.body), sealed(10, body.body)], vec![body])).unwrap();
    assert_eq!(store.journal().page(Position(6), 100).unwrap().open, Some(vec![]));
}

fn r11_the_latest_time_is_that_of_the_last_entry_or_of_later_progress(store: &mut Store) {
    let latest = |store: &Store| store.journal().latest().unwrap();
    assert_eq!(latest(store), Timestamp::default());
    let (mut one, mut two) = (Script::new(1), Script::new(2));
    let at = |mut batch: Batch, at: i64| {
        batch.records.iter_mut().for_each(|record| record.at = Timestamp(at));
        batch
    };
    store.append(at(one.begin(), 70)).unwrap();
    store.append(at(two.begin(), 40)).unwrap();
    assert_eq!(latest(store), Timestamp(40), "times are read in the order of the home");
    store.append(at(one.batch(vec![text_added(1, 0, "ab")], vec![]), 90)).unwrap();
    store.reopen();
    assert_eq!(latest(store), Timestamp(90));
}

fn r11_unfinished_sessions_are_known_without_reading_any_branch(store: &mut Store) {
    let (mut one, mut two) = (Script::new(1), Script::new(2));
    for (script, unfinished) in [(&mut one, true), (&mut two, false)] {
        let mut batch = script.begin();
        batch.views.session = Some(session_row(script, unfinished));
        store.append(batch).unwrap();
    }
    store.reopen();
    let (first, second) = (session_row(&one, true), session_row(&two, false));
    assert_eq!(store.journal().sessions().unwrap(), [first.clone(), second.clone()]);
    assert_eq!(store.journal().unfinished().unwrap(), std::slice::from_ref(&first));
    assert_eq!(store.journal().session(&two.key).unwrap(), Some(second));
    assert_eq!(store.journal().session("agent:main:none").unwrap(), None);

    let mut batch = one.batch(vec![retracted(1)], vec![]);
    batch.views.session = Some(session_row(&one, false));
    store.append(batch).unwrap();
    assert_eq!(store.journal().unfinished().unwrap(), []);
    assert_eq!(store.journal().sessions().unwrap()[0], session_row(&one, false));
    assert_eq!(store.journal().held().unwrap(), []);

    // A session that a human must repair is listed in the same way, and is not resumed.
    let row = SessionRow { lifecycle: LifecycleKind::Error, ..session_row(&two, false) };
    let mut batch = two.batch(vec![retracted(1)], vec![]);
    batch.views.session = Some(row.clone());
    store.append(batch).unwrap();
    assert_eq!(store.journal().held().unwrap(), [row]);
    assert_eq!(store.journal().unfinished().unwrap(), []);
    let branches = [(one.branch, one.session), (two.branch, two.session)];
    assert_eq!(store.journal().branches().unwrap(), branches);
}

fn r10_runs_receipts_and_approvals_read_back_and_change(store: &mut Store) {
    let (mut one, mut two) = (Script::new(1), Script::new(2));
    let other = RunId(id(5));
    let mut batch = one.begin();
    batch.views.runs = vec![run_row(&one, run(), None)];
    batch.views.receipts = vec![receipt_row(&one, 77, Some("k")), receipt_row(&one, 60, None)];
    batch.views.approvals = vec![approval_row(&one, 0, None), approval_row(&one, 1, None)];
    store.append(batch).unwrap();
    let mut batch = two.begin();
    batch.views.session = Some(session_row(&two, false));
    batch.views.runs = vec![run_row(&two, other, None)];
    batch.views.receipts = vec![receipt_row(&two, 5, Some("k"))];
    batch.views.approvals = vec![approval_row(&two, 2, None)];
    store.append(batch).unwrap();
    let mut batch = one.batch(vec![retracted(1)], vec![]);
    batch.views.runs = vec![run_row(&one, run(), Some(Outcome::Completed))];
    batch.views.approvals = vec![approval_row(&one, 0, Some(true))];
    store.append(batch).unwrap();
    store.reopen();

    let journal = store.journal();
    let ended = run_row(&one, run(), Some(Outcome::Completed));
    assert_eq!(journal.runs(None).unwrap(), [ended.clone(), run_row(&two, other, None)]);
    assert_eq!(journal.runs(Some(one.session)).unwrap(), std::slice::from_ref(&ended));
    assert_eq!(journal.run(run()).unwrap(), Some(ended));
    assert_eq!(journal.run(RunId(id(6))).unwrap(), None);
    assert_eq!(journal.session_of_run(other).unwrap(), Some(session_row(&two, false)));
    assert_eq!(journal.session_of_run(RunId(id(6))).unwrap(), None);
    let receipts = [receipt_row(&one, 77, Some("k")), receipt_row(&one, 60, None)];
    assert_eq!(journal.receipts(one.session).unwrap(), receipts);
    let by_key = |script: &Script, key| journal.receipt_by_key(script.session, key).unwrap();
    assert_eq!(by_key(&one, "k"), Some(receipts[0].clone()));
    assert_eq!(by_key(&two, "k"), Some(receipt_row(&two, 5, Some("k"))));
    assert_eq!(by_key(&two, "other"), None);
    assert_eq!(journal.approvals(None).unwrap(), [approval_row(&one, 1, None), approval_row(&two, 2, None)]);
    assert_eq!(journal.approvals(Some(two.session)).unwrap(), [approval_row(&two, 2, None)]);
    let closed = approval_row(&one, 0, Some(true));
    assert_eq!(journal.closed_approvals().unwrap(), std::slice::from_ref(&closed));
    assert_eq!(journal.closed_approval_calls().unwrap(), [closed.call]);
    assert_eq!(journal.approval(closed.call).unwrap(), Some(closed.clone()));
    assert_eq!(journal.approval(approval_row(&one, 7, None).call).unwrap(), None);
    let before = |session, before, limit| journal.closed_approvals_before(session, before, limit).unwrap();
    assert_eq!(before(None, None, 9), std::slice::from_ref(&closed));
    assert_eq!(before(Some(one.session), None, 1), std::slice::from_ref(&closed));
    assert_eq!(before(Some(two.session), None, 9), []);
    assert_eq!(before(None, Some(closed.call), 9), []);
    assert_eq!(before(None, Some(approval_row(&two, 2, None).call), 9), std::slice::from_ref(&closed));
    assert_eq!(before(None, None, 0), []);
}

fn r10_a_run_under_way_is_in_the_state_that_its_session_is_in(store: &mut Store) {
    let mut script = Script::new(1);
    let mut batch = script.begin();
    let (started, other) = (run_row(&script, run(), None), run_row(&script, RunId(id(5)), None));
    batch.views.runs = vec![started.clone(), other.clone()];
    store.append(batch).unwrap();
    let mut batch = script.batch(vec![retracted(1)], vec![]);
    batch.views.session = Some(session_row(&script, true));
    store.append(batch).unwrap();
    let streaming = RunRow { state: session_row(&script, true).run_state, ..started.clone() };
    assert_ne!(streaming, started);
    assert_eq!(store.journal().runs(None).unwrap(), [streaming.clone(), other]);
    assert_eq!(store.journal().run(run()).unwrap(), Some(streaming));
}
