//! A configuration that changes under a process that lives on.

use std::fs;

use model_server::ModelServer;

use crate::support::{Finished, Home, until};

/// The first of two runs in one process waits for its command when this file is written; gives the end of the process.
fn changed_in_between(home: &Home, file: &str) -> Finished {
    let command = "run `echo $$ >> pids; until test -e go; do sleep 0.02; done`";
    let first = home.start(&["agent", "--yes", "-m", command]);
    until("the command runs", || home.file("pids").exists());
    first.kill();
    // Takes the first run up, and runs its own message after it.
    let both = home.start(&["agent", "--mode", "followup", "-m", "tokens=3 Who are you?"]);
    both.until_err("found: running");
    fs::write(home.path().join("config.toml"), file).expect("the home can be written");
    home.put("go", "");
    both.finish()
}

fn models(home: &Home) -> Vec<String> {
    let mut runs = home.json(&["runs", "list"]).as_array().cloned().unwrap_or_default();
    runs.sort_by_key(|run| run["run"].to_string());
    runs.iter().map(|run| run["model"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn r11_a_changed_file_counts_for_the_next_run_of_the_same_process() {
    let server = ModelServer::start().unwrap();
    let home = Home::new();
    let file = format!(
        "[agents.main]\nmodel = \"acme/scripted\"\n[providers.acme]\napi = \"openai-chat\"\nbase_url = \"{}\"\n",
        server.base_url()
    );
    let both = changed_in_between(&home, &file).expect_code(0).expect_err("counts from the next run on");
    assert!(both.out.ends_with("word0 word1 word2\n"), "{both:?}");
    assert_eq!(models(&home), ["offline/offline", "acme/scripted"], "the first run went on as it had begun");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn r24_a_file_that_was_broken_meanwhile_is_told_and_what_was_in_force_stays() {
    let home = Home::new();
    let both = changed_in_between(&home, "[agents.main]\nmodle = \"a/b\"\n").expect_code(0);
    assert!(both.err.contains("agents.main.model") && both.err.contains("stays in force"), "{both:?}");
    assert_eq!(models(&home), ["offline/offline"; 2]);
    home.run(&["agent", "-m", "hi"]).expect_code(78);
}
