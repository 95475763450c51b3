//! The configuration changed by commands.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;

use crate::support::{Home, Terminal};

fn text(home: &Home) -> String {
    fs::read_to_string(home.path().join("config.toml")).unwrap_or_default()
}

fn put(home: &Home, text: &str) {
    fs::create_dir_all(home.path()).expect("a home");
    fs::write(home.path().join("config.toml"), text).expect("a configuration");
}

/// Files of the home that an edit left.
fn copies(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.path()).expect("a home").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("config-edit-")).collect()
}

#[test]
fn r24_a_key_is_set_shown_and_taken_out_and_the_rest_of_the_file_stays() {
    // What is changed is shown in order.
    let home = Home::new().without("LIMULUS_GATEWAY__LISTEN");
    let file = "# mine\n[runs]\n# of the runs\nresume = \"restart\" # as it is\n";
    put(&home, file);
    fs::set_permissions(home.path().join("config.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    let set = home.run(&["config", "set", "runs.deadline_s", "60"]).expect_code(0).out;
    assert!(set.starts_with("runs.deadline_s = 60\n"), "{set}");
    assert!(
        set.ends_with("config.toml was changed; it counts from the next run, also for a service that is running\n"),
        "{set}"
    );
    assert_eq!(text(&home), file.to_owned() + "deadline_s = 60\n");
    let mode = fs::metadata(home.path().join("config.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(home.run(&["config", "get", "runs.deadline_s"]).expect_code(0).out, "60\n");
    let set = home.json(&["config", "set", "runs.deadline_s", "off"]);
    assert_eq!(
        (&set["changed"], &set["keys"][0]["before"], &set["counts_from"]),
        (&true.into(), &60.into(), &"run".into())
    );
    let got = home.json(&["config", "get", "runs.deadline_s"]);
    assert_eq!((&got["value"], &got["layer"]), (&"off".into(), &"file".into()));
    let shown = home.run(&["config", "show", "--changed"]).expect_code(0).out;
    assert!(
        shown.starts_with("runs.deadline_s = \"off\"\nruns.resume = \"restart\"\n") && !shown.contains("stall"),
        "{shown}"
    );
    home.run(&["config", "unset", "runs.deadline_s"]).expect_code(0);
    assert_eq!(text(&home), file);
    assert_eq!(home.json(&["config", "unset", "runs.deadline_s"])["changed"], false);
    let table = home.run(&["config", "get", "tools.exec"]).expect_code(0).out;
    assert_eq!(table, "tools.exec.env = []\ntools.exec.policy = \"sandbox\"\n");
    home.run(&["config", "get", "agents.main.model"]).expect_code(4).expect_err("config set 'agents.main.model' VALUE");
    let overridden = home.with("LIMULUS_RUNS__RESUME", "restart").run(&["config", "set", "runs.resume", "continue"]);
    assert!(overridden.expect_code(0).out.contains("but LIMULUS_RUNS__RESUME is set and overrides the file"));
}

#[test]
fn r24_what_a_key_does_not_take_is_refused_and_nothing_is_written() {
    let home = Home::new();
    for (words, expected) in [
        (&["set", "tools.exec.polcy", "allow"][..], "the nearest known key is `tools.exec.policy`"),
        (&["set", "tools.exec.policy", "maybe"], "it takes one of allow, sandbox, ask, deny"),
        (&["set", "agents.main.fallbacks", "a/b"], "a list of PROVIDER/MODEL"),
        (&["set", "runs.deadline_s", "-5"], "a whole number from 1"),
        (&["get", "rnus"], "the nearest known key is `runs`"),
        (&["unset", "runs.dedline_s"], "the nearest known key is `runs.deadline_s`"),
    ] {
        let words: Vec<&str> = ["config"].iter().chain(words).copied().collect();
        home.run(&words).expect_code(2).expect_err(expected);
    }
    assert!(!home.path().join("config.toml").exists());
    put(&home, "[runs\n");
    let refused = home.run(&["config", "set", "runs.deadline_s", "5"]).expect_code(78);
    assert!(
        refused.err.contains("config.toml:1:6 is not valid TOML") && refused.err.contains("limulus config edit"),
        "{refused:?}"
    );
    put(&home, "runs = 5\n");
    home.run(&["config", "set", "runs.deadline_s", "5"]).expect_code(3).expect_err("change `runs.deadline_s` yourself");
    assert_eq!(text(&home), "runs = 5\n");
}

#[test]
fn r50_a_key_of_a_provider_is_warned_about_and_shown_nowhere() {
    let home = Home::new();
    let acme = "{ api = \"openai-chat\", base_url = \"http://127.0.0.1:1\", profiles = [{ key = \"env:ACME_KEY\" }] }";
    let set = home.run(&["config", "set", "providers.acme", acme]).expect_code(0);
    assert!(
        set.err.contains("ACME_KEY is not set") && set.out.contains("providers.acme.profiles.0.key = \"env:ACME_KEY\""),
        "{set:?}"
    );
    home.run(&["config", "check"]).expect_code(0);
    let key = "providers.acme.profiles.0.key";
    let open = home.run(&["config", "set", key, "sk-do-not-show"]).expect_code(0);
    assert!(open.err.contains("name the place of the key: env:NAME, file:PATH or cmd:COMMAND"), "{open:?}");
    let again = home.run(&["config", "set", key, "sk-do-not-show-2", "--json"]).expect_code(0);
    let taken = home.run(&["config", "unset", key]).expect_code(0);
    for shown in [&open, &again, &home.run(&["config", "get", key]), &taken] {
        assert!(!format!("{shown:?}").contains("sk-do"), "{shown:?}");
    }
    let incomplete = home.run(&["config", "set", "providers.other.api", "gemini"]).expect_code(0);
    assert!(incomplete.err.contains("`providers.other.base_url` is missing"), "{incomplete:?}");
    home.run(&["config", "unset", "providers.other"]).expect_code(0);
    assert!(!text(&home).contains("other"), "{}", text(&home));
}

#[test]
fn r24_keys_that_are_set_at_the_same_time_are_all_there() {
    let home = Home::new();
    home.run(&["config", "init"]).expect_code(0);
    let number = 8;
    thread::scope(|scope| {
        for at in 0..number {
            let home = &home;
            scope.spawn(move || {
                home.run(&["config", "set", &format!("agents.a{at}.workspace"), "."]).expect_code(0);
            });
        }
    });
    for at in 0..number {
        assert!(text(&home).contains(&format!("[agents.a{at}]\nworkspace = \".\"\n")), "{at}: {}", text(&home));
    }
}

#[test]
fn r24_an_editor_changes_the_file_once_it_is_valid_and_nothing_is_lost() {
    let home = Home::new();
    home.run(&["config", "edit"]).expect_code(3).expect_err("EDITOR=nano limulus config edit");
    let home = home.with("EDITOR", "sed -i 's/^# deadline_s = \"off\"/deadline_s = 60/'");
    let edited = home.json(&["config", "edit"]);
    assert_eq!(edited["changed"], true);
    assert!(text(&home).contains("\ndeadline_s = 60 ") && copies(&home).is_empty());
    assert_eq!(home.json(&["config", "edit"])["changed"], false);
    let home = home.with("VISUAL", "sed -i 's/^deadline_s = 60/dedline_s = 61/'");
    let before = text(&home);
    let refused = home.run(&["config", "edit"]).expect_code(78);
    assert!(
        refused.err.contains("unknown key `runs.dedline_s`") && refused.err.contains("what you wrote is in"),
        "{refused:?}"
    );
    assert_eq!(text(&home), before);
    let kept = fs::read_to_string(home.path().join(&copies(&home)[0])).unwrap();
    assert!(kept.contains("\ndedline_s = 61 "), "{kept}");
    home.with("VISUAL", "false").run(&["config", "edit"]).expect_code(3).expect_err("was not changed");
}

#[test]
fn r24_an_editor_that_left_errors_is_opened_again_or_its_text_is_kept() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new().with("EDITOR", "sh -c 'cat ../next > \"$0\"'");
    put(&home, "runs.stall_s = 5\n");
    let next = |text: &str| fs::write(home.user().join("next"), text).unwrap();
    next("runs.stall_s = 0\n");
    let terminal = Terminal::run(&home, &["config", "edit"]);
    terminal.until("(e), go back to the file as it was (b), or write it as it is (w)? [e]");
    next("runs.stall_s = 6\n");
    terminal.type_keys(&["e", "Enter"]);
    terminal.until("exit=0");
    assert_eq!((text(&home).as_str(), copies(&home).len()), ("runs.stall_s = 6\n", 0));
    drop(terminal);
    next("runs.stall_s = 0\n");
    let terminal = Terminal::run(&home, &["config", "edit"]);
    terminal.until("[e]");
    terminal.type_keys(&["b", "Enter"]);
    terminal.until("exit=3");
    assert_eq!((text(&home).as_str(), copies(&home).len()), ("runs.stall_s = 6\n", 1));
}
