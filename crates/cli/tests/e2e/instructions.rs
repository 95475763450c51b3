//! The instructions that a user and a project keep in files, and the folder that a run works in.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{Does, Home, Planned, RawClient, whole};

/// The system prompt of each request.
fn prompts(server: &Planned) -> Vec<String> {
    let first = |body: &Value| body["messages"][0]["content"].as_str().expect("a system prompt").to_owned();
    server.seen().iter().map(|asked| first(&asked.body)).collect()
}

/// R41: AGENTS.md of the user, then from the root of the project to the workspace, is in the system prompt, and `sessions
/// context` shows it; a change on disk takes effect with the next run.
#[test]
pub(crate) fn r41_the_model_receives_the_instructions_of_the_user_and_the_project() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["done"])));
    let home = Home::new().served_at(&server.base_url);
    let project = home.file("");
    fs::create_dir_all(project.join(".git")).unwrap();
    fs::create_dir_all(project.join("src")).unwrap();
    fs::write(home.user().join("AGENTS.md"), "not of this project").unwrap();
    let agent = |home: &Home, words: &[&str]| {
        let words = [&["agent", "-m", "go"], words].concat();
        home.limulus(&words).current_dir(project.join("src")).output().expect("limulus can be started")
    };
    assert!(agent(&home, &[]).status.success());
    assert!(!prompts(&server)[0].contains("keep instructions in files"));
    fs::write(home.path().join("AGENTS.md"), "answer in French").unwrap();
    fs::write(project.join("AGENTS.md"), "use tabs\n").unwrap();
    fs::write(project.join("src/CLAUDE.md"), "no tabs here").unwrap();
    assert!(agent(&home, &[]).status.success());
    let prompt = prompts(&server).pop().unwrap();
    let at = |text: &str| prompt.find(text).unwrap_or_else(|| panic!("{text}: {prompt}"));
    assert!(at("French") < at("use tabs") && at("use tabs") < at("no tabs here"), "{prompt}");
    assert!(!prompt.contains("not of this project"), "{prompt}");
    let context = home.json(&["sessions", "context"]);
    let of_files: Vec<_> =
        context["parts"].as_array().unwrap().iter().filter(|part| part["what"] == "instructions").collect();
    let texts: Vec<_> = of_files.iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["answer in French", "use tabs", "no tabs here"]);
    assert!(of_files.iter().all(|part| part["tokens"].as_u64() > Some(3)), "{of_files:?}");
    assert!(of_files[1]["file"].as_str().unwrap().ends_with("workspace/AGENTS.md"));
    let shown = home.run(&["sessions", "context"]).expect_code(0).out;
    assert!(shown.contains("instructions") && shown.contains("AGENTS.md: use tabs"), "{shown}");
    // One that leads out of the project, and one that is gone.
    fs::remove_file(project.join("AGENTS.md")).unwrap();
    symlink(home.user().join("AGENTS.md"), project.join("AGENTS.md")).unwrap();
    fs::remove_file(project.join("src/CLAUDE.md")).unwrap();
    assert!(agent(&home, &[]).status.success());
    let prompt = prompts(&server).pop().unwrap();
    assert!(prompt.contains("[left out: it leads out of") && !prompt.contains("tabs"), "{prompt}");
    let home = home.with("LIMULUS_AGENTS__MAIN__INSTRUCTIONS", "false");
    assert!(agent(&home, &[]).status.success());
    assert!(!prompts(&server).pop().unwrap().contains("French"));
}

/// R41: a folder that is not there is an error that says how to make it, wherever it is named, and nothing is made.
#[test]
pub(crate) fn r41_a_configured_workspace_that_is_not_there_is_not_made() {
    let home = Home::new().with("LIMULUS_AGENTS__MAIN__WORKSPACE", "~/nowhere");
    for words in [&["agent", "-m", "ls"][..], &["send", "ls"]] {
        let refused = home.run(words);
        assert_ne!(refused.code, Some(0));
        let verdict = refused.verdict();
        assert!(verdict.contains("nowhere") && verdict.contains("mkdir -p"), "{verdict}");
    }
    assert!(!home.user().join("nowhere").exists());
    fs::create_dir(home.user().join("nowhere")).unwrap();
    home.run(&["agent", "-m", "ls"]).expect_code(0);
}

