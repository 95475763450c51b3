//! The way in: `setup` asks for a provider by name and for its key, tries it and writes it, on a terminal and from a script. A typed
//! key is in one file, which only its user can read, and nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use model_server::ModelServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::secrets::holds;
use crate::support::{CLOSED, Does, Home, Planned, Terminal, refused, until, whole};

const KEY: &str = "sk-typed-by-hand-0123456789abcdef";

/// A home without a local Ollama and without a key.
fn alone() -> Home {
    Home::new().with("OLLAMA_HOST", CLOSED)
}

fn file(home: &Home) -> String {
    fs::read_to_string(home.path().join("config.toml")).unwrap_or_default()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// The typed key is in its own file, and in no other one of the home.
fn assert_only_in(home: &Home, provider: &str) {
    let place = home.path().join("keys").join(provider);
    assert_eq!(fs::read_to_string(&place).expect("the file of the key").trim(), KEY);
    assert_eq!((mode(&place), mode(place.parent().expect("a folder"))), (0o600, 0o700));
    assert_eq!(mode(&home.path().join("config.toml")), 0o600);
    let away = home.user().join("the key");
    fs::rename(&place, &away).expect("it moves");
    assert!(!holds(&home.path(), KEY), "the key is in another file of the home");
    fs::rename(&away, &place).expect("it moves back");
}

/// Each keystroke of a newcomer, from nothing to the first answered question.
#[test]
fn r61_a_newcomer_types_a_provider_an_address_a_key_and_a_question() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = alone();
    let terminal = Terminal::run(&home, &["setup"]);
    let screen = terminal.until("Which one? >");
    assert!(screen.contains("1. OpenAI (openai)") && screen.contains("(deepseek)"), "{screen}");
    terminal.type_keys(&["m", "Enter"]);
    terminal.until("That may be mistral, moonshot, minimax.");
    until("the question", || terminal.screen().matches("Which one? >").count() == 2);
    terminal.type_keys(&["custom", "Enter"]);
    terminal.until("such as http://127.0.0.1:8000/v1: >");
    terminal.type_keys(&[&server.base_url(), "Enter"]);
    terminal.until("Does it need a key? [y/N]");
    terminal.type_keys(&["y", "Enter"]);
    terminal.until("How do you give the key? [1]");
    terminal.type_keys(&["Enter"]);
    terminal.until("then Enter: >");
    terminal.type_keys(&[KEY]);
    terminal.type_keys(&["Enter"]);
    let screen = terminal.until("Which model? [scripted]");
    assert!(screen.contains("1. scripted") && !screen.contains(KEY), "{screen}");
    terminal.type_keys(&["Enter"]);
    let screen = terminal.until("exit=0");
    assert!(screen.contains("custom/scripted answers") && screen.contains("limulus models check"), "{screen}");
    assert!(!terminal.history().contains(KEY), "{}", terminal.history());
    drop(terminal);
    assert_only_in(&home, "custom");
    let text = file(&home);
    assert!(text.contains("model = \"custom/scripted\"") && text.contains("key = \"file:"), "{text}");
    let terminal = Terminal::run(&home, &["tokens=3 What is in this folder?"]);
    let screen = terminal.until("exit=0");
    assert!(screen.contains("word0 word1 word2") && !screen.contains(KEY), "{screen}");
    drop(terminal);
    assert_eq!(home.json(&["runs", "show"])["model"], "custom/scripted");
    assert_only_in(&home, "custom");
    for words in [&["models", "list"][..], &["status"], &["config", "show"], &["doctor"], &["runs", "trace"]] {
        let shown = home.run(words);
        assert!(!shown.out.contains(KEY) && !shown.err.contains(KEY), "{words:?}: {shown:?}");
    }
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
fn r61_a_key_that_is_refused_is_said_without_it_and_another_one_can_be_given() {
    if !Terminal::is_there() {
        return;
    }
    let server = Planned::start(|_, asked| match asked.key.as_str() {
        KEY => Does::Answer(whole(&["ready"])),
        other => Does::Answer(refused(401, &json!({ "error": { "message": format!("no such key: {other}") } }))),
    });
    let home = alone().with("LIMULUS_PROVIDERS__DEEPSEEK__BASE_URL", &server.base_url);
    let terminal = Terminal::run(&home, &["setup", "--provider", "deeps"]);
    let screen = terminal.until("How do you give the key? [1]");
    assert!(screen.contains("https://platform.deepseek.com/api_keys"), "{screen}");
    terminal.type_keys(&["1", "Enter"]);
    terminal.until("then Enter: >");
    terminal.type_keys(&["sk-of-somebody-else-0123456789", "Enter"]);
    terminal.until("Which model? [deepseek-v4-flash]");
    terminal.type_keys(&["Enter"]);
    let screen = terminal.until("Again with other values? [Y/n]");
    assert!(screen.contains("401") && !screen.contains("somebody-else"), "{screen}");
    assert!(!home.path().join("config.toml").exists() && !home.path().join("keys").exists(), "nothing is written yet");
    terminal.type_keys(&["Enter"]);
    terminal.until("How do you give the key? [as before]");
    terminal.type_keys(&["1", "Enter"]);
    until("the question", || terminal.screen().matches("then Enter: >").count() == 2);
    terminal.type_keys(&[KEY, "Enter"]);
    until("the question", || terminal.screen().matches("Which model? [deepseek-v4-flash]").count() == 2);
    terminal.type_keys(&["Enter"]);
    let screen = terminal.until("exit=0");
    assert!(screen.contains("deepseek/deepseek-v4-flash answers") && !screen.contains(KEY), "{screen}");
    drop(terminal);
    assert_only_in(&home, "deepseek");
}

/// R50: whoever ends it while a key is typed gets the terminal back as it was, and nothing is written.
#[test]
fn r50_the_terminal_shows_again_what_is_typed_however_setup_ends() {
    if !Terminal::is_there() {
        return;
    }
    let script = "stty -a > before; (sh -c 'echo $PPID' > pid; exec LIMULUS); echo exit=$?; stty -a > after; echo done=done; cat";
    for (case, exit) in [("interrupt", 130), ("terminate", 143), ("end", 3)] {
        let home = alone();
        let terminal = Terminal::script(&home, script, &["setup", "--provider", "groq"]);
        terminal.until("How do you give the key? [1]");
        terminal.type_keys(&["Enter"]);
        terminal.until("then Enter: >");
        terminal.type_keys(&["sk-half"]);
        match case {
            "interrupt" => terminal.type_keys(&["C-c"]),
            "terminate" => {
                let pid: i32 = home.text("pid").trim().parse().expect("a pid");
                kill_process(Pid::from_raw(pid).expect("a pid"), Signal::TERM).expect("it runs");
            }
            // What was typed before the end of the input is the answer; then there is no more.
            _ => terminal.type_keys(&["C-u", "C-d"]),
        }
        let screen = terminal.until("done=done");
        assert!(screen.contains(&format!("exit={exit}")) && !screen.contains("sk-half"), "{case}: {screen}");
        assert_eq!(home.text("before"), home.text("after"), "{case}");
        assert!(home.text("after").contains(" echo "), "{case}");
        assert!(!home.path().join("config.toml").exists() && !home.path().join("keys").exists(), "{case}");
    }
}

#[test]
fn r61_flags_alone_set_up_a_provider() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["ready"])));
    let setup = |home: &Home, flags: &[&str]| {
        let words = [&["setup", "--yes", "--json", "--url", &server.base_url], flags].concat();
        let done: serde_json::Value = serde_json::from_str(&home.run(&words).expect_code(0).out).unwrap();
        (done, file(home))
    };
    let home = alone().with("MY_KEY", KEY);
    let (done, text) = setup(&home, &["--provider", "groq", "--key-env", "MY_KEY"]);
    assert_eq!((&done["model"], &done["key_file"]), (&"groq/openai/gpt-oss-120b".into(), &serde_json::Value::Null));
    assert!(text.contains("key = \"env:MY_KEY\"") && text.contains(&server.base_url), "{text}");
    let (done, text) = setup(
        &home,
        &["--provider", "azure", "--key-cmd", &format!("echo '{KEY}'").replace("sk-", "s''k-"), "--model", "my-gpt"],
    );
    assert_eq!(done["model"], "azure/my-gpt");
    assert!(text.contains("key = \"cmd:echo"), "{text}");
    let words = ["setup", "--yes", "--provider", "custom", "--key-stdin", "--url", &server.base_url, "--model", "m"];
    let done = home.feed(&words, format!("{KEY}\nrest\n").as_bytes()).expect_code(0);
    assert!(!done.out.contains(KEY) && !done.err.contains(KEY), "{done:?}");
    assert_only_in(&home, "custom");
    assert!(file(&home).contains("model = \"custom/m\""), "the last one answers");
    assert!(server.seen().iter().all(|asked| asked.key == KEY), "{:?}", server.asked());
}

