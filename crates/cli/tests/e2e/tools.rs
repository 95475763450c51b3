//! The tools as an agent calls them: files changed, found and read page by page, pages of the web.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use model_server::ModelServer;

use crate::support::Home;

#[test]
pub(crate) fn r61_files_are_edited_and_found_by_plain_requests() {
    let home = Home::new();
    home.put("notes.txt", "eats worms\r\n");
    home.put("crab.rs", "");
    let asked = "replace \"worms\" with \"clams\" in notes.txt, then find *.rs";
    let answer = home.run(&["agent", "-m", asked]).expect_code(0);
    assert!(answer.out.contains("edited notes.txt") && answer.out.contains("crab.rs"), "{answer:?}");
    assert_eq!(home.text("notes.txt"), "eats clams\r\n");
    let again = home.run(&["agent", "-m", asked]).expect_code(0);
    assert!(again.out.contains("not in the file"), "{again:?}");
}

#[test]
pub(crate) fn r13_a_patch_changes_several_files_or_none() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("a.txt", "one\ntwo\n");
    let patch = |old: &str| {
        let lines = format!(
            "*** Begin Patch\\n*** Add File: b.txt\\n+new\\n*** Update File: a.txt\\n@@\\n-{old}\\n+2\\n*** End Patch"
        );
        format!("call:apply_patch {{\"input\": \"{lines}\"}}\ntokens=2")
    };
    home.run(&["agent", "-m", &patch("three")]).expect_code(0);
    let call = home.json(&["runs", "show"])["steps"][0]["calls"][0].clone();
    assert_eq!(
        (&call["outcome"], home.text("a.txt").as_str(), home.text("b.txt").as_str()),
        (&"failed".into(), "one\ntwo\n", "")
    );
    home.run(&["agent", "-m", &patch("two")]).expect_code(0);
    assert_eq!((home.text("a.txt").as_str(), home.text("b.txt").as_str()), ("one\n2\n", "new\n"));
    assert_eq!(server.violations(), [""; 0]);
}

#[test]
pub(crate) fn r45_what_was_left_out_of_an_output_can_be_read() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.run(&["agent", "--yes", "-m", "exec:seq 1 20000\ntokens=2"]).expect_code(0);
    let whole: Vec<String> = (1..=20_000).map(|number| format!("{number}\n")).collect();
    let name = format!("output:{}", engine::Hash::of(whole.concat().as_bytes()));
    let transcript = || home.json(&["sessions", "show", "main"])["transcript"].to_string();
    assert!(transcript().contains(&name), "the result names it");
    let read = format!("call:read {{\"path\": \"{name}\", \"offset\": 12345, \"limit\": 2}}\ntokens=2");
    home.run(&["agent", "-m", &read]).expect_code(0);
    assert!(
        transcript().contains("\"12345\\n12346\\n[more lines follow; continue with offset=12347]"),
        "{}",
        transcript()
    );
}

#[test]
pub(crate) fn a_page_is_fetched_only_with_approval_and_only_from_allowed_addresses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 26\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}<p>crabs <b>eat</b> clams\n\n").as_bytes()).unwrap();
    });
    let (home, asked) = (Home::new(), format!("fetch `{url}`"));
    let denied = home.run(&["agent", "-m", &asked]).expect_code(3);
    assert!(denied.err.contains("denied"), "{denied:?}");
    let refused = home.run(&["agent", "--yes", "-m", &asked]).expect_code(0);
    assert!(refused.out.contains("not on the public internet"), "{refused:?}");
    let home = home.with("LIMULUS_TOOLS__WEB_FETCH__ALLOW_PRIVATE", "true");
    let answer = home.run(&["agent", "--yes", "-m", &asked]).expect_code(0);
    assert!(answer.out.contains("crabs eat clams"), "{answer:?}");
    server.join().unwrap();
}
