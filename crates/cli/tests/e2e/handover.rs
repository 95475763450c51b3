//! A service takes its home from a command that owns it, started with the line and the environment of the printed unit.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use model_server::ModelServer;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Finished, Home, Process, Terminal, is_state, pids, until};

/// A command that runs until the file `go` exists, and is on record each time that it is started.
const HOLD: &str = "run `echo $$ >> pids; echo ran >> ledger; until test -e go; do sleep 0.02; done`";

/// An answer whose end comes when the server lets it.
const STALLED: &str = "stall=3x1 tokens=12";

/// systemd, as far as a service sees it: the unit and the socket for its states.
struct Manager {
    socket: UnixDatagram,
    /// The words of `ExecStart` and the variables of `Environment`.
    line: Vec<String>,
    variables: Vec<(String, String)>,
    observed: Vec<String>,
}

impl Manager {
    fn of(home: &Home) -> Self {
        let unit = home.run(&["serve", "--unit", "systemd"]).expect_code(0).out;
        let setting = |name: &str| {
            let line = unit.lines().find_map(|line| line.strip_prefix(name)).expect("the unit has it");
            words(line)
        };
        assert!(unit.lines().any(|line| line == "StartLimitIntervalSec=0"), "{unit}");
        let path = home.user().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_nonblocking(true).expect("its flags can be set");
        let mut variables = vec![("NOTIFY_SOCKET".to_owned(), path.display().to_string())];
        // The commands say their process ids.
        variables.push(("LIMULUS_SANDBOX__MODE".to_owned(), "off".to_owned()));
        for variable in setting("Environment=") {
            let (name, value) = variable.split_once('=').expect("a variable");
            variables.push((name.to_owned(), value.to_owned()));
        }
        Self { socket, line: setting("ExecStart="), variables, observed: vec![] }
    }

    /// Starts the service as the unit says: with nothing else in its environment, in the user's folder.
    fn start(&mut self, home: &Home) -> Process {
        self.drain();
        self.observed.clear();
        let mut command = Command::new(&self.line[0]);
        command.args(&self.line[1..]).current_dir(home.user()).env_clear().envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Process::spawn(command)
    }

    fn drain(&mut self) {
        let mut state = [0; 512];
        while let Ok(bytes) = self.socket.recv(&mut state) {
            self.observed.extend(String::from_utf8_lossy(&state[..bytes]).lines().map(str::to_owned));
        }
    }

    /// How often the service that was started last has said this.
    fn count(&mut self, line: &str) -> usize {
        self.drain();
        self.observed.iter().filter(|observed| observed.starts_with(line)).count()
    }

    /// Waits until the service is ready. It is then the owner, and answers.
    fn until_ready(&mut self, home: &Home, service: &Process) {
        until("READY=1", || self.count("READY=1") > 0);
        let status = home.json(&["status"]);
        assert_eq!(status["owner"]["pid"].as_u64(), Some(u64::from(service.pid())), "{status}");
        home.run(&["runs", "wait", "nothing"]).expect_code(4);
        assert_eq!(self.count("READY=1"), 1);
    }

    /// Waits until the service waits for this process.
    fn until_waiting(&mut self, service: &Process, owner: &Process) {
        let status = format!("STATUS=waiting for pid {} ", owner.pid());
        until("that it waits", || self.count(&status) > 0);
        service.until_err(&format!("pid {} owns the home and hands it over", owner.pid()));
        assert_eq!(self.count("READY=1"), 0, "{:?}", self.observed);
    }
}

/// The words of a setting, unquoted as systemd does it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (vec![], String::new(), false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            '\\' => word.push(match chars.next() {
                Some('n') => '\n',
                Some(c) => c,
                None => panic!("{line}"),
            }),
            '%' | '$' => word.push(chars.next().expect("it is doubled")),
            c => word.push(c),
        }
    }
    words.push(word);
    words
}

/// Checks that the run of this command ended complete, and that nothing of it was printed twice.
#[track_caller]
fn assert_complete(agent: Finished) {
    let lines = agent.expect_code(0).lines();
    let mut seen = std::collections::BTreeSet::new();
    for line in lines.iter().filter(|line| !is_state(line)) {
        let mut line = line.clone();
        line.as_object_mut().expect("an object").remove("cursor");
        assert!(seen.insert(line.to_string()), "printed twice: {line}");
    }
    let count =
        |stream: &str, kind: &str| lines.iter().filter(|line| line["stream"] == stream && line["type"] == kind).count();
    assert_eq!((count("lifecycle", "end"), count("queue", "accepted")), (1, 1), "{lines:?}");
    let end = lines.last().expect("an end");
    let pieces = lines.iter().filter(|line| line["stream"] == "assistant");
    let mut text = String::new();
    for piece in pieces {
        match piece["type"].as_str() {
            Some("delta") => text.push_str(piece["text"].as_str().expect("a text")),
            Some("struck") => text.clear(),
            _ => {}
        }
    }
    assert_eq!((&end["type"], end["text"].as_str()), (&Value::from("end"), Some(text.as_str())));
}

