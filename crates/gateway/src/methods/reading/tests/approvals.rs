//! Lists of many approval requests.

use std::collections::BTreeSet;

use engine::{AnswerForm, ApprovalRow, CallId, Hash, Timestamp};
use journal::Read as _;
use protocol::method::{ApprovalParams, ApprovalsListParams};
use views::approvals::id;

use super::*;

const OPEN: u32 = 1_000;
const CLOSED: u32 = 10_000;

/// A session with so many requests of one run, open and closed; every tenth of the closed is a question, every seventh was allowed
/// by a grant.
fn many() -> Scene {
    let mut scene = Scene::new();
    scene.start("look around");
    let run = scene.journal.runs(None).unwrap()[0].run;
    let session = scene.journal.sessions().unwrap()[0].clone();
    let row = |index: u32| {
        let call = CallId { run, step: 1, index };
        let open = ApprovalRow::open(call, session.session, format!("do {index}"), Timestamp(i64::from(index)));
        let row = ApprovalRow { fingerprint: Some(Hash::of(b"x")), tool: Some("exec".to_owned()), ..open };
        if index >= CLOSED {
            return row;
        }
        let row = ApprovalRow { takes: index.is_multiple_of(10).then_some(AnswerForm::Text), ..row };
        let row = ApprovalRow { grant: index.is_multiple_of(7).then_some(call), ..row };
        row.closed(true, Timestamp(i64::from(index) + 1))
    };
    scene.add_approvals((0..CLOSED + OPEN).map(row).collect());
    scene
}

fn list(scene: &Scene, closed: bool, after: Option<String>) -> (Vec<String>, Option<String>) {
    let params = ApprovalsListParams { session: None, closed, limit: Some(50), after };
    let listed = ApprovalsList::read(&Source::of(&scene.journal), params).unwrap();
    (listed.approvals.into_iter().map(|shown| shown.call.to_string()).collect(), listed.next)
}

/// R60: a thousand open requests, and ten thousand closed ones, are listed in pages without a gap and without one twice.
#[test]
fn r60_many_requests_are_listed_in_pages() {
    let scene = many();
    for (closed, expected) in
        [(false, OPEN as usize), (true, (0..CLOSED).filter(|i| i % 10 != 0 && i % 7 != 0).count())]
    {
        let (mut seen, mut after, mut pages) = (BTreeSet::new(), None, 0);
        loop {
            let (page, next) = list(&scene, closed, after);
            assert!(page.len() == 50 || next.is_none());
            pages += 1;
            let before = seen.len();
            seen.extend(page.iter().cloned());
            assert_eq!(seen.len(), before + page.len(), "none is listed twice");
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((seen.len(), pages), (expected, expected.div_ceil(50)), "closed: {closed}");
    }
}

/// R60: one of many is found by its id, by the beginning of that, and by its call, whether it is open or closed.
#[test]
fn r60_one_of_many_requests_is_found() {
    let scene = many();
    let run = scene.journal.runs(None).unwrap()[0].run;
    for index in [1, 9_999, CLOSED, CLOSED + OPEN - 1] {
        let call = CallId { run, step: 1, index };
        for text in [id(call), call.to_string(), id(call)[..11].to_owned()] {
            let shown = ApprovalsShow::read(&Source::of(&scene.journal), ApprovalParams { id: text.clone() }).unwrap();
            assert_eq!(shown.call, call, "{text}");
        }
    }
    for (index, why) in [(7, "a grant answers nothing"), (10, "a question"), (CLOSED + OPEN, "no such call")] {
        let id = CallId { run, step: 1, index }.to_string();
        assert!(ApprovalsShow::read(&Source::of(&scene.journal), ApprovalParams { id }).is_err(), "{why}");
    }
}
