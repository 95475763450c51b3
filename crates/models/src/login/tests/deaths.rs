//! Ends a process after each operation of a refresh, and checks what the next process finds, does and reports.

use std::cell::Cell;
use std::panic;

use super::*;

thread_local! {
    /// Operations until this thread's process dies; none = it lives.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The panic payload with which a process dies: nothing after it happens, and its locks are released.
struct Died;

pub(in crate::login) fn step() {
    let Some(left) = LEFT.get() else { return };
    // A dead process stays dead.
    LEFT.set(Some(left.saturating_sub(1)));
    if left == 0 {
        panic::resume_unwind(Box::new(Died));
    }
}

/// Twenty sessions of one process request a token; the process dies after this many operations. Returns the result of
/// each.
fn sessions(login: &Login, dies_after: Option<u32>) -> Vec<Result<String, Fault>> {
    LEFT.set(dies_after);
    let results = process().block_on(async {
        let logins = Logins::default();
        let want = |_| {
            let (logins, login) = (logins.clone(), login.clone());
            tokio::spawn(async move { logins.token(&login).await.map(|token| token.reveal().to_owned()) })
        };
        let wanted: Vec<_> = (0..20).map(want).collect();
        let mut results = vec![];
        for one in wanted {
            results.push(one.await.unwrap());
        }
        results
    });
    LEFT.set(None);
    results
}

/// A token server in its own thread, which survives the processes.
fn server() -> Server {
    let (started, server) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        process().block_on(async {
            started.send(Server::start(Says::Grants).await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    server.recv().unwrap()
}

#[track_caller]
fn all_have(results: &[Result<String, Fault>], token: &str) {
    assert!(results.iter().all(|one| one.as_ref().is_ok_and(|had| had == token)), "{results:?}");
}

#[test]
fn r50_r10_after_a_crash_anywhere_in_a_refresh_the_next_process_asks_once_and_reports_a_loss() {
    let (mut lost, mut kept, mut not_sent) = (0, 0, 0);
    for dies_after in 0.. {
        let server = server();
        let LoginFolder { folder: _folder, login } = place(&server.address);
        let died = sessions(&login, Some(dies_after)).iter().all(Result::is_err);
        let (sent, holds) = (server.asked().len(), text(&login.place));
        assert!(sent <= 1, "twenty sessions, one refresh");
        if !died {
            break;
        }
        let results = sessions(&login, None);
        let asked = server.asked();
        match (sent, holds.as_str()) {
            (0, "refresh-1") => {
                not_sent += 1;
                all_have(&results, "access-1");
                assert_eq!((asked.len(), text(&login.place).as_str()), (1, "refresh-2"), "after {dies_after}");
            }
            (1, "refresh-2") => {
                kept += 1;
                all_have(&results, "access-2");
                assert_eq!((asked.len(), text(&login.place).as_str()), (2, "refresh-3"), "after {dies_after}");
            }
            (1, "refresh-1") => {
                lost += 1;
                // Every attempt reports the loss; the user must act.
                for tries in 2..=3 {
                    let results = if tries == 2 { results.clone() } else { sessions(&login, None) };
                    for fault in results.into_iter().map(Result::unwrap_err) {
                        let failure = failure(&login, fault);
                        assert_eq!(failure.class, FailureClass::AuthPermanent);
                        assert!(failure.message.contains("the answer was lost"), "{failure}");
                        assert!(failure.message.contains("Log in again"), "{failure}");
                    }
                    assert_eq!(server.asked().len(), tries, "twenty sessions ask once more");
                }
                let next = server.asked().len() + 1;
                fs::write(&login.place, format!("refresh-{next}\n")).unwrap();
                all_have(&sessions(&login, None), &format!("access-{next}"));
            }
            other => panic!("{other:?} after {dies_after}"),
        }
    }
    assert!(lost > 3 && kept > 0 && not_sent > 1, "{lost} {kept} {not_sent}");
}

#[test]
fn r50_a_login_that_was_refused_but_not_lost_is_reported_as_refused_each_time() {
    let server = server();
    let LoginFolder { folder: _folder, login } = place(&server.address);
    fs::write(&login.place, "refresh-9\n").unwrap();
    for _ in 0..2 {
        for fault in sessions(&login, None).into_iter().map(Result::unwrap_err) {
            let failure = failure(&login, fault);
            assert!(failure.message.contains("Log in again"), "{failure}");
            assert!(!failure.message.contains("was not kept"), "{failure}");
        }
    }
}
