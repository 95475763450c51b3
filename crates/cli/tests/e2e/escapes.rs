//! What a command of the model tries against the program that runs it: to outlive its run, to read its keys, to act as the
//! user over its socket, to be ended with it.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::support::{Finished, HOLD, Home, PROGRAM, Process, is_alive, pids, until};

/// A user that is not root.
const NOBODY: u32 = 65_534;

fn assert_gone(home: &Home, what: &str) {
    let all = pids(&home.file("pids"));
    assert!(!all.is_empty(), "{what}");
    // A process that was sent SIGKILL needs a moment to vanish.
    until(&format!("{what}: the end of all of {all:?}"), || !all.iter().any(|pid| is_alive(*pid)));
}

/// Commands that end their supervisor, with the mark of the call removed from the environment.
const KILLERS: [&str; 7] = [
    "exec env -i /bin/sh -c 'echo $$ >> pids; kill -9 $PPID; while :; do sleep 0.1; done'",
    "S=$PPID; env -i setsid sh -c 'echo $$ >> pids; while :; do sleep 0.1; done' & until test -s pids; do sleep 0.01; done; \
     kill -9 $S; sleep 300",
    // Twice forked, in a session of its own.
    "S=$PPID; (setsid env -i sh -c '(setsid sh -c \"echo \\$\\$ >> pids; exec sleep 300\" &) ; exit 0' &); \
     until test -s pids; do sleep 0.01; done; kill -9 $S; sleep 300",
    // It forks all the time, so that its process of this moment is gone in the next.
    "S=$PPID; cat > hop <<'END'\necho $$ >> pids\nsleep 0.02\nsetsid sh ./hop &\nEND\n\
     env -i setsid sh ./hop & until test -s pids; do sleep 0.01; done; kill -9 $S; sleep 300",
    "S=$PPID; env -i sh -c 'echo $$ >> pids; trap \"\" TERM INT HUP; while :; do sleep 0.1; done' & \
     until test -s pids; do sleep 0.01; done; kill -9 $S; sleep 300",
    // It calls itself a supervisor.
    "S=$PPID; env -i bash -c 'echo $$ >> pids; exec -a call-supervisor sh -c \"sleep 300; :\" supervise' & \
     until test -s pids; do sleep 0.01; done; kill -9 $S; sleep 300",
    // It has no cgroup, session, output or parent of the call: its owner has inherited it.
    "S=$PPID; LEAVE (env -i setsid sh -c 'echo $$ >> pids; exec sleep 300' > /dev/null 2>&1 &); \
     until test -s pids; do sleep 0.01; done; kill -9 $S; sleep 300",
];

/// A command with its `LEAVE` filled in, where it has a cgroup that it can leave.
fn leaving_its_cgroup(command: &str) -> String {
    let leave = own_cgroup().map(|own| format!("echo $$ > {}/cgroup.procs;", own.display()));
    command.replace("LEAVE", &leave.unwrap_or_default())
}

/// R15: a command that kills its supervisor ends with it; its outcome is unknown, and the run goes on.
#[test]
fn r15_nothing_of_a_command_that_kills_its_supervisor_outlives_the_call() {
    for command in KILLERS {
        let home = Home::new();
        home.put("attack", leaving_its_cgroup(command));
        let agent = home.run(&["agent", "--yes", "-m", "run `exec sh ./attack`"]);
        assert_gone(&home, command);
        let run = home.json(&["runs", "show"]);
        assert_eq!(run["steps"][0]["calls"][0]["outcome"], "interrupted", "{command}: {agent:?}");
        home.assert_usable("main");
    }
}

