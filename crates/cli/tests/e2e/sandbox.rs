//! Commands in their sandbox: what they need no approval for, what they cannot reach, and how they get out of it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::thread;

use model_server::ModelServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Home, Process, is_alive, until};

/// A home whose commands have their sandbox; none if this kernel holds nothing of it, which is printed.
pub(crate) fn confined() -> Option<Home> {
    let home = Home::new().without("LIMULUS_SANDBOX__MODE");
    let tier = home.json(&["sandbox", "check"])["tier"].clone();
    if tier == "C" {
        eprintln!("not tried: this kernel holds no sandbox");
        return None;
    }
    Some(home)
}

/// Whether all layers hold, so that what only namespaces hold can be tried.
fn holds_all(home: &Home) -> bool {
    home.json(&["sandbox", "check"])["tier"] == "A"
}

fn serve(home: &Home) -> Process {
    let service = home.start(&["serve"]);
    service.until_err("serving");
    service
}

/// The open requests, once there is one.
fn request(home: &Home) -> Value {
    let mut listed = vec![];
    until("a request is open", || {
        listed.clone_from(home.json(&["approvals", "list"]).as_array().expect("an array"));
        listed.len() == 1
    });
    listed.remove(0)
}

fn id(request: &Value) -> String {
    request["id"].as_str().expect("an id").to_owned()
}

