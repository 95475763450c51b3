//! Rules on what calls may do: what runs, what is asked, what is denied, and who says so.

use std::fs;

use model_server::ModelServer;

use crate::support::{Home, Terminal};

const RULES: &str = r#"
[[policy]]
decision = "allow"
tool = "exec"
command = ["echo *", "cat *"]

[[policy]]
decision = "deny"
command = "rm *"

[[policy]]
decision = "deny"
path = "secret"

[[policy]]
decision = "ask"
tool = "read"
path = "*.key"
"#;

fn configure(home: &Home, text: &str) {
    fs::create_dir_all(home.path()).expect("a home");
    fs::write(home.path().join("config.toml"), text).expect("a configuration");
}

fn ruled() -> (ModelServer, Home) {
    let server = ModelServer::start().expect("a model server");
    let home = Home::new().served_by(&server);
    configure(&home, RULES);
    home.shell("mkdir -p secret .limulus").expect_code(0);
    home.put("secret/a.txt", "the password\n");
    home.put("plain.txt", "the tide, no password\n");
    home.put("my.key", "abc\n");
    (server, home)
}

/// R24: every simple command of a line is decided by itself; without a terminal what is asked is denied (exit code 3).
#[test]
pub(crate) fn r24_a_rule_decides_on_each_command_of_a_line() {
    let (_server, home) = ruled();
    home.run(&["exec: echo one >/dev/null && echo two | cat"]).expect_code(0);
    for line in ["echo one > out", "echo $(touch out)", "touch out", "X=1 echo a", "echo a; touch out"] {
        home.run(&[&format!("exec: {line}")]).expect_code(3);
        assert!(!home.file("out").exists(), "{line}");
    }
    // What a rule denies is no failure, and the model receives whose rule it is.
    for line in ["rm plain.txt", "echo a && rm plain.txt", "\"rm\" plain.txt", "echo $(r\\m plain.txt)"] {
        home.run(&["--yes", &format!("exec: {line}")]).expect_code(0);
        assert!(home.file("plain.txt").exists(), "{line}");
    }
    let shown = home.run(&["sessions", "show"]).expect_code(0).out;
    assert!(shown.contains("a rule of the configuration denies that (") && shown.contains("config.toml:"), "{shown}");
    home.run(&["--yes", "exec: touch out"]).expect_code(0);
    assert!(home.file("out").exists(), "what no rule denies is approved by --yes");
}

/// R24: a denied file is not read by way of a search, a link, or another spelling.
#[test]
pub(crate) fn r24_a_rule_on_a_path_holds_for_searches_and_links() {
    let (_server, home) = ruled();
    home.shell("ln -s secret/a.txt link").expect_code(0);
    for call in [
        "call:read {\"path\":\"secret/a.txt\"}",
        "call:read {\"path\":\"./x/../secret/a.txt\"}",
        "call:read {\"path\":\"link\"}",
        "call:grep {\"pattern\":\"password\"}",
        "call:grep {\"pattern\":\"password\",\"path\":\"secret\"}",
        "call:find {\"pattern\":\"**/a.txt\"}",
        "call:write {\"path\":\"secret/b.txt\",\"content\":\"x\"}",
    ] {
        home.run(&["agent", "--session", "s", "-m", call]).expect_code(0);
    }
    let shown = home.run(&["sessions", "show", "s"]).expect_code(0).out;
    assert!(!shown.contains("the password"), "{shown}");
    assert!(shown.contains("the tide, no password"), "the rest is found: {shown}");
    assert!(!home.file("secret/b.txt").exists());
    home.run(&["agent", "--session", "k", "-m", "call:read {\"path\":\"my.key\"}"]).expect_code(3);
    home.run(&["agent", "--session", "k", "--yes", "-m", "call:read {\"path\":\"my.key\"}"]).expect_code(0);
    assert!(home.run(&["sessions", "show", "k"]).expect_code(0).out.contains("abc"));
}

