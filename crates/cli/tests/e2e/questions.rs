//! Questions of a model to the user: they wait whoever is connected, outlive kill -9, and are answered once.

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, Process, Terminal, until};

const COLOUR: &str =
    r#"call:ask_user {"question": "which colour?", "choices": ["red", "blue", "green"], "several": true}"#;
const NAME: &str = r#"call:ask_user {"question": "what is its name?"}"#;
const CHOICE: &str = r#"call:ask_user {"question": "which?", "choices": ["red", "blue"], "free_text": false}"#;
const NUMBER: &str = r#"call:ask_user {"question": "how many?", "schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}}"#;

/// A service of this home.
fn serve(home: &Home) -> Process {
    let service = home.start(&["serve"]);
    service.until_err("serving");
    service
}

/// The open questions, once there are so many.
fn questions(home: &Home, many: usize) -> Vec<Value> {
    let mut listed = vec![];
    until("the questions are open", || {
        listed.clone_from(home.json(&["answer"]).as_array().expect("an array"));
        listed.len() == many
    });
    listed
}

fn id(question: &Value) -> &str {
    question["id"].as_str().expect("an id")
}

/// What the model received as the result of its first call in the newest run.
fn received(home: &Home) -> (String, String) {
    let call = home.json(&["runs", "show"])["steps"][0]["calls"][0].clone();
    let text = |key: &str| call[key].as_str().expect("a text").trim().to_owned();
    (text("outcome"), text("output"))
}

/// R60: asked, killed, restarted, answered: the model receives the answer once, and a later one is refused by name.
#[test]
fn r60_a_question_of_the_model_outlives_kill_9() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let mut service = serve(&home);
    let waiting = home.start(&["agent", "-m", COLOUR]);
    waiting.until_err("which colour?");
    waiting.until_err("limulus answer");
    let asked = questions(&home, 1);
    assert_eq!(asked[0]["choices"], serde_json::json!(["red", "blue", "green"]));
    for _ in 0..2 {
        service.signal(Signal::KILL);
        service.finish();
        assert_eq!(questions(&home, 1), asked, "it is open without an owner");
        service = serve(&home);
    }
    let question = id(&asked[0]);
    assert_eq!(home.json(&["approvals", "list"]), serde_json::json!([]), "it is no approval request");
    home.run(&["approvals", "approve", question]).expect_code(4).expect_err("limulus answer");
    home.run(&["answer", question, "4"]).expect_code(2).expect_err("choices 1 to 3");
    let shown = home.run(&["answer", question]).expect_code(0);
    assert!(shown.out.contains("    2) blue\n"), "{shown:?}");
    assert!(home.run(&["status"]).out.contains(&format!("which colour? · limulus answer {question}")));
    let explained = home.run(&["runs", "explain"]).expect_code(0);
    assert!(explained.out.contains(&format!("limulus answer {question} TEXT")), "{explained:?}");
    let answer = home.run(&["answer", &question[..5], "3,1"]).expect_code(0);
    assert!(answer.out.contains("answered: which colour? (main)"), "{answer:?}");
    waiting.finish().expect_code(0);
    assert_eq!(received(&home), ("done".to_owned(), "red\ngreen".to_owned()));
    home.run(&["answer", question, "blue"]).expect_code(3).expect_err("already answered by the user");
    home.run(&["answer", question, "--skip"]).expect_code(3).expect_err("already answered");
    assert_eq!(home.json(&["answer", question])["answered"], true);
    assert_eq!(questions(&home, 0), Vec::<Value>::new());
}