fn runs(home: &Home) -> Vec<Value> {
    home.json(&["runs", "list"]).as_array().cloned().expect("a list")
}

/// A command that waits beside a service and becomes the owner when that is killed.
fn left_behind(home: &Home, manager: &mut Manager) -> Process {
    let service = manager.start(home);
    manager.until_ready(home, &service);
    let agent = home.start(&["agent", "--yes", "--json", "-m", HOLD]);
    until("its command", || pids(&home.file("pids")).len() == 1);
    service.kill();
    agent.until_err("this process continues");
    agent
}

#[test]
fn r15_r61_a_restarted_service_takes_the_home_from_the_command_that_became_its_owner() {
    let home = Home::new();
    let mut manager = Manager::of(&home);
    let agent = left_behind(&home, &mut manager);
    // Twice: the kill in between makes the command the owner again.
    let first = manager.start(&home);
    manager.until_ready(&home, &first);
    assert_eq!(manager.count(&format!("STATUS=waiting for pid {} ", agent.pid())), 1);
    agent.until_err("this process handed the home over");
    agent.until_err(&format!("pid {} continues", first.pid()));
    first.kill();
    agent.until_err_times("this process continues", 2);
    let service = manager.start(&home);
    manager.until_ready(&home, &service);
    agent.until_err(&format!("pid {} continues", service.pid()));
    home.put("go", "");
    assert_complete(agent.finish());
    assert_eq!(home.text("ledger"), "ran\n");
    assert_eq!((runs(&home).len(), &runs(&home)[0]["outcome"]), (1, &Value::from("completed")));
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
    assert_eq!((manager.count("READY=1"), manager.count("STOPPING=1")), (1, 1));
}

#[test]
fn r11_r61_a_command_that_is_killed_after_a_handover_leaves_its_run_to_the_service() {
    let home = Home::new();
    let mut manager = Manager::of(&home);
    let agent = left_behind(&home, &mut manager);
    let service = manager.start(&home);
    // Whether it has released the home at this moment or not.
    service.until_err("hands it over");
    agent.kill();
    manager.until_ready(&home, &service);
    home.put("go", "");
    home.run(&["runs", "wait"]).expect_code(0);
    assert_eq!((home.text("ledger").as_str(), runs(&home).len()), ("ran\n", 1));
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
}

/// A command that owns the home and hands it over when its answer is complete, which has stalled; and the service that
/// waits for it. The variables of the model are the user's configuration, which a unit adds with `Environment=` of its own.
fn handing_over(server: &ModelServer) -> (Home, Process, Manager, Process) {
    let home = Home::new().served_by(server).with("LIMULUS_SERVE__DRAIN_S", "3600");
    let agent = home.start(&["agent", "--session", "stalled", "--json", "-m", STALLED]);
    agent.until_said("word2");
    let mut manager = Manager::of(&home);
    manager.variables.extend(
        home.variables().into_iter().filter(|(name, _)| name.starts_with("LIMULUS_") && name != "LIMULUS_HOME"),
    );
    let service = manager.start(&home);
    manager.until_waiting(&service, &agent);
    (home, agent, manager, service)
}

#[test]
fn r11_r15_a_command_that_is_killed_in_a_handover_leaves_the_home_to_the_service_that_waits() {
    let server = ModelServer::start().unwrap();
    let (home, agent, mut manager, service) = handing_over(&server);
    // Nobody else becomes the owner, and who looks for one finds the service.
    let other = home.start(&["agent", "--session", "other", "--json", "-m", "tokens=3 Who are you?"]);
    assert_eq!(manager.count("READY=1"), 0);
    agent.kill();
    manager.until_ready(&home, &service);
    assert_complete(other.finish());
    home.run(&["runs", "wait", "--session", "stalled"]).expect_code(0);
    assert_eq!(runs(&home).len(), 2);
    assert_eq!(home.json(&["status"])["owner"]["pid"].as_u64(), Some(u64::from(service.pid())));
}