/// R24: a project asks and denies; it never allows.
#[test]
pub(crate) fn r24_a_project_can_only_make_rules_stricter() {
    let (_server, home) = ruled();
    home.put(".limulus/config.toml", "[[policy]]\ndecision = \"deny\"\ncommand = \"echo *\"\n");
    home.run(&["--yes", "exec: echo one > out"]).expect_code(0);
    assert!(!home.file("out").exists());
    let listed = home.run(&["policy", "list"]).expect_code(0).out;
    assert!(listed.contains(".limulus/config.toml:2") && listed.contains("command rm *"), "{listed}");
    home.put(".limulus/config.toml", "[[policy]]\ndecision = \"allow\"\ncommand = \"touch *\"\n");
    home.run(&["exec: touch out"]).expect_code(3).expect_err("does not count until you trust it");
    assert!(!home.file("out").exists());
    home.put(".limulus/config.toml", "[agents.main]\nmodel = \"evil/m\"\n");
    home.run(&["policy", "trust"]).expect_code(78).expect_err("a project may not set `agents.main.model`");
}

const TRUSTED: &str = "[[policy]]\ndecision = \"allow\"\ncommand = \"touch *\"\n";

/// R24: what a project allows counts while its user trusts the content of its file.
#[test]
pub(crate) fn r24_a_project_allows_while_its_file_is_trusted() {
    let (_server, home) = ruled();
    home.run(&["policy", "trust"]).expect_code(2).expect_err("has no .limulus/config.toml");
    home.put(".limulus/config.toml", TRUSTED);
    let open = home.json(&["policy", "list"])["project"][0].clone();
    assert_eq!((&open["trust"], &open["allows"][0]["line"]), (&"new".into(), &2.into()), "{open}");
    let answer = home.run(&["policy", "trust"]).expect_code(0).out;
    assert!(answer.contains("trusted") && answer.contains("command = \"touch *\""), "{answer}");
    home.run(&["exec: touch one"]).expect_code(0);
    assert!(home.file("one").exists(), "it counts");
    assert_eq!(home.json(&["policy", "trust"])["files"][0]["trust"], "trusted", "and once more");
    // Whoever writes into the project takes its trust away.
    home.put(".limulus/config.toml", TRUSTED.replace("touch", "*"));
    home.run(&["exec: touch two"]).expect_code(3).expect_err("does not count until you trust it");
    home.put(".limulus/config.toml", TRUSTED);
    home.run(&["exec: touch two"]).expect_code(0);
    home.run(&["policy", "untrust"]).expect_code(0);
    let refused = home.run(&["exec: touch three"]).expect_code(3);
    assert!(!refused.err.contains("does not count"), "that was answered: {refused:?}");
    assert!(!home.file("three").exists() && home.file("two").exists());
}

/// R24: a terminal is asked once, before anything runs.
#[test]
pub(crate) fn r24_a_terminal_asks_once_whether_a_project_is_trusted() {
    if !Terminal::is_there() {
        return;
    }
    for (key, trust) in [("y", "trusted"), ("n", "refused")] {
        let (_server, home) = ruled();
        home.put(".limulus/config.toml", TRUSTED);
        let terminal = Terminal::run(&home, &["agent", "-m", "hi"]);
        let screen = terminal.until("Trust it?");
        assert!(screen.contains("command = \"touch *\""), "{screen}");
        terminal.type_keys(&[key, "Enter"]);
        terminal.until("exit=0");
        assert_eq!(home.json(&["policy", "list"])["project"][0]["trust"], trust);
        let again = Terminal::run(&home, &["agent", "-m", "hi"]);
        let screen = again.until("exit=0");
        assert!(!screen.contains("Trust it?"), "{screen}");
    }
}