/// R15: the same where the session of limulus is unknown to the system, as for what is started into a container from outside.
#[test]
fn r15_nothing_outlives_a_call_of_a_limulus_whose_session_has_no_number() {
    let unshare = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    if !Home::new()
        .program("unshare", &[&unshare[..], &["true"]].concat())
        .status()
        .is_ok_and(|status| status.success())
    {
        return eprintln!("skipped: no PID namespace can be made here");
    }
    let home = Home::new();
    home.put("attack", leaving_its_cgroup(KILLERS[6]));
    // The first process of the namespace is in the session of this test, which is not in it.
    let script = "cut -d' ' -f6 /proc/$$/stat > session; \"$0\" agent --yes -m 'run `exec sh ./attack`'; \
                  echo $? > code; echo /proc/[0-9]* > left";
    let words = [&unshare[..], &["sh", "-c", script, PROGRAM]].concat();
    let ended: Finished = home.program("unshare", &words).output().expect("unshare can be started").into();
    assert_eq!((home.text("session").trim(), home.text("code").trim()), ("0", "0"), "{ended:?}");
    assert_eq!(home.text("left").trim(), "/proc/1", "the shell alone");
    assert_eq!(home.json(&["runs", "show"])["steps"][0]["calls"][0]["outcome"], "interrupted", "{ended:?}");
}

/// Commands that stop their supervisor, each with the sign that it has done so.
const STOPPERS: [&str; 4] = [
    "echo $$ $PPID >> pids; kill -STOP $PPID; echo x > stopped; while :; do sleep 0.05; done",
    "echo $$ $PPID >> pids; trap '' TERM; kill -STOP $PPID; echo x > stopped; while :; do sleep 0.05; done",
    // Again and again.
    "S=$PPID; echo $$ $S >> pids; trap '' TERM; (while kill -STOP $S; do :; done) & echo $! >> pids; echo x > stopped; \
     while :; do sleep 0.05; done",
    "S=$PPID; echo $$ $S >> pids; (setsid env -i sh -c \"(setsid sh -c 'echo \\$\\$ >> pids; while kill -STOP $S; do :; done' &) ; exit 0\" &); \
     until test $(wc -l < pids) = 2; do sleep 0.01; done; echo x > stopped; sleep 300",
];

/// R15: an abort ends a command whose supervisor was stopped, and the supervisor.
#[test]
fn r15_nothing_of_a_command_that_stops_its_supervisor_outlives_an_abort() {
    for command in STOPPERS {
        let home = Home::new();
        home.put("attack", command);
        let agent = home.start(&["agent", "--yes", "-m", "run `exec sh ./attack`"]);
        until("that it is stopped", || !home.text("stopped").is_empty());
        agent.signal(Signal::INT);
        agent.finish().expect_code(130);
        assert_gone(&home, command);
        assert_eq!(home.json(&["runs", "show"])["outcome"], "aborted", "{command}");
    }
}

/// R13: an owner that finds a call whose supervisor it did not start ends it too, if that is stopped.
#[test]
fn r15_a_later_owner_ends_a_command_that_has_stopped_its_supervisor() {
    let home = Home::new();
    home.put("attack", STOPPERS[2]);
    let agent = home.start(&["agent", "--yes", "-m", "run `exec sh ./attack`"]);
    until("that it is stopped", || !home.text("stopped").is_empty());
    agent.kill();
    let resumed = home.start(&["resume"]);
    until("its owner", || {
        let owner = home.json(&["status"])["owner"]["pid"].as_u64();
        owner == Some(u64::from(resumed.pid()))
    });
    resumed.signal(Signal::INT);
    resumed.finish().expect_code(130);
    assert_gone(&home, "resumed");
}

/// The cgroup of this process, if it may create another below it.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = Path::new(&mount).join(cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?);
    let tried = own.join(format!("limulus-test-{}", std::process::id()));
    fs::create_dir(&tried).and_then(|()| fs::remove_dir(&tried)).ok().map(|()| own)
}

/// Commands that kill their supervisor once `go` is there, with the mark of the call removed. None has any other trace than the
/// one that is named.
fn killers_without_owner() -> Vec<(&'static str, String)> {
    let kill = "until test -e go; do sleep 0.02; done; kill -9 $S; while :; do sleep 0.1; done";
    let leave = own_cgroup().map(|own| format!("echo $$ > {}/cgroup.procs;", own.display()));
    let begin = format!("echo $PPID > supervisor; {}", leave.clone().unwrap_or_default());
    let in_session = format!("{begin} exec env -i S=$PPID sh ./kill > /dev/null 2>&1");
    let with_output = format!("{begin} (env -i S=$PPID setsid sh ./kill &); sleep 300");
    let in_cgroup =
        "echo $PPID > supervisor; (env -i S=$PPID setsid sh -c 'sh ./kill & sh ./kill' > /dev/null 2>&1 &); sleep 300";
    let mut all = vec![("session", in_session), ("output", with_output)];
    match leave {
        Some(_) => all.push(("cgroup", in_cgroup.to_owned())),
        None => eprintln!("skipped: no cgroup can be created here, so none holds what leaves its session"),
    }
    for (_, command) in &mut all {
        command.insert_str(0, &format!("echo 'echo $$ >> pids; {kill}' > kill; "));
    }
    all
}

