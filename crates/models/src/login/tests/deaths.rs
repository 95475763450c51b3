//! A process that dies after any single operation of a refresh: what the next one finds, does, and says.

use std::cell::Cell;
use std::panic;

use super::*;

thread_local! {
    /// Operations until this thread's process dies; none = it lives.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// What is thrown where a process dies: nothing that follows happens, and its locks are free.
struct Died;

pub(in crate::login) fn step() {
    let Some(left) = LEFT.get() else { return };
    // Who is dead stays so.
    LEFT.set(Some(left.saturating_sub(1)));
    if left == 0 {
        panic::resume_unwind(Box::new(Died));
    }
}

/// Twenty sessions of one process want a token, which dies after so many operations. Gives what each was told.
fn sessions(login: &Login, dies_after: Option<u32>) -> Vec<Result<String, Fault>> {
    LEFT.set(dies_after);
    let told = process().block_on(async {
        let logins = Logins::default();
        let want = |_| {
            let (logins, login) = (logins.clone(), login.clone());
            tokio::spawn(async move { logins.token(&login).await.map(|token| token.reveal().to_owned()) })
        };
        let wanted: Vec<_> = (0..20).map(want).collect();
        let mut told = vec![];
        for one in wanted {
            told.push(one.await.unwrap());
        }
        told
    });
    LEFT.set(None);
    told
}

/// A token server in a thread of its own, which outlives processes.
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
fn all_have(told: &[Result<String, Fault>], token: &str) {
    assert!(told.iter().all(|one| one.as_ref().is_ok_and(|had| had == token)), "{told:?}");
}

#[test]
fn r50_r10_wherever_a_refresh_is_cut_off_the_next_process_asks_once_and_says_what_is_lost() {
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
        let told = sessions(&login, None);
        let asked = server.asked();
        match (sent, holds.as_str()) {
            (0, "refresh-1") => {
                not_sent += 1;
                all_have(&told, "access-1");
                assert_eq!((asked.len(), text(&login.place).as_str()), (1, "refresh-2"), "after {dies_after}");
            }
            (1, "refresh-2") => {
                kept += 1;
                all_have(&told, "access-2");
                assert_eq!((asked.len(), text(&login.place).as_str()), (2, "refresh-3"), "after {dies_after}");
            }
            (1, "refresh-1") => {
                lost += 1;
                // However often it is tried: what was lost is said, and a person mends it.
                for tries in 2..=3 {
                    let told = if tries == 2 { told.clone() } else { sessions(&login, None) };
                    for fault in told.into_iter().map(Result::unwrap_err) {
                        let failure = failure(&login, fault);
                        assert_eq!(failure.class, FailureClass::AuthPermanent);
                        assert!(failure.message.contains("what that brought was not kept"), "{failure}");
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
fn r50_a_login_that_was_refused_but_never_lost_is_told_as_refused_each_time() {
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
