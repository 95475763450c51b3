//! A sandbox that cannot be set up never runs the command, and says so.

use std::fs;
use std::process::Command;

use confine::{ConfineReport, ConfineState, Profile, SetupStep, Tier};

use crate::support::{BOTH, ONLY_A, User, each};

/// Where the kernel has user namespaces, the strongest sandbox is there; otherwise these tests would pass by skipping all.
#[test]
fn the_probe_finds_what_the_kernel_has() {
    for user in User::all() {
        let support = user.support();
        eprintln!("{user:?}: {support:?}");
        let most = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
        let restricted =
            fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").unwrap_or_default();
        let forbidden = fs::read_to_string("/proc/sys/kernel/unprivileged_userns_clone").unwrap_or_default();
        if most.trim() != "0" && restricted.trim() != "1" && forbidden.trim() != "0" && support.layers.landlock_abi > 0
        {
            assert_eq!(support.tier(), Tier::A, "{support:?}");
        }
    }
}

fn failure(world: &crate::support::World, profile: &Profile, argv: &[&str], step: SetupStep, code: i32) {
    let output = world.command(profile, argv).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}{output:?}", world.name());
    assert_eq!(output.stdout, b"", "nothing ran");
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.starts_with("limulus sandbox: ") && line.lines().count() == 1, "{line}");
    match ConfineReport::read(&profile.report).unwrap().state {
        ConfineState::Failed(error) => assert_eq!((error.step, i32::from(error.code)), (step, code), "{line}"),
        ConfineState::Confined => panic!("{line}"),
    }
}

#[test]
fn a_program_that_cannot_be_executed() {
    each(&BOTH, |world| {
        failure(world, &world.profile(), &["limulus-no-such-program"], SetupStep::Command, 127);
        failure(world, &world.profile(), &["/nowhere/program"], SetupStep::Command, 127);
        failure(world, &world.profile(), &["/etc/passwd"], SetupStep::Command, 126);
    });
}

#[test]
fn a_profile_that_cannot_hold() {
    each(&BOTH, |world| {
        let absent = world.at("absent");
        let cases = [
            Profile { workspace: absent.clone(), ..world.profile() },
            Profile { temporary: absent.clone(), ..world.profile() },
            Profile { folder: absent, ..world.profile() },
            Profile { workspace: "work".into(), ..world.profile() },
            Profile { hidden: vec![world.at("work")], ..world.profile() },
            Profile { hidden: vec!["relative".into()], ..world.profile() },
            Profile { tier: Tier::C, ..world.profile() },
            Profile { report: world.work("report.json"), ..world.profile() },
        ];
        for profile in cases {
            failure(world, &profile, &["echo", "ran"], SetupStep::Profile, 125);
        }
    });
}

/// A process that got no profile, or one that it cannot read, does nothing.
#[test]
fn without_a_profile_nothing_runs() {
    each(&ONLY_A, |world| {
        for (variable, text) in [("LIMULUS_CONFINE", "{}"), ("LIMULUS_CONFINE", ""), ("OTHER", "")] {
            for word in ["echo", "--init"] {
                let mut command = Command::new(&world.launcher().executable);
                let output = command.args(["confine", word, "ran"]).env(variable, text).output().unwrap();
                assert_eq!((output.status.code(), &*output.stdout), (Some(125), &b""[..]), "{text}");
            }
        }
    });
}

/// A report that exists is not overwritten: it would be that of another command.
#[test]
fn a_used_report_is_refused() {
    each(&BOTH, |world| {
        let profile = world.profile();
        fs::write(&profile.report, "earlier").unwrap();
        let output = world.command(&profile, &["echo", "ran"]).output().unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(125), &b""[..]));
        assert_eq!(fs::read_to_string(&profile.report).unwrap(), "earlier");
    });
}

/// Inside a sandbox there is no second one, and what failed is said.
#[test]
fn escape_102_a_nested_sandbox_fails_loudly() {
    each(&ONLY_A, |world| {
        let inner =
            Profile { report: world.at("temporary/inner.json"), temporary: world.work("inner"), ..world.profile() };
        world.create_folder("work/inner");
        let command = inner.command(&world.launcher(), "echo".as_ref(), ["ran".into()], []).unwrap();
        let program = command.get_program().to_owned();
        let arguments = command.get_args().map(ToOwned::to_owned);
        let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let outer = world.profile();
        // The variables of the inner one are ordinary variables for the outer one.
        let mut nested = outer.command(&world.launcher(), &program, arguments, variables).unwrap();
        world.user.become_it(&mut nested);
        let output = nested.output().unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(125), &b""[..]), "{}{output:?}", world.name());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("entering a user namespace failed: unshare: EPERM"), "{text}");
    });
}