#[test]
fn r61_what_flags_lack_is_said_by_name() {
    let home = alone();
    for (flags, code, says) in [
        (&["--provider", "groq"][..], 3, &["no terminal", "--provider NAME --yes", "--key-stdin"][..]),
        (&["--provider", "groq", "--yes"], 2, &["Groq needs --key-env VARIABLE, --key-cmd COMMAND or --key-stdin"]),
        (
            &["--provider", "azure", "--yes", "--key-env", "PATH"],
            2,
            &[
                "Azure OpenAI needs --url ADDRESS (such as https://RESOURCE.openai.azure.com/openai/v1), and --model MODEL",
            ],
        ),
        (&["--provider", "acme", "--yes"], 4, &["no provider is called `acme`", "deepseek", "`custom` with --url"]),
        (&["--provider", "open", "--yes"], 4, &["openai, openai-responses, openrouter"]),
        (&["--provider", "groq", "--yes", "--url", "api.groq.com"], 2, &["is no address", "http://"]),
        (&["--provider", "groq", "--yes", "--key-env", KEY], 2, &["--key-stdin"]),
        (&["--key-env", "PATH", "--yes"], 2, &["--provider"]),
        (&["--provider", "groq", "--yes", "--key-stdin"], 2, &["found no key in the first line of stdin"]),
        (
            &["--provider", "groq", "--yes", "--url", "http://a\nb"],
            2,
            &["`--url http://a\\nb` is no address", "no blanks"],
        ),
    ] {
        let failed = home.run(&[&["setup"], flags].concat()).expect_code(code);
        for part in says {
            assert!(failed.err.contains(part), "{flags:?} {part}: {}", failed.err);
        }
        assert!(!failed.err.contains(KEY), "{flags:?}: {}", failed.err);
    }
    assert!(!home.path().exists(), "nothing was written");
}

