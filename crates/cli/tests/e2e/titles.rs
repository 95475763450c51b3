//! Titles of conversations that a model writes (`session.titles = "model"`).

use std::fs;

use model_server::ModelServer;

use crate::sessions::{list, row, say};
use crate::support::{Home, until};

const KEY: &str = "sk-title-0123456789abcdef";

fn home(server: &ModelServer) -> Home {
    Home::new().served_by(server).with("LIMULUS_SESSION__TITLES", "model")
}

fn title(home: &Home) -> String {
    home.json(&["sessions", "list"])[0]["title"].as_str().unwrap_or_default().to_owned()
}

/// R09, R21: a model names a conversation beside its first answer, once, and its tokens are those of the run.
#[test]
pub(crate) fn r09_a_model_names_a_conversation_beside_its_first_answer() {
    let server = ModelServer::start().expect("a server");
    let home = home(&server);
    let message = "Fix the parser\ntitle=The_broken_parser tokens=40 delay_ms=20";
    let shown = home.run(&["agent", "--json", "--session", "one", "-m", message]).expect_code(0).out;
    assert!(shown.contains(r#""titled""#) && shown.contains("The broken parser"), "{shown}");
    assert_eq!((title(&home), server.seen().len()), ("The broken parser".into(), 2));
    let audit = home.run(&["audit", "one"]).expect_code(0).out;
    assert!(audit.contains("the conversation has a title by acme/scripted"), "{audit}");
    // The next run asks for no title, and a person's title is the title.
    say(&home, "one", "and then?\ntitle=Another tokens=40 delay_ms=20");
    assert_eq!((title(&home), server.seen().len()), ("The broken parser".into(), 3));
    home.run(&["sessions", "show", "The broken parser"]).expect_code(2);
    home.run(&["sessions", "rename", "one", "Mine"]).expect_code(0);
    assert_eq!(title(&home), "Mine");
    assert!(row(&list(&home, &["--search", "broken parser"]), "one").is_some());
    home.run(&["audit", "one", "--verify"]).expect_code(0);
    // What a model wrote is no name of a session.
    home.run(&["sessions", "rename", "one", ""]).expect_code(0);
    assert!(title(&home).starts_with("Fix the parser"));
    // Its words go with the conversation.
    home.run(&["sessions", "delete", "one", "--yes"]).expect_code(0);
    assert_eq!(crate::sessions::holding(&home.path(), "The broken parser"), Vec::<String>::new());
}

/// R09: no answer waits for its title; the next run asks for it.
#[test]
pub(crate) fn r09_a_run_does_not_wait_for_its_title() {
    let server = ModelServer::start().expect("a server");
    let home = home(&server);
    say(&home, "one", "Fix the parser\ntitle=Late title_ms=600000 tokens=3");
    assert!(title(&home).starts_with("Fix the parser"));
    let audit = home.run(&["audit", "one"]).expect_code(0).out;
    assert!(audit.contains("no title: its run ended before the title came"), "{audit}");
    say(&home, "one", "go on\ntitle=In_time tokens=40 delay_ms=20");
    assert_eq!(title(&home), "In time");
    // A conversation that nobody has named needs no model where words do.
    let words = Home::new().served_by(&server);
    say(&words, "one", "Fix the parser\ntitle=Never tokens=20");
    assert!(title(&words).starts_with("Fix the parser"));
}

/// R09: a run that streams does not wait for its title, and is not explained by it.
#[test]
pub(crate) fn r09_a_run_is_not_explained_by_the_title_that_is_out() {
    let server = ModelServer::start().expect("a server");
    let home = home(&server);
    let message = "Fix the parser\ntitle=Late title_ms=600000 tokens=2000 delay_ms=50";
    let run = home.start(&["agent", "-m", message]);
    until("the request for a title", || server.seen().len() == 2);
    let explained = home.run(&["runs", "explain"]).expect_code(0).out;
    assert!(explained.contains("stream") && !explained.contains("title"), "{explained}");
    home.run(&["runs", "abort", "--session", "main"]).expect_code(0);
    run.finish().expect_code(130);
}

/// R09: the built-in offline model is asked for none.
#[test]
pub(crate) fn r09_the_offline_model_gives_no_titles() {
    let home = Home::new().with("LIMULUS_SESSION__TITLES", "model");
    say(&home, "one", "hello there");
    assert_eq!(title(&home), "hello there");
    assert!(!home.run(&["audit", "one"]).expect_code(0).out.contains("title"));
}

/// R50: a key in a message never goes to the model that writes the title, and is not in the title.
#[test]
pub(crate) fn r50_a_title_holds_no_key() {
    let server = ModelServer::start().expect("a server");
    let home = Home::new().with("ACME_KEY", KEY);
    let provider = format!("[providers.acme]\napi = \"openai-chat\"\nbase_url = \"{}\"\n", server.base_url());
    let file = format!(
        "[agents.main]\nmodel = \"acme/scripted\"\n[session]\ntitles = \"model\"\n{provider}[[providers.acme.profiles]]\nkey = \"env:ACME_KEY\"\n"
    );
    fs::create_dir_all(home.path()).expect("the home");
    fs::write(home.path().join("config.toml"), file).expect("its configuration");
    say(&home, "one", &format!("Use {KEY}\ntitle=Use_{KEY}_now tokens=40 delay_ms=20"));
    assert_eq!(title(&home), "Use [secret] now");
    assert!(server.seen().iter().all(|seen| !seen.script.contains(KEY)), "{:?}", server.seen());
}

/// R11: a kill while a title is out loses neither the run nor the title.
#[test]
pub(crate) fn r11_a_kill_while_a_title_is_asked_for_loses_nothing() {
    let server = ModelServer::start().expect("a server");
    let home = home(&server).with("LIMULUS_CRASHPOINT", "title_sent");
    let message = "Fix the parser\ntitle=The_broken_parser tokens=40 delay_ms=20";
    let killed = home.run(&["agent", "--session", "one", "-m", message]);
    assert!(!matches!(killed.code, Some(0)), "{killed:?}");
    let home = home.without("LIMULUS_CRASHPOINT");
    home.run(&["resume"]).expect_code(0);
    assert!(title(&home).starts_with("Fix the parser"), "a run asks once");
    say(&home, "one", "go on\ntitle=The_broken_parser tokens=40 delay_ms=20");
    assert_eq!(title(&home), "The broken parser");
    home.run(&["audit", "one", "--verify"]).expect_code(0);
    let runs = home.json(&["runs", "list"]);
    assert_eq!((runs.as_array().map(Vec::len), &runs[0]["outcome"]), (Some(2), &"completed".into()), "{runs}");
}