fn supervisor_is_gone(home: &Home) {
    let supervisor = pids(&home.file("supervisor"))[0];
    until("the end of the supervisor", || !is_alive(supervisor));
}

/// R15: owner killed, supervisor killed, mark removed: the next owner ends the command.
#[test]
fn r15_a_later_owner_ends_what_has_killed_its_supervisor_after_its_owner() {
    for (trace, command) in killers_without_owner() {
        let home = Home::new();
        home.put("attack", &command);
        let agent = home.start(&["agent", "--yes", "-m", "run `exec sh ./attack`"]);
        until("its command", || !pids(&home.file("pids")).is_empty());
        agent.kill();
        home.put("go", "");
        supervisor_is_gone(&home);
        assert!(pids(&home.file("pids")).into_iter().all(is_alive), "{trace}: nobody has ended it");
        let resumed = home.run(&["resume"]);
        assert_gone(&home, trace);
        assert_eq!(
            home.json(&["runs", "show"])["steps"][0]["calls"][0]["outcome"],
            "interrupted",
            "{trace}: {resumed:?}"
        );
    }
}

/// R15: the same while the later owner waits for the call.
#[test]
fn r15_a_later_owner_ends_what_kills_its_supervisor_beside_it() {
    for (trace, command) in killers_without_owner() {
        let home = Home::new();
        home.put("attack", &command);
        let agent = home.start(&["agent", "--yes", "-m", "run `exec sh ./attack`"]);
        until("its command", || !pids(&home.file("pids")).is_empty());
        agent.kill();
        let resuming = home.start(&["resume"]);
        resuming.until_err("found: running");
        home.put("go", "");
        let resumed = resuming.finish();
        assert_gone(&home, trace);
        assert_eq!(
            home.json(&["runs", "show"])["steps"][0]["calls"][0]["outcome"],
            "interrupted",
            "{trace}: {resumed:?}"
        );
    }
}

/// R38: no line of arguments that every process may read says where the home is.
#[test]
fn r38_no_argument_of_a_process_says_where_the_home_is() {
    let home = Home::new();
    let list = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done > seen 2> /dev/null";
    home.put("list", list);
    home.run(&["agent", "--yes", "-m", "run `exec sh ./list`"]).expect_code(0);
    let seen = home.text("seen");
    assert!(seen.contains("call-supervisor supervise "), "{seen}");
    let path = home.path().display().to_string();
    assert!(!seen.contains(&path), "{:?}", seen.lines().find(|line| line.contains(&path)));
}