/// R67: inside, a command needs no approval; it writes in the workspace and in its temporary folder, and nowhere else.
#[test]
fn r67_a_command_in_its_sandbox_needs_no_approval_and_writes_only_inside() {
    let Some(home) = confined() else { return };
    let command =
        "echo in > in.txt; echo tmp > $TMPDIR/kept; echo out > ../outside; echo out > /tmp/limulus-outside-$$";
    let answer = home.run(&["agent", "-m", &format!("run `{command}`")]).expect_code(0);
    assert_eq!(home.text("in.txt"), "in\n");
    assert!(!home.file("../outside").exists(), "{answer:?}");
    assert!(answer.out.contains("[it ran in a sandbox: "), "it says why: {answer:?}");
    let answer = home.run(&["agent", "-m", "run `cat $TMPDIR/kept`"]).expect_code(0);
    assert!(answer.out.contains("tmp"), "what a command leaves there the next one finds: {answer:?}");
    let left: Vec<_> = fs::read_dir(home.file("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["in.txt"], "nothing of the sandbox stays");
}

/// R67: keys of the user and the home of Limulus cannot be read, nor can the owner's socket be reached.
#[test]
fn r67_a_command_in_its_sandbox_reads_no_keys_and_reaches_no_owner() {
    let Some(home) = confined() else { return };
    let user = home.user().to_owned();
    fs::create_dir_all(user.join(".ssh")).unwrap();
    fs::write(user.join(".ssh/id_ed25519"), "PRIVATE").unwrap();
    let home = home.with("HOME", &user.display().to_string());
    fs::create_dir_all(home.path()).unwrap();
    fs::write(home.path().join("config.toml"), "[offline]\npace_ms = 0\n").unwrap();
    let _service = serve(&home);
    let own = home.path().display().to_string();
    let command = format!("cat ~/.ssh/id_ed25519; cat {own}/config.toml; ls {own}; echo over");
    let answer = home.run(&["agent", "-m", &format!("run `{command}`")]).expect_code(0);
    assert!(answer.out.contains("over"), "{answer:?}");
    for secret in ["PRIVATE", "pace_ms", "limulus.sock", "journal"] {
        assert!(!answer.out.contains(secret), "{secret}: {answer:?}");
    }
}

/// R67: it sees no process but its own, ends none, and has no network.
#[test]
fn r67_a_command_in_its_sandbox_sees_no_process_and_no_network() {
    let Some(home) = confined().filter(holds_all) else { return };
    let service = serve(&home);
    let pid = service.pid();
    let command = format!("kill -9 {pid}; ls -d /proc/[0-9]* | wc -l; cat /proc/net/dev | tail -n +3 | cut -d: -f1");
    let answer = home.run(&["agent", "-m", &format!("run `{command}`")]).expect_code(0);
    assert!(is_alive(pid), "{answer:?}");
    let lines: Vec<&str> = answer.out.lines().map(str::trim).collect();
    assert!(lines.contains(&"lo") && !answer.out.contains("eth"), "{answer:?}");
    let processes = lines.iter().find_map(|line| line.parse::<u32>().ok());
    assert!(processes.is_some_and(|number| number < 10), "{answer:?}");
}

/// R67: what other programs of the user trust stays as it is, also what does not exist yet.
#[test]
fn r67_a_command_in_its_sandbox_plants_nothing_that_others_run() {
    let Some(home) = confined().filter(holds_all) else { return };
    fs::create_dir_all(home.file(".git/hooks")).unwrap();
    fs::write(home.file(".git/config"), "[core]\n").unwrap();
    let planted =
        [".git/hooks/pre-commit", ".git/config", ".envrc", ".vscode/tasks.json", ".limulus/config.toml", ".bashrc"];
    let writes: Vec<String> =
        planted.iter().map(|name| format!("mkdir -p $(dirname {name}); echo planted > {name}")).collect();
    let moves = "mv .git .g2; mkdir -p .git/hooks; echo planted > .git/hooks/post-commit";
    let answer = home.run(&["agent", "-m", &format!("run `{}; {moves}; echo over`", writes.join("; "))]).expect_code(0);
    assert!(answer.out.contains("over"), "{answer:?}");
    assert_eq!(home.text(".git/config"), "[core]\n");
    for name in planted.iter().filter(|name| **name != ".git/config") {
        assert!(!home.file(name).exists(), "{name}");
    }
    assert!(!home.file(".git/hooks/post-commit").exists());
}

/// R60, R67: leaving the sandbox is asked about, whatever `--yes`, a rule or a policy allows inside.
#[test]
fn r60_r67_leaving_the_sandbox_is_a_question_of_its_own() {
    let Some(home) = confined() else { return };
    let server = ModelServer::start().unwrap();
    let rule = "[[policy]]\ndecision = \"allow\"\ntool = \"exec\"\n";
    fs::create_dir_all(home.path()).unwrap();
    fs::write(home.path().join("config.toml"), rule).unwrap();
    let home = home.served_by(&server).with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let leaves = r#"call:exec {"command": "echo out > ../outside", "outside_sandbox": "the file is there"}"#;
    let answer = home.run(&["agent", "--yes", "-m", leaves]).expect_code(3);
    assert!(!home.file("../outside").exists(), "{answer:?}");
    let service = serve(&home);
    let waiting = home.start(&["agent", "--yes", "-m", leaves]);
    let asked = request(&home);
    let what = asked["what"].as_str().expect("a text");
    assert_eq!(what, "run the command `echo out > ../outside` outside of its sandbox (the file is there)");
    home.run(&["approvals", "approve", &id(&asked), "--always", "home"])
        .expect_code(3)
        .expect_err("no pattern is offered");
    home.run(&["approvals", "approve", &id(&asked)]).expect_code(0);
    waiting.finish().expect_code(0);
    assert_eq!(fs::read_to_string(home.file("../outside")).unwrap(), "out\n");
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
}

/// A server at an address of this machine that no program takes for its own loopback interface; returns its `HOST:PORT`.
fn web_server() -> String {
    let listener = TcpListener::bind("127.0.0.2:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = client.read(&mut head);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nthe tide");
        }
    });
    address
}

/// A request by the proxy of the sandbox.
fn request_to(address: &str) -> String {
    format!(
        "perl -MIO::Socket::INET -e 'my ($p) = $ENV{{http_proxy}} =~ m{{//(.*)}}; my $s = IO::Socket::INET->new($p) or die; print $s qq(GET http://{address}/ HTTP/1.0\\r\\n\\r\\n); print <$s>'"
    )
}

fn call(command: &str, more: &Value) -> String {
    let mut arguments = json!({ "command": command });
    arguments.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    format!("call:exec {arguments}")
}

