//! Old content that no session needs is erased on request; after a pause a new conversation begins.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::Home;

/// A session whose first conversation was replaced, and the texts of the calls of its first run.
fn with_replaced_conversation() -> (Home, String) {
    let home = Home::new();
    home.put("tide.txt", "high at noon, low at six\n".repeat(200));
    home.run(&["agent", "--yes", "-m", "Read tide.txt"]).expect_code(0);
    let run = home.json(&["runs", "list"])[0]["run"].as_str().expect("a run").to_owned();
    home.run(&["agent", "-m", "/new"]).expect_code(0);
    home.assert_usable("main");
    (home, run)
}

fn cleanup(home: &Home, words: &[&str]) -> Value {
    home.json(&[&["sessions", "cleanup", "--days", "0"], words].concat())
}

#[test]
fn r21_old_content_is_counted_first_and_erased_on_request() {
    let (home, run) = with_replaced_conversation();
    let before = home.json(&["sessions", "show"]);
    let would = cleanup(&home, &[]);
    assert!(would["bodies"].as_u64() > Some(0) && would["enforced"] == false, "{would}");
    assert_eq!(cleanup(&home, &[]), would, "nothing was done");
    let whole = home.json(&["runs", "show", &run]);
    assert!(whole.to_string().contains("high at noon"), "{whole}");

    let did = cleanup(&home, &["--enforce"]);
    assert_eq!((&did["bodies"], &did["enforced"]), (&would["bodies"], &true.into()));
    assert_eq!(cleanup(&home, &[])["bodies"], 0, "once is enough");
    let erased = home.json(&["runs", "show", &run]);
    assert!(erased.to_string().contains("[erased]") && !erased.to_string().contains("high at noon, low"), "{erased}");
    // The conversation continues, the audit log is complete, nothing is corrupt, and a repeated read works again.
    assert_eq!(home.json(&["sessions", "show"])["transcript"], before["transcript"]);
    home.run(&["audit", "--verify"]).expect_code(0);
    home.run(&["doctor"]).expect_code(0);
    home.run(&["agent", "--yes", "-m", "Read tide.txt"]).expect_code(0);
    assert!(home.json(&["sessions", "show"]).to_string().contains("high at noon"));
}

#[test]
fn r21_the_owner_of_a_home_erases_on_request_and_continues() {
    let (home, run) = with_replaced_conversation();
    let would = cleanup(&home, &[]);
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let did = cleanup(&home, &["--enforce"]);
    assert_eq!((&did["bodies"], &did["enforced"]), (&would["bodies"], &true.into()));
    let erased = home.json(&["runs", "show", &run]).to_string();
    assert!(erased.contains("[erased]") && !erased.contains("high at noon, low"), "{erased}");
    home.run(&["agent", "--yes", "-m", "Read tide.txt"]).expect_code(0);
    assert!(home.json(&["sessions", "show"]).to_string().contains("high at noon"));
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
    home.run(&["audit", "--verify"]).expect_code(0);
    home.run(&["doctor"]).expect_code(0);
}

#[test]
fn r21_nothing_is_erased_unless_a_limit_is_set() {
    let (home, _) = with_replaced_conversation();
    home.run(&["sessions", "cleanup", "--enforce"]).expect_code(2).expect_err("--days N");
    let home = home.with("LIMULUS_RETENTION__KEEP_DAYS", "30");
    assert_eq!(home.json(&["sessions", "cleanup"])["bodies"], 0, "nothing is thirty days old");
}

#[test]
fn r21_no_run_starts_in_a_journal_that_is_as_large_as_it_may_be_and_nothing_is_lost() {
    let (home, _) = with_replaced_conversation();
    let big = (0..40_000).map(|n| format!("{:x} ", n * 7_919 + 13)).collect::<Vec<_>>().concat();
    for seed in 1..=12 {
        let name = format!("{seed}.txt");
        home.put(&name, big.replace(' ', &format!("{seed} ")));
        home.run(&["agent", "--yes", "-m", &format!("run `cat {name}`")]).expect_code(0);
    }
    let home = home.with("LIMULUS_RETENTION__JOURNAL_MB", "1");
    home.run(&["agent", "-m", "List the files of the tide"]).expect_code(3).expect_err("`retention.journal_mb`");
    let texts = home.json(&["sessions", "show"]).to_string();
    assert!(!texts.contains("files of the tide"), "nothing of it was taken");
    let home = home.with("LIMULUS_RETENTION__JOURNAL_MB", "1000");
    home.run(&["agent", "-m", "Who are you now?"]).expect_code(0);
}

#[test]
fn r21_a_message_to_a_stale_conversation_starts_a_new_one() {
    let home = Home::new();
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let home = home.with("LIMULUS_SESSION__RESET__MODE", "idle");
    home.run(&["agent", "-m", "Who are you again?"]).expect_code(0);
    let texts = home.json(&["sessions", "show"])["transcript"].to_string();
    assert!(texts.contains("Who are you?") && texts.contains("again"), "an hour has not passed: {texts}");
}
