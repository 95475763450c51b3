//! Escapes that only the whole program can try. The numbers are those of docs/escapes.md.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::sandbox::confined;
use crate::support::{Home, PROGRAM, Process, RawClient, until};

fn serve(home: &Home) -> Process {
    let service = home.start(&["serve"]);
    service.until_err("serving");
    service
}

fn configure(home: &Home, text: &str) {
    fs::create_dir_all(home.path()).expect("a home");
    fs::write(home.path().join("config.toml"), text).expect("a configuration");
}

/// The open requests, once there are so many.
fn requests(home: &Home, many: usize) -> Vec<Value> {
    let mut listed = vec![];
    until("the requests are open", || {
        listed.clone_from(home.json(&["approvals", "list"]).as_array().expect("an array"));
        listed.len() == many
    });
    listed
}

fn exec(command: &str) -> String {
    format!("call:exec {}", json!({ "command": command }))
}

fn program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, script).expect("a program");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its rights");
}

/// A repository and programs in the workspace, which another program of the user could run: Limulus itself runs none of them.
#[test]
fn escape_11_17_limulus_runs_nothing_that_lies_in_a_workspace() {
    let server = ModelServer::start().expect("a model server");
    let home = Home::new().served_by(&server);
    let planted = home.file("planted");
    let evil = format!("#!/bin/sh\necho $0 >> {}\n", planted.display());
    let folder = home.file(".venv/bin");
    for name in [
        "git", "python", "python3", "rg", "grep", "find", "fd", "ls", "cat", "node", "ssh", "less", "editor",
        "xdg-open",
    ] {
        program(&folder.join(name), &evil);
    }
    program(&home.file("evil"), &evil);
    for name in ["sub/objects", "sub/refs", ".git/hooks"] {
        fs::create_dir_all(home.file(name)).expect("a folder");
    }
    let config = format!(
        "[core]\n\tbare = true\n\tfsmonitor = {0}\n\thooksPath = {0}\n\tpager = {0}\n",
        home.file("evil").display()
    );
    for repository in ["sub", ".git"] {
        home.put(&format!("{repository}/HEAD"), "ref: refs/heads/main\n");
        home.put(&format!("{repository}/config"), &config);
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let home = home.with("PATH", &path).with("EDITOR", "editor").with("PAGER", "less");
    for call in [
        "call:ls {\"path\":\"sub\"}",
        "call:find {\"pattern\":\"**/*\"}",
        "call:grep {\"pattern\":\"main\",\"path\":\"sub\"}",
        "call:read {\"path\":\"sub/config\"}",
        "call:write {\"path\":\"sub/new.txt\",\"content\":\"x\"}",
        "call:edit {\"path\":\"sub/new.txt\",\"old_text\":\"x\",\"new_text\":\"y\"}",
        "call:exec {\"command\":\"echo a > sub/more.txt\"}",
    ] {
        home.run(&["agent", "--yes", "-m", call]).expect_code(0);
    }
    assert_eq!(home.text("sub/more.txt"), "a\n");
    for words in [
        &["status"][..],
        &["sandbox", "check"],
        &["policy", "list"],
        &["runs", "explain"],
        &["undo"],
        &["sessions", "show"],
    ] {
        home.run(words);
    }
    assert!(!planted.exists(), "{}", home.text("planted"));
    // Whoever runs one of them finds it.
    home.shell("git status; true").expect_code(0);
    assert!(planted.exists());
}

/// What would run, if a trick in a command line were taken for the command that is allowed, has not run.
#[test]
fn escape_76_to_92_a_trick_that_nobody_approves_leaves_nothing() {
    let server = ModelServer::start().expect("a model server");
    let home = Home::new().served_by(&server);
    let allowed = "[\"echo *\", \"git status\", \"find *\", \"sed *\", \"sort *\", \"xargs *\", \"env *\", \"awk *\"]";
    configure(&home, &format!("[[policy]]\ndecision = \"allow\"\ntool = \"exec\"\ncommand = {allowed}\n"));
    program(&home.file("run"), "#!/bin/sh\ntouch planted\n");
    home.run(&["agent", "-m", &exec("echo a && find . -name run | sort")]).expect_code(0);
    for line in [
        "echo a; touch planted",
        "echo a\ntouch planted",
        "echo $(touch planted)",
        "echo a > planted",
        "echo <<E\n$(touch planted)\nE",
        "touch${IFS}planted",
        "/usr/bin/touc? planted",
        "echo() { touch planted; }; echo a",
        "eval 'touch planted'",
        "PATH=. git status",
        "find . -name run -exec touch planted ;",
        "find . -name run -exec touch planted \\;",
        "sed '1e touch planted' run",
        "awk 'BEGIN { system(\"touch planted\") }'",
        "sort --compress-prog=./run run",
        "echo planted | xargs touch",
        "env touch planted",
        "echo a # \\\ntouch planted",
        "touch planted; echo 'a",
    ] {
        home.run(&["agent", "-m", &exec(line)]).expect_code(3);
        assert!(!home.file("planted").exists(), "{line:?}");
    }
}

/// Variables that have a program run another one come from nobody's environment into that of a command.
#[test]
fn escape_83_84_variables_of_the_user_run_nothing_in_a_command() {
    let home = Home::new();
    program(&home.file("evil"), &format!("touch {}\n", home.file("planted").display()));
    let evil = home.file("evil").display().to_string();
    let names = [
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "ZDOTDIR",
        "GIT_SSH_COMMAND",
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "PAGER",
        "EDITOR",
        "VISUAL",
        "PYTHONSTARTUP",
        "LESSOPEN",
        "RUSTC_WRAPPER",
    ];
    let home = names.iter().fold(home, |home, name| home.with(name, &evil));
    let home = home.with("PS4", "$(touch planted)").with("PERL5OPT", "-Mevil").with("NODE_OPTIONS", "--require=./evil");
    let command = "env > seen; bash -c true; bash -xc true; sh -c true; perl -e 1";
    home.run(&["agent", "--yes", "-m", &format!("run `{command}`")]).expect_code(0);
    let seen = home.text("seen");
    assert!(seen.contains("PATH=") && !home.file("planted").exists(), "{seen}");
    for name in names.iter().chain(&["PS4", "PERL5OPT", "NODE_OPTIONS"]) {
        assert!(!seen.contains(&format!("{name}=")), "{name}: {seen}");
    }
    // With them, it would.
    home.program("bash", &["-c", "true"]).status().expect("a shell");
    assert!(home.file("planted").exists());
}

/// An answer is for the call that was asked about, with the arguments that were shown, in its session, once.
#[test]
fn escape_96_97_an_answer_is_for_one_call_as_it_was_asked_about() {
    let home = Home::new();
    let _service = serve(&home);
    let first = home.start(&["agent", "--session", "one", "-m", "run `echo ran >> ledger`"]);
    let asked = requests(&home, 1).remove(0);
    let _second = home.start(&["agent", "--session", "two", "-m", "run `echo ran >> ledger`"]);
    let _third = home.start(&["agent", "--session", "three", "-m", "run `echo other >> ledger`"]);
    let all = requests(&home, 3);
    let others: Vec<&Value> = all.iter().filter(|request| request["call"] != asked["call"]).collect();
    let different =
        others.iter().find(|request| request["fingerprint"] != asked["fingerprint"]).expect("other arguments");
    let mut client = RawClient::to(&home);
    let mut answer = |call: &Value, fingerprint: &Value| {
        client.say("approvals.resolve", &json!({ "call": call, "fingerprint": fingerprint, "allow": true }));
        client.until(|frame| frame["type"] == "res")["ok"] == true
    };
    // The id of one call with what was shown of another.
    assert!(!answer(&asked["call"], &different["fingerprint"]));
    assert!(!answer(&different["call"], &asked["fingerprint"]));
    assert_eq!(home.text("ledger"), "");
    assert!(answer(&asked["call"], &asked["fingerprint"]));
    first.finish().expect_code(0);
    // The same once more.
    assert!(!answer(&asked["call"], &asked["fingerprint"]));
    assert_eq!(home.text("ledger"), "ran\n");
    let open = requests(&home, 2);
    assert!(
        open.iter().all(|request| request["call"] != asked["call"]),
        "those of other sessions are still open: {open:?}"
    );
}

/// What is approved for good is the command that was shown, never all that a shell or another such program can run.
#[test]
fn escape_99_no_shell_is_approved_for_good() {
    let home = Home::new().with("LIMULUS_APPROVALS__UNATTENDED", "wait");
    home.put("script.sh", "echo ran >> ledger\n");
    let _service = serve(&home);
    for (command, patterns) in [
        ("bash script.sh", &["bash *", "* *"][..1]),
        ("env bash script.sh", &["env *", "env bash *"]),
        ("echo script.sh | xargs bash", &["echo *,xargs *"]),
    ] {
        let waiting = home.start(&["agent", "-m", &format!("run `{command}`")]);
        let asked = requests(&home, 1).remove(0);
        let id = asked["id"].as_str().expect("an id");
        let shown = home.run(&["approvals", "show", id]).expect_code(0);
        let offered =
            shown.out.lines().find(|line| line.contains("--always would allow")).expect("an offer").to_owned();
        assert!(!offered.contains('*') || offered.contains("echo"), "{offered}");
        for pattern in patterns {
            let words = ["approvals", "approve", id, "--always", "home", "--pattern", pattern];
            home.run(&words).expect_code(2).expect_err("do not allow the call");
        }
        home.run(&["approvals", "deny", id]).expect_code(0);
        waiting.finish().expect_code(0);
    }
    assert_eq!(home.json(&["approvals", "grants"]), json!([]));
    assert_eq!(home.text("ledger"), "");
}

/// A command that starts Limulus without a sandbox has a Limulus in the sandbox that it has itself.
#[test]
fn escape_100_101_a_limulus_inside_of_a_sandbox_does_not_leave_it() {
    let Some(home) = confined() else { return };
    let script = |home: &str| {
        format!(
            "mkdir -p {home}; LIMULUS_HOME={home} LIMULUS_SANDBOX__MODE=off {PROGRAM} agent --no-sandbox --yes -m 'run `echo out > ../outside`'\n"
        )
    };
    home.put("attack", script("$PWD/inner"));
    let answer = home.run(&["agent", "-m", "run `sh ./attack; echo over`"]).expect_code(0);
    assert!(answer.out.contains("over") && !home.file("../outside").exists(), "{answer:?}");
    home.put("attack", script("$PWD/outer"));
    home.shell("sh ./attack").expect_code(0);
    assert!(home.file("../outside").exists(), "outside of a sandbox it does");
}