/// R60, R67, R69: a host is reached by a rule that names it for commands, or by an approval of this host alone.
#[test]
fn r60_r69_a_command_reaches_the_hosts_that_somebody_allows() {
    let Some(home) = confined().filter(holds_all) else { return };
    let server = ModelServer::start().unwrap();
    let home = home.served_by(&server).with("LIMULUS_TOOLS__WEB_FETCH__ALLOW_PRIVATE", "true");
    let address = web_server();
    let command = request_to(&address);
    let answer = home.run(&["agent", "--verbose", "-m", &call(&command, &json!({}))]).expect_code(0);
    assert!(!answer.err.contains("the tide") && answer.err.contains(&format!("refused {address} ")), "{answer:?}");
    let asks = call(&command, &json!({ "hosts": [address] }));
    home.run(&["agent", "--yes", "-m", &asks]).expect_code(3);
    let service = serve(&home);
    let waiting = home.start(&["agent", "--verbose", "-m", &asks]);
    let asked = request(&home);
    let what = asked["what"].as_str().expect("a text");
    assert!(what.starts_with(&format!("reach {address} from the sandbox of the command `perl")), "{what}");
    home.run(&["approvals", "approve", &id(&asked), "--always", "session"]).expect_code(0);
    let answer = waiting.finish().expect_code(0);
    assert!(answer.err.contains("the tide"), "{answer:?}");
    // What was allowed for good needs no question, and no argument.
    let answer = home.run(&["agent", "--verbose", "-m", &call(&command, &json!({}))]).expect_code(0);
    assert!(answer.err.contains("the tide"), "{answer:?}");
    let answer =
        home.run(&["agent", "--verbose", "--session", "other", "-m", &call(&command, &json!({}))]).expect_code(0);
    assert!(!answer.err.contains("the tide"), "another session: {answer:?}");
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
    let rule = |rest: &str| {
        fs::write(home.path().join("config.toml"), format!("[[policy]]\ndecision = \"allow\"\n{rest}\n")).unwrap();
    };
    rule(&format!("tool = \"exec\"\nhost = \"{address}\""));
    let answer =
        home.run(&["agent", "--verbose", "--session", "ruled", "-m", &call(&command, &json!({}))]).expect_code(0);
    assert!(answer.err.contains("the tide"), "{answer:?}");
    let checked = home.json(&["sandbox", "check"]);
    assert_eq!(checked["hosts"], json!([address]), "{checked}");
    let tried = home.run(&["sandbox", "run", "--", "sh", "-c", &command]).expect_code(0);
    assert!(tried.out.contains("the tide"), "{tried:?}");
    rule("tool = \"exec\"");
    let answer =
        home.run(&["agent", "--verbose", "--session", "whole", "-m", &call(&command, &json!({}))]).expect_code(0);
    assert!(!answer.err.contains("the tide"), "a rule without hosts opens nothing: {answer:?}");
}

/// R60, R67: a file outside is written after it was approved, and nothing but that: no key, no other end of a link, and nothing in
/// the workspace that others run.
#[test]
fn r60_r67_a_command_writes_outside_what_somebody_approved() {
    let Some(home) = confined() else { return };
    let server = ModelServer::start().unwrap();
    let user = home.user().to_owned();
    for folder in ["other", "moved", ".ssh"] {
        fs::create_dir_all(user.join(folder)).unwrap();
    }
    fs::write(user.join(".ssh/id"), "PRIVATE").unwrap();
    let home = home.served_by(&server).with("HOME", &user.display().to_string());
    let at = |name: &str| user.join(name).display().to_string();
    let (other, moved, key) = (at("other"), at("moved"), at(".ssh/id"));
    home.run(&["agent", "-m", &call("true", &json!({ "writable": ["/nowhere"] }))]).expect_code(0);
    let writes =
        call(&format!("echo out > {other}/a; echo out > {other}/../b; cat {key}"), &json!({ "writable": [other] }));
    home.run(&["agent", "--yes", "-m", &writes]).expect_code(3);
    assert!(!user.join("other/a").exists());
    let service = serve(&home);
    let approved = |message: &str, begins: &str, meanwhile: &dyn Fn()| {
        let waiting = home.start(&["agent", "--verbose", "-m", message]);
        let asked = request(&home);
        let what = asked["what"].as_str().expect("a text");
        assert!(what.starts_with(begins), "{what}");
        meanwhile();
        home.run(&["approvals", "approve", &id(&asked)]).expect_code(0);
        waiting.finish().expect_code(0).err
    };
    let text = approved(&writes, &format!("write to {other} from the sandbox of the command "), &|| ());
    assert_eq!(fs::read_to_string(user.join("other/a")).unwrap(), "out\n", "{text}");
    assert!(!user.join("b").exists() && !text.contains("PRIVATE"), "{text}");
    let reads = call(&format!("cat {key}"), &json!({ "writable": [key] }));
    // Nobody is asked for what no approval opens.
    let refused = home.run(&["agent", "--verbose", "-m", &reads]).expect_code(0);
    let text = refused.out + &refused.err;
    assert!(text.contains("the sandbox hides it") && !text.contains("PRIVATE"), "{text}");
    let follows = call(&format!("echo out > {moved}/c"), &json!({ "writable": [moved] }));
    let text = approved(&follows, &format!("write to {moved} "), &|| {
        fs::remove_dir(&moved).unwrap();
        symlink(user.join("other"), &moved).unwrap();
    });
    assert!(text.contains("is not what was approved any more") && !user.join("other/c").exists(), "{text}");
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
    home.shell("mkdir -p .git/hooks; echo mine > .git/hooks/pre-commit").expect_code(0);
    let plants = call("echo planted > .git/hooks/pre-commit", &json!({ "writable": [".git/hooks/pre-commit"] }));
    if holds_all(&home) {
        home.run(&["agent", "-m", &plants]).expect_code(0);
    }
    assert_eq!(home.text(".git/hooks/pre-commit"), "mine\n");
}

