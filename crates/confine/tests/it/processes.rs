//! Escapes by way of other processes, inherited descriptors and privileges.

use std::fs::File;
use std::process::{Child, Command, Stdio};

use confine::{ResourceLimits, Tier};

use crate::support::{BOTH, ONLY_A, World, each};

/// A process of the same user outside, with a secret in its environment.
struct Victim(Child);

impl Victim {
    fn of(world: &World) -> Self {
        let mut command = world.bare(&["sh", "-c", "echo ready; exec sleep 1000"]);
        let mut child = command.env("VICTIMS_SECRET", "precious").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        // The name of the program changes after that.
        let comm = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        Self(child)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Tries an escape against a process outside. The control is left out if the kernel forbids it everywhere.
fn refused_with_victim(number: u32, script: &str) {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    each(&BOTH, |world| {
        let victim = Victim::of(world);
        let script = script.replace("VICTIM", &victim.0.id().to_string());
        world.refuse(number, &script);
        if world.user.is_root() || matches!(scope.trim(), "" | "0") {
            world.control(number, &script);
        }
    });
}

#[test]
fn escape_29_the_root_and_folder_of_another_process() {
    refused_with_victim(29, "ls /proc/VICTIM/root/ >/dev/null && cd /proc/VICTIM/cwd");
}

#[test]
fn escape_30_the_environment_of_another_process() {
    refused_with_victim(30, "grep -q precious /proc/VICTIM/environ");
}

#[test]
fn escape_31_the_memory_of_another_process() {
    refused_with_victim(31, r#"perl -e 'open(my $memory, "+<", "/proc/VICTIM/mem") or die'"#);
}

#[test]
fn escape_32_tracing_another_process() {
    const SEIZE: u32 = 0x4206;
    let call = libc::SYS_ptrace;
    refused_with_victim(32, &format!("perl -e 'exit(syscall({call}, {SEIZE}, VICTIM, 0, 0) == -1)'"));
}

#[test]
fn escape_34_signals_to_another_process() {
    refused_with_victim(34, "kill -0 VICTIM");
    refused_with_victim(34, "kill -CONT VICTIM");
}

/// Both processes around a command have the profile in their memory.
#[test]
fn the_processes_of_the_sandbox_cannot_be_read() {
    each(&ONLY_A, |world| {
        world.refuse(30, "cat /proc/1/environ");
        world.refuse(31, r#"perl -e 'open(my $memory, "<", "/proc/1/mem") or die'"#);
        world.refuse(36, "readlink /proc/1/fd/0");
        let processes = world.succeed(r"cd /proc; for p in [0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done");
        assert!(!processes.contains("work") && processes.lines().count() <= 4, "{processes}");
    });
}

#[test]
fn only_own_processes_are_visible() {
    each(&ONLY_A, |world| {
        let own = std::process::id();
        let visible = world.succeed("cd /proc; echo [0-9]*");
        assert!(visible.starts_with("1 ") && visible.split(' ').count() <= 4, "{visible} beside {own}");
    });
}

#[test]
fn escape_35_and_36_inherited_descriptors() {
    each(&BOTH, |world| {
        let profile = world.profile();
        let inner = world.command(&profile, &["sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; cat <&7"]);
        // The shell passes a folder and a file on, without the flag that would close them.
        let mut outer = Command::new("sh");
        outer
            .arg("-c")
            .arg(r#"exec 7<"$FILE" 8<"$FOLDER"; "$@""#)
            .arg("sh")
            .arg(inner.get_program())
            .args(inner.get_args());
        outer.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        outer.env("FILE", world.at("outside/file")).env("FOLDER", world.at("outside"));
        world.user.become_it(&mut outer);
        let output = outer.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "0 1 2 3 ", "3 is the folder that ls lists: {}{output:?}", world.name());
    });
}

#[test]
fn escape_36_a_descriptor_is_opened_again_for_writing() {
    each(&BOTH, |world| {
        let script = "cat >/dev/null; echo x >/proc/self/fd/0";
        let run = |mut command: Command| {
            command.stdin(File::open(world.at("outside/file")).unwrap()).output().unwrap().status.success()
        };
        assert!(!run(world.command(&world.profile(), &["sh", "-c", script])), "{}", world.name());
        assert_eq!(world.read("outside/file"), "precious\n");
        assert!(run(world.bare(&["sh", "-c", script])));
    });
}

#[test]
fn escape_53_no_privileges_can_be_gained() {
    each(&BOTH, |world| {
        let status = world.succeed("cat /proc/self/status");
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name}: {status}")).trim().to_owned()
        };
        assert_eq!(value("NoNewPrivs:"), "1");
        assert_eq!(value("Seccomp:"), "2");
        for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            assert_eq!(value(set), "0000000000000000", "{set} {}", world.name());
        }
        // Without a user namespace, another user than root may not change it.
        if world.tier == Tier::A || world.user.is_root() {
            assert_eq!(value("CapBnd:"), "0000000000000000", "{}", world.name());
        }
    });
}

#[test]
fn escape_60_what_left_its_session_ends_with_the_command() {
    each(&ONLY_A, |world| {
        let mark = format!("limulus-mark-{}-{:?}", std::process::id(), world.user);
        let script = format!(
            "(setsid sh -c 'exec env MARK={mark} sleep 1000' >/dev/null 2>&1 &) ; \
            until grep -qs {mark} /proc/[0-9]*/environ; do :; done; echo started"
        );
        assert_eq!(world.succeed(&script), "started");
        assert_eq!(marked(&mark), Vec::<u32>::new(), "{}", world.name());
    });
}

/// The processes of the machine with a word in their environment.
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_mark = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark)
    };
    pids.filter(has_mark).collect()
}

#[test]
fn escape_62_limits_of_resources() {
    each(&BOTH, |world| {
        let limits = ResourceLimits { file_bytes: Some(10_000), open_files: Some(20), ..ResourceLimits::default() };
        let profile = confine::Profile { limits, ..world.profile() };
        let script = "ulimit -n; ulimit -c; trap '' XFSZ; head -c 20000 /dev/urandom >large; stat -c %s large";
        let output = world.command(&profile, &["sh", "-c", script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "20\n0\n10000\n", "{}{output:?}", world.name());
    });
}

/// Only the processes of the sandbox count, and only for a user who is not root.
#[test]
fn escape_62_a_fork_bomb_of_another_user_than_root() {
    each(&ONLY_A, |world| {
        if world.user.is_root() {
            return;
        }
        let _others = [Victim::of(world), Victim::of(world), Victim::of(world)];
        let bomb = "use strict; my $n = 0; while ($n < 100) { my $p = fork; last if !defined $p; if (!$p) { sleep 1000 } $n++ } print $n";
        let limits = ResourceLimits { processes: Some(10), ..ResourceLimits::default() };
        let profile = confine::Profile { limits, ..world.profile() };
        let output = world.command(&profile, &["perl", "-e", bomb]).output().unwrap();
        let count: u32 = String::from_utf8_lossy(&output.stdout).parse().unwrap();
        assert!((5..10).contains(&count), "{count}: {output:?}");
    });
}
