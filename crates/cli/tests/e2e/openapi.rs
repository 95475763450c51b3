//! `docs/openapi.json` is what the service does: schemathesis sends what the description allows and what it does not, and judges the
//! responses by it.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::support::Home;
use crate::support::web::Web;

/// What is judged.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
                      negative_data_rejection,unsupported_method,ignored_auth";

/// The Python with the module, if there is one. Where it is promised it must be there.
fn python() -> Option<String> {
    let python = std::env::var("READER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_module = Command::new(&python).args(["-c", "import schemathesis"]).output();
    if has_module.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let is_promised = std::env::var("CI").is_ok_and(|ci| ci == "true") && std::env::var("READER_PYTHON").is_ok();
    assert!(!is_promised, "{python} has no module `schemathesis`");
    eprintln!("skipped: no Python with the module `schemathesis`");
    None
}

/// R60: whatever is sent, the response is one that the description names; nothing is an error of the service, and its data is sound.
#[test]
fn r60_the_api_does_what_its_description_says() {
    let Some(python) = python() else { return };
    let home = Home::new();
    let web = Web::start(&home);
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json").display().to_string();
    let (url, token) = (web.url(""), format!("Authorization: Bearer {}", web.token));
    // What waits, for an end or for ever, has tests of its own.
    let mut command = home.program(
        &python,
        &["-m", "schemathesis.cli", "run", &file, "--url", &url, "-H", &token, "--checks", CHECKS]
            .into_iter()
            .chain(["--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--seed", "1"])
            .chain(["--exclude-path-regex", "/events$|/agent.wait$"])
            .chain(["--request-timeout", "30", "--no-color", "--warnings", "off", "--continue-on-failure"])
            .collect::<Vec<_>>(),
    );
    let output = command.output().expect("it runs");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("passed"), "{out}\n{}", String::from_utf8_lossy(&output.stderr));
    // It may have ended the session that was there.
    home.assert_usable("after");
    web.service.signal(Signal::TERM);
    web.service.finish().expect_code(0);
    home.run(&["doctor", "--data"]).expect_code(0);
    home.run(&["audit", "--verify"]).expect_code(0);
}