/// R38: commands receive an allow-list of variables, and those that the user names; never keys, never the home's address.
#[test]
fn r38_a_command_receives_no_keys_no_sockets_and_not_the_home() {
    let secrets =
        ["SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "STRIPE_API_KEY", "DATABASE_URL", "OPENAI_API_KEY"];
    let mut home = Home::new()
        .with("LIMULUS_AGENTS__MAIN__MODEL", "offline/offline")
        .with("TZ", "UTC")
        .with("LC_TIME", "C")
        .with("MINE_A", "a")
        .with("MINE_B", "b")
        .with("OTHER", "o");
    for name in secrets {
        home = home.with(name, "value-of-a-secret");
    }
    let names = |home: &Home| {
        home.run(&["agent", "--yes", "--session", "new", "-m", "run `env > seen`"]).expect_code(0);
        let seen = home.text("seen");
        assert!(!seen.contains("value-of-a-secret") && !seen.contains("LIMULUS_"), "{seen}");
        assert!(!seen.contains(home.path().to_str().unwrap_or("?")), "{seen}");
        seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    let seen = names(&home);
    for name in ["PATH", "HOME", "LANG", "LC_TIME", "TZ"] {
        assert!(seen.iter().any(|seen| seen == name), "{name}: {seen:?}");
    }
    assert!(!seen.iter().any(|seen| seen.starts_with("MINE") || seen == "OTHER"), "{seen:?}");
    let home = home.with("LIMULUS_TOOLS__EXEC__ENV", "MINE_*,OPENAI_API_KEY,LIMULUS_HOME");
    let seen = names(&home);
    assert!(["MINE_A", "MINE_B"].iter().all(|name| seen.iter().any(|seen| seen == name)), "{seen:?}");
    assert!(!seen.iter().any(|seen| seen == "OTHER"), "{seen:?}");
}

/// A process as a user that is not root, who owns everything of the home. Root may read everything of everyone.
fn as_nobody(home: &Home, words: &[&str]) -> Process {
    let mut command = home.program(PROGRAM, words);
    if geteuid().is_root() {
        fs::create_dir_all(home.path()).expect("a home");
        for path in [home.user().to_owned(), home.path(), home.file("")] {
            chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    Process::spawn(command)
}

/// R38: the environment, the memory and the files of the owner and of a supervisor cannot be read by a command.
#[test]
fn r38_a_command_reads_neither_the_owner_nor_its_supervisor_in_proc() {
    let home = Home::new()
        .with("OPENAI_API_KEY", "sk-a-key-of-the-test-4711")
        .with("LIMULUS_AGENTS__MAIN__MODEL", "offline/offline");
    home.put(
        "attack",
        "O=$(cut -d' ' -f4 /proc/$PPID/stat)
         for p in $O $PPID; do
           cat /proc/$p/environ && echo leak
           head -c 1 /proc/$p/mem; cat /proc/$p/maps && echo leak
           ls /proc/$p/fd && echo leak; ls -l /proc/$p/exe >/dev/null 2>&1; readlink /proc/$p/cwd && echo leak
           cat /proc/$p/auxv && echo leak; cat /proc/$p/fd/0 && echo leak
         done > read 2> refused
         cat /proc/$O/comm /proc/$PPID/comm > names",
    );
    let agent = as_nobody(&home, &["agent", "--yes", "-m", "run `exec sh ./attack`"]);
    agent.finish().expect_code(0);
    let (read, refused) = (home.text("read"), home.text("refused"));
    assert!(!read.contains("leak") && !read.contains("4711"), "{read}");
    assert!(refused.matches("Permission denied").count() >= 10, "{refused}");
    assert_eq!(home.text("names"), "limulus\ncall-supervisor\n", "it looked at the right ones");
}

/// R11: who is not root finds the owner although that hides its files.
#[test]
fn r11_the_owner_is_found_although_it_hides_its_files() {
    let home = Home::new();
    let owner = as_nobody(&home, &["serve"]);
    owner.until_err("serving");
    let status = as_nobody(&home, &["status", "--json"]).finish().expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.out).expect("JSON");
    assert_eq!(status["owner"]["pid"].as_u64(), Some(u64::from(owner.pid())), "{status}");
    owner.kill();
    // The number of the dead owner now belongs to a living process of the same user, which has not locked the file.
    let other = as_nobody(&home, &["serve"]);
    other.until_err("serving");
    let lock = home.path().join("owner.lock");
    let text = fs::read_to_string(&lock).expect("a lock");
    other.kill();
    let mut sleeper = std::process::Command::new("sleep");
    sleeper.arg("300");
    if geteuid().is_root() {
        sleeper.uid(NOBODY).gid(NOBODY);
    }
    let mut sleeper = sleeper.spawn().expect("sleep can be started");
    let mut lines = text.lines();
    lines.next();
    let rest: Vec<&str> = lines.collect();
    fs::write(&lock, format!("{}\n{}\n", sleeper.id(), rest.join("\n"))).expect("it can be written");
    let status = as_nobody(&home, &["status", "--json"]).finish().expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.out).expect("JSON");
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    assert!(status["owner"].is_null(), "{status}");
}

/// R60: a command acts over the socket neither as the user nor otherwise, however it hides where it comes from; it may read.
#[test]
fn r60_a_command_does_not_act_over_the_socket_of_its_home() {
    let home = Home::new().with("LIMULUS_TOOLS__EXEC__POLICY", "allow");
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    home.run(&["send", "--session", "other", HOLD]).expect_code(0);
    let run = home.json(&["runs", "list", "--session", "other"])[0]["run"].as_str().expect("a run").to_owned();
    let limulus = format!("LIMULUS_HOME={} {PROGRAM}", home.path().display());
    let acts = [
        "send --session third hello".to_owned(),
        format!("runs abort {run}"),
        format!("runs pause {run}"),
        format!("runs steer {run} stop"),
        "sessions end other".to_owned(),
        "sessions compact other".to_owned(),
        "queue mode other steer".to_owned(),
        "budget set other --tokens 5".to_owned(),
        "profiles clear".to_owned(),
        "agent --session fourth -m hello".to_owned(),
    ];
    let lines = acts.iter().enumerate();
    let lines = lines.map(|(number, act)| format!("{limulus} {act} > said.{number} 2>&1; echo $? > code.{number}\n"));
    let script: String = lines.chain([format!("{limulus} runs list > read; echo $? > code.read\n")]).collect();
    home.put("acts", &script);
    // Once as it is, once without the mark and with its parent gone.
    home.put("attack", "sh ./acts; mkdir first; mv said.* code.* first; (env -i PATH=\"$PATH\" setsid sh -c '(sh ./acts; echo x > done) &' &); \
                       until test -s done; do sleep 0.02; done");
    home.run(&["send", "--session", "attack", "run `exec sh ./attack`"]).expect_code(0);
    home.run(&["runs", "wait", "--session", "attack"]).expect_code(0);
    for at in ["first/", ""] {
        for (number, act) in acts.iter().enumerate() {
            let (said, code) = (home.text(&format!("{at}said.{number}")), home.text(&format!("{at}code.{number}")));
            assert!(!code.is_empty() && code != "0\n", "{act}: {said}");
            assert!(said.contains("inside a tool call") || code == "2\n", "{act}: {code} {said}");
        }
        assert_eq!(home.text(&format!("{at}code.read")), "0\n", "reading is allowed");
    }
    assert!(home.text("first/said.0").contains("may not use `agent`"), "{}", home.text("first/said.0"));
    let runs = home.json(&["runs", "list"]);
    let sessions: Vec<&str> =
        runs.as_array().expect("a list").iter().filter_map(|run| run["session"].as_str()).collect();
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    home.put("go", "");
    home.run(&["runs", "wait", "--session", "other"]).expect_code(0);
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}

/// Every process below this one.
fn below(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let listed = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default() + " ");
    let listed: String = listed.collect();
    let children = listed.split_whitespace().filter_map(|pid| pid.parse().ok());
    children.flat_map(|pid| [vec![pid], below(pid)].concat()).collect()
}

/// R13: `pkill -9 limulus` ends owners. Neither the name nor the first word of a supervisor contains it, so the command goes
/// on, and the next owner takes its result.
#[test]
fn r13_pkill_limulus_ends_no_supervisor() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    until("its command", || pids(&home.file("pids")).len() == 1);
    let tree = [vec![agent.pid()], below(agent.pid())].concat();
    assert!(tree.len() >= 3, "{tree:?}");
    let name = |pid: u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        format!("{comm} {}", String::from_utf8_lossy(&first))
    };
    let named: Vec<u32> = tree.iter().copied().filter(|pid| name(*pid).contains("limulus")).collect();
    assert_eq!(named, [agent.pid()], "{:?}", tree.iter().map(|pid| name(*pid)).collect::<Vec<_>>());
    for pid in named {
        kill_process(Pid::from_raw(pid as i32).expect("a pid is not 0"), Signal::KILL).expect("it is there");
    }
    agent.finish();
    assert!(pids(&home.file("pids")).into_iter().all(is_alive));
    home.put("go", "");
    home.run(&["resume"]).expect_code(0);
    assert_eq!(pids(&home.file("pids")).len(), 1, "it ran once");
}
