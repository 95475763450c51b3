//! What pages show of the program: the drawing and the demonstration.

use std::fs;
use std::path::Path;

use crate::support::Home;

#[test]
fn r03_r06_the_drawing_of_the_page_about_states_is_the_one_that_is_printed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/states.md");
    let page = fs::read_to_string(page).expect("the page");
    let block = page.split("```mermaid\n").nth(1).and_then(|rest| rest.split("```").next());
    let drawn = Home::new().run(&["graph"]).expect_code(0).out;
    assert_eq!(block.map(str::trim), Some(drawn.trim()), "put what `limulus graph` prints into docs/states.md");
}

#[test]
pub(crate) fn r06_the_path_of_a_run_is_in_its_drawing() {
    let home = Home::new();
    home.assert_usable("main");
    let drawn = home.run(&["graph", "--run", ""]).code;
    assert_ne!(drawn, Some(70), "no run is no bug");
    let run = home.json(&["runs", "list"])[0]["run"].as_str().map(str::to_owned).expect("a run");
    assert_ne!(home.run(&["graph", "--run", &run]).expect_code(0).out, home.run(&["graph"]).expect_code(0).out);
}

#[test]
fn r10_r12_r13_the_demo_ends_green() {
    let home = Home::new();
    let demo = home.run(&["demo"]).expect_code(0);
    assert!(demo.out.contains("SIGKILL") && demo.out.contains("✓") && !demo.out.contains("✗"), "{demo:?}");
    let json = home.run(&["demo", "--json"]).expect_code(0).lines();
    assert!(json[0]["passed"].as_u64() >= Some(8) && json[0]["failed"] == 0, "{json:?}");
}
