//! What `limulus status` says beside the sessions: open questions, what today cost, and the size of the home.

use std::fs;

use model_server::ModelServer;

use crate::support::{Home, Terminal};

#[test]
pub(crate) fn r18_the_status_says_what_today_cost_and_the_size_of_the_home() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    fs::create_dir_all(home.path()).unwrap();
    let price = "[models.\"acme/scripted\"]\nprice = { input = 1000, output = 1000 }\n";
    fs::write(home.path().join("config.toml"), price).unwrap();
    assert!(home.json(&["status"])["size"]["bytes"].as_u64().is_some());
    for session in ["one", "two"] {
        home.run(&["agent", "--session", session, "-m", "tokens=3 Who are you?"]).expect_code(0);
    }
    let status = home.json(&["status"]);
    let (today, all) = (&status["today"], home.json(&["usage"]));
    assert_eq!((&today["runs"], &today["cost_micros"]), (&2.into(), &all["all"]["costMicros"]), "{status}");
    assert!(today["cost_micros"].as_u64().unwrap() > 0, "{status}");
    let size = &status["size"];
    assert!(size["bytes"].as_u64().unwrap() > 10_000 && size["is_whole"] == true, "{status}");
    let text = home.run(&["status"]).expect_code(0).out;
    assert!(
        text.contains("\ntoday       2 runs, ") && text.contains(" KiB\nowner ") || text.contains(" MiB\nowner "),
        "{text}"
    );
}

#[test]
pub(crate) fn r18_r60_the_status_lists_the_questions_that_wait_for_a_person() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let terminal = Terminal::run(&home, &["agent", "-m", "run `touch made`"]);
    terminal.until("? allow");
    let status = home.json(&["status"]);
    let question = &status["questions"][0];
    assert_eq!(question["session"], "agent:main:main", "{status}");
    assert!(question["question"].as_str().unwrap().contains("touch made"), "{status}");
    let text = home.run(&["status"]).expect_code(0).out;
    let asked = home.json(&["approvals", "list"]);
    let way = format!(" · limulus approvals approve {}\n", asked[0]["id"].as_str().expect("an id"));
    assert!(text.contains(" ago in main: ") && text.contains(&way), "{text}");
    terminal.type_keys(&["n", "Enter"]);
    terminal.until("exit=0");
    assert_eq!(home.json(&["status"]).get("questions"), None);
}