/// R67: the policies of commands hold inside as well, and `--no-sandbox` is for whoever types it.
#[test]
fn r67_policies_hold_inside_and_no_sandbox_is_typed() {
    let Some(home) = confined() else { return };
    let message = "run `echo ran > ran.txt; echo out > ../outside`";
    let ask = home.with("LIMULUS_TOOLS__EXEC__POLICY", "ask");
    ask.run(&["agent", "-m", message]).expect_code(3);
    assert!(!ask.file("ran.txt").exists());
    ask.run(&["agent", "--yes", "-m", message]).expect_code(0);
    assert!(ask.file("ran.txt").exists() && !ask.file("../outside").exists(), "`--yes` stays inside");
    let home = ask.without("LIMULUS_TOOLS__EXEC__POLICY");
    home.run(&["agent", "--no-sandbox", "-m", message]).expect_code(3).expect_err("limulus runs show");
    assert!(!home.file("../outside").exists(), "without a sandbox, a command is asked about");
    home.run(&["agent", "--no-sandbox", "--yes", "-m", message]).expect_code(0);
    assert!(home.file("../outside").exists());
    let home = home.with("LIMULUS_SANDBOX__MODE", "read_only");
    home.run(&["agent", "-m", "run `echo ran > second.txt`"]).expect_code(0);
    assert!(!home.file("second.txt").exists());
}

/// R67: whoever has allowed commands learns once that they have a sandbox now.
#[test]
fn r67_the_first_start_says_that_allowed_commands_have_a_sandbox() {
    let Some(home) = confined() else { return };
    let said = "commands run in a sandbox all the same";
    home.run(&["agent", "-m", "hi"]).expect_code(0);
    let home = home.with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    home.run(&["agent", "-m", "hi"]).expect_code(0).expect_err(said);
    let again = home.run(&["agent", "-m", "hi"]).expect_code(0);
    assert!(!again.err.contains(said), "{again:?}");
}

/// R15, R67: a confined command outlives `kill -9` of its owner, and its end is found once.
#[test]
fn r15_r67_a_command_in_its_sandbox_outlives_its_owner() {
    let Some(home) = confined() else { return };
    let command = "echo begun >> ledger; until test -e go; do sleep 0.02; done; echo over >> ledger";
    let owner = home.start(&["agent", "-m", &format!("run `{command}`")]);
    until("it runs", || home.text("ledger").contains("begun"));
    owner.signal(Signal::KILL);
    owner.finish();
    home.put("go", "");
    home.run(&["resume"]).expect_code(0);
    assert_eq!(home.text("ledger"), "begun\nover\n");
}

/// R15, R67: a sandbox that is killed leaves nothing in the workspace.
#[test]
fn r15_r67_a_sandbox_that_is_killed_leaves_nothing_in_the_workspace() {
    let Some(home) = confined().filter(holds_all) else { return };
    let run = home.start(&["agent", "-m", "run `echo begun >> ledger; sleep 600`"]);
    until("it runs", || home.text("ledger").contains("begun"));
    let entries = || fs::read_dir(home.file("")).unwrap().count();
    assert!(entries() > 1, "placeholders are there while it runs");
    let supervisor = children(run.pid()).into_iter().find(|pid| is_supervisor(*pid)).expect("a supervisor");
    kill_process(Pid::from_raw(i32::try_from(supervisor).unwrap()).unwrap(), Signal::KILL).unwrap();
    run.finish();
    assert_eq!(entries(), 1, "only what the command wrote");
}

