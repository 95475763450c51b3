//! A command in a sandbox behaves as one without: exit codes, signals, streams, and the tools of every day.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::processes::marked;
use crate::support::{BOTH, ONLY_A, World, each};

#[test]
fn exit_codes_are_handed_on() {
    each(&BOTH, |world| {
        for code in [0, 1, 7, 125, 126, 127, 255] {
            let (output, report) = world.run_reported(&world.profile(), &["sh", "-c", &format!("exit {code}")]);
            assert_eq!(output.status.code(), Some(code), "{}", world.name());
            assert_eq!(report.state, confine::ConfineState::Confined);
        }
    });
}

#[test]
fn signals_that_end_a_command_are_handed_on() {
    let signals =
        [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGSEGV, Signal::SIGPIPE, Signal::SIGUSR1, Signal::SIGABRT];
    each(&BOTH, |world| {
        for signal in signals {
            let output = world.run(&format!("kill -{} $$", signal as i32));
            assert_eq!(output.status.signal(), Some(signal as i32), "{}{output:?}", world.name());
            assert!(!output.status.core_dumped());
        }
    });
}

#[test]
fn the_streams_are_those_of_the_command() {
    each(&BOTH, |world| {
        let mut command = world.command(&world.profile(), &["sh", "-c", "tr a-z A-Z; echo problem >&2"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"text\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b"TEXT\n"[..], &b"problem\n"[..]), "{}", world.name());
    });
}

#[test]
fn the_environment_is_the_given_one() {
    each(&BOTH, |world| {
        let names = world
            .succeed("env | cut -d= -f1 | grep -v -e ^GIT_ -e ^_ -e ^PWD -e ^OLDPWD -e ^SHLVL | sort | tr '\\n' ' '");
        assert_eq!(names, "HOME OUT PATH SECRET TEMP TMP TMPDIR WORK", "{}", world.name());
        assert_eq!(
            world.succeed("echo $TMPDIR; pwd"),
            format!("{}\n{}", world.at("temporary").display(), world.at("work").display())
        );
    });
}

/// A variable of the command that makes programs load code has no effect on the processes around it.
#[test]
fn a_preloaded_library_is_loaded_by_the_command_only() {
    each(&BOTH, |world| {
        let environment =
            [("LD_PRELOAD", "/absent.so"), ("PATH", "/usr/bin:/bin")].map(|(name, value)| (name.into(), value.into()));
        let profile = world.profile();
        let mut command = profile.command(&world.launcher(), "true".as_ref(), [], environment).unwrap();
        world.user.become_it(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).matches("/absent.so").count(), 1, "{output:?}");
    });
}

#[test]
fn tools_of_every_day_work() {
    each(&BOTH, |world| {
        assert_eq!(world.succeed("echo $((1+1))"), "2");
        assert_eq!(world.succeed("printf 'b\\na\\n' | sort | tr '\\n' ' '"), "a b");
        assert_eq!(world.succeed("cat <<END\ntext\nEND"), "text");
        world.succeed("f=$(mktemp) && echo x >$f && test -s $f && rm $f");
        world
            .succeed("mkdir -p a/b && echo x >a/b/c && cp -r a d && mv d e && chmod 755 e && touch e/b/c && rm -r a e");
        world.succeed("echo x >/dev/null && head -c 4 /dev/urandom >/dev/null && echo x | cat /dev/stdin >/dev/null");
        world.succeed("sleep 0 & wait; (exit 3) || true; perl -e 'exit(fork() // die)' || true");
        world.succeed("ls /tmp >/dev/null; ls /usr/bin >/dev/null; id -u; uname -a; date; cat /etc/passwd >/dev/null");
    });
    each(&ONLY_A, |world| {
        world.succeed("ls / ~ >/dev/null && echo x >/dev/shm/x && script -qc true /dev/null >/dev/null");
    });
}

/// A started command that has said that it is ready.
fn started(world: &World, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = world.command(&world.profile(), &["sh", "-c", script]);
    let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "{}", world.name());
    (child, output)
}

#[test]
fn a_signal_to_the_outer_process_reaches_the_command() {
    each(&BOTH, |world| {
        for to_group in [false, true] {
            let script = "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.01; done";
            let (mut child, mut output) = started(world, script);
            let pid = Pid::from_raw(child.id().cast_signed());
            if to_group {
                killpg(pid, Signal::SIGTERM).unwrap();
            } else {
                kill(pid, Signal::SIGTERM).unwrap();
            }
            assert_eq!(child.wait().unwrap().code(), Some(9), "{}", world.name());
            let mut rest = String::new();
            output.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "asked\n", "once");
        }
    });
}

/// What the shell has started gets it too, so it does not go on alone.
#[test]
fn a_signal_ends_a_shell_with_what_it_waits_for() {
    each(&ONLY_A, |world| {
        let (mut child, _output) = started(world, "echo ready; sleep 1000; echo over");
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32), "{}", world.name());
    });
}

#[test]
fn nothing_survives_the_outer_process() {
    each(&ONLY_A, |world| {
        let mark = format!("limulus-kill-{}-{:?}", std::process::id(), world.user);
        let script = format!("export MARK={mark}; setsid sleep 1000 & sleep 1000 & echo ready; wait");
        let (mut child, mut output) = started(world, &script);
        // Until both have executed their program.
        while marked(&mark).len() < 2 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let killed = std::time::Instant::now();
        while !marked(&mark).is_empty() {
            assert!(killed.elapsed().as_secs() < 20, "{:?} survived", marked(&mark));
            std::thread::yield_now();
        }
        // The pipe is closed by the last process that has it.
        output.read_to_string(&mut String::new()).unwrap();
    });
}

/// PID 1 inside can be killed from outside; the command is gone then, and the end says so.
#[test]
fn the_end_of_the_first_process_inside_is_reported() {
    each(&ONLY_A, |world| {
        let (mut child, mut output) = started(world, "echo ready; sleep 1000");
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()));
        let Ok(children) = children else { return eprintln!("skipped: this kernel does not list children") };
        kill(Pid::from_raw(children.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
        let end = child.wait().unwrap();
        assert_eq!(end.signal(), Some(libc::SIGKILL), "{end:?}");
        output.read_to_string(&mut String::new()).unwrap();
    });
}

#[test]
fn ends_of_foreign_processes_do_not_end_the_command() {
    each(&ONLY_A, |world| {
        let script = "for i in 1 2 3 4 5; do (setsid sh -c 'exit 4' &) ; done; echo end; exit 6";
        let output = world.run(script);
        assert_eq!((output.status.code(), &*output.stdout), (Some(6), &b"end\n"[..]), "{}", world.name());
    });
}
