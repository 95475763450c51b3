//! Logged-in profiles: access tokens are obtained, refreshed once for all waiting requests, stored before use, and
//! never shown.

use std::fs;
use std::path::Path;

use journal::store_uncompressed;

use crate::support::{GOOD_KEY, Home, LoginServer, Process, refresh_token, until};

fn serve(home: &Home) -> Process {
    let service = home.start(&["serve"]);
    service.until_err("serving");
    service
}

/// A second profile with this key.
fn and_a_key(home: Home, key: &str) -> Home {
    home.with("LIMULUS_PROVIDERS__ACME__PROFILES__1__NAME", "spare")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__KEY", key)
}

/// The tokens that requests were sent with.
fn sent(server: &LoginServer) -> Vec<String> {
    server.state().asked.iter().map(|(bearer, _)| bearer.clone()).collect()
}

/// Every file below this folder, but for the one that is to hold a token.
fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() && !path.ends_with("refresh-token") {
            found.push((path.display().to_string(), fs::read(&path).expect("it can be read")));
        }
    }
}

/// No token is in the output, in the output of readers, or in any file of the home.
#[track_caller]
fn assert_masked(home: &Home, printed: &[&str]) {
    let mut places = vec![];
    // What is compressed is not found in the file.
    store_uncompressed(&home.path().join("journal.db")).expect("it can be changed");
    files(home.user(), &mut places);
    assert!(places.iter().any(|(name, _)| name.ends_with("journal.db")), "the journal is looked at");
    let readers: &[&[&str]] = &[
        &["runs", "trace", "--json"],
        &["runs", "show", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
    ];
    for words in readers {
        let shown = home.run(words).expect_code(0);
        places.push((words.join(" "), (shown.out + &shown.err).into_bytes()));
    }
    places.extend(printed.iter().map(|text| ("what was printed".to_owned(), text.as_bytes().to_vec())));
    for (name, bytes) in places {
        assert!(!bytes.windows(12).any(|part| part == b"_very_secret"), "a token is in {name}");
    }
}

#[test]
fn r50_a_token_is_got_for_the_first_request_and_its_successor_is_kept() {
    let server = LoginServer::start(3600);
    let home = server.home();
    for number in 1..=2 {
        let answer = home.run(&["agent", "-m", "Hello"]).expect_code(0);
        assert_eq!(answer.out, "Hello.\n");
        assert_eq!(fs::read_to_string(server.file()).unwrap().trim(), refresh_token(number + 1));
        assert_masked(&home, &[&answer.out, &answer.err]);
    }
    // The refresh token is stored before the access token is used.
    let asked = [("at_very_secret_1", "rt_very_secret_2"), ("at_very_secret_2", "rt_very_secret_3")];
    let asked = asked.map(|(bearer, kept)| (bearer.to_owned(), kept.to_owned()));
    assert_eq!(server.state().asked, asked);
    assert_eq!(server.state().refreshed, [1, 2]);
}

#[test]
fn r50_a_token_is_held_until_it_is_about_to_expire() {
    for (expires_in, refreshed) in [(3600, &[1][..]), (0, &[1, 2])] {
        let server = LoginServer::start(expires_in);
        let home = server.home();
        let _service = serve(&home);
        for _ in 0..2 {
            assert_eq!(home.run(&["agent", "-m", "Hello"]).expect_code(0).out, "Hello.\n");
        }
        assert_eq!(server.state().refreshed, refreshed, "{expires_in}");
    }
}

#[test]
fn r50_a_token_that_is_refused_is_refreshed_and_the_request_sent_again() {
    let server = LoginServer::start(3600);
    let home = and_a_key(server.home(), GOOD_KEY);
    let _service = serve(&home);
    home.run(&["agent", "-m", "Hello"]).expect_code(0);
    server.expire();
    let answer = home.run(&["agent", "-m", "Hello again"]).expect_code(0);
    assert_eq!(answer.out, "Hello.\n");
    assert!(answer.err.contains("401") && !answer.err.contains("switches to"), "{}", answer.err);
    let trace = home.run(&["runs", "trace", "--json"]).expect_code(0);
    let events: Vec<_> =
        trace.lines().iter().map(|line| line["event"].as_str().unwrap_or_default().to_owned()).collect();
    let count = |event: &str| events.iter().filter(|one| *one == event).count();
    assert_eq!((count("failed"), count("retry_scheduled"), count("candidate_cooled")), (1, 1, 0), "{events:?}");
    assert_eq!(sent(&server), ["at_very_secret_1", "at_very_secret_1", "at_very_secret_2"]);
    assert_masked(&home, &[&answer.out, &answer.err]);
}

/// R11: the next process uses the refresh token that the token server returned to the last one.
#[test]
fn r50_a_refresh_token_that_was_replaced_survives_a_kill() {
    let server = LoginServer::start(3600);
    let home = server.home();
    server.state().is_silent = true;
    let agent = home.start(&["agent", "-m", "Hello"]);
    until("the model is asked", || !server.state().asked.is_empty());
    agent.kill();
    server.state().is_silent = false;
    let resumed = home.run(&["resume"]).expect_code(0);
    assert!(resumed.out.contains("Hello."), "{resumed:?}");
    assert_eq!(server.state().refreshed, [1, 2]);
    assert_eq!(sent(&server), ["at_very_secret_1", "at_very_secret_2"]);
    assert_masked(&home, &[&resumed.out, &resumed.err]);
}

#[test]
fn r50_r51_a_login_that_is_not_accepted_gives_way_to_the_next_profile() {
    let server = LoginServer::start(3600);
    let home = and_a_key(server.home(), GOOD_KEY);
    server.state().is_closed = true;
    let answer = home.run(&["agent", "-m", "Hello"]).expect_code(0);
    assert_eq!(answer.out, "Hello.\n");
    let remedy = format!("put the new refresh token into {} (profile `work`", server.file().display());
    assert!(answer.err.contains("invalid_grant") && answer.err.contains(&remedy), "{}", answer.err);
    assert!(answer.err.contains("switches to acme/scripted (spare)"), "{}", answer.err);
    assert_eq!(server.state().refreshed, [1]);
    assert_eq!(sent(&server), [GOOD_KEY]);
    assert_masked(&home, &[&answer.out, &answer.err]);

    // Otherwise the next run would know the cooldown of this one.
    home.run(&["profiles", "clear"]).expect_code(0);
    let home = and_a_key(home, "not-good");
    let failed = home.run(&["agent", "-m", "Hello"]).expect_code(1);
    assert!(
        failed.err.contains("All models failed (2)") && failed.err.contains("acme/scripted (work): "),
        "{}",
        failed.err
    );
    fs::remove_file(server.file()).unwrap();
    home.run(&["profiles", "clear"]).expect_code(0);
    let failed = home.run(&["agent", "-m", "Hello"]).expect_code(1);
    let named = format!("there is no refresh token: {} cannot be read", server.file().display());
    assert!(failed.err.contains(&named), "{}", failed.err);
    assert_masked(&home, &[&failed.out, &failed.err]);
}

/// The token of twenty sessions expires at about the same time; a refresh token may be used once.
#[test]
fn r50_twenty_sessions_with_one_expired_token_make_one_refresh() {
    let server = LoginServer::start(3600);
    let home = server.home().with("LIMULUS_LANES__MAIN", "20").with("LIMULUS_REQUESTS__RETRIES", "0");
    let service = serve(&home);
    home.run(&["agent", "-m", "Hello"]).expect_code(0);
    for round in 2..=3 {
        server.expire();
        let agents: Vec<_> =
            (0..20).map(|number| home.start(&["agent", "--session", &format!("s{number}"), "-m", "Hello"])).collect();
        for agent in agents {
            assert_eq!(agent.finish().expect_code(0).out, "Hello.\n");
        }
        assert_eq!(server.state().refreshed, (1..=round).collect::<Vec<_>>());
    }
    service.kill();
    assert_eq!(fs::read_to_string(server.file()).unwrap().trim(), refresh_token(4));
}
