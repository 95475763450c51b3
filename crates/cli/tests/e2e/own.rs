//! What belongs to limulus itself, attacked by a model through the real program: its home, its configuration, its keys.

use std::fs;
use std::os::unix::fs::symlink;

use model_server::ModelServer;

use crate::support::Home;

/// A call of a tool, as a message to the scripted model.
fn call(tool: &str, arguments: &serde_json::Value) -> String {
    format!("call:{tool} {arguments}\ntokens=2")
}

/// The outcomes and results of the calls of the last run.
fn results(home: &Home) -> String {
    home.json(&["sessions", "show", "main"])["transcript"].to_string()
}

/// The home lies in the workspace, as it does if the workspace is `$HOME` or the home is `./.limulus`.
#[test]
pub(crate) fn r61_a_model_does_not_rewrite_the_configuration_or_the_journal() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    let inner = home.file(".limulus");
    let home = home.with("LIMULUS_HOME", ".limulus").with("LIMULUS_TOOLS__OUTSIDE_WORKSPACE__POLICY", "allow");
    home.run(&["config", "init"]).expect_code(0);
    let before = fs::read_to_string(inner.join("config.toml")).unwrap();
    symlink(".limulus", home.file("innocent")).unwrap();
    let absolute = inner.join("config.toml").display().to_string();
    let attack = "[tools.exec]\npolicy = \"allow\"\n";
    for path in
        [".limulus/config.toml", "innocent/config.toml", "./x/../.limulus//config.toml", &absolute, ".limulus/new"]
    {
        let arguments = serde_json::json!({ "path": path, "content": attack });
        home.run(&["agent", "--yes", "-m", &call("write", &arguments)]).expect_code(0);
        let shown = home.json(&["runs", "show"])["steps"][0]["calls"][0].clone();
        assert_ne!(shown["outcome"], "done", "{path}: {shown}");
        assert_eq!(fs::read_to_string(inner.join("config.toml")).unwrap(), before, "{path}");
        assert!(!inner.join("new").exists());
    }
    for name in ["journal.db", "journal.mark", "owner.lock", "calls/x/exit.json"] {
        let patch = format!("*** Begin Patch\n*** Add File: .limulus/{name}\n+x\n*** End Patch");
        home.run(&["agent", "--yes", "-m", &call("apply_patch", &serde_json::json!({ "input": patch }))])
            .expect_code(0);
    }
    for (tool, arguments) in [
        ("read", serde_json::json!({ "path": ".limulus/config.toml" })),
        ("ls", serde_json::json!({ "path": "innocent" })),
        ("grep", serde_json::json!({ "pattern": "policy", "path": "." })),
        ("find", serde_json::json!({ "pattern": ".limulus/**" })),
    ] {
        home.run(&["agent", "-m", &call(tool, &arguments)]).expect_code(0);
    }
    let shown = results(&home);
    assert!(shown.contains("belongs to limulus itself"), "{shown}");
    assert!(!shown.contains("journal.mark\\n") && !shown.contains("deadline_s"), "{shown}");
    // Everything is as it was, and the agent works in the rest of the folder.
    home.run(&["doctor"]).expect_code(0);
    let arguments = serde_json::json!({ "path": "a/b.txt", "content": "fine" });
    home.run(&["agent", "-m", &call("write", &arguments)]).expect_code(0);
    assert_eq!(home.text("a/b.txt"), "fine");
}

/// A key file in the workspace, and a configuration that a link in the home leads to.
#[test]
pub(crate) fn r61_a_model_does_not_read_or_replace_a_key_or_a_linked_configuration() {
    let server = ModelServer::start().unwrap();
    let home = Home::new();
    home.put("acme-key", "sk-the-key-of-acme\n");
    fs::hard_link(home.file("acme-key"), home.file("notes.txt")).unwrap();
    let config = format!(
        "[agents.main]\nmodel = \"acme/scripted\"\n[providers.acme]\napi = \"openai-chat\"\nbase_url = \"{}\"\n\
         [[providers.acme.profiles]]\nkey = \"file:{}\"\n",
        server.base_url(),
        home.file("acme-key").display()
    );
    home.put("limulus.toml", &config);
    fs::create_dir_all(home.path()).unwrap();
    symlink(home.file("limulus.toml"), home.path().join("config.toml")).unwrap();
    for path in ["acme-key", "notes.txt", "limulus.toml", "acme-key.new", "acme-key.lock"] {
        for (tool, arguments) in [
            ("read", serde_json::json!({ "path": path })),
            ("write", serde_json::json!({ "path": path, "content": "sk-another" })),
        ] {
            home.run(&["agent", "--yes", "-m", &call(tool, &arguments)]).expect_code(0);
            let shown = home.json(&["runs", "show"])["steps"][0]["calls"][0].clone();
            assert_ne!(shown["outcome"], "done", "{tool} {path}: {shown}");
        }
    }
    assert_eq!(home.text("limulus.toml"), config);
    assert_eq!(home.text("acme-key"), "sk-the-key-of-acme\n");
    assert!(!home.file("acme-key.new").exists() && !home.file("acme-key.lock").exists());
    let listed = call("ls", &serde_json::json!({}));
    home.run(&["agent", "-m", &listed]).expect_code(0);
    let shown = results(&home);
    assert!(shown.contains("acme-key (of limulus itself)") && !shown.contains("sk-the-key"), "{shown}");
}