#[test]
fn r50_a_key_that_is_there_goes_to_no_other_address_unless_that_is_said() {
    let (old, new) = (
        Planned::start(|_, _| Does::Answer(whole(&["ready"]))),
        Planned::start(|_, _| Does::Answer(whole(&["ready"]))),
    );
    let home = alone();
    let setup = |url: &str, more: &[&str]| {
        home.run(&[&["setup", "--yes", "--provider", "custom", "--model", "m", "--url", url], more].concat())
    };
    let flags = ["--key-cmd", "printf sk-x"];
    setup(&old.base_url, &flags).expect_code(0);
    let before = file(&home);
    let refused = setup(&new.base_url, &[]).expect_code(2);
    assert!(
        refused.err.contains("--key-env VARIABLE") && refused.err.contains("belongs to another address"),
        "{refused:?}"
    );
    assert_eq!((file(&home), new.seen().len()), (before, 0), "nothing was sent there");
    setup(&old.base_url, &[]).expect_code(0);
    setup(&new.base_url, &flags).expect_code(0);
    assert_eq!(new.seen().len(), 1);
    // A key that was typed for an address goes there, also where that is the usual one of a provider with another.
    let home = alone().with("LIMULUS_PROVIDERS__OLLAMA__BASE_URL", &old.base_url);
    let asked = old.seen().len();
    home.run(&["setup", "--yes", "--provider", "ollama", "--model", "m", "--url", "http://127.0.0.1:11434"]);
    assert_eq!(old.seen().len(), asked);
    // The key of a variable goes to the first address of a provider that has no usual one.
    let home = alone().with("AZURE_OPENAI_API_KEY", KEY);
    let words = ["setup", "--yes", "--provider", "azure", "--model", "m", "--url", &new.base_url];
    home.run(&words).expect_code(0);
    // Headers are keys as well.
    let home = alone().with("LIMULUS_PROVIDERS__CUSTOM__HEADERS__X_TEAM", "sk-team");
    let home = home.with("LIMULUS_PROVIDERS__CUSTOM__BASE_URL", &old.base_url);
    let words =
        ["setup", "--yes", "--provider", "custom", "--model", "m", "--url", &new.base_url, "--key-cmd", "printf x"];
    let refused = home.run(&words).expect_code(2);
    assert!(refused.err.contains("the headers of custom belong to another address"), "{refused:?}");
    let words =
        ["setup", "--yes", "--provider", "custom", "--model", KEY, "--url", &old.base_url, "--key-cmd", "printf x"];
    let refused = home.run(&words).expect_code(2);
    assert!(!home.path().join("config.toml").exists() && !refused.err.contains(KEY), "{refused:?}");
    // So it is with the key of a variable.
    let home = alone().with("GROQ_API_KEY", KEY);
    let refused = home.run(&["setup", "--yes", "--provider", "groq", "--url", &new.base_url]).expect_code(2);
    assert!(refused.err.contains("belongs to another address"), "{refused:?}");
    assert_eq!(new.seen().len(), 2, "only what was named");
}