/// The children of a process.
fn children(pid: u32) -> Vec<u32> {
    let all =
        fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |child: &u32| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == pid.to_string()))
    };
    all.filter(is_child).collect()
}

fn is_supervisor(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "call-supervisor")
}

/// R09, R67: an abort ends everything inside, also what has left its group and its session.
#[test]
fn r09_r67_an_abort_ends_everything_inside() {
    let Some(home) = confined() else { return };
    let _service = serve(&home);
    let hidden = "setsid sh -c 'until test -e stop; do echo x >> beat; sleep 0.02; done' & sleep 600";
    let run = home.start(&["agent", "-m", &format!("run `{hidden}`")]);
    until("it runs", || !home.text("beat").is_empty());
    home.run(&["runs", "abort"]).expect_code(0);
    run.finish().expect_code(130);
    let mut before = home.text("beat").len();
    until("nothing writes any more", || {
        // waits: a process that lives writes every 20 ms
        std::thread::sleep(std::time::Duration::from_millis(200));
        let now = home.text("beat").len();
        let is_over = now == before;
        before = now;
        is_over
    });
}

/// R67: `sandbox run` tries it, and ends as its command ends.
#[test]
fn r67_a_command_can_be_tried_in_the_sandbox() {
    let Some(home) = confined() else { return };
    assert_eq!(home.run(&["sandbox", "run", "--", "sh", "-c", "echo hi; exit 7"]).expect_code(7).out, "hi\n");
    home.run(&["sandbox", "run", "--", "sh", "-c", "echo x > ../outside"]).expect_code(2);
    assert!(!home.file("../outside").exists());
    let off = home.with("LIMULUS_SANDBOX__MODE", "off");
    off.run(&["sandbox", "run", "true"]).expect_code(3).expect_err("sandbox.mode is off");
}

/// R67: what a command leaves in a folder below that other programs run is said, and what is there already stays as it is.
#[test]
fn r67_what_a_command_left_for_others_to_run_is_said() {
    let Some(home) = confined().filter(holds_all) else { return };
    fs::create_dir_all(home.file("old")).unwrap();
    fs::write(home.file("old/.envrc"), "own").unwrap();
    let command = "mkdir -p sub && echo evil > sub/.envrc; echo evil > old/.envrc; echo over";
    let answer = home.run(&["agent", "-m", &format!("run `{command}`")]).expect_code(0);
    let said = "the command created `sub/.envrc`, which other programs run: look at it before you enter its folder";
    assert!(answer.out.contains(said) && answer.out.contains("over"), "{answer:?}");
    assert_eq!(home.text("old/.envrc"), "own");
    let tried = home.run(&["sandbox", "run", "--", "sh", "-c", "mkdir -p new/.husky"]).expect_code(0);
    assert!(tried.out.contains("`new/.husky`") || tried.err.contains("`new/.husky`"), "{tried:?}");
}

/// R67: a command that uses more memory than it may is ended, where the kernel holds that; else `sandbox check` says why not.
#[test]
fn r67_a_command_has_its_limit_of_memory_or_the_check_says_why_not() {
    let Some(home) = confined() else { return };
    let home = home.with("LIMULUS_SANDBOX__MEMORY_MIB", "64");
    let checked = home.json(&["sandbox", "check"]);
    let shown = home.run(&["sandbox", "check"]).expect_code(0);
    if let Some(reason) = checked["memory"]["absent"]["reason"].as_str() {
        eprintln!("the memory of commands is not limited here: {reason}");
        assert!(shown.out.contains("memory") && shown.out.contains(reason), "{shown:?}");
        assert!(checked["memory_mib"].is_null(), "{checked}");
        return;
    }
    assert_eq!(checked["memory_mib"], 64);
    assert!(shown.out.contains("64 MiB for all processes of a command"), "{shown:?}");
    let command = "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done";
    let answer = home.run(&["agent", "-m", &format!("run `{command}`")]).expect_code(0);
    assert!(answer.out.contains("more than the 64 MiB of memory"), "{answer:?}");
}