/// R60: an answer is validated: choices without other words, and a JSON value by the schema of the question.
#[test]
fn r60_an_answer_fits_its_question_or_is_refused() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let _service = serve(&home);
    let waiting = home.start(&["agent", "-m", CHOICE]);
    let asked = questions(&home, 1);
    home.run(&["answer", id(&asked[0]), "green"]).expect_code(2).expect_err("red, blue");
    home.run(&["answer", id(&asked[0]), "1,2"]).expect_code(2).expect_err("not several");
    home.run(&["answer", id(&asked[0]), "Blue"]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(received(&home).1, "blue");

    let waiting = home.start(&["agent", "-m", NUMBER]);
    let asked = questions(&home, 1);
    home.run(&["answer", id(&asked[0]), "seven"]).expect_code(2).expect_err("no JSON");
    home.run(&["answer", id(&asked[0]), r#"{"n": "seven"}"#]).expect_code(2).expect_err("does not fit its schema");
    home.run(&["answer", id(&asked[0]), r#"{"n": 7}"#]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(received(&home).1, r#"{"n":7}"#);

    let waiting = home.start(&["agent", "-m", NAME]);
    let asked = questions(&home, 1);
    home.run(&["answer", id(&asked[0]), "--skip", "--reason", "it has none"]).expect_code(0);
    waiting.finish().expect_code(0);
    let (outcome, output) = received(&home);
    assert_eq!(outcome, "skipped");
    assert!(output.contains("it has none"), "{output}");
    home.run(&["answer", "zzz", "x"]).expect_code(4).expect_err("no question `zzz`");
}

/// R60: a question that contradicts itself goes back to the model, and nobody is asked.
#[test]
fn r60_a_question_that_nobody_can_answer_is_not_asked() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_APPROVALS__UNATTENDED", "wait");
    let message = r#"call:ask_user {"question": "which?", "choices": ["a", "a"]}"#;
    home.run(&["agent", "-m", message]).expect_code(0);
    let (outcome, output) = received(&home);
    assert!(outcome == "denied" && output.contains("comes twice"), "{outcome}: {output}");
}

/// R32, R60: a message that is sent while the question is open is its answer, also without an owner; nothing of it is lost.
#[test]
fn r32_r60_a_message_is_the_answer() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let service = serve(&home);
    let waiting = home.start(&["agent", "-m", NAME]);
    questions(&home, 1);
    let steer = home.run(&["send", "--mode", "steer", "Limulus the first"]);
    steer.expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(received(&home), ("done".to_owned(), "Limulus the first".to_owned()));
    let trace = home.run(&["runs", "trace"]).expect_code(0);
    assert!(trace.out.contains("answered by the user, with a message"), "{}", trace.out);
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
}

/// R60: a run that nobody attends has no such tool; one that a rule denies it to is told so by its error.
#[test]
fn r60_a_run_that_nobody_attends_asks_nothing() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.run(&["agent", "-m", NAME]).expect_code(0);
    let (outcome, output) = received(&home);
    assert!(outcome == "denied" && output.contains("no tool `ask_user`"), "{outcome}: {output}");
    let rule = "[[policy]]\ndecision = \"deny\"\ntool = \"ask_user\"\n";
    let home = home.with("LIMULUS_APPROVALS__UNATTENDED", "wait");
    let config = std::fs::read_to_string(home.path().join("config.toml")).unwrap_or_default();
    std::fs::write(home.path().join("config.toml"), config + rule).unwrap();
    home.run(&["agent", "-m", NAME]).expect_code(0);
    let (outcome, output) = received(&home);
    assert!(outcome == "denied" && output.contains("a rule of the configuration denies"), "{outcome}: {output}");
}

/// R60: nobody answers in time: the model decides.
#[test]
fn r60_a_question_of_the_model_expires_as_configured() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server).with("LIMULUS_APPROVALS__EXPIRES_S", "1");
    let _service = serve(&home);
    home.run(&["agent", "-m", NAME]).expect_code(0);
    let (outcome, output) = received(&home);
    assert!(outcome == "skipped" && output.contains("Not answered within 1 s"), "{outcome}: {output}");
}

/// R60: on the terminal of the run: choices by number, other words, help, and skipping.
#[test]
fn r60_a_terminal_answers_the_model() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    for (keys, answer) in [("2", "blue"), ("violet", "violet"), ("skip", "Not answered: the question was skipped.")] {
        let terminal = Terminal::run(&home, &["agent", "-m", COLOUR]);
        terminal.until("? answer with numbers of its choices, or other words > ");
        terminal.type_keys(&["9", "Enter"]);
        terminal.until("there are choices 1 to 3; `skip` lets the model decide");
        terminal.type_keys(&[keys, "Enter"]);
        terminal.until("exit=0");
        assert_eq!(received(&home).1, answer);
    }
}

/// R60: one key is the answer where one of a few choices is all that a question takes.
#[test]
fn r60_one_key_answers_a_question_of_choices() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    for (key, answer) in [("2", "blue"), ("s", "Not answered: the question was skipped.")] {
        let terminal = Terminal::run(&home, &["agent", "-m", CHOICE]);
        terminal.until("? answer with the number of a choice; s lets the model decide > ");
        for (key, hints) in [("Enter", 1), ("3", 2), ("0", 3), ("12", 4)] {
            terminal.type_keys(&[key]);
            let hint = "press the number of a choice";
            until("the hint", || terminal.screen().matches(hint).count() == hints);
        }
        terminal.type_keys(&[key]);
        terminal.until("exit=0");
        assert_eq!(received(&home).1, answer);
    }
}