/// R41: a service works in no folder of its own: a relative workspace is refused at its start, and an agent for which nobody
/// named one gets `~/limulus/AGENT`.
#[test]
fn r41_a_service_refuses_a_relative_workspace_and_makes_one_for_an_agent_without() {
    let home = Home::new().with("LIMULUS_AGENTS__MAIN__WORKSPACE", "work");
    fs::create_dir(home.file("work")).unwrap();
    let verdict = home.run(&["serve"]).expect_code(78).verdict();
    assert!(verdict.contains("`work`") && verdict.contains("absolute"), "{verdict}");
    let home = home.without("LIMULUS_AGENTS__MAIN__WORKSPACE");
    for relative in ["work", "."] {
        let refused = home.run(&["serve", "--workspace", relative]).expect_code(78);
        refused.expect_err(&format!("`{relative}`")).expect_err("--workspace '/");
    }
    let service = home.start(&["serve", "--json"]);
    service.until_line("ready", |line| line["type"] == "ready");
    let own = home.user().join("limulus/main");
    assert!(!own.exists());
    let mut client = RawClient::to(&home);
    let send = json!({ "message": "write \"yes\" to here.txt", "sessionKey": "main", "idempotencyKey": "k" });
    client.ask("agent", &send);
    client.until(|frame| frame["type"] == "res" && frame["payload"]["status"] == "ok");
    assert_eq!(fs::read_to_string(own.join("here.txt")).unwrap().trim(), "yes");
}

/// R41: `prompt` shows what the next run receives, part by part, and it is what the model then receives; `--session` shows that too.
#[test]
pub(crate) fn r41_the_prompt_is_shown_part_by_part_as_the_model_receives_it() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["done"])));
    let home = Home::new().served_at(&server.base_url);
    for folder in [home.file(".git"), home.file("docs"), home.path()] {
        fs::create_dir_all(folder).unwrap();
    }
    for (name, text) in [
        ("AGENTS.md", "use tabs\n@docs/style.md\n@gone.md"),
        ("docs/style.md", "short names"),
        ("SOUL.md", "be kind"),
        ("MEMORY.md", "the port is 8080"),
        ("BOOTSTRAP.md", "introduce yourself"),
    ] {
        home.put(name, text);
    }
    fs::write(home.path().join("USER.md"), "I am Ada").unwrap();
    let shown = home.json(&["prompt"]);
    let of = |shown: &Value, field: &str| -> Vec<String> {
        shown["parts"].as_array().unwrap().iter().map(|part| part[field].as_str().unwrap().to_owned()).collect()
    };
    let files = ["AGENTS.md", "SOUL.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md"];
    let names = [&["identity", "tools", "safety"], &files[..], &["workspace", "facts"]].concat();
    assert_eq!(of(&shown, "name"), names);
    assert!(of(&shown, "origin")[5].ends_with("/USER.md") && of(&shown, "origin")[0] == "limulus");
    assert_eq!(
        of(&shown, "text")[3],
        "use tabs\nshort names\n[@gone.md is left out: cannot read gone.md: No such file or directory (os error 2)]"
    );
    assert_eq!(shown["problems"].as_array().unwrap().len(), 1);
    let total: u64 = shown["parts"].as_array().unwrap().iter().map(|part| part["tokens"].as_u64().unwrap()).sum();
    assert_eq!(shown["tokens"], total);
    let checked = home.run(&["prompt", "--check"]).expect_code(1);
    assert!(checked.out.contains("AGENTS.md: @gone.md") && checked.err.contains("1 part left out"), "{checked:?}");
    home.run(&["agent", "-m", "go"]).expect_code(0);
    let received = server.seen().pop().unwrap().body["messages"].clone();
    let received = format!("{}{}", received[0]["content"].as_str().unwrap(), received[1]["content"].as_str().unwrap());
    for text in of(&shown, "text") {
        assert!(received.contains(&text), "{text}\n--- is not in\n{received}");
    }
    let session = home.json(&["prompt", "--session", "main"]);
    for field in ["name", "text", "hash"] {
        let (session, shown) = (of(&session, field), of(&shown, field));
        assert_eq!(session, shown[..shown.len() - 1], "the facts are a note of the conversation");
    }
    assert!(!of(&home.json(&["prompt"]), "name").contains(&"BOOTSTRAP.md".to_owned()), "there is a session by now");
    let human = home.run(&["prompt"]).expect_code(0).out;
    assert!(human.contains("## SOUL.md (") && human.contains("\nbe kind\n"), "{human}");
    // A later session of the agent is not introduced again, and the first one still is.
    home.run(&["agent", "--session", "second", "-m", "go"]).expect_code(0);
    assert!(!prompts(&server).pop().unwrap().contains("introduce yourself"));
    home.run(&["agent", "--session", "main", "-m", "go"]).expect_code(0);
    assert!(prompts(&server).pop().unwrap().contains("introduce yourself"));
    let traced = home.run(&["runs", "trace", "main"]).expect_code(0).out;
    assert!(traced.contains("step 1; not whole in the prompt: AGENTS.md"), "{traced}");
    home.put("AGENTS.md", "use tabs");
    home.put("SOUL.md", "be brief");
    home.run(&["agent", "--session", "main", "-m", "go"]).expect_code(0);
    let traced = home.run(&["runs", "trace", "main"]).expect_code(0).out;
    assert!(traced.contains("step 1; changed in the prompt: AGENTS.md, SOUL.md"), "{traced}");
    let checked = home.run(&["prompt", "--check"]).expect_code(0);
    assert!(checked.out.contains("as it was written"), "{checked:?}");
}