#[test]
fn r11_r15_a_service_that_is_killed_in_a_handover_leaves_the_home_to_the_commands() {
    let server = ModelServer::start().unwrap();
    let (home, agent, mut manager, service) = handing_over(&server);
    service.kill();
    assert_eq!(manager.count("READY=1"), 0);
    // A signal ends what waits for the answer, in order. The next command is the owner.
    agent.signal(Signal::TERM);
    agent.finish().expect_code(143);
    let resumed = home.run(&["resume"]).expect_code(0);
    assert!(resumed.out.contains("word11"), "{resumed:?}");
    assert_eq!(runs(&home).len(), 1);
}

#[test]
fn r15_a_service_that_waits_can_be_stopped() {
    let server = ModelServer::start().unwrap();
    let (_home, agent, mut manager, service) = handing_over(&server);
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
    assert_eq!(manager.count("READY=1"), 0);
    agent.kill();
}

#[test]
fn r10_r61_a_service_does_not_wait_for_another_one_or_for_an_owner_that_does_not_answer() {
    let home = Home::new();
    let mut manager = Manager::of(&home);
    let agent = left_behind(&home, &mut manager);
    agent.signal(Signal::STOP);
    let refused = manager.start(&home).finish().expect_code(75);
    assert!(refused.verdict().contains(&format!("pid {}", agent.pid())), "{refused:?}");
    assert_eq!(manager.count("READY=1"), 0);
    agent.signal(Signal::CONT);
    // The manager starts it again.
    let service = manager.start(&home);
    manager.until_ready(&home, &service);
    let refused = home.run(&["serve"]).expect_code(75);
    assert!(refused.verdict().contains(&format!("pid {}", service.pid())), "{refused:?}");
    home.put("go", "");
    assert_complete(agent.finish());
    assert_eq!(home.text("ledger"), "ran\n");
    service.signal(Signal::TERM);
    service.finish().expect_code(0);
}

/// Whoever holds the claim, a service that is stopped or a stranger: who waits for it is notified, and goes on without it.
#[test]
fn r61_a_command_says_that_it_waits_for_the_service_that_claimed_the_home() {
    let home = Home::new();
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let folder = std::fs::File::open(home.path()).expect("the home is a folder");
    flock(&folder, FlockOperation::LockExclusive).expect("nobody has claimed it");
    let agent = home.start(&["agent", "--json", "-m", "Who are you?"]);
    agent.until_err("a service is about to take");
    drop(folder);
    assert_complete(agent.finish());
}

/// R61: the line of a call that goes on under another owner is not repeated.
#[test]
fn r61_the_line_of_a_call_is_shown_once_over_a_handover() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    until("the command runs", || pids(&home.file("pids")).len() == 1);
    agent.until_err("▸ exec");
    let service = home.start(&["serve"]);
    service.until_err("serving");
    agent.until_err("found: running");
    home.put("go", "");
    let finished = agent.finish().expect_code(0);
    let lines = finished.err.lines().filter(|line| line.starts_with("▸ exec")).count();
    assert_eq!((lines, home.text("ledger").as_str()), (1, "ran\n"), "{finished:?}");
}

#[test]
fn r02_r61_a_terminal_is_asked_again_after_a_handover() {
    if !Terminal::is_there() {
        return;
    }
    let home = Home::new();
    let mut manager = Manager::of(&home);
    let terminal = Terminal::run(&home, &["agent", "-m", "run `echo ran >> ledger`"]);
    terminal.until("[y/n/a/?]");
    let service = manager.start(&home);
    manager.until_ready(&home, &service);
    terminal.until("this process handed the home over");
    terminal.type_keys(&["y", "Enter"]);
    let screen = terminal.until("exit=0");
    assert_eq!((home.text("ledger").as_str(), runs(&home).len()), ("ran\n", 1), "{screen}");
    drop(service);
}

/// A command that the model runs may not take the home from the process that runs it.
#[test]
fn r13_r61_a_service_that_starts_inside_a_tool_call_does_not_get_the_home() {
    let home = Home::new();
    let service = format!("LIMULUS_HOME={} {}", home.path().display(), env!("CARGO_BIN_EXE_limulus"));
    // Once below the command, and once with the environment cleared and its parent gone.
    let command = format!(
        "{service} serve > first 2>&1; echo $? > code; \
         (env -i {service} serve > second 2>&1; echo $? > again) & until test -e again; do sleep 0.02; done"
    );
    let agent = home.run(&["agent", "--yes", "-m", &format!("run `{command}`")]).expect_code(0);
    assert!(!agent.err.contains("handed the home over"), "{agent:?}");
    for (code, said) in [("code", "first"), ("again", "second")] {
        assert_eq!(home.text(code), "75\n", "{}", home.text(said));
        assert!(home.text(said).contains("is owned by pid"), "{}", home.text(said));
    }
    assert_eq!((runs(&home).len(), &runs(&home)[0]["outcome"]), (1, &Value::from("completed")));
}