/// R24: what would be decided, and by which rule, is shown before anything runs.
#[test]
pub(crate) fn r24_the_rule_that_decides_names_itself() {
    let (_server, home) = ruled();
    let explained = home.run(&["policy", "explain", "exec", "echo a | sort; rm b"]).expect_code(0).out;
    for part in ["run echo a", "run sort", "run rm b", "config.toml:", "tools.exec.policy", "the call: deny"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let json = home.json(&["policy", "explain", "read", "secret/a.txt"]);
    assert_eq!(json["decision"], "deny", "{json}");
    assert!(json["acts"][0]["rule"].as_str().is_some_and(|rule| rule.contains("config.toml:")), "{json}");
    let rules = home.json(&["policy", "list"]);
    assert_eq!(rules["rules"].as_array().map(Vec::len), Some(4), "{rules}");
    let defaults = rules["defaults"].as_array().expect("a list");
    let of = |class: &str| defaults.iter().find(|row| row["class"] == class).map(|row| row["decision"].clone());
    assert_eq!((of("read_inside"), of("outside")), (Some("allow".into()), Some("ask".into())), "{rules}");
    assert_eq!((of("mcp"), of("message")), (None, Some("ask".into())), "no tool is one of a server yet: {rules}");
    assert_eq!(json["acts"][0]["class"], "read_inside", "{json}");
    home.run(&["policy", "explain", "exce", "ls"]).expect_code(2);
}

/// R24: a rule that cannot be meant is refused at the start, with its place.
#[test]
pub(crate) fn r24_a_wrong_rule_is_refused_with_its_line() {
    let (_server, home) = ruled();
    for (rule, says) in [
        ("[[policy]]\ncommand = \"ls\"\n", "decision"),
        ("[[policy]]\ndecision = \"maybe\"\n", "allow, ask, deny"),
        ("[[policy]]\ndecision = \"deny\"\ntool = \"exce\"\n", "exce"),
        ("[[policy]]\ndecision = \"deny\"\npath = \"a[\"\n", "a glob"),
        ("[[policy]]\ndecision = \"deny\"\nhost = \"https://a.org\"\n", "the name of a host"),
        ("[[policy]]\ndecision = \"deny\"\nhost = \"bücher.de\"\n", "xn--"),
        ("[[policy]]\ndecision = \"deny\"\ncommand = []\n", "the words of a command"),
        ("[[policy]]\ndecision = \"deny\"\ncomand = \"ls\"\n", "comand"),
        ("[policy]\nrule = 1\n", "it takes a table"),
    ] {
        configure(&home, rule);
        let refused = home.run(&["hello there"]).expect_code(78);
        assert!(refused.err.contains(says), "{rule}: {}", refused.err);
        assert!(refused.err.contains("config.toml:") || says == "decision", "{rule}: {}", refused.err);
    }
}

/// R24: a rule can be one of sessions, and counts in no other.
#[test]
pub(crate) fn r24_a_rule_counts_in_its_sessions_alone() {
    let (_server, home) = ruled();
    let rule = "[[policy]]\ndecision = \"allow\"\ncommand = \"touch *\"\nsession = [\"build-*\", \"ci\"]\n";
    configure(&home, rule);
    for (session, code) in [("build-7", 0), ("ci", 0), ("main", 3), ("rebuild-7", 3)] {
        home.run(&["agent", "--session", session, "-m", &format!("exec: touch {session}")]).expect_code(code);
        assert_eq!(home.file(session).exists(), code == 0, "{session}");
        let explained = home.json(&["policy", "explain", "exec", "touch x", "--session", session]);
        assert_eq!(explained["decision"], if code == 0 { "allow" } else { "ask" }, "{session}");
    }
    let explained = home.json(&["policy", "explain", "exec", "touch x"]);
    assert_eq!(explained["decision"], "ask", "nobody knows in which session");
    configure(&home, &rule.replace("allow", "deny"));
    assert_eq!(home.json(&["policy", "explain", "exec", "touch x"])["decision"], "deny", "it might be one of them");
}

/// R24: a rule can be one of runs that the user began, or of those that an agent began.
#[test]
pub(crate) fn r24_a_rule_counts_for_who_began_the_run() {
    let (_server, home) = ruled();
    let rule = "[[policy]]\ndecision = \"allow\"\ncommand = \"touch *\"\nprincipal = \"agent\"\n";
    let decided = |who: &[&str]| {
        let words = ["policy", "explain", "exec", "touch x"];
        home.json(&[&words[..], who].concat())["decision"].clone()
    };
    for (decision, principal, [nobody, local, agent]) in [
        ("allow", "\"agent\"", ["ask", "ask", "allow"]),
        ("allow", "\"local\"", ["ask", "allow", "ask"]),
        ("allow", "[\"local\", \"agent\"]", ["ask", "allow", "allow"]),
        ("deny", "\"agent\"", ["deny", "ask", "deny"]),
    ] {
        configure(&home, &rule.replace("allow", decision).replace("\"agent\"", principal));
        assert_eq!(decided(&[]), nobody, "nobody knows who began it: {decision} {principal}");
        assert_eq!(decided(&["--principal", "local"]), local, "{decision} {principal}");
        assert_eq!(decided(&["--principal", "agent"]), agent, "{decision} {principal}");
        home.run(&["exec: touch out"]).expect_code(if local == "allow" { 0 } else { 3 });
    }
    configure(&home, &rule.replace("\"agent\"", "[\"local\", \"webhook\"]"));
    let refused = home.run(&["hello there"]).expect_code(78);
    assert!(
        refused.err.contains("config.toml:") && refused.err.contains("local (the user began the run)"),
        "{refused:?}"
    );
}