#[test]
fn r50_a_password_of_an_address_is_not_shown_and_its_file_is_for_its_user_alone() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["ready"])));
    let home = alone();
    fs::create_dir_all(home.path()).unwrap();
    let path = home.path().join("config.toml");
    fs::write(&path, "[providers.custom]\nbase_url = \"http://u:hunter22@h/v1\" # mine\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let url = server.base_url.replace("http://", "http://user:hunter23@");
    let words =
        ["setup", "--yes", "--json", "--provider", "custom", "--model", "m", "--key-cmd", "printf x", "--url", &url];
    let done = home.run(&words).expect_code(0);
    assert!(!done.out.contains("hunter") && !done.err.contains("hunter"), "{done:?}");
    let shown: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(shown["removed"], serde_json::json!(["base_url = \"http://…@h/v1\""]));
    assert!(file(&home).contains(&url), "{}", file(&home));
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn r50_a_key_on_stdin_is_taken_whole_or_not_at_all() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["ready"])));
    let home = alone();
    let words = ["setup", "--yes", "--provider", "custom", "--key-stdin", "--url", &server.base_url, "--model", "m"];
    let long = "k".repeat(9_000);
    home.feed(&words, long.as_bytes()).expect_code(0);
    assert_eq!(server.seen().last().unwrap().key, long);
    let refused = home.feed(&words, "k".repeat(70_000).as_bytes()).expect_code(2);
    assert!(refused.err.contains("more than 65536 bytes") && refused.err.len() < 1_000, "{}", refused.err.len());
    let refused = home.feed(&words, b"sk-\xff\xfe\n").expect_code(2);
    assert!(refused.err.contains("that is not text in UTF-8"), "{refused:?}");
    assert_eq!(server.seen().len(), 1);
}
